"""Scenes of small worlds, one cycle after the other, and what a browser does with frames and deltas."""

import copy
import json

from muster.api.kinds import kind_of, read_object
from muster.plan.cycle import Memory, Policy, schedule
from muster.serve.views.frame import Source
from muster.serve.views.scene import scene_of
from muster.snapshot.build import Builder
from muster.snapshot.world import World, key_of

HERE = Source("file", "a test")
_S = 10**9
# The first moment of all stories here.
BEGIN_S = 1_767_225_600


class Stage:
    """A world that documents come to and go from, and the scene of every cycle."""

    def __init__(self, *documents, **policy):
        self.world = World()
        self._builder, self._memory, self._policy = Builder(self.world), Memory(), Policy(**policy)
        self.now_s, self.scene = BEGIN_S, None
        self.apply(*documents)

    def apply(self, *documents):
        for document in documents:
            self._take(document)

    def delete(self, *documents):
        for document in documents:
            self._take(document, deleted=True)

    def _take(self, document, **how):
        found, problems = read_object(document, kind_of(document))
        assert not problems, problems
        self.world.apply(found, **how)

    def cycle(self, *, seconds=1, decision="d", **how):
        """The next scene."""
        self.now_s += seconds
        plan, self._memory = schedule(self._builder.build(self.now_s * _S), self._policy, self._memory)
        self.scene = scene_of(plan, self.world, decision=decision, before=self.scene, **how)
        return self.scene

    def pods(self):
        return {key_of(facts.pod.metadata): facts.pod for facts in self.world.pods.values()}


def applied(frame, delta):
    """The frame as a browser has it after a delta."""
    assert frame["version"] == delta["from"]
    frame = copy.deepcopy(frame)
    for name in ("version", "decision", "at", "summary", "topologies", "unit"):
        if name in delta:
            frame[name] = copy.deepcopy(delta[name])
    for part in ("nodes", "gangs", "queues"):
        frame[part].update(copy.deepcopy(delta[part]["set"]))
        for name in delta[part]["gone"]:
            frame[part].pop(name, None)
    return frame


def encoded(document):
    return json.dumps(document, sort_keys=True, allow_nan=False)


def pods_of(frame, gang):
    """The pods of a gang by name: where each is, and how."""
    return {(pod[0], pod[4]): pod[1] for pod in frame["gangs"][gang]["pods"]}


def slots_on(frame, node):
    """What the listed pods hold there."""
    return sum(
        pod[3] for gang in frame["gangs"].values() for pod in gang["pods"] if pod[1] == node and pod[4] != "nominated"
    )
