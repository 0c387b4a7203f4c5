"""ResourceInterfaces are told whether they are accepted, once, and one that is not costs nobody else anything."""

import asyncio

from unit.controllers.workshop import (
    WORK,
    at_work,
    condition_of,
    gang_of,
    interface,
    owned,
    played,
    reasons,
    settled,
    spec_of,
    work,
)


@played(WORK)
async def test_an_interface_that_breaks_and_is_mended(server):
    """New workloads wait, gangs that are there stay; the object says why."""
    server.put(interface({"minMemberPath": ".spec.size"}))
    server.put(owned(server.put(work("old", size=2)), "old-0"))
    async with at_work(server) as shop:
        await settled()
        found = condition_of(server, "works")
        assert (found["status"], found["reason"], found["observedGeneration"]) == ("True", "Compiled", 1)
        # That it was told so is no reason to look at everybody again.
        assert shop.looked == ["old-0"] * 2
        shop.since()
        server.put(interface({"minMemberPath": ".spec.size ||"}))
        server.put(owned(server.put(work("new", size=2)), "new-0"))
        await asyncio.sleep(20)
        found = condition_of(server, "works")
        assert (found["status"], found["reason"], found["observedGeneration"]) == ("False", "Invalid", 2)
        assert "minMemberPath" in found["message"]
        assert [write.plural for write in shop.since()] == ["resourceinterfaces"]
        assert gang_of(server, "new-0") == ("", "")
        assert ("Pod new-0", "NotGrouped") in reasons(server)
        server.put(interface({"minMemberPath": ".spec.size"}))
        await settled()
        found = condition_of(server, "works")
        assert (found["status"], found["observedGeneration"]) == ("True", 3)
        assert spec_of(server, "new-0")["minMember"] == 2


@played(WORK)
async def test_an_interface_that_can_not_be_read_costs_nobody_else_anything(server):
    """It is told so, and workloads of the kind that it is meant for wait rather than start alone."""
    server.put(interface({"minMember": 2}, name="fine"))
    broken = interface({"minMember": 2}, name="broken", targetGVK={"group": "y.io", "kind": "Other"})
    broken["spec"]["references"] = "many"
    server.put(broken)
    server.put(owned(server.put(work()), "a"))
    async with at_work(server):
        await settled()
        assert condition_of(server, "fine")["status"] == "True"
        found = condition_of(server, "broken")
        assert (found["status"], found["reason"]) == ("False", "Invalid")
        assert "spec.references" in found["message"]
        assert spec_of(server, "a")["minMember"] == 2


@played(WORK)
async def test_of_two_interfaces_for_one_kind_the_other_is_told(server):
    server.put(interface({"minMember": 2}, name="first"))
    server.put(interface({"minMember": 3}, name="second"))
    async with at_work(server):
        await settled()
        assert condition_of(server, "first")["status"] == "True"
        found = condition_of(server, "second")
        assert (found["status"], found["reason"]) == ("False", "Conflicted")
        assert "first" in found["message"]
        server.remove("resourceinterfaces", "first")
        await settled()
        assert condition_of(server, "second")["status"] == "True"


@played(WORK)
async def test_a_condition_of_somebody_else_stays_and_a_forged_one_does_not(server):
    made = server.put(interface({"minMember": 2}))
    theirs = {
        "type": "Reviewed",
        "status": "True",
        "reason": "R",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    forged = {**theirs, "type": "Accepted", "status": "False"}
    server.put({**made, "status": {"conditions": [theirs, forged]}})
    async with at_work(server):
        await settled()
        conditions = server.read("resourceinterfaces", "works")["status"]["conditions"]
        assert {one["type"]: one["status"] for one in conditions} == {"Reviewed": "True", "Accepted": "True"}


@played(WORK)
async def test_a_condition_that_may_not_be_written_is_tried_again_and_stops_nothing(server):
    server.put(interface({"minMember": 2}))
    server.put(owned(server.put(work()), "a"))
    server.forbidden = {("patch", "resourceinterfaces")}
    async with at_work(server) as shop:
        await asyncio.sleep(300)
        assert spec_of(server, "a")["minMember"] == 2
        tries = [one for one in shop.transport.requests if one.method == "PATCH" and "resourceinterfaces" in one.path]
        assert 2 < len(tries) < 20
        server.forbidden = set()
        await asyncio.sleep(60)
        assert condition_of(server, "works")["status"] == "True"


@played(WORK)
async def test_a_condition_that_can_not_be_written_holds_up_no_other(server):
    server.stuck = {"a"}
    server.put(interface({"minMember": 2}, name="a"))
    async with at_work(server):
        await settled()
        server.put(interface({"minMember": 2}, name="b", targetGVK={"group": "x.io", "kind": "Other"}))
        await settled()
        assert condition_of(server, "b")["status"] == "True"
        assert "status" not in server.read("resourceinterfaces", "a")
