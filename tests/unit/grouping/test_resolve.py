"""Who decides about an owner chain: from the top down, the users' before the built-in, the annotation before both."""

import itertools
import re

import pytest

from muster.api.interface import DEFAULT, GROUP, HANDOFF, SKIP, Defaults, KindReference
from muster.grouping.metadata import INTERFACE_ANNOTATION as ANNOTATION
from muster.grouping.model import Interface, Template
from muster.grouping.owners import Link
from muster.grouping.registry import Registry
from muster.grouping.resolve import resolve
from muster.grouping.trouble import Trouble

VERSIONS = {
    "RayJob": "ray.io/v1",
    "RayCluster": "ray.io/v1",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
    "StatefulSet": "apps/v1",
    "Pod": "v1",
}
TEMPLATES = (Template(path="spec.gangScheduling.podGroups[0]", name="gang"),)


def link(kind, name="x", *, bare=False, says=None):
    """An object of a chain; `says` is what its annotation names."""
    annotations = {} if says is None else {ANNOTATION: says}
    return Link(
        {
            "apiVersion": VERSIONS.get(kind, "x.io/v1"),
            "kind": kind,
            "metadata": {"namespace": "default", "name": name, "annotations": annotations},
        },
        bare,
    )


def interface(name, kind, action=GROUP, *, built_in=False, version="*", created="", priority=""):
    group = VERSIONS.get(kind, "x.io/v1").rpartition("/")[0]
    return Interface(
        name=name,
        target=KindReference(group=group, version=version, kind=kind),
        action=action,
        built_in=built_in,
        created=created,
        defaults=Defaults(priority_class_name=priority),
        templates=TEMPLATES if action == GROUP else (),
    )


def built_in(name, kind, action=GROUP, **more):
    return interface(name, kind, action, built_in=True, **more)


RAY_CHAIN = (link("RayJob", "job"), link("RayCluster", "cluster"), link("Pod", "pod"))
RAY_CATALOG = (built_in("rayjob", "RayJob", SKIP), built_in("raycluster", "RayCluster"), built_in("pod", "Pod"))


def decided(chain, users=(), catalog=RAY_CATALOG, **more):
    """The index of the object that decides, and the name of the interface; None is the default."""
    found = resolve(chain, Registry(catalog, users, **more))
    return found.link_index, found.interface and found.interface.name


def priorities(found):
    return [defaults.priority_class_name for defaults in found.defaults]


