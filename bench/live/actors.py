"""The schedulers that are compared, each as a process of its own, and what a process has used.

Each runs as it would in a cluster: muster under the service account that `muster manifests` makes, with its rights;
kube-scheduler as the user system:kube-scheduler, with the rights that Kubernetes gives it. Both go through RBAC and
through API priority and fairness, neither is exempt, neither asks for a Lease, and neither holds itself back: the
client limits of kube-scheduler are raised; muster has its 32 binds at a time.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.live.objects import MUSTER
from e2e.plane import ControlPlane
from e2e.plane.control_plane import BURST, QPS
from e2e.plane.stage import environment

_TICKS = os.sysconf("SC_CLK_TCK")
NATIVE_GANGS = "--feature-gates=GenericWorkload=true,GangScheduling=true"
NATIVE_API = "--runtime-config=scheduling.k8s.io/v1alpha2=true"


class Used(NamedTuple):
    """What a process has used since it began: seconds of CPU, bytes of memory at most and now."""

    cpu_s: float
    peak_bytes: int
    rss_bytes: int


def used(pid: int) -> Used:
    """What the process has used so far, its threads included; its children are not."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    peak, rss = (int(lines[name].split()[0]) * 1024 for name in ("VmHWM", "VmRSS"))
    return Used((int(fields[11]) + int(fields[12])) / _TICKS, peak, rss)


class Actor(NamedTuple):
    """A scheduler that runs, since `started_s` (time.monotonic). `log` is what it says."""

    pid: int
    started_s: float
    log: Path

    @property
    def runs(self) -> bool:
        """Whether it still does: a process that ended has no memory."""
        return "VmRSS" in Path(f"/proc/{self.pid}/status").read_text()

    def last_words(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-5:])


@contextmanager
def acting(plane: ControlPlane, who: str, *, native: bool) -> Iterator[Actor]:
    """The scheduler, until the block ends."""
    with _muster(plane) if who == MUSTER else _kube_scheduler(plane, native) as actor:
        yield actor


@contextmanager
def _muster(plane: ControlPlane) -> Iterator[Actor]:
    kubeconfig = plane.service_account_kubeconfig("muster-system", "muster")
    # As in a cluster, where nobody serves the page unless asked.
    program, env = [sys.executable, "-m", "muster", "run", "--page", "off"], _installed(plane)
    subprocess.run([*program, "--help"], env=env, check=True, capture_output=True)
    command = [*program, "--no-leader-election", "--kubeconfig", str(kubeconfig)]
    path = plane.logs / "muster.log"
    with path.open("ab") as log:
        started_s = time.monotonic()
        process = subprocess.Popen(command, stdout=log, stderr=log, env=env)
    try:
        yield Actor(process.pid, started_s, path)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _installed(plane: ControlPlane) -> dict[str, str]:
    """The environment of this tree's muster, with its bytecode kept, as that of an installed program is."""
    found = {**environment(), "PYTHONPYCACHEPREFIX": str(plane.folder / "bytecode")}
    found.pop("PYTHONDONTWRITEBYTECODE", None)
    return found


@contextmanager
def _kube_scheduler(plane: ControlPlane, native: bool) -> Iterator[Actor]:
    kubeconfig = plane.user_kubeconfig("system:kube-scheduler")
    connection = {"kubeconfig": str(kubeconfig), "qps": QPS, "burst": BURST}
    flags = [NATIVE_GANGS] if native else []
    started_s = time.monotonic()
    component = plane.start_scheduler(*flags, config={"clientConnection": connection})
    assert component.pid
    try:
        yield Actor(component.pid, started_s, component.log)
    finally:
        component.kill()
