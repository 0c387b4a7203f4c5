"""A derived gang becomes a PodGroup: as it is written first, and as a change of the one that is there.

What was not derived is left alone; what was derived follows the workload.
"""

import copy

import pytest

from muster.api.podgroup import GROUPER_ANNOTATION
from muster.grouping.derive import Reading
from muster.grouping.metadata import derived
from muster.grouping.nodes import Hold, Node
from muster.grouping.owners import Objects
from muster.grouping.podgroup import CONSTRAINTS_ANNOTATION, capped, document_of, merged, name_of
from muster.grouping.trouble import Trouble
from workloads import entry, interface, pod, work

NOBODY = frozenset()
EACH = ".spec.groups[] as $g"
LEVELS = {"requiredPath": "$g.level"}
MADE = interface(
    {
        "minSubGroupPath": ".spec.m",
        "topology": {"namePath": ".spec.dc", "requiredPath": ".spec.level"},
        "subgroups": [entry("$g.name", foreach=EACH, minReplicasPath="$g.n", topology=LEVELS)],
    }
)


def blueprint(made, owner, a_pod=None, above=()):
    reading = Reading(made, [owner, *above], a_pod, Objects([]))
    return reading.derive(*reading.template_of(a_pod), a_pod)


def wanted(owner, made=MADE, a_pod=None, top=None):
    """The PodGroup as it should be, and the fields that only the pod said."""
    gang = blueprint(made, owner, a_pod)
    said = derived(gang.sources, a_pod, [], classes=None, default_queue="default-queue")
    return document_of(gang, said, name_of(gang, made), "default", top or owner), said.weak


def groups(*pairs, level="rack", **more):
    return {"groups": [{"name": name, "n": n, "level": level} for name, n in pairs], "level": level, **more}


class TestName:
    def test_of_the_owner(self):
        assert name_of(blueprint(MADE, work(**groups(("a", 1)))), MADE) == "pg-w-uid-w"

    def test_without_an_interface(self):
        made = interface({"podClassifier": {"matchLabels": {"t": "a"}}}, {})
        assert name_of(blueprint(made, work()), None) == "pg-w-uid-w"

    def test_several_templates_and_keys_are_told_apart(self):
        one = {"name": "one", "instanceKeyPaths": ".metadata.labels.k", "when": ".spec"}
        made = interface(one, {"name": "two"})
        assert name_of(blueprint(made, work(), pod(k="0")), made) == "pg-w-uid-w-one-0"

    def test_an_owner_without_uid_or_a_strange_one(self):
        """Nothing stands for what is not there, and the name is one that Kubernetes takes."""
        owner = work()
        del owner["metadata"]["uid"]
        assert name_of(blueprint(interface({}), owner), None) == "pg-w"
        assert name_of(blueprint(interface({}), work("W_x")), None).startswith("pg-w-x-uid-w-x-")

    def test_a_template_of_its_own(self):
        made = interface({"nameTemplate": '"my-\\(.metadata.name)"', "when": ".spec"}, {"name": "two"})
        assert name_of(blueprint(made, work()), made) == "my-w"


