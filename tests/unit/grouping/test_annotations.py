"""Annotations on the workload come before its ResourceInterface, the nearest object's first; none goes unheard."""

import copy

import pytest

from muster.grouping.annotations import finish
from muster.grouping.model import Cut
from muster.grouping.nodes import Hold, Node
from muster.grouping.trouble import Trouble

K = "kai.scheduler/"
CUT = Cut("spec.segments", "idx")


def workload(annotations: object, kind: str = "Job") -> dict:
    """An object whose annotations are given without their prefix."""
    if isinstance(annotations, dict):
        annotations = {K + key: value for key, value in annotations.items()}
    return {"kind": kind, "metadata": {"name": kind.lower(), "namespace": "n", "annotations": annotations}}


def leaf(name: str, minimum: int = 1, **fields: object) -> Node:
    return Node(**{"name": name, "short": name, "path": f"p.{name}", "minimum": minimum, **fields})


def branch(name: str, *children: Node, **fields: object) -> Node:
    return Node(**{"name": name, "short": name, "path": "p", "children": list(children), **fields})


def flat(**fields: object) -> Node:
    return Node(**{"name": "", "short": "", "path": "p", "minimum": 1, **fields})


def gang() -> Node:
    """A head, and two replicas of a leader and four workers, whose full names tell them apart."""
    replicas = [
        branch(
            f"replica-{index}",
            leaf(f"replica-{index}-leader", short="leader"),
            leaf(f"replica-{index}-workers", 4, short="workers", replicas=4),
        )
        for index in range(2)
    ]
    return branch("", leaf("head"), *replicas)


def node_of(root: Node, name: str) -> Node:
    return next(node for node in root.below() if node.name == name)


def refused(root: Node, *sources: dict) -> Trouble:
    with pytest.raises(Trouble) as caught:
        finish(root, sources)
    assert caught.value.hint
    return caught.value


def test_nothing_said():
    root = gang()
    assert finish(root, []) == []
    assert finish(root, [workload({}), {"kind": "Job"}]) == []
    assert root == gang()


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"topology": "t"}, Hold("t", "zone", "host")),
        ({"topology-required-placement": "rack"}, Hold("i", "rack", "host")),
        ({"topology-preferred-placement": "rack"}, Hold("i", "zone", "rack")),
        ({"topology-required.root": "rack"}, Hold("i", "rack", "host")),
        ({"topology-preferred.root": "rack"}, Hold("i", "zone", "rack")),
        ({"topology": "t", "topology-required.root": "a", "topology-preferred.root": "b"}, Hold("t", "a", "b")),
        ({"topology-required.root": "rack", "topology-required-placement": "x"}, Hold("i", "rack", "host")),
        ({"topology": "", "topology-required.root": "", "topology-preferred-placement": ""}, Hold("i", "zone", "host")),
        ({}, Hold("i", "zone", "host")),
    ],
)
def test_topology_of_the_root(annotations, expected):
    """Each part replaces that part of what the interface gave. An empty text says nothing."""
    root = flat(hold=Hold("i", "zone", "host"))
    assert finish(root, [workload(annotations)]) == []
    assert root == flat(hold=expected)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("root.head", "head"),
        ("root.replica-1", "replica-1"),
        ("root.replica-1.workers", "replica-1-workers"),
        ("root.replica-1.replica-1-workers", "replica-1-workers"),
        ("root.replica-0.leader", "replica-0-leader"),
    ],
)
@pytest.mark.parametrize("verb", ["required", "preferred"])
def test_topology_at_a_path(path, name, verb):
    """Names on the way are full or short. One node is changed, and only in what was said."""
    root = gang()
    node_of(root, name).hold = Hold("t", "zone", "host")
    expected = copy.deepcopy(root)
    node_of(expected, name).hold = Hold("t", "zone", "host")._replace(**{verb: "rack"})
    assert finish(root, [workload({f"topology-{verb}.{path}": "rack"})]) == []
    assert root == expected