class TestFromTheTopDown:
    CASES = {
        "first-kind-that-resolves": ([built_in("a", "A"), built_in("b", "B")], (0, "a")),
        "kind-without-interface-is-passed": ([built_in("b", "B")], (1, "b")),
        "skip-goes-down": ([built_in("a", "A", SKIP), built_in("b", "B")], (1, "b")),
        "nested-skips": ([built_in("a", "A", SKIP), built_in("b", "B", SKIP), built_in("c", "C")], (2, "c")),
        "handoff-goes-down": ([built_in("a", "A", HANDOFF), built_in("b", "B")], (1, "b")),
        "default-on-the-object": (
            [built_in("a", "A", SKIP), built_in("b", "B", DEFAULT), built_in("c", "C")],
            (1, None),
        ),
        "skips-down-to-the-pod": ([built_in("a", "A", SKIP), built_in("pod", "Pod")], (3, "pod")),
        "exhausted-by-silence": ([], (0, None)),
        "exhausted-by-handoff": ([built_in(name.lower(), name, HANDOFF) for name in "ABC"], (0, None)),
        "exhausted-by-skips": ([built_in(name.lower(), name, SKIP) for name in "ABC"], (0, None)),
        "a-pod-with-owners-is-not-asked-after-silence": ([built_in("pod", "Pod")], (0, None)),
        "nor-after-handoff": ([built_in("c", "C", HANDOFF), built_in("pod", "Pod")], (0, None)),
    }

    @pytest.mark.parametrize(("catalog", "answer"), CASES.values(), ids=CASES)
    def test_who_decides(self, catalog, answer):
        chain = (link("A"), link("B"), link("C"), link("Pod"))
        assert decided(chain, catalog=catalog) == answer
        # Whose interface it is does not matter when there is one.
        mine = [interface(one.name, one.target.kind, one.action) for one in catalog]
        assert decided(chain, mine, catalog=()) == answer

    def test_a_pod_that_nobody_owns_is_asked(self):
        assert decided((link("Pod"),)) == (0, "pod")
        assert decided((link("Pod"),), catalog=()) == (0, None)

    def test_an_owner_that_is_previewed_without_pods_is_asked(self):
        assert decided((link("A"), link("RayCluster"))) == (1, "raycluster")

    def test_a_kind_called_pod_of_another_group_is_a_kind_like_any_other(self):
        other = Link({**link("Pod").object, "apiVersion": "x.io/v1"})
        mine = Interface(name="mine", target=KindReference(group="x.io", kind="Pod"), templates=TEMPLATES)
        assert decided((link("A"), other), [mine]) == (1, "mine")

    def test_a_gang_that_says_nothing_hands_over(self):
        """No gangScheduling is the same as Handoff."""
        silent = Interface(name="silent", target=KindReference(group="ray.io", kind="RayCluster"))
        found = resolve(RAY_CHAIN, Registry(RAY_CATALOG, [silent]))
        assert (found.link_index, found.interface) == (1, RAY_CATALOG[1])
        assert (
            "RayCluster default/cluster: ResourceInterface silent says Handoff (it has no gangScheduling)"
            in found.steps
        )

    def test_a_pod_may_stand_in_the_middle(self):
        """LeaderWorkerSet: worker, StatefulSet, leader, StatefulSet, LeaderWorkerSet."""
        chain = (
            link("LeaderWorkerSet", "lws"),
            link("StatefulSet", "lws"),
            link("Pod", "lws-0"),
            link("StatefulSet", "lws-0"),
            link("Pod", "lws-0-1"),
        )
        workloads = [built_in("lws", "LeaderWorkerSet"), built_in("sts", "StatefulSet"), built_in("pod", "Pod")]
        assert decided(chain, catalog=workloads) == (0, "lws")
        assert decided(chain, catalog=workloads[1:]) == (1, "sts")
        # A pod that owns others is asked like any owner.
        assert decided(chain, catalog=workloads[2:]) == (2, "pod")
        assert decided(chain, [interface("lws", "LeaderWorkerSet", SKIP)], catalog=workloads) == (1, "sts")


