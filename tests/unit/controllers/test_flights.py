"""What was sent counts as done, until the watch or the API server says otherwise."""

from datetime import UTC, datetime

import pytest
from msgspec import structs

from muster.api.admitted import Mark, mark_of
from muster.api.cluster import Container, Pod, PodSpec, PodStatus, Resources
from muster.api.model import Metadata
from muster.controllers.flights import Flights
from muster.snapshot.world import State, World

KEY = ("default", "p")
ONE_CORE = Container(resources=Resources(requests={"cpu": 1}))
GONE = datetime(2026, 1, 1, tzinfo=UTC)


def pod(node: str = "", uid: str = "u1", phase: str = "", *, going: bool = False) -> Pod:
    return Pod(
        metadata=Metadata(name="p", uid=uid, deletion_timestamp=GONE if going else None),
        spec=PodSpec(
            scheduler_name="kai-scheduler",
            node_name=node,
            containers=[Container(resources=Resources(requests={"cpu": 1}))],
        ),
        status=PodStatus(phase=phase),
    )


@pytest.fixture
def flown():
    """A pod that is on its way to n1."""
    flights = Flights(World())
    flights.see(pod())
    flights.bind(KEY, "n1", 10)
    return flights


def where(flights: Flights) -> str:
    return flights._world.pods[KEY].pod.spec.node_name


def state(flights: Flights) -> State:
    return flights._world.pods[KEY].state


def test_what_leaves_is_not_on_its_way_to_a_node(flown):
    """Whoever asks which pods are being bound is not told of evictions, also when those are refused later."""
    assert list(flown.unsure()) == [KEY]
    flights = Flights(World())
    flights.see(pod("n1"))
    flights.leave(KEY, 10)
    assert (list(flights.unsure()), list(flights.keys())) == ([], [KEY])


def test_a_bind_that_was_sent_holds_its_room(flown):
    assert (where(flown), state(flown), len(flown)) == ("n1", State.PLACED, 1)


def test_a_bind_that_was_sent_shows_its_mark():
    """Also when the pod is seen again without it, and not any more once the bind is known to have failed."""
    flights = Flights(World())
    flights.see(pod())
    flights.bind(KEY, "n1", 10, "team/g1")
    flights.see(pod())
    assert mark_of(flights._world.pods[KEY].pod) == Mark("team", "g1")
    flights.refused(KEY, "u1")
    assert mark_of(flights._world.pods[KEY].pod) is None


def test_an_older_sight_of_the_pod_does_not_undo_it(flown):
    """Watches are late: a pod without a node may be the pod of before the bind."""
    flown.see(pod(phase="Pending"))
    assert (where(flown), len(flown)) == ("n1", 1)


@pytest.mark.parametrize(
    ("seen", "node", "found"),
    [
        pytest.param(pod("n1"), "n1", State.PLACED, id="as it was sent"),
        pytest.param(pod("n2"), "n2", State.PLACED, id="somebody else was first"),
        pytest.param(pod("", "u2"), "", State.WAITING, id="another pod of that name"),
        pytest.param(pod(phase="Failed"), "", State.FAILED, id="it failed before"),
        pytest.param(pod(going=True), "", State.TERMINATING, id="it is being deleted, and never got there"),
    ],
)
def test_the_watch_ends_a_flight(flown, seen, node, found):
    flown.see(seen)
    assert (where(flown), state(flown), len(flown)) == (node, found, 0)


def test_a_pod_that_is_gone_takes_its_flight_with_it(flown):
    flown.see(pod(), deleted=True)
    assert (len(flown), KEY in flown._world.pods) == (0, False)


def test_a_refusal_gives_the_room_back(flown):
    """The pod is as it was last seen, not as it was sent."""
    flown.see(structs.replace(pod(), status=PodStatus(phase="Pending", reason="new")))
    flown.refused(KEY, "u1")
    assert (where(flown), len(flown)) == ("", 0)
    assert flown._world.pods[KEY].pod.status.reason == "new"


