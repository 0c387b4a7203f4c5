"""A live cluster instead of files: the same answers, what may not be read, what is not there, and nothing written."""

import json
import sys

import pytest

from muster.cli import live
from unit.cli.played import KUBECONFIG, Cluster, group, node, pod, thing
from unit.kube.playing import answer, scripted

NOW = ("--now", "2026-01-31T12:00:00Z")


@pytest.fixture
def cluster(monkeypatch, tmp_path):
    """Makes the played cluster the current one."""
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(KUBECONFIG))
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    def current(*documents, **more):
        made = Cluster(*documents, **more)
        monkeypatch.setattr(live, "Client", made.client)
        return made

    return current


JOB = thing("batch/v1", "Job", "train", "team", spec={"parallelism": 2, "completions": 2})
DEPLOYMENT = thing("apps/v1", "Deployment", "web", "team", spec={"replicas": 2})
REPLICAS = thing("apps/v1", "ReplicaSet", "web-1", "team", owner=DEPLOYMENT, spec={"replicas": 2})


def small():
    return [node(), group(), pod("g-0", gang="g"), pod("g-1", gang="g")]


class TestSameAsFiles:
    def test_a_plan_is_the_one_that_the_same_objects_in_a_file_give(self, muster, cluster, tmp_path):
        objects = [*small(), thing("kai.scheduler/v1alpha1", "Topology", "t", spec={"levels": [{"nodeLabel": "rack"}]})]
        cluster(*objects)
        file = tmp_path / "all.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        here, there = muster("plan", "-o", "json", *NOW), muster("plan", "-f", file, "-o", "json", *NOW)
        assert here.out == there.out
        assert len(here.json["bindings"]) == 2
        assert here.code == there.code == 0

    def test_a_snapshot_is_the_same_too_and_redacted(self, muster, cluster):
        cluster(*small())
        done = muster("snapshot", *NOW)
        assert done.code == 0
        assert "hush" not in done.out
        assert "somebody" not in done.out
        assert [one["metadata"]["name"] for one in done.json["pods"]] == ["g-0", "g-1"]

    def test_explain_answers_about_the_cluster(self, muster, cluster):
        cluster(*small()[:-1])
        done = muster("explain", "team/g", "-o", "json")
        assert done.code == 1
        assert done.json["verdict"] == "Held"
        assert "in the cluster" in muster("explain", "team/nobody").err

    def test_explain_says_of_a_gang_that_only_pods_name_that_it_is_not_there(self, muster, cluster):
        cluster(*small(), pod("lost-0", gang="lost"), pod("lost-1", gang="lost"), pod("one", gang="single"))
        done = muster("explain", "team/lost")
        assert done.code == 2
        assert "2 pods name the gang team/lost, and no PodGroup of that name exists in the cluster" in done.err
        assert "create the PodGroup, or correct the annotation pod-group-name" in done.err
        assert "did you mean" not in done.err
        assert "1 pod names the gang team/single, and no PodGroup" in muster("explain", "single").err

    @pytest.mark.parametrize("command", [["plan"], ["explain", "team/g"]])
    def test_http_to_a_server_that_wants_https_is_said_with_the_address(self, muster, cluster, command):
        played = cluster()
        played.transport = scripted(*[answer(b"Client sent an HTTP request to an HTTPS server.\n", 400)] * 20)
        done = muster(*command)
        assert done.code == 2
        assert "http://played.example wants HTTPS" in done.err
        assert "write https:// in the kubeconfig" in done.err

    def test_what_if_is_asked_of_the_cluster(self, muster, cluster, tmp_path):
        cluster(*small(), node("n2"))
        extra = tmp_path / "more.json"
        extra.write_text(json.dumps({"kind": "List", "items": [group("h"), *(pod(f"h-{n}", gang="h") for n in "01")]}))
        done = muster("plan", "--add", extra, "-o", "json")
        assert [one["name"] for one in done.json["podGroups"]] == ["g", "h"]
        assert done.json["others"] == []
        assert muster("plan", "--without", "team/g", "-o", "json").json["podGroups"] == []
        drained = muster("plan", "--drain", "n1", "-o", "json").json
        assert {one["node"] for one in drained["bindings"]} == {"n2"}
        assert "there is no node n9 in the cluster" in muster("plan", "--drain", "n9").err

    def test_what_names_no_namespace_is_in_that_of_the_context(self, muster, cluster, tmp_path):
        cluster(*small(), group(namespace="default"))
        extra = tmp_path / "more.json"
        named = [group("h", namespace=""), *(pod(f"h-{n}", namespace="", gang="h") for n in "01")]
        extra.write_text(json.dumps({"kind": "List", "items": named}))
        added = muster("plan", "--add", extra, "-o", "json").json
        assert ("team", "h") in {(one["namespace"], one["name"]) for one in added["podGroups"]}
        assert len([one for one in added["bindings"] if one["pod"].startswith("h-")]) == 2
        assert muster("explain", "g", "-o", "json").json["namespace"] == "team"
        assert muster("explain", "g", "-o", "json", "--context", "there").json["namespace"] == "default"

    def test_a_field_of_somebody_elses_version_is_no_error(self, muster, cluster):
        cluster(node(), group(minMember=2, theirs="x"), *small()[2:])
        assert len(muster("plan", "-o", "json").json["bindings"]) == 2

    def test_nothing_but_reading(self, muster, cluster):
        played = cluster(*small(), JOB, pod("train-0", owner=JOB))
        for command in (["plan"], ["explain", "team/g"], ["snapshot"], ["group"]):
            muster(*command)
        assert {request.method for request in played.transport.requests} == {"GET"}


