"""Dependents follow their owners, namespaces end with their content, kinds end with their objects."""

import json
from typing import Any

import pytest

from fidelity.custom import definition
from muster.embedded import defining, garbage
from muster.embedded.core import Core, Target
from muster.embedded.deleting import Deletion
from muster.embedded.exchange import Answer, Request
from muster.embedded.objects import with_metadata
from muster.embedded.store import DELETED, Change, Key, Unwritten
from unit.embedded.cluster import JOBS, MERGE, PODS, Cluster, job, pod

MAPS = "/api/v1/namespaces/default/configmaps"
NODES, SPACES = "/api/v1/nodes", "/api/v1/namespaces"


def owned(name: str, *owners: dict[str, Any], **more: Any) -> dict[str, Any]:
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": one["metadata"]["name"],
            "uid": one["metadata"]["uid"],
            **more,
        }
        for one in owners
    ]
    return {"metadata": {"name": name, "ownerReferences": references}}


def names(cluster: Cluster) -> set[str]:
    return {one["metadata"]["name"] for one in cluster("GET", MAPS)["items"]}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_a_dependent_goes_with_its_last_owner(cluster: Cluster) -> None:
    one, two = (cluster.create(MAPS, {"metadata": {"name": name}}) for name in ("one", "two"))
    cluster.create(MAPS, owned("both", one, two))
    cluster.create(MAPS, owned("below", cluster("GET", f"{MAPS}/both")))
    cluster("DELETE", f"{MAPS}/one")
    assert names(cluster) == {"two", "both", "below"}
    kept = cluster("GET", f"{MAPS}/both")["metadata"]["ownerReferences"]
    assert [reference["name"] for reference in kept] == ["two"]
    cluster("DELETE", f"{MAPS}/two")
    assert names(cluster) == set()


def test_a_dependent_of_nobody_goes_at_once(cluster: Cluster) -> None:
    ghost = {"metadata": {"name": "ghost", "uid": "11111111-2222-3333-4444-555555555555"}}
    cluster.create(MAPS, owned("late", ghost))
    assert names(cluster) == set()


def test_a_dependent_of_a_kind_that_nobody_serves_stays(cluster: Cluster) -> None:
    body = owned("kept", {"metadata": {"name": "x", "uid": "11111111-2222-3333-4444-555555555555"}})
    body["metadata"]["ownerReferences"][0]["apiVersion"] = "elsewhere.example.com/v1"
    cluster.create(MAPS, body)
    assert names(cluster) == {"kept"}


def test_orphans_stay_without_their_owner(cluster: Cluster) -> None:
    one = cluster.create(MAPS, {"metadata": {"name": "one"}})
    cluster.create(MAPS, owned("child", one))
    cluster("DELETE", f"{MAPS}/one", {"propagationPolicy": "Orphan"})
    assert names(cluster) == {"child"}
    assert "ownerReferences" not in cluster("GET", f"{MAPS}/child")["metadata"]


def test_one_that_owns_itself_is_an_orphan_of_its_own(cluster: Cluster) -> None:
    one = cluster.create(MAPS, {"metadata": {"name": "one", "finalizers": ["example.com/hold"]}})
    references = owned("one", one)["metadata"]["ownerReferences"]
    cluster("PATCH", f"{MAPS}/one", {"metadata": {"ownerReferences": references}}, MERGE)
    assert cluster("DELETE", f"{MAPS}/one", {"propagationPolicy": "Orphan"})["_code"] == 200
    left = cluster("GET", f"{MAPS}/one")["metadata"]
    assert (left["finalizers"], left.get("ownerReferences")) == (["example.com/hold"], None)
    cluster("PATCH", f"{MAPS}/one", {"metadata": {"finalizers": None}}, MERGE)
    assert names(cluster) == set()


