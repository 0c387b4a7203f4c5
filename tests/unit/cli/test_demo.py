"""The pieces of `muster demo`: the file, the witness, the evidence, the words. The whole of it is in tests/e2e."""

import io
import itertools
import json
from pathlib import Path

import pytest
from msgspec import structs

from muster.cli.story import performing
from muster.cli.story.evidence import always, faults_of, told
from muster.cli.story.kubectl import requests_of
from muster.cli.story.performing import Performance
from muster.cli.story.racks import Letters, map_of
from muster.cli.story.sender import Interrupted
from muster.cli.story.tale import Act, Chapter, Claim, Tale, built_in, filled, tale_of
from muster.cli.story.telling import Result, Teller, kubectl_rows, tree_rows
from muster.cli.story.witness import GROUPS, Witness
from muster.errors import MusterError, UsageError
from muster.kube.resources import PODS
from muster.sim.expecting import Seen
from muster.sim.objects import Nodes, Pods
from muster.sim.scenario import BadScenario, Expected

ROOT = Path(__file__).parents[3]
SCENARIO = "claim: c\nwhy: w\nnodes: [{name: n, count: 2}]\ngangs: {g: {minMember: 1}}\npods: [{gang: g, name: g-0}]\n"
STEP = "steps: [{expect: {bindings: 1}}]\n"
UID = itertools.count()


# The file.


def test_the_shipped_story_has_what_it_promises():
    """64 nodes of 8 GPUs in 2 zones, 4 blocks and 16 racks; five chapters, and every one claims something."""
    tale = built_in()
    nodes = [one for one in tale.all() if one["kind"] == "Node"]
    labels = [one["metadata"]["labels"] for one in nodes]
    domains = [len({one[level] for one in labels}) for level in ("zone", "block", "rack")]
    assert (len(nodes), domains) == (64, [2, 4, 16])
    assert {one["status"]["allocatable"]["nvidia.com/gpu"] for one in nodes} == {"8"}
    assert [bool([claim for act in chapter.acts for claim in act.claims]) for chapter in tale.chapters] == [True] * 5


def test_the_shipped_story_is_part_of_the_program():
    """It lies beside the modules, so that it is in the wheel as they are."""
    assert (ROOT / "src" / "muster" / "cli" / "story" / "demo.yaml").is_file()


def test_a_scenario_and_a_story_are_told_too():
    assert len(tale_of((SCENARIO + STEP).encode(), "s").steps) == 1
    text = "workloads: {w: {gang: {minMember: 1}, pods: {'': 1}}}\nhappens: [{at: 3, fail: [b]}, {at: 1, fail: [a]}]\n"
    (chapter,) = tale_of(text.encode(), "file.yaml").chapters
    assert [(act.at, act.fail) for act in chapter.acts] == [(1.0, ["a"]), (3.0, ["b"]), (3.0, [])]
    assert chapter.acts[-1].claims


EXPECTS = """
workloads: {w: {gang: {minMember: 1}, pods: {"": 1}}}
happens: [{at: 2, fail: [a], expect: {bindings: 1}}, {at: 3, says: s}]
lasts: 9
ends: {evictions: 7}
"""


