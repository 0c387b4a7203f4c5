"""`muster group`: every form of the output, what is told of what can't be grouped, fixtures; and what `plan` groups."""

import json

import pytest
import yaml

from workloads import entry, pod, work, written

NAME = "pg-w-uid-w"
TWO = {"subgroups": [entry("head"), entry("worker", minReplicasPath=".spec.n")]}
SKIP = "kai.scheduler/skip-podgrouper"


def text(*documents):
    return "---\n".join(json.dumps(one) + "\n" for one in documents)


def all_of_it(**more):
    """A workload with its interface, a head and a worker."""
    return text(written(TWO), work(n=2, **more), pod("p0", role="head"), pod("p1", role="worker"))


def stray(*, notes=None, **labels):
    return text(pod("stray", notes=notes, **labels))


def mine(name="p0", owner=None, **labels):
    """A pod that asks for our scheduler, and for a CPU."""
    one = pod(name, owner, **labels)
    one["spec"] = {"schedulerName": "kai-scheduler", "containers": [{"resources": {"requests": {"cpu": "1"}}}]}
    return one


def node(cpus):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": str(cpus)}},
    }


class TestForms:
    def test_json(self, muster):
        """As SPEC §10 says: podGroups in full, pods with their place, errors; nothing else on stdout."""
        run = muster("group", "-f", "-", "-o", "json", stdin=all_of_it() + "---\n" + stray(role="stray"))
        assert run.code == 1
        found = run.json
        assert list(found)[:3] == ["podGroups", "pods", "errors"]
        (group,) = found["podGroups"]
        assert (group["apiVersion"], group["kind"]) == ("scheduling.run.ai/v2alpha2", "PodGroup")
        assert group["metadata"]["name"] == NAME
        assert group["spec"]["subGroups"] == [{"name": "head", "minMember": 1}, {"name": "worker", "minMember": 2}]
        assert found["pods"] == [
            {"namespace": "default", "name": "p0", "podGroup": NAME, "subGroup": "head"},
            {"namespace": "default", "name": "p1", "podGroup": NAME, "subGroup": "worker"},
        ]
        (error,) = found["errors"]
        assert set(error) == {
            "kind", "namespace", "name", "pods", "interface", "path", "message", "hint", "retry",
        }  # fmt: skip
        assert (error["kind"], error["namespace"], error["name"]) == ("Work", "default", "w")
        assert (error["pods"], error["retry"]) == (["stray"], False)
        assert error["path"] == "spec.gangScheduling.podGroups[0]"

    def test_yaml_says_the_same(self, muster):
        runs = [muster("group", "-f", "-", "-o", form, stdin=all_of_it()) for form in ("json", "yaml")]
        assert [run.code for run in runs] == [0, 0]
        assert yaml.safe_load(runs[1].out) == runs[0].json

    def test_name(self, muster):
        run = muster("group", "-f", "-", "-o", "name", stdin=all_of_it())
        assert (run.code, run.out) == (0, f"podgroup.scheduling.run.ai/default/{NAME}\n")

    def test_table(self, muster):
        """The trees; what is next on stderr."""
        run = muster("group", "-f", "-", stdin=all_of_it())
        assert run.code == 0
        assert run.out.splitlines()[0] == f"PodGroup default/{NAME}"
        assert "queue default-queue, priority train; 2 pods here" in run.out
        assert "head" in run.out
        assert "p0" not in run.out
        assert "1 PodGroup (1 new or changed)" in run.err
        assert run.err.splitlines()[-1].startswith("next: muster plan -f -")

    def test_wide(self, muster):
        """Every pod as well."""
        run = muster("group", "-f", "-", "-o", "wide", stdin=all_of_it())
        rows = [line.split() for line in run.out.splitlines()]
        at = rows.index(["NAMESPACE", "POD", "PODGROUP", "SUBGROUP"])
        assert rows[at + 1 :] == [["default", "p0", NAME, "head"], ["default", "p1", NAME, "worker"]]

    def test_many_trees_are_counted(self, muster):
        """All of them stand in JSON."""
        owners = [work(f"w{n}", n=1) for n in range(25)]
        documents = [written(TWO), *owners, *(pod(f"p{n}", owner, role="head") for n, owner in enumerate(owners))]
        run = muster("group", "-f", "-", stdin=text(*documents))
        assert run.out.count("PodGroup default/") == 20
        assert "and 5 more PodGroups: -o json" in run.out
        assert len(muster("group", "-f", "-", "-o", "json", stdin=text(*documents)).json["podGroups"]) == 25

    def test_the_other_commands_read_what_it_writes(self, muster, tmp_path):
        """Its PodGroups are valid, and with them in the input nothing changes."""
        made = muster("group", "-f", "-", "-o", "json", stdin=all_of_it()).json["podGroups"]
        (tmp_path / "made.json").write_text(text(*made))
        assert muster("validate", "-f", tmp_path / "made.json").code == 0
        run = muster("group", "-f", "-", "-f", tmp_path / "made.json", stdin=all_of_it())
        assert run.code == 0
        assert "(there already, and up to date)" in run.out
        assert "1 PodGroup (0 new or changed)" in run.err