class TestDocument:
    def test_a_flat_gang(self):
        owner = work(labels={"kai.scheduler/queue": "team", "app": "x"}, n=3)
        document, _ = wanted(owner, interface({"minMemberPath": ".spec.n"}))
        assert document == {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {
                "name": "pg-w-uid-w",
                "namespace": "default",
                "labels": {"kai.scheduler/queue": "team", "app": "x"},
                "annotations": {GROUPER_ANNOTATION: "name: w\nuid: uid-w\ngroup: x.io\nversion: v1\nkind: Work\n"},
                "ownerReferences": [{"apiVersion": "x.io/v1", "kind": "Work", "name": "w", "uid": "uid-w"}],
            },
            "spec": {"minMember": 3, "queue": "team", "priorityClassName": "train"},
        }

    def test_what_the_workload_says(self):
        notes = {"kai.scheduler/preemption-delay": "5s", "kai.scheduler/staleness-grace-period": "1m"}
        labels = {"priorityClassName": "build", "kai.scheduler/preemptibility": "non-preemptible"}
        document, _ = wanted(work(labels=labels, notes=notes), interface({}))
        assert document["spec"] == {
            "minMember": 1,
            "queue": "default-queue",
            "priorityClassName": "build",
            "preemptibility": "non-preemptible",
            "preemptionDelay": "5s",
            "stalenessGracePeriod": "1m",
        }

    def test_an_owner_without_uid_owns_nothing(self):
        owner = work()
        del owner["metadata"]["uid"]
        assert "ownerReferences" not in wanted(owner, interface({}))[0]["metadata"]

    def test_the_top_owner_is_described(self):
        document, _ = wanted(work(), interface({}), top={"apiVersion": "v1", "kind": "Top", "metadata": {"name": "t"}})
        described = "name: t\nuid: ''\ngroup: ''\nversion: v1\nkind: Top\n"
        assert document["metadata"]["annotations"][GROUPER_ANNOTATION].replace('""', "''") == described
        assert document["metadata"]["ownerReferences"][0]["kind"] == "Work"

    def test_a_tree(self):
        """Parents before children, in document order; a minimum of children only where it is less than all."""
        template = {
            "minSubGroup": 1,
            "topology": {"namePath": ".spec.dc"},
            "subgroups": [
                {
                    "componentName": "b",
                    "minSubGroupPath": ".spec.m",
                    "topology": {"preferredPath": ".spec.level"},
                    "subgroups": [entry("x", minReplicas=0), entry("y", minReplicas=2)],
                },
                entry("c"),
            ],
        }
        document, _ = wanted(work(dc="dc", level="rack", m=2), interface(template))
        assert document["spec"] == {
            "minSubGroup": 1,
            "queue": "default-queue",
            "priorityClassName": "train",
            "topologyConstraint": {"topology": "dc"},
            "subGroups": [
                {"name": "b", "topologyConstraint": {"preferredTopologyLevel": "rack"}},
                {"name": "x", "parent": "b", "minMember": 0},
                {"name": "y", "parent": "b", "minMember": 2},
                {"name": "c", "minMember": 1},
            ],
        }
        less, _ = wanted(work(m=1), interface({**template, "minSubGroup": 2}))
        assert "minSubGroup" not in less["spec"]
        assert less["spec"]["subGroups"][0] == {"name": "b", "minSubGroup": 1}
        # A topology that holds nothing together, here or below, is not written.
        assert "topologyConstraint" not in less["spec"]
        assert "topologyConstraint" not in wanted(work(dc="dc"), interface(template))[0]["spec"]

    @pytest.mark.parametrize(
        ("hold", "below", "written"),
        [
            pytest.param(Hold("dc"), Hold(), {}, id="a name alone"),
            pytest.param(Hold("dc"), Hold("", "rack"), {"topology": "dc"}, id="a name that is inherited"),
            pytest.param(Hold("dc"), Hold("other"), {}, id="a name below holds nothing either"),
            pytest.param(Hold("", "rack"), Hold(), {"requiredTopologyLevel": "rack"}, id="required"),
            pytest.param(Hold("", "", "rack"), Hold(), {"preferredTopologyLevel": "rack"}, id="preferred"),
            pytest.param(
                Hold("dc", "zone", "rack"),
                Hold(),
                {"topology": "dc", "requiredTopologyLevel": "zone", "preferredTopologyLevel": "rack"},
                id="all",
            ),
        ],
    )
    def test_constraints(self, hold, below, written):
        gang = blueprint(interface({"subgroups": [entry("a")]}), work())
        leaf = Node("a", "a", "p", minimum=1, hold=below)
        gang = gang._replace(root=Node("", "root", "p", hold=hold, children=[leaf]))
        said = derived([work()], None, [], classes=None, default_queue="q")
        document = document_of(gang, said, "n", "default", work())
        assert document["spec"].get("topologyConstraint", {}) == written
        assert (CONSTRAINTS_ANNOTATION in document["metadata"]["annotations"]) == bool(written or below.required)


def made_before(*pairs, **fields):
    """A PodGroup that was written for an earlier state of the workload, as the API server gives it back."""
    document = copy.deepcopy(wanted(work(**groups(*pairs, **fields)))[0])
    document["metadata"] |= {"resourceVersion": "7", "uid": "u"}
    return document | {"status": {"phase": "Running"}}


def brought(existing, *pairs, weak=NOBODY, **fields):
    before = copy.deepcopy(existing)
    found = merged(existing, wanted(work(**groups(*pairs, **fields)))[0], weak)
    assert existing == before, "what is there is not changed in place"
    return found


def rule(document, name=""):
    """The constraint of a node."""
    spec = document["spec"]
    return ({"": spec} | {one["name"]: one for one in spec.get("subGroups", [])})[name].get("topologyConstraint")


