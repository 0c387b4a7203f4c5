"""What no real server is asked: reviews, checks that are handed in, determinism, restarts, paths and limits."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fidelity.custom import definition
from fidelity.play import play
from fidelity.sides import NOW, embedded, fresh
from fidelity.stories import BY_NAME
from muster.embedded.core import Asked, Verdict
from muster.embedded.exchange import Answer, Request
from muster.embedded.journal import Journal
from muster.embedded.reading import Watch
from muster.embedded.refusals import Cause
from muster.embedded.running import keep_running
from muster.embedded.server import MAX_BODY_BYTES, Server
from muster.embedded.store import Store, Unwritten
from muster.telemetry import Log
from unit.embedded.cluster import JOBS, MERGE, PODS, Cluster, pod

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/namespaces/default/things"
MAPS = "/api/v1/namespaces/default/configmaps"


def things(**spec: Any) -> dict[str, Any]:
    made = definition(**spec)
    made["metadata"]["name"] = "things.example.com"
    made["spec"]["group"] = "example.com"
    return made


def thing(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


def test_a_review_may_refuse_and_warn_on_every_kind_of_write() -> None:
    asked = []

    def review(one: Asked) -> Verdict:
        asked.append((one.operation, one.target.name, bool(one.new), bool(one.old), one.user))
        shown = one.new or one.old
        assert shown
        if shown["kind"] != "ConfigMap":
            return Verdict()
        if (shown.get("data") or {}).get("bad"):
            return Verdict(
                "no bad maps", status=422, reason="Invalid", causes=[Cause("FieldValueInvalid", "bad", "data")]
            )
        return Verdict(warnings=["mind the map"])

    cluster = Cluster(reviews=[review])
    asked.clear()
    assert cluster.create(MAPS, {"metadata": {"name": "m"}})
    refused = cluster("PATCH", f"{MAPS}/m", {"data": {"bad": "x"}}, MERGE)
    assert (refused["_code"], refused["message"], refused["details"]["causes"][0]["field"]) == (
        422,
        "no bad maps",
        "data",
    )
    assert "data" not in cluster("GET", f"{MAPS}/m")
    cluster("DELETE", f"{MAPS}/m")
    assert asked == [
        ("CREATE", "m", True, False, "admin"),
        ("UPDATE", "m", True, True, "admin"),
        ("DELETE", "m", False, True, "admin"),
    ]
    headers = dict(cluster.server.handle(Request("POST", MAPS, body=b'{"metadata":{"name":"n"}}')).headers)
    assert headers["Warning"] == '299 - "mind the map"'


@pytest.mark.parametrize(
    ("old", "versions", "says"),
    [
        ({"deprecated": True}, [], "example.com/v1 Thing is deprecated"),
        ({"deprecated": True}, ["v2alpha1"], "example.com/v1 Thing is deprecated"),
        (
            {"deprecated": True},
            ["v2alpha1", "v2", "v3"],
            "example.com/v1 Thing is deprecated; use example.com/v3 Thing",
        ),
        ({"deprecated": True, "deprecationWarning": "gone soon"}, ["v2"], "gone soon"),
        ({"deprecated": False}, ["v2"], ""),
    ],
    ids=["nothing newer", "nothing stable", "the newest", "in its own words", "not deprecated"],
)
def test_who_uses_a_deprecated_version_is_warned_whatever_comes_of_it(
    old: dict[str, Any], versions: list[str], says: str
) -> None:
    cluster, made = Cluster(), things(**old)
    first = made["spec"]["versions"][0]
    more = [{**first, "name": name, "storage": False, "deprecated": False} for name in versions]
    made["spec"]["versions"] += [{key: one[key] for key in one if key != "deprecationWarning"} for one in more]
    cluster.create(DEFINITIONS, made)
    wanted = [f'299 - "{says}"'] if says else []
    body = json.dumps(thing("a")).encode()
    for request in (
        Request("POST", THINGS, headers={"content-type": "application/json"}, body=body),
        Request("GET", THINGS),
        Request("GET", f"{THINGS}/a/status"),
        Request("GET", f"{THINGS}/nobody"),
    ):
        found = cluster.server.handle(request).headers
        assert [value for name, value in found if name == "Warning"] == wanted
    for name in versions:
        newer = cluster.server.handle(Request("GET", THINGS.replace("v1", name)))
        assert (newer.status, "Warning" in dict(newer.headers)) == (200, False)


def test_a_job_that_is_only_tried_comes_back_with_the_labels_that_it_would_have() -> None:
    cluster = Cluster()
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job = {"metadata": {"name": "j"}, "spec": {"template": template}}
    tried, made = cluster("POST", f"{JOBS}?dryRun=All", job), cluster.create(JOBS, job)
    names = [set(one["spec"]["template"]["metadata"]["labels"]) for one in (tried, made)]
    assert names[0] == names[1] >= {"job-name", "batch.kubernetes.io/controller-uid"}
    assert tried["spec"]["selector"].keys() == made["spec"]["selector"].keys()


@pytest.mark.parametrize(
    ("name", "value", "more", "says"),
    [
        ("system-node-critical", 2000001000, {}, ""),
        ("system-cluster-critical", 2000000000, {}, ""),
        ("system-cluster-critical", 7, {}, "value of system-cluster-critical PriorityClass must be 2000000000"),
        ("system-node-critical", 2000001000, {"globalDefault": True}, "PriorityClass must be false"),
        ("system-mine", 7, {}, "system-mine is not a known system priority class"),
    ],
)
def test_the_priority_classes_of_the_system_are_what_they_are_or_refused(
    name: str, value: int, more: dict[str, Any], says: str
) -> None:
    made = {"metadata": {"name": name}, "value": value, **more}
    found = Cluster()("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", made)
    assert found["_code"] == (422 if says else 201)
    assert says in found.get("message", "")


def test_a_review_is_asked_about_what_passed_the_schema_and_only_then() -> None:
    """As a validating webhook: whoever breaks the schema hears of that, and warnings come with a refusal too."""
    cluster = Cluster()
    cluster.create(DEFINITIONS, things())
    cluster.create(THINGS, thing("old", size=4))
    asked = []

    def review(one: Asked) -> Verdict:
        asked.append((one.operation, one.target.subresource, one.dry_run))
        return Verdict("never", warnings=["seen"])

    cluster.server.core.reviews = [review]
    assert cluster("POST", THINGS, thing("t", size="four"))["reason"] == "Invalid"
    assert asked == []
    refused = cluster.server.handle(
        Request("POST", THINGS, {"dryRun": "All"}, body=json.dumps(thing("t", size=4)).encode())
    )
    assert (refused.status, refused.json()["message"]) == (403, "never")
    assert ("Warning", '299 - "seen"') in refused.headers
    cluster("PATCH", f"{THINGS}/old/status", {"status": {"phase": "x"}}, MERGE)
    assert asked == [("CREATE", "", True), ("UPDATE", "status", False)]


def test_rules_of_a_definition_are_checked_by_functions_that_are_handed_in() -> None:
    made = things()
    schema = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
        **made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"],
        "x-kubernetes-validations": [{"rule": "self.size != 3", "message": "three is taken"}],
    }
    assert schema
    cluster = Cluster(checks={"self.size != 3": lambda value, old: value.get("size") != 3})
    cluster.create(DEFINITIONS, made)
    refused = cluster("POST", THINGS, thing("t", size=3))
    assert refused["_code"] == 422
    assert "three is taken" in refused["message"]
    cluster.create(THINGS, thing("t", size=4))


def test_the_same_seed_gives_the_same_bytes() -> None:
    def bytes_of() -> list[bytes]:
        found = []
        server = fresh(eager=False)
        send = embedded(server)

        def noted(*request: Any) -> Any:
            answer = send(*request)
            found.append(answer[2])
            return answer

        for name in ("pods", "workloads", "things"):
            play(BY_NAME[name], noted, server.settle)
        return found

    assert bytes_of() == bytes_of()


def test_a_server_that_is_started_again_has_everything_and_serves_the_kinds_that_were_defined(tmp_path: Path) -> None:
    def started() -> tuple[Journal, Server]:
        store = Journal(tmp_path / "data")
        count = iter(range(10**6))
        uids = f"{store.revision:08d}-0000-0000-0000-"
        return store, Server(
            store, clock=lambda: NOW, new_uid=lambda: f"{uids}{next(count):012d}", suffix=lambda: "abcde"
        )

    def ask(server: Server, method: str, path: str, body: Any = None) -> Any:
        data = b"" if body is None else json.dumps(body).encode()
        return server.handle(Request(method, path, body=data)).json()

    store, server = started()
    ask(server, "POST", DEFINITIONS, things())
    before = ask(server, "POST", THINGS, thing("t", size=1))
    store.close()
    store, server = started()
    assert ask(server, "GET", f"{THINGS}/t") == before
    assert len(ask(server, "GET", "/api/v1/namespaces")["items"]) == 4
    store.close()


def test_a_watch_whose_past_was_compacted_ends_with_410() -> None:
    cluster = Cluster()
    for row in range(5):
        cluster.create(MAPS, {"metadata": {"name": f"m{row}"}})
    store = cluster.server.core.store
    store.compact(store.revision)
    watch = cluster.server.watch(Request("GET", MAPS, {"watch": "true", "resourceVersion": "2"}))
    assert not isinstance(watch, Answer)
    (event,) = (json.loads(line) for line in watch.read())
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert watch.ended
    assert watch.read() == []


def watched(cluster: Cluster, path: str) -> Watch:
    """A watch that has read everything."""
    found = cluster.server.watch(Request("GET", path, {"watch": "true"}))
    assert not isinstance(found, Answer)
    found.read()
    return found


OTHERS = "/api/v1/namespaces/kube-system/configmaps"


@pytest.mark.parametrize("path", [PODS, OTHERS])
def test_a_watch_that_has_kept_up_is_not_ended_by_what_others_change(path: str) -> None:
    """Neither by other kinds, nor by other namespaces, however much that is; one that has something to read is."""
    cluster = Cluster(store=Store(history=100))
    quiet, slow = watched(cluster, path), watched(cluster, MAPS)
    for row in range(350):
        cluster.create(MAPS, {"metadata": {"name": f"m{row}"}})
    cluster.create(PODS, pod("late"))
    cluster.create(OTHERS, {"metadata": {"name": "late"}})
    (event,) = (json.loads(line) for line in quiet.read())
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "late")
    assert not quiet.ended
    (event,) = (json.loads(line) for line in slow.read())
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_a_watch_from_before_a_compaction_ends_with_410_though_it_had_nothing_to_read() -> None:
    """Whoever tells the store to forget wants to see that; what others change later does not save it."""
    cluster = Cluster(store=Store(history=100))
    watch = watched(cluster, PODS)
    cluster.create(MAPS, {"metadata": {"name": "m"}})
    cluster.server.core.store.compact(cluster.server.core.store.revision)
    for row in range(350):
        cluster.create(MAPS, {"metadata": {"name": f"m{row}"}})
    cluster.create(PODS, pod("late"))
    (event,) = (json.loads(line) for line in watch.read())
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_a_page_after_compaction_is_410() -> None:
    cluster = Cluster()
    for row in range(3):
        cluster.create(MAPS, {"metadata": {"name": f"m{row}"}})
    token = cluster("GET", f"{MAPS}?limit=1")["metadata"]["continue"]
    cluster.create(MAPS, {"metadata": {"name": "late"}})
    cluster.server.core.store.compact(cluster.server.core.store.revision)
    found = cluster("GET", f"{MAPS}?limit=1&continue={token}")
    assert (found["_code"], found["reason"]) == (410, "Expired")


def test_a_watch_wakes_only_for_what_it_watches() -> None:
    cluster = Cluster()
    woken = []
    watch = cluster.server.watch(Request("GET", MAPS, {"watch": "true"}), lambda: woken.append(1))
    assert not isinstance(watch, Answer)
    watch.read()
    cluster.create(PODS, pod("p"))
    cluster.create("/api/v1/namespaces/kube-system/configmaps", {"metadata": {"name": "m"}})
    assert woken == []
    cluster.create(MAPS, {"metadata": {"name": "m"}})
    assert woken == [1]
    assert json.loads(watch.read()[0])["object"]["metadata"]["name"] == "m"
    watch.close()
    cluster.create(MAPS, {"metadata": {"name": "n"}})
    assert woken == [1]


def test_bookmarks_say_how_far_a_watch_is_and_only_to_those_who_asked() -> None:
    cluster = Cluster()
    asked = cluster.server.watch(Request("GET", MAPS, {"watch": "true", "allowWatchBookmarks": "true"}))
    plain = cluster.server.watch(Request("GET", MAPS, {"watch": "true"}))
    assert not isinstance(asked, Answer)
    assert not isinstance(plain, Answer)
    cluster.create(PODS, pod("p"))
    asked.read()
    mark = json.loads(asked.bookmark() or b"")
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["metadata"]["resourceVersion"] == str(cluster.server.core.store.revision)
    assert plain.bookmark() is None


def test_a_body_that_is_too_large_is_413() -> None:
    found = fresh().handle(Request("POST", MAPS, body=b" " * (MAX_BODY_BYTES + 1)))
    assert found.status == 413


@pytest.mark.parametrize("body", [b"", b"nonsense", b"[]", b"null", b'"x"', b"{" * 100_000])
def test_a_body_that_is_no_object_is_400(body: bytes) -> None:
    assert fresh().handle(Request("POST", MAPS, body=body)).status == 400


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api/",
        "/api/v1/",
        "/apis//",
        "/api/v1//pods",
        "/api/v1/namespaces//pods",
        "/apis/apps",
        "/api/v1/pods/a/b/c/d",
    ],
)
def test_odd_paths_are_answered(path: str) -> None:
    assert fresh().handle(Request("GET", path)).status in (200, 404)


@pytest.mark.parametrize(
    ("spec", "value"),
    [({"replicas": "x"}, 400), ({"replicas": {}}, 400), ({"template": 5}, 400), ({"selector": []}, 400)],
)
def test_fields_of_the_wrong_type_are_400(spec: dict[str, Any], value: int) -> None:
    body = {"metadata": {"name": "s"}, "spec": spec}
    assert Cluster()("POST", "/apis/apps/v1/namespaces/default/statefulsets", body)["_code"] == value


def test_a_list_of_a_version_that_is_forgotten_is_410() -> None:
    cluster = Cluster()
    first = cluster.create(MAPS, {"metadata": {"name": "m"}})["metadata"]["resourceVersion"]
    cluster("DELETE", f"{MAPS}/m")
    exact = f"{MAPS}?resourceVersion={first}&resourceVersionMatch=Exact"
    assert [one["metadata"]["name"] for one in cluster("GET", exact)["items"]] == ["m"]
    cluster.server.core.store.compact(cluster.server.core.store.revision)
    gone = cluster("GET", exact)
    assert (gone["_code"], gone["reason"]) == (410, "Expired")
    assert cluster("GET", f"{MAPS}?resourceVersion={first}&resourceVersionMatch=NotOlderThan")["_code"] == 200


def test_a_watch_is_read_in_parts_and_loses_nothing() -> None:
    """A slow client takes so much at once; what its selector leaves out does not end it."""
    cluster = Cluster()
    query = {"watch": "true", "labelSelector": "even=true"}
    watch = cluster.server.watch(Request("GET", MAPS, query))
    assert not isinstance(watch, Answer)
    for row in range(10):
        labels = {"even": "true"} if row % 2 == 0 and row > 3 else {}
        cluster.create(MAPS, {"metadata": {"name": f"m{row}", "labels": labels}})
    found: list[str] = []
    while events := watch.read(2):
        assert len(events) <= 2
        found += [json.loads(event)["object"]["metadata"]["name"] for event in events]
    assert found == ["m4", "m6", "m8"]


@pytest.mark.parametrize("version", ["0", ""], ids=["the objects that are there", "changes"])
def test_a_watch_is_read_in_parts_of_a_size(version: str) -> None:
    """What a client does not take is held in memory for it: no more than the size and one event."""
    cluster = Cluster()
    first = cluster("GET", MAPS)["metadata"]["resourceVersion"]
    for row in range(20):
        cluster.create(MAPS, {"metadata": {"name": f"m{row:02}", "annotations": {"a": "x" * 1000}}})
    watch = cluster.server.watch(Request("GET", MAPS, {"watch": "true", "resourceVersion": version or first}))
    assert not isinstance(watch, Answer)
    found: list[str] = []
    while events := watch.read(100, 5_000):
        assert sum(map(len, events[:-1])) < 5_000
        found += [json.loads(event)["object"]["metadata"]["name"] for event in events]
    assert found == [f"m{row:02}" for row in range(20)]


def test_whole_numbers_are_written_without_a_fraction() -> None:
    """As Go does it; what is no number of this world is refused."""
    cluster = Cluster()
    cluster.create(DEFINITIONS, things())
    body = b'{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"t"},"spec":{"size":4.0,"free":%b}}'
    path = Request("POST", THINGS, body=body % b'{"a":1e3,"b":-2.50,"c":0.0}')
    assert cluster.server.handle(path).json()["spec"]["free"] == {"a": 1000, "b": -2.5, "c": 0}
    assert b'"size":4,' in cluster.server.handle(Request("GET", f"{THINGS}/t")).body
    for number in (b"1e999", b"NaN", b"Infinity"):
        assert cluster.server.handle(Request("POST", THINGS, body=body % number)).status == 400


def test_copies_of_copies_are_refused_before_they_fill_the_memory() -> None:
    cluster = Cluster()
    cluster.create(MAPS, {"metadata": {"name": "m"}, "data": {"a": "b"}})
    patch = [{"op": "copy", "from": "/data", "path": f"/data/{row}"} for row in range(64)]
    assert cluster("PATCH", f"{MAPS}/m", patch, "application/json-patch+json")["_code"] == 413
    deep = [{"op": "add", "path": "/a" * 5000, "value": 1}]
    assert cluster("PATCH", f"{MAPS}/m", deep, "application/json-patch+json")["_code"] == 422
    assert cluster("GET", f"{MAPS}/m")["data"] == {"a": "b"}


def test_a_server_on_a_copy_of_a_store_needs_no_preparation() -> None:
    """Kinds, namespaces and objects are there, and the first server hears of nothing."""
    first = Cluster()
    first.create(DEFINITIONS, things())
    first.create(THINGS, thing("t", size=4))
    before = first.server.core.store.revision
    second = Cluster(store=first.server.core.store.copy())
    assert second.server.core.store.revision == before
    assert second("GET", f"{THINGS}/t")["spec"]["size"] == 4
    second.create(THINGS, thing("u", size=4))
    assert [one["metadata"]["name"] for one in first("GET", THINGS)["items"]] == ["t"]


def test_an_event_is_encoded_once_for_all_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    watches = [cluster.server.watch(Request("GET", MAPS, {"watch": "true"})) for _ in range(8)]
    encoded = []
    encode = msgspec.json.encode

    def count(value: Any) -> bytes:
        encoded.append(value)
        return encode(value)

    body = json.dumps({"metadata": {"name": "m"}}).encode()
    monkeypatch.setattr(msgspec.json, "encode", count)
    cluster.server.handle(Request("POST", MAPS, body=body))
    lines = {b"".join(watch.read()) for watch in watches if not isinstance(watch, Answer)}
    assert len(lines) == 1
    assert len(encoded) == 1


def test_a_step_that_fails_is_told_and_the_next_one_comes() -> None:
    """Kubelet and controllers outlive a full disk."""
    cluster, lines = Cluster(), io.StringIO()
    cluster.create("/api/v1/nodes", {"metadata": {"name": "n"}})
    cluster.create(PODS, pod("p"))
    cluster.bind("p")
    step, failed = cluster.running.step, []

    def fail_once(now: float) -> float | None:
        if not failed:
            failed.append(now)
            raise Unwritten("full")
        return step(now)

    async def main() -> None:
        acting = asyncio.create_task(keep_running(cluster.running, lambda: cluster.now, 0.0, log=Log(lines)))
        async with asyncio.timeout(10):
            while not failed:
                await asyncio.sleep(0)
            cluster.create(MAPS, {"metadata": {"name": "m"}})
            while cluster.phases() != {"p": "Running"}:
                await asyncio.sleep(0)
        acting.cancel()

    cluster.running.step = fail_once  # type: ignore[method-assign]
    asyncio.run(main())
    assert "kubelet and controllers failed" in lines.getvalue()


def test_what_kubelet_and_controllers_could_not_write_is_told_once_and_done_when_there_is_room() -> None:
    """A full disk under a pod that is to run and another that is to go."""
    cluster, lines = Cluster(), io.StringIO()
    cluster.create("/api/v1/nodes", {"metadata": {"name": "n"}})
    for name in ("goes", "comes"):
        cluster.create(PODS, pod(name))
    cluster.bind("goes")
    cluster.running.step(cluster.now)
    cluster("DELETE", f"{PODS}/goes", {"gracePeriodSeconds": 1})
    cluster.bind("comes")
    cluster.now += 5
    store, tried = cluster.server.core.store, []
    keep = store._persist

    def full(change: Any) -> None:
        tried.append(change)
        raise Unwritten("the change could not be kept in play.db: database or disk is full")

    async def main() -> None:
        running = keep_running(cluster.running, lambda: cluster.now, 0.0, log=Log(lines))
        acting = asyncio.create_task(running)
        async with asyncio.timeout(10):
            while len(tried) < 5:
                await asyncio.sleep(0.01)
            store._persist = keep  # type: ignore[method-assign]
            while cluster.phases() != {"comes": "Running"}:
                await asyncio.sleep(0.01)
        acting.cancel()

    store._persist = full  # type: ignore[method-assign]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("muster.embedded.running.AFTER_FAILURE_S", 0.01)
        asyncio.run(main())
    (line,) = [json.loads(text) for text in lines.getvalue().splitlines()]
    assert line["message"] == "kubelet and controllers failed"
    assert "play.db: database or disk is full" in line["error"]


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_is_none_in_utc_is_no_defect(time: str) -> None:
    cluster = Cluster()
    document = {"metadata": {"name": "odd"}, "spec": {"renewTime": time.replace("+", ".000000+")}}
    assert cluster("POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", document)["_code"] < 500
    document = {**pod("odd"), "status": {"startTime": time}}
    assert cluster("POST", PODS, document)["_code"] < 500
    assert cluster("PATCH", f"{PODS}/odd/status", {"status": {"startTime": time}}, MERGE)["_code"] < 500


def test_a_kind_whose_spec_is_a_word_goes_with_its_last_finalizer() -> None:
    """Only namespaces have finalizers in their spec."""
    cluster = Cluster()
    made = things()
    made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = {"type": "string"}
    cluster.create(DEFINITIONS, made)
    held = thing("t", size=4)
    held["metadata"]["finalizers"], held["spec"] = ["example.com/hold"], "word"
    cluster.create(THINGS, held)
    assert cluster("DELETE", f"{THINGS}/t")["_code"] == 200
    assert cluster("PATCH", f"{THINGS}/t", {"metadata": {"finalizers": None}}, MERGE)["_code"] == 200
    assert cluster("GET", f"{THINGS}/t")["_code"] == 404
