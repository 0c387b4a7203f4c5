"""docs/try-it.md is true: its commands, one after the other with the unmodified kubectl, print what stands there."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.plane import build, gate
from unit.cli.test_grouping_page import BLOCK, MORE, Transcript, transcripts

gate.require()

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "try-it.md").read_text()
# What only looks may be asked again: the scheduler needs a moment.
LOOKS = ("kubectl get", "kubectl describe", "kubectl events", "muster explain", "muster plan", "muster doctor")
PATIENCE_S = 30.0
MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"https://127\.0\.0\.1:\d+"), "SERVER"),
    (re.compile(r"\b[0-9a-f]{4}-\d+\b"), "DECISION"),
    (re.compile(r"\S+_[0-9a-f]{8}\b"), "IDENTITY"),
    (re.compile(r"(?<=\s)(\d+d)?(\d+h)?(\d+m)?(\d+s)?(?=\s|$)(?<=[dhms])"), "AGE"),
    (re.compile(r"[ \t]+"), " "),
)


def masked(line: str) -> str:
    """A line without what is another one each time, and without the widths of columns."""
    for mask, word in MASKS:
        line = mask.sub(word, line)
    return line.strip()


def matches(shown: str, printed: str) -> bool:
    """Whether this was printed; a line … stands for any lines, or none."""
    lines = [r"(.*\n)*?" if line == MORE else re.escape(masked(line)) + r"\n" for line in shown.splitlines()]
    return re.fullmatch("".join(lines), "".join(f"{masked(line)}\n" for line in printed.splitlines())) is not None


class Reader:
    """Somebody who does what the page says, in a home of their own."""

    def __init__(self, folder: Path) -> None:
        self.home, self.here = folder / "home", folder / "here"
        programs = folder / "bin"
        for made in (self.home, self.here, programs):
            made.mkdir()
        muster = programs / "muster"
        muster.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m muster "$@"\n')
        muster.chmod(0o755)
        self.environ = {
            **{name: value for name, value in os.environ.items() if name != "KUBECONFIG"},
            "PATH": os.pathsep.join([str(programs), str(build.build()), os.environ["PATH"]]),
            "PYTHONPATH": str(ROOT / "src"),
            "HOME": str(self.home),
            "NO_COLOR": "1",
        }
        self.log = folder / "log"
        self.first: subprocess.Popen[bytes] | None = None

    def do(self, one: Transcript) -> str:
        """What is printed; what only looks looks until it sees what is shown, or for long enough."""
        for name, text in one.files.items():
            (self.here / name).write_text(text)
        if one.command.startswith("export "):
            name, _, value = one.command.removeprefix("export ").partition("=")
            self.environ[name] = value.replace("~", str(self.home))
            return ""
        if one.command.startswith("muster run"):
            return self._start(one.command)
        end = time.monotonic() + PATIENCE_S
        while True:
            printed = self._run(one.command)
            late = time.monotonic() > end
            if late or not one.command.startswith(LOOKS) or matches(one.shown, printed):
                return printed
            time.sleep(0.2)

    def _run(self, command: str) -> str:
        bash = ["bash", "-c", command]
        done = subprocess.run(bash, capture_output=True, text=True, cwd=self.here, env=self.environ, timeout=120)
        return done.stdout + done.stderr

    def _start(self, command: str) -> str:
        """In another terminal."""
        with self.log.open("wb") as written:
            self.first = subprocess.Popen(command.split(), stderr=written, cwd=self.here, env=self.environ)
        end = time.monotonic() + PATIENCE_S
        while '"leading"' not in self.log.read_text():
            assert self.first.poll() is None, self.log.read_text()
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.1)
        return self.log.read_text()


@pytest.fixture
def reader(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Reader]:
    """Somebody who starts from nothing."""
    gate.obtain(request.config)
    found = Reader(tmp_path)
    yield found
    if found.first is not None and found.first.poll() is None:
        found.first.kill()
        found.first.wait()


def test_the_page_from_top_to_bottom(reader: Reader) -> None:
    """Every command in its order; then Ctrl-C, as the page says."""
    for one in transcripts(PAGE):
        printed = reader.do(one)
        assert matches(one.shown, printed), f"$ {one.command}\n{printed}"
    assert reader.first is not None
    reader.first.send_signal(signal.SIGINT)
    assert reader.first.wait(20) == 0
    assert '"level": "error"' not in reader.log.read_text()


def test_the_page_shows_what_kubectl_does() -> None:
    """Every way in which people look at gangs and move them."""
    commands = " ".join(one.command for one in transcripts(PAGE))
    for way in ("apply", "get", "-o wide", "describe", "events", "wait", "patch", "scale", "cordon", "delete"):
        assert f"{way}" in commands, way
    for ours in ("run --embedded", "explain", "plan", "doctor", "snapshot", "replay"):
        assert f"muster {ours}" in commands, ours


def test_every_block_is_a_file_or_a_transcript() -> None:
    """Nothing on the page is untested."""
    for language, text in BLOCK.findall(PAGE):
        assert text.startswith("# " if language == "yaml" else "$ "), text