def test_a_full_name_comes_before_a_short_one():
    root = branch("", leaf("x-a", short="a"), leaf("a", short="b"))
    finish(root, [workload({"min-member.root.a": "7"})])
    assert [node.minimum for node in root.children] == [1, 7]


def test_the_nearest_object_counts():
    """Key by key: what the nearest does not say, the next one may. An empty text says nothing."""
    near = workload({"topology": "near", "min-member.root.head": "2", "topology-required-placement": ""})
    far = workload(
        {
            "topology": "far",
            "min-member.root.head": "x",
            "topology-required-placement": "far",
            "min-sub-group.root": "2",
        }
    )
    root = gang()
    assert finish(root, [workload({}), near, far]) == []
    assert (root.hold, node_of(root, "head").minimum, root.minimum) == (Hold("near", "far"), 2, 2)


def test_the_nearest_object_counts_whatever_the_spelling():
    """An older key of the nearest object is before a path of the next; so are two spellings of one path."""
    root = flat()
    near = workload({"batch-min-member": "3", "topology-required-placement": "near"})
    finish(root, [near, workload({"min-member.root": "5", "topology-required.root": "far"})])
    assert (root.minimum, root.hold.required) == (3, "near")
    root = gang()
    near = workload({"min-member.root.replica-0.replica-0-workers": "3"})
    finish(root, [near, workload({"min-member.root.replica-0.workers": "2"})])
    assert node_of(root, "replica-0-workers").minimum == 3


def test_minimums_at_a_path():
    root = gang()
    assert (
        finish(
            root,
            [workload({"min-sub-group.root": "1", "min-sub-group.root.replica-0": "1", "min-member.root.head": "3"})],
        )
        == []
    )
    assert [(node.name, node.minimum) for node in root.below() if node.name[:9] != "replica-1"] == [
        ("", 1),
        ("head", 3),
        ("replica-0", 1),
        ("replica-0-leader", 1),
        ("replica-0-workers", 4),
    ]


@pytest.mark.parametrize(
    ("annotations", "warned", "minimum"),
    [
        ({"min-member.root": "3"}, False, 3),
        ({"min-member.root": "4"}, False, 4),
        ({"min-member.root": "5"}, True, 4),
        ({"batch-min-member": "4"}, False, 4),
        ({"batch-min-member": "5"}, True, 4),
        ({"min-member.root": "2", "batch-min-member": "3"}, False, 2),
    ],
)
def test_minimum_of_a_flat_gang(annotations, warned, minimum):
    """No more than the pods that there will be. A path comes before the older key."""
    root = flat(replicas=4)
    warnings = finish(root, [workload(annotations)])
    assert root == flat(replicas=4, minimum=minimum)
    key = next(iter(annotations))
    assert warnings == (
        [f'Job n/job: the annotation {K}{key} is "5", but root has 4 pods at a time: 4 is used'] if warned else []
    )


def test_minimum_of_a_leaf_whose_pods_nobody_counts():
    root = gang()
    assert finish(root, [workload({"min-member.root.head": "2147483647"})]) == []
    assert node_of(root, "head").minimum == 2**31 - 1


@pytest.mark.parametrize(
    ("key", "text", "warned", "minimum"),
    [
        ("min-sub-group.root", "2", False, 2),
        ("min-sub-group.root", "3", False, None),
        ("min-sub-group.root", "4", True, None),
        ("batch-min-member", "1", False, 1),
        ("batch-min-member", "3", False, None),
        ("batch-min-member", "9", True, None),
    ],
)
def test_minimum_of_a_root_with_children(key, text, warned, minimum):
    """No more than the children; all of them is what it is without a number."""
    root = gang()
    root.minimum = 2
    warnings = finish(root, [workload({key: text})])
    assert root.minimum == minimum
    said = f'Job n/job: the annotation {K}{key} is "{text}", but root has 3 subgroups: 3 is used'
    assert warnings == ([said] if warned else [])