def test_what_a_story_expects_is_claimed_at_its_second():
    """Before what happens then; the end is when the story has lasted. What moved is counted from the beginning."""
    (chapter,) = tale_of(EXPECTS.encode(), "file.yaml").chapters
    assert chapter.clocked
    assert [(act.at, act.fail, [claim.says for claim in act.claims]) for act in chapter.acts] == [
        (2.0, [], ["at 2 s it is as expected"]),
        (2.0, ["a"], []),
        (3.0, [], []),
        (9.0, [], ["it comes to rest", "in the end it is as expected"]),
    ]
    assert [claim.expect for act in chapter.acts for claim in act.claims] == [
        Expected(bindings=1),
        Expected(),
        Expected(evictions=7),
    ]
    assert all(act.expect == Expected() for act in chapter.acts)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(SCENARIO + "faults: [{point: bind, does: lose}]\n" + STEP, "breaks requests", id="faults"),
        pytest.param(SCENARIO + "processes: 2\n" + STEP, "2 processes", id="processes"),
        pytest.param(SCENARIO + "happens: [{at: 1, crash: [0]}]\n", r"happens\[0\].crash", id="crash"),
        pytest.param(SCENARIO + "steps: [{now: 5, expect: {}}]\n", r"steps\[0\].now", id="clock"),
        pytest.param(SCENARIO + "steps: [{actions: [allocate], expect: {}}]\n", "actions", id="actions"),
        pytest.param(SCENARIO + "history: {g: {started: -60}}\n" + STEP, "a past", id="history"),
        pytest.param(SCENARIO.replace("name: g-0", "name: g-0, age: 3") + STEP, "a past", id="age"),
        pytest.param(SCENARIO + "unchecked: true\n" + STEP, "unchecked", id="unchecked"),
        pytest.param(SCENARIO + "ends: {bindings: 1}\n" + STEP, "steps and ends", id="ends"),
        pytest.param(SCENARIO + "happens: [{at: 1, fail: [n]}]\n" + STEP, "steps and happens", id="happens"),
        pytest.param(SCENARIO + "workloads: {w: {pods: {'': 1}}}\n" + STEP, "steps and workloads", id="workloads"),
        pytest.param("chapters: [{title: t, acts: [{crash: [0]}]}]", r"chapters\[0\].acts\[0\].crash", id="act"),
        pytest.param("chapters: [{title: t, acts: [{apply: {pods: [{age: 1}]}}]}]", "a past", id="past of an act"),
    ],
)
def test_what_takes_a_time_that_can_be_set_is_for_the_simulation(text, says):
    with pytest.raises(UsageError, match=says) as raised:
        tale_of(text.encode(), "file.yaml")
    assert raised.value.hint == "muster simulate -f file.yaml"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [1", "not YAML"),
        ("- 1", "file.yaml"),
        ("claim: c\n", "nothing happens"),
        ("chapters: [{title: t, actz: []}]", "actz"),
        ("chapters: [{title: t, acts: [{claims: [{says: s, kep: [g]}]}]}]", "kep"),
        ("chapters: [{title: t, acts: []}]\n---\nkind: Pod\n", "more than one document"),
        ("chapters: [{title: t, acts: [{}, {expect: {bindings: 1}}]}]", "chapters[0].acts[1].expect would not"),
        ("chapters: [{title: t, acts: [{apply: {documents: [{a: b}]}}]}]", "acts[0].apply.documents[0]: apiVersion is"),
        (
            "chapters: [{title: t, acts: [{operates: [{workload: {a: b}, pods: []}]}]}]",
            "workload: apiVersion",
        ),
        ("claim: a\nworkloads: {g: {gang: {minMembr: 1}}}", "workloads.g.gang: minMembr is not a known field"),
        ("claim: a\nnodes: []\n---\nclaim: b\n", "document 2: apiVersion is missing"),
        ("chapters: [{title: t, acts: []}]\nends: {bindings: 1}\n", "ends beside chapters"),
        ("chapters: [{title: t, acts: []}]\nhappens: [{at: 1}]\n", "happens beside chapters"),
        ("chapters: [{title: t, acts: []}]\nsteps: [{}]\n", "steps beside chapters"),
    ],
)
def test_a_bad_file_is_refused_with_its_place(muster, tmp_path, text, says):
    file = tmp_path / "file.yaml"
    file.write_text(text)
    found = muster("demo", file)
    assert (found.code, found.out) == (2, "")
    assert says in found.err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("-o", "json"), "add --once"),
        (("one.yaml", "-f", "two.yaml"), "one story at a time"),
        (("nowhere.yaml",), "can't read nowhere.yaml"),
        (("--pace", "slow"), "--pace"),
        (("--port", "70000"), "--port"),
    ],
)
def test_wrong_usage_says_how_it_is_right(muster, args, says):
    found = muster("demo", *args)
    assert found.code == 2
    assert says in found.err


