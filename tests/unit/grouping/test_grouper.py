"""Pods in, gangs out: who is grouped, who is left alone, who can't be helped; and what is kept for the next time."""

import itertools
from dataclasses import replace

import pytest

from muster.grouping.derive import Reading
from muster.grouping.grouper import Assignment, Grouper
from muster.grouping.owners import Objects
from muster.grouping.registry import Registry
from workloads import entry, existing, grouper, interface, places, pod, specs, work

NAME = "pg-w-uid-w"
TWO = interface({"subgroups": [entry("head"), entry("worker", minReplicas=2)]})
SKIP = "kai.scheduler/skip-podgrouper"


def grouped(made, owners, pods, there=None, workloads=(), **more):
    return grouper(made, *owners, *pods, **more).group(pods, there, workloads)


def problem(found):
    (one,) = found.problems
    return one


class TestPlaces:
    def test_every_pod_finds_its_leaf(self):
        pods = [pod("b", role="worker"), pod("a", role="head"), pod("c", role="worker")]
        found = grouped(TWO, [work()], pods)
        assert found.pods == (
            Assignment("default", "a", NAME, "head"),
            Assignment("default", "b", NAME, "worker"),
            Assignment("default", "c", NAME, "worker"),
        )
        assert [made.changed for made in found.groups] == [True]
        assert (found.problems, found.warnings, found.alone) == ((), (), ())
        assert found.kinds == {"Work", "Pod"}
        assert (found.told_groups, found.told_pods) == ((), ())

    def test_a_flat_gang_takes_every_pod(self):
        found = grouped(interface({"minMember": 2}), [work()], [pod("a", any="thing"), pod("b")])
        assert places(found) == {"a": (NAME, ""), "b": (NAME, "")}

    def test_a_kind_without_an_interface_is_one_gang_of_one(self):
        found = grouped([], [work()], [pod("a"), pod("b")])
        assert places(found) == {"a": (NAME, ""), "b": (NAME, "")}
        assert specs(found)[NAME]["minMember"] == 1

    def test_one_podgroup_for_every_key(self):
        made = interface({"instanceKeyPaths": ".metadata.labels.k"})
        found = grouped(made, [work()], [pod(f"p{n}", k=str(n % 2)) for n in range(4)])
        assert places(found) == {f"p{n}": (f"{NAME}-{n % 2}", "") for n in range(4)}

    def test_one_podgroup_for_every_pod_that_owns_its_own(self):
        """The name, the owner and the labels are each pod's."""
        found = grouped(interface({"ownerRef": "pod"}), [work()], [pod("a", user="x"), pod("b", user="y")])
        assert places(found) == {"a": ("pg-a-uid-a", ""), "b": ("pg-b-uid-b", "")}
        metadata = [made.document["metadata"] for made in found.groups]
        assert [one["ownerReferences"][0]["name"] for one in metadata] == ["a", "b"]
        assert [one["labels"]["user"] for one in metadata] == ["x", "y"]

    def test_pods_of_several_namespaces_below_one_owner(self):
        """An owner of the whole cluster: each namespace has its gang, and refers to what is there."""
        owner = work(ref="r")
        del owner["metadata"]["namespace"]
        pods, others = [], []
        for space, count in (("one", 1), ("two", 2)):
            a_pod, other = pod(f"in-{space}", owner), work("r", kind="Other", n=count)
            a_pod["metadata"]["namespace"] = other["metadata"]["namespace"] = space
            pods.append(a_pod)
            others.append(other)
        reference = {"name": "r", "gvk": {"group": "x.io", "version": "v1", "kind": "Other"}}
        made = interface(
            {"minMemberPath": "$r.spec.n"}, references=[{**reference, "lookup": {"namePath": ".spec.ref"}}]
        )
        found = grouped(made, [owner, *others], pods)
        assert [(one.document["metadata"]["namespace"], one.document["spec"]["minMember"]) for one in found.groups] == [
            ("one", 1),
            ("two", 2),
        ]

    def test_what_says_no_namespace_is_in_default(self):
        owner, a_pod = work(), pod()
        del owner["metadata"]["namespace"], a_pod["metadata"]["namespace"]
        found = grouped(interface({}), [owner], [a_pod])
        assert found.pods == (Assignment("default", "p", NAME, ""),)
        assert found.groups[0].document["metadata"]["namespace"] == "default"