def edit(document, name, constraint):
    """Somebody's hand: a constraint of a node, or None to take it away."""
    spec = document["spec"]
    node = next((one for one in spec["subGroups"] if one["name"] == name), spec)
    node.pop("topologyConstraint", None)
    if constraint:
        node["topologyConstraint"] = constraint


RACK, ZONE = {"requiredTopologyLevel": "rack"}, {"requiredTopologyLevel": "zone"}


class TestMerging:
    def test_an_older_spelling_of_the_structure_goes(self):
        existing = made_before(("a", 1), ("b", 2))
        existing["spec"]["subgroups"] = existing["spec"].pop("subGroups")
        found = brought(existing, ("a", 1), ("b", 2))
        assert "subgroups" not in found["spec"]
        assert [one["name"] for one in found["spec"]["subGroups"]] == ["a", "b"]

    def test_constraints_beside_the_tree_forget_subgroups_that_went(self):
        existing = made_before(("a", 1), ("b", 2))
        sets = [{"subGroups": ["a", "b"], "constraint": RACK}, {"subGroups": ["a"], "constraint": ZONE}]
        existing["spec"]["topologyConstraints"] = {"subGroups": {"a": RACK, "b": ZONE}, "subGroupSets": sets}
        left = {"subGroups": {"b": ZONE}, "subGroupSets": [{"subGroups": ["b"], "constraint": RACK}]}
        assert brought(existing, ("b", 2))["spec"]["topologyConstraints"] == left
        assert "topologyConstraints" not in brought(existing, ("c", 2))["spec"]

    def test_nothing_changes_nothing(self):
        """It is the very object, also when it came back from the server with more in it."""
        existing = made_before(("a", 2), ("b", 3), m=1, level="rack")
        assert brought(existing, ("a", 2), ("b", 3), m=1) is existing

    def test_what_is_kept_together_follows_the_workload(self):
        """It comes, changes and goes with what the interface says."""
        entries = [entry("$g.name", foreach=EACH, minReplicasPath="$g.n")]
        made = interface({"minSubGroup": 1, "keep": ".spec.keep", "subgroups": entries})
        plain, kept = (wanted(work(**groups(("a", 1), ("b", 1)), **more), made)[0] for more in ({}, {"keep": "all"}))
        assert "muster.dev/keep" not in plain["metadata"]["annotations"]
        assert kept["metadata"]["annotations"]["muster.dev/keep"] == "."
        assert merged(plain, kept, NOBODY) == kept
        assert merged(kept, plain, NOBODY) == plain

    def test_branches_are_kept_by_name(self):
        branch = {"componentName": "b", "keep": "all", "minSubGroup": 1}
        inner = [entry("$g.name", foreach=EACH, minReplicasPath="$g.n")]
        made = interface({"subgroups": [{**branch, "subgroups": inner}, entry("c", minReplicas=1)]})
        found, _ = wanted(work(**groups(("a", 1), ("d", 1))), made)
        assert found["metadata"]["annotations"]["muster.dev/keep"] == "b"

    def test_what_is_neither_all_nor_nothing_is_told(self):
        made = interface({"keep": ".spec.keep", "subgroups": [entry("a", minReplicas=1), entry("b", minReplicas=1)]})
        with pytest.raises(Trouble, match='"some" is not all') as told:
            wanted(work(keep="some"), made)
        assert told.value.path == "spec.gangScheduling.podGroups[0].keep"

    def test_somebody_elses_is_not_touched(self):
        existing = made_before(("a", 2))
        del existing["metadata"]["annotations"][GROUPER_ANNOTATION]
        assert brought(existing, ("a", 5), ("b", 3), level="zone") is existing
        bare = {"metadata": {}, "spec": {"minMember": 1}}
        assert brought(bare, ("a", 5)) is bare

    def test_minimums_follow(self):
        existing = made_before(("a", 2), ("b", 2), ("c", 1), m=2)
        found = brought(existing, ("a", 5), ("b", 2), ("c", 1), m=1)
        assert found["spec"]["minSubGroup"] == 1
        assert [one["minMember"] for one in found["spec"]["subGroups"]] == [5, 2, 1]
        assert "minSubGroup" not in brought(existing, ("a", 5), ("b", 2), ("c", 1))["spec"]

    def test_a_tree_may_become_flat_and_back(self):
        flat, _ = wanted(work(), interface({"minMember": 4}))
        tree = made_before(("a", 2))
        assert merged(tree, flat, NOBODY)["spec"] == flat["spec"]
        assert merged(flat, tree, NOBODY)["spec"] == tree["spec"]

    def test_what_others_wrote_stays(self):
        """The queue, fields that nobody derives, labels, annotations, owners, the status."""
        existing = made_before(("a", 2))
        existing["spec"] |= {"queue": "moved", "markUnschedulable": True, "backoffLimit": 3}
        existing["metadata"]["labels"] = {"mine": "x"}
        existing["metadata"]["annotations"]["note"] = "y"
        existing["metadata"]["ownerReferences"] = [{"kind": "Other", "name": "o", "uid": "x"}]
        owner = work(labels={"kai.scheduler/queue": "team", "app": "z"}, **groups(("a", 3)))
        found = merged(existing, wanted(owner)[0], NOBODY)
        assert found["spec"] == existing["spec"] | {"subGroups": [{**existing["spec"]["subGroups"][0], "minMember": 3}]}
        assert found["metadata"]["labels"] == {"mine": "x", "app": "z", "kai.scheduler/queue": "team"}
        assert found["metadata"]["annotations"]["note"] == "y"
        assert found["metadata"]["ownerReferences"] == existing["metadata"]["ownerReferences"]
        assert found["metadata"]["resourceVersion"] == "7"
        assert found["status"] == existing["status"]

    def test_what_is_missing_comes(self):
        existing = made_before(("a", 2))
        existing["spec"]["queue"] = ""
        del existing["metadata"]["ownerReferences"]
        found = brought(existing, ("a", 2))
        assert found["spec"]["queue"] == "default-queue"
        assert found["metadata"]["ownerReferences"][0]["uid"] == "uid-w"

    def test_labels_and_annotations_of_the_workload_follow(self):
        first, second = (
            wanted(work(labels={"app": v}, notes={"kai.scheduler/x": v}, **groups(("a", 1))))[0] for v in "ab"
        )
        found = merged(first, second, NOBODY)
        assert found["metadata"]["labels"]["app"] == "b"
        assert found["metadata"]["annotations"]["kai.scheduler/x"] == "b"

    def test_what_the_workload_says_of_the_whole_follows(self):
        first = wanted(work(labels={"priorityClassName": "build"}, **groups(("a", 1))))[0]
        second = wanted(work(labels={"priorityClassName": "inference"}, **groups(("a", 1))))[0]
        assert merged(first, second, NOBODY)["spec"]["priorityClassName"] == "inference"


