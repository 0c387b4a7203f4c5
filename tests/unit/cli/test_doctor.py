"""`muster doctor`: every check as ok and as not, what it says then, and that it goes on where it may not look."""

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from muster.api.crd import custom_resource_definitions
from muster.cli import live
from muster.cli.checkup import check_expiry, check_webhook
from muster.kube.rights import RIGHTS, WORKLOADS, asks
from unit.cli.played import KUBECONFIG, Cluster, group, node, pod, thing
from unit.kube.playing import Played, answer, refusal, scripted, status

NOW = datetime.now(UTC)


@pytest.fixture
def doctor(muster, monkeypatch, tmp_path):
    """Runs the command over a played cluster: findings by name, and the run."""
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(KUBECONFIG))
    monkeypatch.setenv("KUBECONFIG", str(path))

    def run(cluster, *args):
        monkeypatch.setattr(live, "Client", cluster.client)
        done = muster("doctor", "-o", "json", *args)
        found = {}
        for one in json.loads(done.out):
            found.setdefault(one["check"], []).append(one)
        return found, done

    return run


def definitions():
    established = {"conditions": [{"type": "Established", "status": "True"}]}
    return [{**one, "status": established} for one in custom_resource_definitions()]


def queue(name="default-queue", **spec):
    return thing("scheduling.run.ai/v2", "Queue", name, spec=spec)


def interface(name, kind, *references):
    """One for a kind of example.com that reads Deployments, too."""
    template = {"podGroups": [{"name": "all", "minMember": 1}]}
    others = [
        {"name": one.lower(), "gvk": {"group": "apps", "kind": one}, "lookup": {"namePath": ".spec.other"}}
        for one in references
    ]
    spec = {"targetGVK": {"group": "example.com", "version": "v2", "kind": kind}, "gangScheduling": template}
    return thing("kai.scheduler/v1", "ResourceInterface", name, spec={**spec, "references": others})


def authority(ends=NOW + timedelta(days=300), began=NOW - timedelta(days=900)):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(began).not_valid_after(ends)
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return base64.b64encode(pem).decode()


def webhook(bundle, resources=("podgroups",)):
    service = {"namespace": "muster-system", "name": "muster-webhook"}
    rule = {"apiGroups": ["scheduling.run.ai"], "resources": list(resources)}
    one = {"name": "objects", "clientConfig": {"service": service, "caBundle": bundle}, "rules": [rule]}
    return thing("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "muster", webhooks=[one])


def endpoints(*ready):
    labels = {"kubernetes.io/service-name": "muster-webhook"}
    conditions = [{"conditions": {"ready": one}} for one in ready]
    return thing("discovery.k8s.io/v1", "EndpointSlice", "s", "muster-system", labels=labels, endpoints=conditions)


def lease(age_s=1.0, holder="muster-0", name="muster", namespace="muster-system"):
    renewed = (datetime.now(UTC) - timedelta(seconds=age_s)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}
    return thing("coordination.k8s.io/v1", "Lease", name, namespace, spec=spec)


def healthy(*more):
    return Cluster(
        *definitions(), node(), queue(), group(), *(pod(f"g-{n}", gang="g") for n in "01"), webhook(authority()),
        *(endpoints(True), lease()), *more,
    )  # fmt: skip


def told(name, **spec):
    """A pod that a scheduler has looked at."""
    waits = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]}
    return {**pod(name, **spec), "status": waits}


def without(cluster, kind, name=""):
    cluster.documents = [
        one for one in cluster.documents if not (one["kind"] == kind and one["metadata"]["name"].startswith(name))
    ]
    return cluster


def states(found):
    return {check: [one["state"] for one in findings] for check, findings in found.items()}


def test_a_healthy_cluster_has_nothing_to_mend(doctor, muster):
    found, done = doctor(healthy())
    assert done.code == 0
    assert {state for every in states(found).values() for state in every} == {"ok"}
    assert found["server"][0]["message"] == "http://played.example, Kubernetes v1.36.4"
    assert "you are alice" in found["credentials"][0]["message"]
    text = muster("doctor")
    assert text.code == 0
    assert "next: muster plan" in text.err