def test_a_subgroup_may_be_missing_altogether():
    root = gang()
    finish(root, [workload({"min-member.root.head": "0"})])
    assert next(node for node in root.below() if node.name == "head").minimum == 0
    assert refused(gang(), workload({"min-member.root.head": "-1"})).hint == "write 0 or more"


@pytest.mark.parametrize("key", ["min-sub-group.root", "batch-min-member"])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0", "asks for nothing"),
        ("-1", "no whole number from 1 to 2147483647"),
        ("1.0", "no whole number"),
        ("all", "no whole number"),
        ("50%", "no whole number"),
        ("2147483648", "no whole number"),
        ("²", "no whole number"),
        ("1" * 5000, "no whole number"),
    ],
)
def test_a_minimum_that_is_none(key, text, why):
    trouble = refused(gang(), workload({key: text}))
    assert trouble.message.startswith(f"Job n/job: the annotation {K}{key} is ")
    assert why in trouble.message
    assert trouble.hint == "write 1 or more"


@pytest.mark.parametrize(
    ("key", "path", "right"),
    [
        ("min-member", "root", "min-sub-group"),
        ("min-member", "root.replica-0", "min-sub-group"),
        ("min-sub-group", "root.head", "min-member"),
        ("min-sub-group", "root.replica-0.workers", "min-member"),
    ],
)
def test_the_wrong_count(key, path, right):
    """Pods are counted in leaves, children elsewhere; the trouble says which key to write."""
    trouble = refused(gang(), workload({f"{key}.{path}": "1"}))
    assert f"{K}{key}.{path} is" in trouble.message
    assert trouble.hint == f"write {K}{right}.{path}"


def test_children_of_a_flat_gang():
    assert refused(flat(), workload({"min-sub-group.root": "1"})).hint == f"write {K}min-member.root"


@pytest.mark.parametrize("middle", ["/.", "/"])
@pytest.mark.parametrize(
    ("verb", "text", "expected"),
    [
        ("topology-required", "rack", Hold("", "rack")),
        ("topology-preferred", "rack", Hold("", "", "rack")),
        ("min-member", "2", 2),
        ("min-sub-group", "1", 1),
    ],
)
def test_the_illegal_spelling(middle, verb, text, expected):
    """It is read, and the warning names the legal key."""
    name = "replica-0" if verb == "min-sub-group" else "head"
    root = gang()
    key = f"{verb}{middle}root.{name}"
    assert finish(root, [workload({key: text})]) == [
        f"Job n/job: the annotation {K}{key} is no legal key: write {K}{verb}.root.{name}"
    ]
    node = node_of(root, name)
    assert expected in (node.hold, node.minimum)


def test_a_legal_key_comes_before_an_illegal_one():
    root = gang()
    warnings = finish(
        root, [workload({"topology-preferred/.root.head": "illegal", "topology-preferred.root.head": "legal"})]
    )
    assert len(warnings) == 1
    assert node_of(root, "head").hold == Hold("", "", "legal")


def test_a_warning_about_a_key_is_given_once():
    same = {"topology-preferred/.root.head": "a"}
    assert len(finish(gang(), [workload(same), workload(same, "CronJob")])) == 1


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("min-member.root.heads", "did you mean root.head?"),
        ("topology-required.root.replica-0.worker", "did you mean root.replica-0.workers?"),
        ("topology-required.head", "did you mean root.head?"),
        ("min-sub-group.replica-0.workers", "did you mean root.replica-0.workers?"),
        ("min-member.root.zzz", "there are root, root.head, root.replica-0, root.replica-1, "),
        ("min-member.root.head.x.y.z.zz.zzz", "there are root, "),
        ("min-member.root.", "did you mean root?"),
        ("min-member.rooted", "did you mean root?"),
        ("min-member.root.replica-0-workers", "did you mean root.replica-0.workers?"),
    ],
)
def test_a_path_that_is_not_there(key, hint):
    """Nothing changes, whatever the value is, and the warning names the nearest."""
    root = gang()
    (warning,) = finish(root, [workload({key: "x"})])
    verb, _, path = key.partition(".")
    assert warning.startswith(
        f'Job n/job: the annotation {K}{verb}.{path} is "x", but there is no subgroup at "{path}"; '
    )
    assert hint in warning
    assert root == gang()