class TestExplain:
    def test_in_words(self, muster):
        run = muster("group", "-f", "-", "--explain", stdin=all_of_it() + "---\n" + stray(role="stray"))
        assert run.code == 1
        assert f"How PodGroup default/{NAME} came about" in run.out
        assert "ResourceInterface works says Group" in run.out
        (row,) = [line.split() for line in run.out.splitlines() if ".spec.n" in line]
        assert (row[0], row[-2:]) == ("worker", [".spec.n", "2"])
        assert "pod p0: SubGroup head" in run.out
        assert 'not worker: label role is "head", wanted: Equals "worker"' in run.out
        assert "pod stray: no entry claims it" in run.out

    def test_as_data(self, muster):
        run = muster("group", "-f", "-", "--explain", "-o", "json", stdin=all_of_it())
        told = run.json["explained"]
        assert told["podGroups"][0]["expressions"] == [
            {
                "subGroup": "worker",
                "path": "spec.gangScheduling.podGroups[0].subgroups[1].minReplicasPath",
                "expression": ".spec.n",
                "values": [2],
            }
        ]
        assert told["podGroups"][0]["steps"]
        assert told["pods"][1] == {
            "namespace": "default",
            "name": "p1",
            "podGroup": NAME,
            "subGroup": "worker",
            "others": [{"subGroup": "head", "why": 'label role is "worker", wanted: Equals "head"'}],
        }
        assert "explained" not in muster("group", "-f", "-", "-o", "json", stdin=all_of_it()).json

    def test_a_flat_gang_holds_its_pods_itself(self, muster):
        run = muster("group", "-f", "-", "--explain", stdin=text(written({}), work(), pod("p0")))
        assert "pod p0: the PodGroup itself" in run.out


