"""Host ports as columns: a port that a waiting pod asks for is a resource of which every node has one.

Ports that the same shapes and the same running pods take are one column, so that a pod with many ports costs as much as
a pod with one. What is left is bounded: beyond that, the shapes with the most ports of the namespaces with the most
such shapes are too many, and wait.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from muster.snapshot.requests import HOST_PORT

# An IP (empty: all of them), a protocol and a number.
Port = tuple[str, str, int]
_Numbered = tuple[str, int]
T = TypeVar("T")
# The most looks at who takes a port, and the most amounts in the columns, per snapshot.
MOST_LOOKS, MOST_AMOUNTS = 2_000_000, 8_000_000


class Holder(NamedTuple):
    """A running pod that holds ports of its node."""

    row: int
    terminating: bool


class Column(NamedTuple):
    """Ports that are always taken together: their name, the shapes that ask for them, and the pods that hold them."""

    name: str
    shapes: tuple[int, ...]
    holders: tuple[Holder, ...]


@dataclass
class _Takers(Generic[T]):
    """All that take a port of one protocol and number: each with its IPs."""

    ips_of: dict[T, frozenset[str]] = field(default_factory=dict)
    ips: Counter[str] = field(default_factory=Counter)

    def by_ip(self, ips: Collection[str]) -> dict[str, list[T]]:
        """Who takes the port on each IP. Without an IP of its own, a thing takes it on all of them."""
        everywhere = [thing for thing, own in self.ips_of.items() if "" in own]
        found = {ip: list(everywhere) for ip in ips}
        for thing, own in self.ips_of.items():
            for ip in () if "" in own else own:
                if ip in found:
                    found[ip].append(thing)
        return found


@dataclass
class PortIndex(Generic[T]):
    """Things by the port numbers that they take."""

    _at: dict[_Numbered, _Takers[T]] = field(default_factory=dict)

    def add(self, thing: T, ports: Iterable[Port]) -> None:
        """One more thing with these ports."""
        for number, ips in _by_number(ports).items():
            takers = self._at.setdefault(number, _Takers())
            takers.ips_of[thing] = ips
            takers.ips.update(ips)

    def remove(self, thing: T, ports: Iterable[Port]) -> None:
        """That thing is gone; nothing when it was not there."""
        for number in _by_number(ports):
            takers = self.at(number)
            takers.ips.subtract(takers.ips_of.pop(thing, ()))
            takers.ips = +takers.ips
            if not takers.ips_of:
                self._at.pop(number, None)

    def at(self, number: _Numbered) -> _Takers[T]:
        """All that take a port with this protocol and number."""
        return self._at.get(number) or _Takers()


def _by_number(ports: Iterable[Port]) -> dict[_Numbered, frozenset[str]]:
    found: dict[_Numbered, set[str]] = {}
    for ip, protocol, number in ports:
        found.setdefault((protocol, number), set()).add(ip)
    return {number: frozenset(ips) for number, ips in found.items()}


def columns_of(
    waiting: Mapping[int, tuple[Port, ...]],
    placed: Mapping[int, tuple[Port, ...]],
    pods: PortIndex[T],
    holders: Mapping[T, Holder],
    rows: int,
    whose: Mapping[int, Collection[str]],
) -> tuple[list[Column], frozenset[int]]:
    """The columns for the shapes that wait, given with their ports, and those of the shapes that have too many.

    `placed` are shapes of running pods that take ports too, `pods` the running pods; `holders` are those of them on a
    known node. The columns become part of tables with so many `rows`. `whose` are the namespaces of the shapes: each
    namespace has its turn, so that no tenant's ports cost another's.
    """
    order = _in_turns(waiting, whose)
    shapes: PortIndex[int] = PortIndex()
    for shape, ports in placed.items():
        if shape not in waiting:
            shapes.add(shape, ports)
    kept, looks = list[int](), 0
    for shape in order:
        more = sum(
            _looks(shapes.at(number), pods.at(number), ips) - _looks(shapes.at(number), pods.at(number), ())
            for number, ips in _by_number(waiting[shape]).items()
        )
        if looks + more <= MOST_LOOKS:
            shapes.add(shape, waiting[shape])
            looks += more
            kept.append(shape)
    while True:
        columns = _columns({shape: waiting[shape] for shape in kept}, shapes, pods, holders)
        if len(columns) * max(rows, 1) <= MOST_AMOUNTS or not kept:
            return columns, frozenset(order).difference(kept)
        for shape in kept[len(kept) // 2 :]:
            shapes.remove(shape, waiting[shape])
        del kept[len(kept) // 2 :]


def _in_turns(waiting: Mapping[int, tuple[Port, ...]], whose: Mapping[int, Collection[str]]) -> list[int]:
    """One shape of each namespace at a time, those with few ports first."""
    ranks = Counter[str]()
    line: list[tuple[int, int, int]] = []
    for shape in sorted(waiting, key=lambda shape: (len(waiting[shape]), shape)):
        line.append((min((ranks[namespace] for namespace in whose[shape]), default=0), len(waiting[shape]), shape))
        ranks.update(whose[shape])
    return [shape for _, _, shape in sorted(line)]


def _looks(shapes: _Takers[int], pods: _Takers[T], more: Collection[str]) -> int:
    """How much work a port is, at most, when one more shape takes it on these IPs; nothing when no shape takes it."""
    if not shapes.ips_of and not more:
        return 0
    ips = len(shapes.ips) + sum(ip not in shapes.ips for ip in more) + len(pods.ips) + 1
    everywhere = shapes.ips[""] + pods.ips[""] + ("" in more) + 1
    return ips * everywhere + shapes.ips.total() + pods.ips.total() + len(more)


def _columns(
    waiting: Mapping[int, tuple[Port, ...]],
    shapes: PortIndex[int],
    pods: PortIndex[T],
    holders: Mapping[T, Holder],
) -> list[Column]:
    """One column for all ports that the same shapes and pods take; none for a port that no waiting shape takes."""
    alike: dict[tuple[tuple[int, ...], tuple[Holder, ...]], list[Port]] = {}
    for number in sorted({port[1:] for ports in waiting.values() for port in ports}):
        asking, holding = shapes.at(number), pods.at(number)
        ips = {*asking.ips, *holding.ips, ""}
        by_shapes, by_pods = asking.by_ip(ips), holding.by_ip(ips)
        for ip in sorted(ips):
            some = tuple(sorted(by_shapes[ip]))
            if not waiting.keys().isdisjoint(some):
                held = tuple(sorted(holders[pod] for pod in by_pods[ip] if pod in holders))
                alike.setdefault((some, held), []).append((ip, *number))
    return sorted(Column(_named(ports), *takers) for takers, ports in alike.items())


def _named(ports: list[Port]) -> str:
    ip, protocol, number = ports[0]
    more = f" and {len(ports) - 1:,} more" if len(ports) > 1 else ""
    return f"{HOST_PORT}{number}/{protocol} on {ip or 'any IP'}{more}"
