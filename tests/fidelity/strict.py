"""Stories of requests that would do harm if they were taken for something else: all are refused, nothing changes."""

from typing import Any

from fidelity.making import (
    JSON_PATCH,
    MAPS,
    MERGE,
    NODES,
    PODS,
    SETS,
    STRATEGIC,
    Document,
    bind,
    delete,
    evict,
    get,
    named,
    patch,
    pod,
    post,
    put,
    quietly,
    template,
)
from fidelity.play import Step, Story

_ONE, _NODE = f"{MAPS}/one", f"{NODES}/{{ns}}-n"


def _has(**amounts: str) -> Document:
    """The status of a node that has so much; `gpus` are GPUs."""
    return {"status": {"capacity": {{"gpus": "example.com/gpu"}.get(name, name): one for name, one in amounts.items()}}}


def _node(name: str, **more: Any) -> Step:
    return post(NODES, {**named(f"{{ns}}-{name}"), **more})


def _replicas(number: Any) -> Step:
    return patch(f"{SETS}/s/scale", {"spec": {"replicas": number}})


_TAINTS = (
    {"key": "a", "effect": "Nope"},
    {"key": "a"},
    {"effect": "NoSchedule"},
    {"key": "not a key", "effect": "NoSchedule"},
    {"key": "a", "value": "not a value", "effect": "NoSchedule"},
)

STORIES = (
    Story(
        "rehearsals",
        (
            *quietly(post(MAPS, named("one")), post(PODS, pod("p"))),
            delete(f"{_ONE}?dryRun=Some"),
            delete(f"{_ONE}?dryRun=All&dryRun=Some"),
            delete(_ONE, {"dryRun": ["Nope"]}),
            delete(_ONE, {"dryRun": ["All", "Nope"]}),
            delete(_ONE, {"dryRun": ["All", "All"]}),
            delete(f"{MAPS}?dryRun=Nope"),
            patch(f"{_ONE}?dryRun=All&dryRun=Nope", {"data": {"a": "b"}}),
            patch(f"{_ONE}?dryRun=All&dryRun=All", {"data": {"a": "b"}}),
            post(f"{MAPS}?dryRun=Nope&dryRun=All", named("two")),
            put(f"{_ONE}?dryRun=nope", named("one")),
            evict("p", deleteOptions={"dryRun": ["Nope"]}),
            get(_ONE),
            get(f"{PODS}/p"),
        ),
    ),
    Story(
        "of-another-namespace",
        (
            *quietly(_node("n"), post(PODS, pod("p"))),
            bind("p", "{ns}-n", namespace="other"),
            post(f"{PODS}/p/eviction", named("p", namespace="other")),
            post(f"{PODS}/p/binding", {**named("q"), "target": {"name": "{ns}-n"}}),
            post(PODS, pod("q", namespace="other")),
            get(f"{PODS}/p"),
            bind("p", "{ns}-n", namespace="{ns}"),
        ),
    ),
    Story(
        "promises-to-the-bound",
        (
            *quietly(_node("n"), post(PODS, pod("p"))),
            patch(f"{PODS}/p/status", {"status": {"nominatedNodeName": "{ns}-n"}}),
            patch(f"{PODS}/p/status", {"status": {"nominatedNodeName": "Not A Name"}}),
            *quietly(bind("p", "{ns}-n")),
            patch(f"{PODS}/p/status", {"status": {"nominatedNodeName": "{ns}-n"}}),
            patch(f"{PODS}/p/status", {"status": {"nominatedNodeName": "{ns}-n"}}, STRATEGIC),
            patch(f"{PODS}/p/status", {"status": {"nominatedNodeName": ""}}),
            get(f"{PODS}/p"),
        ),
    ),
    Story(
        "less-than-none",
        (
            *quietly(
                post(
                    SETS,
                    {
                        **named("s"),
                        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template({"a": "b"})},
                    },
                )
            ),
            _replicas(-1),
            patch(f"{SETS}/s/scale", [{"op": "replace", "path": "/spec/replicas", "value": -3}], JSON_PATCH),
            patch(f"{SETS}/s", {"spec": {"replicas": -1}}, MERGE),
            get(f"{SETS}/s/scale"),
        ),
    ),
    Story(
        "what-nodes-have",
        (
            *quietly(_node("n")),
            *(
                patch(f"{_NODE}/status", _has(**{name: amount}))
                for name, amount in (
                    ("gpus", "0.5"),
                    ("gpus", "1500m"),
                    ("gpus", "-1"),
                    ("gpus", "2k"),
                    ("pods", "1.5"),
                    ("cpu", "-1"),
                    ("cpu", "1500m"),
                    ("memory", "0.5"),
                )
            ),
            patch(f"{_NODE}/status", {"status": {"allocatable": {"example.com/gpu": "0.5"}}}),
            patch(f"{_NODE}/status", {"status": {"allocatable": {"cpu": "-1", "pods": "0.5"}}}),
            _node("m", **_has(gpus="0.5")),
            _node("k", status={"allocatable": {"pods": "-1"}}),
            patch(_NODE, _has(gpus="0.5")),
            *(_node("t", spec={"taints": [taint]}) for taint in _TAINTS),
            patch(_NODE, {"spec": {"taints": [_TAINTS[0]]}}),
            patch(_NODE, {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}}),
            patch(
                _NODE,
                {"spec": {"taints": [{"key": "a", "value": text, "effect": "NoSchedule"} for text in ("x", "y")]}},
            ),
            get(_NODE),
        ),
    ),
)
