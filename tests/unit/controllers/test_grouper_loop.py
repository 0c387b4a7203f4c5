"""The grouper's loop in virtual time: pods get gangs, gangs follow workloads, and nothing is said or written twice."""

import asyncio
import io
import json

from muster.telemetry import Log, Metrics
from unit.controllers.workshop import (
    PLAN,
    WORK,
    alone,
    at_work,
    condition_of,
    gang_of,
    interface,
    job,
    owned,
    plan,
    played,
    reasons,
    settled,
    spec_of,
    work,
)
from unit.kube.playing import answer, status


@played()
async def test_pods_get_the_gang_of_their_workload(server):
    train = server.put(job(pods=2, batch_min_member="2"))
    for name in "ab":
        server.put(owned(train, name))
    async with at_work(server):
        await settled()
        (group,) = server.all("podgroups")
        assert group["spec"]["minMember"] == 2
        assert group["metadata"]["ownerReferences"][0]["uid"] == train["metadata"]["uid"]
        assert gang_of(server, "a") == gang_of(server, "b") == (group["metadata"]["name"], "")


@played()
async def test_no_events_in_no_writes_out(server):
    """Neither time, nor a status, nor its own writes make it write."""
    train = server.put(job())
    server.put(owned(train, "a"))
    server.put(interface({"minMember": 1}))
    async with at_work(server) as shop:
        await settled()
        assert len(shop.since()) == 3
        await asyncio.sleep(600)
        looked = list(shop.looked)
        server.change("jobs", "train", {"status": {"active": 1}})
        server.change("pods", "a", {"status": {"phase": "Running"}})
        server.change("podgroups", gang_of(server, "a")[0], {"status": {"phase": "Scheduled"}})
        await asyncio.sleep(600)
        assert shop.since() == []
        assert shop.looked == looked
    # Nor does a new process.
    async with at_work(server) as shop:
        await asyncio.sleep(600)
        assert shop.since() == []


@played()
async def test_a_scaled_workload_changes_its_gang_and_no_other(server):
    for name in ("one", "two"):
        server.put(owned(server.put(job(name, batch_min_member="2")), name))
    async with at_work(server) as shop:
        await settled()
        shop.since()
        shop.looked.clear()
        server.change("jobs", "one", {"metadata": {"annotations": {"kai.scheduler/batch-min-member": "1"}}})
        await settled()
        assert spec_of(server, "one")["minMember"] == 1
        assert [(write.verb, write.plural, write.name) for write in shop.since()] == [
            ("patch", "podgroups", gang_of(server, "one")[0])
        ]
        assert shop.looked == ["one"]


@played()
async def test_a_change_of_a_workload_is_looked_at_while_its_pods_are_being_marked(server):
    """Its gang is written and the pods are not seen in it yet: they still belong to it."""
    train = server.put(job(pods=4, batch_min_member="2"))
    server.put(owned(train, "a"))
    server.slow_s = {("patch", "pods"): 2.0}
    async with at_work(server) as shop:
        await asyncio.sleep(1)
        assert server.all("podgroups")
        assert gang_of(server, "a") == ("", "")
        server.change("jobs", "train", {"metadata": {"annotations": {"kai.scheduler/batch-min-member": "3"}}})
        await settled()
        assert spec_of(server, "a")["minMember"] == 3
        assert [write.plural for write in shop.since()] == ["podgroups", "pods", "podgroups"]


@played()
async def test_constraints_that_are_taken_back_are_taken_out(server):
    """A merge patch leaves what it does not name."""
    note = {"topology": "t", "topology_required_placement": "rack", "topology_preferred_placement": "node"}
    train = server.put(job(**note))
    server.put(owned(train, "a"))
    async with at_work(server) as shop:
        await settled()
        assert spec_of(server, "a")["topologyConstraint"]["preferredTopologyLevel"] == "node"
        gone = {"metadata": {"annotations": {"kai.scheduler/topology-preferred-placement": None}}}
        server.change("jobs", "train", gone)
        await settled()
        assert spec_of(server, "a")["topologyConstraint"] == {"topology": "t", "requiredTopologyLevel": "rack"}
        shop.since()
        await asyncio.sleep(120)
        assert shop.since() == []


