"""Kubeconfig files: found, read, put together, and one context of them made into a `Connection`.

Several files count as one; what stands first wins. Only the context that is asked for must be right, with its cluster
and its user: a mistake elsewhere in the file costs nothing.
"""

import base64
import binascii
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from muster.api.documents import Limits, read, shown
from muster.api.nearest import Nearest
from muster.errors import UnreadableInput, UsageError
from muster.kube.clock import Clock, SystemClock
from muster.kube.connection import Connection, Tls, checked_server, in_cluster, proxy_for
from muster.kube.credentials import ANONYMOUS, Credentials, Files, Fixed, KeyPair, Secret, read_secret
from muster.kube.plugin import ExecConfig, ExecPlugin

_LIMITS = Limits(max_file_bytes=4 * 1024 * 1024, max_documents=2, max_document_bytes=4 * 1024 * 1024, max_depth=50)
_EXTENSION = "client.authentication.k8s.io/exec"

T = TypeVar("T")


class _Cluster(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    extensions: list[dict[str, Any]] = []


class _User(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    impersonate: str = msgspec.field(default="", name="as")
    impersonate_uid: str = msgspec.field(default="", name="as-uid")
    impersonate_groups: list[str] = msgspec.field(default=[], name="as-groups")
    impersonate_extra: dict[str, list[str]] = msgspec.field(default={}, name="as-user-extra")
    username: str = ""
    password: str = ""
    auth_provider: dict[str, Any] | None = None
    exec: ExecConfig | None = None


class _Context(msgspec.Struct, frozen=True, kw_only=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _Entry(NamedTuple):
    """A named thing in a file, not yet looked at."""

    file: Path
    name: str
    value: Any

    def where(self, what: str) -> str:
        return f"{self.file}: {what} {shown(self.name)}"


class Kubeconfig(NamedTuple):
    """All files together, and the places that were looked at."""

    files: list[Path]
    current: str
    contexts: dict[str, _Entry]
    clusters: dict[str, _Entry]
    users: dict[str, _Entry]

    @property
    def origin(self) -> str:
        """The files, in one word for sentences."""
        return ", ".join(map(str, self.files))


def connect(
    path: Path | None = None,
    context: str = "",
    *,
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
    clock: Clock | None = None,
    terminal: bool | None = None,
) -> Connection:
    """The connection that is meant: of the file that is named, else of KUBECONFIG, else of ~/.kube/config, else that
    of the pod we run in. Raises UsageError that says what to mend.
    """
    environ = os.environ if environ is None else environ
    found = load(path, environ=environ, home=home)
    if found is None and not context and environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(environ, clock=clock)
    if found is None:
        places = ", ".join(map(str, _places(path, environ, home)))
        raise UsageError(f"there is no kubeconfig: looked at {places}", "set KUBECONFIG, or name the file")
    return connection(found, context, clock=clock, terminal=terminal)


def _places(path: Path | None, environ: Mapping[str, str], home: Path | None) -> list[Path]:
    if path is not None:
        return [path]
    named = [Path(name).expanduser() for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    return named or [(home or Path.home()) / ".kube" / "config"]


def load(
    path: Path | None = None, *, environ: Mapping[str, str] | None = None, home: Path | None = None
) -> Kubeconfig | None:
    """All kubeconfig files together, or None when none exists. A file that is named outright must exist."""
    together = Kubeconfig([], "", {}, {}, {})
    current = ""
    for file in _places(path, os.environ if environ is None else environ, home):
        if path is None and not file.exists():
            continue
        value = _read(file)
        together.files.append(file)
        given = value.get("current-context")
        current = current or (given if isinstance(given, str) else "")
        parts = (("contexts", "context"), ("clusters", "cluster"), ("users", "user"))
        for (plural, one), entries in zip(parts, together[2:], strict=True):
            _collect(file, value.get(plural), plural, one, entries)
    return together._replace(current=current) if together.files else None


def _read(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as opened:
            documents = read(opened.read(_LIMITS.max_file_bytes + 1), _LIMITS)
    except OSError as error:
        raise UsageError(f"{file}: can't be read: {error.strerror or error}", "mend the path or its rights") from None
    except UnreadableInput as error:
        raise UsageError(f"{file}: {error.message}", "this must be another file") from None
    if not documents:
        return {}
    problem = next(iter(documents[0].problems), None)
    if problem is not None:
        raise UsageError(f"{file}: {problem.path} {problem.message}".replace(":  ", ": "), problem.hint)
    value = documents[0].value
    if len(documents) > 1 or not isinstance(value, dict):
        what = "holds more than one document" if len(documents) > 1 else f"is not a kubeconfig but {shown(value)}"
        raise UsageError(f"{file}: {what}", "a kubeconfig has clusters, users and contexts")
    return value


def _collect(file: Path, listed: Any, plural: str, one: str, entries: dict[str, _Entry]) -> None:
    if listed is None:
        return
    if not isinstance(listed, list):
        raise UsageError(f"{file}: {plural} is not a list but {shown(listed)}", "each entry starts with - name:")
    here: set[str] = set()
    for item in listed:
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str):
            continue
        if name in here:
            raise UsageError(f"{file}: {plural} has two entries {shown(name)}", "keep one")
        here.add(name)
        entries.setdefault(name, _Entry(file, name, item.get(one)))


def connection(
    config: Kubeconfig, context: str = "", *, clock: Clock | None = None, terminal: bool | None = None
) -> Connection:
    """The connection of a context, or of the current one. Raises UsageError."""
    name = context or config.current
    if not name:
        known = ", ".join(sorted(config.contexts)[:10]) or "there is none"
        raise UsageError(f"{config.origin}: no current-context", f"name a context: {known}")
    chosen = _pick(config, config.contexts, name, "context", _Context)
    cluster_entry = config.clusters.get(chosen.cluster)
    cluster = _pick(config, config.clusters, chosen.cluster, "cluster", _Cluster)
    assert cluster_entry is not None
    where = cluster_entry.where("cluster")
    if not cluster.server:
        raise UsageError(f"{where} has no server", "write it as https://host:port")
    server = checked_server(cluster.server, where)
    tls = _tls(cluster, cluster_entry) if server.startswith("https:") else None
    if tls is not None and (tls.authorities or tls.authorities_file):
        _blame(where, tls.context)
    credentials = ANONYMOUS
    if chosen.user:
        user = _pick(config, config.users, chosen.user, "user", _User)
        told = _told(cluster, server, tls)
        talks = sys.stdin is not None and sys.stdin.isatty() if terminal is None else terminal
        credentials = _credentials(user, config.users[chosen.user], told, clock or SystemClock(), terminal=talks)
    proxy = proxy_for(server, cluster.proxy_url, where)
    return Connection(server, tls, credentials, chosen.namespace or "default", name, proxy)


def _blame(where: str, check: Any) -> None:
    try:
        check()
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", error.hint) from None


def _pick(config: Kubeconfig, entries: dict[str, _Entry], name: str, what: str, struct: type[T]) -> T:
    entry = entries.get(name)
    if entry is None:
        near = Nearest(entries).to(name)
        known = ", ".join(sorted(entries)[:10]) or "there is none"
        hint = f"did you mean {near}?" if near else f"known: {known}"
        raise UsageError(f"{config.origin}: there is no {what} {shown(name)}", hint)
    try:
        return msgspec.convert(_without_null(entry.value), struct)
    except msgspec.ValidationError as error:
        # A value that is no text is mostly a token or a password that looks like a number.
        message = str(error).replace("$", what, 1) if "$" in str(error) else str(error)
        raise UsageError(f"{entry.where(what)}: {message}", "put text in quotes") from None


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    return [_without_null(item) for item in value] if isinstance(value, list) else ({} if value is None else value)


def _data(text: str, where: str, what: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise UsageError(f"{where}: {what} is not base64", "write the PEM file through base64") from None


def _file(entry: _Entry, path: str) -> Path:
    return Path(os.path.abspath(entry.file.parent / path))


def _tls(cluster: _Cluster, entry: _Entry) -> Tls:
    where = entry.where("cluster")
    given = bool(cluster.certificate_authority or cluster.certificate_authority_data)
    if cluster.insecure_skip_tls_verify and given:
        raise UsageError(f"{where} has an authority and insecure-skip-tls-verify", "remove insecure-skip-tls-verify")
    data = b""
    if cluster.certificate_authority_data:
        data = _data(cluster.certificate_authority_data, where, "certificate-authority-data")
    path = _file(entry, cluster.certificate_authority) if cluster.certificate_authority and not data else None
    return Tls(data, path, cluster.insecure_skip_tls_verify, cluster.tls_server_name)


def _told(cluster: _Cluster, server: str, tls: Tls | None) -> dict[str, Any]:
    """The cluster, as a plugin is told of it."""
    told: dict[str, Any] = {"server": server}
    if cluster.tls_server_name:
        told["tls-server-name"] = cluster.tls_server_name
    if cluster.insecure_skip_tls_verify:
        told["insecure-skip-tls-verify"] = True
    if tls is not None and (tls.authorities or tls.authorities_file):
        data = tls.authorities or read_secret(tls.authorities_file or Path(), "the certificate authority")
        told["certificate-authority-data"] = base64.b64encode(data).decode()
    if cluster.proxy_url:
        told["proxy-url"] = cluster.proxy_url
    for extension in cluster.extensions:
        if extension.get("name") == _EXTENSION:
            told["config"] = extension.get("extension")
    return told


def _credentials(user: _User, entry: _Entry, cluster: dict[str, Any], clock: Clock, *, terminal: bool) -> Credentials:
    where = entry.where("user")
    if user.auth_provider is not None:
        provider = shown(user.auth_provider.get("name"))
        raise UsageError(f"{where} uses the auth-provider {provider}, which no longer exists", "use exec instead")
    headers = _impersonation(user, where)
    if user.username or user.password:
        if user.token or user.token_file:
            raise UsageError(f"{where} has a token and a password", "keep one of them")
        basic = base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
        headers.append(("Authorization", f"Basic {basic}"))
    for text in (user.token, *(value for _, value in headers)):
        if not text.isprintable() or not text.isascii():
            raise UsageError(f"{where}: a token or name holds what no header can", "it must be one line of plain text")
    pair, pair_files = _pair(user, entry)
    if user.token_file or pair_files:
        token = _file(entry, user.token_file) if user.token_file else None
        files = Files(clock, token=token, pair=pair_files)
        _blame(where, files.read)
        source: Any = files if token or not user.token else _Both(files, user.token)
    elif user.exec is not None and not (user.token or pair or user.username):
        exec_config = user.exec
        if "/" in exec_config.command:
            exec_config = msgspec.structs.replace(exec_config, command=str(_file(entry, exec_config.command)))
        source = ExecPlugin(exec_config, cluster, clock, where=where, terminal=terminal)
    else:
        source = Fixed(Secret(user.token, pair))
    return Credentials(source, headers, origin=where)


class _Both:
    """A certificate from files that rotate, and a token that does not."""

    def __init__(self, files: Files, token: str) -> None:
        self._files = files
        self._token = token

    async def current(self) -> Secret:
        return (await self._files.current())._replace(token=self._token)

    async def renewed(self, refused: Secret) -> bool:
        return await self._files.renewed(refused._replace(token=""))


def _pair(user: _User, entry: _Entry) -> tuple[KeyPair | None, tuple[Path, Path] | None]:
    where = entry.where("user")
    certificate = user.client_certificate_data or user.client_certificate
    if not certificate and not (user.client_key_data or user.client_key):
        return None, None
    if not certificate or not (user.client_key_data or user.client_key):
        missing = "client-key" if certificate else "client-certificate"
        raise UsageError(f"{where} has no {missing}", "a client certificate and its key go together")
    if not user.client_certificate_data and not user.client_key_data:
        return None, (_file(entry, user.client_certificate), _file(entry, user.client_key))
    pair = KeyPair(
        _data(user.client_certificate_data, where, "client-certificate-data")
        if user.client_certificate_data
        else read_secret(_file(entry, user.client_certificate), "the client certificate"),
        _data(user.client_key_data, where, "client-key-data")
        if user.client_key_data
        else read_secret(_file(entry, user.client_key), "the key of the client certificate"),
    )
    _blame(where, lambda: Tls().context(pair))
    return pair, None


def _impersonation(user: _User, where: str) -> list[tuple[str, str]]:
    others = user.impersonate_uid or user.impersonate_groups or user.impersonate_extra
    if others and not user.impersonate:
        raise UsageError(f"{where} has as-uid, as-groups or as-user-extra without as", "name the user in as")
    headers = [("Impersonate-User", user.impersonate)] if user.impersonate else []
    if user.impersonate_uid:
        headers.append(("Impersonate-Uid", user.impersonate_uid))
    headers += [("Impersonate-Group", group) for group in user.impersonate_groups]
    for key, values in user.impersonate_extra.items():
        if not key.isascii() or not key.replace("-", "").replace("_", "").replace(".", "").isalnum():
            raise UsageError(f"{where}: as-user-extra {shown(key)} can't be sent", "use letters, digits and - _ .")
        headers += [(f"Impersonate-Extra-{key}", value) for value in values]
    return headers
