"""Queue, priority, preemptibility and delays come from the owners, then the pod, then the interface's defaults."""

import pytest

from muster.api.interface import Defaults
from muster.grouping.metadata import Derived, Said, derived, nearest, place, plain, texts
from muster.grouping.owners import identity_of
from muster.grouping.trouble import Trouble

K = "kai.scheduler/"
CLASSES = {"train", "build", "inference", "high"}
NOTHING = Derived("dq", "train", "", None, None, {}, {}, frozenset({"priority_class_name"}), ())


def thing(kind: str = "Job", labels: object = None, annotations: object = None, **spec: object) -> dict:
    metadata = {"name": kind.lower(), "namespace": "n", "uid": f"uid-{kind}"}
    if labels is not None:
        metadata["labels"] = labels
    if annotations is not None:
        metadata["annotations"] = annotations
    return {"kind": kind, "metadata": metadata, "spec": spec}


def ask(sources, pod=None, defaults=(), classes=None) -> Derived:
    return derived(sources, pod, defaults, classes=classes, default_queue="dq")


def labelled(key: str, *values: str | None) -> list[dict]:
    """One object after the other that has the label, or has it not."""
    return [thing(f"Kind{index}", {} if value is None else {key: value}) for index, value in enumerate(values)]


def noted(key: str, *values: str | None) -> list[dict]:
    return [thing(f"Kind{index}", None, {} if value is None else {key: value}) for index, value in enumerate(values)]


def test_nobody_says_anything():
    assert ask([]) == NOTHING
    assert ask([thing(), thing("CronJob", {}, {})], thing("Pod")) == NOTHING


@pytest.mark.parametrize(
    ("owners", "pod", "queue", "weak"),
    [
        ([{K + "queue": "a"}, {K + "queue": "b"}], {K + "queue": "c"}, "a", False),
        ([{}, {K + "queue": "b"}], {K + "queue": "c"}, "b", False),
        ([{}, {}], {K + "queue": "c"}, "c", True),
        ([{K + "queue": ""}, {K + "queue": "b"}], {}, "dq", False),
        ([{}], {K + "queue": ""}, "dq", True),
        ([{"project": "p"}], {K + "queue": "c"}, "c", True),
        ([{"project": "p"}], {"project": "x"}, "p", False),
        ([{}], {"project": "p"}, "p", True),
        ([{"project": ""}], {"project": "p"}, "p", True),
        ([{"project": "p"}], {K + "node-pool": "np"}, "p-np", True),
        ([{"project": "p"}], {K + "node-pool": ""}, "p", False),
        ([{"project": "p", K + "node-pool": "np"}], {}, "p", False),
        ([{}], {"project": "p", K + "node-pool": "np"}, "p-np", True),
        ([{K + "queue": "a"}], {K + "node-pool": "np"}, "a", False),
        ([{}], {K + "node-pool": "np"}, "dq", False),
        ([{K + "queue": "", "project": "p"}], {}, "dq", False),
    ],
)
def test_queue(owners, pod, queue, weak):
    """The queue label, even an empty one; then the project, with the node pool of the pod; then the default."""
    found = ask([thing(f"Kind{index}", labels) for index, labels in enumerate(owners)], thing("Pod", pod))
    assert (found.queue, "queue" in found.weak) == (queue, weak)
    assert found.warnings == ()


def test_queue_without_a_pod():
    assert ask([thing(labels={"project": "p"})]).queue == "p"


