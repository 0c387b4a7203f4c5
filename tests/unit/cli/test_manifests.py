"""`muster manifests`: complete, least privilege, the same every time. tests/e2e has what an API server says to it."""

import ast
import json
import re
from pathlib import Path

import click
import pytest
import yaml

from muster.api.kinds import CORE_KINDS, OUR_KINDS
from muster.cli.installation import PARTS, WEBHOOK_PATH, Wishes, installation
from muster.cli.main import cli
from muster.cli.roles import plural_of, workload_rules
from muster.cli.showing import where_of
from muster.config import known_keys, load, variable_of
from muster.grouping.built_in import built_in_interfaces
from muster.serve import server

ROOT = Path(__file__).parents[3]
CATALOG_FIXTURES = ROOT / "tests" / "grouping" / "catalog"
ALL = Wishes(service_monitor=True)
BINDINGS = ("ClusterRoleBinding", "RoleBinding")
READ = {"get", "list", "watch"}


def documents(wishes: Wishes = ALL) -> list[dict]:
    return [piece.document for piece in installation(wishes)]


def one(kind: str, name: str = "muster", wishes: Wishes = ALL) -> dict:
    (found,) = [item for item in documents(wishes) if (item["kind"], item["metadata"]["name"]) == (kind, name)]
    return found


def kinds(wishes: Wishes) -> set[tuple[str, str]]:
    return {(item["kind"], item["metadata"]["name"]) for item in documents(wishes)}


def rules(wishes: Wishes = ALL) -> list[dict]:
    return [
        rule for item in documents(wishes) if item["kind"] in ("ClusterRole", "Role") for rule in item.get("rules", [])
    ]


def granted(group: str, resource: str, wishes: Wishes = ALL) -> set[str]:
    """The verbs that the service account has on a resource, by all roles that are bound to it, without names."""
    bound = {item["roleRef"]["name"] for item in documents(wishes) if item["kind"] in BINDINGS} | {"muster-workloads"}
    return {
        verb
        for item in documents(wishes)
        if item["kind"] in ("ClusterRole", "Role") and item["metadata"]["name"] in bound
        for rule in item.get("rules", [])
        if group in rule["apiGroups"] and resource in rule["resources"]
        for verb in rule["verbs"]
    }


# The command.


def test_every_form_has_the_same_objects(muster):
    found = list(yaml.safe_load_all(muster("manifests").out))
    assert found == documents(Wishes())
    assert muster("manifests", "-o", "json").json["items"] == found
    assert len(muster("manifests", "-o", "name").out.splitlines()) == len(found)
    assert len(muster("manifests", "-o", "table").out.splitlines()) == len(found) + 1
    assert "deployment.apps/muster" in muster("manifests", "-o", "name").out.splitlines()


def test_the_same_bytes_every_time(muster):
    assert muster("manifests").out == muster("manifests").out
    assert not re.search(r"\d{4}-\d\d-\d\d", muster("manifests", "--without", "crds").out)


def test_the_crds_are_those_of_the_other_command(muster):
    crds = [item for item in documents() if item["kind"] == "CustomResourceDefinition"]
    assert crds == list(yaml.safe_load_all(muster("crds").out))


def test_options_reach_the_documents(muster):
    run = muster(
        "manifests", "--namespace", "gangs", "--image", "example.com:5000/a/muster:1", "--replicas", "3", "-o", "json"
    )
    by_kind = {(item["kind"], item["metadata"]["name"]): item for item in run.json["items"]}
    deployment = by_kind["Deployment", "muster"]
    assert deployment["spec"]["replicas"] == 3
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "example.com:5000/a/muster:1"
    assert "muster-system" not in run.out
    assert run.err == ""


def test_what_the_configuration_says_is_installed(muster, tmp_path):
    """Only what differs from the defaults, as a file that muster can read; another one makes other pods."""
    file = tmp_path / "muster.yaml"
    file.write_text("defaultQueue: everybody\nschedulerNames: [muster]\n")
    found = muster("manifests", "--config", file, "--set", "search.stepsPerGang=7", "-o", "json").json["items"]
    (text,) = [item["data"]["muster.yaml"] for item in found if item["kind"] == "ConfigMap"]
    document = yaml.safe_load(text)
    assert document == {"defaultQueue": "everybody", "schedulerNames": ["muster"], "search": {"stepsPerGang": 7}}
    assert load(document, file="muster.yaml").config.search.steps_per_gang == 7
    assert [item["metadata"]["name"] for item in found if item["kind"] == "Queue"] == ["everybody"]
    digests = {
        json.dumps(one("Deployment", wishes=Wishes(config=config))["spec"]["template"]["metadata"]["annotations"])
        for config in ({}, {"defaultQueue": "a"}, {"defaultQueue": "b"})
    }
    assert len(digests) == 3