class TestConstraintsThatAreThere:
    def test_without_edits_they_follow(self):
        existing = made_before(("a", 1), ("b", 1), level="rack", dc="dc")
        found = brought(existing, ("a", 1), ("b", 1), level="zone")
        assert (rule(found), rule(found, "a"), rule(found, "b")) == (ZONE, ZONE, ZONE)
        assert brought(found, ("a", 1), ("b", 1), level="zone") is found

    def test_without_edits_they_go(self):
        existing = made_before(("a", 1))
        found = brought(existing, ("a", 1), level=None)
        assert (rule(found), rule(found, "a")) == (None, None)
        assert CONSTRAINTS_ANNOTATION not in found["metadata"]["annotations"]
        assert brought(found, ("a", 1), level=None) is found
        assert rule(brought(found, ("a", 1), level="zone"), "a") == ZONE

    @pytest.mark.parametrize(
        ("name", "constraint"),
        [
            pytest.param("a", ZONE, id="changed"),
            pytest.param("a", None, id="taken away"),
            pytest.param("", ZONE, id="changed at the root"),
            pytest.param("", None, id="taken away at the root"),
        ],
    )
    def test_an_edit_stays(self, name, constraint):
        """Also when the workload changes, scales up and down; and nodes that nobody edited stay beside it."""
        existing = made_before(("a", 1), ("b", 1), level="rack")
        edit(existing, name, constraint)
        found = brought(existing, ("a", 1), ("b", 1))
        assert found is existing
        for pairs in ([("a", 4), ("b", 1), ("c", 2)], [("a", 4), ("c", 2)], [("a", 1), ("b", 1)]):
            found = brought(found, *pairs, level="block")
            assert rule(found, name) == constraint
            assert [(one["name"], one["minMember"]) for one in found["spec"]["subGroups"]] == pairs
            assert brought(found, *pairs, level="block") is found

    def test_beside_an_edit_others_stay_and_new_ones_get_theirs(self):
        existing = made_before(("a", 1), ("b", 1))
        edit(existing, "a", ZONE)
        found = brought(existing, ("a", 1), ("b", 1), ("c", 1), level="block")
        assert [rule(found, name) for name in ("", "a", "b", "c")] == [
            RACK,
            ZONE,
            RACK,
            {"requiredTopologyLevel": "block"},
        ]

    def test_an_edit_where_nothing_was_derived(self):
        existing = made_before(("a", 1), level=None)
        edit(existing, "a", ZONE)
        found = brought(existing, ("a", 1), ("b", 1), level="rack")
        assert [rule(found, name) for name in ("", "a", "b")] == [None, ZONE, RACK]
        assert brought(found, ("a", 1), ("b", 1), level="rack") is found

    def test_an_edit_that_is_taken_back_is_none(self):
        existing = made_before(("a", 1))
        edit(existing, "a", ZONE)
        existing = brought(existing, ("a", 2), level="rack")
        edit(existing, "a", RACK)
        assert rule(brought(existing, ("a", 2), level="block"), "a") == {"requiredTopologyLevel": "block"}

    def test_an_edit_stays_one_when_the_workload_comes_to_agree(self):
        existing = made_before(("a", 1))
        for name in ("", "a"):
            edit(existing, name, ZONE)
        existing = brought(existing, ("a", 2), level="zone")
        found = brought(existing, ("a", 3), level="block")
        assert (rule(found), rule(found, "a")) == (ZONE, ZONE)

    def test_an_annotation_of_the_workload_changes_them(self):
        """The same way through `kai.scheduler/topology-required.<path>`: on, changed, off."""

        def document(value):
            notes = {"kai.scheduler/topology-required.root.a": value} if value else {}
            return wanted(work(notes=notes, **groups(("a", 1), level=None)))[0]

        found = merged(document(None), document("rack"), NOBODY)
        assert rule(found, "a") == RACK
        found = merged(found, document("zone"), NOBODY)
        assert rule(found, "a") == ZONE
        assert rule(merged(found, document(None), NOBODY), "a") is None

    def test_the_name_of_the_topology_is_one_of_them(self):
        """`kai.scheduler/topology` on the PodGroup follows the workload's, until somebody edits it."""
        key = "kai.scheduler/topology"

        def document(value):
            return wanted(work(notes={key: value} if value else {}, **groups(("a", 1))))[0]

        def name(found):
            return found["metadata"]["annotations"].get(key), (rule(found) or {}).get("topology")

        found = merged(document("one"), document("two"), NOBODY)
        assert name(found) == name(document("two"))
        assert name(merged(found, document(None), NOBODY)) == (None, None)
        edited = copy.deepcopy(found)
        edited["metadata"]["annotations"][key] = "mine"
        again = merged(edited, document("three"), NOBODY)
        assert name(again) == ("mine", name(found)[1])
        assert merged(again, document("three"), NOBODY) is again