def test_an_owner_in_the_foreground_waits_for_dependents_that_block(cluster: Cluster) -> None:
    one = cluster.create(MAPS, {"metadata": {"name": "one"}})
    body = owned("child", one, blockOwnerDeletion=True)
    body["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.create(MAPS, body)
    cluster("DELETE", f"{MAPS}/one", {"propagationPolicy": "Foreground"})
    assert names(cluster) == {"one", "child"}
    assert cluster("GET", f"{MAPS}/child")["metadata"]["deletionTimestamp"]
    cluster("PATCH", f"{MAPS}/child", {"metadata": {"finalizers": None}}, MERGE)
    assert names(cluster) == set()


def test_pods_go_with_their_job_after_their_grace(cluster: Cluster) -> None:
    cluster.create("/api/v1/nodes", {"metadata": {"name": "n"}})
    cluster.create(JOBS, job("j", parallelism=2))
    cluster.bind_all()
    cluster("DELETE", f"{JOBS}/j", {"propagationPolicy": "Background"})
    assert all(one["metadata"]["deletionTimestamp"] for one in cluster.pods().values())
    cluster.after(31)
    assert cluster("GET", PODS)["items"] == []


def test_a_namespace_ends_when_its_content_is_gone(cluster: Cluster) -> None:
    cluster.create("/api/v1/namespaces", {"metadata": {"name": "team"}})
    maps = "/api/v1/namespaces/team/configmaps"
    cluster.create(maps, {"metadata": {"name": "free"}})
    cluster.create(maps, {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}})
    assert cluster("DELETE", "/api/v1/namespaces/team")["status"]["phase"] == "Terminating"
    assert [one["metadata"]["name"] for one in cluster("GET", maps)["items"]] == ["held"]
    assert cluster("DELETE", "/api/v1/namespaces/team")["_code"] == 409
    cluster("PATCH", f"{maps}/held", {"metadata": {"finalizers": None}}, MERGE)
    assert cluster("GET", "/api/v1/namespaces/team")["_code"] == 404


def test_objects_go_with_the_definition_of_their_kind(cluster: Cluster) -> None:
    made = definition()
    made["metadata"]["name"] = "things.example.com"
    made["spec"]["group"] = "example.com"
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    things = "/apis/example.com/v1/namespaces/default/things"
    cluster.create(path, made)
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"size": 1}}
    cluster.create(things, thing)
    cluster("DELETE", f"{path}/things.example.com")
    assert cluster.server.core.store.list("things.example.com").items == []
    cluster.create(path, made)
    assert cluster("GET", things)["items"] == []


THINGS_API = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"


def things(group: str = "example.com") -> dict[str, Any]:
    found = json.loads(json.dumps(definition()).replace("{ns}.example.com", group))
    assert isinstance(found, dict)
    return found


def of_thing(name: str, uid: str) -> dict[str, Any]:
    reference = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": uid}
    return {"metadata": {"name": name, "ownerReferences": [reference]}}


def thing() -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"size": 1}}


def test_owners_of_custom_kinds_are_known_again_after_a_restart(cluster: Cluster) -> None:
    cluster.create(THINGS_API, things())
    made = cluster.create(THINGS, thing())
    cluster.create(MAPS, of_thing("kept", made["metadata"]["uid"]))
    again = Cluster(store=cluster.server.core.store.copy())
    again("PATCH", f"{MAPS}/kept", {"data": {"a": "b"}}, MERGE)
    assert names(again) == {"kept"}
    again("DELETE", f"{THINGS}/t")
    assert names(again) == set()


def test_who_has_an_owner_of_a_kind_that_nobody_knew_goes_when_it_is_known(cluster: Cluster) -> None:
    """As soon as the kind is served, it can be seen that the owner is not there."""
    cluster.create(MAPS, of_thing("late", "11111111-2222-3333-4444-555555555555"))
    assert names(cluster) == {"late"}
    cluster.create(THINGS_API, things())
    assert names(cluster) == set()


def test_who_waits_for_dependents_goes_when_the_last_of_them_has_gone(cluster: Cluster) -> None:
    """Also when that one takes its time."""
    owner = cluster.create(MAPS, {"metadata": {"name": "owner"}})
    held = owned("held", owner, blockOwnerDeletion=True)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.create(MAPS, held)
    cluster("DELETE", f"{MAPS}/owner", {"propagationPolicy": "Foreground"})
    assert names(cluster) == {"owner", "held"}
    cluster("PATCH", f"{MAPS}/held", {"metadata": {"finalizers": None}}, MERGE)
    assert names(cluster) == set()


