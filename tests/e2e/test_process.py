"""The command line as people meet it: a process, pipes, a shell, kubectl, and the wheel."""

import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
MUSTER = BIN / "muster"
GOOD = "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: g}\nspec: {minMember: 2}\n"


LONELY = GOOD + "".join(
    f"---\napiVersion: v1\nkind: Pod\nmetadata: {{name: g-{number}, annotations: {{pod-group-name: g}}}}\n"
    for number in range(2)
)


def pod(gang, number, gpus, node=""):
    where, name = f"nodeName: {node}, " if node else "", f"{gang}-{number}"
    return (
        f"---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, annotations: {{pod-group-name: {gang}}}}}\n"
        f"spec: {{{where}containers: [{{resources: {{requests: {{nvidia.com/gpu: {gpus}}}}}}}]}}\n"
    )


# Two queues of quota 2 on four GPUs: the first has all of them, and a gang of the second waits for its two.
CROWDED = "---\napiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {allocatable: {nvidia.com/gpu: 4}}\n"
for _queue, _gang in (("a", "has"), ("b", "wants")):
    CROWDED += (
        f"---\napiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {{name: {_queue}}}\n"
        "spec: {resources: {gpu: {quota: 2}}}\n"
        f"---\napiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {{name: {_gang}}}\n"
        f"spec: {{queue: {_queue}, minMember: 2, preemptibility: preemptible}}\n"
    )
CROWDED += "".join(pod("has", number, 1, "n") for number in range(4)) + "".join(pod("wants", n, 1) for n in range(2))


def run(*args, stdin="", env=None, **more):
    return subprocess.run(
        [str(arg) for arg in args],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **(env or {})},
        **more,
    )


@pytest.mark.parametrize(
    ("args", "stdin", "code"),
    [
        pytest.param(["--version"], "", 0, id="version"),
        pytest.param(["--help"], "", 0, id="help"),
        pytest.param([], "", 2, id="no command"),
        pytest.param(["validate", "-f", "-"], GOOD, 0, id="valid"),
        pytest.param(["validate", "-f", "-"], GOOD.replace("2}", "0}"), 1, id="invalid"),
        pytest.param(["validate", "-f", "-"], "", 2, id="empty"),
        pytest.param(["validate", "-f", "no-such"], "", 2, id="missing"),
        pytest.param(["migrate", "-f", "-"], GOOD, 0, id="migrate"),
        pytest.param(["plan", "-f", ROOT / "examples"], "", 0, id="plan: all fit"),
        pytest.param(["plan", "-f", "-"], LONELY, 1, id="plan: one does not fit"),
        pytest.param(["plan"], "", 2, id="plan: nothing to read"),
        pytest.param(["plan", "-f", "-"], CROWDED, 0, id="plan: room is made"),
        pytest.param(["plan", "-f", "-", "--actions", "allocate"], CROWDED, 1, id="plan: no room is made"),
        pytest.param(["explain", "wants", "-f", "-"], CROWDED, 0, id="explain: room is made"),
        pytest.param(["validate", "--old", ROOT / "examples", "-f", "-"], GOOD, 0, id="validate: a change"),
        pytest.param(["snapshot", "-f", ROOT / "examples"], "", 0, id="snapshot"),
        pytest.param(["replay", ROOT / "README.md"], "", 2, id="replay: no snapshot"),
        pytest.param(["crds"], "", 0, id="crds"),
        pytest.param(["config"], "", 0, id="config"),
        pytest.param(["nonsense"], "", 2, id="unknown command"),
    ],
)
def test_exit_codes(args, stdin, code):
    """0 yes, 1 no, 2 wrong usage; never a traceback."""
    done = run(MUSTER, *args, stdin=stdin)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert (done.stdout == "") == (code == 2)


def test_data_and_words_do_not_mix():
    """stdout is data alone, so that it can be piped."""
    done = run(MUSTER, "validate", "-f", ROOT / "examples", "-o", "json")
    assert json.loads(done.stdout) == []
    done = run(MUSTER, "migrate", "-f", ROOT / "examples", "-o", "json")
    assert json.loads(done.stdout)["kind"] == "List"
    assert "next:" in done.stderr