@pytest.mark.parametrize(
    ("owners", "label", "spec", "defaults", "expected", "weak", "warned"),
    [
        (["build", "high"], "high", "high", ["high"], "build", False, 0),
        ([None, "build"], "high", "high", ["high"], "build", False, 0),
        ([None], "build", "high", ["high"], "build", True, 0),
        ([None], None, "build", ["high"], "build", True, 0),
        ([None], None, None, ["build", "high"], "build", True, 0),
        ([None], None, None, ["", "high"], "high", True, 0),
        ([None], None, None, [], "train", True, 0),
        ([""], "", "", [""], "train", True, 0),
        (["no", "build"], None, None, [], "build", False, 1),
        (["no", "not"], "nope", "never", ["nil", "high"], "high", True, 5),
        (["no"], "high", None, [], "high", True, 1),
        (["no"], "nope", "high", [], "high", True, 2),
    ],
)
def test_priority(owners, label, spec, defaults, expected, weak, warned):
    """One that does not exist is passed over with a warning, and the next is asked."""
    pod = thing("Pod", {} if label is None else {"priorityClassName": label}, priorityClassName=spec)
    found = ask(
        labelled("priorityClassName", *owners), pod, [Defaults(priority_class_name=name) for name in defaults], CLASSES
    )
    assert (found.priority_class_name, "priority_class_name" in found.weak) == (expected, weak)
    assert len(found.warnings) == warned
    # When nobody knows which there are, the first one counts.
    anything = next((name for name in (*owners, label, spec, *defaults) if name), "train")
    found = ask(labelled("priorityClassName", *owners), pod, [Defaults(priority_class_name=name) for name in defaults])
    assert (found.priority_class_name, found.warnings) == (anything, ())


def test_the_fallback_must_exist():
    assert ask([], classes={"build"}).priority_class_name == ""
    assert ask([], classes=set()).priority_class_name == ""
    assert ask([], classes={"train"}).priority_class_name == "train"
    assert ask([], classes=set()).warnings == ()


def test_an_owners_spec_is_not_asked():
    """spec.priorityClassName is a field of pods; elsewhere it may be anything."""
    assert ask([thing(priorityClassName="high")]).priority_class_name == "train"


def test_warnings_about_priority():
    """They name the object, the key and the value, and the nearest class."""
    pod = thing("Pod", priorityClassName="zzz")
    found = ask(
        [thing(labels={"priorityClassName": "hihg"})], pod, [Defaults(priority_class_name="trian")], {"high", "build"}
    )
    assert found.priority_class_name == ""
    assert found.warnings == (
        'Job n/job: the label priorityClassName is "hihg": there is no such PriorityClass; did you mean high?; '
        "it is passed over",
        'Pod n/pod: spec.priorityClassName is "zzz": there is no such PriorityClass; it is passed over',
        'ResourceInterface: defaults.priorityClassName is "trian": there is no such PriorityClass; it is passed over',
    )


@pytest.mark.parametrize("read", [labelled, noted], ids=["label", "annotation"])
@pytest.mark.parametrize(
    ("owners", "pod", "default", "expected", "weak", "warned"),
    [
        (["preemptible", "non-preemptible"], "non-preemptible", "", "preemptible", False, 0),
        ([None, "semi-preemptible"], "non-preemptible", "", "semi-preemptible", False, 0),
        ([None], "non-preemptible", "preemptible", "non-preemptible", True, 0),
        ([None], None, "preemptible", "preemptible", True, 0),
        ([None], None, "", "", False, 0),
        (["Preemptible", "yes"], "", "", "", False, 2),
        (["yes"], "preemptible", "", "preemptible", True, 1),
        (["yes"], None, "semi-preemptible", "semi-preemptible", True, 1),
    ],
)
def test_preemptibility(read, owners, pod, default, expected, weak, warned):
    *sources, guest = read(K + "preemptibility", *owners, pod)
    found = ask(sources, guest, [Defaults(), Defaults(preemptibility=default), Defaults(preemptibility="")])
    assert (found.preemptibility, "preemptibility" in found.weak) == (expected, weak)
    assert len(found.warnings) == warned
    hint = "write preemptible, non-preemptible or semi-preemptible; it is passed over"
    assert all(one.endswith(f": {hint}") for one in found.warnings)


def test_a_label_comes_before_an_annotation_of_the_same_object():
    """But an annotation of a nearer object comes before both."""
    key = K + "preemptibility"
    both = thing("A", {key: "preemptible"}, {key: "non-preemptible"})
    assert ask([both]).preemptibility == "preemptible"
    assert ask([thing("B", None, {key: "semi-preemptible"}), both]).preemptibility == "semi-preemptible"
    assert ask([thing("B", {key: "?"}, {key: "semi-preemptible"}), both]).preemptibility == "semi-preemptible"


def test_the_outermost_default_counts():
    defaults = [Defaults(preemptibility="preemptible"), Defaults(preemptibility="non-preemptible")]
    assert ask([], None, defaults).preemptibility == "preemptible"


