"""`make bench-live` without a cluster: what it creates, what it counts, what it makes of it, and how it is called."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from bench.live import objects, report
from bench.live.objects import KUBE, MUSTER, Gang
from bench.live.report import Run
from bench.live.traffic import Binds

ROOT = Path(__file__).parents[3]


def run(case="singles", who=MUSTER, last_s=10.0, **more):
    return Run(case, who, 4000, 1.0, last_s, 5.0, 2**27, **more)


def test_waits_count_in_the_rate():
    assert run(last_s=8.0).rate == 500
    assert run(last_s=0.0).rate == 0


def test_how_many_times_as_fast_is_median_by_median():
    runs = [run(last_s=5), run(last_s=4), run(last_s=40), run(who=KUBE, last_s=10), run(who=KUBE, last_s=20)]
    runs += [run(who=KUBE, last_s=20), run("gangs-8", last_s=1)]
    assert report.times_as_fast("singles")(runs) == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("theirs_s", "wrong", "met"), [(15.0, "", True), (14.9, "", False), (30.0, "1 pods without a node", False)]
)
def test_a_target_is_met_by_the_speed_and_only_by_what_is_right(theirs_s, wrong, met):
    (verdict,) = report.verdicts([run(wrong=wrong), run(who=KUBE, last_s=theirs_s)])
    assert verdict.case == "singles"
    assert verdict.met is met
    assert report.summary([verdict]).endswith("met" if met else "MISSED")


def test_what_was_not_measured_has_no_verdict():
    assert report.verdicts([run(), run("gangs-8", KUBE)]) == []
    assert [one.case for one in report.verdicts([run("size")])] == ["size", "size"]


def test_what_has_no_target_is_only_shown():
    (verdict,) = report.verdicts([run("live"), run("live", KUBE, last_s=30.0)])
    assert verdict.met is None
    assert report.summary([verdict]).endswith("3 times as fast as native gangs of kube-scheduler 1.36.4")


def test_a_percentile_is_a_value_that_was_measured():
    values = [float(value) for value in range(100, 0, -1)]
    assert [report.percentile(values, part) for part in (0.5, 0.99, 1.0)] == [50.0, 99.0, 100.0]
    assert report.percentile([7.0], 0.99) == 7.0


def test_the_table_and_the_document_say_the_same():
    runs = [run(more={"told_after_s": 2.0}), run(who=KUBE, last_s=20.0, wrong="3 pods without a node")]
    assert "400" in report.line(runs[0])
    assert "told after s 2" in report.line(runs[0])
    assert "WRONG: 3 pods" in report.line(runs[1])
    found = json.loads(report.document(runs, "a machine"))
    assert [one["rate"] for one in found["runs"]] == [400.0, 200.0]
    assert found["targets"][0]["value"] == 2.0


def test_a_page_keeps_its_prose_and_gets_the_tables(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.write_page(page, report.page([run(), run(who=KUBE, last_s=20.0)], "a machine"))
    text = page.read_text()
    assert text.startswith(f"before\n{report.BEGIN}\n\nMeasured on a machine.")
    assert text.endswith(f"{report.END}\nafter\n")
    assert "old" not in text
    assert "| singles | kube-scheduler | 1.00 s | 20.00 s | 200 |" in text
    assert "| 2 | yes |" in text


def test_every_fourth_gang_asks_muster_for_one_rack_and_kube_scheduler_for_a_plain_gang():
    gangs = objects.gangs("g", 8, 4, racks=True)
    assert [gang.one_rack for gang in gangs] == [False, True, False, False] * 2
    ours, theirs = (objects.group(gangs[1], who) for who in (MUSTER, KUBE))
    assert ours.document["spec"]["topologyConstraint"]["requiredTopologyLevel"] == "rack"
    assert theirs.document["spec"] == {"schedulingPolicy": {"gang": {"minCount": 4}}}
    pods = [objects.pods(gangs[1], who)[0].document for who in (MUSTER, KUBE)]
    assert pods[0]["metadata"]["annotations"]["pod-group-name"] == "g-00001"
    assert pods[1]["spec"]["schedulingGroup"] == {"podGroupName": "g-00001"}
    assert [pod["spec"]["schedulerName"] for pod in pods] == ["kai-scheduler", "default-scheduler"]
    # Everything else is the same pod.
    assert pods[0]["spec"]["containers"] == pods[1]["spec"]["containers"]


def test_a_lone_pod_is_no_gang_to_kube_scheduler():
    lone = Gang("lone", 1)
    assert objects.group(lone, KUBE) is None
    assert "schedulingGroup" not in objects.pods(lone, KUBE)[0].document["spec"]
    assert objects.group(lone, MUSTER).document["spec"] == {"minMember": 1}


def test_racks_are_full_of_nodes_and_zones_of_racks():
    labels = [objects.node(number).document["metadata"]["labels"] for number in range(500)]
    assert set(Counter(one[objects.RACK] for one in labels).values()) == {objects.NODES_PER_RACK}
    assert len({one[objects.ZONE] for one in labels}) == 5
    assert labels[137][objects.RACK] == objects.rack_of(137)


def test_a_bind_counts_once_and_nobody_waits_for_the_dead():
    async def play():
        binds = Binds()
        binds.see("a", "n1")
        binds.see("b", "")
        first = dict(binds.at_s)
        binds.see("a", "n1")
        assert binds.at_s == first
        assert list(first) == ["a"]
        assert await binds.wait(lambda: "a" in binds.at_s, 60, lambda: True)
        assert not await binds.wait(lambda: "b" in binds.at_s, 60, lambda: False)

    asyncio.run(play())


def called(*args, path=""):
    env = {"PATH": path, "XDG_CACHE_HOME": "/nonexistent", "HOME": "/nonexistent"}
    return subprocess.run(
        [sys.executable, "-m", "bench.live", *args], capture_output=True, text=True, cwd=ROOT, env=env, timeout=60
    )


def test_help_ends_with_an_example_and_a_wrong_case_is_told():
    done = called("--help")
    assert done.returncode == 0
    assert "example: python -m bench.live" in done.stdout
    wrong = called("gang")
    assert wrong.returncode == 2
    assert "there is no case gang; there are singles, gangs-8" in wrong.stderr


def test_without_go_one_line_says_what_to_do():
    done = called("--quick")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "install Go" in done.stderr
