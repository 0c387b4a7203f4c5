"""Which nodes a pod may go to: every operator, taint effect and toleration, as Kubernetes reads them."""

import pytest

from muster.api.cluster import Node, PodSpec
from muster.api.kinds import CORE_KINDS, read_object
from muster.snapshot.selectors import NodeTable

KINDS = {kind.name: kind for kind in CORE_KINDS}
NODES = {
    "big": {"labels": {"size": "16", "zone": "a"}},
    "small": {"labels": {"size": "4", "zone": "b"}},
    "odd": {"labels": {"size": "many", "zone": ""}},
    "bare": {"labels": {}},
}


def node(name: str, labels=None, ready=None, **spec) -> Node:
    status = {} if ready is None else {"conditions": [{"type": "Ready", "status": ready}]}
    document = {"metadata": {"name": name, "labels": labels or {}}, "spec": spec, "status": status}
    found, problems = read_object(document, KINDS["Node"])
    assert problems == []
    return found


def pod_spec(**spec) -> PodSpec:
    found, problems = read_object({"spec": spec}, KINDS["Pod"])
    assert problems == []
    return found.spec


def allowed(nodes: list[Node], **spec) -> set[str]:
    mask = NodeTable(nodes).allowed(pod_spec(**spec))
    return {one.metadata.name for one, may in zip(nodes, mask, strict=True) if may}


def required(*terms):
    selector = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


def expression(key, operator, *values):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


FOUR = [node(name, **more) for name, more in NODES.items()]


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        pytest.param("zone", "In", ["a", "c"], {"big"}, id="In"),
        pytest.param("zone", "In", [""], {"odd"}, id="an empty value is a value"),
        pytest.param("zone", "NotIn", ["a"], {"small", "odd", "bare"}, id="NotIn includes nodes without the label"),
        pytest.param("zone", "Exists", [], {"big", "small", "odd"}, id="Exists"),
        pytest.param("zone", "DoesNotExist", [], {"bare"}, id="DoesNotExist"),
        pytest.param("size", "Gt", ["4"], {"big"}, id="Gt"),
        pytest.param("size", "Lt", ["16"], {"small"}, id="Lt"),
        pytest.param("size", "Gt", ["x"], set(), id="Gt of no number"),
        pytest.param("size", "Gt", ["1", "2"], set(), id="Gt of two"),
        pytest.param("zone", "Near", ["a"], set(), id="an unknown operator is met by none"),
    ],
)
def test_operators(key, operator, values, expected):
    assert allowed(FOUR, affinity=required(expression(key, operator, *values))) == expected


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param([], set(), id="no terms select nothing"),
        pytest.param([{}], set(), id="an empty term selects nothing"),
        pytest.param(
            [expression("zone", "In", "a"), expression("zone", "In", "b")], {"big", "small"}, id="terms are or"
        ),
        pytest.param(
            [
                {
                    "matchExpressions": expression("zone", "Exists")["matchExpressions"]
                    + expression("size", "Gt", "5")["matchExpressions"]
                }
            ],
            {"big"},
            id="expressions are and",
        ),
        pytest.param(
            [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["odd"]}]}], {"odd"}, id="by name"
        ),
        pytest.param(
            [{"matchFields": [{"key": "spec.x", "operator": "In", "values": ["odd"]}]}], set(), id="other field"
        ),
    ],
)
def test_terms(terms, expected):
    assert allowed(FOUR, affinity=required(*terms)) == expected


def test_node_selector_and_affinity_both_hold():
    assert allowed(FOUR, nodeSelector={"zone": "a"}) == {"big"}
    assert allowed(FOUR, nodeSelector={"zone": "a"}, affinity=required(expression("size", "Lt", "5"))) == set()
    assert allowed(FOUR, nodeSelector={"nowhere": "x"}) == set()
    assert allowed(FOUR) == set(NODES)


@pytest.mark.parametrize(
    ("taint", "toleration", "may"),
    [
        pytest.param({"key": "gpu", "effect": "NoSchedule"}, None, False, id="no toleration"),
        pytest.param({"key": "gpu", "effect": "NoExecute"}, None, False, id="NoExecute keeps away too"),
        pytest.param({"key": "gpu", "effect": "PreferNoSchedule"}, None, True, id="PreferNoSchedule only prefers"),
        pytest.param(
            {"key": "gpu", "value": "a", "effect": "NoSchedule"}, {"key": "gpu", "value": "a"}, True, id="equal"
        ),
        pytest.param(
            {"key": "gpu", "value": "a", "effect": "NoSchedule"}, {"key": "gpu", "value": "b"}, False, id="unequal"
        ),
        pytest.param(
            {"key": "gpu", "value": "a", "effect": "NoSchedule"},
            {"key": "gpu", "operator": "Exists"},
            True,
            id="Exists",
        ),
        pytest.param({"key": "gpu", "effect": "NoSchedule"}, {"operator": "Exists"}, True, id="everything"),
        pytest.param(
            {"key": "gpu", "effect": "NoSchedule"}, {"key": "cpu", "operator": "Exists"}, False, id="other key"
        ),
        pytest.param(
            {"key": "gpu", "effect": "NoSchedule"}, {"key": "gpu", "effect": "NoExecute"}, False, id="other effect"
        ),
        pytest.param(
            {"key": "gpu", "effect": "NoSchedule"}, {"key": "gpu", "operator": "Lt"}, False, id="other operator"
        ),
    ],
)
def test_taints(taint, toleration, may):
    nodes = [node("n", taints=[taint])]
    assert bool(allowed(nodes, tolerations=[toleration] if toleration else [])) == may


def test_cordon_and_readiness():
    """A cordoned node is for those that tolerate the cordon; one that is not ready is for nobody."""
    nodes = [
        node("cordoned", unschedulable=True),
        node("ready", ready="True"),
        node("broken", ready="False"),
        node("lost", ready="Unknown"),
    ]
    assert allowed(nodes) == {"ready"}
    tolerant = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
    assert allowed(nodes, tolerations=tolerant) == {"cordoned", "ready"}
    assert allowed(nodes, tolerations=[{"operator": "Exists"}]) == {"cordoned", "ready"}


def test_preferences_are_weights():
    nodes = [node("a", {"zone": "a"}), node("b", {"zone": "b"}, taints=[{"key": "x", "effect": "PreferNoSchedule"}])]
    preferred = [
        {"weight": 10, "preference": expression("zone", "In", "b")},
        {"weight": 3, "preference": expression("zone", "Exists")},
    ]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    table = NodeTable(nodes)
    assert table.liked(pod_spec(affinity=affinity)).tolist() == [3, 12]
    assert table.liked(pod_spec(affinity=affinity, tolerations=[{"operator": "Exists"}])).tolist() == [3, 13]


def test_no_nodes_at_all():
    table = NodeTable([])
    assert (
        table.allowed(pod_spec(nodeSelector={"a": "b"}, affinity=required(expression("a", "Gt", "1")))).tolist() == []
    )