class TestUsersAndCatalog:
    CASES = {
        "user-over-built-in": (interface("mine", "RayCluster"), (1, "mine")),
        "user-default": (interface("mine", "RayCluster", DEFAULT), (1, None)),
        "user-handoff-to-built-in": (interface("mine", "RayCluster", HANDOFF), (1, "raycluster")),
        "user-skip-passes-the-built-in": (interface("mine", "RayCluster", SKIP), (2, "pod")),
        "user-groups-what-the-catalog-skips": (interface("mine", "RayJob"), (0, "mine")),
        "user-handoff-to-built-in-skip-then-down": (interface("mine", "RayJob", HANDOFF), (1, "raycluster")),
        "another-version-is-no-candidate": (interface("mine", "RayCluster", version="v2"), (1, "raycluster")),
    }

    @pytest.mark.parametrize(("mine", "answer"), CASES.values(), ids=CASES)
    def test_a_users_is_asked_first(self, mine, answer):
        assert decided(RAY_CHAIN, [mine]) == answer

    def test_both_hand_over_and_the_next_object_is_asked(self):
        catalog = [built_in("a", "A", HANDOFF), built_in("b", "B")]
        assert decided((link("A"), link("B"), link("Pod")), [interface("mine", "A", HANDOFF)], catalog) == (1, "b")

    PREFER = {
        "all": (["built-in"], (1, "raycluster")),
        "one-kind": (["RayCluster.ray.io=built-in"], (1, "raycluster")),
        "another-kind": (["RayJob.ray.io=built-in"], (1, "mine")),
        "all-but-one": (["built-in", "RayCluster.ray.io=user"], (1, "mine")),
    }

    @pytest.mark.parametrize(("prefer", "answer"), PREFER.values(), ids=PREFER)
    def test_the_configuration_turns_the_order_round(self, prefer, answer):
        assert decided(RAY_CHAIN, [interface("mine", "RayCluster")], prefer=prefer) == answer

    def test_a_built_in_one_that_is_preferred_hands_over_to_the_users(self):
        catalog = [built_in("raycluster", "RayCluster", HANDOFF)]
        assert decided(RAY_CHAIN, [interface("mine", "RayCluster")], catalog, prefer=["built-in"]) == (1, "mine")

    def test_one_that_lost_is_not_asked_even_when_the_winner_hands_over(self):
        users = [interface("a", "RayCluster", HANDOFF), interface("b", "RayCluster")]
        assert decided(RAY_CHAIN, users) == (1, "raycluster")

    def test_a_conflict_is_told_whatever_the_order_and_says_who_is_asked(self):
        users = [
            interface("any", "RayCluster", created="2020-01-01T00:00:00Z"),
            interface("exact-b", "RayCluster", version="v1"),
            interface("exact-a", "RayCluster", version="v1"),
        ]
        told = set()
        for order in itertools.permutations(users):
            found = resolve(RAY_CHAIN, Registry(RAY_CATALOG, order))
            assert found.interface == users[2]
            told.add(found.warnings)
        assert told == {
            (
                '3 ResourceInterfaces are for RayCluster.ray.io/v1: "exact-a" is asked, '
                'because its name comes first, instead of "exact-b", "any"',
            )
        }

    def test_an_invalid_one_is_passed_with_a_warning(self):
        target = KindReference(group="ray.io", kind="RayCluster")
        found = resolve(RAY_CHAIN, Registry(RAY_CATALOG, [], invalid={"broken": (target, "bad let")}))
        assert found.interface == RAY_CATALOG[1]
        assert found.warnings == ('ResourceInterface "broken" for RayCluster.ray.io is not used: bad let',)

    def test_a_kind_that_stands_twice_is_told_about_once(self):
        chain = (link("StatefulSet", "a"), link("StatefulSet", "b"), link("Pod"))
        target = KindReference(group="apps", kind="StatefulSet")
        handing = Interface(name="statefulset", target=target, action="Handoff", built_in=True)
        assert len(resolve(chain, Registry([handing], [], invalid={"broken": (target, "bad")})).warnings) == 1

    def test_an_invalid_one_that_nobody_replaces_holds_the_workload(self):
        """Without it each pod would be a gang of its own, and start alone."""
        target = KindReference(group="ray.io", kind="RayCluster")
        with pytest.raises(Trouble) as caught:
            resolve(RAY_CHAIN, Registry([], [], invalid={"broken": (target, "bad let")}))
        assert caught.value.retry
        assert "broken" in caught.value.message

    def test_a_catalog_s_one_stands_in_for_it_and_tells(self):
        target = KindReference(group="ray.io", kind="RayCluster")
        found = resolve(RAY_CHAIN, Registry(RAY_CATALOG, [], invalid={"broken": (target, "bad let")}))
        assert "broken" in found.broken
        other = Interface(name="other", target=target, action="Skip")
        assert not resolve(RAY_CHAIN, Registry(RAY_CATALOG, [other], invalid={"broken": (target, "bad")})).broken

    def test_kinds_below_the_one_that_decides_are_not_told_about(self):
        invalid = {"broken": (KindReference(kind="Pod"), "bad")}
        assert resolve(RAY_CHAIN, Registry(RAY_CATALOG, [], invalid=invalid)).warnings == ()