class TestServer:
    def test_that_does_not_answer(self, doctor):
        found, done = doctor(Cluster(down="no connection to http://played.example"))
        assert states(found) == {"server": ["fail"]}
        assert done.code == 1
        assert found["server"][0]["message"] == "no connection to http://played.example"

    def test_that_does_not_know_us(self, doctor):
        cluster = healthy()
        cluster.who = 401
        found, done = doctor(cluster)
        assert done.code == 1
        assert states(found)["credentials"] == ["fail"]
        assert "rights" not in found

    def test_a_plugin_that_fails_is_a_failure_that_names_it(self, muster, monkeypatch, tmp_path):
        """Nothing was sent: nobody knows whether a server is there."""
        run = {"apiVersion": "client.authentication.k8s.io/v1", "command": "false", "interactiveMode": "Never"}
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps({**KUBECONFIG, "users": [{"name": "u", "user": {"exec": run}}]}))
        monkeypatch.setenv("KUBECONFIG", str(path))
        done = muster("doctor", "-o", "json")
        (one,) = json.loads(done.out)
        assert (done.code, one["check"], one["state"]) == (1, "credentials", "fail")
        assert "plugin false failed" in one["message"]

    @pytest.mark.parametrize(
        "words", ["Client sent an HTTP request to an HTTPS server.\n", "The plain HTTP request was sent to HTTPS port"]
    )
    def test_http_to_a_server_that_speaks_https(self, doctor, words):
        cluster = Cluster()
        cluster.transport = scripted(*[answer(words.encode(), 400)] * 5)
        found, done = doctor(cluster)
        assert (states(found), done.code) == ({"server": ["fail"]}, 1)
        assert "http://played.example" in found["server"][0]["message"]
        assert found["server"][0]["hint"] == "write https:// in the kubeconfig"

    @pytest.mark.parametrize("code", [400, 404, 500, 503])
    def test_that_answers_with_something_else_is_no_server(self, doctor, code):
        cluster = Cluster()
        cluster.transport = scripted(*[answer(b"<html>", code)] * 5)
        found, done = doctor(cluster)
        assert (states(found), done.code) == ({"server": ["fail"]}, 1)

    def test_a_fault_in_the_middle_costs_one_check_and_not_the_report(self, doctor):
        cluster = healthy()
        reply = cluster.reply

        async def failing(request):
            return refusal(500, "InternalError") if "/podgroups" in request.path else await reply(request)

        cluster.transport = Played(failing)
        found, done = doctor(cluster)
        assert done.code == 1
        assert states(found)["objects"] == ["fail"]
        assert states(found)["leader"] == states(found)["rights"] == ["ok"]

    def test_that_is_older_than_the_manifests_need(self, doctor):
        cluster = healthy()
        reply = cluster.reply

        async def older(request):
            old = answer({"major": "1", "minor": "29", "gitVersion": "v1.29.9"})
            return old if request.path == "/version" else await reply(request)

        cluster.transport = Played(older)
        (one,) = doctor(cluster)[0]["server"]
        assert (one["state"], one["message"]) == ("warn", "Kubernetes v1.29.9 is older than 1.30")

    def test_no_kubeconfig(self, muster, monkeypatch, tmp_path):
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        done = muster("doctor")
        assert done.code == 2
        assert "-f" not in done.err

    @pytest.mark.parametrize(("days", "says"), [(-1, "expired on"), (3, "expires on"), (300, None)])
    def test_a_certificate_that_ends(self, days, says):
        pem = base64.b64decode(authority(NOW + timedelta(days=days)))
        found = check_expiry("credentials", pem, NOW)
        assert says in found.message if says else found is None

    def test_a_certificate_that_lives_for_hours_is_nothing_special(self):
        pem = base64.b64decode(authority(NOW + timedelta(hours=9), NOW - timedelta(hours=3)))
        assert check_expiry("credentials", pem, NOW) is None
        assert check_expiry("credentials", pem, NOW + timedelta(hours=7)) is not None