def test_what_could_not_be_collected_stays_due(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full for a while costs nothing but time; what was asked for was done."""
    owner = cluster.create(MAPS, {"metadata": {"name": "owner"}})
    for name in ("a", "b"):
        cluster.create(MAPS, owned(name, owner))
    persist, left = cluster.server.core.store._persist, [1]

    def full(change: Any) -> None:
        if not left:
            raise Unwritten("full")
        left.pop()

    monkeypatch.setattr(cluster.server.core.store, "_persist", full)
    assert cluster("DELETE", f"{MAPS}/owner")["_code"] == 200
    assert names(cluster) == {"a", "b"}
    with pytest.raises(Unwritten):
        cluster.server.settle()
    monkeypatch.setattr(cluster.server.core.store, "_persist", persist)
    cluster.server.settle()
    assert names(cluster) == set()


def test_the_last_finalizer_goes_with_its_object_in_one_write(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch sees the object as it was; when the disk is full, nothing happened, and the next try does it."""
    cluster.create(MAPS, {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}})
    leaving = cluster("DELETE", f"{MAPS}/held")["metadata"]
    store = cluster.server.core.store
    watch = cluster.server.watch(Request("GET", MAPS, {"watch": "true", "resourceVersion": str(store.revision)}))
    assert not isinstance(watch, Answer)

    def full(change: Change) -> None:
        assert change.type == DELETED
        raise Unwritten("full")

    with monkeypatch.context() as patched:
        patched.setattr(store, "_persist", full)
        assert cluster("PATCH", f"{MAPS}/held", {"metadata": {"finalizers": None}}, MERGE)["_code"] == 500
    assert cluster("GET", f"{MAPS}/held")["metadata"] == leaving
    said = cluster("PATCH", f"{MAPS}/held", {"metadata": {"finalizers": None}}, MERGE)
    assert (said["_code"], said["metadata"].get("finalizers")) == (200, None)
    assert said["metadata"]["resourceVersion"] == leaving["resourceVersion"]
    assert cluster("GET", f"{MAPS}/held")["_code"] == 404
    (event,) = (json.loads(line) for line in watch.read())
    assert (event["type"], event["object"]["metadata"]["finalizers"]) == ("DELETED", ["example.com/hold"])
    assert event["object"]["metadata"]["resourceVersion"] == str(store.revision)


def test_what_nothing_holds_any_more_goes_with_the_next_write_also_one_that_changes_nothing(cluster: Cluster) -> None:
    """Files of before have such objects: the finalizer was written off, and then the disk was full."""
    cluster.create(MAPS, {"metadata": {"name": "left", "finalizers": ["example.com/hold"]}})
    cluster("DELETE", f"{MAPS}/left")
    store, key = cluster.server.core.store, Key("configmaps", "default", "left")
    store.replace(key, with_metadata(store.get(key) or {}, finalizers=None), None)
    assert cluster("PATCH", f"{MAPS}/left?dryRun=All", {}, MERGE)["_code"] == 200
    assert names(cluster) == {"left"}
    assert cluster("PATCH", f"{MAPS}/left", {}, MERGE)["_code"] == 200
    assert names(cluster) == set()


