"""The stories that were played on a real API server: `asked.py` says what a step is."""

from unit.embedded.asked import Step, job, node, pod, widget, workload

STORIES: dict[str, list[Step]] = {
    "an-applier-owns-what-he-sends": [
        Step("apply", "alice", widget("w1", {"color": "red", "tags": ["a"], "options": {"x": "1"}})),
        Step("apply", "alice", widget("w1", {"color": "red", "tags": ["a"], "options": {"x": "1"}})),
        Step("apply", "alice", widget("w1", {"color": "green", "options": {"y": "2"}})),
    ],
    "two-appliers-share-what-is-equal-and-conflict-over-the-rest": [
        Step("apply", "alice", widget("w2", {"color": "red", "size": 3, "steps": ["one"]})),
        Step("apply", "bob", widget("w2", {"color": "red", "shade": "light"})),
        Step("apply", "bob", widget("w2", {"color": "blue", "size": 4, "steps": ["two"]})),
        Step("force", "bob", widget("w2", {"color": "blue", "size": 4, "steps": ["two"]})),
        Step("apply", "alice", widget("w2", {"color": "blue"})),
        Step("apply", "bob", widget("w2", {"color": "blue"})),
    ],
    "items-of-a-list-map-have-owners": [
        Step("apply", "alice", widget("w3", {"color": "red", "parts": [{"name": "a", "count": 1}, {"name": "b"}]})),
        Step("apply", "bob", widget("w3", {"color": "red", "parts": [{"name": "c", "kind": "odd", "note": "n"}]})),
        Step("apply", "bob", widget("w3", {"color": "red", "parts": [{"name": "b", "note": "mine"}, {"name": "a"}]})),
        Step("apply", "bob", widget("w3", {"color": "red", "parts": [{"name": "a", "count": 2}]})),
        Step("apply", "alice", widget("w3", {"color": "red", "parts": [{"name": "b"}]})),
        Step("apply", "alice", widget("w3", {"color": "red"})),
    ],
    "the-order-of-a-list-map-is-what-the-last-applier-wants": [
        Step("apply", "alice", widget("w4", {"color": "red", "parts": [{"name": n} for n in "abcd"]})),
        Step("apply", "bob", widget("w4", {"color": "red", "parts": [{"name": n} for n in "xdyb"]})),
        Step("apply", "alice", widget("w4", {"color": "red", "parts": [{"name": n} for n in "dcba"]})),
        Step("apply", "carol", widget("w4", {"color": "red", "parts": [{"name": n} for n in "pcqar"]})),
    ],
    "sets-belong-to-several": [
        Step("apply", "alice", widget("w5", {"color": "red", "tags": ["a", "b"]})),
        Step("apply", "bob", widget("w5", {"color": "red", "tags": ["b", "c"]})),
        Step("apply", "alice", widget("w5", {"color": "red", "tags": []})),
        Step("apply", "bob", widget("w5", {"color": "red"})),
    ],
    "an-atomic-map-is-one-field": [
        Step("apply", "alice", widget("w6", {"color": "red", "whole": {"a": "1"}, "free": {"deep": {"x": 1}}})),
        Step("apply", "bob", widget("w6", {"color": "red", "whole": {"b": "1"}, "free": {"deep": {"y": [1]}}})),
        Step("force", "bob", widget("w6", {"color": "red", "whole": {"b": "1"}, "free": {"deep": {"y": [1]}}})),
    ],
    "an-update-takes-over-what-it-changes": [
        Step(
            "create", "carol", widget("w7", {"color": "red", "size": 5, "nested": {}}, metadata={"labels": {"a": "1"}})
        ),
        Step("apply", "alice", widget("w7", {"color": "green"})),
        Step("force", "alice", widget("w7", {"color": "green", "parts": [{"name": "a"}]})),
        Step("merge", "dave", {"spec": {"color": "blue", "size": 6}, "metadata": {"annotations": {"k": "v"}}}),
        Step("merge", "dave", {"spec": {"parts": None}}),
        Step("apply", "alice", widget("w7", {"color": "green"})),
        Step("json", "erin", [{"op": "add", "path": "/spec/tags", "value": ["x"]}]),
        Step("merge", "erin", {"spec": {"color": "blue"}}),
    ],
    "a-status-has-owners-of-its-own": [
        Step("create", "carol", widget("w8", {"color": "red"}, status={"phase": "ignored"})),
        Step("merge", "controller", {"status": {"phase": "Running"}, "spec": {"color": "blue"}}, "status"),
        Step("apply", "other", widget("w8", status={"conditions": [{"type": "Ready", "status": "True"}]}), "status"),
        Step("apply", "other", widget("w8", status={"phase": "Done"}), "status"),
        Step("force", "other", widget("w8", status={"phase": "Done"}), "status"),
        Step("apply", "alice", widget("w8", {"color": "red"}, status={"phase": "Mine"})),
        Step("merge", "controller", {"metadata": {"labels": {"from": "status"}}}, "status"),
    ],
    "metadata-has-owners": [
        Step(
            "apply", "alice", widget("w9", {"color": "red"}, metadata={"labels": {"a": "1"}, "finalizers": ["x.dev/a"]})
        ),
        Step(
            "apply", "bob", widget("w9", {"color": "red"}, metadata={"labels": {"b": "1"}, "finalizers": ["x.dev/b"]})
        ),
        Step("apply", "alice", widget("w9", {"color": "red"})),
        Step("apply", "bob", widget("w9", {"color": "red"})),
    ],
    "reset-managed-fields-then-apply": [
        Step("create", "carol", widget("w10", {"color": "red", "size": 5})),
        Step("merge", "dave", {"metadata": {"managedFields": [{}]}}),
        Step("merge", "dave", {"spec": {"size": 6}}),
        Step("apply", "alice", widget("w10", {"color": "red", "shade": "light"})),
        Step("apply", "alice", widget("w10", {"color": "green", "shade": "light"})),
    ],
    "an-empty-map-and-null": [
        Step("apply", "alice", widget("w11", {"color": "red", "nested": {}, "options": {}, "parts": [], "free": {}})),
        Step("apply", "alice", widget("w11", {"color": "red", "nested": {"maybe": None}})),
        Step("apply", "alice", widget("w11", {"color": "red"})),
    ],
    "only-ten-updaters-are-remembered": [
        Step("create", "u00", widget("w14", {"color": "red"})),
        *(Step("merge", f"u{n:02}", {"metadata": {"labels": {f"l{n}": "x"}}}) for n in range(1, 13)),
    ],
    "a-list-that-becomes-empty": [
        Step("apply", "alice", widget("w16", {"color": "red", "tags": ["a"], "parts": [{"name": "a"}]})),
        Step("apply", "alice", widget("w16", {"color": "red", "tags": [], "parts": []})),
        Step("apply", "alice", widget("w16", {"color": "red", "tags": [], "parts": []})),
        Step("apply", "alice", widget("w16", {"color": "red"})),
    ],
    "a-map-that-becomes-empty": [
        Step("apply", "alice", widget("w17", {"color": "red", "nested": {"deep": "x"}, "options": {"a": "x"}})),
        Step("apply", "alice", widget("w17", {"color": "red", "nested": {}, "options": {}})),
        Step("apply", "alice", widget("w17", {"color": "red", "nested": {}, "options": {}})),
        Step("apply", "alice", widget("w17", {"color": "red", "free": {"a": {"b": {"c": 1}}}})),
        Step("apply", "alice", widget("w17", {"color": "red", "free": {"a": {"b": {}}}})),
        Step("apply", "alice", widget("w17", {"color": "red", "free": {"a": {"b": {}}}})),
        Step("apply", "alice", widget("w17", {"color": "red", "free": {}})),
    ],
    "an-applier-who-changes-nothing": [
        Step("apply", "alice", widget("w15", {"color": "red", "size": 2})),
        Step("apply", "bob", widget("w15", {"color": "red"})),
        Step("apply", "bob", widget("w15", {"color": "red"})),
        Step("apply", "alice", widget("w15", {"size": 2, "color": "red"})),
    ],
    "a-status-of-a-pod-is-applied": [
        Step("create", "carol", pod("p3")),
        Step(
            "apply",
            "kubelet",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p3", "labels": {"a": "b"}},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
            },
            "status",
        ),
        Step("strategic", "other", {"status": {"message": "hello"}, "metadata": {"labels": {"x": "y"}}}, "status"),
    ],
    "a-field-that-is-not-there": [
        Step("apply", "alice", widget("w12", {"color": "red", "unknown": 1})),
        Step("apply", "alice", widget("w12", {"color": "red", "tags": ["a", "a"]})),
        Step("apply", "alice", widget("w12", {"color": "red", "parts": [{"name": "a"}, {"name": "a"}]})),
        Step("apply", "alice", widget("w12", {"color": "red", "parts": [{"count": 1, "kind": "odd"}]})),
    ],
    "kubectl-moves-from-client-side-to-server-side": [
        Step(
            "create",
            "kubectl-client-side-apply",
            widget(
                "w13",
                {"color": "red", "size": 5},
                metadata={
                    "annotations": {
                        "kubectl.kubernetes.io/last-applied-configuration": (
                            '{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{"annotations":{},"name":"w13",'
                            '"namespace":"default"},"spec":{"color":"red","size":5}}\n'
                        )
                    }
                },
            ),
        ),
        Step("apply", "kubectl", widget("w13", {"color": "green", "size": 5})),
        Step("merge", "other", {"spec": {"size": 7}}),
        Step("apply", "kubectl", widget("w13", {"color": "green", "size": 8})),
    ],
    "a-pod-is-created-and-patched": [
        Step("create", "carol", pod("p1", schedulerName="muster", tolerations=[{"key": "a", "operator": "Exists"}])),
        Step("strategic", "dave", {"metadata": {"labels": {"a": "1"}}}),
        Step("strategic", "dave", {"spec": {"containers": [{"name": "main", "image": "two"}]}}),
        Step(
            "strategic",
            "kubelet",
            {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
            "status",
        ),
        Step("strategic", "kubelet", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, "status"),
        Step("apply", "alice", pod("p1", image="three")),
        Step("force", "alice", pod("p1", image="three")),
    ],
    "a-pod-is-applied": [
        Step(
            "apply",
            "alice",
            pod(
                "p2",
                containers=[
                    {
                        "name": "main",
                        "image": "one",
                        "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}],
                        "env": [{"name": "A", "value": "1"}],
                        "resources": {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": 1}},
                    }
                ],
                volumes=[{"name": "v", "emptyDir": {}}],
                nodeSelector={"zone": "a"},
            ),
        ),
        Step("strategic", "dave", {"metadata": {"annotations": {"a": "b"}, "finalizers": ["x.dev/y"]}}),
        Step("strategic", "dave", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.dev/y"]}}),
    ],
    "a-node-and-its-taints": [
        Step(
            "create",
            "carol",
            node("n1", metadata={"labels": {"zone": "a"}}, spec={"taints": [{"key": "a", "effect": "NoSchedule"}]}),
        ),
        Step(
            "strategic",
            "kubelet",
            {"status": {"capacity": {"cpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}},
            "status",
        ),
        Step(
            "strategic",
            "kubelet",
            {
                "status": {
                    "conditions": [{"type": "DiskPressure", "status": "False"}],
                    "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                }
            },
            "status",
        ),
        Step("strategic", "dave", {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}], "unschedulable": True}}),
        Step(
            "strategic",
            "kubelet",
            {
                "status": {
                    "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "DiskPressure"}],
                    "conditions": [{"type": "PIDPressure", "status": "False"}],
                }
            },
            "status",
        ),
        Step(
            "strategic",
            "kubelet",
            {
                "status": {
                    "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "DiskPressure"}],
                    "conditions": [{"type": "Ready", "status": "False"}],
                }
            },
            "status",
        ),
        Step("strategic", "kubelet", {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}, "status"),
        Step(
            "strategic",
            "kubelet",
            {"status": {"conditions": [{"$patch": "replace"}, {"type": "Only", "status": "True"}]}},
            "status",
        ),
        Step(
            "json",
            "dave",
            [
                {"op": "test", "path": "/spec/unschedulable", "value": True},
                {"op": "remove", "path": "/spec/unschedulable"},
            ],
        ),
        Step("json", "dave", [{"op": "test", "path": "/spec/unschedulable", "value": True}]),
        Step("json", "dave", [{"op": "replace", "path": "/metadata/labels/new", "value": "x"}]),
        Step("json", "dave", [{"op": "move", "from": "/metadata/labels/new", "path": "/metadata/labels/moved"}]),
        Step("json", "dave", [{"op": "copy", "from": "/metadata/labels/moved", "path": "/metadata/labels/co~1py"}]),
        Step("json", "dave", [{"op": "remove", "path": "/metadata/labels/none"}]),
        Step("json", "dave", [{"op": "add", "path": "/spec/taints/-", "value": {"key": "c", "effect": "NoSchedule"}}]),
        Step("json", "dave", [{"op": "add", "path": "/spec/taints/9", "value": {"key": "d", "effect": "NoSchedule"}}]),
    ],
    "a-job-is-created": [Step("create", "carol", job("j1")), Step("strategic", "dave", {"spec": {"suspend": True}})],
    "a-statefulset-is-created": [
        Step("create", "carol", workload("StatefulSet", "s1", serviceName="s", replicas=2)),
        Step("merge", "dave", {"spec": {"replicas": 3}}),
        Step(
            "apply",
            "alice",
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s1"}, "spec": {"replicas": 4}},
        ),
    ],
    "a-deployment-is-created": [
        Step("create", "carol", workload("Deployment", "d1")),
        Step("strategic", "dave", {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
        Step("strategic", "dave", {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "s"}]}}}}),
        Step(
            "strategic",
            "dave",
            {"spec": {"template": {"spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}]}}}},
        ),
        Step(
            "strategic",
            "dave",
            {
                "spec": {
                    "template": {
                        "spec": {
                            "containers": [
                                {
                                    "name": "main",
                                    "env": [{"name": "B", "value": "1"}, {"name": "A", "$patch": "delete"}],
                                }
                            ],
                            "nodeSelector": {"a": "b"},
                        }
                    }
                }
            },
        ),
        Step(
            "strategic",
            "dave",
            {
                "spec": {
                    "template": {
                        "spec": {
                            "containers": [{"name": "side", "$patch": "delete"}],
                            "nodeSelector": {"$patch": "replace", "c": "d"},
                        }
                    }
                }
            },
        ),
        Step("strategic", "dave", {"spec": {"template": {"spec": {"containers": [{"image": "nameless"}]}}}}),
        Step("strategic", "dave", {"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}}),
        Step("merge", "dave", {"metadata": {"labels": {"x": "y", "z": None}}, "spec": {"replicas": None}}),
    ],
    "a-replicaset-is-created": [Step("create", "carol", workload("ReplicaSet", "r1"))],
    "a-budget-is-created": [
        Step(
            "create",
            "carol",
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "b1"},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
            },
        )
    ],
    "a-lease-is-created": [
        Step(
            "create",
            "carol",
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": "l1"},
                "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15},
            },
        ),
        Step("merge", "dave", {"spec": {"holderIdentity": "you"}}),
    ],
    "an-event-is-created": [
        Step(
            "create",
            "carol",
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": "e1"},
                "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
                "reason": "Because",
                "type": "Normal",
                "count": 1,
            },
        )
    ],
    "a-priority-class-is-created": [
        Step(
            "create",
            "carol",
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "c1"}, "value": 7},
        )
    ],
    "a-config-map-is-created": [
        Step(
            "create", "carol", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m1"}, "data": {"a": "1"}}
        ),
        Step(
            "apply", "alice", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m1"}, "data": {"b": "1"}}
        ),
        Step(
            "apply", "alice", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m1"}, "data": {"a": "2"}}
        ),
    ],
    "a-namespace-is-created": [
        Step("create", "carol", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns1"}})
    ],
    "a-service-account-is-created": [
        Step(
            "create",
            "carol",
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "a1"},
                "imagePullSecrets": [{"name": "x"}],
            },
        )
    ],
}
