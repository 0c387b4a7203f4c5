"""Child processes of a control plane: started, paused and ended by process id, also when the test run is killed."""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

LOOPBACK = "127.0.0.1"
# Below the range that the system gives to outgoing connections: a server that is down can come back on its port.
PORTS = range(20_000, 32_000)
TAIL_LINES = 15

Ready = Callable[[], bool]

# Reads process ids, one a line, "-" in front when it ended. When the writer is gone, ends those that are left.
KEEPER = """
import os, shutil, signal, sys
left = set()
for line in sys.stdin:
    number = int(line)
    left.add(number) if number > 0 else left.discard(-number)
for number in left:
    try:
        os.kill(number, signal.SIGKILL)
    except ProcessLookupError:
        pass
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""


class Failed(Exception):
    """A part of the control plane did not start or does not answer; the message ends with the last lines of its log."""


def free_port() -> int:
    """A port on loopback that nobody uses now."""
    for _ in range(200):
        port = secrets.choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port
    raise Failed("no free port on loopback")


def wait_until(true: Callable[[], object], wait_s: float, what: str, pause_s: float = 0.05) -> None:
    """Ask again and again until the answer is yes; `what` is said when time is up."""
    end = time.monotonic() + wait_s
    while not true():
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {wait_s:g} s")
        time.sleep(pause_s)


class Keeper:
    """A small process that outlives this one, ends what this one left behind, and removes its folder."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-c", KEEPER, str(folder)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)

    def note(self, number: int) -> None:
        """Remember a process id, or forget it when it is negative."""
        assert self._process.stdin
        # Without its keeper a plane still ends its processes itself.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{number}\n")
            self._process.stdin.flush()

    def close(self) -> None:
        """Let it end whatever is left, and wait for that."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(timeout=30)


class Component:
    """One program of the control plane: the same command each time it is started, one log for all of its lives."""

    def __init__(self, command: list[str | Path], log: Path, keeper: Keeper, ready: Ready) -> None:
        self.command = [str(part) for part in command]
        self.log = log
        self._keeper = keeper
        self._ready = ready
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        """The program's name, as in its log."""
        return Path(self.command[0]).name

    @property
    def pid(self) -> int | None:
        """The process id, None when it does not run."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Start it; `wait_ready` tells when it serves."""
        assert self.pid is None, f"{self.name} runs already"
        # Its own session: Ctrl-C reaches the test run alone, which ends its planes in order.
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.log.parent,
            )
        self._keeper.note(self._process.pid)

    def wait_ready(self, wait_s: float = 60) -> None:
        """Return when it serves; raise when it ended or takes too long."""

        def ready() -> bool:
            if self.pid is None:
                raise Failed(f"{self.name} ended\n{self.tail()}")
            return self._ready()

        try:
            wait_until(ready, wait_s, f"{self.name} is ready")
        except Failed as why:
            raise Failed(f"{why}\n{self.tail()}") if self.pid else why from None

    def stop(self, wait_s: float = 20) -> None:
        """Ask it to end, and end it when it does not."""
        self._end(signal.SIGTERM, wait_s)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._end(signal.SIGKILL, 20)

    def pause(self) -> None:
        """Hold it: connections stay open and nothing answers."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused one go on."""
        self._send(signal.SIGCONT)

    def restart(self, crash: bool = False, wait_s: float = 60) -> None:
        """End it, start it again with the same command, and wait until it serves."""
        self.kill() if crash else self.stop()
        self.start()
        self.wait_ready(wait_s)

    def tail(self, lines: int = TAIL_LINES) -> str:
        """The last lines of its log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(line[:400] for line in text.splitlines()[-lines:])

    def _send(self, number: signal.Signals) -> None:
        if pid := self.pid:
            os.kill(pid, number)

    def _end(self, number: signal.Signals, wait_s: float) -> None:
        if not self._process:
            return
        self._send(number)
        if number != signal.SIGKILL:
            self.resume()
        try:
            self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self._send(signal.SIGKILL)
            self._process.wait(wait_s)
        self._keeper.note(-self._process.pid)
        self._process = None
