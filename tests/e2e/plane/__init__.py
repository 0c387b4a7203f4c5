"""A real control plane on loopback for tests: etcd, kube-apiserver, and the real controllers and scheduler on demand.

    with ControlPlane(controllers=True) as plane:
        plane.kubectl("get", "nodes")
        plane.service_account_kubeconfig("muster-system", "muster")
        plane.restart_apiserver(crash=True)

`build` obtains the programs through the Go modules that e2e/go.mod pins; `certificates` makes a throw-away authority;
`process` starts and ends them; `access` gives kubeconfigs and plain requests; `control_plane` puts them together.
"""

from e2e.plane.access import MERGE_PATCH, Answer, Requests
from e2e.plane.build import NotBuilt, obstacle
from e2e.plane.control_plane import ControlPlane
from e2e.plane.process import Component, Failed, wait_until

__all__ = [
    "MERGE_PATCH",
    "Answer",
    "Component",
    "ControlPlane",
    "Failed",
    "NotBuilt",
    "Requests",
    "obstacle",
    "wait_until",
]
