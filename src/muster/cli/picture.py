"""A Plan for people: a table of gangs, why some of them wait, and a small picture of where each one went."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from muster.api.tree import NONE
from muster.cli.judging import plural
from muster.cli.render import columns, sayable
from muster.decisions.plan import core_rows, domain_of
from muster.decisions.words import Told, foremost, sentence, told
from muster.model.reasons import Code
from muster.plan.outcome import Outcome, Plan, Verdict
from muster.snapshot.arrays import Gang, Snapshot
from muster.snapshot.domains import Domains

_NOTHING = "-"
# A picture has at most so many lines below its title, a line names at most so many nodes and leaves.
MOST_LINES = 12
_MOST_NODES, _MOST_LEAVES, _NODES_A_LINE = 6, 3, 8


class Line(NamedTuple):
    """A line of the table, and the verdict of the gang that it belongs to; the title has none."""

    text: str
    verdict: Verdict | None


def table(plan: Plan, *, wide: bool) -> Iterator[Line]:
    """One line a gang; `wide` adds queue and priority, and one line for every tree node below the root."""
    more = ("QUEUE", "PRIORITY", "PREFERRED") if wide else ()
    rows: list[tuple[str, ...]] = [("GANG", "VERDICT", "PODS", "DOMAIN", *more, "REASON")]
    verdicts: list[Verdict | None] = [None]
    for gang, outcome in _named(plan):
        lines = [_gang_row(gang, outcome, plan.snapshot, wide=wide)]
        lines += _tree_rows(gang, outcome, plan.snapshot) if wide else []
        rows += lines
        verdicts += [outcome.verdict] * len(lines)
    for text, verdict in zip(columns(rows), verdicts, strict=True):
        yield Line(sayable(text), verdict)


def _gang_row(gang: Gang, outcome: Outcome, snapshot: Snapshot, *, wide: bool) -> tuple[str, ...]:
    more = (gang.queue, str(gang.priority), _preferred(outcome.rows[0].preferred_met)) if wide else ()
    return (
        "/".join(gang.key),
        outcome.verdict.value,
        _pods(gang, outcome, 0),
        domain_of(outcome.rows[0], snapshot) or _NOTHING,
        *more,
        _code(foremost(outcome), gang),
    )


def _tree_rows(gang: Gang, outcome: Outcome, snapshot: Snapshot) -> Iterator[tuple[str, ...]]:
    nodes, is_core = gang.tree.nodes, core_rows(gang, outcome)
    depths = [0] * len(nodes)
    reasons = {one.reason.row: one for one in reversed(told(outcome))}
    for row in range(1, len(nodes)):
        depths[row] = depths[nodes[row].parent] + 1
        met = outcome.rows[row].satisfied
        yield (
            "  " * depths[row] + nodes[row].name,
            ("core" if is_core[row] else "surplus") if met else "waits",
            _pods(gang, outcome, row),
            domain_of(outcome.rows[row], snapshot) or _NOTHING,
            "",
            "",
            _preferred(outcome.rows[row].preferred_met),
            _code(reasons.get(row), gang),
        )


def _pods(gang: Gang, outcome: Outcome, row: int) -> str:
    return f"{outcome.rows[row].placed}/{gang.minimum_pods[row]}/{outcome.rows[row].total}"


def _preferred(met: bool | None) -> str:
    return _NOTHING if met is None else "met" if met else "not met"


def _code(one: Told | None, gang: Gang) -> str:
    if one is None:
        return ""
    name = gang.tree.nodes[one.reason.row].name
    return f"{one.reason.code} ({name})" if name else one.reason.code


def whys(plan: Plan) -> Iterator[str]:
    """Every gang that has something to say, with its foremost reason as a sentence.

    Who is evicted, for whom and why, is a table of its own.
    """
    for gang, outcome in _named(plan):
        one = foremost(outcome)
        if one is not None and one.reason.code != Code.EVICTED:
            yield sayable(f"{'/'.join(gang.key)}: {sentence(one.reason, gang, plan.snapshot, one.others)}")


class _Went(NamedTuple):
    """Pods of one gang that were sent to one domain: how many to each node and of each leaf."""

    nodes: Counter[int]
    leaves: Counter[int]


def pictures(plan: Plan) -> Iterator[list[str]]:
    """Where each gang went that was placed in this cycle: a title, and at most MOST_LINES lines."""
    sent: dict[int, Counter[tuple[int, int]]] = {}
    waits: set[int] = set()
    for placement in plan.placements:
        leaf = plan.snapshot.gangs[placement.gang].waiting[placement.batch].leaf
        sent.setdefault(placement.gang, Counter()).update((node, leaf) for node in placement.nodes)
        waits.update([placement.gang] if placement.nominated else [])
    for number in sorted(sent):
        gang = plan.snapshot.gangs[number]
        nodes = {node for node, _ in sent[number]}
        what = "placed or reserved" if number in waits else "placed"
        title = f"{'/'.join(gang.key)}: {plural(sent[number].total(), 'pod')} {what} on {plural(len(nodes), 'node')}"
        yield [sayable(line) for line in (title, *_lines(gang, sent[number], plan.snapshot))]


def _lines(gang: Gang, sent: Mapping[tuple[int, int], int], snapshot: Snapshot) -> list[str]:
    topology = _topology(gang, snapshot)
    if topology is None:
        return _node_lines(sent, snapshot)
    level = _narrowest(topology, snapshot)
    domains = _by_domain(topology, level, sent)
    while len(domains) > MOST_LINES and level > 0:
        level -= 1
        domains = _by_domain(topology, level, sent)
    paths = topology.levels[level].paths
    rows = [
        (
            "  " + (paths[domain] if domain != NONE else f"outside {topology.name}"),
            _leaves(went.leaves, gang),
            _nodes(went.nodes, snapshot),
        )
        for domain, went in sorted(domains.items(), key=lambda one: (one[0] == NONE, one[0]))
    ]
    lines = list(columns(rows))
    if len(lines) > MOST_LINES:
        lines[MOST_LINES - 1 :] = [f"  … {len(lines) - MOST_LINES + 1:,} more"]
    return lines


def _topology(gang: Gang, snapshot: Snapshot) -> Domains | None:
    """The Topology that holds the gang, else the only one."""
    if gang.holds:
        return snapshot.topologies[gang.holds[0].topology]
    return snapshot.topologies[0] if len(snapshot.topologies) == 1 else None


def _narrowest(topology: Domains, snapshot: Snapshot) -> int:
    """The narrowest level whose domains are more than the nodes themselves."""
    last = len(topology.levels) - 1
    level = topology.levels[last]
    names = (snapshot.nodes[row] for row in topology.order[level.start].tolist())
    is_hostname = all(path.rpartition("/")[2] == name for path, name in zip(level.paths, names, strict=True))
    return last - 1 if last > 0 and is_hostname else last


def _by_domain(topology: Domains, level: int, sent: Mapping[tuple[int, int], int]) -> dict[int, _Went]:
    found: dict[int, _Went] = {}
    domain_of_node = topology.levels[level].domain_of
    for (node, leaf), pods in sent.items():
        went = found.setdefault(int(domain_of_node[node]), _Went(Counter(), Counter()))
        went.nodes[node] += pods
        went.leaves[leaf] += pods
    return found


def _leaves(leaves: Counter[int], gang: Gang) -> str:
    if len(gang.tree.nodes) == 1:
        return plural(leaves[0], "pod")
    words = [f"{gang.tree.nodes[leaf].name} ×{pods}" for leaf, pods in sorted(leaves.items())]
    return _some(words, _MOST_LEAVES, "leaves")


def _nodes(nodes: Counter[int], snapshot: Snapshot) -> str:
    if len(nodes) > _MOST_NODES and len(set(nodes.values())) == 1:
        return f"{len(nodes):,} nodes ×{next(iter(nodes.values()))}"
    return _some([f"{snapshot.nodes[node]} ×{pods}" for node, pods in sorted(nodes.items())], _MOST_NODES, "nodes")


def _some(words: Sequence[str], most: int, noun: str) -> str:
    return (
        "  ".join(words) if len(words) <= most else "  ".join(words[: most - 1]) + f"  … {len(words) - most + 1} {noun}"
    )


def _node_lines(sent: Mapping[tuple[int, int], int], snapshot: Snapshot) -> list[str]:
    """Without a Topology: the nodes with their counts, as many as fit into the picture."""
    nodes: Counter[int] = Counter()
    for (node, _), pods in sent.items():
        nodes[node] += pods
    words = [f"{snapshot.nodes[node]} ×{pods}" for node, pods in sorted(nodes.items())]
    lines = ["  " + "  ".join(words[at : at + _NODES_A_LINE]) for at in range(0, len(words), _NODES_A_LINE)]
    if len(lines) > MOST_LINES:
        lines[MOST_LINES - 1 :] = [f"  … {len(words) - (MOST_LINES - 1) * _NODES_A_LINE:,} more nodes"]
    return lines


def _named(plan: Plan) -> Iterator[tuple[Gang, Outcome]]:
    """The gangs that have a PodGroup, with what came of each."""
    return ((gang, outcome) for gang, outcome in zip(plan.snapshot.gangs, plan.outcomes, strict=True) if not gang.loose)
