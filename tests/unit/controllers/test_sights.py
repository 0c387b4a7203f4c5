"""What is known of watches: listed or not, how old, and each trouble said once."""

import io
import json

import pytest

from muster.controllers.sights import Sights
from muster.errors import Call, Forbidden, NotFound, ServerFault, Unreachable
from muster.kube.watch import Added, Bookmark, Listed, Restarted
from muster.telemetry import Log, Metrics

LIST = Call("list", "pods")
AWAY = Restarted("unreachable", Unreachable(LIST, "can't list pods: connection refused"))
DENIED = Restarted("forbidden", Forbidden(LIST, "can't list pods: user muster may not"))


class Hands:
    """A clock that is set by hand."""

    at_s = 100.0

    def now_s(self):
        return self.at_s


class Seen:
    """Sights of two kinds, and everything that can be told of them."""

    def __init__(self):
        self.clock, self.stream, self.metrics = Hands(), io.StringIO(), Metrics()
        log = Log(self.stream, human=False)
        self.sights = Sights(["pods", "nodes"], log=log, metrics=self.metrics, clock=self.clock)

    def lines(self):
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def said(self):
        return [line["message"] for line in self.lines()]

    def value(self, name, **labels):
        return self.metrics.registry.get_sample_value(f"muster_{name}", labels)


@pytest.fixture
def seen():
    return Seen()


def test_everything_must_be_listed_once(seen):
    assert seen.sights.problem == "not listed yet: nodes, pods"
    seen.sights.take("pods", Listed([], [], "5"))
    seen.sights.take("pods", Restarted("end"))
    assert not seen.sights.is_synced
    assert seen.sights.problem == "not listed yet: nodes"
    seen.sights.take("nodes", Listed([], [], "5"))
    assert seen.sights.is_synced
    assert seen.sights.problem == ""


def test_a_missing_right_is_said_once_with_what_helps_and_again_when_it_is_over(seen):
    for _ in range(50):
        seen.sights.take("pods", DENIED)
    (line,) = seen.lines()
    assert (line["level"], line["resource"], line["error"]) == (
        "warning",
        "pods",
        "can't list pods: user muster may not",
    )
    assert "muster doctor" in line["hint"]
    assert seen.sights.problem == "not listed yet: nodes, pods (can't list pods: user muster may not)"
    seen.sights.take("pods", Listed([], [], "5"))
    seen.sights.take("pods", DENIED)
    assert seen.said() == ["a watch has trouble", "a watch goes on", "a watch has trouble"]
    assert seen.sights.problem == "not listed yet: nodes"


def test_another_trouble_of_the_same_watch_is_said(seen):
    seen.sights.take("pods", DENIED)
    seen.sights.take("pods", Restarted("not-found", NotFound(LIST, "no such kind")))
    seen.sights.take("pods", Restarted("fault", ServerFault(LIST, "broken", "look there")))
    assert [line["hint"] for line in seen.lines()][1:] == [
        "install the definitions: muster crds | kubectl apply --server-side -f -",
        "look there",
    ]


def test_a_server_that_is_away_is_said_once_for_all_watches(seen):
    for _ in range(3):
        seen.sights.take("pods", AWAY)
        seen.sights.take("nodes", AWAY)
    seen.clock.at_s += 40
    seen.sights.answered()
    seen.sights.answered()
    assert seen.said() == ["the API server does not answer", "the API server answers again"]
    assert seen.lines()[0]["error"] == "can't list pods: connection refused"
    assert seen.lines()[1]["after_s"] == 40
    assert "connection refused" in seen.sights.problem


def test_what_is_known_grows_old_until_something_is_heard(seen):
    seen.clock.at_s += 7
    assert seen.value("cache_staleness_seconds", resource="pods") == 7
    seen.sights.take("pods", Bookmark("9"))
    assert seen.value("cache_staleness_seconds", resource="pods") == 0
    seen.clock.at_s += 3
    seen.sights.take("pods", AWAY)
    assert seen.value("cache_staleness_seconds", resource="pods") == 3
    seen.sights.take("pods", Added(None))
    assert seen.value("cache_staleness_seconds", resource="pods") == 0
    assert seen.value("cache_staleness_seconds", resource="nodes") == 10


def test_restarts_are_counted_by_their_cause(seen):
    for change in (Restarted("end"), Restarted("end"), AWAY):
        seen.sights.take("pods", change)
    assert seen.value("watch_restarts_total", resource="pods", cause="end") == 2
    assert seen.value("watch_restarts_total", resource="pods", cause="unreachable") == 1


def test_an_optional_kind_that_may_not_be_read_holds_nothing_up():
    sights = Sights(["pods", "namespaces"], optional=["namespaces"])
    sights.take("namespaces", DENIED)
    assert not sights.is_synced
    sights.take("pods", Listed([], "1", []))
    assert sights.is_synced
    only = Sights(["pods"])
    only.take("pods", DENIED)
    assert not only.is_synced