class TestDefinitions:
    NAME = "podgroups.scheduling.run.ai"

    def test_missing(self, doctor):
        found, done = doctor(without(healthy(), "CustomResourceDefinition", "podgroups"))
        assert done.code == 1
        (one,) = found[f"crd {self.NAME}"]
        assert one["state"] == "fail"
        assert one["hint"] == "muster crds | kubectl apply --server-side -f -"

    def _changed(self, doctor, change):
        cluster = healthy()
        (definition,) = [one for one in cluster.documents if one["metadata"]["name"] == self.NAME]
        change(definition)
        found, _ = doctor(cluster)
        (one,) = found[f"crd {self.NAME}"]
        return one["state"], one["message"]

    def test_older(self, doctor):
        def change(definition):
            schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            del schema["properties"]["spec"]["properties"]["minSubGroup"]

        state, says = self._changed(doctor, change)
        assert state == "fail"
        assert "lacks 1 field (spec.minSubGroup)" in says

    def test_of_another_version(self, doctor):
        state, says = self._changed(doctor, lambda one: one["spec"]["versions"][0].update(name="v1"))
        assert (state, says) == ("fail", "has no version v2alpha2, only v1")

    def test_not_served_yet(self, doctor):
        state, says = self._changed(doctor, lambda one: one.update(status={}))
        assert state == "fail"
        assert "not established" in says

    def test_more_fields_than_ours_do_no_harm(self, doctor):
        def change(definition):
            schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            schema["properties"]["spec"]["properties"]["theirs"] = {"type": "string"}

        assert self._changed(doctor, change)[0] == "ok"


class TestRights:
    def test_every_right_is_asked_for(self, doctor):
        cluster = healthy()
        doctor(cluster)
        wanted = sum(len(right.verbs) for right in (*RIGHTS, *WORKLOADS))
        assert len(cluster.reviews) == wanted
        binding = {"verb": "create", "resource": "pods", "subresource": "binding"}
        assert {"resourceAttributes": binding} in cluster.reviews

    def test_one_that_is_missing_fails_with_the_verb(self, doctor):
        cluster = healthy()
        cluster.forbidden = {"pods/binding", "patch pods", "create pods"}
        found, done = doctor(cluster)
        assert done.code == 1
        said = [one["message"] for one in found["rights"] if one["state"] == "fail"]
        assert "you may not patch pods: to say which gang and subgroup a pod is of" in said
        assert "you may not create pods/binding: to send pods to nodes" in said
        assert len(said) == 2

    def test_one_that_nothing_hangs_on_warns(self, doctor):
        cluster = healthy()
        cluster.forbidden = {"create events"}
        found, done = doctor(cluster)
        assert done.code == 0
        assert states(found)["rights"] == ["warn"]

    @pytest.mark.parametrize("forbidden", [True, False])
    def test_to_delete_pods_is_asked_for_where_a_queue_ignores_budgets(self, doctor, forbidden):
        """Nothing stops without it: such queues wait as others do."""
        other = queue()
        annotations = {"muster.dev/reclaim-policy": "IgnoreBudgets"}
        cluster = healthy({**other, "metadata": {**other["metadata"], "name": "owed", "annotations": annotations}})
        cluster.forbidden = {"delete pods"} if forbidden else set()
        found, done = doctor(cluster)
        deleting = {"resourceAttributes": {"verb": "delete", "resource": "pods"}}
        assert deleting in cluster.reviews
        assert (done.code, states(found)["rights"]) == (0, ["warn" if forbidden else "ok"])
        if forbidden:
            (one,) = found["rights"]
            assert one["message"].startswith("you may not delete pods: ")
            assert "muster manifests --ignore-budgets" in one["hint"]

    def test_those_of_a_service_account(self, doctor):
        cluster = healthy()
        found, _ = doctor(cluster, "--as-service-account", "muster-system/muster")
        assert {one["user"] for one in cluster.reviews} == {"system:serviceaccount:muster-system:muster"}
        assert "service account muster-system/muster has all" in found["rights"][0]["message"]

    @pytest.mark.parametrize("account", ["muster", "a/b/c", "/x"])
    def test_no_service_account(self, muster, account):
        assert muster("doctor", "--as-service-account", account).code == 2

    def test_owners_of_the_catalog_count_when_they_are_installed(self, doctor):
        names = {"kind": "RayCluster", "plural": "rayclusters"}
        spec = {"group": "ray.io", "names": names}
        ray = thing("apiextensions.k8s.io/v1", "CustomResourceDefinition", "rayclusters.ray.io", spec=spec)
        cluster = healthy(ray)
        cluster.forbidden = {"watch rayclusters"}
        found, _ = doctor(cluster)
        assert "you may not watch rayclusters.ray.io" in found["rights"][0]["message"]

    def test_kinds_of_interfaces_that_muster_may_not_read(self, doctor):
        """Their pods wait: the verbs and the remedy are named."""
        cluster = healthy(interface("pipe", "Widget", "Deployment"), interface("ghost", "Nobody"))
        cluster.forbidden = {"list widgets", "watch widgets"}
        found, done = doctor(cluster, "--as-service-account", "muster-system/muster")
        (one,) = found["rights"]
        assert (one["state"], done.code) == ("fail", 1)
        assert one["message"] == (
            "service account muster-system/muster may not list, watch widgets.example.com: "
            "ResourceInterface pipe reads it"
        )
        assert 'a ClusterRole with the label muster.dev/aggregate-to-grouper: "true"' in one["hint"]
        assert "docs/install.md" in one["hint"]

    def test_kinds_of_owners_of_waiting_pods_that_muster_may_not_read(self, doctor):
        owner = thing("example.com/v2", "Widget", "w", "team")
        waits, runs = pod("a", gang="g", owner=owner), pod("b", gang="g", owner=owner, on="n1")
        cluster = healthy(waits)
        cluster.forbidden = {"get widgets"}
        found, done = doctor(cluster)
        (one,) = found["rights"]
        assert (one["state"], done.code) == ("warn", 0)
        assert one["message"] == "you may not get widgets.example.com: it owns pods that wait (team/a)"
        assert "aggregate-to-grouper" in one["hint"]
        cluster = healthy(runs)
        cluster.forbidden = {"get widgets"}
        assert states(doctor(cluster)[0])["rights"] == ["ok"]

    def test_a_lease_is_asked_for_by_its_name_and_made_without(self):
        (right,) = [one for one in RIGHTS if one.resource == "leases"]
        assert {(ask.verb, ask.name, ask.namespace) for ask in asks(right, "ns")} == {
            ("get", "muster", "ns"),
            ("create", "", "ns"),
            ("patch", "muster", "ns"),
        }