def test_without_any_setting_the_file_says_nothing():
    text = one("ConfigMap")["data"]["muster.yaml"]
    assert load(yaml.safe_load(text), file="muster.yaml").config == load().config


@pytest.mark.parametrize(
    ("args", "words"),
    [
        pytest.param(("--without", "webhok"), "did you mean webhook?", id="part"),
        pytest.param(("--without", ""), "there is no such part", id="no part"),
        pytest.param(("--namespace", "Big_One"), "--namespace can't be 'Big_One'", id="namespace"),
        pytest.param(("--namespace", "a" * 64), "--namespace can't be", id="long namespace"),
        pytest.param(("--image", "a b"), "--image can't be 'a b'", id="image"),
        pytest.param(("--image", ""), "--image can't be ''", id="no image"),
        pytest.param(("--replicas", "0"), "--replicas", id="replicas"),
        pytest.param(("--set", "nonsense=1"), "nonsense", id="setting"),
        pytest.param(("--to", "x", "-o", "json"), "--to writes YAML files", id="two forms"),
        pytest.param(("--to", "/dev/null/x"), "can't write to /dev/null/x", id="folder"),
    ],
)
def test_a_wrong_option_exits_2_and_says_what(muster, args, words):
    run = muster("manifests", *args)
    assert run.code == 2
    assert words in run.err
    assert run.out == ""


def test_who_takes_the_default_image_is_told(muster):
    assert "--image" in muster("manifests").err


def test_a_folder_for_kustomize(muster, tmp_path):
    """One file per object, a list of them in the order of the stream, and a word about what was there before."""
    (tmp_path / "old.yaml").write_text("a: 1\n")
    run = muster("manifests", "--to", tmp_path, "--service-monitor")
    assert (run.code, run.out) == (0, "")
    assert "old.yaml" in run.err
    listed = yaml.safe_load((tmp_path / "kustomization.yaml").read_text())
    assert listed["kind"] == "Kustomization"
    assert [yaml.safe_load((tmp_path / name).read_text()) for name in listed["resources"]] == documents()
    assert (tmp_path / "old.yaml").exists()


# Parts.


