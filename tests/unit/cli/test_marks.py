"""Who only looks at a cluster, or at a snapshot of one, sees bound pods without a mark as the scheduler does."""

import pytest

from muster.cli.recording import read_recording, record, world_of, written
from muster.model.reasons import Code
from muster.plan.cycle import schedule
from muster.snapshot.build import Builder
from oracle.engine import world_of as world_of_documents
from short_forms import ns
from unit.test_charged import cluster, of


def reasons(world):
    plan, _ = schedule(Builder(world.copy()).build(ns(0)))
    return {reason.code for number in range(len(plan.snapshot.gangs)) for reason in plan.outcomes[number].reasons}


@pytest.mark.parametrize("redact", [True, False], ids=["redacted", "whole"])
@pytest.mark.parametrize("strict", [True, False], ids=["a cluster", "files"])
def test_a_snapshot_replays_with_the_marks(redact, strict):
    """Both what is marked, and whether the rest is believed."""
    documents = cluster()
    for one in of(documents, "Pod", "g")[:2]:
        one["metadata"]["annotations"].pop("muster.dev/admitted")
    world = world_of_documents(documents)
    if strict:
        world.ask_for_marks()
    again = world_of(read_recording(written(record(world, ns(0), {}, redact=redact)), 10**7), ["kai-scheduler"])
    plans = [schedule(Builder(one).build(ns(0)))[0] for one in (world, again)]
    assert plans[0].queues == plans[1].queues
    assert again.asks_for_marks == strict
    assert (Code.NOT_ADMITTED in reasons(again)) == strict


def test_marks_are_asked_for_where_they_are_in_use():
    """A cluster in which no pod has one was never adopted, as far as can be seen."""
    asked = []
    for mark in ("", "q/uid-g"):
        world = world_of_documents(cluster(mark=mark))
        world.ask_for_marks_in_use()
        asked.append(world.asks_for_marks)
    assert asked == [False, True]