class TestDefaults:
    def test_those_that_stepped_aside_come_before_the_one_that_decides(self):
        users = [
            interface("job", "RayJob", HANDOFF, priority="from-my-job"),
            interface("cluster", "RayCluster", HANDOFF, priority="from-my-cluster"),
        ]
        catalog = [
            built_in("rayjob", "RayJob", SKIP, priority="from-rayjob"),
            built_in("raycluster", "RayCluster", priority="from-raycluster"),
            built_in("pod", "Pod", priority="from-pod"),
        ]
        found = resolve(RAY_CHAIN, Registry(catalog, users))
        assert priorities(found) == ["from-my-job", "from-rayjob", "from-my-cluster", "from-raycluster"]

    def test_those_of_the_default_action_and_of_an_exhausted_chain_count(self):
        found = resolve(RAY_CHAIN, Registry([built_in("a", "RayJob", DEFAULT, priority="x")], []))
        assert priorities(found) == ["x"]
        found = resolve(RAY_CHAIN, Registry([built_in("a", "RayCluster", HANDOFF, priority="y")], []))
        assert (found.link_index, priorities(found)) == (0, ["y"])

    def test_one_that_was_not_asked_gives_nothing(self):
        users = [interface("mine", "RayCluster", priority="mine")]
        catalog = [built_in("raycluster", "RayCluster", priority="theirs"), built_in("rayjob", "RayJob", SKIP)]
        assert priorities(resolve(RAY_CHAIN, Registry(catalog, users))) == ["mine"]


def annotated(index, says, chain=RAY_CHAIN):
    """The chain, with the annotation on one object."""
    links = list(chain)
    changed = links[index].object
    metadata = {**changed["metadata"], "annotations": {ANNOTATION: says}}
    links[index] = links[index]._replace(object={**changed, "metadata": metadata})
    return tuple(links)