def test_some_paths_are_shown():
    (warning,) = finish(gang(), [workload({"min-member.root.zzz": "1"})])
    assert warning.endswith(
        "there are root, root.head, root.replica-0, root.replica-1, root.replica-0.replica-0-leader, "
        "root.replica-0.replica-0-workers, …"
    )
    (warning,) = finish(branch("", *map(leaf, "abcde")), [workload({"min-member.root.zzz": "1"})])
    assert warning.endswith("there are root, root.a, root.b, root.c, root.d, root.e")


def test_few_paths_are_all_shown():
    (warning,) = finish(branch("", leaf("a"), leaf("b")), [workload({"min-member.root.zzz": "1"})])
    assert warning.endswith("there are root, root.a, root.b")


def test_many_paths_that_are_not_there():
    """Ten are told one by one; the same path of two objects is one."""
    many = workload({f"min-member.root.x{index:03}": "1" for index in range(30)})
    warnings = finish(gang(), [many, many])
    assert len(warnings) == 11
    assert warnings[0].startswith(f"Job n/job: the annotation {K}min-member.root.x000 ")
    assert warnings[-1] == "20 more annotations name subgroups that are not there"
    ten = workload({f"min-member.root.x{index:03}": "1" for index in range(10)})
    assert len(finish(gang(), [ten])) == 10


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("topology-require.root.head", f"is not known: write {K}topology-required.root.head; it is passed over"),
        ("topology-require/.root.head", f"is not known: write {K}topology-required.root.head; it is passed over"),
        ("min-members.root", f"is not known: write {K}min-member.root; it is passed over"),
        (
            "zzz.root",
            f"is not known: write {K}topology-required|topology-preferred|min-sub-group|min-member.root; "
            "it is passed over",
        ),
        (
            "min-member",
            f"names no subgroup: write {K}min-member.root or {K}min-member.root.<name>; it is passed over",
        ),
    ],
)
def test_a_key_that_is_nearly_one(key, expected):
    assert finish(gang(), [workload({key: "1"})]) == [f"Job n/job: the annotation {K}{key} {expected}"]


@pytest.mark.parametrize("key", ["queue", "something.else", "zzz.rooted", "min-memberx", "last/.x", "user.roots"])
def test_other_keys_are_left_alone(key):
    root = gang()
    assert finish(root, [workload({key: "1"})]) == []
    assert root == gang()


@pytest.mark.parametrize(
    "source",
    [
        {},
        {"metadata": None},
        {"metadata": []},
        {"metadata": "x"},
        {"metadata": {"annotations": None}},
        {"metadata": {"annotations": [f"{K}topology"]}},
        {"metadata": {"annotations": "kai.scheduler/topology"}},
        {"metadata": {"annotations": {1: 2, None: "x", ("a",): "b"}}},
        {"metadata": {"annotations": {"min-member.root.head": "9", "other/min-member.root.head": "9"}}},
    ],
)
def test_hostile_metadata(source):
    root = gang()
    assert finish(root, [source]) == []
    assert root == gang()