def test_a_plan_is_the_same_in_every_process(tmp_path):
    """Equal input is equal bytes, whatever the process's hashes are; and so is a replay."""
    args = ("-f", ROOT / "examples", "--now", "2026-01-31T12:00:00Z")
    plans = {run(MUSTER, "plan", *args, "-o", "json", env={"PYTHONHASHSEED": seed}).stdout for seed in "0123"}
    snapshots = {run(MUSTER, "snapshot", *args, env={"PYTHONHASHSEED": seed}).stdout for seed in "01"}
    assert (len(plans), len(snapshots)) == (1, 1)
    assert json.loads(min(plans))["bindings"]
    done = run("bash", "-c", f"{MUSTER} snapshot -f {ROOT / 'examples'} | {MUSTER} replay - -o json")
    assert done.stdout in plans


def test_evictions_are_the_same_in_every_process(tmp_path):
    """Who goes for whom, what the others are told, and a replay: equal bytes, whatever the process's hashes are."""
    file = tmp_path / "crowded.yaml"
    file.write_text(CROWDED)
    args = ("-f", file, "--now", "2026-01-31T12:00:00Z", "-o", "json")
    plans = {run(MUSTER, "plan", *args, env={"PYTHONHASHSEED": seed}).stdout for seed in "0123"}
    assert len(plans) == 1
    found = json.loads(min(plans))
    assert [(one["pod"], one["action"], one["for"]) for one in found["evictions"]] == [
        *(("has-2", "reclaim", "default/wants"), ("has-3", "reclaim", "default/wants")),
    ]
    assert {one["pod"] for one in found["nominations"]} == {"wants-0", "wants-1"}
    # What is only nominated is not held yet.
    assert [one["allocated"]["gpu"] for one in found["queues"]] == [2, 0]
    done = run("bash", "-c", f"{MUSTER} snapshot -f {file} --now 2026-01-31T12:00:00Z | {MUSTER} replay - -o json")
    assert done.stdout in plans
    without = ("--without", "wants")
    others = {run(MUSTER, "plan", *args, *without, env={"PYTHONHASHSEED": seed}).stdout for seed in "01"}
    (change,) = json.loads(min(others))["others"]
    assert (len(others), change["name"], change["before"]["placed"], change["after"]["placed"]) == (1, "has", 2, 4)
    explained = {run(MUSTER, "explain", "has", *args, env={"PYTHONHASHSEED": seed}).stdout for seed in "01"}
    assert [one["for"] for one in json.loads(min(explained))["loses"]] == ["default/wants"]
    assert len(explained) == 1