class TestMinimumsOfARunningGang:
    """One that is semi-preemptible keeps its minimums from rising while it runs; what comes then is surplus."""

    @staticmethod
    def running(*pairs, **fields):
        document = made_before(*pairs, **fields)
        document["spec"]["preemptibility"] = "semi-preemptible"
        return document | {"status": {"resourcesStatus": {"allocated": {"cpu": "1"}}}}

    @staticmethod
    def asked(*pairs, **fields):
        return wanted(work(**groups(*pairs, **fields)))[0]

    def test_they_do_not_rise(self):
        """A leaf's, and the root's when it gets more children; a new SubGroup has its own."""
        existing, now = self.running(("a", 2), ("b", 3)), self.asked(("a", 5), ("b", 3), ("c", 7))
        before = copy.deepcopy(now)
        found, held = capped(existing, now)
        assert now == before
        assert sorted(held) == ["a", "the PodGroup"]
        assert found["spec"]["minSubGroup"] == 2
        assert [one["minMember"] for one in found["spec"]["subGroups"]] == [2, 3, 7]
        again, _ = capped({**existing, "spec": {**existing["spec"], **found["spec"]}}, now)
        assert again == found

    def test_they_fall(self):
        now = self.asked(("a", 1), ("b", 3), m=1)
        assert capped(self.running(("a", 2), ("b", 3), m=2), now) == (now, [])

    def test_a_flat_gang(self):
        made = interface({"minMemberPath": ".spec.n"})
        existing = wanted(work(n=2), made)[0] | {"status": self.running(("a", 1))["status"]}
        existing["spec"]["preemptibility"] = "semi-preemptible"
        found, held = capped(existing, wanted(work(n=3), made)[0])
        assert (found["spec"]["minMember"], held) == (2, ["the PodGroup"])
        # From flat to a tree there is nothing to compare.
        tree = self.asked(("a", 9), ("b", 9))
        assert capped(existing, tree) == (tree, [])

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param({"status": {}}, id="that does not run"),
            pytest.param({"spec": {"minMember": 1}}, id="that is not semi-preemptible"),
            pytest.param({"metadata": {"name": "a"}}, id="that somebody else made"),
        ],
    )
    def test_any_other(self, change):
        now = self.asked(("a", 5))
        assert capped(self.running(("a", 2)) | change, now) == (now, [])


