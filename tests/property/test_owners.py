"""Owners of anybody's making: the walk always ends, with a chain or a Trouble, and the order of what is given to it
changes nothing.
"""

from itertools import pairwise

from hypothesis import event, given
from hypothesis import strategies as st

from muster.api.interface import DEFAULT, GROUP, HANDOFF, SKIP, Defaults, KindReference
from muster.grouping.metadata import INTERFACE_ANNOTATION as ANNOTATION
from muster.grouping.model import Interface, Template
from muster.grouping.owners import MOST_LINKS, Absence, Objects, chain_of
from muster.grouping.registry import Registry
from muster.grouping.resolve import resolve
from muster.grouping.trouble import Trouble

GROUPS = {"A": "x.io", "B": "x.io", "Pod": "", "Secret": ""}
KINDS = tuple(GROUPS)
VERSIONS = ("v1", "v2")
INTERFACES = ("i", "j", "k", "l")

# JSON of any shape, for every place where something else is expected.
garbage = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
kinds_and_versions = st.tuples(st.sampled_from(KINDS), st.sampled_from(VERSIONS))
SPOTS = ("", "apiVersion", "kind", "metadata", *(f"metadata.{field}" for field in ("name", "namespace", "uid")))
SPOTS += ("metadata.annotations", "metadata.ownerReferences", "first", "controller", "annotation")


