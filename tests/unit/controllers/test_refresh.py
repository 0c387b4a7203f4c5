"""What is read before an eviction meets what the watch has shown: the list is the truth of its version and no more."""

import pytest
from msgspec import structs

from muster.api.cluster import Pod, PodSpec
from muster.api.model import Metadata
from muster.controllers.scheduler import Scheduler
from muster.decisions.orders import EvictOrder
from muster.snapshot.world import State


def pod(name: str, version: int, uid: str = "", node: str = "") -> Pod:
    metadata = Metadata(name=name, namespace="default", uid=uid or name, resource_version=str(version))
    return Pod(metadata=metadata, spec=PodSpec(scheduler_name="kai-scheduler", node_name=node))


@pytest.fixture
def scheduler() -> Scheduler:
    found = Scheduler()
    found.see(pod("old", 10))
    return found


def names(scheduler: Scheduler) -> set[str]:
    return {name for _, name in scheduler.world.pods}


def test_a_pod_that_came_after_the_list_stays(scheduler):
    """The watch has shown it before the answer came; nobody will tell of it again."""
    scheduler.see(pod("new", 25))
    scheduler.refresh("default", [pod("old", 10)], "20")
    assert names(scheduler) == {"old", "new"}


def test_a_pod_that_went_after_the_list_does_not_come_back(scheduler):
    """It would hold its room for ever."""
    scheduler.see(pod("old", 25), deleted=True)
    scheduler.refresh("default", [pod("old", 10)], "20")
    assert names(scheduler) == set()


def test_a_state_that_was_seen_after_the_list_stays(scheduler):
    scheduler.see(pod("old", 25, node="n"))
    scheduler.refresh("default", [pod("old", 10)], "20")
    assert scheduler.world.pods["default", "old"].pod.spec.node_name == "n"


def test_a_successor_that_came_after_the_list_stays(scheduler):
    """The list has its predecessor of the same name."""
    scheduler.see(pod("old", 25), deleted=True)
    scheduler.see(pod("old", 26, uid="second"))
    scheduler.refresh("default", [pod("old", 10)], "20")
    assert scheduler.world.pods["default", "old"].pod.metadata.uid == "second"


def test_what_the_list_knows_better_counts(scheduler):
    """Pods that are gone, that are new, and that have changed, of which the watch has not told yet."""
    scheduler.see(pod("gone", 11))
    failed = pod("old", 15)
    failed = structs.replace(failed, status=structs.replace(failed.status, phase="Failed"))
    scheduler.refresh("default", [failed, pod("new", 16)], "20")
    assert names(scheduler) == {"old", "new"}
    assert scheduler.world.pods["default", "old"].state is State.FAILED


def test_another_one_of_that_name_may_come(scheduler):
    scheduler.see(pod("old", 12), deleted=True)
    scheduler.refresh("default", [pod("old", 14, uid="another")], "20")
    assert names(scheduler) == {"old"}


@pytest.mark.parametrize("learned", ["seen", "listed", "read"])
def test_who_is_gone_is_not_brought_back_by_what_is_told_late(scheduler, learned):
    """Found by the simulation (seed 9811): a pod that was evicted was read, and not found; then a watch that was late
    showed it as it had been, and the rest of its gang was bound beside it.
    """
    uid = pod("old", 10).metadata.uid
    if learned == "seen":
        scheduler.see(pod("old", 12), deleted=True)
    elif learned == "listed":
        scheduler.refresh("default", [], "20")
    else:
        scheduler.sent([EvictOrder(("default", "g"), ("default", "old"), uid, "stale", None)], 0)
        scheduler.flights.answered(("default", "old"), uid, 0)
        scheduler.read(("default", "old"), uid, None, 1)
    assert names(scheduler) == set()
    scheduler.see(pod("old", 11))
    assert names(scheduler) == set()
    scheduler.replace(Pod, [pod("old", 5)], anew=True)
    assert names(scheduler) == {"old"}, "what was restored is believed"


def test_a_list_that_is_older_than_what_was_read_makes_nobody_gone_for_good(scheduler):
    scheduler.refresh("default", [pod("old", 10), pod("new", 25)], "30")
    scheduler.replace(Pod, [pod("old", 10)])
    assert names(scheduler) == {"old"}
    scheduler.see(pod("new", 25))
    assert names(scheduler) == {"old", "new"}


def test_what_is_remembered_of_those_that_are_gone_has_an_end(scheduler, monkeypatch):
    monkeypatch.setattr("muster.controllers.scheduler._MOST_GONE", 3)
    for number in range(10):
        scheduler.see(pod(f"p-{number}", number), deleted=True)
    assert len(scheduler._gone) == 3