@pytest.mark.parametrize("value", [3, 1.5, True, False, 0, ["x"], {"a": "b"}])
@pytest.mark.parametrize("key", ["topology", "topology-required.root", "min-member.root.head", "batch-min-member"])
def test_a_value_that_is_no_text(key, value):
    """It is passed over with a warning, and the next object is asked."""
    root = gang()
    (warning,) = finish(root, [workload({key: value})])
    assert f"the annotation {K}{key} is " in warning
    assert "write it in quotes" in warning
    assert root == gang()
    root = gang()
    assert len(finish(root, [workload({key: value}), workload({key: "2"})])) == 1
    assert root != gang() or key == "topology"


def test_control_characters_are_not_repeated():
    warnings = finish(gang(), [workload({"min-member/root.a\nb\x1b[31m": "\x1b[0m"}, kind="J\x07b")])
    assert len(warnings) == 2
    assert all(warning.isprintable() for warning in warnings)


@pytest.mark.parametrize(("key", "most"), [("topology", 253), ("topology-required.root", 316)])
def test_a_name_that_is_too_long(key, most):
    assert refused(flat(), workload({key: "x" * (most + 1)})).hint == f"write at most {most} characters"
    assert finish(flat(), [workload({key: "x" * most})]) == []


def test_a_name_without_a_level_stays_where_it_is_inherited():
    """It holds nothing, so it goes where nothing below it takes the name over."""
    deep = branch("b", leaf("c", hold=Hold("", "rack")))
    root = branch("", leaf("a"), deep)
    finish(root, [workload({"topology": "t"})])
    assert (root.hold, deep.hold) == (Hold("t"), Hold())
    named = branch("", leaf("a", hold=Hold("other", "", "rack")), branch("b", leaf("c"), hold=Hold("idle")))
    finish(named, [workload({"topology": "t"})])
    assert [node.hold for node in named.below()] == [Hold(), Hold("other", "", "rack"), Hold(), Hold()]
    between = branch("", branch("b", leaf("c", hold=Hold("", "rack")), hold=Hold("u")), hold=Hold("idle"))
    finish(between, [])
    assert [node.hold for node in between.below()] == [Hold(), Hold("u"), Hold("", "rack")]
    beside = branch("", branch("b", leaf("c"), hold=Hold("", "", "zone")))
    finish(beside, [workload({"topology": "t"})])
    assert beside.hold == Hold("t")


def cut_gang(**fields: object) -> Node:
    return branch("", leaf("head"), leaf("worker", **{"minimum": 8, "replicas": 8, "cut": CUT, **fields}))


def minimums_of(node: Node) -> tuple[int | None, list[int | None]]:
    return node.minimum, [child.minimum for child in node.children]


def test_a_minimum_of_pods_is_shared_out_among_segments():
    """It counts before the leaf is cut; what holds the leaf then holds the branch."""
    root = cut_gang()
    notes = {"segment-size": "2", "min-member.root.worker": "3", "topology-required.root.worker": "zone"}
    assert finish(root, [workload(notes)]) == []
    worker = root.children[1]
    assert minimums_of(worker) == (2, [2, 1, 2, 2])
    assert (worker.hold, worker.children[0].hold) == (Hold("", "zone"), Hold())


@pytest.mark.parametrize("minimum", [8, 3, 0])
@pytest.mark.parametrize(("text", "needed"), [("1", 1), ("3", 3), ("4", None), ("5", None)])
def test_segments_are_counted_whole(minimum, text, needed):
    """min-sub-group on a leaf that is cut counts segments, and each of them needs all of its pods."""
    root = cut_gang(minimum=minimum, size=2)
    warnings = finish(root, [workload({"min-sub-group.root.worker": text})])
    assert minimums_of(root.children[1]) == (needed, [2, 2, 2, 2])
    assert [warning.endswith("root.worker has 4 subgroups: 4 is used") for warning in warnings] == [True] * (
        text == "5"
    )


