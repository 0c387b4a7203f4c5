"""Where a gang comes nearest to fitting: which domains, in which order, and what each one lacks."""

from muster.plan.cycle import schedule
from muster.plan.nearest import NEAREST
from muster.plan.proof import Certificate, Exhausted
from muster.snapshot.build import build
from oracle.engine import ask, world_of
from oracle.instances import group, node, pod, topology


def held(level):
    return {"topologyConstraint": {"topology": "dc", "requiredTopologyLevel": level}}


def leaves(*sizes, level="rack", **more):
    """One leaf for each size, and its pods."""
    subgroups = [{"name": f"l{at}", "minMember": size, **held(level), **more} for at, size in enumerate(sizes)]
    return subgroups, [pod(f"l{at}-{i}", f"l{at}") for at, size in enumerate(sizes) for i in range(size)]


def told(documents):
    """(path, tree node, best, asked) of the nearest domains."""
    plan, _ = schedule(build(world_of(documents), 0))
    gang, outcome = plan.of(("default", "g"))
    assert isinstance(outcome.proof, Certificate | Exhausted)
    return [
        (
            plan.snapshot.domain_path(one.topology, one.level, one.domain),
            gang.tree.nodes[one.row].name,
            one.best,
            one.asked,
        )
        for one in outcome.proof.near
    ]


def test_the_domain_that_lacks_least_comes_first():
    """A gang in one block with a leaf in one rack: the block whose best rack is nearest, then the others."""
    nodes = [node("a", 2, "z", "x", "r1"), node("b", 3, "z", "y", "r2"), node("c", 2, "z", "y", "r3")]
    subgroups, pods = leaves(4, 1)
    found = told([topology(), *nodes, group(subGroups=subgroups, **held("block")), *pods])
    assert found[0] == ("z/y/r2", "l0", 3, 4)
    assert found[1] == ("z/x/r1", "l0", 2, 4)


def test_what_is_placed_first_is_not_counted_twice():
    """Two leaves of two find one rack of two and one of one: the second lacks one, in what the first leaves."""
    nodes = [node("a", 2, "z", "x", "r1"), node("b", 1, "z", "x", "r2"), node("c", 1, "z", "x", "r3")]
    subgroups, pods = leaves(2, 2)
    found = told([topology(), *nodes, group(subGroups=subgroups, **held("block")), *pods])
    ((path, name, best, asked), *_) = found
    assert (name, best, asked) in (("l0", 1, 2), ("l1", 1, 2))
    assert path in ("z/x/r2", "z/x/r3")


def test_loose_pods_are_counted_in_what_is_left():
    """A rack for two and two loose pods in its block: the block has one more."""
    nodes = [node("a", 2, "z", "x", "r1"), node("b", 1, "z", "x", "r2")]
    subgroups = [{"name": "tight", "minMember": 2, **held("rack")}, {"name": "loose", "minMember": 2}]
    pods = [pod(f"{name}-{i}", name) for name in ("tight", "loose") for i in range(2)]
    documents = [topology(), *nodes, group(subGroups=subgroups, **held("block")), *pods]
    # Another block has enough in all, and no rack for two.
    documents += [node(f"d{i}", 1, "z", "y", f"r{i}") for i in range(4)]
    found = told(documents)
    assert ("z/x", "loose", 1, 2) in found
    assert ("z/y/r0", "tight", 1, 2) in found


def test_no_more_than_a_few_are_told():
    nodes = [node(f"n{i}", 1, "z", f"b{i}", f"r{i}") for i in range(NEAREST + 5)]
    subgroups, pods = leaves(2, 1)
    found = told([topology(), *nodes, group(subGroups=subgroups, **held("block")), *pods])
    assert len(found) == NEAREST
    assert len(set(found)) == NEAREST


def test_the_reason_is_about_the_nearest():
    """The sentence and the list agree."""
    nodes = [node("a", 2, "z", "x", "r1"), node("b", 3, "z", "y", "r2"), node("c", 2, "z", "y", "r3")]
    subgroups, pods = leaves(4, 1)
    asked = ask([topology(), *nodes, group(subGroups=subgroups, **held("block")), *pods])
    (reason,) = asked.outcome.reasons
    assert isinstance(asked.outcome.proof, Certificate | Exhausted)
    near = asked.outcome.proof.near[0]
    assert (reason.row, reason.asked, reason.best, reason.domain) == (near.row, near.asked, near.best, near.domain)