class TestOwners:
    def test_owners_of_pods_without_a_gang_are_read_once_each_and_no_others(self, muster, cluster):
        idle = thing("batch/v1", "Job", "idle", "team", spec={})
        pods = [pod(f"web-{n}", owner=REPLICAS) for n in "01"] + [pod(f"train-{n}", owner=JOB) for n in "01"]
        played = cluster(node(), node("n2"), JOB, idle, DEPLOYMENT, REPLICAS, *pods)
        done = muster("plan", "-o", "json")
        assert done.code == 0
        assert len(done.json["bindings"]) == 4
        read = sorted(path.rpartition("/")[2] for path in played.asked if "/namespaces/team/" in path)
        assert read == ["train", "web", "web-1"]

    def test_pods_that_have_a_gang_need_no_owner(self, muster, cluster):
        played = cluster(node(), group(), pod("g-0", gang="g", owner=JOB), pod("g-1", gang="g", owner=JOB))
        muster("plan")
        assert not [path for path in played.asked if "jobs" in path]

    def test_many_owners_come_in_one_list(self, muster, cluster):
        jobs = [thing("batch/v1", "Job", f"j{n}", "team", spec={"parallelism": 1}) for n in range(60)]
        played = cluster(node(), *jobs, *(pod(f"p{n}", owner=job) for n, job in enumerate(jobs)))
        done = muster("group", "-o", "name")
        assert len(done.out.splitlines()) == 60
        assert [path for path in played.asked if "jobs" in path] == ["/apis/batch/v1/namespaces/team/jobs"]

    def test_an_owner_that_may_not_be_read_is_told_as_such(self, muster, cluster):
        cluster(node(), JOB, pod("train-0", owner=JOB), forbidden=["jobs"])
        done = muster("plan")
        assert "Job: may not be read (it takes the verb get on jobs)" in done.err
        assert "Job team/train may not be read" in done.err

    def test_an_owner_that_is_gone_is_not_seen(self, muster, cluster):
        cluster(node(), pod("train-0", owner=JOB), pod("w-0", owner=thing("no.such/v1", "Odd", "odd", "team")))
        done = muster("plan")
        assert done.code == 0
        assert "Job team/train, the owner of this Pod, was not seen" in done.err
        assert "Odd team/odd, the owner of this Pod, was not seen" in done.err

    @pytest.mark.parametrize("bad", [("a%b/c/v1", "X", "x"), ("batch/v1", "Job", "a/b"), ("../v1", "X", "..")])
    def test_an_owner_with_an_impossible_name_costs_nobody_else(self, muster, cluster, bad):
        odd = thing(*bad, "team")
        cluster(node(), JOB, pod("train-0", owner=JOB), pod("odd-0", owner=odd))
        done = muster("plan", "-o", "json")
        assert [one["pod"] for one in done.json["bindings"]] == ["train-0"]

    def test_an_owner_in_another_version_than_it_is_served_in(self, muster, cluster):
        old = thing("example.com/v1", "Widget", "w", "team", spec={})
        cluster(node(), {**old, "apiVersion": "example.com/v2"}, pod("w-0", owner=old))
        assert "pg-w-uid-w" in muster("group", "-o", "name").out

    def test_what_an_interface_refers_to_is_read_too(self, muster, cluster):
        interface = thing(
            *("kai.scheduler/v1", "ResourceInterface", "widgets"),
            spec={
                "targetGVK": {"group": "example.com", "version": "v2", "kind": "Widget"},
                "references": [
                    {
                        "name": "size",
                        "gvk": {"group": "batch", "version": "v1", "kind": "Job"},
                        "lookup": {"namePath": ".spec.like"},
                    }
                ],
                "gangScheduling": {"podGroups": [{"name": "all", "minMemberPath": "$size.spec.parallelism"}]},
            },
        )
        widget = thing("example.com/v2", "Widget", "w", "team", spec={"like": "train"})
        cluster(node(), interface, JOB, widget, pod("w-0", owner=widget))
        done = muster("group", "-o", "json")
        assert done.json["errors"] == []
        assert done.json["podGroups"][0]["spec"]["minMember"] == 2

    def test_what_an_interface_refers_to_by_labels_is_read_too(self, muster, cluster):
        reference = {"name": "jobs", "gvk": {"group": "batch", "version": "v1", "kind": "Job"}}
        interface = thing(
            *("kai.scheduler/v1", "ResourceInterface", "widgets"),
            spec={
                "targetGVK": {"group": "example.com", "version": "v2", "kind": "Widget"},
                "references": [{**reference, "list": {"matchLabels": {"of": ".metadata.name"}}}],
                "gangScheduling": {"podGroups": [{"name": "all", "minMemberPath": "[$jobs[].spec.parallelism] | add"}]},
            },
        )
        widget = thing("example.com/v2", "Widget", "w", "team", spec={})
        jobs = [
            thing("batch/v1", "Job", name, "team", labels={"of": of}, spec={"parallelism": 3})
            for name, of in (("a", "w"), ("b", "w"), ("c", "x"))
        ]
        played = cluster(node(), interface, widget, *jobs, pod("w-0", owner=widget))
        done = muster("group", "-o", "json")
        assert done.json["errors"] == []
        (made,) = done.json["podGroups"]
        assert made["spec"]["minMember"] == 6
        assert len([path for path in played.asked if path.endswith("/jobs")]) == 1
        played.forbidden = {"jobs"}
        assert "may not be read" in muster("group", "-o", "json").err