@pytest.mark.parametrize(
    ("key", "field"),
    [("preemption-delay", "preemption_delay"), ("staleness-grace-period", "staleness_grace_period")],
)
@pytest.mark.parametrize(
    ("owners", "pod", "expected", "weak", "warned"),
    [
        (["1m", "2m"], "3m", "1m", False, 0),
        ([None, "2m"], "3m", "2m", False, 0),
        ([None], "3m", "3m", True, 0),
        ([None], None, None, False, 0),
        (["0"], "3m", "0", False, 0),
        (["0s"], "3m", "0s", False, 0),
        (["soon", "1h30m"], None, "1h30m", False, 1),
        (["5"], "3m", "3m", True, 1),
        (["", "x"], "1 m", None, False, 2),
        (["9" * 5000 + "s"], None, None, False, 1),
    ],
)
def test_durations(key, field, owners, pod, expected, weak, warned):
    """One that is none is passed over with a warning."""
    *sources, guest = noted(K + key, *owners, pod)
    found = ask(sources, guest)
    assert (getattr(found, field), field in found.weak) == (expected, weak)
    assert len(found.warnings) == warned
    assert found._replace(**{field: None}, annotations={}, weak=NOTHING.weak, warnings=()) == NOTHING


def test_only_the_grace_period_may_be_negative():
    """It means for ever; a delay of less than nothing is none."""
    assert ask(noted(K + "staleness-grace-period", "-1s")).staleness_grace_period == "-1s"
    found = ask(noted(K + "preemption-delay", "-1s", "1s"))
    assert found.preemption_delay == "1s"
    assert found.warnings == (
        f'Kind0 n/kind0: the annotation {K}preemption-delay is "-1s": a delay can\'t be negative; write 0s or more; '
        "it is passed over",
    )


def test_a_warning_about_a_duration():
    assert ask(noted(K + "preemption-delay", "5")).warnings == (
        f'Kind0 n/kind0: the annotation {K}preemption-delay is "5": it is no duration; write it as 30s, 5m or 1h30m; '
        "it is passed over",
    )


def test_labels_do_not_say_durations():
    assert ask(labelled(K + "preemption-delay", "1m")).preemption_delay is None
    assert ask(noted(K + "queue", "q")).queue == "dq"
    assert ask(noted("priorityClassName", "high")).priority_class_name == "train"


def test_labels_are_passed_on():
    """Those of all owners, the nearest first; of the pod only the user, and only where the owners name none."""
    near, far = thing("A", {"a": "1", "b": "1"}), thing("B", {"b": "2", "c/d": "2", "empty": ""})
    found = ask([near, far], thing("Pod", {"user": "me", "x": "y"}))
    assert found.labels == {"a": "1", "b": "1", "c/d": "2", "empty": "", "user": "me"}
    assert found.weak == {"labels", "priority_class_name"}
    found = ask([near, thing("B", {"user": "they"})], thing("Pod", {"user": "me"}))
    assert (found.labels["user"], found.weak) == ("they", NOTHING.weak)


def test_annotations_are_passed_on():
    """Those of kai.scheduler and the user; not what kubectl and others note down."""
    near = thing("A", None, {K + "topology": "near", "kubectl.kubernetes.io/last-applied-configuration": "{}"})
    far = thing("B", None, {K + "topology": "far", K + "min-member.root.x": "2", "kai.schedulers/x": "1", "users": "x"})
    found = ask([near, far], thing("Pod", None, {"user": "me", K + "topology": "pod", K + "x": "y"}))
    assert found.annotations == {K + "topology": "near", K + "min-member.root.x": "2", "user": "me"}
    assert found.weak == {"annotations", "priority_class_name"}
    found = ask([thing("B", None, {"user": "they"})], thing("Pod", None, {"user": "me"}))
    assert (found.annotations, found.weak) == ({"user": "they"}, NOTHING.weak)


@pytest.mark.parametrize(
    "key",
    [
        "skip-podgrouper",
        "resource-interface",
        "top-owner-metadata",
        "derived-constraints",
        "subgroup-name",
        "podgroup",
        "kept-room",
        "ignore-workload-api",
        "last-start-timestamp",
        "last-eviction-timestamp",
        "stale-podgroup-timestamp",
        "numa-placement-predicted",
        "numa-placement-observed",
        "topology-preferred/.root.workers",
        "min-member.",
        "x" * 64,
        "a b",
        "",
    ],
)
def test_what_is_not_passed_on(key):
    """What concerns the grouper or a single pod, state, and keys that the API server would refuse."""
    assert ask([thing("A", {K + key: "x"}, {K + key: "x"})])._replace(warnings=()) == NOTHING


