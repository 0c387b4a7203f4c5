"""An interface and a workload become the gang's tree: what is repeated, named, counted, held and looked up."""

import re

import pytest

from muster.grouping.derive import Reading, is_current, pod_names
from muster.grouping.language.limits import Limits
from muster.grouping.nodes import Bound, Hold
from muster.grouping.owners import Absence, Objects
from muster.grouping.trouble import Trouble
from workloads import entry, interface, pod, work

EACH = ".spec.groups[] as $g"
PATH = "spec.gangScheduling.podGroups[0]"


def derived(made, owner, a_pod=None, lookup=None, **more):
    reading = Reading(made, [owner], a_pod, lookup or Objects([owner]), **more)
    template, key = reading.template_of(a_pod)
    return reading.derive(template, key, a_pod)


def outline(node):
    """The tree as nested pairs of a name and a minimum."""
    own = (node.name, node.minimum)
    return (*own, [outline(child) for child in node.children]) if node.children else own


def tree(template, owner=None, **more):
    return outline(derived(interface(template, **more), owner or work()).root)


def refused(function, *arguments, retry=False, **more):
    with pytest.raises(Trouble) as caught:
        function(*arguments, **more)
    assert caught.value.retry is retry
    return caught.value


class TestTree:
    def test_flat(self):
        assert tree({}) == ("", 1)
        assert tree({"minMember": 3}) == ("", 3)
        assert tree({"minMemberPath": [".spec.missing", ".spec.n"]}, work(n=4)) == ("", 4)

    def test_entries_in_document_order(self):
        """Repeated entries stand where their entry stands, in the order of the data."""
        template = {
            "subgroups": [
                entry("head"),
                entry("$g.name", foreach=EACH, minReplicasPath="$g.n"),
                entry("tail", minReplicas=0),
            ]
        }
        groups = [{"name": "z", "n": 2}, {"name": "a", "n": 3}]
        assert tree(template, work(groups=groups)) == ("", None, [("head", 1), ("z", 2), ("a", 3), ("tail", 0)])

    @pytest.mark.parametrize("fields", [{}, {"groups": None}, {"groups": []}], ids=["missing", "null", "empty"])
    def test_a_list_that_is_not_there_is_empty(self, fields):
        template = {"subgroups": [entry("head"), entry("$g", foreach=EACH)]}
        assert tree(template, work(**fields)) == ("", None, [("head", 1)])

    def test_a_list_that_is_no_list_is_told(self):
        template = {"subgroups": [entry("head"), entry("$g", foreach=EACH)]}
        trouble = refused(tree, template, work(groups=5))
        assert trouble.path == "spec.gangScheduling.podGroups[0].subgroups[1].foreach"

    def test_three_levels_with_outer_variables(self):
        template = {
            "subgroups": [
                {
                    "componentName": "$g.name",
                    "foreach": EACH,
                    "subgroups": [
                        {
                            "componentName": '"\\($g.name)-\\($i)"',
                            "foreach": "range($g.n) as $i",
                            "subgroups": [
                                entry('"\\($g.name)-\\($i)-\\($r)"', foreach="$g.roles[] as $r", minReplicasPath="$i")
                            ],
                        }
                    ],
                }
            ]
        }
        owner = work(groups=[{"name": "a", "n": 2, "roles": ["x", "y"]}, {"name": "b", "n": 1, "roles": ["x"]}])
        assert tree(template, owner) == (
            "",
            None,
            [
                (
                    "a",
                    None,
                    [("a-0", None, [("a-0-x", 0), ("a-0-y", 0)]), ("a-1", None, [("a-1-x", 1), ("a-1-y", 1)])],
                ),
                ("b", None, [("b-0", None, [("b-0-x", 0)])]),
            ],
        )

    def test_when(self):
        """An entry is there where its condition holds, asked for each repetition."""
        template = {
            "subgroups": [
                entry("head", when=".spec.head"),
                entry("$g.name", foreach=EACH, when="$g.on == true"),
                entry("always"),
            ]
        }
        groups = [{"name": "a", "on": True}, {"name": "b", "on": False}, {"name": "c"}]
        assert tree(template, work(groups=groups)) == ("", None, [("a", 1), ("always", 1)])

    def test_a_branch_without_children_vanishes_and_its_name_is_free(self):
        empty = {"componentName": "same", "when": ".spec.one", "subgroups": [entry("in", when=".spec.no")]}
        template = {"subgroups": [empty, entry("same", when=".spec.two")]}
        assert tree(template, work(one=True, two=True)) == ("", None, [("same", 1)])

    def test_nothing_left_is_told(self):
        """It may have some later: a workload that is scaled to nothing is no mistake."""
        trouble = refused(tree, {"subgroups": [entry("$g", foreach=EACH)]}, work(groups=[]), retry=True)
        assert trouble.path == "spec.gangScheduling.podGroups[0]"
        assert trouble.hint

    def test_more_subgroups_than_a_podgroup_holds(self):
        template = {"subgroups": [entry('"s-\\($i)"', foreach="range(.spec.n) as $i")]}
        assert len(tree(template, work(n=10_000))[2]) == 10_000
        twice = {"subgroups": [*template["subgroups"], entry("more")]}
        trouble = refused(tree, twice, work(n=10_000))
        assert "10,000" in trouble.message
        assert trouble.path == "spec.gangScheduling.podGroups[0].subgroups[1]"


