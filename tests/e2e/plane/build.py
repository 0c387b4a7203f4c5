"""Builds etcd, Kubernetes and kubectl once, from the Go modules that e2e/go.mod pins, into a cache outside the tree.

`make control-plane` calls this; so do the tests that need a control plane. Two that run at once wait for each other.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MODULE = Path(__file__).parents[3] / "e2e"
# In the order they are built: what is compiled for one serves the next.
PROGRAMS = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
}
# Kubernetes keeps its version in both; without one `kubectl version` fails, and the API server refuses its own flags.
STAMPED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
TELL_EVERY_S = 20.0

Say = Callable[[str], None]


class NotBuilt(Exception):
    """The programs are not there and can't be built; the message says in one sentence what to do."""


def pinned(module: str = "k8s.io/kubernetes") -> str:
    """The version of a module that e2e/go.mod pins, as `v1.2.3`."""
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    assert found, f"e2e/go.mod does not require {module}"
    return found[1]


def needed_go() -> str:
    """The oldest Go that can build the programs."""
    found = re.search(r"^go (\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    assert found
    return found[1]


def flags() -> list[str]:
    """What `go build` is told: static programs without symbols, with their version stamped in."""
    version = pinned()
    major, minor, _ = version.removeprefix("v").split(".", 2)
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    words = [f"-X {package}.{name}={value}" for package in STAMPED for name, value in stamps.items()]
    return ["-trimpath", "-buildvcs=false", f"-ldflags=-s -w {' '.join(words)}"]


def folder() -> Path:
    """Where the programs of this pin lie on this machine, built or not."""
    content = [(MODULE / name).read_bytes() for name in ("go.mod", "go.sum")]
    content += [repr((PROGRAMS, flags(), platform.system(), platform.machine())).encode()]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "muster" / "e2e" / hashlib.sha256(b"\0".join(content)).hexdigest()[:16]


def missing() -> list[str]:
    """The programs that are still to be built."""
    return [name for name in PROGRAMS if not (folder() / name).exists()]


def obstacle() -> str | None:
    """One sentence that says why there is no control plane here; None when it is built, or can be."""
    if not missing():
        return None
    if not shutil.which("go"):
        return f"no control plane is built and Go is not installed: install Go {needed_go()} or newer"
    done = subprocess.run(["go", "env", "GOVERSION"], cwd=MODULE, env=_environment(), capture_output=True, text=True)
    if done.returncode:
        return f"Go can't read e2e/go.mod ({_last(done.stderr)}): install Go {needed_go()} or newer"
    version = done.stdout.strip()
    if _numbers(version) < _numbers(needed_go()):
        return f"Kubernetes {pinned()} needs Go {needed_go()} and this is {version}: install it or set GOTOOLCHAIN=auto"
    return None


def build(say: Say | None = None) -> Path:
    """Build what is missing and return the folder; the first time takes minutes, then nothing."""
    say = say or _aloud
    if not missing():
        return folder()
    if why := obstacle():
        raise NotBuilt(why)
    target = folder()
    target.mkdir(parents=True, exist_ok=True)
    with _alone(target.with_suffix(".lock"), say):
        todo = missing()
        if todo:
            start = time.monotonic()
            say(f"building {', '.join(todo)} ({pinned()}): five to fifteen minutes on two cores, once")
            _download(say)
            for name in todo:
                _compile(name, target, say)
            say(f"built in {_elapsed(start)}")
    return target


def _download(say: Say) -> None:
    start = time.monotonic()
    say("modules: fetching what is not in Go's cache")
    done = subprocess.run(["go", "mod", "download"], cwd=MODULE, env=_environment(), capture_output=True, text=True)
    if done.returncode:
        raise NotBuilt(
            f"the Go modules can't be fetched ({_last(done.stderr)}): "
            "check the network and `go env GOPROXY`, then run make control-plane again"
        )
    say(f"modules: {_elapsed(start)}")


def _compile(name: str, target: Path, say: Say) -> None:
    """One program. A half-written file never gets its final name, so an interrupted build is only resumed."""
    start = told = time.monotonic()
    part = target / f".{name}.part"
    nice = ["nice"] if shutil.which("nice") else []
    command = [*nice, "go", "build", "-v", *flags(), "-o", str(part), PROGRAMS[name]]
    say(f"{name}: compiling")
    packages, words = 0, list[str]()
    with subprocess.Popen(command, cwd=MODULE, env=_environment(), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        try:
            for line in process.stderr:
                if " " in line.strip():
                    words.append(line)
                packages += 1
                if time.monotonic() - told > TELL_EVERY_S:
                    told = time.monotonic()
                    say(f"{name}: {packages} packages, {_elapsed(start)}")
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise NotBuilt(f"{name} could not be built ({_last(''.join(words))}): is there room on the disk and in memory?")
    os.replace(part, target / name)
    say(f"{name}: {_elapsed(start)}, {(target / name).stat().st_size >> 20} MiB")


def _environment() -> dict[str, str]:
    """Go's own caches stay where the user has them; the programs need no C."""
    return {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}


@contextmanager
def _alone(path: Path, say: Say) -> Iterator[None]:
    """Hold the lock; the system gives it back when this process ends in any way."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("somebody else is building the same: waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def _last(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("go: downloading")]
    return lines[-1] if lines else "no message"


def _elapsed(start: float) -> str:
    seconds = round(time.monotonic() - start)
    return f"{seconds // 60}:{seconds % 60:02} min"


def _aloud(text: str) -> None:
    sys.stderr.write(f"control plane: {text}\n")


def main() -> int:
    """Print where the programs are; progress goes to standard error."""
    try:
        where = build()
    except NotBuilt as why:
        _aloud(str(why))
        return 1
    sys.stdout.write(f"{where}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