class TestObjects:
    def test_no_nodes(self, doctor):
        found, done = doctor(without(healthy(), "Node"))
        assert states(found)["nodes"] == ["fail"]
        assert done.code == 1

    def test_nodes_that_have_nothing_to_give(self, doctor):
        found, _ = doctor(healthy(thing("v1", "Node", "bare", status={})))
        assert "1 node (bare) without allocatable" in found["nodes"][0]["message"]

    def test_nodes_that_are_not_ready(self, doctor):
        away = node("away")
        away["status"]["conditions"][0]["status"] = "Unknown"
        assert "1 node (away) not ready" in doctor(healthy(away))[0]["nodes"][0]["message"]

    def test_labels_that_some_nodes_lack(self, doctor):
        levels = [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]
        topology = thing("kai.scheduler/v1alpha1", "Topology", "t", spec={"levels": levels})
        found, done = doctor(healthy(topology, node("a", zone="z", rack="r"), node("b", zone="z")))
        (one,) = found["topology t"]
        assert one["state"] == "warn"
        assert one["message"] == "zone is missing on 1 node (n1); rack is missing on 2 nodes (b, n1)"
        assert done.code == 0

    def test_a_label_that_no_node_has(self, doctor):
        topology = thing("kai.scheduler/v1alpha1", "Topology", "t", spec={"levels": [{"nodeLabel": "zone"}]})
        assert states(doctor(healthy(topology))[0])["topology t"] == ["fail"]

    def test_invalid_gangs(self, doctor):
        found, done = doctor(healthy(group("bad", minMember=-1)))
        (one,) = found["podgroups"]
        assert done.code == 1
        assert "1 PodGroup of 2 invalid: PodGroup team/bad: spec.minMember" in one["message"]
        assert "kubectl get podgroups.scheduling.run.ai bad -n team -o yaml | muster validate -f -" in one["hint"]

    def test_no_default_queue(self, doctor):
        assert states(doctor(without(healthy(queue("q")), "Queue", "default"))[0])["default queue"] == ["fail"]
        assert states(doctor(without(healthy(), "Queue"))[0])["default queue"] == ["warn"]

    def test_a_default_queue_that_no_gang_can_use(self, doctor):
        found, done = doctor(healthy(queue("below", parentQueue="default-queue")))
        (one,) = found["default queue"]
        assert (one["state"], done.code) == ("fail", 1)
        assert one["message"] == (
            "default-queue has 1 queue (below) below it, so that no gang can be in it: "
            "gangs that name no queue are held"
        )
        assert "defaultQueue" in one["hint"]
        lost = without(healthy(queue("default-queue", parentQueue="gone")), "Node", "none")
        lost.documents = [one for one in lost.documents if one["kind"] != "Queue" or one["spec"]]
        (one,) = doctor(lost)[0]["default queue"]
        assert one["state"] == "fail"
        assert one["message"] == "default-queue is below gone, which is not there: gangs that name no queue are held"
        assert "create gone" in one["hint"]

    def test_gangs_in_a_queue_that_has_others_below_it(self, doctor):
        gangs = [group("a", queue="top", minMember=1), group("b", queue="leaf", minMember=1)]
        found, done = doctor(healthy(queue("top"), queue("leaf", parentQueue="top"), *gangs))
        (one,) = [one for one in found["queues"] if one["state"] == "warn"]
        assert one["message"] == "1 gang (team/a) in queue top, which has queues below it: they are held"
        assert done.code == 0

    def test_queues_without_their_parent_and_in_a_cycle(self, doctor):
        found, _ = doctor(healthy(queue("lost", parentQueue="gone")))
        assert "1 queue (lost) below a parent that is not there" in found["queues"][1]["message"]
        found, _ = doctor(healthy(queue("a", parentQueue="b"), queue("b", parentQueue="a")))
        assert "parents form a cycle" in found["queues"][0]["message"]

    def test_pods_without_a_gang(self, doctor):
        found, done = doctor(healthy(pod("alone"), pod("lost", gang="nowhere"), pod("runs", on="n1")))
        assert [one["message"] for one in found["pending pods"]] == [
            "1 pod (team/alone) of ours without a gang",
            "1 pod (team/lost) of a PodGroup that is not there",
        ]
        assert done.code == 0

    @pytest.mark.parametrize(
        ("more", "hinted"),
        [
            ([], True),
            ([pod("placed", on="n1", schedulerName="default-scheduler")], False),
            ([{**pod("old", schedulerName="default-scheduler"), "status": {"phase": "Succeeded"}}], True),
            ([told("waits", schedulerName="default-scheduler")], False),
            ([pod("placed", on="n1", schedulerName="another")], True),
        ],
        ids=["nothing of it", "it placed somebody", "one that is over says nothing", "it told somebody", "another"],
    )
    def test_pods_of_a_scheduler_that_nobody_sees(self, doctor, more, hinted):
        """Only a hint: on a cluster with a scheduler of its own there is always something to be seen of it."""
        strays = [pod(name, schedulerName="default-scheduler") for name in ("a", "b")]
        found, done = doctor(healthy(*strays, *more))
        says = "2 pods (team/a, team/b) of scheduler default-scheduler, which seems not to run here"
        hints = [one["hint"] for one in found["pending pods"] if (one["state"], one["message"]) == ("warn", says)]
        assert bool(hints) is hinted
        assert all("set spec.schedulerName to kai-scheduler" in hint for hint in hints)
        assert done.code == 0

    def test_kinds_that_are_not_installed_leave_the_others_to_be_checked(self, doctor):
        cluster = healthy(group("bad", minMember=-1))
        cluster.kinds = [kind for kind in cluster.kinds if kind[2] != "topologies"]
        found, _ = doctor(cluster)
        assert states(found)["podgroups"] == ["fail"]
        assert "topologies" not in found


