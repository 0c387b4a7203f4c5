"""Owners of any kind: watched from the first question on, in whichever version there is, and told about when they
change.
"""

import asyncio
from contextlib import asynccontextmanager

import pytest

from muster.controllers.dependents import ANY, Dependents, Place, Who
from muster.controllers.followed import Followed
from muster.grouping.owners import Absence, Wanted
from unit.controllers.workshop import Served, Server
from unit.kube.playing import Played, playing, refusal, virtually

WORK = Served("x.io/v1", "Work", "works")
RUNTIME = Served("x.io/v1", "Runtime", "runtimes", namespaced=False)


@asynccontextmanager
async def following(server, answering=None, **options):
    """A lookup at work, and the places that it says have changed."""
    changed = []
    client = playing(Played(answering or server.whole, server.chunks))
    found = Followed(client, lambda _: None, changed.append, **options)
    task = asyncio.ensure_future(found.run())
    try:
        yield found, changed
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def work(name="w", namespace="default", labels=None, **spec):
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": "x.io/v1", "kind": "Work", "metadata": metadata, "spec": spec}


def wanted(name="w", api_version="x.io/v1", kind="Work"):
    return Wanted(api_version, kind, "default", name)


async def answered(found, what):
    """The answer when the kind was asked for a moment ago."""
    found.get(what)
    await asyncio.sleep(1)
    return found.get(what)


def test_nothing_is_watched_before_somebody_asks():
    async def inside():
        server = Server(WORK)
        server.put(work())
        async with following(server) as (found, changed):
            await asyncio.sleep(60)
            assert server.watched == set()
            assert found.get(wanted()) is Absence.NOT_SEEN
            await asyncio.sleep(1)
            assert server.watched == {"works"}
            assert found.get(wanted())["metadata"]["name"] == "w"
            assert changed == [Place("x.io", "Work", ANY, ANY)]

    virtually(inside())


def test_a_change_is_told_with_its_place_and_a_status_is_not():
    async def inside():
        server = Server(WORK)
        server.put(work())
        async with following(server) as (found, changed):
            first = await answered(found, wanted())
            assert found.get(wanted()) is first
            changed.clear()
            server.change("works", "w", {"status": {"ready": 1}})
            await asyncio.sleep(1)
            assert changed == []
            assert found.get(wanted())["status"] == {"ready": 1}
            server.change("works", "w", {"spec": {"size": 2}})
            server.put(work("other", "elsewhere"))
            server.remove("works", "w")
            await asyncio.sleep(1)
            place = Place("x.io", "Work", "default", "w")
            assert changed == [place, Place("x.io", "Work", "elsewhere", "other"), place]
            assert found.get(wanted()) is Absence.NOT_SEEN

    virtually(inside())


def test_objects_of_the_whole_cluster_are_found_from_every_namespace():
    async def inside():
        server = Server(RUNTIME)
        server.put({"apiVersion": "x.io/v1", "kind": "Runtime", "metadata": {"name": "r"}})
        async with following(server) as (found, _):
            assert (await answered(found, wanted("r", kind="Runtime")))["metadata"]["name"] == "r"

    virtually(inside())


def test_a_selection_is_by_labels_in_one_namespace_and_by_name():
    async def inside():
        server = Server(WORK)
        for name, of in (("b", "x"), ("a", "x"), ("c", "y")):
            server.put(work(name, labels={"of": of}))
        server.put(work("d", "elsewhere", labels={"of": "x"}))
        async with following(server) as (found, _):
            await answered(found, wanted())
            names = [one["metadata"]["name"] for one in found.select("x.io/v1", "Work", "default", {"of": "x"})]
            assert names == ["a", "b"]
            assert Place("x.io", "Work", "default", "") in found.asked

    virtually(inside())


def test_another_version_than_the_one_that_was_named_will_do():
    async def inside():
        server = Server(WORK)
        server.put(work())
        async with following(server) as (found, _):
            assert (await answered(found, wanted(api_version="x.io/v1beta1")))["metadata"]["name"] == "w"

    virtually(inside())


def test_a_kind_that_may_not_be_read_and_then_may():
    async def inside():
        server = Server(WORK)
        server.put(work())
        server.forbidden = {("list", "works")}
        async with following(server) as (found, changed):
            assert await answered(found, wanted()) is Absence.FORBIDDEN
            await asyncio.sleep(60)
            assert changed == [Place("x.io", "Work", ANY, ANY)]
            server.forbidden = set()
            await asyncio.sleep(60)
            assert found.get(wanted())["metadata"]["name"] == "w"
            assert changed == [Place("x.io", "Work", ANY, ANY)] * 2

    virtually(inside())


def test_rights_that_were_gone_for_a_moment_close_a_kind_only_for_that_moment():
    """The watch goes on where it stopped, so there is no other list."""

    async def inside():
        server = Server(WORK)
        server.put(work())
        async with following(server) as (found, changed):
            await answered(found, wanted())
            server.forbidden = {("list", "works")}
            server.cut()
            await asyncio.sleep(3)
            assert found.get(wanted()) is Absence.FORBIDDEN
            server.forbidden = set()
            changed.clear()
            await asyncio.sleep(60)
            assert found.get(wanted())["metadata"]["name"] == "w"
            assert changed == [Place("x.io", "Work", ANY, ANY)]

    virtually(inside())


def counted(server):
    """The paths that were asked for."""
    paths = []

    async def answering(request):
        paths.append(request.path)
        return await server.whole(request)

    return paths, answering