@st.composite
def graphs(draw, most=10):
    """Objects that own each other in any way, of which a few are spoilt."""
    objects = [
        {
            "apiVersion": f"{GROUPS[kind]}/{version}".removeprefix("/"),
            "kind": kind,
            "metadata": {"name": f"n{number}", "uid": f"u{number}", "ownerReferences": [], "annotations": {}},
        }
        for number, (kind, version) in enumerate(draw(st.lists(kinds_and_versions, min_size=most // 2, max_size=most)))
    ]
    count = len(objects)
    for number, one in enumerate(objects):
        # Mostly the next one: chains should come out long, and now and then closed.
        following = st.just(number + 1)
        for owner in draw(st.lists(following | following | st.integers(0, count - 1), min_size=1, max_size=2)):
            if owner < count:
                one["metadata"]["ownerReferences"].append(draw(references(objects[owner])))
    for one in draw(st.lists(st.sampled_from(objects), max_size=1)):
        one["metadata"]["annotations"][ANNOTATION] = draw(st.sampled_from([*INTERFACES, "default", "nobody"]))
    for number in draw(st.lists(st.integers(0, count - 1), max_size=2)):
        objects[number] = spoilt(objects[number], draw(st.sampled_from(SPOTS)), draw(garbage))
    return objects


@st.composite
def references(draw, owner):
    """A reference to an object, perhaps of another version, of another life or without a uid."""
    group = owner["apiVersion"].rpartition("/")[0]
    return {
        "apiVersion": f"{group}/{draw(st.sampled_from(VERSIONS))}".removeprefix("/"),
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        **draw(st.sampled_from([{"uid": owner["metadata"]["uid"]}] * 8 + [{}, {"uid": "other"}])),
        **draw(st.sampled_from([{}, {"controller": True}, {"controller": False}])),
    }


def spoilt(one, spot, value):
    """The object with garbage in one place."""
    if spot == "" or not isinstance(one, dict) or not isinstance(metadata := one.get("metadata"), dict):
        return value
    if spot == "first":
        return {**one, "metadata": {**metadata, "ownerReferences": [value]}}
    if spot == "controller":
        reference = {"apiVersion": "v1", "kind": "A", "name": value, "controller": True, "uid": value}
        return {**one, "metadata": {**metadata, "ownerReferences": [value, reference]}}
    if spot == "annotation":
        return {**one, "metadata": {**metadata, "annotations": {ANNOTATION: value}}}
    field, _, below = spot.partition(".")
    return {**one, field: {**metadata, below: value} if below else value}


targets = st.builds(
    lambda kind, version: KindReference(group=GROUPS[kind], version=version, kind=kind),
    st.sampled_from(KINDS),
    st.sampled_from(["*", *VERSIONS]),
)


def interfaces(built_in):
    """Interfaces with names of their own, for kinds that they have to share."""
    one = st.builds(
        lambda name, target, action, created, priority, silent: Interface(
            name=name,
            target=target,
            action=action,
            created=created,
            built_in=built_in,
            defaults=Defaults(priority_class_name=priority),
            templates=() if silent else (Template(path="", name="gang"),),
        ),
        st.sampled_from(INTERFACES),
        targets,
        st.sampled_from([GROUP, GROUP, HANDOFF, SKIP, DEFAULT]),
        st.sampled_from(["", "2026-01-01T00:00:00Z", "2025-01-01T00:00:00+01:00", "no time"]),
        st.sampled_from(["", "train"]),
        st.booleans(),
    )
    return st.lists(one, min_size=2, max_size=4, unique_by=lambda interface: interface.name)


prefers = st.sampled_from([(), ("built-in",), ("A.x.io=built-in",), ("built-in", "Pod=user")])
invalids = st.dictionaries(st.sampled_from(["i", "broken", "worse"]), st.tuples(targets, st.just("bad")), max_size=3)


class Forbidding(Objects):
    """A lookup that may not read some kinds."""

    def __init__(self, documents, kinds):
        super().__init__(documents)
        self.kinds = kinds

    def get(self, wanted):
        return Absence.FORBIDDEN if wanted.kind in self.kinds else super().get(wanted)


forbidden = st.just(set()) | st.sets(st.sampled_from(KINDS), max_size=1)


def outcome(function, *arguments):
    """What a function gives, or the Trouble that it raises. Whatever else is raised is a defect."""
    try:
        return function(*arguments)
    except Trouble as raised:
        trouble = raised
    assert trouble.message
    assert trouble.hint
    assert (trouble.message + trouble.hint).isprintable()
    assert len(trouble.message) < 20_000
    return trouble.message, trouble.hint, trouble.retry


@given(graphs(most=25), forbidden)
def test_the_walk_ends_with_a_chain_or_a_trouble(objects, kinds):
    """At most sixteen links, no object twice, each the owner of the next, and only the top one may be bare."""
    bottom = objects[0]
    chain = outcome(chain_of, bottom, Forbidding(objects, kinds))
    if isinstance(chain[0], str):
        event("trouble")
        return
    event(f"{len(chain)} links")
    assert 1 <= len(chain) <= MOST_LINKS
    assert chain[-1].object is bottom
    assert not any(link.bare for link in chain[1:])
    assert len({id(link.object) for link in chain}) == len(chain)
    for above, below in pairwise(chain):
        named = [
            (reference["kind"], reference["name"])
            for reference in below.object["metadata"]["ownerReferences"]
            if isinstance(reference, dict) and {"kind", "name"} <= set(reference)
        ]
        assert (above.object["kind"], above.object["metadata"]["name"]) in named
    if not chain[0].bare:
        metadata = chain[0].object.get("metadata") if isinstance(chain[0].object, dict) else None
        assert not isinstance(metadata, dict) or not metadata.get("ownerReferences")


@given(st.integers(1, 40), st.integers(0, 40), st.booleans())
def test_lines_and_cycles_of_any_length_end(length, back, closed):
    """A line of owners is a chain as long as it is short enough; one that turns back never is."""
    line = [
        {
            "apiVersion": "x.io/v1",
            "kind": "A",
            "metadata": {
                "name": str(number),
                "ownerReferences": [{"apiVersion": "x.io/v2", "kind": "A", "name": str(number + 1)}],
            },
        }
        for number in range(length)
    ]
    last = line[-1]["metadata"]["ownerReferences"]
    if closed:
        last[0]["name"] = str(back % length)
    else:
        last.clear()
    found = outcome(chain_of, line[0], Objects(line))
    if closed:
        assert found[0].startswith("the owners of A 0 form a cycle" if length <= MOST_LINKS else "A 0 has more than")
        assert found[2] is False
    elif length > MOST_LINKS:
        assert found == ("A 0 has more than 15 owners, one above the other", found[1], False)
    else:
        assert [link.object for link in found] == line[::-1]


@given(
    graphs(),
    forbidden,
    interfaces(built_in=True),
    interfaces(built_in=False),
    invalids,
    prefers,
    st.randoms(use_true_random=False),
)
def test_resolving_does_not_depend_on_the_order_of_interfaces(objects, kinds, catalog, users, invalid, prefer, random):
    """The same answer, warnings, steps and Troubles, also when the questions come in another order."""
    lookup = Forbidding(objects, kinds)
    chains = [chain for one in objects if not isinstance((chain := outcome(chain_of, one, lookup))[0], str)]
    first = Registry(catalog, users, invalid=invalid, prefer=prefer)
    answers = [outcome(resolve, chain, first) for chain in chains]
    for answer, chain in zip(answers, chains, strict=True):
        if not isinstance(answer[0], str):
            assert 0 <= answer.link_index < len(chain)
            assert answer.interface is None or not chain[answer.link_index].bare
            assert answer.interface is None or answer.interface.templates
            assert answer.interface is None or answer.interface.target.kind != "Secret" or answer.interface.target.group
            assert answer.steps
            assert all(text.isprintable() for text in (*answer.steps, *answer.warnings))
            event("default" if answer.interface is None else "interface")
            event(
                "conflict" if any("ResourceInterfaces are for" in text for text in answer.warnings) else "no conflict"
            )
    shuffled = [list(catalog), list(users), list(invalid)]
    for one in shuffled:
        random.shuffle(one)
    again = Registry(shuffled[0], shuffled[1], invalid={name: invalid[name] for name in shuffled[2]}, prefer=prefer)
    assert [outcome(resolve, chain, again) for chain in reversed(chains)] == answers[::-1]
