"""muster as a process that serves the page, and the address that it prints."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]
ADDRESS = re.compile(r"(?P<origin>http://127\.0\.0\.1:\d+)/#token=(?P<token>\S+)")
# A machine with other work to do is slow.
PATIENCE_S = 120


class Serving:
    """A command that serves the page. `address` has the token in it; `said` is all that it printed."""

    def __init__(self, *args: object, home: Path) -> None:
        known = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
        settings = {"HOME": str(home), "NO_COLOR": "1", "PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"}
        command = [sys.executable, "-m", "muster", *map(str, args)]
        self.said: list[str] = []
        self._process = subprocess.Popen(
            command, env={**known, **settings}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        found = self.line(ADDRESS)
        self.address, self.origin, self.token = found[0], found["origin"], found["token"]

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.said.extend(iter(self._process.stdout.readline, ""))

    def line(self, pattern: str | re.Pattern[str], patience_s: float = PATIENCE_S) -> re.Match[str]:
        """The first thing said that looks like this, also when it is yet to come."""
        until_s = time.monotonic() + patience_s
        while time.monotonic() < until_s:
            for line in list(self.said):
                found = re.search(pattern, line)
                if found:
                    return found
            if self._process.poll() is not None:
                self._reader.join()
                break
            time.sleep(0.05)
        raise AssertionError(f"{pattern} was not said:\n{''.join(self.said)}")

    @property
    def port(self) -> str:
        return self.origin.rpartition(":")[2]

    def stop(self) -> None:
        """As Ctrl-C does."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._end()
        assert "Traceback" not in "".join(self.said), "".join(self.said)

    def kill(self) -> None:
        """As a crash does."""
        self._process.kill()
        self._end()

    def _end(self) -> None:
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def __enter__(self) -> "Serving":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