def test_a_kubeconfig_that_cant_be_written_is_an_error(muster, tmp_path):
    """Nothing is started."""
    (tmp_path / "file").write_text("")
    found = muster("demo", "--kubeconfig", tmp_path / "file" / "kubeconfig")
    assert found.code == 2
    assert "can't write the kubeconfig" in found.err


def test_places_in_texts_are_filled_in():
    assert filled("rack=$(g/a-0), $(", lambda gang, sub_group: f"{gang}:{sub_group}") == "rack=g:a-0, $("


# What kubectl would send.


@pytest.mark.parametrize(
    ("command", "sent"),
    [
        (
            "kubectl uncordon n1 n2",
            [("PATCH", "/api/v1/nodes/n1"), ("PATCH", "/api/v1/nodes/n2")],
        ),
        (
            "kubectl delete pod -n a p-1 && kubectl delete pod -n b p-2",
            [("DELETE", "/api/v1/namespaces/a/pods/p-1"), ("DELETE", "/api/v1/namespaces/b/pods/p-2")],
        ),
        (
            """kubectl patch podgroups.scheduling.run.ai -n a g --type=json -p '[{"op": "remove", "path": "/x y"}]'""",
            [("PATCH", "/apis/scheduling.run.ai/v2alpha2/namespaces/a/podgroups/g")],
        ),
        (
            """kubectl patch queues.scheduling.run.ai q --type=merge -p '{"spec": {}}'""",
            [("PATCH", "/apis/scheduling.run.ai/v2/queues/q")],
        ),
    ],
)
def test_a_remedy_is_sent_as_kubectl_would(command, sent):
    assert [one[:2] for one in requests_of(command)] == sent


def test_a_patch_has_its_body_and_type():
    (one,) = requests_of("""kubectl patch queues.scheduling.run.ai q --type=merge -p '{"spec": {"a": 1}}'""")
    assert (one.body, one.content_type) == ({"spec": {"a": 1}}, "application/merge-patch+json")


@pytest.mark.parametrize("command", ["rm -rf x", "kubectl drain n1", "kubectl patch pods p --type=merge -p '{}'"])
def test_no_other_command_is_carried_out(command):
    with pytest.raises(UsageError):
        list(requests_of(command))


# Who watches, and what that proves.


def pod(name, node="", *, gang="g", leaf="", evicted=False):
    (found,) = Pods(gang=gang, sub_group=leaf, name=name, namespace="default").documents()
    found["metadata"]["uid"] = f"u{next(UID)}"
    found["spec"]["nodeName"] = node
    if evicted:
        found["status"] = {"conditions": [{"type": "DisruptionTarget", "reason": "EvictionByEvictionAPI"}]}
    return found


def group(name="g", **spec):
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def seen(pods=(), groups=(), **more):
    return Seen(list(pods), list(groups), **{"nodes": [], **more})


@pytest.fixture
def witness():
    """Two replicas of one pod, of which one is needed, run."""
    found = Witness()
    parts = [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 1}]
    found.saw(GROUPS, group(minSubGroup=1, subGroups=parts))
    for leaf in ("a", "b"):
        found.saw(PODS, pod(f"g-{leaf}", f"n-{leaf}", leaf=leaf))
    found.begin()
    return found


KEPT = Claim(says="", kept=["g"])


def test_a_gang_that_lost_what_it_does_not_need_was_kept(witness):
    witness.saw(PODS, pod("g-b", "n-b", leaf="b"), gone=True)
    assert faults_of(KEPT, seen(), witness) == []
    witness.saw(PODS, pod("g-b", "n-c", leaf="b"))
    assert told(KEPT, seen(), witness) == "g stayed satisfied: 2 → 1 → 2 of 2 parts of g, 1 needed"


def test_a_gang_that_was_below_its_minimum_for_a_moment_was_not_kept(witness):
    for leaf in ("a", "b"):
        witness.saw(PODS, pod(f"g-{leaf}", f"n-{leaf}", leaf=leaf), gone=True)
    witness.saw(PODS, pod("g-a", "n-a", leaf="a"))
    assert faults_of(KEPT, seen(), witness) == ["g was below its minimum in 1 of 4 states"]
    assert faults_of(Claim(says="", kept=["h"]), seen(), witness) == ["h was never seen"]


