"""Ways into a control plane: kubeconfig files, and plain requests for tests that want to see the status code."""

import http.client
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

MERGE_PATCH = "application/merge-patch+json"


class Answer(NamedTuple):
    """What the API server said: the status code, and the object or the Status that explains."""

    status: int
    body: Any


def write_kubeconfig(path: Path, url: str, ca: Path, user: Mapping[str, str], namespace: str = "default") -> Path:
    """A kubeconfig with one context; `user` is its user entry, such as a token or the files of a client certificate."""
    name = "muster-e2e"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority": str(ca)}}],
        "users": [{"name": name, "user": dict(user)}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
    }
    path.touch(mode=0o600)
    # JSON is YAML; every reader of kubeconfigs takes it.
    path.write_text(json.dumps(config, indent=1))
    return path


class Requests:
    """Plain requests as one user, each on its own connection, so that a restarted server is no surprise."""

    def __init__(self, url: str, ca: Path, certificate: tuple[Path, Path] | None = None, token: str = "") -> None:
        address = urlsplit(url)
        assert address.hostname
        assert address.port
        self._address = (address.hostname, address.port)
        self._tls = ssl.create_default_context(cafile=str(ca))
        self._token = token
        if certificate:
            self._tls.load_cert_chain(*certificate)

    def connection(self, wait_s: float | None = None) -> http.client.HTTPSConnection:
        """A connection for those who read an answer bit by bit; without a limit it waits for ever."""
        return http.client.HTTPSConnection(*self._address, timeout=wait_s, context=self._tls)

    def __call__(
        self, method: str, path: str, body: object = None, content_type: str = "application/json", wait_s: float = 30
    ) -> Answer:
        """Send one request and read the whole answer; OSError when nobody answers."""
        headers = {"Accept": "application/json", "Content-Type": content_type}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        connection = self.connection(wait_s)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read().decode()
        except http.client.HTTPException as broken:
            raise OSError(f"{method} {path}: {broken!r}") from broken
        finally:
            connection.close()
        is_json = "json" in (response.getheader("Content-Type") or "")
        return Answer(response.status, json.loads(text) if is_json else text)