class TestInput:
    @pytest.mark.parametrize(
        ("stdin", "code", "err"),
        [
            pytest.param("", 2, "no objects", id="nothing at all"),
            pytest.param(all_of_it(), 0, "1 PodGroup", id="all well"),
            pytest.param(all_of_it() + "---\na: [\n", 1, "has errors", id="a document that can't be read"),
            pytest.param(text(pod("p0")), 1, "was not seen", id="an owner that is not there"),
            pytest.param(text(written(TWO), work(n="x")), 1, "minReplicasPath", id="a preview that can't be grouped"),
            pytest.param(text({"apiVersion": "v1", "kind": "Service"}), 0, "nothing here to group", id="no workload"),
        ],
    )
    def test_exit_code(self, muster, stdin, code, err):
        """0 when everything is grouped, 1 when something is not, 2 when there is nothing to read."""
        run = muster("group", "-f", "-", stdin=stdin)
        assert run.code == code
        assert err in run.err
        assert "defect" not in run.err

    def test_files_that_are_not_there(self, muster, tmp_path):
        run = muster("group", "-f", tmp_path / "none.yaml")
        assert run.code == 2
        assert "none.yaml" in run.err
        assert muster("group").code == 2

    def test_a_workload_without_pods_is_shown(self, muster):
        """A Job of the catalog too, and one that its owner makes."""
        run = muster("group", "-f", "-", "-o", "json", stdin=text(written(TWO), work(n=4)))
        (group,) = run.json["podGroups"]
        assert group["spec"]["subGroups"][1] == {"name": "worker", "minMember": 4}
        assert run.json["pods"] == []
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "uid": "u"}, "spec": {}}
        assert muster("group", "-f", "-", "-o", "name", stdin=text(job)).out.endswith("/default/pg-j-u\n")

    def test_pods_of_other_schedulers_are_left_out(self, muster):
        """Those that name none are ours here."""
        other = pod("other", role="head")
        other["spec"]["schedulerName"] = "default-scheduler"
        run = muster(
            "group", "-f", "-", "-o", "json", stdin=all_of_it() + "---\n" + text(other, mine("own", role="head"))
        )
        assert [one["name"] for one in run.json["pods"]] == ["own", "p0", "p1"]
        assert "1 pod of other schedulers left out" in run.err

    def test_pods_that_are_left_alone_are_told(self, muster):
        run = muster("group", "-f", "-", stdin=all_of_it() + "---\n" + stray(notes={SKIP: "true"}))
        assert run.code == 0
        assert "1 pod left alone (first default/stray): it says kai.scheduler/skip-podgrouper" in run.err

    def test_what_may_come_later_is_told_apart(self, muster):
        run = muster("group", "-f", "-", stdin=text(pod("p0")))
        assert "not yet grouped" in run.err
        assert "add it to the input" in run.err
        assert run.err.splitlines()[-1].startswith("next: ")

    def test_priority_classes_are_those_of_the_input(self, muster):
        """One that is not there is passed over with a warning."""
        labels = {"priorityClassName": "mine"}
        run = ("group", "-f", "-", "-o", "json")
        found = muster(*run, stdin=all_of_it(labels=labels)).json
        assert found["podGroups"][0]["spec"]["priorityClassName"] == "train"
        assert "no such PriorityClass" in found["warnings"][0]
        mine = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "mine"}, "value": 9}
        found = muster(*run, stdin=all_of_it(labels=labels) + "---\n" + text(mine)).json
        assert found["podGroups"][0]["spec"]["priorityClassName"] == "mine"
        assert found["warnings"] == []

    def test_hostile_text_is_not_printed(self, muster):
        owner = work(n="\x1b[31mred\u202e")
        run = muster("group", "-f", "-", stdin=text(written(TWO), owner, pod("p0", owner, role="\x1b[31m")))
        assert run.code == 1
        assert all(line.isprintable() for line in (run.out + run.err).splitlines())


