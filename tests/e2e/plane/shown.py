"""A look at a control plane: what a scenario expects (`muster.sim.expecting`), and by the oracle what always holds."""

from e2e.plane.recorder import Recorder, key_of
from e2e.plane.world import Document, World
from muster.sim.expecting import Seen, differs
from muster.sim.scenario import Expected
from oracle.gangs import gangs_of
from oracle.problem import GANG, read
from scenarios.carry import first_name


class Shown:
    """A look at the cluster. `before` are the pods as they were when the step began."""

    def __init__(self, world: World, before: list[Document]) -> None:
        self._recorder: Recorder = world.recorder
        self._world = world
        self._before = before
        self.pods = world.objects("Pod")
        self.groups = {one["metadata"]["name"]: one for one in world.objects("PodGroup")}

    def faults(self, expected: Expected) -> list[str]:
        """Everything that differs from what the step expects."""
        nodes, queues, topologies = (self._world.objects(kind) for kind in ("Node", "Queue", "Topology"))
        events = self._world.events() if isinstance(expected.evictions, list) else []
        moved = list(self._recorder.bound), list(self._recorder.evicted)
        return differs(expected, Seen(self.pods, [*self.groups.values()], nodes, queues, topologies, events, *moved))

    def never(self) -> list[str]:
        """What must hold whatever is expected, of the way here and of the state that was settled in (SPEC §11)."""
        wrong = [*self._recorder.faults]
        documents = list(self._world.documents.values())
        alone = [one for one in documents if one["kind"] in ("Node", "Topology")]
        came = {one.pod[1]: one.node for one in self._recorder.bound}
        gone = {key_of(pod)[1] for pod in self._recorder.evicted}
        wrong += [f"{name} is bound and evicted again" for name in sorted(gone & set(came))]
        twice = sorted({first_name(name)[0] for name in gone if first_name(name)[1] > 1})
        wrong += [f"{name} is evicted again and again" for name in twice]
        for name, group in self.groups.items():
            mine = {pod: node for pod, node in came.items() if pod in self._names(name) and pod not in gone}
            waiting = [_unbound(one) if one["metadata"]["name"] in mine else one for one in self.pods]
            if mine:
                # The placement of all that came, as if it was sent at once: room, rules, levels, and the minimum.
                wrong += [f"{name}: {one}" for one in read([*alone, group, *waiting]).faults(mine)]
            (gang,) = gangs_of([*alone, group, *self._before]).values()
            left = {one.name for one in gang.placed} & gone
            wrong += gang.broken_by(left) if left else []
            (gang,) = gangs_of([*alone, group, *self.pods]).values()
            if gang.placed and not gang.met(gang.placed) and (mine or gone & set(self._names(name))):
                wrong.append(f"{name} is left with a part of its minimum")
        return wrong

    def _names(self, gang: str) -> list[str]:
        every = [*self.pods, *self._recorder.evicted]
        return [one["metadata"]["name"] for one in every if one["metadata"].get("annotations", {}).get(GANG) == gang]


def _unbound(pod: Document) -> Document:
    return {**pod, "spec": {key: value for key, value in pod["spec"].items() if key != "nodeName"}}
