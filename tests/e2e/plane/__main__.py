"""A control plane to play with: `PYTHONPATH=tests .venv/bin/python -m e2e.plane --controllers`, until Ctrl-C."""

import argparse
import contextlib
import signal
import sys
import time

from e2e.plane import ControlPlane


def main() -> None:
    """Start, say how to reach it, and wait."""
    parser = argparse.ArgumentParser(prog="e2e.plane", description=__doc__)
    parser.add_argument("--controllers", action="store_true", help="also kube-controller-manager")
    parser.add_argument("--scheduler", action="store_true", help="also kube-scheduler")
    chosen = parser.parse_args()
    start = time.monotonic()
    with (
        contextlib.suppress(KeyboardInterrupt),
        ControlPlane(controllers=chosen.controllers, scheduler=chosen.scheduler) as plane,
    ):
        sys.stderr.write(f"ready after {time.monotonic() - start:.1f} s; logs in {plane.logs}; Ctrl-C ends it\n")
        sys.stdout.write(f"export KUBECONFIG={plane.admin_kubeconfig} PATH={plane.programs}:$PATH\n")
        sys.stdout.flush()
        signal.pause()


main()
