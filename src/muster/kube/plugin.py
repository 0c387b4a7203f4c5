"""Exec plugins: a program that prints credentials (client.authentication.k8s.io/v1 and v1beta1)."""

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from muster.api.documents import shown
from muster.errors import UsageError
from muster.kube.clock import Clock
from muster.kube.credentials import KeyPair, Secret

GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
MODES = ("Never", "IfAvailable", "Always")
_MAX_OUTPUT_BYTES = 1024 * 1024
_SHOWN_ERROR_BYTES = 400


class Variable(msgspec.Struct, frozen=True, kw_only=True):
    """A variable that the plugin sees."""

    name: str
    value: str = ""


class ExecConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The `exec` part of a user in a kubeconfig."""

    command: str = ""
    args: list[str] = []
    env: list[Variable] = []
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""

    def mode(self, where: str) -> str:
        """The interactive mode. Raises UsageError when this part is not complete."""
        if not self.command:
            raise UsageError(f"{where}: exec has no command", "name the program that prints credentials")
        if self.api_version not in VERSIONS:
            asked = f"{shown(self.api_version)} is not supported" if self.api_version else "is missing"
            raise UsageError(f"{where}: exec.apiVersion {asked}", f"use a plugin that speaks {VERSIONS[0]}")
        mode = self.interactive_mode or ("IfAvailable" if self.api_version == VERSIONS[1] else "")
        if mode not in MODES:
            given = shown(mode) if mode else "missing"
            raise UsageError(f"{where}: exec.interactiveMode is {given}", f"write one of {', '.join(MODES)}")
        return mode


class _Status(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


class ExecPlugin:
    """Runs the plugin when there is no secret yet, when it expired, and when the server refused it. One at a time."""

    def __init__(
        self,
        config: ExecConfig,
        cluster: Mapping[str, Any],
        clock: Clock,
        *,
        where: str,
        terminal: bool = False,
        timeout_s: float = 60.0,
    ) -> None:
        mode = config.mode(where)
        if mode == "Always" and not terminal:
            raise UsageError(f"{where}: the plugin {config.command} needs a terminal", "run this command in one")
        self._config = config
        self._clock = clock
        self._where = where
        self._interactive = terminal and mode != "Never"
        self._timeout_s = timeout_s
        spec: dict[str, Any] = {"interactive": self._interactive}
        if config.provide_cluster_info:
            spec["cluster"] = cluster
        request = {"apiVersion": config.api_version, "kind": "ExecCredential", "spec": spec}
        self._request = msgspec.json.encode(request).decode()
        self._lock = asyncio.Lock()
        self._secret: Secret | None = None
        self._expires: datetime | None = None
        self._failures = 0
        self._failure: UsageError | None = None

    async def current(self) -> Secret:
        """The secret that the plugin gave, until it expires."""
        if self._secret is not None and not self._expired():
            return self._secret
        failures = self._failures
        async with self._lock:
            if self._secret is None or self._expired():
                await self._refresh(failures)
        assert self._secret is not None
        return self._secret

    async def renewed(self, refused: Secret) -> bool:
        """Runs the plugin again, unless somebody did so in the meantime."""
        failures = self._failures
        async with self._lock:
            if self._secret is None or self._secret == refused:
                await self._refresh(failures)
        return self._secret != refused

    def _expired(self) -> bool:
        return self._expires is not None and self._clock.wall() >= self._expires

    async def _refresh(self, failures: int) -> None:
        # Those who waited for a run that failed hear of that one: a broken plugin is not started by each of them.
        if self._failure is not None and failures != self._failures:
            raise self._failure
        try:
            self._secret, self._expires = self._read(await self._run())
        except UsageError as error:
            self._failures += 1
            self._failure = error
            raise

    async def _run(self) -> bytes:
        config = self._config
        variables = {variable.name: variable.value for variable in config.env}
        quiet = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                config.command,
                *config.args,
                stdin=None if self._interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=None if self._interactive else quiet,
                env={**os.environ, **variables, "KUBERNETES_EXEC_INFO": self._request},
                # A plugin that asks people something must stay with their terminal.
                start_new_session=not self._interactive,
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            hint = _plain(config.install_hint) or "install it, or mend the path"
            raise UsageError(f"{self._where}: can't start the plugin {config.command}: {why}", hint) from None
        try:
            async with asyncio.timeout(self._timeout_s):
                output, complaint = await asyncio.gather(_bounded(process.stdout), _bounded(process.stderr))
                code = await process.wait()
        except TimeoutError:
            message = f"{self._where}: the plugin {config.command} did not answer within {self._timeout_s:g} s"
            raise UsageError(message, "run it by hand and see what it waits for") from None
        finally:
            await self._end(process)
        if len(output) > _MAX_OUTPUT_BYTES:
            raise UsageError(
                f"{self._where}: the plugin {config.command} printed more than {_MAX_OUTPUT_BYTES:,} bytes"
            )
        if code != 0:
            said = _plain(complaint[-_SHOWN_ERROR_BYTES:].decode("utf-8", "replace"))
            message = f"{self._where}: the plugin {config.command} failed with {code}" + (f": {said}" if said else "")
            raise UsageError(message, "run it by hand, or log in again")
        return output

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                if self._interactive:
                    process.kill()
                else:
                    os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        # Closes the pipes, which a child of the plugin may still hold open.
        process._transport.close()  # type: ignore[attr-defined]

    def _read(self, output: bytes) -> tuple[Secret, datetime | None]:
        name = f"{self._where}: the plugin {self._config.command}"
        try:
            answer = msgspec.json.decode(output, type=_Answer)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            # The output may hold a token, and so does not go into the message.
            why = str(error) if isinstance(error, msgspec.ValidationError) else "not JSON"
            raise UsageError(f"{name} did not print an ExecCredential: {why}", "run it by hand") from None
        if answer.kind != "ExecCredential" or answer.api_version != self._config.api_version:
            told = f"{answer.api_version} {answer.kind}".strip() or "nothing of the kind"
            raise UsageError(f"{name} printed {shown(told)}", f"it must be {self._config.api_version} ExecCredential")
        status = answer.status
        if status is None or not (status.token or status.client_certificate_data):
            raise UsageError(f"{name} gave neither a token nor a certificate", "log in again")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise UsageError(f"{name} gave only one of certificate and key")
        if not status.token.isprintable() or not status.token.isascii():
            raise UsageError(f"{name} gave a token that is no plain text")
        pair = None
        if status.client_certificate_data:
            pair = KeyPair(status.client_certificate_data.encode(), status.client_key_data.encode())
        expires = status.expiration_timestamp
        if expires is not None and expires.tzinfo is None:
            expires = expires.replace(tzinfo=UTC)
        return Secret(status.token, pair), expires


async def _bounded(stream: asyncio.StreamReader | None) -> bytes:
    """All that comes, of which no more is kept than one byte too much."""
    kept = bytearray()
    while stream is not None:
        chunk = await stream.read(65536)
        if not chunk:
            break
        kept += chunk[: _MAX_OUTPUT_BYTES + 1 - len(kept)]
    return bytes(kept)


def _plain(text: str) -> str:
    """Text of others in our sentence: one line, nothing that moves a cursor."""
    return "".join(c if c.isprintable() else " " for c in text).strip()