class TestInterfaces:
    def test_an_invalid_one_is_not_used_and_said(self, muster):
        """Nobody else knows the kind: its pods wait, rather than start one by one. Its errors have paths."""
        bad = written({"subgroups": [entry("head", minReplicasPath=".spec[")]})
        run = muster("group", "-f", "-", "-o", "json", stdin=text(bad, work(), pod("p0", role="head")))
        assert run.code == 1
        assert run.json["podGroups"] == run.json["pods"] == []
        written_wrong, waits = run.json["errors"]
        assert (written_wrong["kind"], written_wrong["name"]) == ("ResourceInterface", "works")
        assert (waits["retry"], waits["pods"]) == (True, ["p0"])
        assert "works" in waits["message"]
        assert "ResourceInterface works: has errors" in run.err
        assert "spec.gangScheduling.podGroups[0].subgroups[0].minReplicasPath" in run.err

    def test_two_for_one_kind_warn(self, muster):
        pair = [written({"minMember": count}, name=name) for name, count in (("zz", 1), ("aa", 2))]
        run = muster("group", "-f", "-", "-o", "json", stdin=text(*pair, work(), pod("p0")))
        assert run.code == 0
        assert run.json["podGroups"][0]["spec"]["minMember"] == 2
        (warning,) = run.json["warnings"]
        assert "aa" in warning
        assert "zz" in warning
        assert "warning: " + warning in run.err

    def test_unknown_fields_are_minded_unless_asked(self, muster):
        odd = written({"minMember": 2, "minMembers": 3})
        runs = [
            muster("group", "-f", "-", "-o", "json", *flags, stdin=text(odd, work(), pod("p0")))
            for flags in ([], ["--no-strict"])
        ]
        found = [(run.code, [one["spec"]["minMember"] for one in run.json["podGroups"]]) for run in runs]
        assert found == [(1, []), (0, [2])]

    def test_a_user_s_before_the_catalog_s_unless_configured(self, muster):
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "uid": "u"}, "spec": {}}
        own = written({"minMember": 7}, targetGVK={"group": "batch", "kind": "Job"})
        run = ("group", "-f", "-", "-o", "json")
        assert muster(*run, stdin=text(job, own)).json["podGroups"][0]["spec"]["minMember"] == 7
        turned = muster(*run, "--set", "grouping.prefer=Job.batch=built-in", stdin=text(job, own))
        assert turned.json["podGroups"][0]["spec"]["minMember"] == 1


EXPECTED = {
    "podGroups": [
        {
            "metadata": {"name": NAME},
            "spec": {
                "queue": "default-queue",
                "priorityClassName": "train",
                "subGroups": [{"name": "head", "minMember": 1}, {"name": "worker", "minMember": 2}],
            },
        }
    ],
    "pods": [
        {"name": "p0", "podGroup": NAME, "subGroup": "head"},
        {"name": "p1", "podGroup": NAME, "subGroup": "worker"},
    ],
}