@played()
async def test_who_was_faster_wins_and_the_pods_get_their_gang(server):
    """Somebody else made the PodGroup, and edited it, just before."""
    train = server.put(job(batch_min_member="2"))
    server.put(owned(train, "a"))
    server.overtaken = [("create", "podgroups")]
    async with at_work(server):
        await settled()
        (group,) = server.all("podgroups")
        assert group["metadata"]["labels"]["by"] == "another"
        assert gang_of(server, "a")[0] == group["metadata"]["name"]
        server.overtaken = [("patch", "podgroups")]
        server.change("jobs", "train", {"metadata": {"annotations": {"kai.scheduler/batch-min-member": "1"}}})
        await settled()
        (group,) = server.all("podgroups")
        assert (group["spec"]["minMember"], group["metadata"]["labels"]["by"]) == (1, "another")
        assert server.overtaken == server.notes() == []


@played(WORK)
async def test_an_edit_that_was_not_seen_yet_is_not_written_over(server):
    """A list is written as a whole: who changed something in it meanwhile is heard first."""
    one = {"componentName": "main", "podClassifier": {"matchLabels": {"role": "main"}}, "minReplicasPath": ".spec.size"}
    server.put(interface({"subgroups": [one]}))
    server.put(owned(server.put(work(size=2)), "a", role="main"))
    async with at_work(server):
        await settled()
        server.overtaken = [("patch", "podgroups")]
        edited = {"name": "main", "minMember": 2, "topologyConstraint": {"topology": "t", "requiredTopologyLevel": "r"}}
        server.overtaking = {"spec": {"subGroups": [edited]}}
        server.change("works", "w", {"spec": {"size": 3}})
        await settled()
        assert spec_of(server, "a")["subGroups"] == [{**edited, "minMember": 3}]


@played(WORK)
async def test_an_owner_that_is_seen_later_than_its_pods(server):
    """The pod waits, without a word when it is soon; and its kind is watched from then on."""
    server.put(interface({"minMemberPath": ".spec.size"}))
    later = server.put(work(size=3))
    server.remove("works", "w")
    server.put(owned(later, "a"))
    async with at_work(server) as shop:
        await settled()
        assert "works" in server.watched
        assert gang_of(server, "a") == ("", "")
        assert [write.plural for write in shop.since()] == ["resourceinterfaces"]
        server.put({**later, "metadata": {"name": "w", "uid": later["metadata"]["uid"]}})
        await settled()
        assert spec_of(server, "a")["minMember"] == 3
        assert server.notes() == []


@played(WORK, PLAN)
async def test_a_referenced_object_that_comes_later_and_changes(server):
    reference = {"name": "plan", "gvk": {"group": "x.io", "kind": "Plan"}, "lookup": {"namePath": ".spec.plan"}}
    server.put(interface({"minMemberPath": "$plan.spec.size"}, references=[reference]))
    works = [server.put(work(name, plan="p")) for name in "ab"]
    for number, owner in enumerate(works * 2):
        server.put(owned(owner, f"pod-{number}"))
    async with at_work(server):
        await asyncio.sleep(20)
        assert server.all("podgroups") == []
        assert [about for about, _ in reasons(server)].count("Pod pod-0") == 1
        server.put(plan(size=2))
        await settled()
        assert [group["spec"]["minMember"] for group in server.all("podgroups")] == [2, 2]
        assert all(gang_of(server, f"pod-{number}")[0] for number in range(4))
        # Every gang that was derived from it follows, and who looked first may be gone.
        server.remove("pods", "pod-0")
        server.change("plans", "p", {"spec": {"size": 1}})
        await settled()
        assert [group["spec"]["minMember"] for group in server.all("podgroups")] == [1, 1]


