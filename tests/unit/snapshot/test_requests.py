"""What a pod asks of a node: the sums and maxima of Kubernetes, ports, and what is recognised but not supported."""

import pytest

from muster.api.cluster import Container, Pod, PodSpec, Resources
from muster.api.kinds import CORE_KINDS, read_object
from muster.errors import BadObject
from muster.snapshot.ports import Holder, PortIndex, columns_of
from muster.snapshot.requests import held_request_of, host_ports_of, is_resized, request_of, unsupported_fields

POD = CORE_KINDS[0]
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}


def pod(spec=None, status=None, **metadata) -> Pod:
    found, problems = read_object({"metadata": metadata, "spec": spec or {}, "status": status or {}}, POD)
    assert problems == []
    return found


def container(limits=None, **requests):
    return {"resources": {"requests": requests, **({"limits": limits} if limits else {})}}


def sidecar(**requests):
    return {**container(**requests), "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, {}, id="nothing but itself"),
        pytest.param({"containers": [container(cpu="500m", memory="1Gi")]}, {"cpu": 500, "memory": 2**30}, id="one"),
        pytest.param(
            {"containers": [container(cpu="500m"), container(cpu="0.25", memory="1")]},
            {"cpu": 750, "memory": 1},
            id="containers add up",
        ),
        pytest.param(
            {"containers": [container({"nvidia.com/gpu": 8})]}, {"nvidia.com/gpu": 8}, id="a limit alone is a request"
        ),
        pytest.param(
            {"containers": [container({"cpu": "4"}, cpu="1")]}, {"cpu": 1000}, id="a request wins over its limit"
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container(cpu="3"), container(cpu="2")]},
            {"cpu": 3000},
            id="init containers run one after the other",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [sidecar(cpu="1"), container(cpu="3")]},
            {"cpu": 4000},
            id="a sidecar stays while later ones start",
        ),
        pytest.param(
            {"containers": [container(cpu="3")], "initContainers": [container(cpu="2"), sidecar(cpu="1")]},
            {"cpu": 4000},
            id="a sidecar runs beside the containers",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "overhead": {"cpu": "250m", "memory": "64"}},
            {"cpu": 1250, "memory": 64},
            id="overhead comes on top",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1", memory="5"), container(cpu="1")],
                "resources": {"requests": {"cpu": "1500m", "nvidia.com/gpu": 1}},
            },
            {"cpu": 1500, "memory": 5},
            id="what the pod states for itself wins, for cpu and memory",
        ),
        pytest.param({"containers": [container(cpu="0", memory="0")]}, {}, id="zero is nothing"),
    ],
)
def test_request(spec, expected):
    """Every pod takes one place beside what its containers ask for."""
    assert request_of(pod(spec).spec) == {**expected, "pods": 1}


def test_an_amount_that_is_no_quantity_is_an_error():
    asked = Resources(requests={"cpu": "lots"})
    with pytest.raises(BadObject, match="lots"):
        request_of(PodSpec(containers=[Container(resources=asked)]))