class TestOthers:
    def test_a_scheduler_for_the_same_pods(self, doctor):
        args = {"containers": [{"name": "s", "args": ["--scheduler-name=kai-scheduler"]}]}
        rival = pod("kai-0", "kai", on="n1", **args, schedulerName="default-scheduler")
        found, done = doctor(healthy(rival))
        assert done.code == 1
        assert "pod kai/kai-0 schedules for kai-scheduler too" in found["other schedulers"][0]["message"]
        assert states(doctor(healthy(rival), "--set", "schedulerNames=muster")[0])["other schedulers"] == ["ok"]

    def test_a_lease_for_the_same_name(self, doctor):
        held = lease(name="kai-scheduler", namespace="kai", holder="k")
        assert states(doctor(healthy(held))[0])["other schedulers"] == ["fail"]
        stale = lease(age_s=900, name="kai-scheduler", namespace="kai", holder="k")
        assert states(doctor(healthy(stale))[0])["other schedulers"] == ["ok"]

    @pytest.mark.parametrize(
        ("name", "says", "state"),
        [
            ("schedulingshards.kai.scheduler", "KAI is installed", "warn"),
            ("workloads.kueue.x-k8s.io", "Kueue is installed", "ok"),
            ("podgroups.scheduling.volcano.sh", "Volcano is installed", "ok"),
        ],
    )
    def test_what_is_installed(self, doctor, name, says, state):
        there = thing("apiextensions.k8s.io/v1", "CustomResourceDefinition", name, spec={})
        (one,) = doctor(healthy(there))[0]["other schedulers"]
        assert (one["message"], one["state"]) == (says, state)