class TestNames:
    @pytest.mark.parametrize(
        ("value", "name"),
        [
            pytest.param("ok", "ok", id="as it is"),
            pytest.param("Big_One", r"big-one-[0-9a-f]{6}", id="made a label"),
            pytest.param(7, "7", id="a number"),
            pytest.param("a" * 64, r"a{56}-[0-9a-f]{6}", id="too long"),
        ],
    )
    def test_names_become_labels(self, value, name):
        ((found, _),) = tree({"subgroups": [entry(".spec.called")]}, work(called=value))[2]
        assert re.fullmatch(name, found)

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            pytest.param(None, "componentName gives no name", id="null"),
            pytest.param("", "componentName gives no name", id="empty"),
            pytest.param("\x07", "can't be shown", id="control characters"),
            pytest.param("--", "no letter or digit", id="nothing usable"),
            pytest.param(["a"], "where a text is needed", id="an array"),
        ],
    )
    def test_what_gives_no_name_is_told_with_its_place(self, value, message):
        trouble = refused(tree, {"subgroups": [entry(".spec.called")]}, work(called=value))
        assert message in trouble.message
        assert trouble.path == "spec.gangScheduling.podGroups[0].subgroups[0].componentName"
        assert trouble.hint

    def test_a_name_below_a_repeated_entry_gets_its_parents_in_front(self):
        """Also when there is only one repetition, so that growing renames nothing. The short one is kept beside it."""
        template = {
            "subgroups": [
                {
                    "componentName": '"replica-\\($i)"',
                    "foreach": "range(.spec.n) as $i",
                    "subgroups": [entry("leader", "$i"), entry('"worker-\\($i)"')],
                }
            ]
        }
        one, two = (derived(interface(template), work(n=n)).root for n in (1, 2))
        assert outline(one)[2] == outline(two)[2][:1]
        assert outline(one)[2] == [("replica-0", None, [("replica-0-leader", 1), ("worker-0", 1)])]
        assert [node.short for node in one.below()] == ["root", "replica-0", "leader", "worker-0"]

    def test_a_qualified_name_that_is_too_long_is_a_label_too(self):
        template = {
            "subgroups": [
                {"componentName": "$g", "foreach": EACH, "subgroups": [entry("leader", "$g", minReplicas=2)]},
            ]
        }
        names = [one[2][0][0] for one in tree(template, work(groups=["a" * 60, "a" * 60 + "b"]))[2]]
        assert len(set(names)) == 2
        assert all(len(name) <= 63 for name in names)

    def test_two_of_one_name_are_told(self):
        """Both places are: where the second stands, and who has the name."""
        template = {"subgroups": [entry(".spec.a"), entry("$g", foreach=EACH)]}
        trouble = refused(tree, template, work(a="x", groups=["y", "x"]))
        where = "spec.gangScheduling.podGroups[0].subgroups[%d].componentName"
        assert trouble.path == where % 1
        assert trouble.message == f'two SubGroups would be called "x", the other one by {where % 0}'