@pytest.mark.parametrize("part", PARTS)
def test_each_part_can_be_left_out(part):
    """Nothing of it is left, and nothing else changes."""
    less = documents(ALL._replace(without=frozenset({part})))
    gone = [item for item in documents() if item not in less]
    assert gone
    expected = {
        "namespace": {"Namespace"},
        "crds": {"CustomResourceDefinition"},
        "rbac": {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"},
        "guard": {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"},
        "user-roles": {"ClusterRole", "Role"},
        "budget": {"PodDisruptionBudget"},
        "network-policy": {"NetworkPolicy"},
        "queue": {"Queue"},
        "webhook": {"ClusterRole", "ClusterRoleBinding", "Service", "ValidatingWebhookConfiguration"},
    }
    assert {item["kind"] for item in gone} == expected[part]


def test_the_network_policy_is_about_each_port_that_the_pods_open():
    """Health and metrics for some; the webhook for all, because nobody knows where an API server calls from."""
    (policy,) = [one for one in documents() if one["kind"] == "NetworkPolicy"]
    (deployment,) = [one for one in documents() if one["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    (some, rest) = policy["spec"]["ingress"]
    named = {one["name"]: one["containerPort"] for one in pod["spec"]["containers"][0]["ports"]}
    assert [one["port"] for one in some["ports"]] == [named["http"]]
    assert some["from"] == [
        {"podSelector": {}},
        {"namespaceSelector": {"matchLabels": {"muster.dev/metrics": "allowed"}}},
    ]
    assert "from" not in rest
    assert {one["port"] for one in rest["ports"]} == {named["webhook"], 8420}


def test_without_the_webhook_nothing_of_it_is_left():
    left = json.dumps(documents(ALL._replace(without=frozenset({"webhook"}))))
    assert "WebhookConfiguration" not in left
    assert "webhookconfigurations" not in left


def test_with_cert_manager_no_right_on_the_webhook_is_needed():
    wishes = ALL._replace(cert_manager=True)
    assert kinds(wishes) - kinds(ALL) == {("Issuer", "muster-webhook"), ("Certificate", "muster-webhook")}
    assert {kind for kind, _ in kinds(ALL) - kinds(wishes)} == {"ClusterRole", "ClusterRoleBinding"}
    assert "admissionregistration.k8s.io" not in json.dumps(rules(wishes))
    certificate = one("Certificate", "muster-webhook", wishes)["spec"]
    mounted = one("Deployment", wishes=wishes)["spec"]["template"]["spec"]["volumes"]
    assert certificate["secretName"] in [volume["secret"]["secretName"] for volume in mounted if "secret" in volume]
    assert "muster-webhook.muster-system.svc" in certificate["dnsNames"]


def test_the_page_is_off_and_comes_with_its_rights_alone(muster):
    """Whoever does not serve it has no business to know who anybody is."""
    assert one("Deployment")["spec"]["template"]["spec"]["containers"][0]["args"][-2:] == ["--page", "off"]
    assert "tokenreviews" not in json.dumps(documents())
    wishes = Wishes(page="on", config={"page": {"enabled": "always"}})
    more = kinds(wishes) - kinds(Wishes())
    assert more == {(kind, "muster-page") for kind in ("ClusterRole", "ClusterRoleBinding", "Service")}
    assert one("ClusterRole", "muster-page", wishes)["rules"] == [
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    ]
    (port,) = one("Service", "muster-page", wishes)["spec"]["ports"]
    where = where_of(load(flags=["page.enabled=always"]).config.page, "on", in_pod=True)
    assert (port["targetPort"], where.host) == (where.port, "")
    assert muster("manifests", "--set", "page.enabled=always", "-o", "json").json["items"] == documents(wishes)
    without = wishes._replace(without=frozenset({"rbac"}))
    assert ("ClusterRole", "muster-page") not in kinds(without)


@pytest.mark.parametrize("namespace", ["default", "kube-system"])
def test_a_namespace_of_others_is_not_described(namespace):
    """Its labels would change what all pods there may do."""
    assert "Namespace" not in {kind for kind, _ in kinds(Wishes(namespace=namespace))}


# All documents.


def test_every_object_is_labelled():
    assert {item["metadata"]["labels"]["app.kubernetes.io/part-of"] for item in documents()} == {"muster"}


def test_names_are_unique_and_order_is_by_need():
    order = [item["kind"] for item in documents()]
    assert len(kinds(ALL)) == len(order)
    assert order[0] == "Namespace"
    assert order[-1] == "ValidatingWebhookConfiguration"
    assert (
        order.index("CustomResourceDefinition") < order.index("Queue") < order.index("ValidatingWebhookConfiguration")
    )
    assert order.index("ServiceAccount") < order.index("ClusterRoleBinding") < order.index("Deployment")


def test_all_that_refers_to_another_object_finds_it():
    there = kinds(ALL)
    for item in documents():
        if item["kind"] in BINDINGS:
            assert (item["roleRef"]["kind"], item["roleRef"]["name"]) in there
            assert all((subject["kind"], subject["name"]) in there for subject in item["subjects"])
    pod = one("Deployment")["spec"]["template"]
    assert ("ServiceAccount", pod["spec"]["serviceAccountName"]) in there
    for service in ("muster", "muster-webhook"):
        spec = one("Service", service)["spec"]
        assert spec["selector"].items() <= pod["metadata"]["labels"].items()
        ports = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
        assert {port["targetPort"] for port in spec["ports"]} <= ports
    assert one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()


# Rights.


def test_no_right_is_wider_than_its_words():
    for rule in rules():
        assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]
        assert not {"secrets", "configmaps", "pods/exec", "serviceaccounts/token"} & set(rule["resources"])
        assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
        assert "nonResourceURLs" not in rule
    assert {verb for rule in workload_rules() for verb in rule["verbs"]} == READ


def test_only_gangs_are_deleted_and_pods_are_not_created():
    users = [*one("ClusterRole", "muster-edit")["rules"], *one("Role", "muster-operator")["rules"]]
    ours = [rule for rule in rules() if rule not in users]
    assert not {"deletecollection", "update"} & {verb for rule in ours for verb in rule["verbs"]}
    deleted = {name for rule in ours if "delete" in rule["verbs"] for name in rule["resources"]}
    assert deleted == {"podgroups"}
    assert granted("", "pods") == READ | {"patch"}
    assert granted("", "nodes") == READ


def test_users_write_gangs_and_nothing_of_the_whole_cluster():
    written = {name for rule in one("ClusterRole", "muster-edit")["rules"] for name in rule["resources"]}
    assert written == {"podgroups"}
    seen = one("ClusterRole", "muster-view")
    tenants = {kind.plural for kind in OUR_KINDS if not kind.guarded}
    assert {name for rule in seen["rules"] for name in rule["resources"]} == tenants
    assert {verb for rule in seen["rules"] for verb in rule["verbs"]} == READ


def test_no_role_of_tenants_and_no_bound_role_may_ask_for_evictions():
    """Who may create an EvictionRequest chooses whose pods go: no role that is aggregated or bound has that right."""
    may_create = [
        item["metadata"]
        for item in documents()
        if item["kind"] in ("ClusterRole", "Role")
        for rule in item.get("rules", [])
        if "create" in rule["verbs"] and {"evictionrequests", "*"} & set(rule["resources"])
    ]
    assert [(metadata["name"], metadata["namespace"]) for metadata in may_create] == [
        ("muster-operator", "muster-system")
    ]
    assert not any("aggregate" in label for label in may_create[0]["labels"])
    bound = {item["roleRef"]["name"] for item in documents() if item["kind"] in BINDINGS}
    assert "muster-operator" not in bound


@pytest.mark.parametrize("wishes", [ALL, ALL._replace(ignore_budgets=True), ALL._replace(page="on")], ids=str)
def test_only_muster_answers_requests_for_evictions(wishes):
    """Whatever is installed: no wildcard has the right by accident, and the answer is in no role but muster's own."""
    roles = [item for item in documents(wishes) if item["kind"] in ("ClusterRole", "Role")]
    for item in roles:
        for rule in item.get("rules", []):
            assert not {"*"} & {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}, item["metadata"]["name"]
    writes = {
        (item["kind"], item["metadata"]["name"], item["metadata"].get("namespace"), verb)
        for item in roles
        for rule in item.get("rules", [])
        if "evictionrequests/status" in rule["resources"]
        for verb in rule["verbs"]
    }
    assert writes == {("Role", "muster", "muster-system", "patch")}


def test_named_things_are_only_changed_by_name():
    lease = [rule for rule in rules() if "leases" in rule["resources"]]
    assert [(rule.get("resourceNames"), rule["verbs"]) for rule in lease] == [
        (None, ["create"]),
        (["muster"], ["get", "patch"]),
    ]
    (webhook,) = [rule for rule in rules() if "validatingwebhookconfigurations" in rule["resources"]]
    assert webhook["resourceNames"] == [one("ValidatingWebhookConfiguration")["metadata"]["name"]]
    assert webhook["verbs"] == ["get", "patch"]
    assert "leases" not in json.dumps([item for item in documents() if item["kind"] == "ClusterRole"])


def test_every_kind_that_is_watched_can_be_read():
    for kind in (*OUR_KINDS, *CORE_KINDS):
        assert granted(kind.group, kind.plural) >= READ, kind.name


# The verb of each method of the client, and the resource where the method says it.
METHODS = {
    "get": "get", "list": "list", "open_watch": "watch", "create": "create", "patch": "patch", "apply": "patch",
    "delete": "delete", "bind": "create", "evict": "create",
}  # fmt: skip
RESOURCES = {
    "LEASE": ("coordination.k8s.io", "leases"), "EVENT": ("events.k8s.io", "events"), "PODS": ("", "pods"),
    "POD": ("", "pods"), "BRIEFLY": ("", "pods"), "UNDECODED": ("", "pods"),
    "CONFIGURATIONS": ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    **{name: (kind.group, kind.plural) for name, kind in zip(
        ("POD_GROUP", "QUEUE", "RESOURCE_INTERFACE", "TOPOLOGY", "EVICTION_REQUEST"), OUR_KINDS, strict=True)},
}  # fmt: skip


def client_calls() -> list[tuple[str, str, str, str]]:
    """What the code that runs in the cluster asks of a client: where, verb, group, resource."""
    found = []
    for room in ("kube", "controllers", "serve"):
        for path in sorted((ROOT / "src" / "muster" / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if not (
                    isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS
                ):
                    continue
                receiver = node.func.value
                name = receiver.attr if isinstance(receiver, ast.Attribute) else getattr(receiver, "id", "")
                if name.lstrip("_") != "client":
                    continue
                where = f"{path.relative_to(ROOT)}:{node.lineno}"
                if node.func.attr in ("bind", "evict"):
                    part = {"bind": "binding", "evict": "eviction"}[node.func.attr]
                    found.append((where, "create", "", f"pods/{part}"))
                elif isinstance(node.args[0], ast.Name) and node.args[0].id.isupper():
                    # A constant says which resource; a parameter is whatever its caller means.
                    group, resource = RESOURCES[node.args[0].id.lstrip("_")]
                    parts = [word.value for word in node.keywords if word.arg == "subresource"]
                    resource += "".join(
                        f"/{part.value}" for part in parts if isinstance(part, ast.Constant) and part.value
                    )
                    found.append((where, METHODS[node.func.attr], group, resource))
    return found


def test_every_call_of_the_client_is_allowed():
    calls = client_calls()
    assert ("patch", "coordination.k8s.io", "leases") in {call[1:] for call in calls}
    for where, verb, group, resource in calls:
        asked = ALL._replace(ignore_budgets=True)
        assert verb in granted(group, resource, asked), f"{where} needs {verb} on {resource}.{group}"


def test_what_cert_manager_makes_is_waited_for():
    """Without that, a replica that starts before its certificate is there would make its own for good."""
    container = one("Deployment", "muster", Wishes(cert_manager=True))["spec"]["template"]["spec"]["containers"][0]
    given = {entry["name"]: entry.get("value") for entry in container["env"]}
    loaded = load(environment={name: text for name, text in given.items() if name.startswith("MUSTER_WEBHOOK")})
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert loaded.config.webhook.certificate == f"{mounts['certificate']}/tls.crt"
    assert loaded.config.webhook.key == f"{mounts['certificate']}/tls.key"
    plain = one("Deployment", "muster")["spec"]["template"]["spec"]["containers"][0]
    assert not [entry for entry in plain["env"] if entry["name"].startswith("MUSTER_WEBHOOK")]


def test_the_catalog_can_be_read():
    """Every kind of the catalog, what it refers to, and every owner that the catalog's own fixtures have."""
    readable = {
        (group, resource) for rule in workload_rules() for group in rule["apiGroups"] for resource in rule["resources"]
    }
    wanted = {(one.target.group, one.target.kind) for one in built_in_interfaces()}
    wanted |= {(ref.kind.group, ref.kind.kind) for one in built_in_interfaces() for ref in one.references.values()}
    for file in CATALOG_FIXTURES.rglob("*.yaml"):
        for item in yaml.safe_load_all(file.read_text()):
            for thing in (item.get("items") or [item]) if isinstance(item, dict) else []:
                owners = (thing.get("metadata") or {}).get("ownerReferences") or []
                wanted |= {(ref["apiVersion"].rpartition("/")[0], ref["kind"]) for ref in owners}
    # A pod can be read anyway; a Service of the core owns nothing that grouping could go by.
    wanted -= {("", "Pod"), ("", "Service")}
    assert len(wanted) > 40
    assert {(group, plural_of(kind)) for group, kind in wanted} <= readable


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Job", "jobs"),
        ("PodCliqueSet", "podcliquesets"),
        ("Policy", "policies"),
        ("InferenceClass", "inferenceclasses"),
    ],
)
def test_plurals(kind, plural):
    assert plural_of(kind) == plural


# Processes.


def test_the_pods_are_as_locked_up_as_can_be():
    pod = one("Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC", "hostPath"} & set(re.findall(r'"(\w+)":', json.dumps(pod)))
    assert {container[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")} == {
        "/livez",
        "/readyz",
    }
    assert "cpu" not in container["resources"]["limits"]
    assert {spread["whenUnsatisfiable"] for spread in pod["topologySpreadConstraints"]} == {"ScheduleAnyway"}
    assert one("ServiceAccount")["automountServiceAccountToken"] is False


def test_the_command_of_the_pods_is_one_that_there_is():
    """A variable or an option that muster does not know would stop it."""
    (container,) = one("Deployment")["spec"]["template"]["spec"]["containers"]
    variables = {item["name"] for item in container["env"]}
    known = {variable_of(key) for key in known_keys()} | {"MUSTER_CONFIG"}
    assert {name for name in variables if name.startswith("MUSTER_")} <= known
    name, *args = container["args"]
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    options = {option for parameter in command.params for option in parameter.opts}
    assert {arg for arg in args if arg.startswith("-")} <= options
    assert {found for arg in args for found in re.findall(r"\$\((\w+)\)", arg)} <= variables


def test_one_replica_can_be_drained():
    """A minAvailable of 1 with one replica would stop every drain."""
    assert one("PodDisruptionBudget", wishes=Wishes(replicas=1))["spec"]["maxUnavailable"] == 1


def test_muster_may_not_change_what_pods_run():
    """Who may patch pods may change their images: a policy for muster's own user, and for nobody else, forbids it."""
    spec = one("ValidatingAdmissionPolicy", "muster-pods", Wishes(namespace="gangs"))["spec"]
    (condition,) = spec["matchConditions"]
    assert condition["expression"] == "request.userInfo.username == 'system:serviceaccount:gangs:muster'"
    assert spec["validations"][0]["expression"] == "object.spec == oldObject.spec"
    bound = one("ValidatingAdmissionPolicyBinding", "muster-pods")["spec"]
    assert bound == {"policyName": "muster-pods", "validationActions": ["Deny"]}


# The webhook.


def test_the_webhook_is_asked_about_our_kinds_and_nothing_else():
    (webhook,) = one("ValidatingWebhookConfiguration")["webhooks"]
    asked = {
        (group, version, resource)
        for rule in webhook["rules"]
        for group in rule["apiGroups"]
        for version in rule["apiVersions"]
        for resource in rule["resources"]
    }
    assert asked == {(kind.group, kind.api_version.rpartition("/")[2], kind.plural) for kind in OUR_KINDS}
    for rule in webhook["rules"]:
        (kind,) = [kind for kind in OUR_KINDS if kind.plural == rule["resources"][0]]
        assert rule["scope"] == ("Namespaced" if kind.namespaced else "Cluster")
        assert ("DELETE" in rule["operations"]) == (kind.plural == "queues")
    assert webhook["failurePolicy"] == "Fail"
    assert webhook["timeoutSeconds"] == 5
    assert webhook["sideEffects"] == "None"
    assert webhook["matchPolicy"] == "Equivalent"


def test_the_webhook_points_at_what_is_served():
    (webhook,) = one("ValidatingWebhookConfiguration")["webhooks"]
    service = webhook["clientConfig"]["service"]
    assert (service["name"], service["namespace"]) == ("muster-webhook", "muster-system")
    assert service["path"] == WEBHOOK_PATH == server.WEBHOOK_PATH
    (port,) = one("Service", service["name"])["spec"]["ports"]
    assert port["port"] == service["port"]


def test_muster_never_waits_for_its_own_webhook():
    (webhook,) = one("ValidatingWebhookConfiguration", wishes=Wishes(namespace="gangs"))["webhooks"]
    assert "'system:serviceaccount:gangs:muster'" in webhook["matchConditions"][0]["expression"]


def test_the_default_queue_is_valid_and_unlimited(muster):
    queue = one("Queue", "default-queue")
    assert {resource["quota"] for resource in queue["spec"]["resources"].values()} == {-1}
    run = muster("validate", "-f", "-", "-o", "json", stdin=json.dumps(queue))
    assert (run.code, run.json) == (0, [])


def test_only_who_asks_for_it_may_delete_pods():
    """One role, and a policy that lets it go no further than pods that muster has bound."""
    wishes = ALL._replace(ignore_budgets=True)
    more = kinds(wishes) - kinds(ALL)
    policies = {
        (kind, "muster-deletions") for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    }
    roles = {(kind, "muster-ignore-budgets") for kind in ("ClusterRole", "ClusterRoleBinding")}
    assert more == policies | roles
    assert "delete" not in granted("", "pods")
    assert one("ClusterRole", "muster-ignore-budgets", wishes)["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}
    ]
    spec = one("ValidatingAdmissionPolicy", "muster-deletions", wishes)["spec"]
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["operations"]) == (["pods"], ["DELETE"])
    assert kinds(wishes._replace(without=frozenset({"rbac", "guard"}))) & (policies | roles) == set()