def test_the_same_pods_are_the_same_by_uid_and_not_by_name(witness):
    same = Claim(says="", same=["g-*"])
    assert faults_of(same, seen(), witness) == []
    witness.saw(PODS, pod("g-b", "n-b", leaf="b"))
    assert faults_of(same, seen(), witness) == ["of 2 pods g-* 1 are as they were"]


def test_pods_that_went_are_back_elsewhere(witness):
    went = Claim(says="", went=["g-b"])
    assert "still there" in faults_of(went, seen(), witness)[0]
    witness.saw(PODS, pod("g-b", "n-b", leaf="b"), gone=True)
    assert "0 are back" in faults_of(went, seen(), witness)[0]
    witness.saw(PODS, pod("g-b", "n-b", leaf="b"))
    assert "again" in faults_of(went, seen(), witness)[0]
    witness.saw(PODS, pod("g-b", "n-c", leaf="b"))
    assert faults_of(went, seen(), witness) == []
    assert told(went, seen(), witness) == "g-b: n-b → n-c"


def test_binds_and_evictions_count_from_the_beginning_of_an_act(witness):
    waits = pod("h-0", gang="h")
    witness.saw(PODS, waits)
    witness.saw(PODS, {**waits, "spec": {**waits["spec"], "nodeName": "n1"}})
    witness.saw(PODS, pod("h-1", gang="h"))
    witness.saw(PODS, pod("h-1", "n1", gang="h"))
    witness.saw(PODS, pod("g-b", "n-b", evicted=True), gone=True)
    witness.saw(PODS, pod("g-a", "n-a"), gone=True)
    assert [one.pod[1] for one in witness.bound] == ["h-0"]
    assert [one["metadata"]["name"] for one in witness.evicted] == ["g-b"]
    witness.begin()
    assert (witness.bound, witness.evicted) == ([], [])


def test_who_is_told_to_go_is_evicted_as_in_the_simulation(witness):
    """Not only when it is gone, and once."""
    goes = pod("g-b", "n-b", evicted=True)
    witness.saw(PODS, goes)
    assert witness.evicted == []
    goes = {**goes, "metadata": {**goes["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    witness.saw(PODS, goes)
    assert witness.evicted == [goes]
    witness.saw(PODS, goes, gone=True)
    assert witness.evicted == [goes]


def test_what_is_not_listed_again_has_gone_meanwhile(witness):
    here = pod("g-a", "n-a", leaf="a")
    assert not witness.is_watching
    witness.listed(PODS, [here])
    assert sorted(witness.pods_like("*")[1]) == [("default", "g-a")]
    witness.listed(GROUPS, [])
    witness.saw(PODS, here, gone=True)
    assert faults_of(KEPT, seen(), witness) == []
    assert witness.is_watching


def test_a_gang_may_be_named_by_a_pattern(witness):
    owner = {"apiVersion": "x/v1", "kind": "X", "name": "x"}
    found = group("pg-x-1")
    found["metadata"]["ownerReferences"] = [owner]
    looked = seen(groups=[found])
    assert faults_of(Claim(says="", owners={"pg-x-*": "X/x"}), looked, witness) == []
    assert faults_of(Claim(says="", owners={"pg-x-*": "X/y"}), looked, witness)
    assert faults_of(Claim(says="", owners={"pg-y-*": "X/x"}), looked, witness)


def rows(placed, *, satisfied, **more):
    return {"subGroups": [{"name": "", "satisfied": satisfied, "pods": {"placed": placed, "total": 4}, **more}]}


@pytest.mark.parametrize(
    ("status", "held"),
    [
        (rows(2, satisfied=True), True),
        (rows(0, satisfied=False), True),
        (rows(2, satisfied=False), False),
        (rows(2, satisfied=False, staleSince="2026-01-01T00:00:00Z"), True),
    ],
)
def test_a_gang_is_started_by_half_when_it_lost_nothing(status, held):
    found = {says: wrong for says, wrong, _ in always(seen(groups=[{**group(), "status": status}]))}
    assert (found["no gang is started by half"] == []) is held


def test_a_node_with_too_much_on_it_is_found():
    nodes = Nodes(name="n1", gpus=2).documents()
    few, many = ([pod(f"p-{number}", "n1") for number in range(count)] for count in (2, 3))
    assert always(seen(few, nodes=nodes))[0][1] == []
    assert always(seen(many, nodes=nodes))[0][1] == ["n1 has 2 GPUs, and 3 are asked of it"]


# What people see.


def topology(*levels):
    return {"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": level} for level in levels]}}


