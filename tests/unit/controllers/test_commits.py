"""What the grouper has written and not seen yet: until a sight shows it, or shows that it is over."""

import json

import msgspec
import pytest

from muster.api.cluster import Pod
from muster.controllers.commits import Commits
from muster.errors import Conflict
from muster.grouping.grouper import Assignment, Grouping, Made
from muster.snapshot.world import World
from unit.controllers.workshop import alone
from unit.kube.playing import Played, VirtualClock, answer, playing, virtually

P, GANG, OTHER = ("default", "p"), ("default", "g"), ("default", "other")


def pod(version, gang="", uid="u"):
    found = alone("p", notes={"pod-group-name": gang} if gang else {})
    found["metadata"].update(uid=uid, resourceVersion=str(version))
    return msgspec.convert(found, Pod)


class Desk:
    """Commits over a world with one pod, and a server that answers with version 10; `meanwhile` comes first."""

    def __init__(self, meanwhile=lambda: None):
        self.world, self.settled, self.failures, self.bodies = World(), [], [], []
        self.world.apply(pod(5))
        self._meanwhile = meanwhile
        client = playing(Played(self._answer), VirtualClock())
        self.commits = Commits(client, self.world, self.settled.append, self._failed)

    def _failed(self, what, pods, error):
        self.failures.append(error)

    async def _answer(self, request):
        self.bodies.append(json.loads(request.body))
        self._meanwhile()
        return answer({"metadata": {"name": "p", "resourceVersion": "10"}})

    async def mark(self):
        made = Made({"metadata": {"namespace": "default", "name": "g"}}, changed=False)
        await self.commits.write(Grouping((made,), (Assignment("default", "p", "g", ""),), (), (), ()))

    def see(self, found):
        self.world.apply(found)
        return self.commits.see(P, self.world.pods[P])


@pytest.mark.parametrize(
    ("found", "said", "over"),
    [
        (pod(6), None, False),
        (pod(10, "g"), True, True),
        (pod(12, "g"), True, True),
        (pod(12, "elsewhere"), False, True),
        (pod(12), False, True),
        (pod(12, uid="v"), False, True),
    ],
    ids=["from before", "the mark", "the mark later", "another mark", "taken away again", "another of the name"],
)
def test_a_sight_at_or_past_the_write_ends_it_whatever_it_shows(found, said, over):
    async def run():
        desk = Desk()
        await desk.mark()
        assert list(desk.commits.under_way(GANG)) == [P]
        assert list(desk.commits.under_way(OTHER)) == []
        assert desk.see(found) is said
        assert list(desk.commits.under_way(GANG)) == ([] if over else [P])
        assert desk.commits.gang_of(P) == (None if over else GANG)
        assert vars(desk.commits)["_of_gang"].keys() == (set() if over else {GANG})
        # Written again only when it was undone.
        await desk.mark()
        assert len(desk.bodies) == (2 if said is False else 1)

    virtually(run())


def test_a_mark_that_was_undone_before_its_answer_came_is_looked_at_again():
    async def run():
        desk = Desk(lambda: desk.world.apply(pod(12, "elsewhere")))
        await desk.mark()
        assert [type(one) for one in desk.failures] == [Conflict]
        assert list(desk.commits.under_way(GANG)) == []

    virtually(run())


def test_a_pod_that_is_gone_is_forgotten():
    async def run():
        desk = Desk()
        await desk.mark()
        desk.commits.forget(P)
        assert (desk.commits.gang_of(P), list(desk.commits.under_way(GANG))) == (None, [])

    virtually(run())
