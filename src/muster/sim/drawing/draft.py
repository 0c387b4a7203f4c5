"""A story while it is drawn."""

from dataclasses import dataclass, field

from muster.sim.objects import Budget, Document, Nodes, Pods, QueueEntry, names
from muster.sim.story import Fault, Happening, Story, Workload


@dataclass
class Draft:
    """What is drawn so far. `harshness` is between 0 and 1: how much goes wrong."""

    seed: int
    harshness: float = 0.5
    lasts: float = 120.0
    theme: str = ""
    topologies: dict[str, list[str]] = field(default_factory=dict)
    nodes: list[Nodes] = field(default_factory=list)
    queues: dict[str, QueueEntry] = field(default_factory=dict)
    # Queues that gangs may be in; without any, gangs name none.
    leaves: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    namespaces: list[str] = field(default_factory=lambda: ["default"])
    workloads: dict[str, Workload] = field(default_factory=dict)
    arrives: dict[str, float] = field(default_factory=dict)
    foreign: list[Pods] = field(default_factory=list)
    budgets: dict[str, Budget] = field(default_factory=dict)
    documents: list[Document] = field(default_factory=list)
    happens: list[Happening] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    processes: int = 1
    elects: bool = False
    lost_after: float = 20.0
    latency: float = 0.002

    @property
    def node_names(self) -> list[str]:
        """All nodes."""
        return [name for some in self.nodes for name in names(some.name, some.count)]

    @property
    def levels(self) -> list[str]:
        """The levels of the first topology, widest first."""
        return next(iter(self.topologies.values()))

    @property
    def charge(self) -> str:
        """What is scarce here: gpus, or cpus where there are none."""
        return "gpus" if any(some.gpus for some in self.nodes) else "cpus"

    def amount(self, nodes: list[Nodes] | None = None) -> int:
        """How much of what is scarce there is, of all nodes or of these."""
        return sum(getattr(some, self.charge) * (some.count or 1) for some in (self.nodes if nodes is None else nodes))

    def domain(self) -> int:
        """How much of it a usual domain of the narrowest level has."""
        by_name: dict[tuple[str | None, ...], int] = {}
        for some in self.nodes:
            path = (some.zone, some.block, some.rack)
            by_name[path] = by_name.get(path, 0) + self.amount([some])
        return sorted(by_name.values())[len(by_name) // 2]

    def moments(self) -> list[float]:
        """When something begins: arrivals, and all that happens so far."""
        return [*self.arrives.values(), *(one.at for one in self.happens)]

    def happen(self, at: float, **what: object) -> None:
        """Something happens, if the story is not over by then."""
        if at < self.lasts:
            self.happens.append(Happening(at=round(at, 3), **what))  # type: ignore[arg-type]

    def calm(self) -> float:
        """How long it may take to come to rest: those who wait for others that end by themselves take their turns."""
        ends = sum((one.run_for or 0.0) * (8 if one.exit else 2) for one in self.workloads.values())
        return 300.0 + round(ends)

    def story(self) -> Story:
        """The story as it was drawn."""
        arrivals = [
            Happening(at=at, workloads={name: self.workloads[name]}) for name, at in self.arrives.items() if at > 0
        ]
        return Story(
            why=self.theme,
            seed=self.seed,
            lasts=self.lasts,
            calm=self.calm(),
            processes=self.processes,
            elects=self.elects,
            lost_after=self.lost_after,
            latency=self.latency,
            topologies=self.topologies,
            nodes=self.nodes,
            queues=self.queues,
            pods=self.foreign,
            budgets=self.budgets,
            documents=self.documents,
            workloads={name: self.workloads[name] for name, at in self.arrives.items() if at <= 0},
            happens=sorted([*arrivals, *self.happens], key=lambda one: one.at),
            faults=self.faults,
        )
