"""Stories of what a real server refuses, and of fields of custom kinds that may be selected."""

from typing import Any

from fidelity.custom import definition
from fidelity.making import (
    BUDGETS,
    DEFINITIONS,
    EVENTS,
    JOBS,
    LEASES,
    MAPS,
    PODS,
    apply,
    delete,
    get,
    named,
    patch,
    pod,
    post,
    put,
    quietly,
    template,
)
from fidelity.play import Story

_THINGS = "/apis/{ns}.example.com/v1/namespaces/{ns}/things"
_NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/{ns}/events"
_WATCH = "watch=true&timeoutSeconds=1"


def _thing(name: str, size: int = 1, **spec: Any) -> dict[str, Any]:
    kind = {"apiVersion": "{ns}.example.com/v1", "kind": "Thing"}
    return {**kind, **named(name), "spec": {"size": size, **spec}}


def _selectable(*paths: str) -> dict[str, Any]:
    return definition(selectableFields=[{"jsonPath": path} for path in paths])


def _many(count: int) -> dict[str, Any]:
    fields = [f"f{row}" for row in range(count)]
    spec = {"type": "object", "properties": {name: {"type": "string"} for name in fields}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return definition(schema=schema, selectableFields=[{"jsonPath": f".spec.{name}"} for name in fields])


def _budget(name: str, **spec: Any) -> dict[str, Any]:
    return {**named(name), "spec": {"selector": {"matchLabels": {"a": "b"}}, **spec}}


def _job(name: str, labels: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {**named(name), "spec": {"template": template(labels, restartPolicy="Never"), **spec}}


def _event(name: str, **more: Any) -> dict[str, Any]:
    about = {"kind": "Pod", "name": "p", "namespace": "{ns}"}
    return {**named(name), "regarding": about, **more}


_WHO = {"action": "Doing", "reason": "Because", "type": "Normal", "reportingController": "a.b/c"}
_WHEN = "2026-01-02T03:04:05.000006Z"

STORIES: tuple[Story, ...] = (
    Story(
        "selectable-fields",
        (
            *quietly(
                post(DEFINITIONS, _selectable(".spec.mode", ".spec.size")),
                get(_THINGS, until=200),
                post(_THINGS, _thing("a", 1, mode="fast")),
                post(_THINGS, _thing("b", 2)),
                post(_THINGS, _thing("c", 2, mode="fast")),
            ),
            get(f"{_THINGS}?fieldSelector=spec.mode=fast"),
            get(f"{_THINGS}?fieldSelector=spec.mode=fast,spec.size=2"),
            get(f"{_THINGS}?fieldSelector=spec.mode!=fast"),
            get(f"{_THINGS}?fieldSelector=spec.code="),
            get(f"{_THINGS}?{_WATCH}&fieldSelector=spec.size=2"),
            get(f"{DEFINITIONS}/things.{{ns}}.example.com"),
        ),
    ),
    Story(
        "fields-that-are-not-selectable",
        (
            post(DEFINITIONS, _selectable(*(f".spec.free{row}" for row in range(9)))),
            post(DEFINITIONS, _selectable(".spec.mode", ".spec.mode")),
            post(DEFINITIONS, _selectable(".spec.parts[0].name")),
            post(DEFINITIONS, _selectable(".metadata.name")),
            post(DEFINITIONS, _selectable(".spec.nothing")),
            post(DEFINITIONS, _selectable(".spec.deep")),
            post(DEFINITIONS, _selectable("spec.mode")),
            post(DEFINITIONS, _selectable("")),
            post(DEFINITIONS, _many(9)),
            post(f"{DEFINITIONS}?dryRun=All", _many(8)),
        ),
    ),
    Story(
        "times-that-are-none",
        (
            post(LEASES, {**named("l"), "spec": {"renewTime": "yesterday"}}),
            post(LEASES, {**named("l"), "spec": {"renewTime": "2026-01-02T03:04:05Z"}}),
            post(LEASES, {**named("m"), "spec": {"acquireTime": "2026-01-02T03:04:05.1+02:00"}}),
            post(LEASES, {**named("n"), "spec": {"acquireTime": "2026-01-02"}}),
            post(LEASES, {**named("o"), "spec": {"acquireTime": "2026-13-02T03:04:05.000000Z"}}),
            post(LEASES, {**named("p"), "spec": {"acquireTime": "2026-01-02T03:04:05.000000+02:00"}}),
            post(LEASES, {**named("q"), "spec": {"acquireTime": None, "renewTime": ""}}),
            post(PODS, {**pod("p"), "status": {"startTime": "today"}}),
        ),
    ),
    Story(
        "budgets-above-all",
        (
            post(BUDGETS, _budget("b", minAvailable="120%")),
            post(BUDGETS, _budget("b", maxUnavailable="101%")),
            post(BUDGETS, _budget("b", maxUnavailable="100%")),
        ),
    ),
    Story(
        "expressions-of-budgets",
        tuple(
            post(BUDGETS, _budget(f"b{row}", minAvailable=1, selector={"matchExpressions": [{"key": "a", **one}]}))
            for row, one in enumerate(
                (
                    {"operator": "Foo"},
                    {"operator": "In"},
                    {"operator": "NotIn", "values": []},
                    {"operator": "Exists", "values": ["b"]},
                    {"operator": "DoesNotExist"},
                    {"operator": "In", "values": ["b"]},
                )
            )
        ),
    ),
    Story(
        "indexes-of-jobs",
        (
            post(JOBS, _job("j", {"a": "b"}, completionMode="Indexed", parallelism=2)),
            post(JOBS, _job("k", {"a": "b"}, completionMode="Indexed", parallelism=2, completions=2)),
            post(JOBS, _job("l", {"a": "b"}, completionMode="Indexed")),
            patch(f"{JOBS}/k", {"spec": {"completions": None}}),
        ),
    ),
    Story(
        "selectors-of-jobs",
        (
            post(JOBS, _job("j", {"a": "b"}, selector={"matchLabels": {"a": "b"}})),
            post(JOBS, _job("k", {"a": "b"}, selector={"matchLabels": {"a": "b"}}, manualSelector=True)),
            post(JOBS, _job("l", {"a": "b"}, selector={"matchLabels": {"a": "c"}}, manualSelector=True)),
            post(JOBS, _job("m", {"a": "b"}, manualSelector=True)),
            post(JOBS, _job("n", {})),
            post(JOBS, _job("p", {"a": "b"})),
            post(JOBS, {**named("q"), "spec": {"template": {"spec": template({}, restartPolicy="Never")["spec"]}}}),
            post(JOBS, _job("r", {"a": "b"}, selector={"matchLabels": {"a": "c"}})),
            post(JOBS, _job("s", {"a": "b"}, selector={}, manualSelector=True)),
            post(JOBS, {**_job("o", {"a": "b"}), "metadata": {"name": "o", "labels": {"c": "d"}}}),
        ),
    ),
    Story(
        "deadlines-of-pods",
        (
            post(PODS, pod("p", {"activeDeadlineSeconds": 0})),
            *quietly(post(PODS, pod("p", {"activeDeadlineSeconds": 10})), post(PODS, pod("q"))),
            patch(f"{PODS}/p", {"spec": {"activeDeadlineSeconds": 11}}),
            patch(f"{PODS}/p", {"spec": {"activeDeadlineSeconds": None}}),
            patch(f"{PODS}/p", {"spec": {"activeDeadlineSeconds": 0}}),
            patch(f"{PODS}/p", {"spec": {"activeDeadlineSeconds": 9}}),
            patch(f"{PODS}/q", {"spec": {"activeDeadlineSeconds": 0}}),
            patch(f"{PODS}/q", {"spec": {"activeDeadlineSeconds": 5}}),
        ),
    ),
    Story(
        "newer-events",
        (
            post(_NEW_EVENTS, _event("e")),
            post(_NEW_EVENTS, _event("e", eventTime=_WHEN)),
            post(_NEW_EVENTS, _event("e", eventTime=_WHEN, **_WHO)),
            post(_NEW_EVENTS, _event("e", eventTime=_WHEN, reportingInstance="i", **_WHO | {"type": "Bad"})),
            post(_NEW_EVENTS, _event("e", eventTime=_WHEN, reportingInstance="i", **_WHO)),
            post(_NEW_EVENTS, _event("f", eventTime=_WHEN, reportingInstance="i", deprecatedCount=1, **_WHO)),
            post(EVENTS, {**named("g"), "involvedObject": _event("g")["regarding"], "eventTime": _WHEN}),
        ),
    ),
    Story(
        "names-that-are-not-said",
        (
            apply(f"{MAPS}/m", {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}),
            apply(f"{MAPS}/m", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"a": "b"}}),
            apply(f"{MAPS}/m", {"apiVersion": "v1", "kind": "ConfigMap", **named("m")}),
            apply(f"{MAPS}/m", {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}),
            *quietly(post(DEFINITIONS, definition()), get(_THINGS, until=200)),
            apply(f"{_THINGS}/a", {"apiVersion": "{ns}.example.com/v1", "kind": "Thing", "spec": {"size": 1}}),
        ),
    ),
    Story(
        "pages-at-a-version",
        (
            *quietly(post(MAPS, named("a")), post(MAPS, named("b")), get(f"{MAPS}?limit=1", save="page")),
            get(f"{MAPS}?limit=1&continue=<<page:metadata.continue>>&resourceVersion=1"),
            get(f"{MAPS}?limit=1&continue=<<page:metadata.continue>>&resourceVersion=0"),
        ),
    ),
    Story(
        "watches-that-do-not-begin",
        (
            get(
                f"{MAPS}?{_WATCH}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
                "&allowWatchBookmarks=true&resourceVersion=999999999"
            ),
            get(
                f"{MAPS}?{_WATCH}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
                "&allowWatchBookmarks=true&resourceVersion=x"
            ),
            get(f"{MAPS}?{_WATCH}&continue=abc"),
            get(f"{MAPS}?{_WATCH}&continue=abc&resourceVersionMatch=NotOlderThan&sendInitialEvents=true"),
        ),
    ),
    Story(
        "patches-of-what-stays",
        (
            *quietly(post(MAPS, named("m"))),
            patch(f"{MAPS}/m", {"metadata": {"uid": "abc"}}),
            put(f"{MAPS}/m", {**named("m", uid="abc")}),
            apply(f"{MAPS}/m", {"apiVersion": "v1", "kind": "ConfigMap", **named("m", uid="abc")}),
            patch(f"{MAPS}/m", {"kind": "Secret"}),
            patch(f"{MAPS}/m", {"apiVersion": "v2"}),
            patch(f"{MAPS}/m", {"apiVersion": "apps/v1"}),
            patch(f"{MAPS}/m", {"kind": None}),
        ),
    ),
    Story(
        "patches-of-what-stays-of-things",
        (
            *quietly(post(DEFINITIONS, definition()), get(_THINGS, until=200), post(_THINGS, _thing("a"))),
            patch(f"{_THINGS}/a", {"metadata": {"uid": "abc"}}),
            patch(f"{_THINGS}/a", {"kind": "Other"}),
            patch(f"{_THINGS}/a", {"apiVersion": "v1"}),
            patch(f"{_THINGS}/a", {"kind": None}),
            post(_THINGS, {**_thing("b"), "apiVersion": "v1"}),
            post(_THINGS, {**_thing("b"), "apiVersion": ""}),
            post(_THINGS, {**_thing("b"), "kind": "Other"}),
            post(_THINGS, {**_thing("b"), "apiVersion": "v1", "kind": "Other"}),
            put(f"{_THINGS}/a", {**_thing("a"), "apiVersion": "v1"}),
            get(_THINGS, accept="text/html"),
            get(_THINGS, accept="application/json;as=Table;v=v9;g=meta.k8s.io"),
            get(f"{_THINGS}?{_WATCH}", accept="text/html"),
        ),
    ),
    Story(
        "forms-that-nobody-has",
        (
            *quietly(post(MAPS, named("m"))),
            get(MAPS, accept="text/html"),
            get(f"{MAPS}/nobody", accept="text/html"),
            delete(f"{MAPS}/nobody", accept="text/html"),
            get(MAPS, accept=""),
            get(MAPS, accept="text/*"),
            get(MAPS, accept="application/*"),
            get(MAPS, accept="text/html;q=0.9,application/json;q=0.1"),
            get(f"{MAPS}/m", accept="text/html"),
            get(f"{MAPS}/m", accept="text/html, */*"),
            get(MAPS, accept="application/json;as=Table;v=v9;g=meta.k8s.io"),
            get(MAPS, accept="application/json;as=Table;v=v9;g=meta.k8s.io,application/json"),
            get(MAPS, accept="application/json;as=Other;v=v1;g=meta.k8s.io"),
            get(f"{MAPS}?{_WATCH}", accept="text/html"),
            post(MAPS, named("n"), accept="text/html"),
            get(f"{MAPS}?includeObject=Bad", accept="application/json;as=Table;v=v1;g=meta.k8s.io"),
            get(f"{MAPS}/m?includeObject=Bad", accept="application/json;as=Table;v=v1;g=meta.k8s.io"),
            get(f"{MAPS}?includeObject=Bad"),
            post(f"{MAPS}?fieldManager=a%00b", named("o")),
            post(f"{MAPS}?fieldManager=%C3%A9", named("o")),
            patch(f"{MAPS}/m?fieldManager=a%0Ab", {}),
        ),
    ),
)