class TestUnmatched:
    STRAY = pod("stray", role="stray")

    def test_error(self):
        """The pod is told with the nearest reason; the others are grouped all the same."""
        found = grouped(TWO, [work()], [pod("a", role="head"), self.STRAY])
        assert places(found) == {"a": (NAME, "head")}
        one = problem(found)
        assert (one.kind, one.namespace, one.name, one.pods) == ("Work", "default", "w", ("stray",))
        assert one.message.startswith("no entry claims the pod; head: label role is ")
        assert (one.interface, one.path) == ("ResourceInterface works", "spec.gangScheduling.podGroups[0]")
        assert one.hint
        assert one.retry is False

    def test_ignore(self):
        made = interface({"unmatchedPods": "Ignore", "subgroups": [entry("head")]})
        found = grouped(made, [work()], [pod("a", role="head"), self.STRAY])
        assert places(found) == {"a": (NAME, "head")}
        assert found.problems == ()
        assert found.alone == ((("default", "stray"), "no entry of ResourceInterface works claims it"),)

    @pytest.mark.parametrize("name", ["rest", "Rest!"], ids=["a label", "made a label"])
    def test_a_subgroup(self, name):
        made = interface({"unmatchedPods": name, "subgroups": [entry("head"), entry(name, minReplicas=0)]})
        found = grouped(made, [work()], [pod("a", role="head"), self.STRAY])
        assert places(found)["stray"][1].startswith("rest")
        assert places(found)["a"] == (NAME, "head")

    def test_one_that_is_being_deleted_is_left_alone(self):
        """Its entry went before it. One that is still claimed stays a member."""
        going, claimed = pod("going", role="stray"), pod("claimed", role="head")
        for one in (going, claimed):
            one["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        found = grouped(TWO, [work()], [going, claimed])
        assert found.problems == ()
        assert [key[1] for key, _ in found.alone] == ["going"]
        assert set(places(found)) == {"claimed"}


class TestLeftAlone:
    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_ended_pods(self, phase):
        """Also one whose owner is gone."""
        found = grouped(TWO, [], [pod() | {"status": {"phase": phase}}])
        assert found.alone == ((("default", "p"), "it has ended"),)
        assert (found.groups, found.problems) == ((), ())

    @pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown", None, ["Failed"]])
    def test_others_are_not(self, phase):
        assert grouped(interface({}), [work()], [pod() | {"status": {"phase": phase}}]).alone == ()

    @pytest.mark.parametrize("who", ["pod", "owner", "top"])
    def test_who_says_so(self, who):
        """The pod or anybody above it; and then no PodGroup comes of it."""
        notes = {who: {SKIP: "true"}}
        top = work("t", kind="Top", notes=notes.get("top"))
        owner = work(notes=notes.get("owner"))
        owner["metadata"]["ownerReferences"] = pod("p", top)["metadata"]["ownerReferences"]
        found = grouped(TWO, [owner, top], [pod(notes=notes.get("pod"), role="head")], workloads=[owner, top])
        assert (found.groups, found.pods, found.problems) == ((), (), ())
        title = {"pod": "it", "owner": "Work default/w", "top": "Top default/t"}[who]
        assert found.alone == ((("default", "p"), f"{title} says {SKIP}"),)

    @pytest.mark.parametrize("value", ["false", "", False, None])
    def test_only_the_word_true_says_so(self, value):
        assert grouped(TWO, [work()], [pod(notes={SKIP: value}, role="head")]).alone == ()

    def test_one_that_names_another_gang(self):
        """And no PodGroup comes of it, unless another pod needs one."""
        other = pod("other", notes={"pod-group-name": "mine"}, role="head")
        found = grouped(TWO, [work()], [other])
        assert found.alone == ((("default", "other"), "it names the gang mine itself"),)
        assert (found.groups, found.pods, found.problems) == ((), (), ())
        both = grouped(TWO, [work()], [other, pod("own", notes={"pod-group-name": NAME}, role="head")])
        assert places(both) == {"own": (NAME, "head")}


class TestTroubles:
    def test_pods_with_one_trouble_are_one_problem(self):
        """It is about the workload, lists the pods in order, and costs nobody else anything."""
        bad, good = work("bad", n="many"), work("good", n=2)
        pods = [pod("z", bad), pod("a", bad), pod("m", good)]
        found = grouped(interface({"minMemberPath": ".spec.n"}), [bad, good], pods)
        one = problem(found)
        assert (one.kind, one.name, one.pods) == ("Work", "bad", ("a", "z"))
        assert one.path == "spec.gangScheduling.podGroups[0].minMemberPath"
        assert set(places(found)) == {"m"}

    def test_an_owner_that_was_not_seen_waits(self):
        one = problem(grouped(TWO, [], [pod(role="head")]))
        assert (one.kind, one.name, one.retry, one.pods) == ("Work", "w", True, ("p",))
        assert "Work default/w" in one.message

    def test_a_podgroup_that_would_be_invalid_is_a_problem_of_all_its_pods(self):
        """Nothing invalid comes out, and every pod is told."""
        pods = [pod("a", role="head"), pod("b", role="worker")]
        notes = {"kai.scheduler/topology-required.root": "no such level!" * 30}
        found = grouped(TWO, [work(notes=notes)], pods)
        assert (found.groups, found.pods) == ((), ())
        assert problem(found).pods == ("a", "b")

    def test_validation_has_the_last_word(self):
        """A PodGroup that somebody spoilt stays spoilt: its pods are told instead of being put into it."""
        first = grouped(TWO, [work()], [pod(role="head")])
        there = existing(first)
        there["default", NAME]["spec"]["preemptibility"] = "sometimes"
        found = grouped(TWO, [work(labels={"app": "new"})], [pod(role="head")], there)
        assert (found.groups, found.pods) == ((), ())
        one = problem(found)
        assert one.message.startswith("the PodGroup would be invalid: spec.preemptibility ")
        assert one.pods == ("p",)

    def test_a_trouble_that_is_kept_does_not_grow(self):
        """Raised for a thousand pods, it still leads back only a few steps."""
        made = interface({"minMemberPath": ".spec.n"})
        owner = work(n="many")
        keeper = grouper(made, owner)
        keeper.group([pod(f"p{n}") for n in range(1000)])
        ((trouble,),) = [kept.blueprints.values() for kept in keeper._kept.values()]
        steps, trace = 0, trouble.__traceback__
        while trace is not None:
            steps, trace = steps + 1, trace.tb_next
        assert steps < 20


class TestNamesakes:
    MADE = interface(
        {
            "nameTemplate": ".spec.called",
            "subgroups": [entry(".metadata.name", podClassifier={"matchLabels": {"r": "x"}})],
        }
    )
    ONE, TWO = work("one", called="same"), work("two", called="same")

    @pytest.mark.parametrize("turned", [False, True])
    def test_the_first_by_name_has_it_and_the_other_is_told(self, turned):
        pods = [pod("p", self.ONE, r="x"), pod("q", self.TWO, r="x"), pod("r", self.TWO, r="x")]
        found = grouped(self.MADE, [self.ONE, self.TWO], pods[::-1] if turned else pods)
        assert places(found) == {"p": ("same", "one")}
        one = problem(found)
        assert (one.name, one.pods) == ("two", ("q", "r"))
        assert one.message == "PodGroup default/same is that of Work default/one already"
        assert one.hint

    def test_who_has_it_keeps_it(self):
        there = existing(grouped(self.MADE, [self.TWO], [pod("q", self.TWO, r="x")]))
        pods = [pod("p", self.ONE, r="x"), pod("q", self.TWO, r="x")]
        found = grouped(self.MADE, [self.ONE, self.TWO], pods, there)
        assert places(found) == {"q": ("same", "two")}
        assert problem(found).pods == ("p",)
        assert [made.changed for made in found.groups] == [False]

    def test_who_has_it_keeps_it_also_when_the_other_comes_alone(self):
        """In a cluster, pods are looked at when they come."""
        there = existing(grouped(self.MADE, [self.TWO], [pod("q", self.TWO, r="x")]))
        found = grouped(self.MADE, [self.ONE, self.TWO], [pod("p", self.ONE, r="x")], there)
        assert (found.groups, found.pods) == ((), ())
        assert problem(found).message == "PodGroup default/same is that of another owner already"
        assert problem(found).retry

    def test_in_another_namespace_it_is_another_one(self):
        far = work("two", called="same")
        a_pod = pod("q", far, r="x")
        far["metadata"]["namespace"] = a_pod["metadata"]["namespace"] = "far"
        found = grouped(self.MADE, [self.ONE, far], [pod("p", self.ONE, r="x"), a_pod])
        assert found.problems == ()
        assert len(found.groups) == 2


class TestWhoSpeaksForAll:
    def test_the_pod_of_the_first_leaf(self):
        """What only pods say is said by one of them, whichever comes first: first leaf, then first name."""
        pods = [pod("a", role="worker", user="w"), pod("y", role="head", user="y"), pod("z", role="head", user="z")]
        for order in itertools.permutations(pods):
            found = grouped(TWO, [work()], list(order))
            assert found.groups[0].document["metadata"]["labels"]["user"] == "y"

    def test_the_workload_before_any_pod(self):
        found = grouped(TWO, [work(labels={"user": "w"})], [pod(role="head", user="p")])
        assert found.groups[0].document["metadata"]["labels"]["user"] == "w"

    def test_defaults_classes_and_the_default_queue(self):
        made = interface({}, defaults={"priorityClassName": "gone", "preemptibility": "preemptible"})
        found = grouped(made, [work()], [pod()], classes={"train"}, default_queue="q")
        assert specs(found)[NAME] == {
            "minMember": 1,
            "queue": "q",
            "priorityClassName": "train",
            "preemptibility": "preemptible",
        }
        (warning,) = found.warnings
        assert 'defaults.priorityClassName is "gone"' in warning


class TestAgain:
    def test_grouping_again_changes_nothing(self):
        keeper = grouper(TWO, work())
        first = keeper.group([pod("a", role="head")])
        there = existing(first)
        again = keeper.group([pod("a", role="head"), pod("b", role="worker")], there)
        assert [made.changed for made in again.groups] == [False]
        assert again.groups[0].document is there["default", NAME]
        assert set(places(again)) == {"a", "b"}

    def test_a_change_comes_through(self):
        """The owner is another object now: what was derived from the old one does not count."""
        made = interface({"minMemberPath": ".spec.n"})
        keeper = Grouper(Registry((), [made]), lookup := Objects([work(n=1)]))
        first = keeper.group([pod()])
        assert specs(keeper.group([pod()]))[NAME]["minMember"] == 1
        lookup._add(work(n=2))
        again = keeper.group([pod()], existing(first))
        assert specs(again)[NAME]["minMember"] == 2
        assert [one.changed for one in again.groups] == [True]

    def test_a_referenced_object_that_changes_comes_through(self):
        """It is waited for, then it is there, then it is another one."""
        reference = {"name": "r", "gvk": {"group": "x.io", "version": "v1", "kind": "Other"}}
        reference["lookup"] = {"namePath": ".spec.ref"}
        made = interface({"minMemberPath": "$r.spec.n"}, references=[reference])
        keeper = Grouper(Registry((), [made]), lookup := Objects([work(ref="o")]))
        for _ in range(2):
            assert problem(keeper.group([pod()])).retry
        for count in (3, 4):
            lookup._add(work("o", kind="Other", n=count))
            assert specs(keeper.group([pod()]))[NAME]["minMember"] == count

    def test_nothing_is_asked_twice(self, monkeypatch):
        """The tree of a workload is derived once for all its pods, and for all passes."""
        made, derived = interface({"minMemberPath": ".spec.n"}), []
        keeper = grouper(made, work(n=1), work("v", n=1))
        once = Reading.derive
        monkeypatch.setattr(Reading, "derive", lambda self, *rest: derived.append(self.owner) or once(self, *rest))
        for _ in range(3):
            keeper.group([*(pod(f"a{n}") for n in range(5)), *(pod(f"b{n}", work("v")) for n in range(5))])
        assert [owner["metadata"]["name"] for owner in derived] == ["w", "v"]

    def test_a_minimum_does_not_rise_while_a_semi_preemptible_gang_runs(self):
        """What is held is said, and nothing changes until something else does."""
        made = interface({"minMemberPath": ".spec.n"})
        labels = {"kai.scheduler/preemptibility": "semi-preemptible"}
        there = existing(grouped(made, [work(n=2, labels=labels)], [pod()]))
        there["default", NAME]["status"] = {"resourcesStatus": {"allocated": {"cpu": "1"}}}
        found = grouped(made, [work(n=5, labels=labels)], [pod()], there)
        assert [one.changed for one in found.groups] == [False]
        (warning,) = found.warnings
        assert warning.startswith("Work default/w: the minimum of the PodGroup stays as it is")


class TestPreview:
    def test_a_workload_without_pods(self):
        found = grouped(TWO, [work()], [], workloads=[work()])
        assert list(specs(found)) == [NAME]
        assert found.pods == ()

    def test_each_once(self):
        """One with pods is not shown again, nor one that several objects lead to."""
        owner = work()
        below = work("below", kind="Below")
        below["metadata"]["ownerReferences"] = pod("p", owner)["metadata"]["ownerReferences"]
        for pods in ([], [pod(role="head")]):
            found = grouped(TWO, [owner, below], pods, workloads=[below, owner])
            assert list(specs(found)) == [NAME]
            assert found.problems == ()

    @pytest.mark.parametrize(
        "workload",
        [
            pytest.param(work(kind="Unknown"), id="a kind without an interface"),
            pytest.param({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}, id="no workload"),
            pytest.param({}, id="nothing"),
        ],
    )
    def test_what_is_none_is_not_shown(self, workload):
        found = grouped(TWO, [], [], workloads=[workload])
        assert (found.groups, found.problems) == ((), ())

    def test_what_needs_a_pod_waits(self):
        """That is no problem, and is said."""
        made = interface({"instanceKeyPaths": ".metadata.labels.k"})
        found = grouped(made, [work()], [], workloads=[work()])
        assert (found.groups, found.problems) == ((), ())
        (said,) = found.later
        assert said.startswith("Work default/w: ")
        assert "no pod yet" in said

    def test_what_can_never_be_grouped_is_told(self):
        one = problem(grouped(interface({"minMemberPath": ".spec.n"}), [], [], workloads=[work(n=-1)]))
        assert (one.kind, one.name, one.interface, one.pods) == ("Work", "w", "ResourceInterface works", ())


class TestWarnings:
    def test_they_name_the_workload_and_come_once(self):
        made = interface({"minMember": 3, "replicasPath": ".spec.n"})
        found = grouped(made, [work(n=2)], [pod("a"), pod("b")])
        (warning,) = found.warnings
        assert warning.startswith("Work default/w: spec.gangScheduling.podGroups[0].minMember: ")

    def test_two_interfaces_for_one_kind(self):
        """The winner is the same whatever the order, and both are named."""
        pair = [interface({"minMember": n}, name=name) for n, name in ((1, "b"), (2, "a"))]
        for order in (pair, pair[::-1]):
            found = grouped(order, [work()], [pod()])
            assert specs(found)[NAME]["minMember"] == 2
            (warning,) = found.warnings
            assert "a" in warning
            assert "b" in warning


class TestTelling:
    def test_how_it_came_about(self):
        found = grouped(TWO, [work()], [pod("b", role="worker"), pod("a", role="head")], explain=True)
        (group,) = found.told_groups
        assert (group.namespace, group.name) == ("default", NAME)
        assert group.steps
        assert [(one.name, one.sub_group) for one in found.told_pods] == [("a", "head"), ("b", "worker")]
        (refusal,) = found.told_pods[0].refusals
        assert refusal == ("worker", 'label role is "head", wanted: Equals "worker"')

    def test_a_pod_that_nobody_claims_is_told_why_not(self):
        found = grouped(TWO, [work()], [pod(role="stray")], explain=True)
        (told,) = found.told_pods
        assert told.sub_group is None
        assert [one.leaf for one in told.refusals] == ["head", "worker"]

    def test_a_flat_gang_refuses_nobody(self):
        found = grouped(interface({}), [work()], [pod()], explain=True)
        assert found.told_pods[0][2:] == (NAME, "", ())

    def test_what_is_heard_is_of_this_gang_alone(self):
        """Keys of other instances are not told, whichever pod came first."""
        made = interface({"instanceKeyPaths": ".metadata.labels.k"})
        pods = [pod("a", k="0"), pod("b", k="1"), pod("c", k="1")]
        for order in itertools.permutations(pods):
            found = grouped(made, [work()], list(order), explain=True)
            assert [[one.values for one in group.heard] for group in found.told_groups] == [[("0",)], [("1",)]]

    def test_what_failed_is_told_the_same_whoever_came_first(self):
        """Once for every trouble, although two instances have it."""
        made = interface({"instanceKeyPaths": ".metadata.labels.k", "minMemberPath": ".spec.n"})
        pods = [pod("a", k="0"), pod("b", k="1")]
        found = [grouped(made, [work(n="x")], order, explain=True).told_groups for order in (pods, pods[::-1])]
        assert found[0] == found[1]
        (told,) = found[0]
        assert [one.values for one in told.heard] == [("0",), ("x",)]


@pytest.mark.parametrize("garbage", [None, 5, "text", [], {"a": []}], ids=str)
@pytest.mark.parametrize("place", ["metadata", "spec", "status", "kind", "labels", "annotations", "ownerReferences"])
def test_hostile_pods_cost_nobody_else_anything(place, garbage):
    broken, good = pod("broken", role="head"), pod("good", role="head")
    home = broken["metadata"] if place in ("labels", "annotations", "ownerReferences") else broken
    home[place] = garbage
    found = grouped(TWO, [work()], [broken, good])
    assert places(found)["good"] == (NAME, "head")


@pytest.mark.parametrize("garbage", [None, 5, "text", [], [5], {"a": []}, [{"name": ["x"], "parent": {}}]], ids=str)
@pytest.mark.parametrize(
    "place", ["metadata", "spec", "status", "labels", "annotations", "subGroups", "preemptibility"]
)
def test_hostile_podgroups_cost_nobody_else_anything(place, garbage):
    """What is there may be broken, also while it runs: its pods are placed or told."""
    other = work("other")
    pods = [pod("a", role="head"), pod("b", other, role="head")]
    there = existing(grouped(TWO, [work(), other], pods))
    broken = there["default", NAME]
    broken["spec"]["preemptibility"] = "semi-preemptible"
    broken["status"] = {"resourcesStatus": {"allocated": {"cpu": 1}}}
    home = {"labels": "metadata", "annotations": "metadata", "subGroups": "spec", "preemptibility": "spec"}
    (broken[home[place]] if place in home else broken)[place] = garbage
    found = grouped(TWO, [work(n=1), other], pods, there)
    assert places(found)["b"] == ("pg-other-uid-other", "head")
    assert ("a" in places(found)) != any("a" in one.pods for one in found.problems)


class TestWhatIsThere:
    """A PodGroup that the grouper must not change takes the pods that have a place in it."""

    def test_somebody_elses_tree(self):
        there = {
            ("default", NAME): {"metadata": {"name": NAME}, "spec": {"subGroups": [{"name": "head", "minMember": 1}]}}
        }
        found = grouped(TWO, [work()], [pod("a", role="head"), pod("b", role="worker")], there)
        assert [(one.name, one.sub_group) for one in found.pods] == [("a", "head")]
        one = problem(found)
        assert (one.pods, one.retry) == (("b",), False)
        assert "made by somebody else" in one.message
        assert [made.changed for made in found.groups] == [False]

    def test_somebody_elses_flat_one_takes_all(self):
        there = {("default", NAME): {"metadata": {"name": NAME}, "spec": {"minMember": 1}}}
        found = grouped(TWO, [work()], [pod("a", role="head"), pod("b", role="worker")], there)
        assert [(one.name, one.sub_group) for one in found.pods] == [("a", ""), ("b", "")]
        assert found.problems == ()

    def test_ours_while_the_interface_is_broken(self):
        """What runs keeps its gang and its place; who comes anew waits."""
        first = grouped(TWO, [work()], [pod("a", role="head")])
        (made,) = first.groups
        member = pod("a", notes={"pod-group-name": NAME}, role="head", **{"kai.scheduler/subgroup-name": "head"})
        registry = Registry(
            [replace(interface({"minMember": 1}), built_in=True)], [], invalid={"works": (TWO.target, "bad")}
        )
        pods = [member, pod("b", role="worker")]
        found = Grouper(registry, Objects([work(), *pods])).group(pods, {("default", NAME): made.document})
        assert [(one.name, one.sub_group) for one in found.pods] == [("a", "head")]
        assert [(one.document, one.changed) for one in found.groups] == [(made.document, False)]
        assert (problem(found).pods, problem(found).retry) == (("b",), True)