class TestWhatOnlyAPodSaid:
    @staticmethod
    def of(owner=None, **said):
        a_pod = pod(**said.pop("labels", {}), notes=said.pop("notes", {}))
        a_pod["spec"] |= said
        return wanted(owner or work(**groups(("a", 1))), a_pod=a_pod)

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            pytest.param({"priorityClassName": "build"}, {"priorityClassName": "inference"}, id="priority"),
            pytest.param(
                {"labels": {"kai.scheduler/preemptibility": "preemptible"}},
                {"labels": {"kai.scheduler/preemptibility": "non-preemptible"}},
                id="preemptibility",
            ),
            pytest.param(
                {"notes": {"kai.scheduler/preemption-delay": "1s"}},
                {"notes": {"kai.scheduler/preemption-delay": "2s"}},
                id="delay",
            ),
            pytest.param(
                {"notes": {"kai.scheduler/staleness-grace-period": "1s"}},
                {"notes": {"kai.scheduler/staleness-grace-period": "2s"}},
                id="grace period",
            ),
            pytest.param({"labels": {"user": "a"}}, {"labels": {"user": "b"}}, id="user label"),
            pytest.param({"notes": {"user": "a"}}, {"notes": {"user": "b"}}, id="user annotation"),
            pytest.param(
                {"labels": {"kai.scheduler/queue": "a"}}, {"labels": {"kai.scheduler/queue": "b"}}, id="queue"
            ),
        ],
    )
    def test_another_pod_does_not_change_it(self, first, second):
        existing, _ = self.of(**copy.deepcopy(first))
        other, weak = self.of(**copy.deepcopy(second))
        assert other != existing
        assert weak
        assert merged(existing, other, weak) is existing

    def test_where_nothing_is_it_comes(self):
        existing, _ = self.of()
        other, weak = self.of(labels={"kai.scheduler/preemptibility": "preemptible", "user": "a"})
        found = merged(existing, other, weak)
        assert found["spec"]["preemptibility"] == "preemptible"
        assert found["metadata"]["labels"] == {"user": "a"}

    def test_beside_it_the_workload_is_followed(self):
        """The pod's user stays; what the workload says itself changes all the same."""
        existing, _ = self.of(work(labels={"app": "a"}, notes={"kai.scheduler/x": "a"}, **groups(("a", 1))),
                              labels={"user": "p"}, notes={"user": "p"})  # fmt: skip
        other, weak = self.of(work(labels={"app": "b"}, notes={"kai.scheduler/x": "b"}, **groups(("a", 1))),
                                  labels={"user": "q"}, notes={"user": "q"})  # fmt: skip
        found = merged(existing, other, weak)
        assert found["metadata"]["labels"] == {"app": "b", "user": "p"}
        assert found["metadata"]["annotations"]["kai.scheduler/x"] == "b"
        assert found["metadata"]["annotations"]["user"] == "p"


@pytest.mark.parametrize("garbage", [None, 5, "text", [], [5], {"a": 1}, [{"name": ["x"], "topologyConstraint": 5}]])
@pytest.mark.parametrize("place", ["subGroups", "topologyConstraint", "spec", "labels", "annotations", "metadata"])
def test_whatever_is_there_is_brought_to_what_is_wanted(place, garbage):
    """PodGroups come from files too: a broken one raises nothing, and a second look changes nothing."""
    existing = made_before(("a", 1))
    home = {"spec": existing, "metadata": existing, "labels": existing["metadata"], "annotations": existing["metadata"]}
    home.get(place, existing["spec"])[place] = garbage
    found = brought(existing, ("a", 2))
    assert brought(found, ("a", 2)) is found or place in ("metadata", "annotations")
