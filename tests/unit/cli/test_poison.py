"""`muster plan` and `muster explain` beside an object on which muster stumbles: it is left out, and they say so."""

import json

import pytest

from muster.plan import books
from muster.plan.books import Books
from muster.snapshot import build
from muster.snapshot.build import Builder
from muster.snapshot.templates import Templates


def document(kind, name, api="v1", **more):
    annotations = more.pop("annotations", {})
    return json.dumps({"apiVersion": api, "kind": kind, "metadata": {"name": name, "annotations": annotations}, **more})


def a_gang(name, cpu="1"):
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
    return [
        document("PodGroup", name, "scheduling.run.ai/v2alpha2", spec={"minMember": 2}),
        *(document("Pod", f"{name}-{at}", annotations={"pod-group-name": name}, spec=spec) for at in range(2)),
    ]


@pytest.fixture
def files(tmp_path):
    path = tmp_path / "all.yaml"
    node = document("Node", "n", status={"allocatable": {"cpu": "8"}})
    path.write_text("\n---\n".join([node, *a_gang("bad", "3"), *a_gang("good")]))
    return path


def broken(monkeypatch, place):
    def boom():
        raise ZeroDivisionError("a fault that was put in")

    match place:
        case "template":
            real = Templates.of
            hit = {"cpu": "3"}
            monkeypatch.setattr(
                Templates,
                "of",
                lambda known, spec: boom() if spec.containers[0].resources.requests == hit else real(known, spec),
            )
        case "gang":
            made = build.gang_of
            monkeypatch.setattr(build, "gang_of", lambda key, *rest: boom() if key[1] == "bad" else made(key, *rest))
        case "plan":
            bind = Books.bind
            monkeypatch.setattr(
                books.Books,
                "bind",
                lambda self, state, ask: boom() if state.gang.key[1] == "bad" else bind(self, state, ask),
            )
        case "anywhere":
            arrays = Builder._arrays

            def fails(builder, now_ns, around):
                gang = builder._gangs.get(("default", "bad"))
                return boom() if gang is not None and not gang.unknown else arrays(builder, now_ns, around)

            monkeypatch.setattr(Builder, "_arrays", fails)


@pytest.mark.parametrize("place", ["template", "gang", "plan", "anywhere"])
def test_others_are_planned(muster, monkeypatch, files, place):
    broken(monkeypatch, place)
    done = muster("plan", "-f", files, "-o", "json")
    found = {one["name"]: one for one in done.json["podGroups"]}
    assert found["good"]["verdict"] == "Placed"
    assert found["bad"]["verdict"] != "Placed"
    said = [reason["message"] for reason in found["bad"]["reasons"]]
    assert any("a fault that was put in" in message for message in said)
    explained = muster("explain", "default/bad", "-f", files)
    assert "defect in muster" in explained.out


def test_a_defect_that_is_no_objects_fault_is_told_as_one(muster, monkeypatch, files):
    def fails(builder, now_ns, around):
        raise ZeroDivisionError("a fault that was put in")

    monkeypatch.setattr(Builder, "_arrays", fails)
    assert muster("plan", "-f", files).code == 70