class TestGroup:
    def test_the_namespace_is_that_of_the_context_or_the_one_that_is_named(self, muster, cluster):
        other = thing("batch/v1", "Job", "far", "else", spec={"parallelism": 1})
        cluster(JOB, other, pod("train-0", owner=JOB), pod("far-0", "else", owner=other))

        def names(*args):
            return [line.split("/")[1] for line in muster("group", "-o", "name", *args).out.splitlines()]

        assert names() == ["team"]
        assert names("-n", "else") == ["else"]
        assert names("-A") == ["else", "team"]
        assert names("--context", "there") == []
        assert "no pods in namespace default: -n chooses another" in muster("group", "--context", "there").err

    def test_what_is_there_already_is_known(self, muster, cluster):
        cluster(JOB, pod("train-0", owner=JOB))
        made = muster("group", "-o", "json").json["podGroups"][0]
        cluster(JOB, pod("train-0", owner=JOB), made)
        assert "(there already, and up to date)" in muster("group").out


class TestNext:
    @pytest.mark.parametrize("given", [[], ["--context", "there"]])
    def test_the_next_command_is_about_the_same_cluster(self, muster, cluster, given):
        said = " ".join(["", *given])
        cluster(*small())
        assert f"next: muster snapshot{said} > cycle.json" in muster("plan", *given).err
        assert f"next: muster plan{said} -o wide" in muster("explain", "team/g", *given).err
        cluster(*small()[:-1])
        assert f"next: muster explain team/g{said}\n" in muster("plan", *given).err
        assert f"next: muster explain team/g{said} -o json" in muster("explain", "team/g", *given).err
        cluster(group(minMember=-1))
        assert "kubectl get podgroups.scheduling.run.ai -n team g" in muster("explain", "team/g", *given).err
        cluster(JOB, pod("train-0", owner=JOB))
        assert f"next: muster plan{said}   (do they fit?), or muster group -n team{said} -o yaml" in (
            muster("group", "-n", "team", *given).err
        )