class TestMinimums:
    @pytest.mark.parametrize(
        ("fields", "spec", "minimum"),
        [
            pytest.param({}, {}, 1, id="nothing written"),
            pytest.param({"minReplicas": 4}, {}, 4, id="a number"),
            pytest.param({"minReplicas": 0}, {}, 0, id="zero"),
            pytest.param({"minReplicas": ".spec.n"}, {"n": 4}, 4, id="an expression"),
            pytest.param({"minReplicasPath": [".spec.m", ".spec.n"]}, {"m": 0, "n": 4}, 0, id="first non-null"),
            pytest.param(
                {"minReplicasPath": [".spec.m", ".spec.n"], "resolve": "FirstPositive"},
                {"m": 0, "n": 4},
                4,
                id="first positive",
            ),
            pytest.param({"minReplicas": 4, "replicasPath": ".spec.n"}, {"n": 9}, 4, id="within the replicas"),
            pytest.param({"replicasPath": ".spec.n"}, {"n": 9}, 1, id="nothing but replicas"),
            pytest.param({"replicasPath": ".spec.n"}, {"n": 0}, 0, id="nothing, and no replicas"),
            pytest.param({"minReplicas": 4, "replicasPath": ".spec.n"}, {}, 4, id="replicas that nobody knows"),
        ],
    )
    def test_of_a_leaf(self, fields, spec, minimum):
        found = derived(interface({"subgroups": [entry("leaf", **fields)]}), work(**spec))
        assert found.root.children[0].minimum == minimum
        assert found.warnings == ()

    def test_of_a_leaf_above_its_replicas(self):
        """It is cut, with a warning; a flat gang's too."""
        leaf = {"minReplicas": 4, "replicasPath": ".spec.n"}
        found = derived(interface({"subgroups": [entry("leaf", **leaf)]}), work(n=3))
        assert (found.root.children[0].minimum, found.root.children[0].replicas) == (3, 3)
        (warning,) = found.warnings
        assert warning == (
            f"Work default/w: {PATH}.subgroups[0].minReplicas: leaf asks for 4 pods and gets 3: the minimum is 3"
        )
        flat = derived(interface({"minMember": 4, "replicasPath": ".spec.n"}), work(n=3))
        assert flat.root.minimum == 3
        assert "the PodGroup asks for 4 pods and gets 3" in flat.warnings[0]

    def test_paths_that_give_nothing_are_told(self):
        template = {"subgroups": [entry("leaf", minReplicasPath=[".spec.m", ".spec.n"])]}
        trouble = refused(tree, template)
        assert trouble.message == ".spec.m and .spec.n give no number"
        assert trouble.path == "spec.gangScheduling.podGroups[0].subgroups[0].minReplicasPath"
        assert trouble.hint

    @pytest.mark.parametrize(
        ("said", "minimum", "warned"),
        [(None, None, False), (0, 0, False), (2, 2, False), (3, 3, False), (4, None, True)],
    )
    def test_of_children(self, said, minimum, warned):
        """Nothing is all of them, and more than there are is cut to all of them; the root and branches alike."""
        three = {"minSubGroupPath": ".spec.m", "subgroups": [entry(name) for name in "xyz"]}
        root = derived(interface(three), work(m=said))
        above = derived(interface({"subgroups": [{"componentName": "b", **three}]}), work(m=said))
        assert (root.root.minimum, above.root.children[0].minimum, above.root.minimum) == (minimum, minimum, None)
        for found, where in ((root, "the PodGroup"), (above, "b")):
            assert len(found.warnings) == warned
            assert all(f"{where} has 3 children: 4 of them can't be required" in text for text in found.warnings)