def test_a_definition_with_a_finalizer_of_its_own_stays_and_its_kind_with_it(cluster: Cluster) -> None:
    made = things()
    made["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.create(THINGS_API, made)
    cluster.create(THINGS, thing())
    place = f"{THINGS_API}/things.example.com"
    cluster("DELETE", place)
    found = cluster("GET", place)
    assert found["metadata"]["finalizers"] == ["example.com/hold"]
    assert [one["reason"] for one in found["status"]["conditions"]][-1] == "InstanceDeletionCompleted"
    assert cluster("GET", THINGS)["items"] == []
    cluster("PATCH", place, {"metadata": {"finalizers": None}}, MERGE)
    assert cluster("GET", place)["_code"] == 404


def test_one_that_cant_be_collected_keeps_nobody_else_waiting(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither who asks, nor other namespaces, nor kubelet and controllers; whoever settles is told of the defect."""
    cluster.create(NODES, {"metadata": {"name": "n"}})
    for space in ("a", "b"):
        cluster.create(SPACES, {"metadata": {"name": space}})
        for name in ("bad", "good"):
            cluster.create(f"/api/v1/namespaces/{space}/configmaps", {"metadata": {"name": f"{space}-{name}"}})
    delete = garbage.delete

    def fails(core: Core, target: Target, deletion: Deletion) -> Any:
        if target.name == "a-bad":
            raise ValueError("year 33715 is out of range")
        return delete(core, target, deletion)

    monkeypatch.setattr(garbage, "delete", fails)
    for space in ("a", "b"):
        assert cluster("DELETE", f"{SPACES}/{space}")["_code"] == 200
    cluster.create(PODS, pod("p"))
    cluster.bind("p")
    with pytest.raises(ValueError, match="33715"):
        cluster.after(1)
    assert cluster.phases() == {"p": "Running"}
    assert cluster("GET", f"{SPACES}/b")["_code"] == 404
    left = cluster("GET", "/api/v1/namespaces/a/configmaps")["items"]
    assert [one["metadata"]["name"] for one in left] == ["a-bad"]
    monkeypatch.setattr(garbage, "delete", delete)
    cluster.after(1)
    assert cluster("GET", f"{SPACES}/a")["_code"] == 404


def test_a_namespace_ends_however_much_is_in_it(cluster: Cluster) -> None:
    """More than happens in one turn, in two namespaces at once."""
    for space in ("a", "b"):
        cluster.create(SPACES, {"metadata": {"name": space}})
        for number in range(garbage.MOST_WRITES + 30):
            cluster.create(f"{SPACES}/{space}/configmaps", {"metadata": {"name": f"c{number}"}})
    for space in ("a", "b"):
        assert cluster("DELETE", f"{SPACES}/{space}")["_code"] == 200
    for _ in range(4):
        cluster.server.settle()
    assert cluster.server.is_settled
    assert [cluster("GET", f"{SPACES}/{space}")["_code"] for space in ("a", "b")] == [404, 404]


def test_a_definition_ends_with_however_many_objects_a_turn_at_a_time(cluster: Cluster) -> None:
    cluster.create(THINGS_API, things())
    for number in range(2 * garbage.MOST_WRITES + 30):
        cluster.create(THINGS, {**thing(), "metadata": {"name": f"t{number}"}})
    place = f"{THINGS_API}/things.example.com"
    assert cluster("DELETE", place)["_code"] == 200
    left = [len(cluster("GET", THINGS)["items"])]
    while not cluster.server.is_settled:
        cluster.server.settle()
        left.append(len(cluster.server.core.store.list("things.example.com").items))
        assert left[-1] < left[-2] <= left[-1] + garbage.MOST_WRITES
    assert left[-1] == 0
    assert cluster("GET", place)["_code"] == 404


def test_a_namespace_that_somebody_holds_comes_to_rest(cluster: Cluster) -> None:
    cluster.create(SPACES, {"metadata": {"name": "a", "finalizers": ["example.com/hold"]}})
    cluster("DELETE", f"{SPACES}/a")
    version = cluster("GET", f"{SPACES}/a")["metadata"]["resourceVersion"]
    assert cluster.server.is_settled
    cluster.after(1)
    assert cluster("GET", f"{SPACES}/a")["metadata"]["resourceVersion"] == version


def test_a_definition_that_cant_be_taken_in_keeps_nobody_else_waiting(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever settles is told of the defect, until it is gone."""
    establish = defining.establish

    def fails(core: Core, one: dict[str, Any]) -> dict[str, Any]:
        if one["spec"]["group"] == "bad.example.com":
            raise Unwritten("no space left")
        return establish(core, one)

    def conditions(which: str) -> list[str]:
        status = cluster("GET", f"{THINGS_API}/things.{which}.example.com").get("status") or {}
        return [one["type"] for one in status.get("conditions") or ()]

    monkeypatch.setattr(defining, "establish", fails)
    for group in ("bad.example.com", "good.example.com"):
        cluster.create(THINGS_API, things(group))
    cluster.create(SPACES, {"metadata": {"name": "leaves"}})
    cluster("DELETE", f"{SPACES}/leaves")
    with pytest.raises(Unwritten, match="no space left"):
        cluster.server.settle()
    assert cluster("GET", f"{SPACES}/leaves")["_code"] == 404
    assert cluster("GET", "/apis/good.example.com/v1/things")["items"] == []
    assert conditions("bad") == []
    assert conditions("good") == ["NamesAccepted", "Established"]
    monkeypatch.setattr(defining, "establish", establish)
    cluster.server.settle()
    assert cluster.server.is_settled
    assert conditions("bad") == ["NamesAccepted", "Established"]


@pytest.mark.parametrize("grace", [999_999_999_999, 2**63 - 1])
def test_who_has_a_grace_of_ages_leaves_no_earlier_than_a_time_can_say(cluster: Cluster, grace: int) -> None:
    cluster.create(NODES, {"metadata": {"name": "n"}})
    long = pod("long")
    long["spec"]["terminationGracePeriodSeconds"] = grace
    cluster.create(PODS, long)
    cluster.create(PODS, pod("asked"))
    cluster.bind_all()
    cluster.after(1)
    for name, body in (("long", None), ("asked", {"gracePeriodSeconds": grace})):
        gone = cluster("DELETE", f"{PODS}/{name}", body)
        assert (gone["_code"], gone["metadata"]["deletionTimestamp"]) == (200, "9999-12-31T23:59:59Z")
    cluster.after(1)
    assert cluster("DELETE", f"{PODS}/long", {"gracePeriodSeconds": 0})["_code"] == 200