def test_fifty_thousand_pods_are_planned_in_seconds(tmp_path):
    """Files hold whole clusters."""
    items = [{"kind": "Node", "metadata": {"name": f"n{n}"}, "status": {"allocatable": {"g": 16}}} for n in range(5000)]
    for gang in range(1000):
        items.append(
            {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": f"g{gang}"}}
            | {"spec": {"minMember": 50}}
        )
        items += [
            {"kind": "Pod", "metadata": {"name": f"g{gang}-{pod}", "annotations": {"pod-group-name": f"g{gang}"}}}
            | {"spec": {"containers": [{"resources": {"requests": {"g": 1, "cpu": "0"}}}]}}
            for pod in range(50)
        ]
    file = tmp_path / "cluster.json"
    items = [{"apiVersion": "v1", **item} for item in items]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    start = time.monotonic()
    done = run(MUSTER, "plan", "-f", file, "-o", "name")
    assert done.stdout.count("\n") == 50_000
    assert time.monotonic() - start < 60


def test_an_ascii_terminal_gets_an_ascii_plan():
    """Pictures and sentences need no sign that the terminal can't show."""
    args = ("plan", "-f", ROOT / "examples" / "cluster", "--add", ROOT / "examples" / "inference.yaml")
    done = run(MUSTER, *args, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "n1a x4" in done.stdout
    assert "?" not in done.stdout


def test_a_closed_pipe_is_no_error():
    """`muster crds | head -1` ends quietly."""
    done = run("bash", "-c", f"set -o pipefail; {MUSTER} crds | head -1")
    assert done.stdout == "---\n"
    assert done.stderr == ""


def test_output_without_colours_and_without_unicode():
    """NO_COLOR and a pipe give plain text; an ASCII terminal gets ASCII trees."""
    done = run(MUSTER, "validate", "-f", ROOT / "examples", "--tree", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "`-- decode" in done.stdout


def test_a_terminal_gets_colours_unless_told_otherwise():
    """Colour only on a terminal, and never with NO_COLOR."""
    if not shutil.which("script"):
        pytest.skip("needs script(1) from util-linux to make a terminal")
    command = f"{MUSTER} validate -f {ROOT / 'examples' / 'flat.yaml'}"
    assert "\x1b[32m" in run("script", "-qec", command, "/dev/null", env={"NO_COLOR": "", "TERM": "xterm"}).stdout
    assert "\x1b" not in run("script", "-qec", command, "/dev/null", env={"NO_COLOR": "1", "TERM": "xterm"}).stdout


def test_kubectl_finds_the_plugin():
    """`kubectl muster` is the same program, and calls itself so."""
    done = run(BIN / "kubectl-muster", "--help")
    assert done.stdout.startswith("Usage: kubectl muster ")
    if shutil.which("kubectl"):
        path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        assert run("kubectl", "muster", "--version", env={"PATH": path}).stdout.startswith("muster ")


@pytest.mark.parametrize(("words", "offered"), [("muster val", "validate"), ("muster validate --no", "--no-strict")])
def test_completion_in_a_real_bash(words, offered):
    """The script that `completion bash` prints offers commands and options."""
    script = f"""
source <({MUSTER} completion bash 2>/dev/null)
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_muster_completion {MUSTER} >/dev/null 2>&1
echo "${{COMPREPLY[@]}}"
"""
    done = run("bash", "-c", script, env={"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"})
    assert offered in done.stdout.split()


def test_hostile_input_is_refused_quickly():
    """A giant on standard input ends in one sentence, in bounded time."""
    start = time.monotonic()
    done = run(MUSTER, "validate", "-f", "-", stdin="[" * 3_000_000)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert time.monotonic() - start < 30


def test_the_wheel_carries_the_program_the_crds_and_the_page(tmp_path):
    """The distribution is muster-scheduler; it installs the commands, and CRDs and page lie in it as data."""
    done = run(BIN / "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("muster_scheduler-*.whl")
    with zipfile.ZipFile(wheel) as content:
        assert content.read("muster/data/crds.yaml") == (ROOT / "deploy" / "crds.yaml").read_bytes()
        assert "muster/py.typed" in content.namelist()
        catalog = {name for name in content.namelist() if name.startswith("muster/grouping/catalog/")}
        shipped = (ROOT / "src" / "muster" / "grouping" / "catalog").glob("*.yaml")
        assert catalog == {f"muster/grouping/catalog/{path.name}" for path in shipped} != set()
        static = ROOT / "src" / "muster" / "serve" / "static"
        page = {name for name in content.namelist() if name.startswith("muster/serve/static/")}
        assert page == {f"muster/serve/static/{path.name}" for path in static.iterdir()} != set()
        entries = next(name for name in content.namelist() if name.endswith("entry_points.txt"))
        assert {"muster", "kubectl-muster"} <= {
            line.split(" =")[0] for line in content.read(entries).decode().split("\n")
        }
    installed = tmp_path / "installed"
    done = run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", installed, wheel)
    assert done.returncode == 0, done.stderr
    where = "import muster, sys; sys.stdout.write(muster.__file__)"
    assert run(sys.executable, "-c", where, env={"PYTHONPATH": str(installed)}).stdout.startswith(str(installed))
    done = run(sys.executable, "-m", "muster", "validate", "-f", "-", stdin=GOOD, env={"PYTHONPATH": str(installed)})
    assert done.returncode == 0
    plan = ("plan", "-f", ROOT / "examples" / "cluster", "--html", tmp_path / "page.html")
    done = run(sys.executable, "-m", "muster", *plan, env={"PYTHONPATH": str(installed)})
    assert done.returncode == 0, done.stderr
    assert "<!doctype html>" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        pytest.param("{} crds > /dev/full", "can't write the output", id="a full disk"),
        pytest.param("{} crds >&-", "standard output is closed", id="no output"),
        pytest.param("{} validate -f - <&-", "no objects in -", id="no input"),
    ],
)
def test_streams_that_do_not_work(command, words):
    """A sentence and exit code 2, not a defect."""
    done = run("bash", "-c", command.format(MUSTER))
    assert done.returncode == 2
    assert words in done.stderr
    assert "defect" not in done.stderr