class TestSegments:
    CUT = {"indexLabel": "i", "indexFrom": ".spec.first", "sizePath": ".spec.size"}
    CUT |= {"topology": {"requiredPath": ".spec.level"}}

    @pytest.mark.parametrize("flat", [False, True])
    def test_a_leaf_is_cut_as_the_interface_says(self, flat):
        """The number of the first pod, the size and the constraint come from the workload."""
        fields = {"replicasPath": ".spec.n", "segments": self.CUT}
        leaf = {"minMember": 5, **fields} if flat else {"subgroups": [entry("w", minReplicas=5, **fields)]}
        found = derived(interface(leaf), work(n=5, first=10, size=2, level="rack"))
        node = found.root if flat else found.root.children[0]
        assert [(one.span[1:], one.minimum, one.hold) for one in node.children] == [
            ((10, 12), 2, Hold("", "rack")),
            ((12, 14), 2, Hold("", "rack")),
            ((14, 16), 1, Hold("", "rack")),
        ]
        assert found.leaves.of({"i": "13", "role": "w"}) == 1

    def test_without_a_size_it_stays_whole(self):
        """And what it starts at is 0, if nobody says so."""
        template = {"replicasPath": ".spec.n", "segments": self.CUT}
        assert derived(interface(template), work(n=5)).root.children == []
        assert [one.span.start for one in derived(interface(template), work(n=5, size=4)).root.children] == [0, 4]


class TestConstraints:
    def test_of_every_node(self):
        topology = {
            "namePath": ".spec.t.name",
            "requiredPath": ".spec.t.required",
            "preferredPath": ".spec.t.preferred",
        }
        inner = {"requiredPath": ["$g.missing", "$g.level"]}
        template = {
            "topology": topology,
            "subgroups": [
                {"componentName": "$g.name", "foreach": EACH, "topology": inner, "subgroups": [entry("l", "$g.name")]},
                entry("old", requiredTopologyConstraintsPath=".spec.t.required"),
            ],
        }
        owner = work(t={"name": "dc", "required": "zone"}, groups=[{"name": "a", "level": "rack"}, {"name": "b"}])
        found = derived(interface(template), owner).root
        assert {node.name: node.hold for node in found.below()} == {
            "": Hold("dc", "zone", ""),
            "a": Hold("", "rack", ""),
            "a-l": Hold(),
            "b": Hold(),
            "b-l": Hold(),
            "old": Hold("", "zone", ""),
        }


class TestConditions:
    def bounds(self, spec, *expressions, **labels):
        classifier = {"matchLabels": labels, "matchExpressions": list(expressions)}
        found = derived(interface({"subgroups": [entry("x", podClassifier=classifier)]}), work(**spec))
        return [bound[1:] for bound in found.root.children[0].bounds]

    def test_values_come_from_the_workload(self):
        conditions = [
            {"key": "b", "operator": "In", "valuePath": ".spec.names"},
            {"key": "c", "operator": "NotEquals", "value": "z"},
            {"key": "d", "operator": "Exists"},
            {"key": "e", "operator": "NotIn", "values": ["p", "q"]},
            {"key": "f", "operator": "In", "valuePath": ".spec.none"},
        ]
        found = self.bounds({"names": ["x", 1], "n": "v"}, *conditions, a=".spec.n", g="lit")
        assert sorted(found) == [
            ("a", "Equals", ("v",)),
            ("b", "In", ("x", "1")),
            ("c", "NotEquals", ("z",)),
            ("d", "Exists", ()),
            ("e", "NotIn", ("p", "q")),
            ("f", "In", ()),
            ("g", "Equals", ("lit",)),
        ]

    @pytest.mark.parametrize("operator", ["Equals", "NotEquals"])
    @pytest.mark.parametrize(
        ("value", "what"), [(None, "no value"), ([], "no value"), (["a", "b"], "several values")], ids=str
    )
    def test_one_value_is_needed(self, operator, value, what):
        condition = {"key": "k", "operator": operator, "valuePath": ".spec.v"}
        trouble = refused(self.bounds, {"v": value}, condition)
        assert f"gives {what}, and {operator} needs one" in trouble.message
        assert trouble.path.startswith("spec.gangScheduling.podGroups[0].subgroups[0].podClassifier")

    def test_one_value_several_times_is_one(self):
        condition = {"key": "k", "operator": "Equals", "valuePath": ".spec.v"}
        assert self.bounds({"v": ["a", "a"]}, condition)[0][1] == "Equals"

    def test_too_many_values(self):
        condition = {"key": "k", "operator": "In", "valuePath": ".spec.v"}
        assert len(self.bounds({"v": list(range(1000))}, condition)[0][2]) == 1000
        assert "1,001 values" in refused(self.bounds, {"v": list(range(1001))}, condition).message

    def test_a_lone_leaf_without_classifier_claims_all(self):
        (leaf,) = derived(interface({"members": [{"componentName": "all"}]}), work()).root.children
        assert leaf.bounds is None


