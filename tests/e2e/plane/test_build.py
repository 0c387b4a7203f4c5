"""Obtaining the control plane's programs: what a person is told, and two at once. A fake Go, so this is quick."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from e2e.plane import NotBuilt, build


@pytest.fixture
def fake_go(tmp_path, monkeypatch):
    """An empty cache, and a Go that does what the test says."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def install(script: str) -> None:
        go = tmp_path / "bin" / "go"
        go.write_text(f"#!/bin/sh\n{script}\n")
        go.chmod(0o755)

    return install


def test_without_go_one_sentence_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    says = build.obstacle()
    assert says == f"no control plane is built and Go is not installed: install Go {build.needed_go()} or newer"
    with pytest.raises(NotBuilt, match="Go is not installed"):
        build.build()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        pytest.param("echo go1.22.5", "this is go1.22.5: install it or set GOTOOLCHAIN=auto", id="too old"),
        pytest.param("echo 'go: requires go >= 1.26' >&2; exit 1", "requires go >= 1.26", id="too old, and says so"),
        pytest.param(
            'test "$1" = env && echo go1.99 && exit; echo "dial tcp: no route" >&2; exit 1',
            r"the Go modules can't be fetched \(dial tcp: no route\): check the network",
            id="no modules",
        ),
        pytest.param(
            'case "$1" in env) echo go1.99;; build) echo "signal: killed now" >&2; exit 1;; esac',
            r"etcd could not be built \(signal: killed now\)",
            id="no room",
        ),
    ],
)
def test_a_build_that_can_not_be_done(fake_go, script, words):
    fake_go(script)
    with pytest.raises(NotBuilt, match=words) as told:
        build.build(say=lambda text: None)
    assert "\n" not in str(told.value)


def test_two_builds_at_once_are_one(fake_go, tmp_path):
    """The second waits for the first and finds everything there; the program's name appears when it is whole."""
    log = tmp_path / "log"
    fake_go(
        'test "$1" = env && echo go1.99; test "$1" = build || exit 0\n'
        f'echo build >> {log}; while test "$1" != -o; do shift; done; sleep 0.2; echo whole > "$2"'
    )
    program = [sys.executable, Path(build.__file__)]
    start = time.monotonic()
    runs = [subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    told = [run.communicate(timeout=60) for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert {Path(out.strip()) for out, _ in told} == {build.folder()}
    assert sorted(path.name for path in build.folder().iterdir()) == sorted(build.PROGRAMS)
    assert len(log.read_text().splitlines()) == len(build.PROGRAMS)
    assert sum("waiting" in err for _, err in told) <= 1
    assert time.monotonic() - start < 30
