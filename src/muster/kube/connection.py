"""Where an API server is and how to speak to it, as a value; and the connection of a pod to its own cluster."""

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from muster.errors import UsageError
from muster.kube.clock import Clock, SystemClock
from muster.kube.credentials import Credentials, Files, KeyPair, load_pair, read_secret

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Tls(NamedTuple):
    """How the server proves who it is. Without authorities the machine's own are trusted.

    The authorities in a file are read again with each new context, as they rotate too.
    """

    authorities: bytes = b""
    authorities_file: Path | None = None
    insecure: bool = False
    server_name: str = ""

    def context(self, pair: KeyPair | None = None) -> ssl.SSLContext:
        """A context for new connections, with our certificate where there is one. Raises UsageError."""
        authorities = self.authorities
        if self.authorities_file is not None and not authorities:
            authorities = read_secret(self.authorities_file, "the certificate authority")
        try:
            context = ssl.create_default_context(cadata=authorities.decode("ascii") if authorities else None)
        except (ssl.SSLError, ValueError) as error:
            where = f"{self.authorities_file}: " if self.authorities_file else ""
            raise UsageError(
                f"{where}the certificate authority is not PEM: {error}", "get the kubeconfig anew"
            ) from None
        # Authorities of many clusters lack extensions that newer versions of Python insist on.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if pair is not None:
            load_pair(context, pair)
        return context


class Connection(NamedTuple):
    """An API server: its address, TLS, who we are there, the namespace of the context, and the context's name."""

    server: str
    tls: Tls | None
    credentials: Credentials
    namespace: str = "default"
    context: str = ""
    proxy: str = ""
    # Whether it is that of the pod we run in.
    in_pod: bool = False


def checked_server(server: str, where: str) -> str:
    """The address of a server, without a slash at its end. Raises UsageError when it is none."""
    address = server if "://" in server else f"https://{server}"
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or parts.username or parts.query or parts.fragment or not address.isprintable() or " " in address:
        raise UsageError(f"{where}: server {server!r} is not an address", "write it as https://host:port")
    return address.rstrip("/")


def proxy_for(server: str, proxy: str, where: str) -> str:
    """The proxy on the way to the server: the one that is given, or what HTTPS_PROXY and NO_PROXY say."""
    if not proxy:
        parts = urlsplit(server)
        if parts.hostname in ("localhost", "127.0.0.1", "::1"):
            return ""
        proxy = "" if proxy_bypass(parts.netloc) else getproxies_environment().get(parts.scheme, "")
        where = f"{parts.scheme.upper()}_PROXY"
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        raise UsageError(f"{where}: the proxy {proxy!r} is not supported", "use an http:// or https:// proxy")
    return proxy


def in_cluster(
    environ: Mapping[str, str] | None = None, folder: Path = SERVICE_ACCOUNT, clock: Clock | None = None
) -> Connection:
    """The connection of a pod, by its service account. Raises UsageError outside of a cluster."""
    environ = os.environ if environ is None else environ
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise UsageError("not in a cluster: KUBERNETES_SERVICE_HOST and _PORT are not set", "name a kubeconfig")
    source = Files(clock or SystemClock(), token=folder / "token")
    tls = Tls(authorities_file=folder / "ca.crt")
    tls.context()
    read_secret(folder / "token", "the token of the service account")
    namespace = folder / "namespace"
    name = read_secret(namespace, "the namespace").decode("utf-8", "replace").strip() if namespace.exists() else ""
    server = checked_server(f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", "in-cluster")
    return Connection(
        server,
        tls,
        Credentials(source, origin=f"the service account's token in {folder / 'token'}"),
        name or "default",
        "in-cluster",
        proxy_for(server, "", "in-cluster"),
        in_pod=True,
    )