def test_a_yes_is_not_yet_a_sight(flown):
    """The overlay stays until the watch shows the pod, however late."""
    flown.answered(KEY, "u1")
    flown.see(pod())
    assert (where(flown), len(flown)) == ("n1", 1)


def test_a_lost_answer_keeps_the_room_until_the_pod_was_read(flown):
    flown.lost(KEY, "u1")
    assert where(flown) == "n1"
    assert [key for key, _ in flown.doubtful(before_ns=0)] == [KEY]
    flown.read(KEY, "u1", pod())
    assert (where(flown), len(flown)) == ("", 0)


def test_a_lost_answer_may_have_been_a_yes(flown):
    flown.lost(KEY, "u1")
    flown.read(KEY, "u1", pod("n1"))
    assert (where(flown), state(flown), len(flown)) == ("n1", State.PLACED, 0)


def test_a_lost_answer_about_a_pod_that_went(flown):
    flown.lost(KEY, "u1")
    flown.read(KEY, "u1", None)
    assert (len(flown), KEY in flown._world.pods) == (0, False)


def test_who_was_not_seen_for_long_is_read(flown):
    flown.answered(KEY, "u1")
    assert [key for key, _ in flown.doubtful(before_ns=9)] == []
    assert [key for key, _ in flown.doubtful(before_ns=10)] == [KEY]


def test_answers_about_an_earlier_pod_of_that_name_say_nothing(flown):
    for say in (flown.refused, flown.lost, flown.answered):
        say(KEY, "u0")
    flown.read(KEY, "u0", None)
    assert (where(flown), len(flown)) == ("n1", 1)
    assert not list(flown.doubtful(before_ns=0))


def test_an_evicted_pod_is_leaving_at_once():
    flights = Flights(World())
    flights.see(pod("n1"))
    flights.leave(KEY, 10**9)
    assert state(flights) is State.TERMINATING
    flights.see(pod("n1", phase="Running"))
    assert state(flights) is State.TERMINATING
    flights.see(pod("n1", going=True))
    assert (state(flights), len(flights)) == (State.TERMINATING, 0)


def test_an_eviction_that_was_refused_leaves_the_pod_where_it_is():
    flights = Flights(World())
    flights.see(pod("n1"))
    flights.leave(KEY, 10**9)
    flights.refused(KEY, "u1")
    assert (state(flights), len(flights)) == (State.PLACED, 0)


def test_one_write_for_a_pod_at_a_time(flown):
    with pytest.raises(AssertionError):
        flown.leave(KEY, 11)


@pytest.mark.parametrize("is_seen_first", [True, False])
def test_a_pod_that_ended_before_it_was_evicted_is_gone_with_the_yes(is_seen_first):
    """Found by the simulation (seed 7983): its end was seen after the answer to its eviction, and counted for its gang,
    which got the rest of its minimum beside a pod that was not there any more.
    """
    flights = Flights(World())
    flights.see(pod("n1"))
    flights.leave(KEY, 10)
    ended = pod("n1", phase="Succeeded")
    if is_seen_first:
        flights.see(ended)
        assert state(flights) is State.SUCCEEDED
        flights.answered(KEY, "u1", 11)
    else:
        flights.answered(KEY, "u1", 11)
        flights.see(ended)
    assert (KEY in flights._world.pods, KEY in flights) == (False, True)
    flights.see(ended, deleted=True)
    assert (KEY in flights._world.pods, KEY in flights) == (False, False)


def test_a_pod_that_ended_and_may_not_be_evicted_stays_as_it_ended():
    flights = Flights(World())
    flights.see(pod("n1"))
    flights.leave(KEY, 10)
    flights.see(pod("n1", phase="Failed"))
    flights.refused(KEY, "u1")
    assert (state(flights), KEY in flights) == (State.FAILED, False)