@pytest.mark.parametrize(
    ("spec", "metadata", "expected"),
    [
        pytest.param({}, {}, [], id="nothing"),
        pytest.param({"affinity": {"nodeAffinity": {}}}, {}, [], id="node affinity is supported"),
        pytest.param(
            {"affinity": {"podAffinity": REQUIRED}},
            {},
            ["spec.affinity.podAffinity"],
            id="affinity",
        ),
        pytest.param({"affinity": {"podAffinity": {}}}, {}, [], id="an empty one asks for nothing"),
        pytest.param(
            {"affinity": {"podAntiAffinity": REQUIRED}},
            {},
            ["spec.affinity.podAntiAffinity"],
            id="anti-affinity",
        ),
        pytest.param({"affinity": {"podAntiAffinity": PREFERRED}}, {}, [], id="a wish to be apart"),
        pytest.param({"affinity": {"podAffinity": PREFERRED}}, {}, [], id="a wish to be together"),
        pytest.param({"topologySpreadConstraints": [{}]}, {}, ["spec.topologySpreadConstraints[0]"], id="spread"),
        pytest.param(
            {"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}, {}]},
            {},
            ["spec.topologySpreadConstraints[1]"],
            id="a wish to be spread, and what is none",
        ),
        pytest.param({"hostNetwork": True, "hostUsers": False}, {}, ["spec.hostUsers"], id="declared: users"),
        pytest.param({"hostNetwork": True, "hostUsers": True}, {}, [], id="users of the host"),
        pytest.param({"hostUsers": False}, {}, [], id="users of its own without the host's network"),
        pytest.param(
            {"initContainers": [{"name": "a", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
            {},
            ["spec.initContainers[0].restartPolicyRules"],
            id="declared: restart all",
        ),
        pytest.param(
            {"containers": [{"name": "a", "restartPolicyRules": [{"action": "Restart"}]}]}, {}, [], id="restart one"
        ),
        pytest.param(
            {"containers": [{"name": "a", "volumeMounts": [{"name": "v"}, {"bindMountOptions": ["noexec"]}]}]},
            {},
            ["spec.containers[0].volumeMounts.bindMountOptions"],
            id="declared: options of mounts",
        ),
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Gt", "value": "3"}]},
            {},
            ["spec.tolerations[1].operator"],
            id="a toleration that compares",
        ),
        pytest.param({"resourceClaims": [{"name": "a"}]}, {}, ["spec.resourceClaims"], id="claims"),
        pytest.param(
            {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "ephemeral": {}}]},
            {},
            ["spec.volumes[1].ephemeral"],
            id="volumes",
        ),
        pytest.param(
            {
                "volumes": [
                    {"name": "a", "iscsi": {"iqn": "x"}},
                    {"name": "b", "nfs": {"server": "x"}},
                    {"name": "c", "rbd": {"image": "x"}},
                    {"name": "d", "gcePersistentDisk": {"pdName": "x"}},
                    {"name": "e", "awsElasticBlockStore": {"volumeID": "x"}},
                    {"name": "f", "csi": {"driver": "x"}},
                ]
            },
            {},
            [f"spec.volumes[{at}" for at in ("0].iscsi", "2].rbd", "3].gcePersistentDisk", "4].awsElasticBlockStore")],
            id="disks that pods of a node can't share",
        ),
        pytest.param(
            {
                "volumes": [
                    {"name": "a", "azureDisk": {"diskName": "x"}},
                    {"name": "b", "cinder": {"volumeID": "x"}},
                    {"name": "c", "azureFile": {"shareName": "x"}},
                    {"name": "d", "portworxVolume": {"volumeID": "x"}},
                    {"name": "e", "vsphereVolume": {"volumePath": "x"}},
                ]
            },
            {},
            [f"spec.volumes[{at}" for at in ("0].azureDisk", "1].cinder", "3].portworxVolume", "4].vsphereVolume")],
            id="disks that count for the limits of a driver",
        ),
        pytest.param(
            {}, {"annotations": {"gpu-fraction": "0.5"}}, ["metadata.annotations.gpu-fraction"], id="fraction"
        ),
    ],
)
def test_what_is_not_supported_is_named(spec, metadata, expected):
    """A field that can't be honoured is never ignored."""
    assert unsupported_fields(pod(spec, **metadata)) == expected


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        pytest.param({"hostPort": 80}, {"hostPort": 80}, True, id="the same"),
        pytest.param({"hostPort": 80}, {"hostPort": 81}, False, id="another port"),
        pytest.param({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, False, id="another protocol"),
        pytest.param({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, False, id="IPs"),
        pytest.param({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, True, id="all IPs include each"),
        pytest.param(
            {"hostPort": 80, "hostIP": "0.0.0.0"}, {"hostPort": 80, "hostIP": "::1"}, True, id="0.0.0.0 is all"
        ),
        pytest.param({"containerPort": 80}, {"containerPort": 80}, False, id="no host ports"),
    ],
)
def test_host_ports(one, other, clash):
    mine, theirs = (host_ports_of(pod({"containers": [{"ports": [port]}]}).spec) for port in (one, other))
    pods = PortIndex()
    pods.add("p", theirs)
    columns, _ = columns_of({0: tuple(mine)}, {}, pods, {"p": Holder(0, terminating=False)}, 1, {0: {"ns"}})
    assert any(column.holders for column in columns) == clash


def test_only_init_containers_that_stay_keep_their_ports():
    port = {"ports": [{"hostPort": 80}]}
    assert host_ports_of(pod({"initContainers": [port]}).spec) == []
    assert host_ports_of(pod({"initContainers": [{**port, "restartPolicy": "Always"}]}).spec) == [("", "TCP", 80)]


def test_a_pod_on_the_host_network_takes_its_container_ports():
    spec = pod({"hostNetwork": True, "containers": [{"ports": [{"containerPort": 80}]}]}).spec
    assert host_ports_of(spec) == [("", "TCP", 80)]


def named(name="c", **requests):
    return {"name": name, **container(**requests)}


def told(name, allocated=None, actual=None):
    """The status of a container: what the node agreed to, and what it has."""
    found = {"name": name, "allocatedResources": allocated or {}}
    return {**found, "resources": {"requests": actual}} if actual is not None else found


INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
DEFERRED = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        pytest.param({"containers": [named(cpu="2")]}, {}, 2000, id="no status: the spec"),
        pytest.param(
            {"containers": [named(cpu="1")]},
            {"containerStatuses": [told("c", {"cpu": "2"}, {"cpu": "4"})]},
            4000,
            id="going down: what it has until it has less",
        ),
        pytest.param(
            {"containers": [named(cpu="4")]},
            {"containerStatuses": [told("c", {"cpu": "2"}, {"cpu": "1"})], "conditions": DEFERRED},
            4000,
            id="going up, put off: the room is wanted",
        ),
        pytest.param(
            {"containers": [named(cpu="4")]},
            {"containerStatuses": [told("c", {"cpu": "2"}, {"cpu": "1"})], "conditions": INFEASIBLE},
            2000,
            id="going up, and it will never happen",
        ),
        pytest.param(
            {"containers": [named(cpu="4")]},
            {"containerStatuses": [told("c", {"cpu": "2"})], "conditions": INFEASIBLE},
            4000,
            id="never, and what it has is not known",
        ),
        pytest.param(
            {"containers": [named(cpu="1"), named("d", cpu="1")]},
            {"containerStatuses": [told("c", {"cpu": "3"}, {}), told("d", {}, {"cpu": "2"})]},
            5000,
            id="the most of each container",
        ),
        pytest.param(
            {
                "containers": [named(cpu="1")],
                "initContainers": [{**named("s", cpu="1"), "restartPolicy": "Always"}],
            },
            {"initContainerStatuses": [told("s", {"cpu": "2"}, {"cpu": "2"})]},
            3000,
            id="a sidecar is resized",
        ),
        pytest.param(
            {"containers": [named(cpu="1")], "resources": {"requests": {"cpu": "2"}}},
            {"resources": {"requests": {"cpu": "5"}}, "allocatedResources": {"cpu": "3"}},
            5000,
            id="the pod as a whole",
        ),
        pytest.param(
            {"containers": [named(cpu="1")], "resources": {"requests": {"cpu": "9"}}},
            {
                "resources": {"requests": {"cpu": "5"}},
                "allocatedResources": {"cpu": "3"},
                "conditions": INFEASIBLE,
            },
            5000,
            id="the pod as a whole, and it will never happen",
        ),
        pytest.param(
            {"containers": [named(cpu="1")], "overhead": {"cpu": "1"}},
            {"containerStatuses": [told("c", {"cpu": "2"}, {"cpu": "2"})]},
            3000,
            id="overhead comes on top",
        ),
        pytest.param(
            {"containers": [named(cpu="2")]},
            {"containerStatuses": [told("c", {"cpu": "-5"}, {"cpu": "-5"})], "conditions": INFEASIBLE},
            2000,
            id="below zero is no reason to leave the spec out",
        ),
    ],
)
def test_a_pod_that_is_resized_holds_the_most(spec, status, expected):
    """What kube-scheduler counts of a pod that has its node: spec, agreed and actual, per container and resource."""
    one = pod({**spec, "nodeName": "n"}, status=status)
    assert held_request_of(one) == {"cpu": expected, "pods": 1}
    assert is_resized(one) == bool(status)


def test_an_amount_of_the_status_that_is_no_quantity_hides_no_other():
    spec, status = {"nodeName": "n", "containers": [named(cpu="2")]}, told("c", {"cpu": "x"}, {"cpu": "5"})
    document = {"metadata": {"name": "p"}, "spec": spec, "status": {"containerStatuses": [status]}}
    one, problems = read_object(document, POD)
    assert len(problems) == 1
    assert held_request_of(one) == {"cpu": 5000, "pods": 1}