class TestWebhook:
    @pytest.mark.parametrize(
        ("bundle", "state", "says"),
        [
            ("", "fail", "has no caBundle"),
            ("bm90IHBlbQ==", "fail", "is not PEM"),
            (authority(NOW - timedelta(days=1)), "fail", "expired on"),
            (authority(NOW + timedelta(days=3)), "warn", "expires on"),
        ],
    )
    def test_its_authority(self, doctor, bundle, state, says):
        found, _ = doctor(without(healthy(webhook(bundle)), "ValidatingWebhookConfiguration", "none"))
        worst = [one for one in found["webhook muster/objects"] if one["state"] == state]
        assert any(says in one["message"] for one in worst)

    def test_nobody_answers(self, doctor):
        found, done = doctor(without(healthy(), "EndpointSlice"))
        assert (
            "Service muster-system/muster-webhook has no ready endpoint"
            in (found["webhook muster/objects"][0]["message"])
        )
        assert done.code == 1

    @pytest.mark.parametrize(("policy", "refused"), [("Fail", True), ("Ignore", False)])
    def test_whom_its_absence_stops(self, policy, refused):
        one = {**webhook(authority())["webhooks"][0], "configuration": "muster", "failurePolicy": policy}
        (found,) = check_webhook(one, 0, NOW)
        assert ("changes are refused" in found.message) == refused

    def test_that_is_asked_about_pods(self):
        one = {**webhook(authority(), ("pods",))["webhooks"][0], "configuration": "muster"}
        assert [found.state for found in check_webhook(one, 1, NOW)] == ["warn", "ok"]

    def test_that_answers_is_tried_without_writing_anything(self, doctor):
        found, done = doctor(healthy())
        assert states(found)["webhook answers"] == ["ok"]
        assert done.code == 0

    def test_a_serving_certificate_that_expired_is_told_in_the_words_of_the_api_server(self, doctor):
        words = 'failed calling webhook "objects.muster.dev": tls: x509: certificate has expired'
        cluster = healthy()
        cluster.webhook = answer(status(500, "InternalError", words), 500)
        found, done = doctor(cluster)
        (told,) = found["webhook answers"]
        assert "certificate has expired" in told["message"]
        assert (told["state"], done.code) == ("fail", 1)

    def test_whoever_may_not_create_gangs_is_not_told_whether_it_answers(self, doctor):
        cluster = healthy()
        cluster.forbidden.add("create podgroups")
        found, _ = doctor(cluster)
        assert "webhook answers" not in found

    def test_none(self, doctor):
        found, done = doctor(without(healthy(), "ValidatingWebhookConfiguration"))
        assert states(found)["webhook"] == ["warn"]
        assert done.code == 0

    def test_none_is_needed_where_mistakes_are_refused_all_the_same(self, doctor):
        """As in a playground: its API server asks muster itself."""
        cluster = without(healthy(), "ValidatingWebhookConfiguration")
        cluster.webhook = answer(status(422, "Invalid", "there is no SubGroup b"), 422)
        found, done = doctor(cluster)
        assert states(found)["webhook"] == ["ok"]
        assert done.code == 0


