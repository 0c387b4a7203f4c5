"""Pods of one template share what follows from it; nothing of a pod is lost, and nobody gets another's."""

import msgspec
import pytest

from muster.api.cluster import Pod
from muster.snapshot import templates
from muster.snapshot.requests import host_ports_of, request_of, unsupported_fields
from muster.snapshot.templates import Templates, shape_of
from muster.snapshot.world import World

CONTAINER = {"name": "a", "resources": {"requests": {"cpu": "1"}}}


def pod(name="p", node="", **spec):
    whole = {"containers": [CONTAINER], "schedulerName": "kai-scheduler", "nodeName": node, **spec}
    return msgspec.convert({"metadata": {"name": name, "uid": name}, "spec": whole}, Pod)


DIFFERENT = {
    "request": {"containers": [{**CONTAINER, "resources": {"requests": {"cpu": "2"}}}]},
    "request in other words": {"containers": [{**CONTAINER, "resources": {"requests": {"cpu": "1000m"}}}]},
    "number for text": {"containers": [{**CONTAINER, "resources": {"requests": {"cpu": 1}}}]},
    "init container": {"initContainers": [CONTAINER]},
    "overhead": {"overhead": {"cpu": "1"}},
    "of the pod": {"resources": {"requests": {"cpu": "5"}}},
    "selector": {"nodeSelector": {"a": "b"}},
    "toleration": {"tolerations": [{"key": "a", "operator": "Exists"}]},
    "affinity": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
    "volume": {"volumes": [{"persistentVolumeClaim": {}}]},
    "port": {"containers": [{**CONTAINER, "ports": [{"hostPort": 80}]}]},
    "host network": {"hostNetwork": True, "containers": [{**CONTAINER, "ports": [{"containerPort": 80}]}]},
    "gate": {"schedulingGates": [{"name": "g"}]},
    "priority": {"priority": 7},
}


@pytest.mark.parametrize("other", DIFFERENT.values(), ids=DIFFERENT)
def test_a_template_is_what_its_spec_comes_to(other):
    """Beside another one that differs in one thing."""
    found = Templates()
    first = found.of(pod().spec)
    for one in (pod(**other), pod("q", "n1", **other)):
        template = found.of(one.spec)
        assert template is not first
        assert template.request == request_of(one.spec)
        assert template.shape == shape_of(one, template.request)
        assert list(template.ports) == host_ports_of(one.spec)
        assert list(template.unsupported) == unsupported_fields(one)
    assert found.of(pod("r", "n9").spec) is first


def test_a_mirror_holds_what_was_seen_and_keeps_equal_specs_once():
    world, seen = World(), [pod("a"), pod("b"), pod("c", "n1"), pod("d", "n2")]
    for one in seen:
        world.apply(one)
    assert [facts.pod for facts in world.pods.values()] == seen
    a, b, c, d = (facts.pod.spec for facts in world.pods.values())
    assert a is b
    assert a.containers is c.containers is d.containers
    assert (c.node_name, d.node_name) == ("n1", "n2")


def test_what_is_wrong_with_one_spec_is_not_wrong_with_another():
    world = World()
    world.apply(pod("bad", containers=[{**CONTAINER, "resources": {"requests": {"cpu": "many"}}}]))
    world.apply(pod("good"))
    problems = [facts.problem for facts in world.pods.values()]
    assert "many" in problems[0]
    assert problems[1] == ""


def test_templates_are_forgotten_when_there_are_many(monkeypatch):
    monkeypatch.setattr(templates, "_MOST_TEMPLATES", 3)
    found = Templates()
    for number in range(10):
        found.of(pod(priority=number).spec)
        assert len(found._known) <= 3
    assert found.of(pod(priority=0).spec).request == request_of(pod().spec)