T_IS_IN = {"key": "t", "operator": "In"}


class TestTemplates:
    MADE = staticmethod(
        lambda: interface(
            {"name": "off", "when": ".spec.off", "podClassifier": {"matchLabels": {"t": "a"}}},
            {
                "name": "a",
                "podClassifier": {"matchExpressions": [{"key": "t", "operator": "In", "valuePath": ".spec.a"}]},
            },
            {"name": "b", "when": ".spec.b", "podClassifier": {"matchLabels": {"t": "b"}}},
        )
    )

    @pytest.mark.parametrize(
        ("label", "spec", "name"),
        [
            ("a", {"a": ["a", "b"]}, "a"),
            ("b", {"a": ["a", "b"], "b": True}, "a"),
            ("b", {"a": ["a"], "b": True}, "b"),
            ("a", {"a": ["a"], "off": True}, "off"),
        ],
    )
    def test_the_first_that_is_there_and_claims_the_pod(self, label, spec, name):
        owner, a_pod = work(**spec), pod(t=label)
        reading = Reading(self.MADE(), [owner], a_pod, Objects([owner]))
        assert reading.template_of(a_pod)[0].name == name

    def test_without_a_pod_the_first_that_is_there(self):
        reading = Reading(self.MADE(), [work(a=["a"])], None, Objects([]))
        assert reading.template_of(None)[0].name == "a"

    @pytest.mark.parametrize(
        ("made", "message"),
        [
            pytest.param(None, "no podGroups entry claims the pod", id="nobody claims it"),
            pytest.param({"when": ".spec.no"}, "no podGroups entry is there for this workload", id="none is there"),
        ],
    )
    def test_none(self, made, message):
        """Asked twice it is told twice."""
        reading = Reading(interface(made) if made else self.MADE(), [work(a=["a"])], None, Objects([]))
        for _ in range(2):
            trouble = refused(reading.template_of, pod(t="z"))
            assert trouble.message == message
            assert trouble.path == "spec.gangScheduling.podGroups"
            assert trouble.hint

    def test_a_condition_that_fails_is_told_each_time_and_asked_once(self):
        reading = Reading(interface({"when": ".spec.x.y"}), [work(x="text")], None, Objects([]))
        first, second = (refused(reading.template_of, pod()) for _ in range(2))
        assert first is second
        assert first.path == "spec.gangScheduling.podGroups[0].when"


class TestKeys:
    PATHS = staticmethod(lambda *paths: interface({"instanceKeyPaths": list(paths), "nameTemplate": '"n-\\($key)"'}))

    @pytest.mark.parametrize(
        ("paths", "labels", "key"),
        [
            ([".metadata.labels.a"], {"a": "x"}, "x"),
            ([".metadata.labels.a", ".metadata.labels.b"], {"a": "x", "b": "y"}, "x-y"),
            ([".metadata.labels.a"], {"a": 3}, "3"),
        ],
    )
    def test_rooted_at_the_pod(self, paths, labels, key):
        found = derived(self.PATHS(*paths), work(), pod(**labels))
        assert (found.key, found.given_name) == (key, f"n-{key}")

    def test_what_could_be_read_in_two_ways_is_told_apart(self):
        paths = self.PATHS(".metadata.labels.a", ".metadata.labels.b")
        keys = [derived(paths, work(), pod(a=a, b=b)).key for a, b in (("x-y", "z"), ("x", "y-z"))]
        assert all(key.startswith("x-y-z-") for key in keys)
        assert keys[0] != keys[1]

    def test_each_part_can_be_asked_for(self):
        template = {"instanceKeyPaths": [".metadata.labels.a", ".metadata.labels.b"]}
        template["minMemberPath"] = "$keys[1] as $part | .spec[$part]"
        assert derived(interface(template), work(z=7), pod(a="x-y", b="z")).root.minimum == 7

    @pytest.mark.parametrize("labels", [{}, {"a": ""}, {"a": None}], ids=["missing", "empty", "null"])
    def test_every_path_gives_something(self, labels):
        trouble = refused(derived, self.PATHS(".metadata.labels.a"), work(), pod(**labels))
        assert trouble.message == ".metadata.labels.a gives nothing for this pod"
        assert trouble.path.startswith("spec.gangScheduling.podGroups[0].instanceKeyPaths")

    def test_without_a_pod_it_waits(self):
        assert "no pod yet" in refused(derived, self.PATHS(".metadata.labels.a"), work(), retry=True).message


