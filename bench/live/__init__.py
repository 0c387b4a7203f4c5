"""Speed on a real API server: muster as it runs and kube-scheduler of the same build, on the same pods.

    python -m bench.live --quick          does it work? less than a minute
    python -m bench.live gangs-8          one case
    python -m bench.live -o json          all of them, for programs

Every run has a control plane of its own (tests/e2e/plane): etcd, kube-apiserver, one scheduler, and this process, which
makes the objects and sees the binds on a watch. All of them share the machine.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# The control plane belongs to the tests.
if str(ROOT / "tests") not in sys.path:
    sys.path.append(str(ROOT / "tests"))
