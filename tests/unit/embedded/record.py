"""Asks a real API server what it makes of `asked.py`, and writes it down in `recorded.json`.

`PYTHONPATH=tests .venv/bin/python -m unit.embedded.record`; docs/e2e.md says what a control plane needs.
"""

import json
import time
import urllib.parse
from pathlib import Path
from typing import Any

from e2e.plane import ControlPlane
from unit.embedded.asked import CRD, FIELDS, LABELS, SPECS, UPDATES, Step, widget
from unit.embedded.stories import STORIES

TARGET = Path(__file__).with_name("recorded.json")
FOLDERS = {
    "Widget": "/apis/example.dev/v1/namespaces/default/widgets",
    "Pod": "/api/v1/namespaces/default/pods",
    "Node": "/api/v1/nodes",
    "Namespace": "/api/v1/namespaces",
    "ConfigMap": "/api/v1/namespaces/default/configmaps",
    "ServiceAccount": "/api/v1/namespaces/default/serviceaccounts",
    "Event": "/api/v1/namespaces/default/events",
    "Job": "/apis/batch/v1/namespaces/default/jobs",
    "StatefulSet": "/apis/apps/v1/namespaces/default/statefulsets",
    "Deployment": "/apis/apps/v1/namespaces/default/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/default/replicasets",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
}
PATHS = {
    "widgets.example.dev": "/apis/example.dev/v1/widgets",
    "jobs.batch": "/apis/batch/v1/jobs",
    "replicasets.apps": "/apis/apps/v1/replicasets",
    "statefulsets.apps": "/apis/apps/v1/statefulsets",
    "leases.coordination.k8s.io": "/apis/coordination.k8s.io/v1/leases",
    "events.events.k8s.io": "/apis/events.k8s.io/v1/events",
    "poddisruptionbudgets.policy": "/apis/policy/v1/poddisruptionbudgets",
    "priorityclasses.scheduling.k8s.io": "/apis/scheduling.k8s.io/v1/priorityclasses",
    **{name: f"/api/v1/{name}" for name in ("pods", "nodes", "namespaces", "events", "configmaps", "secrets")},
}
TYPES = {
    "apply": "application/apply-patch+yaml",
    "force": "application/apply-patch+yaml",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}


def play(plane: ControlPlane, steps: list[Step]) -> list[dict[str, Any]]:
    """The answers to one story."""
    first = steps[0].body
    folder, name = FOLDERS[first["kind"]], first["metadata"]["name"]
    answers = []
    for step in steps:
        time.sleep(1.05)  # so that the times of managedFields differ, and with them their order
        query = f"?fieldManager={step.manager}&fieldValidation=Ignore" + ("&force=true" if step.verb == "force" else "")
        if step.verb == "create":
            answer = plane.request("POST", folder + query, step.body)
        else:
            door = f"/{step.door}" if step.door else ""
            answer = plane.request("PATCH", f"{folder}/{name}{door}{query}", step.body, TYPES[step.verb])
        answers.append({"status": answer.status, "body": answer.body})
    return answers


def updated(plane: ControlPlane, name: str, spec: Any, patch: Any) -> dict[str, Any]:
    """The answer to a merge patch of a spec."""
    assert plane.request("POST", FOLDERS["Widget"], widget(f"update-{name}", spec)).status == 201
    answer = plane.request("PATCH", f"{FOLDERS['Widget']}/update-{name}", {"spec": patch}, TYPES["merge"])
    return {"status": answer.status, "body": answer.body}


def listed(plane: ControlPlane, path: str, kind: str, text: str) -> dict[str, Any]:
    """The status of a list with a selector, and the message of a refusal."""
    answer = plane.request("GET", f"{path}?limit=1&{kind}={urllib.parse.quote(text)}")
    return {"status": answer.status, "message": answer.body.get("message", "")}


def main() -> None:
    """Record everything."""
    with ControlPlane() as plane:
        assert plane.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD).status == 201
        deadline = time.monotonic() + 20
        while plane.request("GET", FOLDERS["Widget"]).status != 200:
            assert time.monotonic() < deadline, "the CRD is not served"
            time.sleep(0.2)
        time.sleep(2)
        recorded: dict[str, Any] = {"stories": {}, "specs": {}}
        for story, steps in STORIES.items():
            recorded["stories"][story] = play(plane, steps)
        for name, spec in SPECS.items():
            path = FOLDERS["Widget"] + "?fieldValidation=Strict"
            strict = plane.request("POST", path, widget(f"spec-{name}", spec))
            loose = plane.request("POST", path.replace("Strict", "Ignore"), widget(f"loose-{name}", spec))
            recorded["specs"][name] = {
                "strict": {"status": strict.status, "body": strict.body},
                "loose": {"status": loose.status, "body": loose.body},
            }
        recorded["updates"] = {name: updated(plane, name, *pair) for name, pair in UPDATES.items()}
        recorded["labels"] = {text: listed(plane, "/api/v1/pods", "labelSelector", text) for text in LABELS}
        recorded["fields"] = {
            f"{resource} {text}": listed(plane, PATHS[resource], "fieldSelector", text) for resource, text in FIELDS
        }
    TARGET.write_text(json.dumps(recorded, indent=None, separators=(",", ":"), sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