class TestNameAndOwner:
    def test_a_name_template_gives_a_name(self):
        made = interface({"nameTemplate": ".spec.called"})
        assert derived(made, work(called="x")).given_name == "x"
        trouble = refused(derived, made, work())
        assert (trouble.message, trouble.path) == (
            "nameTemplate gives no name",
            "spec.gangScheduling.podGroups[0].nameTemplate",
        )

    def test_who_owns_it(self):
        """The owner that resolved, the pod, or what a reference finds; the owners come behind it."""
        other, owner, above, a_pod = work("other"), work(ref="other"), work("above"), pod()
        reference = {"name": "o", "gvk": {"group": "x.io", "version": "v1", "kind": "Work"}}
        reference["lookup"] = {"namePath": ".spec.ref"}
        for owner_ref, sources in (
            (None, [owner, above]),
            ("owner", [owner, above]),
            ("pod", [a_pod, owner, above]),
            ("$o", [other, owner, above]),
        ):
            made = interface({"ownerRef": owner_ref} if owner_ref else {}, references=[reference])
            reading = Reading(made, [owner, above], a_pod, Objects([owner, other]))
            found = reading.derive(*reading.template_of(a_pod), a_pod)
            assert len(found.sources) == len(sources)
            assert all(one is two for one, two in zip(found.sources, sources, strict=True))
        trouble = refused(derived, interface({"ownerRef": "pod"}), work(), retry=True)
        assert "no pod yet" in trouble.message


class TestLets:
    def test_they_may_use_each_other_and_are_null_without_a_value(self):
        lets = {"b": "$a * 2", "a": ".spec.n", "none": ".spec.list[]?"}
        template = {"minMemberPath": ["$none", "$b"]}
        assert tree(template, work(n=3), let=lets) == ("", 6)

    def test_several_values_are_told(self):
        trouble = refused(tree, {"minMemberPath": "$a"}, work(l=[1, 2]), let={"a": ".spec.l[]"})
        assert trouble.path == "spec.let.a"

    def test_one_that_nobody_needs_is_not_asked(self):
        assert tree({}, work(x="text"), let={"bad": ".spec.x.y"}) == ("", 1)
        assert refused(tree, {"minMemberPath": "$bad"}, work(x="text"), let={"bad": ".spec.x.y"}).path == "spec.let.bad"


class Lookup(Objects):
    """A lookup that remembers what it was asked, and may not read some kinds."""

    def __init__(self, *objects, forbidden=()):
        super().__init__(objects)
        self.forbidden, self.asked = forbidden, []

    def get(self, wanted):
        self.asked.append(wanted)
        return Absence.FORBIDDEN if wanted.kind in self.forbidden else super().get(wanted)

    def select(self, api_version, kind, namespace, labels):
        self.asked.append((api_version, kind, namespace, labels))
        return Absence.FORBIDDEN if kind in self.forbidden else super().select(api_version, kind, namespace, labels)


def reference(name="r", **how):
    return {"name": name, "gvk": {"group": "x.io", "version": "v1", "kind": "Other"}, **how}