@played(WORK, PLAN)
async def test_all_instances_of_a_workload_follow_what_it_refers_to(server):
    """One look at the objects, of which any may come, is a look for all of its gangs."""
    reference = {"name": "plans", "gvk": {"group": "x.io", "kind": "Plan"}, "list": {"matchLabels": {"of": "all"}}}
    template = {"instanceKeyPaths": ".metadata.labels.key", "minMemberPath": "$plans | length"}
    server.put(interface(template, references=[reference]))
    owner = server.put(work())
    server.put(plan("p"))
    for name in "ab":
        server.put(owned(owner, name, key=name))
    async with at_work(server):
        await settled()
        assert [spec_of(server, name)["minMember"] for name in "ab"] == [1, 1]
        server.put(plan("q"))
        await settled()
        assert [spec_of(server, name)["minMember"] for name in "ab"] == [2, 2]


@played(WORK)
async def test_owners_that_may_not_be_read_until_somebody_allows_it(server):
    """Its interface needs it: the pods wait, and are told; with the right they get their gang."""
    server.put(interface({"minMemberPath": ".spec.size"}))
    server.put(owned(server.put(work(size=2)), "a"))
    server.forbidden = {("list", "works")}
    async with at_work(server):
        await asyncio.sleep(30)
        assert server.all("podgroups") == []
        assert ("Pod a", "NotGrouped") in reasons(server)
        assert "may not be read" in server.notes()[0][2]
        # What is told to be only a matter of time comes without a hint; this has to be mended.
        assert 'the label muster.dev/aggregate-to-grouper: "true"' in server.notes()[0][2]
        server.forbidden = set()
        await asyncio.sleep(30)
        assert spec_of(server, "a")["minMember"] == 2


@played()
async def test_owners_of_a_kind_that_the_server_does_not_know(server):
    """All that is known is who they are: one gang of one, so that nobody waits for ever."""
    ghost = {"apiVersion": "y.io/v1", "kind": "Ghost", "metadata": {"name": "g", "uid": "u"}}
    for name in "ab":
        server.put(owned(ghost, name))
    async with at_work(server):
        await settled()
        assert gang_of(server, "a") == gang_of(server, "b") == ("pg-g-u", "")
        assert spec_of(server, "a")["minMember"] == 1


@played(WORK)
async def test_a_pod_that_can_not_be_grouped_is_told_once(server):
    """On the pod and on its workload, again only when there is something else to say."""
    one = {"componentName": "main", "podClassifier": {"matchLabels": {"role": "main"}}, "minReplicas": 1}
    server.put(interface({"subgroups": [one]}))
    owner = server.put(work())
    server.put(owned(owner, "a", role="other"))
    out = io.StringIO()
    async with at_work(server, log=Log(out, human=False)):
        await asyncio.sleep(600)
        assert sorted(reasons(server)) == [("Pod a", "NotGrouped"), ("Work w", "NotGrouped")]
        assert "no entry claims the pod" in server.notes()[0][2]
        server.change("pods", "a", {"metadata": {"labels": {"role": "another"}}})
        await asyncio.sleep(600)
        assert len(server.notes()) == 4
        server.change("pods", "a", {"metadata": {"labels": {"role": "main"}}})
        await settled()
        assert gang_of(server, "a")[1] == "main"
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["name"] for line in lines if line["message"] == "not grouped"] == ["w", "w"]


@played(WORK)
async def test_of_a_large_workload_only_the_first_pods_are_told(server):
    server.put(interface({"minMemberPath": ".spec.missing"}))
    owner = server.put(work())
    for number in range(200):
        server.put(owned(owner, f"p{number:03}"))
    async with at_work(server):
        await asyncio.sleep(60)
        told = [about for about, _ in reasons(server)]
        assert len(told) == len(set(told)) == 33
        assert "Work w" in told


@played()
async def test_a_pod_that_names_a_gang_which_is_not_there(server):
    """It is told once, when it lasts; then the gang comes, and there is nothing to do."""
    server.put(alone("a", notes={"pod-group-name": "later"}))
    async with at_work(server) as shop:
        await settled()
        assert server.notes() == []
        await asyncio.sleep(600)
        assert reasons(server) == [("Pod a", "PodGroupNotFound")]
        assert "no PodGroup later in namespace default" in server.notes()[0][2]
        group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "later"}}
        server.put({**group, "spec": {"minMember": 1}})
        await asyncio.sleep(600)
        assert len(server.notes()) == 1
        assert shop.since() == []


