"""Stories of objects of all kinds: created, read, listed, changed, deleted."""

from fidelity.making import (
    BUDGETS,
    CLASSES,
    EVENTS,
    JOBS,
    LEASES,
    MAPS,
    NODES,
    PARTIAL,
    PARTIALS,
    PODS,
    SETS,
    TABLE,
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
from fidelity.play import Step, Story

NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/{ns}/events"

_LABELS = {"a": "b"}
_WHOLE = {
    "containers": [
        {
            "name": "c",
            "image": "registry/i",
            "ports": [{"containerPort": 80}],
            "env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "resources": {"limits": {"cpu": "1000m", "memory": "0.5Gi", "nvidia.com/gpu": 1}},
            "livenessProbe": {"httpGet": {"port": 80}},
            "volumeMounts": [{"name": "u", "mountPath": "/u"}],
        }
    ],
    "initContainers": [{"name": "i", "image": "x:1"}],
    "volumes": [
        {"name": "v", "configMap": {"name": "m"}},
        {"name": "w", "secret": {"secretName": "m"}},
        {"name": "u"},
        {"name": "h", "hostPath": {"path": "/x"}},
    ],
    "nodeSelector": {"zone": "a"},
    "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
}
_HOOK = {
    "webhooks": [
        {
            "name": "a.b.c",
            "clientConfig": {"url": "https://127.0.0.1:1/x"},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
    ]
}
_RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}"

STORIES = (
    Story(
        "pods",
        (
            post(PODS, pod("a", _WHOLE, labels=_LABELS, annotations={})),
            get(f"{PODS}/a"),
            get(PODS),
            get(PODS, accept=TABLE),
            get(f"{PODS}/a", accept=TABLE),
            get(f"{PODS}/a", accept=PARTIAL),
            get(PODS, accept=PARTIAL),
            get(PODS, accept=PARTIALS),
            get(f"{PODS}?includeObject=None", accept=TABLE),
            get(f"{PODS}?includeObject=Object", accept=TABLE),
            post(PODS, pod("a")),
            post(
                PODS,
                pod(
                    "guaranteed",
                    {
                        "containers": [
                            {"name": "c", "image": "i", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}
                        ]
                    },
                ),
            ),
            post(PODS, {"metadata": {"generateName": "gen-"}, "spec": pod("")["spec"]}),
            get(f"{PODS}/missing"),
            get("/api/v1/namespaces/nowhere/pods"),
            post("/api/v1/namespaces/nowhere/pods", pod("a")),
            post(PODS, pod("other", namespace="default")),
            post(PODS, pod("dry", {}), save="dry")._replace(path=f"{PODS}?dryRun=All"),
            get(f"{PODS}/dry"),
            post(f"{PODS}?dryRun=Some", pod("dry")),
            delete(f"{PODS}/a?dryRun=All"),
            delete(f"{PODS}/a"),
            delete(f"{PODS}/a"),
            get(f"{PODS}/a"),
        ),
    ),
    Story(
        "bad-pods",
        (
            post(PODS, {"metadata": {"name": "a"}, "spec": {}}),
            post(PODS, {"metadata": {"name": "a"}, "spec": {"containers": []}}),
            post(PODS, {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}),
            post(PODS, {"metadata": {"name": "a"}, "spec": {"containers": [{"image": "i"}]}}),
            post(PODS, pod("A_b")),
            post(PODS, pod("")),
            post(PODS, pod("a", labels={"a b": "c"})),
            post(PODS, pod("a", labels={"a": "b c"})),
            post(PODS, pod("a", {"restartPolicy": "Sometimes"})),
            post(PODS, pod("a", {"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]})),
            post(PODS, pod("a", {"containers": [{"name": "C", "image": "i"}]})),
            post(
                PODS,
                pod(
                    "a",
                    {
                        "containers": [
                            {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}
                        ]
                    },
                ),
            ),
            post(
                PODS,
                pod(
                    "a",
                    {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"nvidia.com/gpu": "2"}}}]},
                ),
            ),
            post(PODS, pod("a", {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"gpu": "2"}}}]})),
            post(
                PODS,
                pod(
                    "a",
                    {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
                ),
            ),
            post(PODS, pod("a", {"priorityClassName": "nobody"})),
            post(PODS, pod("a", {"nodeName": "n", "schedulingGates": [{"name": "x/y"}]})),
            post(PODS, pod("a", {"tolerations": [{"operator": "Equal"}]})),
            post(PODS, pod("a", ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "x"}])),
            post(PODS, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}),
            post(PODS, {"apiVersion": "apps/v1", "kind": "Pod", "metadata": {"name": "a"}}),
            post(f"{PODS}?fieldValidation=Strict", {**pod("a"), "surprise": 1}),
            post(f"{PODS}?fieldValidation=Strict", pod("a", {"surprise": 1, "other": {"x": 1}})),
            post(f"{PODS}?fieldValidation=Warn&dryRun=All", pod("a", {"surprise": 1})),
            post(f"{PODS}?fieldValidation=Ignore&dryRun=All", pod("a", {"surprise": 1})),
            post(PODS, pod("a", resourceVersion="5")),
            Step("POST", PODS, raw="{}", content_type="application/xml"),
            post(f"{PODS}/a", pod("a")),
            put(PODS, pod("a")),
        ),
    ),
    Story(
        "priorities",
        (
            post(CLASSES, {**named("{ns}-high"), "value": 100}),
            post(CLASSES, {**named("{ns}-never"), "value": 7, "preemptionPolicy": "Never", "description": "d"}),
            post(PODS, pod("a", {"priorityClassName": "{ns}-high"})),
            post(PODS, pod("b", {"priorityClassName": "{ns}-never"})),
            post(PODS, pod("c", {"priorityClassName": "system-node-critical"})),
            patch(f"{CLASSES}/{{ns}}-high", {"value": 101}),
            patch(f"{CLASSES}/{{ns}}-high", {"description": "x"}),
            post(CLASSES, {**named("system-mine"), "value": 7}),
            post(CLASSES, {**named("{ns}-most"), "value": 1000000001}),
            get(f"{CLASSES}/{{ns}}-high", accept=TABLE),
            delete(f"{CLASSES}/{{ns}}-high"),
            delete(f"{CLASSES}/{{ns}}-never"),
        ),
    ),
    Story(
        "workloads",
        (
            post(JOBS, {**named("j"), "spec": {"template": template(_LABELS, restartPolicy="Never")}}),
            post(
                JOBS,
                {
                    **named("k"),
                    "spec": {
                        "parallelism": 4,
                        "completions": 8,
                        "template": template(_LABELS, restartPolicy="OnFailure"),
                    },
                },
            ),
            post(
                JOBS,
                {
                    **named("m", labels={"own": "label"}),
                    "spec": {"suspend": True, "template": template({}, restartPolicy="Never")},
                },
            ),
            post(JOBS, {**named("x"), "spec": {"template": template(_LABELS)}}),
            post(
                JOBS, {**named("x"), "spec": {"parallelism": -1, "template": template(_LABELS, restartPolicy="Never")}}
            ),
            get(JOBS, accept=TABLE),
            patch(f"{JOBS}/j", {"spec": {"parallelism": 3}}),
            patch(f"{JOBS}/j/status", {"status": {"active": 1, "startTime": "2026-01-01T00:00:00Z"}}),
            get(f"{JOBS}/j", accept=TABLE),
            post(SETS, {**named("s"), "spec": {"selector": {"matchLabels": _LABELS}, "template": template(_LABELS)}}),
            post(
                SETS, {**named("x"), "spec": {"selector": {"matchLabels": _LABELS}, "template": template({"a": "c"})}}
            ),
            post(
                SETS,
                {
                    **named("x"),
                    "spec": {
                        "selector": {"matchLabels": _LABELS},
                        "template": template(_LABELS, restartPolicy="Never"),
                    },
                },
            ),
            patch(f"{SETS}/s", {"spec": {"replicas": 3}}),
            patch(f"{SETS}/s", {"spec": {"serviceName": "other"}}),
            get(f"{SETS}/s/scale"),
            patch(f"{SETS}/s/scale", {"spec": {"replicas": 5}}),
            get(f"{SETS}/s", accept=TABLE),
            patch(f"{SETS}/s/status", {"status": {"replicas": 2, "readyReplicas": 1}}),
            post(
                "/apis/apps/v1/namespaces/{ns}/deployments",
                {**named("d"), "spec": {"selector": {"matchLabels": _LABELS}, "template": template(_LABELS)}},
            ),
            post(
                "/apis/apps/v1/namespaces/{ns}/replicasets",
                {**named("r"), "spec": {"selector": {"matchLabels": _LABELS}, "template": template(_LABELS)}},
            ),
            get("/apis/apps/v1/namespaces/{ns}/deployments", accept=TABLE),
            get("/apis/apps/v1/namespaces/{ns}/replicasets", accept=TABLE),
            delete(f"{SETS}/s"),
            delete(f"{JOBS}/j"),
        ),
    ),
    Story(
        "small-kinds",
        (
            post(MAPS, {**named("m"), "data": {"a": "b"}}),
            get(MAPS, accept=TABLE),
            put(f"{MAPS}/m", {**named("m"), "data": {"a": "c"}}),
            put(f"{MAPS}/m", {**named("m"), "data": {"a": "c"}, "immutable": True}),
            put(f"{MAPS}/m", {**named("m"), "data": {"a": "d"}, "immutable": True}),
            put(f"{MAPS}/missing", named("missing")),
            put(f"{MAPS}/m", named("other")),
            post("/api/v1/namespaces/{ns}/secrets", {**named("s"), "stringData": {"a": "b"}}),
            get("/api/v1/namespaces/{ns}/secrets", accept=TABLE),
            post("/api/v1/namespaces/{ns}/serviceaccounts", named("sa")),
            delete("/api/v1/namespaces/{ns}/serviceaccounts/sa"),
            post(
                "/api/v1/namespaces/{ns}/services",
                {**named("svc"), "spec": {"clusterIP": "None", "selector": _LABELS, "ports": [{"port": 80}]}},
            ),
            get("/api/v1/namespaces/{ns}/services", accept=TABLE),
            post(
                f"{_RBAC}/roles",
                {**named("r"), "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
            ),
            post(
                f"{_RBAC}/rolebindings",
                {
                    **named("r"),
                    "roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"},
                    "subjects": [
                        {"kind": "ServiceAccount", "name": "x", "namespace": "y"},
                        {"kind": "User", "name": "x"},
                    ],
                },
            ),
            get(f"{_RBAC}/rolebindings", accept=TABLE),
            get(f"{_RBAC}/roles/r", accept=TABLE),
            post(
                "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations?dryRun=All",
                {**named("{ns}"), **_HOOK},
            ),
            post(
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}},
            )._replace(compare=False),
        ),
    ),
    Story(
        "leases",
        (
            post(LEASES, {**named("l"), "spec": {"holderIdentity": "x", "leaseDurationSeconds": 15}}, save="l"),
            put(f"{LEASES}/l", {**named("l"), "spec": {"holderIdentity": "y"}}),
            put(
                f"{LEASES}/l",
                {
                    **named("l", resourceVersion="<<l:metadata.resourceVersion>>"),
                    "spec": {"holderIdentity": "y", "renewTime": "2026-01-01T00:00:00.123456Z"},
                },
            ),
            put(
                f"{LEASES}/l",
                {**named("l", resourceVersion="<<l:metadata.resourceVersion>>"), "spec": {"holderIdentity": "z"}},
            ),
            put(f"{LEASES}/new", {**named("new"), "spec": {"holderIdentity": "z"}}),
            patch(f"{LEASES}/l", {"spec": {"leaseDurationSeconds": 0}}),
            get(LEASES, accept=TABLE),
            delete(f"{LEASES}/l"),
        ),
    ),
    Story(
        "events",
        (
            post(
                EVENTS,
                {
                    **named("e"),
                    "involvedObject": {"kind": "Pod", "name": "a", "namespace": "{ns}"},
                    "reason": "R",
                    "message": "m",
                    "type": "Normal",
                },
            ),
            get("/apis/events.k8s.io/v1/namespaces/{ns}/events/e"),
            post(
                "/apis/events.k8s.io/v1/namespaces/{ns}/events",
                {
                    **named("f"),
                    "regarding": {"kind": "Pod", "name": "a", "namespace": "{ns}"},
                    "reason": "R",
                    "note": "n",
                    "eventTime": "2026-01-01T00:00:00.000000Z",
                    "reportingController": "c",
                    "reportingInstance": "i",
                    "action": "A",
                    "type": "Warning",
                },
            ),
            get(f"{EVENTS}/f"),
            get(f"{EVENTS}?fieldSelector=involvedObject.name%3Da", accept=TABLE),
            get(f"{EVENTS}?fieldSelector=involvedObject.name%3Db"),
            get(f"{EVENTS}?fieldSelector=type%3DWarning"),
            post(EVENTS, {**named("g"), "involvedObject": {"kind": "Pod", "name": "a", "namespace": "other"}}),
            patch(f"{EVENTS}/e", {"count": 2, "lastTimestamp": "2026-01-01T00:00:00Z"}),
            get("/apis/events.k8s.io/v1/namespaces/{ns}/events"),
            delete(f"{EVENTS}/e"),
        ),
    ),
    Story(
        "event-selectors",
        (
            *quietly(
                post(
                    NEW_EVENTS,
                    {
                        **named("f"),
                        "regarding": {"kind": "Pod", "name": "a", "namespace": "{ns}"},
                        "reason": "R",
                        "note": "n",
                        "eventTime": "2026-01-01T00:00:00.000000Z",
                        "reportingController": "c",
                        "reportingInstance": "i",
                        "action": "A",
                        "type": "Warning",
                    },
                )
            ),
            *(
                get(f"{folder}?fieldSelector={field}%3D{value}")
                for field, value in (
                    ("regarding.name", "a"),
                    ("regarding.kind", "Job"),
                    ("involvedObject.name", "a"),
                    ("reportingController", "c"),
                    ("reportingComponent", "c"),
                    ("reason", "R"),
                    ("source", "c"),
                    ("metadata.name", "f"),
                )
                for folder in (NEW_EVENTS, EVENTS)
            ),
            get(f"{NEW_EVENTS}?fieldSelector=regarding.name%3Da,type%3DWarning", accept=TABLE),
            delete(f"{NEW_EVENTS}?fieldSelector=regarding.name%3Da"),
            get(NEW_EVENTS),
        ),
    ),
    Story(
        "nodes",
        (
            post(
                NODES,
                {**named("{ns}-n", labels={"zone": "z"}), "status": {"capacity": {"cpu": "8", "nvidia.com/gpu": 8}}},
            ),
            patch(f"{NODES}/{{ns}}-n", {"spec": {"unschedulable": True}}),
            get(f"{NODES}/{{ns}}-n", accept=TABLE),
            patch(f"{NODES}/{{ns}}-n", {"spec": {"unschedulable": False}}),
            patch(f"{NODES}/{{ns}}-n", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
            patch(
                f"{NODES}/{{ns}}-n/status",
                {
                    "status": {
                        "conditions": [{"type": "Ready", "status": "True", "reason": "R"}],
                        "allocatable": {"cpu": "7"},
                    }
                },
                "application/strategic-merge-patch+json",
            ),
            get(f"{NODES}/{{ns}}-n", accept=TABLE),
            get(f"{NODES}?fieldSelector=metadata.name%3D{{ns}}-n"),
            get(
                f"{NODES}?labelSelector=zone%3Dz,zone%20in%20(z,y)&fieldSelector=metadata.name%3D{{ns}}-n", accept=TABLE
            ),
            get("/api/v1/namespaces/{ns}/nodes"),
            delete(f"{NODES}/{{ns}}-n"),
            delete(f"{NODES}/{{ns}}-n"),
        ),
    ),
    Story(
        "budgets",
        (
            post(BUDGETS, {**named("b"), "spec": {"minAvailable": 1, "selector": {"matchLabels": _LABELS}}}, save="b"),
            post(BUDGETS, {**named("c"), "spec": {"maxUnavailable": "50%", "selector": {}}}),
            post(BUDGETS, {**named("x"), "spec": {"minAvailable": -1}}),
            post(BUDGETS, {**named("x"), "spec": {"minAvailable": "x"}}),
            put(f"{BUDGETS}/b", {**named("b"), "spec": {"minAvailable": 2, "selector": {"matchLabels": _LABELS}}}),
            patch(f"{BUDGETS}/b", {"spec": {"minAvailable": 2}}),
            patch(f"{BUDGETS}/b/status", {"status": {"disruptionsAllowed": 1, "observedGeneration": 2}}),
            get(BUDGETS, accept=TABLE),
            delete(f"{BUDGETS}/b"),
        ),
    ),
    Story(
        "namespaces",
        (
            get("/api/v1/namespaces/{ns}"),
            get("/api/v1/namespaces/{ns}", accept=TABLE),
            post("/api/v1/namespaces", named("Not_a_label")),
            post("/api/v1/namespaces", named("{ns}")),
            patch("/api/v1/namespaces/{ns}", {"metadata": {"labels": {"a": "b"}}}),
            delete("/api/v1/namespaces/default"),
            *quietly(post(MAPS, named("m", finalizers=["example.com/hold"]))),
            delete("/api/v1/namespaces/{ns}"),
            post(MAPS, named("late")),
            get("/api/v1/namespaces/missing"),
        ),
    ),
)