class TestTroubles:
    def test_without_our_kinds_there_is_a_note_that_says_how_to_install_them(self, muster, cluster):
        kinds = ["podgroups", "queues", "topologies", "resourceinterfaces"]
        cluster(node(), JOB, pod("train-0", owner=JOB), missing=kinds)
        done = muster("plan", "-o", "json")
        assert done.code == 0
        assert len(done.json["bindings"]) == 1
        assert "not installed here: muster crds | kubectl apply --server-side -f -" in done.err

    @pytest.mark.parametrize("kind", ["queues", "topologies", "resourceinterfaces", "priorityclasses", "namespaces"])
    def test_what_may_not_be_read_is_a_note(self, muster, cluster, kind):
        cluster(*small(), forbidden=[kind])
        done = muster("plan", "-o", "json")
        assert len(done.json["bindings"]) == 2
        assert f"note: {kind} may not be read (it takes the verb list on {kind}): " in done.err

    @pytest.mark.parametrize("command", [["plan"], ["explain", "g"], ["snapshot"]])
    def test_without_nodes_and_pods_nothing_true_can_be_said(self, muster, cluster, command):
        cluster(*small(), forbidden=["nodes", "pods"])
        done = muster(*command)
        assert done.code == 2
        assert done.out == ""
        assert "not allowed to list nodes, pods in the whole cluster" in done.err
        assert "muster doctor" in done.err

    def test_a_server_that_does_not_answer_is_one_sentence(self, muster, cluster):
        cluster(down="no connection to http://played.example")
        done = muster("plan")
        assert done.code == 2
        assert len(done.err.splitlines()) == 2
        assert "no connection to http://played.example" in done.err

    def test_credentials_that_are_refused_are_one_sentence(self, muster, cluster):
        cluster().who = 401
        done = muster("plan")
        assert done.code == 2
        assert "Traceback" not in done.err
        assert len(done.err.splitlines()) <= 2

    def test_a_server_of_something_else(self, muster, cluster):
        cluster(missing=["nodes"])
        done = muster("plan")
        assert done.code == 2
        assert "has no nodes of v1" in done.err

    @pytest.mark.parametrize("command", [["plan"], ["explain", "g"], ["snapshot"], ["group"]])
    def test_neither_files_nor_a_kubeconfig(self, muster, monkeypatch, tmp_path, command):
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        done = muster(*command)
        assert done.code == 2
        assert "nothing to read: there is no kubeconfig" in done.err
        assert "-f" in done.err
        assert "KUBECONFIG" in done.err

    @pytest.mark.parametrize(
        ("args", "says"),
        [
            (["--context", "nowhere"], 'there is no context "nowhere"'),
            (["--kubeconfig", "/no/such/file"], "/no/such/file: can't be read"),
            (["-f", "-", "--context", "here"], "-f is about files, and --context about a cluster"),
        ],
    )
    def test_what_is_asked_wrongly(self, muster, cluster, args, says):
        cluster()
        done = muster("plan", *args)
        assert done.code == 2
        assert says in done.err

    @pytest.mark.parametrize("args", [["-f", "-", "-n", "x"], ["-n", "x", "-A"]])
    def test_group_wants_one_place(self, muster, cluster, args):
        cluster()
        assert muster("group", *args).code == 2


class TestProgress:
    def test_a_terminal_is_told_what_takes_long(self, muster, cluster, monkeypatch):
        monkeypatch.setattr(live, "_QUIET_S", 0.0)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        played = cluster(*small())
        reply = played.reply

        async def slowly(request):
            import asyncio

            await asyncio.sleep(0.05)
            return await reply(request)

        played.transport._whole = slowly
        err = muster("plan").err
        assert "reading http://played.example: " in err
        assert "pods" in err.partition("reading ")[2].partition("...")[0]

    def test_a_file_is_not(self, muster, cluster, monkeypatch):
        monkeypatch.setattr(live, "_QUIET_S", 0.0)
        cluster(*small())
        assert "reading" not in muster("plan").err
