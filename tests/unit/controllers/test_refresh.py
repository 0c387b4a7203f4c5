"""What is read before an eviction meets what the watch has shown: the list is the truth of its version and no more."""

import pytest
from msgspec import structs

from muster.api.cluster import Pod, PodSpec
from muster.api.model import Metadata
from muster.controllers.scheduler import Scheduler
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
    scheduler.reading()
    scheduler.see(pod("new", 25))
    scheduler.refresh("default", [pod("old", 10)], "20")
    assert names(scheduler) == {"old", "new"}


def test_a_pod_that_went_after_the_list_does_not_come_back(scheduler):
    """It would hold its room for ever."""
    scheduler.reading()
    scheduler.see(pod("old", 25), deleted=True)
    scheduler.refresh("default", [pod("old", 10)], "20")
    assert names(scheduler) == set()


def test_a_state_that_was_seen_after_the_list_stays(scheduler):
    scheduler.reading()
    scheduler.see(pod("old", 25, node="n"))
    scheduler.refresh("default", [pod("old", 10)], "20")
    assert scheduler.world.pods["default", "old"].pod.spec.node_name == "n"


def test_a_successor_that_came_after_the_list_stays(scheduler):
    """The list has its predecessor of the same name."""
    scheduler.reading()
    scheduler.see(pod("old", 25), deleted=True)
    scheduler.see(pod("old", 26, uid="second"))
    scheduler.refresh("default", [pod("old", 10)], "20")
    assert scheduler.world.pods["default", "old"].pod.metadata.uid == "second"


def test_what_the_list_knows_better_counts(scheduler):
    """Pods that are gone, that are new, and that have changed, of which the watch has not told yet."""
    scheduler.see(pod("gone", 11))
    scheduler.reading()
    failed = pod("old", 15)
    failed = structs.replace(failed, status=structs.replace(failed.status, phase="Failed"))
    scheduler.refresh("default", [failed, pod("new", 16)], "20")
    assert names(scheduler) == {"old", "new"}
    assert scheduler.world.pods["default", "old"].state is State.FAILED


def test_who_went_before_the_list_may_come_back(scheduler):
    """Only what is seen while the list is under way is kept in mind."""
    scheduler.see(pod("old", 12), deleted=True)
    scheduler.reading()
    scheduler.refresh("default", [pod("old", 14, uid="old")], "20")
    assert names(scheduler) == {"old"}