@pytest.mark.parametrize("value", ["a b", "-a", "x" * 64, "a/b", "ü", "a\n"])
def test_a_label_value_that_is_none(value):
    """The API server would refuse the PodGroup. An annotation may be any text."""
    found = ask([thing("A", {"a": value, "b": "x" * 63}, {"user": value})])
    assert (found.labels, found.annotations) == ({"b": "x" * 63}, {"user": value})
    assert ask([], thing("Pod", {"user": value})).labels == {}


def test_a_pod_that_owns_its_podgroup():
    """It is asked after the owners above it, and what it says holds: there is no other pod."""
    pod = thing(
        "Pod",
        {K + "queue": "pod", "a": "pod", "b": "pod", K + "subgroup-name": "x", "user": "me", K + "node-pool": "np"},
        {K + "preemption-delay": "1m", K + "staleness-grace-period": "2m", "other": "x"},
        priorityClassName="high",
    )
    found = ask([pod, thing("Deployment", {K + "queue": "owner", "a": "owner"}, {K + "preemption-delay": "5m"})], pod)
    assert found == Derived(
        queue="owner",
        priority_class_name="high",
        preemptibility="",
        preemption_delay="5m",
        staleness_grace_period="2m",
        labels={K + "queue": "owner", "a": "owner", "b": "pod", "user": "me", K + "node-pool": "np"},
        annotations={K + "preemption-delay": "5m", K + "staleness-grace-period": "2m"},
        weak=frozenset(),
        warnings=(),
    )
    pod["metadata"]["labels"].pop(K + "queue")
    found = ask([pod, thing("Deployment", {"project": "p"})], dict(pod))
    assert (found.queue, found.labels["b"], found.weak) == ("p-np", "pod", frozenset())


def test_a_pod_is_known_by_its_uid():
    """The same object read twice is one; two without a uid are not."""
    pod = thing("Pod", {"a": "b"})
    assert ask([{**pod}], pod).labels == {"a": "b"}
    assert ask([{**pod}], pod).weak == NOTHING.weak
    for one, other in (("", ""), (None, None), ("a", "b"), ("a", ""), ("", "b")):
        owner = {"metadata": {"uid": one, "labels": {"c": "d"}}}
        found = ask([owner], {"metadata": {"uid": other, "labels": {K + "queue": "q"}}})
        assert (found.labels, found.queue, found.weak) == ({"c": "d"}, "q", {"queue", "priority_class_name"})
    assert ask([{"metadata": None}], pod).weak == ask([pod], {"metadata": None}).weak == NOTHING.weak


def test_the_same_warning_is_given_once():
    pod = thing("Pod", None, {K + "preemption-delay": "x"})
    assert len(ask([pod, pod], pod).warnings) == 1


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        [],
        "x",
        7,
        {"labels": None, "annotations": None},
        {"labels": ["a"], "annotations": "b"},
        {"labels": 3, "annotations": 4.5},
        {"labels": {1: "a", None: "b", "a": 1, "b": None, "c": ["x"]}, "annotations": {2: "x", K + "x": 1, "user": []}},
        {"name": 1, "namespace": [], "uid": {}},
    ],
)
def test_hostile_metadata(metadata):
    """What is not text is not there."""
    hostile = {"kind": 3, "metadata": metadata, "spec": []}
    assert ask([hostile], {"metadata": metadata, "spec": None}) == NOTHING
    assert ask([hostile], hostile) == NOTHING
    assert identity_of(hostile).title == "object without a name"


@pytest.mark.parametrize(
    ("where", "key"),
    [
        ("labels", K + "queue"),
        ("labels", "project"),
        ("labels", "priorityClassName"),
        ("labels", K + "preemptibility"),
        ("annotations", K + "preemptibility"),
        ("annotations", K + "preemption-delay"),
        ("annotations", K + "staleness-grace-period"),
    ],
)
@pytest.mark.parametrize(("value", "words"), [(3, "3"), (True, "true"), ({}, "a mapping"), ([], "a list"), (0, "0")])
def test_a_value_that_is_no_text(where, key, value, words):
    """Where somebody meant to say something, a warning tells that it was not heard."""
    found = ask([thing("A", **{where: {key: value}})])
    assert found == NOTHING._replace(
        warnings=(f"A n/a: the {where[:-1]} {key} is {words}: it is no text, write it in quotes; it is passed over",)
    )


