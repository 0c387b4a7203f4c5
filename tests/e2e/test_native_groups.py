"""PodGroups of Kubernetes itself, on a real API server that serves them.

Pods of a gang are held, those of a basic group are placed, and a group that comes later is seen.
"""

import pytest

from e2e.plane import ControlPlane, gate, wait_until
from e2e.plane.stage import NAMESPACE, create, group, install, node, nodes_of, pod, read, running, status_of

gate.require()

GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"
VERSION = "scheduling.k8s.io/v1alpha2"


@pytest.fixture(scope="module")
def plane(request):
    gate.obtain(request.config)
    with ControlPlane(controllers=True, apiserver_flags=(GATES, f"--runtime-config={VERSION}=true")) as found:
        install(found)
        create(found, *(node(f"n{number}") for number in range(2)))
        yield found


def native(name, **policy):
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": VERSION, "kind": "PodGroup", "metadata": metadata, "spec": {"schedulingPolicy": policy}}


def member(gang, of):
    found = pod(f"{gang}-0", gang, cpu="100m")
    return {**found, "spec": {**found["spec"], "schedulingGroup": {"podGroupName": of}}}


def said(plane, gang):
    return next(one["message"] for one in status_of(plane, gang)["conditions"] if one["type"] == "Scheduled")


def test_pods_of_a_gang_are_held_and_those_of_a_basic_group_are_placed(plane, tmp_path):
    create(plane, native("whole", gang={"minCount": 2}), native("plain", basic={}))
    create(plane, *(group(name, minMember=1) for name in ("whole", "plain", "late")))
    create(plane, member("whole", "whole"), member("plain", "plain"), member("late", "comes-later"))
    assert read(plane, "pod", "whole-0")["spec"]["schedulingGroup"] == {"podGroupName": "whole"}
    with running(plane.service_account_kubeconfig(NAMESPACE, "muster"), tmp_path, "--no-leader-election"):
        wait_until(lambda: nodes_of(plane)["plain-0"], 30, "the scheduler")
        wait_until(lambda: status_of(plane, "late").get("reason") == "Unsupported", 20, "the scheduler")
        wait_until(lambda: status_of(plane, "whole").get("reason") == "Unsupported", 20, "the scheduler")
        assert "podgroup.scheduling.k8s.io/whole has spec.schedulingPolicy.gang" in said(plane, "whole")
        assert "podgroup.scheduling.k8s.io/comes-later is not found" in said(plane, "late")
        create(plane, native("comes-later", basic={}))
        wait_until(lambda: nodes_of(plane)["late-0"], 30, "the scheduler")
        assert not nodes_of(plane)["whole-0"]
