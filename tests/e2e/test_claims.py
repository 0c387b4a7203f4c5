"""Bound claims on the real control plane: the controller of volumes binds them, and muster and kube-scheduler are asked
about each node, with the same answer.
"""

import pytest

from e2e.plane import ControlPlane, gate, wait_until
from e2e.plane.control_plane import CONTROLLERS
from e2e.plane.stage import NAMESPACE, create, group, install, node, pod, pod_spec, read, running, status_of

gate.require()

ZONE, BETA = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
NODES = {"n0": {ZONE: "z1"}, "n1": {ZONE: "z2"}, "n2": {}, "n3": {"topology.kubernetes.io/region": "r"}}


def affine(*terms):
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}}}


# A volume by its labels and the rest of its spec; None: nothing is there for the claim.
VOLUMES = {
    "plain": ({}, {}),
    "zone": ({ZONE: "z1"}, {}),
    "zones": ({ZONE: "z1__z2"}, {}),
    "beta": ({BETA: "z2"}, {}),
    "affine": ({}, affine({"matchExpressions": [{"key": "pin", "operator": "In", "values": ["n1", "n2"]}]})),
    "both": ({ZONE: "z1"}, affine({"matchExpressions": [{"key": "pin", "operator": "In", "values": ["n1", "n2"]}]})),
    "csi": ({ZONE: "z2"}, {"csi": {"driver": "d.example.com", "volumeHandle": "h"}}),
    "fields": ({}, affine({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]})),
    "region": ({"topology.kubernetes.io/region": "r"}, {}),
    "unbound": None,
}


@pytest.fixture(scope="module")
def plane(request):
    gate.obtain(request.config)
    controllers = (*CONTROLLERS, "persistentvolume-binder-controller")
    with ControlPlane(controllers=controllers, scheduler=True) as found:
        install(found)
        create(found, *(node(name, {"pin": name, **labels}) for name, labels in NODES.items()))
        yield found


def volume(name, labels, spec):
    source = {} if "csi" in spec else {"nfs": {"server": "s", "path": "/"}}
    given = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "claimRef": {"namespace": "default", "name": name},
        "storageClassName": "",
    }
    metadata = {"name": f"pv-{name}", "labels": labels}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": {**given, **source, **spec}}


def claim(name):
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def pinned(name, where, ours):
    """A pod with the claim, which may only go to one node."""
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
    spec = {**pod_spec(cpu="50m"), "nodeSelector": {"pin": where}, "volumes": volumes}
    if ours:
        return {**pod(f"ours-{name}-{where}", f"{name}-{where}"), "spec": spec}
    metadata = {"name": f"theirs-{name}-{where}", "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**spec, "schedulerName": "default-scheduler"},
    }


def answer(plane, name):
    """Whether a pod got its node; None as long as nobody has said so."""
    found = read(plane, "pod", name)
    if found["spec"].get("nodeName"):
        return True
    conditions = found.get("status", {}).get("conditions") or ()
    return False if any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions) else None


def test_muster_and_kube_scheduler_agree_about_every_node(plane, tmp_path):
    """The claims are bound by the real controller; for each claim and node both schedulers say the same."""
    bound = [name for name, found in VOLUMES.items() if found is not None]
    create(plane, *(volume(name, *VOLUMES[name]) for name in bound), *map(claim, VOLUMES))
    for name in bound:
        wait_until(lambda name=name: read(plane, "pvc", name)["status"].get("phase") == "Bound", 60, "the controller")
    asked = [(name, where) for name in VOLUMES for where in NODES]
    account = plane.service_account_kubeconfig(NAMESPACE, "muster")
    with running(account, tmp_path, "--no-leader-election"):
        create(plane, *(group(f"{name}-{where}", minMember=1) for name, where in asked))
        create(plane, *(pinned(*one, ours=ours) for one in asked for ours in (True, False)))
        said = {}
        for name, where in asked:
            for who in ("ours", "theirs"):
                key = f"{who}-{name}-{where}"
                wait_until(lambda key=key: answer(plane, key) is not None, 60, key)
                said[key] = answer(plane, key)
        assert {one: said[f"ours-{one}"] for one in map("-".join, asked)} == {
            one: said[f"theirs-{one}"] for one in map("-".join, asked)
        }
        assert {where for where in NODES if said[f"ours-zone-{where}"]} == {"n0", "n2"}
        # What has no volume is held, and says so; what has one on other nodes can't be placed, and names it.
        assert status_of(plane, "unbound-n0")["reason"] == "Unsupported"
        where = status_of(plane, "zone-n1")
        assert where["reason"] == "InsufficientResources"
        message = next(one["message"] for one in where["conditions"] if one["type"] == "Scheduled")
        assert "claim zone (volume pv-zone) can only be reached from zone z1" in message
        # The claim that waits gets its volume: its gangs go.
        create(plane, volume("unbound", {}, {}))
        wait_until(lambda: all(answer(plane, f"ours-unbound-{where}") for where in NODES), 60, "the scheduler")