BY_NAME = reference(lookup={"namePath": ".spec.ref"})
BY_POD = reference(lookup={"root": "pod", "namePath": ".metadata.labels.ref"})
BY_LABELS = reference(list={"matchLabels": {"app": ".metadata.name", "tier": "lit"}})


class TestReferences:
    COUNT = staticmethod(lambda *references: interface({"minMemberPath": "$r.spec.n"}, references=list(references)))

    def test_by_name(self):
        lookup = Lookup(work("other", kind="Other", n=5))
        found = derived(self.COUNT(BY_NAME), work(ref="other"), lookup=lookup)
        assert found.root.minimum == 5
        (asked,) = lookup.asked
        assert asked[:4] == ("x.io/v1", "Other", "default", "other")

    def test_through_the_pod(self):
        lookup = Lookup(work("a", kind="Other", n=5), work("b", kind="Other", n=6))
        made = self.COUNT(BY_POD)
        assert [derived(made, work(), pod(ref=ref), lookup).root.minimum for ref in "ab"] == [5, 6]
        assert pod_names(made, pod(ref="a")) == ("a",)
        assert pod_names(made, pod()) == ("",)
        assert pod_names(self.COUNT(BY_NAME), pod(ref="a")) == ()
        assert "there is none yet" in refused(derived, made, work(), None, lookup, retry=True).message

    def test_by_labels(self):
        """All that carry them, by name; none is an empty list."""
        others = [work(name, kind="Other", labels={"app": "w", "tier": "lit"}, n=len(name)) for name in ("zz", "a")]
        others.append(work("not", kind="Other", labels={"app": "w"}, n=100))
        made = interface({"minMemberPath": "[$r[].spec.n] | add // 7"}, references=[BY_LABELS])
        lookup = Lookup(*others)
        assert derived(made, work(), lookup=lookup).root.minimum == 3
        assert lookup.asked == [("x.io/v1", "Other", "default", {"app": "w", "tier": "lit"})]
        assert derived(made, work("nobody"), lookup=lookup).root.minimum == 7

    def test_one_that_is_not_there_waits(self):
        trouble = refused(derived, self.COUNT(BY_NAME), work(ref="other"), retry=True)
        assert "Other default/other" in trouble.message
        assert "$r of ResourceInterface works" in trouble.message
        assert trouble.path == "spec.references[0]"

    def test_a_name_that_is_not_there_waits(self):
        trouble = refused(derived, self.COUNT(BY_NAME), work(), retry=True)
        assert trouble.message == "the name of $r is not there yet"

    @pytest.mark.parametrize(("how", "what"), [(BY_NAME, "Other default/other"), (BY_LABELS, "Others")])
    def test_one_that_may_not_be_read_waits_and_says_what_to_allow(self, how, what):
        lookup = Lookup(forbidden=["Other"])
        trouble = refused(derived, self.COUNT(how), work(ref="other"), None, lookup, retry=True)
        assert trouble.message.startswith(
            f"{what} may not be read: grant muster get, list and watch on Other.x.io with"
        )
        assert 'muster.dev/aggregate-to-grouper: "true"' in trouble.message

    def test_what_was_looked_up_tells_when_to_look_again(self):
        """By the object itself, not by what it holds: the cluster's copies are never changed in place."""
        other, labelled = work("other", kind="Other", n=1), work("l", kind="Other", labels={"app": "w", "tier": "lit"})
        by_labels = {**BY_LABELS, "name": "s"}
        made = interface({"minMemberPath": "$r.spec.n + ($s | length)"}, references=[BY_NAME, by_labels])
        owner, lookup = work(ref="other"), Lookup(other, labelled)
        reading = Reading(made, [owner], None, lookup)
        assert is_current(reading, lookup)
        assert reading.derive(*reading.template_of(None), None).root.minimum == 2
        assert is_current(reading, Lookup(other, labelled))
        for changed in (
            Lookup(dict(other), labelled),
            Lookup(labelled),
            Lookup(other, dict(labelled)),
            Lookup(other),
            Lookup(other, labelled, work("m", kind="Other", labels={"app": "w", "tier": "lit"})),
            Lookup(other, labelled, forbidden=["Other"]),
        ):
            assert not is_current(reading, changed)

    def test_a_selection_that_may_not_be_read_is_asked_again(self):
        made = interface({"minMemberPath": "$r | length"}, references=[BY_LABELS])
        reading = Reading(made, [work()], None, Lookup())
        reading.derive(*reading.template_of(None), None)
        assert not is_current(reading, Lookup(forbidden=["Other"]))
        reading = Reading(made, [work()], None, Lookup(forbidden=["Other"]))
        refused(reading.derive, *reading.template_of(None), None, retry=True)
        assert not is_current(reading, Lookup())

    def test_an_absence_is_current_until_the_object_comes(self):
        owner, other = work(ref="other"), work("other", kind="Other", n=1)
        reading = Reading(self.COUNT(BY_NAME), [owner], None, Lookup())
        refused(reading.derive, *reading.template_of(None), None, retry=True)
        assert is_current(reading, Lookup())
        assert not is_current(reading, Lookup(other))


