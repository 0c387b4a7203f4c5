"""What was derived is kept while it is right, found again at once, and forgotten when there is too much of it."""

import gc
import weakref

import pytest

from muster.grouping import memory
from muster.grouping.derive import Reading
from muster.grouping.grouper import Grouper
from muster.grouping.language.limits import DEFAULT
from muster.grouping.memory import Memory
from muster.grouping.owners import Absence, Objects
from muster.grouping.registry import Registry
from workloads import entry, grouper, interface, pod, work

FLAT = interface({"minMember": 1})
BY_KEY = interface({"instanceKeyPaths": ".metadata.labels.k"})
THINGS = {"name": "things", "gvk": {"group": "x.io", "kind": "Thing"}, "list": {"matchLabels": {"of": "a"}}}


@pytest.fixture
def readings(monkeypatch):
    """The owners that were read, in order."""
    read = []

    class Counting(Reading):
        def __init__(self, made, owners, *rest, **more):
            read.append(owners[0]["metadata"]["name"])
            super().__init__(made, owners, *rest, **more)

    monkeypatch.setattr(memory, "Reading", Counting)
    return read


class Counted(Objects):
    """Counts the selections; a kind may be forbidden."""

    def __init__(self, documents, forbidden=""):
        super().__init__(documents)
        self.forbidden, self.selections = forbidden, 0

    def get(self, wanted):
        return Absence.FORBIDDEN if wanted.kind == self.forbidden else super().get(wanted)

    def select(self, *asked):
        self.selections += 1
        return super().select(*asked)


def keeper_of(made, lookup):
    return Grouper(Registry([], [made]), lookup)


def test_what_is_not_used_for_longest_goes_first(readings):
    owners = {name: work(name) for name in "abc"}
    kept = Memory(Objects(owners.values()), DEFAULT, most=2)
    for name in "abac" + "a" + "b":
        kept.blueprint(FLAT, (owners[name],), None)
    assert readings == ["a", "b", "c", "b"]
    assert [one.owners[0]["metadata"]["name"] for one in kept.values()] == ["a", "b"]


def test_so_do_the_gangs_of_one_workload():
    owner = work()
    kept = Memory(Objects([owner]), DEFAULT, most=2)
    for key in "abac":
        kept.blueprint(BY_KEY, (owner,), pod(k=key))
    ((one,),) = [kept.values()]
    assert [key for _, key in one.blueprints] == [("b",), ("c",)]


def test_an_owner_that_may_not_be_read_does_not_cost_a_reading_for_each_pod(readings):
    boss = work("boss", kind="Boss")
    owner = work()
    owner["metadata"]["ownerReferences"] = pod("any", boss)["metadata"]["ownerReferences"]
    keeper = keeper_of(FLAT, Counted([owner], forbidden="Boss"))
    for _ in range(2):
        assert len(keeper.group([pod(f"p{n}") for n in range(20)]).pods) == 20
    assert readings == ["w"]


def test_what_was_looked_up_is_compared_once_a_pass(readings):
    made = interface({"minMemberPath": "$things | length"}, references=[THINGS])
    things = [work(f"t{n}", kind="Thing", labels={"of": "a"}) for n in range(3)]
    keeper = keeper_of(made, Counted([work(), *things]))
    for selections in (1, 2, 3):
        assert len(keeper.group([pod(f"p{n}") for n in range(20)]).pods) == 20
        assert keeper.lookup.selections == selections
    keeper.lookup.__init__([work(), *things[:2]])
    (made,) = keeper.group([pod("p0")]).groups
    assert made.document["spec"]["minMember"] == 2


def test_interfaces_may_be_replaced_between_passes(readings):
    owners, pods = [work("a"), work("b")], [pod("p", work("a")), pod("q", work("b"))]
    keeper = keeper_of(FLAT, Objects(owners))
    keeper.group(pods)
    keeper.registry = Registry([], [FLAT])
    keeper.group(pods)
    assert readings == ["a", "b"]
    keeper.registry = Registry([], [interface({"minMember": 2})])
    assert [made.document["spec"]["minMember"] for made in keeper.group(pods).groups] == [2, 2]


def test_a_kept_trouble_does_not_keep_the_pass_that_met_it():
    class Watched(dict):
        pass

    owner = work(n="many")
    keeper = keeper_of(interface({"minMemberPath": ".spec.n"}), Objects([owner]))
    keeper.group([pod("first")])
    last = Watched(pod("last"))
    gone = weakref.ref(last)
    assert len(keeper.group([last]).problems) == 1
    del last
    gc.collect()
    assert gone() is None


def test_a_story_holds_what_was_asked_for_its_gang_whoever_came_before():
    made = interface(
        {"podClassifier": {"matchLabels": {"first": "yes"}}, "minMemberPath": "$a"},
        {"minMemberPath": "$b"},
        let={"a": ".spec.a", "b": ".spec.b"},
    )
    owner, pods = work(a=1, b=2), [pod("p", first="yes"), pod("q")]
    found = grouper(made, owner, explain=True).group(pods)
    assert grouper(made, owner, explain=True).group(pods[::-1]) == found
    assert [next(heard.path for heard in told.heard) for told in found.told_groups] == ["spec.let.a", "spec.let.b"]


def test_many_pods_that_want_one_name_are_told_apart_by_their_owner():
    made = interface({"ownerRef": "pod", "nameTemplate": ".metadata.name", "minMember": 1})
    found = grouper(made, work()).group([pod(f"p{n}") for n in range(3)])
    assert [one.name for one in found.pods] == ["p0"]
    assert [(one.name, one.pods) for one in found.problems] == [("p1", ("p1",)), ("p2", ("p2",))]


def test_numbered_leaves_are_filed_by_what_tells_most():
    """Segments of many alike leaves share their numbers: the leaf's own label is rarer."""
    owner = work(groups=[f"g{n}" for n in range(50)])
    leaf = entry("$g", podClassifier={"matchExpressions": [{"key": "g", "operator": "Equals", "valuePath": "$g"}]})
    leaf |= {"foreach": ".spec.groups[] as $g", "replicasPath": "8", "minReplicas": 8}
    leaf["segments"] = {"indexLabel": "i", "sizePath": "4"}
    kept = Memory(Objects([owner]), DEFAULT)
    leaves = kept.blueprint(interface({"subgroups": [leaf]}), (owner,), None).leaves
    assert max(map(len, leaves._by_value.values())) == 2
    assert leaves.nodes[leaves.of({"g": "g7", "i": "5"})].name == "g7-1"


def test_to_explain_a_gang_costs_no_more():
    """What is the same in all repetitions is asked once, and heard for each."""
    leaf = entry('"a-\\($i)"', podClassifier={"matchExpressions": [{"key": "i", "operator": "Equals"}]})
    leaf["podClassifier"]["matchExpressions"][0]["valuePath"] = "$i | tostring"
    leaf |= {"foreach": "range(5000) as $i", "minReplicasPath": "[range(200)] | length"}
    found = grouper(interface({"subgroups": [leaf]}), work(), explain=True).group([pod(i="3")])
    assert (found.problems, len(found.pods)) == ((), 1)
    heard = [one for one in found.told_groups[0].heard if one.path.endswith("minReplicasPath")]
    assert [(one.place, one.values) for one in heard] == [(f"a-{number}", (200,)) for number in range(5000)]