def test_a_priority_in_the_spec_that_is_no_text():
    (warning,) = ask([], thing("Pod", priorityClassName=7)).warnings
    assert warning.startswith("Pod n/pod: spec.priorityClassName is 7: it is no text")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"kind": "Job", "metadata": {"name": "a", "namespace": "n"}}, "Job n/a"),
        ({"kind": "Node", "metadata": {"name": "a"}}, "Node a"),
        ({"kind": "Job", "metadata": {"namespace": "n"}}, "Job without a name"),
        ({"metadata": {"name": "a"}}, "object a"),
        ({}, "object without a name"),
        ({"kind": "J\x1b", "metadata": {"name": "a\nb"}}, r'"J\u001b" "a\nb"'),
    ],
)
def test_title(source, expected):
    assert identity_of(source).title == expected


def test_words_for_a_place():
    assert place(thing(), "labels", "user") == "Job n/job: the label user"
    assert place(thing(), "annotations", "a b") == 'Job n/job: the annotation "a b"'
    assert plain("a/b-c.d_e:F1") == "a/b-c.d_e:F1"
    assert plain("") == '""'
    assert plain("x" * 320) == "x" * 320
    assert plain("x" * 321) != "x" * 321


def test_texts():
    source = {"metadata": {"labels": {"a": "b", "c": 1, 2: "d", "e": ""}}}
    assert texts(source, "labels") == {"a": "b", "e": ""}
    assert texts(source, "annotations") == {}


def test_the_nearest_annotation():
    """An empty one, or none that is text, leaves the word to the next object."""
    warnings: list[str] = []
    sources = noted("k", None, "", "a", "b")
    assert nearest(sources, "k", warnings) == Said(sources[2], "k", "a")
    assert nearest(sources, "other", warnings) is None
    assert warnings == []
    sources = [thing("A", None, {"k": 1}), thing("B", None, {"k": None}), thing("C", None, {"k": "c"})]
    assert nearest(sources, "k", warnings) == Said(sources[2], "k", "c")
    assert warnings == ["A n/a: the annotation k is 1: it is no text, write it in quotes; it is passed over"]
    assert str(Said(thing(), "k", "v")) == 'Job n/job: the annotation k is "v"'


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("007", 7), ("2147483647", 2**31 - 1), ("0000000001", 1)])
def test_a_whole_number(text, number):
    assert Said(thing(), "k", text).whole() == number


@pytest.mark.parametrize("text", ["", "0", "00", "-1", "2147483648", "00000000001", "1e3", "0x1", "1_0", "１", "1\n"])
def test_no_whole_number(text):
    with pytest.raises(Trouble) as caught:
        Said(thing(), "k", text).whole()
    assert caught.value.message.startswith("Job n/job: the annotation k is ")
    assert ("asks for nothing" in caught.value.message) == (text in ("0", "00"))
    assert caught.value.hint == "write 1 or more"


def test_a_name():
    assert Said(thing(), "k", "abc").name(3) == "abc"
    with pytest.raises(Trouble) as caught:
        Said(thing(), "k", "abcd").name(3)
    assert caught.value.hint == "write at most 3 characters"


def test_a_class_that_a_field_of_the_workload_gives_is_the_workloads_own():
    """It comes behind labels and pods, before defaults, and a PodGroup follows it."""
    found = derived(
        [thing()], None, [Defaults(priority_class_name="high")], classes=None, default_queue="dq", given_class="x"
    )
    assert (found.priority_class_name, found.weak) == ("x", frozenset())
    wrong = derived([thing()], None, [], classes={"train"}, default_queue="dq", given_class="x")
    assert (wrong.priority_class_name, wrong.weak, len(wrong.warnings)) == ("train", NOTHING.weak, 1)
    labelled_one = thing(labels={"priorityClassName": "own"})
    assert (
        derived([labelled_one], None, [], classes=None, default_queue="dq", given_class="x").priority_class_name
        == "own"
    )