class TestAnnotation:
    MINE = interface("mine", "RayCluster")
    LOSER = interface("zz-loser", "RayCluster")

    @pytest.mark.parametrize("index", [0, 1, 2])
    def test_default_is_on_the_object_that_says_it(self, index):
        found = resolve(annotated(index, "default"), Registry(RAY_CATALOG, [self.MINE]))
        assert (found.link_index, found.interface, found.defaults, found.warnings) == (index, None, (), ())

    def test_an_interface_called_default_can_not_be_named(self):
        assert decided(annotated(1, "default"), [interface("default", "RayCluster")]) == (1, None)

    @pytest.mark.parametrize("index", [0, 1, 2], ids=["top", "middle", "pod"])
    @pytest.mark.parametrize("prefer", [["user"], ["built-in"]], ids=str)
    @pytest.mark.parametrize("name", ["mine", "zz-loser", "raycluster"])
    def test_the_one_that_is_named_comes_before_all_of_its_kind(self, index, prefer, name):
        users = [self.MINE, self.LOSER]
        assert decided(annotated(index, name), users, prefer=prefer) == (1, name)

    def test_a_users_comes_before_a_built_in_one_of_that_name(self):
        same = interface("raycluster", "RayCluster")
        found = resolve(annotated(0, "raycluster"), Registry(RAY_CATALOG, [same], prefer=["built-in"]))
        assert found.interface is same

    def test_the_first_from_the_top_decides(self):
        chain = annotated(0, "raycluster", annotated(1, "mine", annotated(2, "default")))
        assert decided(chain, [self.MINE]) == (1, "raycluster")

    def test_one_that_is_named_and_hands_over_gives_way_to_the_others_of_its_kind(self):
        users = [interface("a-winner", "RayCluster"), interface("aside", "RayCluster", HANDOFF)]
        assert decided(annotated(0, "aside"), users) == (1, "a-winner")
        assert decided(annotated(0, "aside"), users[1:]) == (1, "raycluster")
        assert decided(annotated(0, "aside"), users[1:], prefer=["built-in"]) == (1, "raycluster")

    def test_one_that_is_named_and_skips_passes_its_kind(self):
        assert decided(annotated(0, "aside"), [self.MINE, interface("aside", "RayCluster", SKIP)]) == (2, "pod")

    def test_one_that_is_named_for_the_pod_asks_the_pod(self):
        """Also where a pod with owners is not asked otherwise."""
        chain = (link("A"), link("Pod", says="pod"))
        assert decided(chain) == (1, "pod")

    def test_one_that_is_named_for_an_object_below_the_one_that_decides_is_told(self):
        found = resolve(annotated(2, "pod"), Registry(RAY_CATALOG, []))
        assert (found.link_index, found.interface) == (1, RAY_CATALOG[1])
        assert found.warnings == (
            f"annotation {ANNOTATION} names ResourceInterface pod (built in), which is not asked: "
            "RayCluster default/cluster decides before any Pod",
        )

    def test_one_that_is_named_for_a_kind_that_stands_twice_is_asked_at_both(self):
        chain = (link("StatefulSet", "a", says="mine"), link("StatefulSet", "b"), link("Pod"))
        found = resolve(chain, Registry([], [interface("mine", "StatefulSet", HANDOFF)]))
        assert [step for step in found.steps if step.endswith("ResourceInterface mine says Handoff")] == [
            "StatefulSet default/a: ResourceInterface mine says Handoff",
            "StatefulSet default/b: ResourceInterface mine says Handoff",
        ]

    NOBODY = {
        "unknown": ("nobody", 'names "nobody", and there is no ResourceInterface of that name', "default"),
        "near-miss": ("rayclustr", 'names "rayclustr", and there is no', "did you mean raycluster?"),
        "case": ("Default", 'names "Default", and there is no', "default"),
        "empty": ("", 'is "", which names nothing', "default"),
        "null": (None, "is null, which names nothing", "default"),
        "number": (5, "is 5, which names nothing", "default"),
        "list": (["mine"], "is a list, which names nothing", "default"),
        "mapping": ({"name": "mine"}, "is a mapping, which names nothing", "default"),
        "control-characters": ("\x1b[2J\n", 'names "\\u001b[2J\\n", and there is no', "default"),
        "very-long": ("x" * 1_000_000, f'names "{"x" * 57}...", and there is no', "default"),
        "another-kind": (
            "lws",
            "names ResourceInterface lws, which is for LeaderWorkerSet.leaderworkerset.x-k8s.io; here are only RayJob "
            'default/job ("ray.io/v1"), RayCluster default/cluster ("ray.io/v1"), Pod default/pod ("v1")',
            "one of these kinds",
        ),
        "another-version": ("old", "names ResourceInterface old, which is for RayCluster.ray.io/v1alpha1; ", "kinds"),
        "invalid": (
            "broken",
            'can\'t be followed: ResourceInterface "broken" for RayCluster.ray.io is not used: bad',
            "correct it",
        ),
        "secret": (
            "spy",
            'can\'t be followed: ResourceInterface "spy" for Secret is not used: Secret is no target',
            "name another",
        ),
    }

    @pytest.mark.parametrize("index", [0, 1, 2])
    @pytest.mark.parametrize(("says", "message", "hint"), NOBODY.values(), ids=NOBODY)
    def test_one_that_can_not_be_followed_is_told(self, index, says, message, hint):
        users = [
            self.MINE,
            interface("lws", "LeaderWorkerSet"),
            interface("old", "RayCluster", version="v1alpha1"),
            Interface(name="spy", target=KindReference(kind="Secret"), templates=TEMPLATES),
        ]
        invalid = {"broken": (KindReference(group="ray.io", kind="RayCluster"), "bad")}
        chain = annotated(index, says)
        with pytest.raises(Trouble) as caught:
            resolve(chain, Registry(RAY_CATALOG, users, invalid=invalid))
        who = ("RayJob default/job", "RayCluster default/cluster", "Pod default/pod")[index]
        assert caught.value.message.startswith(f"{who}: annotation {ANNOTATION} {message}")
        assert hint in caught.value.hint
        assert caught.value.message.isprintable()
        assert len(caught.value.message) < 500
        assert not caught.value.retry

    def test_an_invalid_one_of_a_users_leaves_the_built_in_one_of_that_name_and_is_told(self):
        invalid = {"raycluster": (KindReference(group="other.io", kind="RayCluster"), "bad")}
        found = resolve(annotated(0, "raycluster"), Registry(RAY_CATALOG, [self.MINE], invalid=invalid))
        assert found.interface is RAY_CATALOG[1]
        assert found.warnings == ('ResourceInterface "raycluster" for RayCluster.other.io is not used: bad',)

    @pytest.mark.parametrize("annotations", [None, [], "x", [ANNOTATION], {}], ids=repr)
    def test_what_is_no_annotation_says_nothing(self, annotations):
        garbage = Link({**link("RayCluster").object, "metadata": {"name": "x", "annotations": annotations}})
        assert decided((garbage, link("Pod"))) == (0, "raycluster")