def test_one_segment_by_its_path():
    """What is said of one segment comes last, whatever is said of all."""
    root = cut_gang(segment_hold=Hold("", "rack"))
    notes = {
        "segment-size": "3",
        "min-member.root.worker.worker-0": "1",
        "min-member.root.worker.worker-2": "3",
        "min-sub-group.root.worker": "2",
        "topology-required.root.worker.worker-1": "host",
        "segment-topology-preferred-placement": "spine",
    }
    (warning,) = finish(root, [workload(notes)])
    assert warning.endswith("root.worker.worker-2 has 2 pods at a time: 2 is used")
    assert minimums_of(root.children[1]) == (2, [1, 3, 2])
    assert [node.hold for node in root.children[1].children] == [
        Hold("", "rack", "spine"),
        Hold("", "host", "spine"),
        Hold("", "rack", "spine"),
    ]


def test_segments_of_a_flat_gang_by_their_paths():
    root = flat(minimum=4, replicas=4, cut=CUT)
    notes = {"segment-size": "2", "batch-min-member": "3", "topology-required.root.segment-1": "rack"}
    assert finish(root, [workload(notes)]) == []
    assert minimums_of(root) == (None, [2, 1])
    assert [node.hold for node in root.children] == [Hold(), Hold("", "rack")]


def test_segments_below_a_repeated_entry_by_their_paths():
    root = branch("", branch("r-0", leaf("r-0-w", 2, short="w", replicas=2, cut=CUT, size=1)))
    notes = {"topology-required.root.r-0.w.w-1": "a", "topology-preferred.root.r-0.r-0-w.r-0-w-1": "b"}
    assert finish(root, [workload(notes)]) == []
    assert [node.hold for node in root.below()][-2:] == [Hold(), Hold("", "a", "b")]


@pytest.mark.parametrize("pods", ["min-member.root", "batch-min-member"])
def test_pods_and_segments_can_not_both_be_counted(pods):
    trouble = refused(flat(replicas=4, cut=CUT), workload({"segment-size": "2", "min-sub-group.root": "1", pods: "3"}))
    assert f"{K}{pods} is " in trouble.message
    assert f"{K}min-sub-group.root counts segments" in trouble.message
    assert trouble.hint == "keep one of the two"


def test_the_nearest_count_of_segments():
    root = cut_gang(size=2)
    assert (
        finish(root, [workload({"min-sub-group.root.worker": "3"}), workload({"min-sub-group.root.worker": "x"})]) == []
    )
    assert root.children[1].minimum == 3


def test_pods_are_not_counted_in_children_that_are_no_segments():
    """Two counts of one branch: the one that counts more is used, and the other is passed over."""
    root = gang()
    assert finish(root, [workload({"min-sub-group.root": "2"}), workload({"batch-min-member": "1"})]) == []
    assert root.minimum == 2


def test_segments_that_are_not_there():
    root = cut_gang()
    (warning,) = finish(root, [workload({"min-member.root.worker.worker-0": "1"})])
    assert 'no subgroup at "root.worker.worker-0"' in warning
    root = cut_gang()
    (warning,) = finish(root, [workload({"min-member.root.worker.worker-4": "1", "segment-size": "2"})])
    assert "did you mean root.worker.worker-" in warning


def test_count_of_segments_where_nothing_is_cut():
    assert refused(cut_gang(), workload({"min-sub-group.root.worker": "1"})).hint == f"write {K}min-member.root.worker"


def test_a_bad_size_is_told_even_when_paths_need_it():
    assert (
        "segment-size" in refused(cut_gang(), workload({"segment-size": "0", "min-sub-group.root.worker": "1"})).message
    )


def test_a_size_that_is_no_text_is_told_once():
    assert len(finish(cut_gang(), [workload({"segment-size": 2})])) == 1


def test_annotations_on_ten_thousand_children():
    """Paths are looked up, not searched for."""
    root = branch("", *(leaf(f"a{index}") for index in range(10_000)))
    notes = {f"min-member.root.a{index}": "2" for index in range(10_000)}
    assert finish(root, [workload(notes)]) == []
    assert {node.minimum for node in root.children} == {2}