class TestFixtures:
    @staticmethod
    def case(folder, objects, expected):
        folder.mkdir(parents=True)
        (folder / "objects.yaml").write_text(objects)
        (folder / "expected.yaml").write_text(yaml.safe_dump(expected))

    def test_cases_that_pass_and_one_that_fails(self, muster, tmp_path):
        """Each is told, with what differs; one that fails makes it a no."""
        self.case(tmp_path / "good", all_of_it(), EXPECTED)
        run = muster("group", "--test", tmp_path)
        assert (run.code, run.out) == (0, "ok      good\n")
        assert "1 case: 1 passed, 0 failed" in run.err
        self.case(tmp_path / "bad" / "deep", all_of_it(), {**EXPECTED, "pods": EXPECTED["pods"][:1]})
        run = muster("group", "--test", tmp_path)
        assert run.code == 1
        assert "FAILED  bad/deep" in run.out
        assert "grouped pod default/p1 was not expected" in run.out
        assert "2 cases: 1 passed, 1 failed" in run.err
        assert f"next: muster group -f {tmp_path / 'bad' / 'deep'} --explain" in run.err

    def test_the_folder_of_a_case_stands_for_its_input(self, muster, tmp_path):
        """Not for what is expected, nor for what comes later."""
        self.case(tmp_path / "good", all_of_it(), EXPECTED)
        self.case(tmp_path / "good" / "then-1-later", text(work(labels={"kai.scheduler/queue": "later"})), EXPECTED)
        run = muster("group", "-f", tmp_path / "good", "-o", "json")
        assert (run.code, [one["spec"]["queue"] for one in run.json["podGroups"]]) == (0, ["default-queue"])

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            pytest.param({"podGroups": []}, f"PodGroup default/{NAME} was not expected", id="a PodGroup too many"),
            pytest.param(
                {"podGroups": [*EXPECTED["podGroups"], {"metadata": {"name": "x"}}]},
                "PodGroup default/x is missing",
                id="a PodGroup too few",
            ),
            pytest.param(
                {"podGroups": [{"metadata": {"name": NAME, "labels": {"a": "b"}}, "spec": {}}]},
                'metadata.labels is missing, expected {"a": "b"}',
                id="metadata",
            ),
            pytest.param(
                {"podGroups": [{**EXPECTED["podGroups"][0], "spec": {"queue": "other"}}]},
                'spec.queue is "default-queue", expected "other"',
                id="a field",
            ),
            pytest.param(
                {"podGroups": [{**EXPECTED["podGroups"][0], "spec": {"queue": "default-queue"}}]},
                'spec.priorityClassName is "train", not expected',
                id="a field too many",
            ),
            pytest.param(
                {"pods": [{**EXPECTED["pods"][0], "subGroup": "worker"}, EXPECTED["pods"][1]]},
                f"pod default/p0: is in {NAME}, SubGroup head, expected {NAME}, SubGroup worker",
                id="a place",
            ),
            pytest.param({"errors": [{"message": "x"}]}, 'expected error {"message": "x"} did not come', id="an error"),
            pytest.param({"errors": ["x"]}, 'expected error {"message": "x"} did not come', id="an error as a text"),
            pytest.param({"pods": 5}, "pods is no list", id="not even a list"),
            pytest.param({"podGroups": [5]}, "podGroups is no list", id="a list of something else"),
        ],
    )
    def test_what_differs_is_told(self, muster, tmp_path, change, said):
        self.case(tmp_path / "case", all_of_it(), {**EXPECTED, **change})
        run = muster("group", "--test", tmp_path)
        assert run.code == 1
        assert said in run.out

    def test_a_count_is_not_a_text(self, muster, tmp_path):
        """Nor is 1 the same as true."""
        for number, wrong in enumerate(("1", True, 1.0)):
            groups = json.loads(json.dumps(EXPECTED["podGroups"]))
            groups[0]["spec"]["subGroups"][0]["minMember"] = wrong
            self.case(tmp_path / str(number), all_of_it(), {**EXPECTED, "podGroups": groups})
        assert "3 failed" in muster("group", "--test", tmp_path).err

    @pytest.mark.parametrize(
        ("errors", "code"),
        [
            ([{"pod": "stray", "message": "no entry claims"}], 0),
            ([{"name": "w"}], 0),
            (["no entry claims"], 0),
            ([{"pod": "p0"}], 1),
            ([{"message": "something else"}], 1),
            ([{"name": "w"}, {"name": "w"}], 1),
            ([], 1),
        ],
    )
    def test_expected_errors(self, muster, tmp_path, errors, code):
        """Exactly those that are expected, each by its object, a pod, or part of its message."""
        self.case(tmp_path / "case", all_of_it() + "---\n" + stray(role="stray"), {**EXPECTED, "errors": errors})
        assert muster("group", "--test", tmp_path).code == code

    def test_steps(self, muster, tmp_path):
        """What comes later replaces what was there; a pod goes; labels and annotations may be null."""
        first, second = pod("p0", role="head"), pod("p1", role="worker")
        first["metadata"]["annotations"] = second["metadata"]["annotations"] = None
        self.case(tmp_path / "case", text(written(TWO), work(n=2), first, second), EXPECTED)
        groups = json.loads(json.dumps(EXPECTED["podGroups"]))
        groups[0]["spec"]["subGroups"][1]["minMember"] = 5
        gone = pod("p0", notes={"muster.test/gone": "true"})
        self.case(
            tmp_path / "case" / "then-1-more",
            text(work(n=5), gone, second),
            {"podGroups": groups, "pods": EXPECTED["pods"][1:]},
        )
        run = muster("group", "--test", tmp_path)
        assert (run.code, run.out) == (0, "ok      case  (2 steps)\n")
        (tmp_path / "case" / "then-1-more" / "expected.yaml").write_text(yaml.safe_dump(EXPECTED))
        run = muster("group", "--test", tmp_path)
        assert run.code == 1
        assert "then-1-more: grouped pod default/p0 is missing" in run.out

    def test_the_queue_that_somebody_chose_is_kept_from_step_to_step(self, muster, tmp_path):
        """The PodGroups that were made are there at the next step."""
        self.case(tmp_path / "case", all_of_it(labels={"kai.scheduler/queue": "one"}), {})
        groups = json.loads(json.dumps(EXPECTED["podGroups"]))
        groups[0]["spec"]["queue"] = "one"
        (tmp_path / "case" / "expected.yaml").write_text(yaml.safe_dump({**EXPECTED, "podGroups": groups}))
        later = text(work(n=2, labels={"kai.scheduler/queue": "two"}))
        self.case(tmp_path / "case" / "then-1", later, {**EXPECTED, "podGroups": groups})
        run = muster("group", "--test", tmp_path)
        assert run.code == 0, run.out

    def test_a_pod_that_is_written_again_is_the_same_pod(self, muster, tmp_path):
        """It keeps the gang that it was given, also when the workload is called something else now."""
        named = written({"nameTemplate": ".spec.called"})
        groups = [{"metadata": {"name": "one"}, "spec": {**EXPECTED["podGroups"][0]["spec"], "minMember": 1}}]
        del groups[0]["spec"]["subGroups"]
        places = [{"name": "p0", "podGroup": "one"}]
        self.case(tmp_path / "case", text(named, work(called="one"), pod("p0")), {"podGroups": groups, "pods": places})
        self.case(tmp_path / "case" / "then-1", text(work(called="two"), pod("p0")), {})
        run = muster("group", "--test", tmp_path)
        assert run.code == 0, run.out

    def test_what_changes_again_is_told(self, muster, tmp_path, monkeypatch):
        """A grouper that never comes to rest is found out."""
        monkeypatch.setattr("muster.grouping.grouper.merged", lambda there, wanted, weak: dict(there))
        self.case(tmp_path / "case", all_of_it(), EXPECTED)
        run = muster("group", "--test", tmp_path)
        assert run.code == 1
        assert f"grouping again changes PodGroup default/{NAME}" in run.out

    def test_whoever_comes_first(self, muster, tmp_path):
        """What depends on the pod that is seen first is told, although all together come out as expected."""
        one, two = (pod(f"p{n}", role="head") for n in range(2))
        one["spec"]["priorityClassName"] = "build"
        groups = json.loads(json.dumps(EXPECTED["podGroups"]))
        groups[0]["spec"]["priorityClassName"] = "build"
        places = [{**EXPECTED["pods"][0], "name": name} for name in ("p0", "p1")]
        self.case(tmp_path / "case", text(written(TWO), work(n=2), one, two), {"podGroups": groups, "pods": places})
        run = muster("group", "--test", tmp_path)
        assert run.code == 1
        assert (
            f'with pod p1 alone, PodGroup default/{NAME}: spec.priorityClassName is "train", expected "build"'
            in run.out
        )

    def test_an_interface_with_errors_fails_its_case(self, muster, tmp_path):
        bad = written({"minMemberPath": ".spec["})
        groups = [{"metadata": {"name": NAME}, "spec": {**EXPECTED["podGroups"][0]["spec"], "minMember": 1}}]
        del groups[0]["spec"]["subGroups"]
        places = [{"name": "p0", "podGroup": NAME}]
        self.case(tmp_path / "case", text(bad, work(), pod("p0")), {"podGroups": groups, "pods": places})
        run = muster("group", "--test", tmp_path)
        assert run.code == 1
        assert "ResourceInterface works: spec.gangScheduling.podGroups[0].minMemberPath" in run.out

    def test_shared_files_come_with_f(self, muster, tmp_path):
        self.case(tmp_path / "cases" / "a", text(work(n=2), pod("p0", role="head"), pod("p1", role="worker")), EXPECTED)
        (tmp_path / "interface.yaml").write_text(text(written(TWO)))
        assert muster("group", "--test", tmp_path / "cases").code == 1
        assert muster("group", "--test", tmp_path / "cases", "-f", tmp_path / "interface.yaml").code == 0

    def test_as_data(self, muster, tmp_path):
        self.case(tmp_path / "case", all_of_it(), {**EXPECTED, "pods": []})
        run = muster("group", "--test", tmp_path, "-o", "json")
        assert run.code == 1
        (case,) = run.json
        assert (case["case"], case["passed"], len(case["differences"])) == ("case", False, 2)

    def test_wrong_usage(self, muster, tmp_path):
        run = muster("group", "--test", tmp_path / "none")
        assert (run.code, "there is no folder" in run.err) == (2, True)
        run = muster("group", "--test", tmp_path)
        assert (run.code, "no expected.yaml below" in run.err) == (2, True)

    def test_what_cant_be_read_is_a_failed_case(self, muster, tmp_path):
        """The others run all the same."""
        self.case(tmp_path / "bad", all_of_it(), {})
        (tmp_path / "bad" / "expected.yaml").write_text("a: [\n")
        self.case(tmp_path / "good", all_of_it(), EXPECTED)
        run = muster("group", "--test", tmp_path)
        assert run.code == 1
        assert "FAILED  bad" in run.out
        assert "ok      good" in run.out