class TestForbidden:
    """A top owner that may not be read is known by its reference alone."""

    CHAIN = (link("RayJob", "job", bare=True), link("RayCluster", "cluster"), link("Pod", "pod"))

    def test_one_whose_kind_steps_aside_need_not_be_read(self):
        assert decided(self.CHAIN) == (1, "raycluster")

    def test_one_whose_kind_nobody_knows_need_not_be_read(self):
        assert decided((link("A", bare=True), link("RayCluster"), link("Pod"))) == (1, "raycluster")
        assert decided((link("A", bare=True), link("Pod"))) == (0, None)

    def test_one_whose_kind_is_a_default_gang_need_not_be_read(self):
        assert decided(self.CHAIN, [interface("mine", "RayJob", DEFAULT)]) == (0, None)

    @pytest.mark.parametrize(
        "users", [[interface("mine", "RayJob")], [interface("aside", "RayJob", HANDOFF)]], ids=["user", "after-handoff"]
    )
    def test_one_that_must_be_read_is_waited_for(self, users):
        with pytest.raises(Trouble) as caught:
            resolve(self.CHAIN, Registry([built_in("rayjob", "RayJob")], users))
        assert re.fullmatch(
            r"RayJob default/job may not be read, and ResourceInterface (mine|rayjob \(built in\)) needs it: "
            r"grant muster get, list and watch on RayJob.ray.io with a ClusterRole that has the label "
            r'muster.dev/aggregate-to-grouper: "true"',
            caught.value.message,
        )
        assert caught.value.hint == "docs/install.md has one to copy"
        assert caught.value.retry


class TestSteps:
    def test_every_object_that_was_asked_has_its_sentence(self):
        chain = (link("A", "top"), *RAY_CHAIN)
        found = resolve(chain, Registry(RAY_CATALOG, [interface("mine", "RayCluster", HANDOFF)]))
        assert found.steps == (
            "A default/top: there is no ResourceInterface for this kind",
            "RayJob default/job: ResourceInterface rayjob (built in) says Skip",
            "RayCluster default/cluster: ResourceInterface mine says Handoff",
            "RayCluster default/cluster: ResourceInterface raycluster (built in) says Group",
        )

    def test_an_exhausted_chain_says_so(self):
        assert resolve((link("A", "top"), link("Pod", "p")), Registry(RAY_CATALOG, [])).steps == (
            "A default/top: there is no ResourceInterface for this kind",
            "Pod default/p: is not asked itself, since it has owners and none of them says Skip",
            "no object of the chain decides: A default/top, the top owner, is a gang of minimum 1",
        )

    def test_the_annotation_comes_first(self):
        assert resolve(annotated(1, "default"), Registry(RAY_CATALOG, [])).steps == (
            f'RayCluster default/cluster: annotation {ANNOTATION} says "default"',
        )

    def test_hostile_text_is_quoted(self):
        chain = (link("A\n", "x\x00"), link("Pod"))
        assert all(step.isprintable() for step in resolve(chain, Registry([], [])).steps)