class TestMarks:
    """Whether only muster can write admission marks."""

    def test_protected(self, doctor):
        assert states(doctor(healthy())[0])["admission marks"] == ["ok"]

    def test_not_protected(self, doctor):
        """It says what that means, and scheduling goes on."""
        cluster = healthy()
        cluster.guard = None
        found, done = doctor(cluster)
        (told,) = found["admission marks"]
        assert (told["state"], done.code) == ("warn", 0)
        assert "exceed limits and use up other queues" in told["message"]
        assert "muster manifests" in told["hint"]

    @pytest.mark.parametrize("code", [403, 422])
    def test_not_known(self, doctor, code):
        """Another refusal says nothing about marks."""
        cluster = healthy()
        cluster.guard = answer(status(code, "Forbidden", "exceeded quota"), code)
        (told,) = doctor(cluster)[0]["admission marks"]
        assert (told["state"], told["message"].split(":")[0]) == ("warn", "not checked")


class TestLeader:
    @pytest.mark.parametrize(
        ("held", "state"), [({}, "ok"), ({"age_s": 600}, "fail"), ({"holder": ""}, "warn"), (None, "warn")]
    )
    def test_lease(self, doctor, held, state):
        cluster = without(healthy(), "Lease")
        # Made now: it ages while other tests run.
        cluster.documents += [lease(**held)] if held is not None else []
        assert states(doctor(cluster)[0])["leader"] == [state]

    @pytest.mark.parametrize(
        ("args", "state"),
        [
            ((), "warn"),
            (("--lease-namespace", "leases"), "ok"),
            (("-n", "leases"), "ok"),
            (("-n", "leases", "--lease-namespace", "muster-system"), "warn"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
    )
    def test_a_lease_in_a_namespace_of_its_own(self, doctor, args, state):
        """Looked for there, and the right to it asked for there."""
        cluster = without(healthy(), "Lease")
        cluster.documents.append(lease(namespace="leases"))
        assert states(doctor(cluster, *args)[0])["leader"] == [state]
        asks = [one["resourceAttributes"] for one in cluster.reviews]
        assert {one["namespace"] for one in asks if one["resource"] == "leases"} == {
            "leases" if state == "ok" else "muster-system"
        }


def test_what_may_not_be_looked_at_is_told_and_the_rest_is_checked(doctor):
    cluster = healthy()
    cluster.forbidden = {
        *("list customresourcedefinitions", "list validatingwebhookconfigurations", "list nodes", "list topologies"),
        *("list pods", "list leases"),
    }
    found, done = doctor(cluster)
    said = {check for check, every in found.items() if "not checked: you may not list" in every[0]["message"]}
    assert said == {"crds", "webhook", "nodes", "topologies", "pods"}
    assert states(found)["leader"] == ["ok"]
    assert done.code == 1


def test_the_table_says_a_shared_hint_once(muster, doctor):
    cluster = healthy()
    cluster.forbidden = {"create pods/binding", "create pods/eviction"}
    doctor(cluster)
    done = muster("doctor")
    assert done.out.count("muster manifests has the roles") == 1
    assert done.out.count("FAIL") == 2
    assert "next: mend what is said above, then muster doctor" in done.err


def test_objects_that_are_left_out_because_of_a_defect(doctor):
    assert states(doctor(healthy())[0])["defects"] == ["ok"]
    condition = {
        "type": "Scheduled",
        "status": "False",
        "message": "a defect in muster keeps the gang from being planned",
    }
    wrong = {**group("h"), "status": {"conditions": [condition]}}
    found, done = doctor(healthy(wrong))
    assert done.code == 1
    assert [(one["state"], one["message"]) for one in found["defects"]] == [
        ("fail", "PodGroup team/h is left out because of a defect in muster")
    ]
