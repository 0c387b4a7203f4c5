"""What a real API server answered is what we answer: owners of fields, conflicts, patches, refusals and defaults.

`recorded.json` holds the answers of a real one; every step is played on the object that the real one had before it.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster.embedded import applying, patching, selectors
from muster.embedded.refusals import Refused
from muster.embedded.schema import Schema
from unit.embedded.asked import CHECKS, FIELDS, LABELS, SCHEMA, SPECS, UPDATES, Step, widget
from unit.embedded.stories import STORIES

RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text())
WIDGETS = Schema(SCHEMA, checks=CHECKS, status=True)
NOW = "2099-01-01T00:00:00Z"

ALL = [(story, number, step) for story, steps in STORIES.items() for number, step in enumerate(steps)]


def chosen(wanted: Callable[[Step, int, str], bool]) -> list[Any]:
    """The steps for which something holds: of the step, the status of the real answer, and the kind of the object."""
    return [
        pytest.param(story, number, id=f"{story}-{number}")
        for story, number, step in ALL
        if wanted(step, RECORDED["stories"][story][number]["status"], STORIES[story][0].body["kind"])
    ]


def schema_of(document: dict[str, Any]) -> Schema:
    if document["kind"] == "Widget":
        return WIDGETS
    found = Schema.builtin(document["apiVersion"], document["kind"])
    assert found, document["kind"]
    return found


def before(story: str, number: int) -> dict[str, Any] | None:
    """The object as the last step that went well left it."""
    for answer in reversed(RECORDED["stories"][story][:number]):
        if answer["status"] < 300:
            body: dict[str, Any] = answer["body"]
            return body
    return None


def owners(document: dict[str, Any]) -> list[dict[str, Any]]:
    """managedFields without times and in one order."""
    entries = [
        {key: value for key, value in entry.items() if key != "time"}
        for entry in document["metadata"].get("managedFields", [])
    ]
    return sorted(entries, key=lambda entry: json.dumps(entry, sort_keys=True))


def without_server(document: dict[str, Any]) -> dict[str, Any]:
    """The document without what only the server writes."""
    gone = ("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp")
    metadata = {key: value for key, value in document["metadata"].items() if key not in gone}
    return {**document, "metadata": metadata}


def patched(step: Step, current: dict[str, Any]) -> dict[str, Any]:
    if step.verb == "merge":
        return patching.merge(current, step.body)
    if step.verb == "json":
        return patching.json_patch(current, step.body)
    return patching.strategic(current, step.body, f"{current['apiVersion']}/{current['kind']}")


def applied(step: Step, current: dict[str, Any] | None, schema: Schema) -> dict[str, Any]:
    wanted = {**step.body, "metadata": {**step.body["metadata"]}}
    return applying.apply(
        current,
        wanted,
        manager=step.manager,
        force=step.verb == "force",
        schema=schema,
        time=NOW,
        subresource=step.door,
    )


@pytest.mark.parametrize(("story", "number"), chosen(lambda step, status, kind: status < 300))
def test_the_owners_of_fields_are_those_of_the_real_server(story: str, number: int) -> None:
    """After every step that went well, managedFields says the same."""
    step, answer = STORIES[story][number], RECORDED["stories"][story][number]
    current = before(story, number)
    body = answer["body"]
    schema = schema_of(body)
    if step.verb in ("apply", "force"):
        result = applied(step, current, schema)
    else:
        sent = with_managed(step, current, body)
        result = applying.updated(
            current, sent, manager=step.manager, operation="Update", schema=schema, time=NOW, subresource=step.door
        )
    assert owners(result) == owners(body)


def with_managed(step: Step, current: dict[str, Any] | None, body: dict[str, Any]) -> dict[str, Any]:
    """What the real server decided, with the managedFields that the client sent."""
    if current is None:
        return without_later({**body, "metadata": {k: v for k, v in body["metadata"].items() if k != "managedFields"}})
    sent = patched(step, current)["metadata"].get("managedFields")
    metadata = {**body["metadata"], "managedFields": sent}
    return {**body, "metadata": metadata}


# The one difference: a map that its applier empties becomes null in the real server, and is then refused in a custom
# resource unless nothing is known of its fields. Ours is an empty map.
EMPTIED = ("a-map-that-becomes-empty", 4)


def merges(step: Step, status: int, kind: str) -> bool:
    """Whether the real server merged something that it did not fill in itself."""
    return status < 300 and step.verb != "create" and (step.verb not in ("apply", "force") or kind == "Widget")


@pytest.mark.parametrize(("story", "number"), chosen(merges))
def test_the_document_is_that_of_the_real_server(story: str, number: int) -> None:
    """Custom resources are compared whole; of built-in kinds (which the server fills in) what a patch changes."""
    step, answer = STORIES[story][number], RECORDED["stories"][story][number]
    current = before(story, number)
    body = answer["body"]
    schema = schema_of(body)
    if step.verb in ("apply", "force"):
        result = schema.default(applied(step, current, schema))
    else:
        assert current
        result = patched(step, current)
    door = "status" if step.door else "spec"
    expected = without_server(body)
    if (story, number) == EMPTIED:
        assert expected["spec"]["free"] == {"a": {"b": None}}
        expected["spec"] = {**expected["spec"], "free": {"a": {"b": {}}}}
    if body["kind"] in ("Pod", "Node"):  # defaults of single items are filled in later
        assert keys(result.get(door)) == keys(expected.get(door))
    else:
        assert without_defaults(result.get(door)) == without_defaults(expected.get(door))
    if not step.door:
        assert without_server(result)["metadata"].get("labels") == expected["metadata"].get("labels")
        assert without_server(result)["metadata"].get("finalizers") == expected["metadata"].get("finalizers")


def without_later(body: dict[str, Any]) -> dict[str, Any]:
    """A new object as the client and the defaults made it: without what admission and the server then added."""
    later = {"Pod": ("priority", "preemptionPolicy"), "Namespace": ("finalizers",), "Job": ("selector",)}
    spec = {key: value for key, value in body.get("spec", {}).items() if key not in later.get(body["kind"], ())}
    if all(one.get("tolerationSeconds") == 300 for one in spec.get("tolerations", ())):
        spec.pop("tolerations", None)
    if body["kind"] == "Job":
        metadata = {key: value for key, value in spec["template"]["metadata"].items() if key != "labels"}
        spec = {**spec, "template": {**spec["template"], "metadata": metadata}}
        body = {**body, "metadata": {key: value for key, value in body["metadata"].items() if key != "labels"}}
    return {**body, "spec": spec} if "spec" in body else body


def keys(value: Any) -> Any:
    """Of lists of conditions, containers and taints: who they are and what they say, without times."""
    if isinstance(value, dict):
        later = ("lastTransitionTime", "lastHeartbeatTime", "lastProbeTime", "timeAdded", "allocatable")
        return {k: keys(v) for k, v in value.items() if k not in later}
    if isinstance(value, list):
        return [keys(item) for item in value]
    return value


def without_defaults(value: Any) -> Any:
    """Without what the real server adds to a container and a spec that says nothing."""
    added = (
        "terminationMessagePath",
        "terminationMessagePolicy",
        "imagePullPolicy",
        "resources",
        "replicas",
        "rollingUpdate",
    )
    if isinstance(value, dict):
        return {k: without_defaults(v) for k, v in value.items() if k not in added}
    if isinstance(value, list):
        return [without_defaults(item) for item in value]
    return value


@pytest.mark.parametrize(("story", "number"), chosen(lambda step, status, kind: status >= 300))
def test_what_the_real_server_refuses_is_refused_in_its_words(story: str, number: int) -> None:
    """Status, reason, message and causes of a patch that cannot be."""
    step, answer = STORIES[story][number], RECORDED["stories"][story][number]
    current = before(story, number)
    schema = WIDGETS if step.verb == "apply" and step.body.get("kind") == "Widget" else schema_of(current or step.body)
    said = answer["body"]
    refused = None
    try:
        applied(step, current, schema) if step.verb in ("apply", "force") else patched(step, current or {})
    except Refused as error:
        refused = error
    if refused is None:
        assert said.get("reason") == "Invalid", said  # only the merged document breaks a rule
        return
    assert (refused.status, refused.reason) == (answer["status"], said.get("reason", ""))
    causes = sorted((c["reason"], c["message"], c["field"]) for c in said.get("details", {}).get("causes", []))
    assert sorted(refused.causes) == causes
    if len(causes) < 2:
        assert refused.message == said["message"]


@pytest.mark.parametrize("name", SPECS)
def test_a_custom_resource_is_refused_for_the_same_causes(name: str) -> None:
    """The causes of the real server, as a set: it writes them in no order."""
    answer = RECORDED["specs"][name]["loose"]
    pruned, _ = WIDGETS.prune(widget(name, SPECS[name]))
    causes = WIDGETS.validate(WIDGETS.default(pruned))
    if answer["status"] == 201:
        assert causes == []
    else:
        assert answer["status"] == 422
        expected = {(c["reason"], c["message"], c["field"]) for c in answer["body"]["details"]["causes"]}
        assert set(map(tuple, causes)) == expected


@pytest.mark.parametrize("name", [name for name in SPECS if RECORDED["specs"][name]["loose"]["status"] == 201])
def test_a_custom_resource_is_pruned_and_filled_in_alike(name: str) -> None:
    """What is kept of a spec."""
    pruned, _ = WIDGETS.prune(widget(name, SPECS[name]))
    assert WIDGETS.default(pruned)["spec"] == RECORDED["specs"][name]["loose"]["body"]["spec"]


@pytest.mark.parametrize("name", SPECS)
def test_unknown_fields_are_named_alike(name: str) -> None:
    """`strict decoding error: unknown field "spec.unknown"`."""
    answer = RECORDED["specs"][name]["strict"]
    _, unknown = WIDGETS.prune(widget(name, SPECS[name]))
    if unknown:
        assert answer["status"] == 400
        for path in unknown:
            assert f'unknown field "{path}"' in answer["body"]["message"]
        assert answer["body"]["message"].count("unknown field") == len(unknown)
    else:
        assert "unknown field" not in json.dumps(answer["body"])


@pytest.mark.parametrize("name", UPDATES)
def test_an_update_is_refused_for_the_same_causes(name: str) -> None:
    """Rules that compare with the old value, and what was wrong before."""
    answer = RECORDED["updates"][name]
    spec, patch = UPDATES[name]
    old = WIDGETS.default(widget(name, spec))
    causes = WIDGETS.validate(WIDGETS.default(patching.merge(old, {"spec": patch})), old)
    expected = {(c["reason"], c["message"], c["field"]) for c in answer["body"].get("details", {}).get("causes", [])}
    assert (answer["status"] == 422) == bool(expected)
    assert set(map(tuple, causes)) == expected


def test_times_move_when_they_move_in_the_real_server() -> None:
    """The time of an entry is that of the last write that changed something for it; some never have one."""
    for story, steps in STORIES.items():
        for number, step in enumerate(steps):
            answer, current = RECORDED["stories"][story][number], before(story, number)
            if answer["status"] >= 300 or step.verb not in ("apply", "force"):
                continue
            ours = times(applied(step, current, schema_of(answer["body"])))
            theirs, earlier = times(answer["body"]), times(current or {"metadata": {}})
            moved = {owner: NOW if time != earlier.get(owner) and time else time for owner, time in theirs.items()}
            assert ours == moved, (story, number)


def times(document: dict[str, Any]) -> dict[tuple[str, ...], str | None]:
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): entry.get("time")
        for entry in document["metadata"].get("managedFields", [])
    }


@pytest.mark.parametrize("text", LABELS)
def test_a_label_selector_is_accepted_or_refused_alike(text: str) -> None:
    """With the same words."""
    check(RECORDED["labels"][text], lambda: selectors.labels(text))


@pytest.mark.parametrize(("resource", "text"), FIELDS)
def test_a_field_selector_is_accepted_or_refused_alike(resource: str, text: str) -> None:
    """With the same words."""
    check(RECORDED["fields"][f"{resource} {text}"], lambda: selectors.fields(text, resource))


def check(answer: dict[str, Any], ask: Callable[[], object]) -> None:
    if answer["status"] == 200:
        ask()
        return
    with pytest.raises(Refused) as refused:
        ask()
    assert (refused.value.status, refused.value.message) == (answer["status"], answer["message"])
