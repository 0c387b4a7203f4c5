"""Stories of what only pods have: gates, binding, eviction, budgets."""

from fidelity.making import (
    BUDGETS,
    NODES,
    PODS,
    STRATEGIC,
    TABLE,
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
)
from fidelity.play import Step, Story

_UID = "11111111-2222-3333-4444-555555555555"
_RUNNING = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
_GATES = {"schedulingGates": [{"name": "example.com/a"}, {"name": "example.com/b"}]}


def _running(name: str, **labels: str) -> tuple[Step, ...]:
    return quietly(
        post(PODS, pod(name, labels=labels)),
        bind(name, "n"),
        patch(f"{PODS}/{name}/status", _RUNNING, STRATEGIC),
    )


def _budget(name: str, **status: int) -> tuple[Step, ...]:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}}
    return quietly(
        post(BUDGETS, {**named(name), "spec": spec}),
        patch(f"{BUDGETS}/{name}/status", {"status": {"observedGeneration": 1, **status}}),
    )


STORIES = (
    Story(
        "binding",
        (
            *quietly(
                post(
                    NODES,
                    named(
                        "{ns}-n",
                        labels={
                            "topology.kubernetes.io/zone": "z1",
                            "topology.kubernetes.io/region": "r1",
                            "rack": "k",
                        },
                    ),
                ),
                post(PODS, pod("p", labels={"a": "b"}), save="p"),
            ),
            bind("p", "{ns}-n", uid=_UID),
            bind("p", "{ns}-n", resourceVersion="1"),
            post(f"{PODS}/p/binding", {**named("q"), "target": {"name": "n"}}),
            post(f"{PODS}/p/binding", {**named("p"), "target": {"name": ""}}),
            post(f"{PODS}/p/binding", {**named("p"), "target": {"kind": "Rack", "name": "n"}}),
            bind("missing", "n"),
            post(f"{PODS}/p/binding?dryRun=All", {**named("p"), "target": {"name": "n"}}),
            bind("p", "{ns}-n", uid="<<p:metadata.uid>>", annotations={"why": "because"}, labels={"a": "c"}),
            get(f"{PODS}/p"),
            bind("p", "{ns}-n"),
            bind("p", "other"),
            *quietly(post(PODS, pod("q"))),
            post("/api/v1/namespaces/{ns}/bindings", {**named("q"), "target": {"name": "nowhere"}}),
            get(f"{PODS}/q"),
            get(f"{PODS}?fieldSelector=spec.nodeName%3Dnowhere", accept=TABLE),
            get(f"{PODS}/q/binding"),
            delete(f"{PODS}/q"),
            bind("q", "n"),
        ),
    ),
    Story(
        "gates",
        (
            post(PODS, pod("p", _GATES)),
            get(PODS, accept=TABLE),
            bind("p", "n"),
            patch(f"{PODS}/p", {"spec": {"nodeSelector": {"rack": "a"}}}),
            patch(f"{PODS}/p", {"spec": {"schedulingGates": [{"name": "example.com/c"}]}}),
            patch(f"{PODS}/p", {"spec": {"schedulingGates": [{"name": "example.com/a"}]}}),
            patch(f"{PODS}/p", {"spec": {"schedulingGates": []}}),
            patch(f"{PODS}/p", {"spec": {"schedulingGates": [{"name": "example.com/a"}]}}),
            patch(f"{PODS}/p", {"spec": {"nodeSelector": {"rack": "b"}}}),
            bind("p", "n"),
            get(PODS, accept=TABLE),
        ),
    ),
    Story(
        "eviction",
        (
            *quietly(post(PODS, pod("pending", labels={"app": "x"}))),
            evict("pending"),
            get(f"{PODS}/pending"),
            evict("missing"),
            *_running("free", app="free"),
            evict("free", deleteOptions={"preconditions": {"uid": _UID}}),
            evict("free", deleteOptions={"dryRun": ["All"]}),
            post(f"{PODS}/free/eviction", {**named("other")}),
            evict("free", deleteOptions={"gracePeriodSeconds": 3}),
            get(f"{PODS}/free"),
            evict("free"),
            *_running("kept", app="kept"),
            *_budget("kept", disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1, expectedPods=1),
            evict("kept"),
            *_running("loose", app="loose"),
            *_budget("loose", disruptionsAllowed=1, currentHealthy=2, desiredHealthy=1, expectedPods=2),
            evict("loose"),
            get(f"{BUDGETS}/loose"),
            *_running("twice", app="twice"),
            *_budget("twice", disruptionsAllowed=1),
            *quietly(
                post(
                    BUDGETS,
                    {**named("again"), "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "twice"}}}},
                )
            ),
            evict("twice"),
            *_running("new", app="new"),
            *quietly(
                post(
                    BUDGETS, {**named("new"), "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "new"}}}}
                )
            ),
            evict("new"),
            *quietly(
                patch(
                    f"{PODS}/kept/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, STRATEGIC
                )
            ),
            evict("kept"),
        ),
    ),
    Story(
        "immutable-pods",
        (
            *quietly(post(PODS, pod("p"), save="p")),
            put(f"{PODS}/p", pod("p", {"nodeName": "n"})),
            put(f"{PODS}/p", pod("p", {"containers": [{"name": "c", "image": "i:2"}]})),
            patch(f"{PODS}/p", {"spec": {"priority": 5}}),
            patch(f"{PODS}/p", {"spec": {"terminationGracePeriodSeconds": 5}}),
            patch(f"{PODS}/p", {"spec": {"schedulerName": "muster"}}),
            patch(f"{PODS}/p", {"spec": {"containers": [{"name": "c", "image": ""}]}}, STRATEGIC),
            get(PODS, accept=TABLE),
        ),
    ),
)
