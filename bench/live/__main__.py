"""`make bench-live`: muster and kube-scheduler on a real API server, side by side."""

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from bench.live import report
from bench.live.actors import NATIVE_API, NATIVE_GANGS
from bench.live.cases import CASES, QUICK, Case, Numbers, measure
from bench.live.objects import KUBE, MUSTER, NAMESPACE
from bench.live.report import Run
from bench.live.traffic import Broken
from bench.report import machine
from e2e.plane import ControlPlane, Failed, NotBuilt, obstacle

_EPILOG = """\
example: python -m bench.live singles gangs-8 --repeat 3

Everything takes about ten minutes on two quiet cores; --quick takes less than one. Each run has a control plane of its
own. Needs the programs that `make control-plane` builds with Go. Exit code 1 when a target is missed.
"""
_CLEARED = (
    f"/api/v1/namespaces/{NAMESPACE}/pods?gracePeriodSeconds=0",
    f"/apis/scheduling.k8s.io/v1alpha2/namespaces/{NAMESPACE}/podgroups",
    f"/apis/scheduling.run.ai/v2alpha2/namespaces/{NAMESPACE}/podgroups",
    "/apis/kai.scheduler/v1alpha1/topologies",
    "/api/v1/nodes",
)


def main() -> None:
    """Measures and prints; exit 1 when a target is missed, 2 when nothing can be measured."""
    asked = _asked()
    if why := obstacle():
        sys.exit(_complain(f"{why}, then run make control-plane"))
    # Ended by whoever started it, it ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    cases = [case for case in CASES if not asked.cases or case.name in asked.cases]
    try:
        runs = list(_runs(cases, asked))
    except (Broken, Failed, NotBuilt) as error:
        sys.exit(_complain(str(error)))
    except KeyboardInterrupt:
        sys.exit(130)
    verdicts = report.verdicts(runs)
    if asked.output == "json":
        print(report.document(runs, machine()))
    else:
        print(f"{machine()}\n\n{report.head()}", *map(report.line, runs), sep="\n")
        # Small numbers say nothing about speed.
        print("" if asked.quick else f"\n{report.summary(verdicts)}")
    if asked.write:
        report.write_page(asked.write, report.page(runs, machine()))
    missed = not asked.quick and any(one.met is False for one in verdicts)
    sys.exit(int(missed or any(run.wrong for run in runs)))


def _asked() -> argparse.Namespace:
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(
        prog="python -m bench.live",
        description="muster and kube-scheduler of the same build on a real API server, on the same pods.",
        epilog="cases:\n" + "".join(f"  {case.name:<10} {case.says}\n" for case in CASES) + "\n" + _EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help="what to measure; everything unless named")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="runs of each; targets take the median")
    parser.add_argument("--quick", action="store_true", help="small numbers on one control plane: does it work?")
    parser.add_argument("--only", choices=(MUSTER, KUBE), help="one of the two schedulers")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--write", metavar="FILE", type=Path, help="write the tables into this page too")
    asked = parser.parse_args()
    for name in asked.cases:
        if name not in names:
            parser.error(f"there is no case {name}; there are {', '.join(names)}")
    if asked.repeat < 1:
        parser.error("--repeat takes 1 or more")
    return asked


def _runs(cases: list[Case], asked: argparse.Namespace) -> Iterator[Run]:
    numbers = QUICK if asked.quick else Numbers()
    with _planes(shared=asked.quick) as plane_for:
        for again in range(asked.repeat):
            for case in cases:
                for who in case.schedulers:
                    if asked.only in (None, who):
                        _say(f"{case.name}, {who}" + (f", run {again + 1}" if asked.repeat > 1 else ""))
                        run = _one(plane_for, case, who, numbers)
                        _say(report.line(run))
                        yield run


def _one(plane_for: "PlaneFor", case: Case, who: str, numbers: Numbers) -> Run:
    with plane_for(case.native) as plane:
        return asyncio.run(measure(plane, case, who, numbers, lambda text: _say(f"  {text}")))


@contextmanager
def _planes(*, shared: bool) -> Iterator["PlaneFor"]:
    """Gives control planes: a new one each time, or one for all that is cleared."""
    if not shared:
        yield _new
        return
    with _new(native=True) as plane:

        @contextmanager
        def cleared(native: bool) -> Iterator[ControlPlane]:
            for path in _CLEARED:
                plane.request("DELETE", path)
            yield plane

        yield cleared


@contextmanager
def _new(native: bool) -> Iterator[ControlPlane]:
    with ControlPlane(apiserver_flags=[NATIVE_GANGS, NATIVE_API] if native else []) as plane:
        yield plane


PlaneFor = Callable[[bool], AbstractContextManager[ControlPlane]]
_BEGAN_S = time.monotonic()


def _say(text: str) -> None:
    print(f"[{time.monotonic() - _BEGAN_S:5.0f} s] {text}", file=sys.stderr, flush=True)


def _complain(text: str) -> int:
    print(f"bench.live: {text}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