def test_the_map_shows_whose_each_node_is():
    """Small letters where there is room left; what is cordoned, not ready, and free of gangs has signs of its own."""
    racks = (("r1", {"count": 3}), ("r2", {"count": 1, "cordoned": True}), ("r3", {"count": 1, "ready": False}))
    nodes = [one for rack, more in racks for one in Nodes(name=rack, zone="z", rack=rack, gpus=2, **more).documents()]
    pods = [pod("a", "r1-0"), pod("b", "r1-0"), pod("c", "r1-1"), pod("d", "r1-2", gang="")]
    found = map_of(nodes, pods, [topology("zone", "rack")], Letters())
    (row,) = found.rows
    assert row.lead == "z"
    assert [(name, "".join(cell.sign for cell in cells)) for name, cells in row.groups] == [
        ("r1", "Ggo"),
        ("r2", "x"),
        ("r3", "!"),
    ]
    assert [name for _, name in found.legend] == ["g", "cordoned", "not ready", "other pods"]


def test_the_map_needs_no_topology_and_is_never_large():
    nodes = Nodes(name="n", count=12).documents()
    (row,) = map_of(nodes, [], [], Letters()).rows
    assert "".join(cell.sign for _, cells in row.groups for cell in cells) == "." * 12
    assert map_of(Nodes(name="n", count=500).documents(), [], [], Letters()) is None


def test_every_gang_keeps_a_letter_of_its_own():
    letters = Letters()
    assert [letters.of(one) for one in ("sweep", "serve", "pg-sun-1", "sweep")] == ["S", "E", "U", "S"]


class Screen(io.StringIO):
    """What a terminal gets."""

    def isatty(self):
        return True


def teller(monkeypatch, *, terminal, width=80):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    stream = Screen() if terminal else io.StringIO()
    return Teller(stream, itertools.count().__next__), stream


def test_progress_is_for_terminals_and_leaves_nothing_behind(monkeypatch):
    tell, stream = teller(monkeypatch, terminal=True)
    tell.progress("waiting")
    tell.line("done")
    assert stream.getvalue().endswith("\r\x1b[Kdone\n")
    assert "waiting (1.0 s)" in stream.getvalue()
    tell, stream = teller(monkeypatch, terminal=False)
    tell.progress("waiting")
    tell.line("done")
    assert stream.getvalue() == "done\n"


@pytest.mark.parametrize(
    ("terminal", "no_color", "coloured"), [(True, "", True), (True, "1", False), (False, "", False)]
)
def test_colours_are_for_terminals_that_want_them(monkeypatch, terminal, no_color, coloured):
    monkeypatch.setenv("NO_COLOR", no_color)
    tell, stream = teller(monkeypatch, terminal=terminal)
    tell.claim(Result("c", "it holds", True, "seen"))
    assert ("\x1b[" in stream.getvalue()) is coloured


def test_a_claim_that_does_not_hold_says_all_that_speaks_against_it(monkeypatch):
    tell, stream = teller(monkeypatch, terminal=False)
    tell.claim(Result("c", "it holds", False, "this", ("one", "two\x1b[31m")))
    assert stream.getvalue() == "  ✗ it holds\n    this\n    but one\n    but two\\x1b[31m\n"