@played()
async def test_a_pod_is_not_told_that_its_gang_is_missing_when_only_the_mirror_lacks_it(server):
    """After an outage the watch of pods may be back and that of PodGroups not yet: the server is asked first."""
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "there"}}
    server.put({**group, "spec": {"minMember": 1}})
    for name in "ab":
        server.put(alone(name, notes={"pod-group-name": "there"}))
    async with at_work(server) as shop:
        await settled()
        seen = shop.world.groups["default", "there"]
        shop.world.apply(seen, deleted=True)
        await asyncio.sleep(50)
        gets = [one for one in shop.transport.requests if one.path.endswith("/podgroups/there")]
        assert len(gets) == 1
        assert server.notes() == []
        # It is deleted before the mirror has seen it again: now it is true.
        server.remove("podgroups", "there")
        await asyncio.sleep(120)
        assert sorted(reasons(server)) == [("Pod a", "PodGroupNotFound"), ("Pod b", "PodGroupNotFound")]


@played()
async def test_nobody_is_told_that_a_gang_is_missing_while_the_server_does_not_say_so(server):
    server.put(alone("a", notes={"pod-group-name": "later"}))
    server.forbidden = {("get", "podgroups")}
    async with at_work(server):
        await asyncio.sleep(200)
        assert server.notes() == []
        server.forbidden = set()
        await asyncio.sleep(120)
        assert reasons(server) == [("Pod a", "PodGroupNotFound")]


@played()
async def test_a_server_that_does_not_serve_podgroups_yet_has_not_said_that_one_is_missing(server):
    """Right after its start a server answers 404 to whatever it has not loaded yet."""
    server.put(alone("a", notes={"pod-group-name": "there"}))
    whole = server.whole
    words = "the server could not find the requested resource"
    answers = [answer(b"404 page not found", 404), answer(status(404, "NotFound", words), 404)]

    async def starting(request):
        return answers.pop() if request.path.endswith("/podgroups/there") and answers else await whole(request)

    server.whole = starting
    async with at_work(server):
        await asyncio.sleep(100)
        assert answers == []
        assert server.notes() == []
        await asyncio.sleep(100)
        assert reasons(server) == [("Pod a", "PodGroupNotFound")]


@played()
async def test_a_pod_that_is_on_a_node_is_not_told_that_it_waits(server):
    bound = alone("a", notes={"pod-group-name": "gone"})
    bound["spec"]["nodeName"] = "n"
    server.put({**bound, "status": {"phase": "Running"}})
    async with at_work(server) as shop:
        await asyncio.sleep(120)
        assert server.notes() == []
        assert len(shop.loop._complaints._about) == 0


@played()
async def test_of_a_large_gang_that_is_missing_only_the_first_pods_are_told(server):
    for number in range(100):
        server.put(alone(f"p{number:03}", notes={"pod-group-name": "later"}))
    async with at_work(server) as shop:
        await asyncio.sleep(120)
        assert len(reasons(server)) == 32
        assert len([one for one in shop.transport.requests if one.path.endswith("/podgroups/later")]) == 1


