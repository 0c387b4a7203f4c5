"""Workloads of a made-up kind, their pods and their interfaces, for tests of grouping."""

import json
from typing import Any

from muster.api.validation import ERROR, Context, validate
from muster.api.validation.violation import Report
from muster.grouping.compiler import compile_interface
from muster.grouping.grouper import Grouper, Grouping
from muster.grouping.model import Interface
from muster.grouping.owners import Objects
from muster.grouping.registry import Registry

API, KIND = "x.io/v1", "Work"
Object = dict[str, Any]


def written(*templates: Object, name: str = "works", **spec: Any) -> Object:
    """A ResourceInterface for Work, as people write it."""
    gangs = [{"name": f"gang-{number}", **template} for number, template in enumerate(templates)]
    return {
        "apiVersion": "kai.scheduler/v1",
        "kind": "ResourceInterface",
        "metadata": {"name": name},
        "spec": {
            "targetGVK": {"group": "x.io", "kind": KIND},
            **({"gangScheduling": {"podGroups": gangs}} if gangs else {}),
            **spec,
        },
    }


def interface(*templates: Object, **spec: Any) -> Interface:
    """The same, compiled; it must be without an error."""
    judgement = validate(written(*templates, **spec), Context())
    report = Report([])
    made = compile_interface(judgement.object, report)
    wrong = [one for one in (*judgement.violations, *report.violations) if one.severity == ERROR]
    assert made is not None, wrong
    assert not wrong, wrong
    return made


def entry(name: str, of: str = "", **fields: Any) -> Object:
    """A leaf that claims the pods whose label `role` is its name, and whose label `group` is what `of` gives."""
    if "subgroups" in fields or "podClassifier" in fields:
        return {"componentName": name, **fields}
    labels = {"role": name, **({"group": of} if of else {})}
    return {"componentName": name, "podClassifier": {"matchLabels": labels}, **fields}


def work(name: str = "w", /, *, kind: str = KIND, labels: Any = None, notes: Any = None, **fields: Any) -> Object:
    """A workload; `notes` are its annotations, other fields its spec."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {
        "apiVersion": API,
        "kind": kind,
        "metadata": {**metadata, "labels": labels or {}, "annotations": notes or {}},
        "spec": fields,
    }


def pod(name: str = "p", owner: Object | None = None, /, *, notes: Any = None, **labels: Any) -> Object:
    """A pod with labels, of an owner (by default that of `work()`)."""
    owner = work() if owner is None else owner
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
    reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "labels": labels,
            "annotations": notes or {},
            "ownerReferences": [reference],
        },
        "spec": {},
    }


def grouper(made: Interface | list[Interface], *objects: Object, **more: Any) -> Grouper:
    """A grouper that knows these interfaces and finds these objects."""
    interfaces = made if isinstance(made, list) else [made]
    return Grouper(Registry((), interfaces), Objects(objects), **more)


def places(found: Grouping) -> dict[str, tuple[str, str]]:
    """Where each pod is: PodGroup and SubGroup."""
    return {one.name: (one.pod_group, one.sub_group) for one in found.pods}


def specs(found: Grouping) -> dict[str, Object]:
    """The PodGroups by name, as people write them."""
    return {one.document["metadata"]["name"]: one.document["spec"] for one in found.groups}


def existing(found: Grouping) -> dict[tuple[str, str], Object]:
    """The PodGroups that came out, as they are there when it is grouped again."""
    documents = [json.loads(json.dumps(one.document)) for one in found.groups]
    return {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in documents}