@pytest.mark.parametrize("held", [True, False])
def test_a_claim_fits_a_narrow_terminal(monkeypatch, held):
    """It goes on behind its sign; without a terminal it is one line, for those who search for it."""
    says = "all 4 prefill replicas of the gang lie in racks of one and the same block"
    monkeypatch.setenv("NO_COLOR", "1")
    for is_terminal in (True, False):
        tell, stream = teller(monkeypatch, terminal=is_terminal, width=40)
        tell.claim(Result("", says, held))
        tell.ready("64 nodes of 8 GPUs in 2 zones, 4 blocks and 16 racks")
        lines = stream.getvalue().splitlines()
        assert (max(map(len, lines)) < 40) == is_terminal
        assert len(lines) == (6 if is_terminal else 2)
        assert says in " ".join(line[4:] for line in lines)
        assert lines[-1].endswith(" s)")


def test_a_table_fits_a_narrow_terminal(monkeypatch):
    names = ("NAME", "STATUS", "QUEUE", "DOMAIN", "AGE")
    table = [names, ("g" * 40, "Scheduled", "q" * 12, "zone-a/block-1/rack-01", "3s")]
    tell, stream = teller(monkeypatch, terminal=True, width=60)
    tell.table(table)
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) < 60
    assert "rack-01" in lines[1]
    tell, stream = teller(monkeypatch, terminal=False)
    tell.table(table)
    assert "g" * 40 in stream.getvalue()


def test_a_command_stays_in_one_line(monkeypatch):
    """Whoever copies it gets all of it."""
    tell, stream = teller(monkeypatch, terminal=True, width=40)
    command = "      kubectl patch x " + "y " * 40
    tell.text(command, {})
    tell.text("  words " * 10, {})
    assert stream.getvalue().splitlines()[0] == command
    assert len(stream.getvalue().splitlines()) > 2


def test_a_table_of_the_server_is_printed_as_kubectl_does():
    columns = [{"name": "Name"}, {"name": "Age", "priority": 0}, {"name": "Wide", "priority": 1}]
    table = {"columnDefinitions": columns, "rows": [{"cells": ["a", None, "w"]}]}
    assert kubectl_rows(table) == [("NAME", "AGE"), ("a", "")]


def test_the_tree_of_a_gang_is_drawn_from_its_status():
    root = {"name": "", "satisfied": True, "core": True, "minimum": 1, "children": {"total": 2, "satisfied": 1}}
    lines = [root, {"name": "a", "satisfied": True, "minimum": 2, "pods": {"placed": 2, "total": 3}, "domain": "z/r"}]
    lines += [{"name": "b", "satisfied": False, "minimum": 2, "pods": {"placed": 0, "total": 1}, "reason": "Why"}]
    found = group("pg-x-01234567-89ab-cdef-0123-456789abcdef", subGroups=[{"name": "a"}, {"name": "b"}])
    assert tree_rows({**found, "status": {"subGroups": lines}})[1:] == [
        ("pg-x", "core", "1 of 2 parts", "1", "-"),
        ("  a", "surplus", "2 of 3 pods", "2", "z/r"),
        ("  b", "Why", "0 of 1 pod", "2", "-"),
    ]


# How it is played.


class Cluster:
    """An API server of which nobody is the scheduler, and the people on it."""

    def __init__(self):
        self.sent = []
        self.happened = []

    def __call__(self, method, path, body=None, content_type="", /):
        self.sent.append((method, path))
        if method == "GET" and path == "/apis/x.io/v1":
            return 200, {"resources": [{"kind": "X", "name": "xs", "namespaced": True}]}
        if method == "GET":
            return 200, {"items": [], "resources": [{"kind": "Pod", "name": "pods", "namespaced": True}]}
        return 201, {**body, "metadata": {**body["metadata"], "uid": "u1"}}

    def asked(self, *args):
        return 200, {"rows": []}

    def call(self, do):
        return do()

    def check(self):
        pass

    def happen(self, one):
        self.happened.append(one)


@pytest.fixture
def cluster():
    return Cluster()


def performance(cluster, monkeypatch, *chapters):
    monkeypatch.setattr(performing, "STILL_S", 0.0)
    tell, stream = teller(monkeypatch, terminal=False)
    acts = [Chapter(title=title, acts=list(acts)) for title, *acts in chapters]
    tale = Tale(chapters=acts)
    return Performance(tale, cluster, cluster, Witness(), tell, lambda name: None), stream


TRUE = Claim(says="nobody is evicted", expect=Expected(evictions=0))
FALSE = Claim(says="somebody is evicted", expect=Expected(evictions=1))