def test_kinds_that_somebody_invented_cost_next_to_nothing():
    async def inside():
        server = Server(WORK)
        server.put(work())
        paths, answering = counted(server)
        async with following(server, answering) as (found, _):
            await asyncio.sleep(1)
            tasks = len(asyncio.all_tasks())
            for number in range(1_000):
                found.get(wanted(api_version=f"x{number}.evil.io/v1", kind=f"K{number}"))
                found.get(wanted(api_version="x.io/v1", kind=f"K{number}"))
            await asyncio.sleep(600)
            assert found.get(wanted(api_version="x1.evil.io/v1", kind="K1")) is Absence.FORBIDDEN
            paths.clear()
            await asyncio.sleep(3_600)
            assert len(paths) <= 30
            assert len(asyncio.all_tasks()) == tasks
            assert (await answered(found, wanted()))["metadata"]["name"] == "w"

    virtually(inside())


def test_a_kind_that_may_not_be_read_is_asked_for_ever_more_rarely():
    async def inside():
        server = Server(WORK)
        server.forbidden = {("list", "works")}
        paths, answering = counted(server)
        async with following(server, answering) as (found, _):
            assert await answered(found, wanted()) is Absence.FORBIDDEN
            await asyncio.sleep(3_600)
            assert sum(path.endswith("/works") for path in paths) <= 20

    virtually(inside())


def test_a_kind_that_nobody_needs_any_more_is_watched_no_longer_and_again_when_somebody_asks():
    async def inside():
        server = Server(WORK)
        server.put(work())
        needed = {("x.io", "Work")}
        async with following(server, is_needed=lambda kind: kind in needed) as (found, _):
            await answered(found, wanted())
            tasks = len(asyncio.all_tasks())
            await asyncio.sleep(3_600)
            assert len(asyncio.all_tasks()) == tasks
            needed.clear()
            await asyncio.sleep(30)
            assert len(asyncio.all_tasks()) == tasks - 1
            assert found.get(wanted()) is Absence.NOT_SEEN
            await asyncio.sleep(1)
            assert found.get(wanted())["metadata"]["name"] == "w"

    virtually(inside())


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("v1", "Secret"), ("v1", "ConfigMap"), ("v1", "Node"), ("scheduling.run.ai/v2alpha2", "PodGroup")],
)
def test_owners_that_are_secret_or_watched_anyway_are_known_by_their_reference_alone(api_version, kind):
    async def inside():
        server = Server(Served("v1", "Secret", "secrets"), Served("v1", "ConfigMap", "configmaps"))
        paths, answering = counted(server)
        async with following(server, answering) as (found, _):
            assert found.get(Wanted(api_version, kind, "default", "x", "uid-1")) is Absence.FORBIDDEN
            await asyncio.sleep(60)
            assert (paths, server.watched) == ([], set())
            # What an interface refers to is meant.
            assert found.get(Wanted(api_version, kind, "default", "x")) is Absence.NOT_SEEN

    virtually(inside())


def test_a_kind_that_the_server_does_not_know_is_known_once_it_is_installed():
    """And forgotten when it is taken away, with all of its objects."""

    async def inside():
        server = Server()
        async with following(server) as (found, _):
            assert await answered(found, wanted()) is Absence.FORBIDDEN
            server.kinds["works"] = WORK
            server.put(work())
            await asyncio.sleep(120)
            assert found.get(wanted())["metadata"]["name"] == "w"
            del server.kinds["works"]
            await asyncio.sleep(120)
            assert found.get(wanted()) is Absence.FORBIDDEN

    virtually(inside())


def test_a_server_that_does_not_answer_questions_about_kinds_is_asked_again():
    async def inside():
        server = Server(WORK)
        server.put(work())
        away = True

        async def answering(request):
            return refusal(503, "ServiceUnavailable") if away else await server.whole(request)

        async with following(server, answering) as (found, _):
            assert await answered(found, wanted()) is Absence.NOT_SEEN
            await asyncio.sleep(30)
            away = False
            await asyncio.sleep(60)
            assert found.get(wanted())["metadata"]["name"] == "w"

    virtually(inside())


GANG, POD = Who(True, "default", "g"), Who(False, "default", "p")


def test_who_looked_at_a_place_is_found_from_it_and_nobody_else():
    known = Dependents()
    known.note(GANG, [Place("x.io", "Work", "default", "w")], instead=False)
    known.note(POD, [Place("x.io", "Work", "default", "")], instead=False)
    assert known.of(Place("x.io", "Work", "default", "w")) == {GANG, POD}
    assert known.of(Place("x.io", "Work", "default", "v")) == {POD}
    assert known.of(Place("x.io", "Work", "other", "w")) == set()
    assert known.of(Place("y.io", "Work", "default", "w")) == set()
    # An object of the whole cluster, and a kind as a whole.
    assert known.of(Place("x.io", "Work", "", "w")) == {GANG, POD}
    assert known.of(Place("x.io", "Work", ANY, ANY)) == {GANG, POD}


def test_what_nobody_looks_at_any_more_is_forgotten():
    known = Dependents()
    old, new = Place("x.io", "Work", "default", "old"), Place("x.io", "Work", "default", "new")
    known.note(GANG, [old], instead=False)
    known.note(GANG, [new], instead=False)
    assert known.of(old) == known.of(new) == {GANG}
    known.note(GANG, [new], instead=True)
    assert (known.of(old), known.of(new)) == (set(), {GANG})
    known.forget(GANG)
    assert known.of(Place("x.io", "Work", ANY, ANY)) == set()
    assert len(known) == 0
    assert vars(known) == {"_at": {}, "_by": {}, "_of_kind": {}}