class TestHearing:
    def test_every_expression_with_the_place_it_was_asked_for(self):
        template = {
            "minSubGroupPath": ".spec.m",
            "instanceKeyPaths": ".metadata.labels.k",
            "subgroups": [entry("$g", foreach=EACH, minReplicasPath=".spec.n", when="$g")],
        }
        made, owner = interface(template, let={"x": "1"}), work(m=1, n=2, groups=["a", "b"])
        reading = Reading(made, [owner], pod(k="0"), Objects([]), explain=True)
        found = [reading.derive(*reading.template_of(one), one).heard for one in (pod(k="0"), pod(k="1"))]
        path = "spec.gangScheduling.podGroups[0]."
        assert [(one.place, one.path.removeprefix(path), one.values) for one in found[1]] == [
            ("", "instanceKeyPaths", ("1",)),
            ("", "subgroups[0].foreach", ("a", "b")),
            ("", "subgroups[0].when", ("a",)),
            ("", "subgroups[0].componentName", ("a",)),
            ("a", "subgroups[0].podClassifier.matchLabels.role", ("a",)),
            ("a", "subgroups[0].minReplicasPath", (2,)),
            ("", "subgroups[0].when", ("b",)),
            ("", "subgroups[0].componentName", ("b",)),
            ("b", "subgroups[0].podClassifier.matchLabels.role", ("b",)),
            ("b", "subgroups[0].minReplicasPath", (2,)),
            ("", "minSubGroupPath", (1,)),
        ]
        assert found[0][1:] == found[1][1:]

    def test_nobody_listens_unless_asked(self):
        assert derived(interface({"minMemberPath": ".spec.n"}), work(n=1)).heard == ()


def test_limits_are_those_of_one_gang():
    """What one gang costs is not counted against the next one."""
    limits = Limits(steps=120)
    made = interface({"instanceKeyPaths": ".metadata.labels.k", "minMemberPath": "[range(8) | . * 2] | length"})
    owner = work()
    reading = Reading(made, [owner], None, Objects([]), limits)
    for number in range(20):
        one = pod(k=str(number))
        assert reading.derive(*reading.template_of(one), one).root.minimum == 8
    costly = interface({"minMemberPath": "[range(200) | . * 2] | length"})
    trouble = refused(derived, costly, owner, limits=limits)
    assert trouble.path == "spec.gangScheduling.podGroups[0].minMemberPath"


def test_leaves_and_bounds_of_a_repeated_entry():
    """Each repetition claims its own pods."""
    template = {
        "subgroups": [
            entry("head"),
            entry("$g", foreach=EACH, podClassifier={"matchLabels": {"group": "$g"}}),
        ]
    }
    found = derived(interface(template), work(groups=["a", "b"]))
    assert [leaf.name for leaf in found.leaves.nodes] == ["head", "a", "b"]
    assert [leaf.bounds for leaf in found.leaves.nodes][1:] == [
        (
            Bound(
                "spec.gangScheduling.podGroups[0].subgroups[1].podClassifier.matchLabels.group", "group", "Equals", (v,)
            ),
        )
        for v in "ab"
    ]
    assert [found.leaves.of({"group": v}) for v in "ba"] == [2, 1]