def test_all_claims_of_a_story_are_told(cluster, monkeypatch):
    played, stream = performance(cluster, monkeypatch, ("One", Act(claims=[TRUE])), ("Two", Act(claims=[TRUE])))
    played.run()
    assert played.held
    assert [one.chapter for one in played.results] == ["One", "Two", "What always holds", "What always holds"]
    assert "1 of 2 · One" in stream.getvalue()
    assert stream.getvalue().count("✓ nobody is evicted") == 2


def test_a_story_ends_with_the_act_that_does_not_come_true(cluster, monkeypatch):
    """What follows builds on it: it is not played, and its claims are neither true nor false."""
    first, later = Act(claims=[TRUE, FALSE], within=0.0), Act(claims=[TRUE], delete=["pod/x"])
    played, stream = performance(cluster, monkeypatch, ("One", first, later), ("Two", later))
    played.run()
    assert not played.held
    assert [one.held for one in played.results] == [True, False, None, None]
    assert [one.delete for one in cluster.happened] == [[]]
    assert "but evictions: expected 1, found 0" in stream.getvalue()
    assert "Two" not in stream.getvalue()


def test_what_still_moves_is_not_true_yet(cluster, monkeypatch):
    played, _ = performance(cluster, monkeypatch, ("One", Act(claims=[TRUE], within=0.0)))
    monkeypatch.setattr(performing, "STILL_S", 60.0)
    played.run()
    assert [one.differs for one in played.results] == [("something still moves after 0 s",)]


def test_an_operator_makes_pods_that_belong_to_the_workload(cluster, monkeypatch):
    made = []
    monkeypatch.setattr(cluster, "call", lambda do: do())
    written = {"apiVersion": "x.io/v1", "kind": "X", "metadata": {"name": "x"}}
    act = (
        tale_of(
            json.dumps(
                {"chapters": [{"title": "t", "acts": [{"operates": [{"workload": written, "pods": [{"count": 2}]}]}]}]}
            ).encode(),
            "f",
        )
        .chapters[0]
        .acts[0]
    )
    played, _ = performance(cluster, monkeypatch, ("One", act))
    create = played._create
    monkeypatch.setattr(played, "_create", lambda document: made.append(document) or create(document))
    played.run()
    assert [one["kind"] for one in made] == ["X", "Pod", "Pod"]
    assert {one["metadata"]["ownerReferences"][0]["uid"] for one in made[1:]} == {"u1"}
    assert ("POST", "/apis/x.io/v1/namespaces/default/xs") in cluster.sent


def test_a_kind_that_nobody_serves_is_an_error(cluster, monkeypatch):
    act = Act(
        apply=structs.replace(
            Act().apply, documents=[{"apiVersion": "x.io/v1", "kind": "Y", "metadata": {"name": "y"}}]
        )
    )
    played, _ = performance(cluster, monkeypatch, ("One", act))
    with pytest.raises(BadScenario, match=r"no kind Y of x\.io/v1"):
        played.run()


def test_by_the_clock_what_moved_is_counted_from_the_beginning(cluster, monkeypatch):
    played, _ = performance(cluster, monkeypatch, ("One", Act(), Act(claims=[FALSE], within=0.0)))
    for clocked in (False, True):
        played.results.clear()
        (chapter,) = played._tale.chapters
        played._tale = Tale(chapters=[structs.replace(chapter, clocked=clocked)])
        played._witness.saw(PODS, pod("g-0", "n", evicted=True), gone=True)
        played.run()
        assert played.held is clocked


def test_a_story_that_is_stopped_ends_at_its_next_wait(cluster, monkeypatch):
    played, _ = performance(cluster, monkeypatch, ("One", Act(at=600.0)))
    played.stop()
    with pytest.raises(Interrupted):
        played.run()


def test_a_place_that_is_none_is_an_error(cluster, monkeypatch):
    played, _ = performance(cluster, monkeypatch, ("One", Act(fail=["rack=$(g/a)"])))
    with pytest.raises(MusterError, match="lies in no domain"):
        played.run()