class TestPlan:
    """Pods of ours without a gang are grouped before they are planned."""

    @staticmethod
    def world(cpus, *pods, n=2):
        return text(node(cpus), written(TWO), work(n=n), *pods)

    def test_they_are_planned_as_a_gang(self, muster):
        pods = [mine("p0", role="head"), mine("p1", role="worker"), mine("p2", role="worker")]
        run = muster("plan", "-f", "-", "-o", "json", stdin=self.world(8, *pods))
        assert run.code == 0
        assert [one["pod"] for one in run.json["bindings"]] == ["p0", "p1", "p2"]
        (found,) = run.json["podGroups"]
        assert (found["name"], [one["name"] for one in found["subGroups"]]) == (NAME, ["", "head", "worker"])
        assert "3 pods without a gang grouped into 1 PodGroup by owner" in run.err
        assert "skipped" not in run.err
        tight = muster("plan", "-f", "-", "-o", "json", stdin=self.world(2, *pods))
        assert (tight.code, tight.json["bindings"]) == (1, [])

    def test_the_gang_waits_for_pods_that_are_still_to_come(self, muster):
        run = muster("plan", "-f", "-", "-o", "json", stdin=self.world(8, mine("p0", role="head")))
        assert (run.code, run.json["bindings"]) == (0, [])

    def test_what_cant_be_grouped_is_told(self, muster):
        run = muster(
            "plan", "-f", "-", "-o", "json", stdin=self.world(8, mine("p0", role="stray"), mine("p1", role="x"))
        )
        assert run.json["bindings"] == []
        assert "Work default/w: 1 pod not grouped: no entry claims the pod" in run.err
        assert "2 pods without a gang: not planned" in run.err or "without a gang: not planned" in run.err

    def test_what_if_they_came_too(self, muster, tmp_path):
        """With --add the answer is about the gangs of the pods that were added; what it means for others is told."""

        def file(name, *documents, workers=1):
            owner = work(name, n=workers)
            pods = [mine(f"{name}-{n}", owner, role="worker" if n else "head") for n in range(workers + 1)]
            (tmp_path / name).write_text(text(*documents, owner, *pods))
            return tmp_path / name

        def plan(there, *added):
            run = muster("plan", "-f", there, *(part for name in added for part in ("--add", name)), "-o", "json")
            return (
                run.code,
                [one["pod"] for one in run.json["bindings"]],
                [o["name"] for o in run.json.get("others", [])],
            )

        there, large = (file(name, node(3), written(TWO), workers=n) for name, n in (("m", 1), ("large", 5)))
        later, earlier = file("z"), file("a")
        assert plan(there) == (0, ["m-0", "m-1"], [])
        assert plan(there, later) == (1, ["m-0", "m-1"], [])
        assert plan(there, earlier) == (0, ["a-0", "a-1"], ["pg-m-uid-m"])
        assert plan(large) == (1, [], [])
        assert plan(large, later) == (0, ["z-0", "z-1"], [])

    def test_a_pod_that_comes_to_a_gang_that_is_there(self, muster):
        """It joins the PodGroup of the others, which keeps the queue that somebody gave it."""
        made = muster("group", "-f", "-", "-o", "json", stdin=self.world(8, mine("p0", role="head"))).json["podGroups"][
            0
        ]
        made["spec"]["queue"] = "moved"
        old = mine("p0", role="head")
        old["metadata"]["annotations"] = {"pod-group-name": NAME}
        old["metadata"]["labels"]["kai.scheduler/subgroup-name"] = "head"
        old["spec"]["nodeName"] = "n"
        new = [mine("p1", role="worker"), mine("p2", role="worker")]
        run = muster("plan", "-f", "-", "-o", "json", stdin=self.world(8, old, *new) + "---\n" + text(made))
        (found,) = run.json["podGroups"]
        assert found["subGroups"][0]["pods"] == {"total": 3, "placed": 3, "pending": 0}
        assert [one["pod"] for one in run.json["bindings"]] == ["p1", "p2"]

    def test_pods_of_others_and_ended_ones_are_not_grouped(self, muster):
        other, ended = mine("other", role="head"), mine("ended", role="head")
        other["spec"] = {**other["spec"], "schedulerName": "default-scheduler"}
        ended["status"] = {"phase": "Succeeded"}
        run = muster("plan", "-f", "-", "-o", "json", stdin=self.world(8, other, ended))
        assert run.json["podGroups"] == []
        nobodys = pod("nobodys", role="worker")
        run = muster("plan", "-f", "-", "-o", "json", stdin=self.world(8, nobodys, mine("p0", role="head")))
        assert run.json["podGroups"][0]["subGroups"][0]["pods"]["total"] == 1

    def test_warnings_come_through(self, muster):
        pair = [written({"minMember": count}, name=name) for name, count in (("zz", 1), ("aa", 2))]
        run = muster("plan", "-f", "-", stdin=text(node(8), *pair, work(), mine("p0")))
        assert "note: " in run.err
        assert "zz" in run.err
        bad = written({"minMemberPath": ".spec["})
        run = muster("plan", "-f", "-", "-o", "json", stdin=text(node(8), bad, work(), mine("p0")))
        assert run.json["bindings"] == []
        assert "works" in run.err


