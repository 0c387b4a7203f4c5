"""Whatever pods run with required anti-affinity, come, terminate and go: where others may go is what one look at every
pod and every term says (pod-rules §1.2 C), for a builder that has seen it all as for one that begins.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.sim.apart import is_kept_away
from muster.snapshot.build import Builder, build
from muster.snapshot.world import World
from oracle.engine import apply

KEYS, VALUES, SPACES = ("a", "b"), ("1", "2"), ("default", "team")
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
EXPRESSIONS = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {
                "key": st.sampled_from(KEYS),
                "operator": st.sampled_from(["In", "NotIn"]),
                "values": st.lists(st.sampled_from(VALUES), min_size=1, max_size=2),
            }
        ),
        st.fixed_dictionaries({"key": st.sampled_from(KEYS), "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
    ),
    max_size=2,
)
SELECTORS = st.fixed_dictionaries({}, optional={"matchLabels": LABELS, "matchExpressions": EXPRESSIONS})
TERMS = st.fixed_dictionaries(
    {"topologyKey": st.sampled_from(["zone", "rack"])},
    optional={
        "labelSelector": SELECTORS,
        "namespaceSelector": SELECTORS,
        "namespaces": st.lists(st.sampled_from(SPACES), max_size=2),
        "matchLabelKeys": st.lists(st.sampled_from(["c"]), max_size=1),
        "mismatchLabelKeys": st.lists(st.sampled_from(["d"]), max_size=1),
    },
)
NODES = [
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"allocatable": {}}}
    for name, labels in (
        ("n0", {"zone": "x", "rack": "r"}),
        ("n1", {"zone": "x", "rack": "s"}),
        ("n2", {"zone": "y", "rack": "r"}),
        ("n3", {"zone": ""}),
        ("n4", {}),
    )
]


def pod(name, space, labels, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": space, "labels": labels},
        "spec": spec,
    }


@st.composite
def carriers(draw):
    terms = draw(st.lists(TERMS, min_size=1, max_size=2))
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    labels = {**draw(LABELS), **draw(st.dictionaries(st.sampled_from("cd"), st.sampled_from(VALUES)))}
    node = draw(st.sampled_from(["n0", "n1", "n2", "n3", "n4", "gone"]))
    found = pod(f"e{draw(st.integers(0, 3))}", draw(st.sampled_from(SPACES)), labels, nodeName=node, affinity=affinity)
    how = draw(st.sampled_from(["runs", "runs", "terminates", "Succeeded", "Failed"]))
    if how == "terminates":
        found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {**found, "status": {"phase": how}} if how in ("Succeeded", "Failed") else found


SPACE = st.builds(
    lambda name, labels: {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}},
    st.sampled_from(SPACES),
    LABELS,
)
EVENTS = st.lists(st.tuples(st.booleans(), st.one_of(carriers(), carriers(), SPACE)), min_size=1, max_size=6)
NEWCOMERS = st.lists(
    st.tuples(
        st.sampled_from(SPACES),
        LABELS,
        st.dictionaries(st.sampled_from("cd"), st.sampled_from(VALUES)),
    ),
    min_size=1,
    max_size=4,
)


def masks(snapshot):
    """Where each waiting pod may go, now and when those that terminate are gone."""
    found = {}
    for gang in snapshot.gangs:
        for batch in gang.waiting:
            for name in batch.pods:
                pair = (snapshot.allowed[batch.shape], snapshot.allowed_soon[batch.shape])
                found[gang.key[0], name] = tuple(mask.tolist() for mask in pair)
    return found


@settings(max_examples=150, deadline=None)
@given(EVENTS, NEWCOMERS)
def test_where_others_may_go_is_what_every_term_says(events, newcomers):
    world, there = World(), {}
    builder = Builder(world)
    groups = [
        {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "g", "namespace": space}}
        for space in SPACES
    ]
    waiting = []
    for number, (space, labels, more) in enumerate(newcomers):
        one = pod(f"w{number}", space, {**labels, **more}, schedulerName="kai-scheduler", containers=[{"name": "c"}])
        one["metadata"]["annotations"] = {"pod-group-name": "g"}
        waiting.append(one)
    for document in (*NODES, *groups, *waiting):
        apply(world, document)
    by_name = {node["metadata"]["name"]: node for node in NODES}
    for goes, document in events:
        key = document["kind"], document["metadata"].get("namespace"), document["metadata"]["name"]
        if goes and key in there:
            apply(world, there.pop(key), deleted=True)
        else:
            apply(world, document)
            there[key] = document
        spaces = {key[2]: one["metadata"]["labels"] for key, one in there.items() if key[0] == "Namespace"}
        pods = [one for key, one in there.items() if key[0] == "Pod"]
        stay = [one for one in pods if "deletionTimestamp" not in one["metadata"]]
        wanted = {
            (one["metadata"]["namespace"], one["metadata"]["name"]): tuple(
                [not is_kept_away(one, node, some, by_name, spaces) for node in NODES] for some in (pods, stay)
            )
            for one in waiting
        }
        assert masks(builder.build(0)) == wanted
        assert masks(build(world.copy(), 0)) == wanted