@played()
async def test_a_gang_that_somebody_deleted_is_made_again_while_its_pods_live(server):
    train = server.put(job())
    server.put(owned(train, "a"))
    async with at_work(server):
        await settled()
        name = gang_of(server, "a")[0]
        server.remove("podgroups", name)
        await settled()
        assert server.read("podgroups", name)["metadata"]["ownerReferences"]
        # It goes with its workload, and then stays away although a pod is still ending.
        server.change("pods", "a", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
        server.remove("jobs", "train")
        server.remove("podgroups", name)
        await asyncio.sleep(60)
        assert server.all("podgroups") == []
        assert server.notes() == []


@played()
async def test_pods_that_have_their_gang_are_not_told_that_their_owner_is_gone(server):
    """The garbage collector comes for them, or somebody took away a right: they run, and nothing is wrong with them."""
    train = server.put(job())
    for name in "ab":
        server.put(owned(train, name))
    async with at_work(server) as shop:
        await settled()
        server.remove("jobs", "train")
        server.change("pods", "b", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
        await asyncio.sleep(300)
        assert server.notes() == []
        assert len(server.all("podgroups")) == 1
        assert len(shop.since()) == 3


@played()
async def test_what_is_denied_is_told_and_tried_again_ever_more_slowly(server):
    train = server.put(job())
    server.put(owned(train, "a"))
    server.forbidden = {("create", "podgroups")}
    async with at_work(server) as shop:
        await asyncio.sleep(600)
        assert reasons(server) == [("Pod a", "NotGrouped")]
        assert "can't be written" in server.notes()[0][2]
        # Nobody is marked with a gang that is not there.
        assert gang_of(server, "a") == ("", "")
        tries = [one for one in shop.transport.requests if one.method == "POST" and one.path.endswith("/podgroups")]
        assert 10 < len(tries) < 40
        server.forbidden = set()
        await asyncio.sleep(31)
        assert gang_of(server, "a")[0]


@played()
async def test_nothing_is_written_by_one_that_does_not_lead(server):
    server.put(owned(server.put(job()), "a"))
    server.put(interface({"minMember": 1}))
    leads = False
    async with at_work(server, may_write=lambda: leads) as shop:
        await asyncio.sleep(60)
        assert shop.since() == []
        leads = True
        await settled()
        assert gang_of(server, "a")[0]
        assert condition_of(server, "works")["status"] == "True"


@played()
async def test_interfaces_are_counted_when_they_are_asked(server):
    metrics = Metrics()
    train = server.put(job())
    for number in range(5):
        server.put(owned(train, f"p{number}"))
    async with at_work(server, metrics=metrics):
        await settled()
    counted = metrics.registry.get_sample_value("muster_ri_evaluations_total", {"ri": "job", "result": "derived"})
    assert counted == 1.0


@played(WORK)
async def test_a_defect_costs_one_pod(server):
    """Something that nobody has thought of: the others are grouped, the loop goes on, and it is told."""
    owner = server.put(work())
    for name in "abc":
        server.put(owned(owner, name))
    out = io.StringIO()
    async with at_work(server, log=Log(out, human=False)) as shop:
        real = shop.loop._grouper.group

        def breaking(pods, existing):
            return real((_unless(pod, "b") for pod in pods), existing)

        shop.loop._grouper.group = breaking
        await settled()
        assert [bool(gang_of(server, name)[0]) for name in "abc"] == [True, False, True]
    assert "pods can't be grouped together: this is a defect in muster" in out.getvalue()
    assert "a pod can't be grouped: this is a defect in muster" in out.getvalue()


def _unless(pod, name):
    if pod["metadata"]["name"] == name:
        raise ZeroDivisionError("nobody has thought of this")
    return pod


@played()
async def test_of_workloads_that_are_over_nothing_is_kept(server):
    """They come and go for years. Some go before their gang was seen."""
    async with at_work(server) as shop:
        for number in range(20):
            server.slow_s = {("patch", "pods"): 0.5 * (number % 2)}
            server.put(owned(server.put(job(f"job-{number}")), f"pod-{number}"))
            await asyncio.sleep(0.3)
            server.remove("jobs", f"job-{number}")
            server.remove("pods", f"pod-{number}")
            for group in server.all("podgroups"):
                server.remove("podgroups", group["metadata"]["name"])
        await asyncio.sleep(120)
        loop = shop.loop
        kept = (loop._waiting, loop._whole, loop._later, loop._failures, loop._commits._sent, loop._retiring._until_s)
        assert [len(one) for one in kept] == [0] * len(kept)
        assert len(loop._dependents) == 0
        assert len(loop._complaints._about) == 0