@pytest.mark.parametrize("gang", ["train", ""], ids=["it names a gang", "it names none"])
def test_a_workload_whose_template_names_a_gang_joins_that_one(muster, gang):
    """As its pods would: they are left alone, and no PodGroup is made for them."""
    template = {"metadata": {"annotations": {"pod-group-name": gang}}, "spec": {"containers": []}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "uid": "u"},
        "spec": {"parallelism": 2, "template": template},
    }
    run = muster("group", "-f", "-", stdin=text(job))
    assert run.code == 0
    assert ("note: Job j: its pods join the gang train, which their template names" in run.err) is bool(gang)
    assert ("PodGroup default/pg-j-u" in run.out) is not bool(gang)


@pytest.mark.parametrize("kind", ["pod", "workflow", "notebook"])
def test_a_minimum_above_the_one_pod_that_is_made_is_cut_down(muster, kind):
    """`batch-min-member: "2"` would never start: it is cut to the pod that exists, and the warning says who asked."""
    run = muster("group", "-f", f"tests/grouping/catalog/{kind}/batch-min-member", "-o", "json")
    assert run.code == 0
    assert [group["spec"]["minMember"] for group in run.json["podGroups"]] in ([1], [1, 1])
    (warning,) = run.json["warnings"]
    assert 'the annotation kai.scheduler/batch-min-member is "2", but root has 1 pod at a time: 1 is used' in warning
