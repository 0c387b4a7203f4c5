"""`muster demo` as a process: the story comes true, the README tells it as it is, and it ends as it is told to."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from e2e.plane import build
from muster.cli.story.tale import built_in
from unit.cli.test_grouping_page import BLOCK, MORE

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
# A machine with other work to do is slow.
PATIENCE_S = 240


@pytest.fixture
def environ(tmp_path):
    """A terminal of somebody who has just installed muster."""
    known = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    return {**known, "HOME": str(tmp_path), "NO_COLOR": "1", "PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"}


def command(*args):
    return [sys.executable, "-m", "muster", "demo", *map(str, args)]


def told(environ, *args, code=0):
    """What a demo that ends says on both streams."""
    done = subprocess.run(command(*args), env=environ, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """The whole story, told once for all tests that look at it: the claims as data, the story beside them."""
    home = tmp_path_factory.mktemp("home")
    environ = {**os.environ, "HOME": str(home), "NO_COLOR": "1", "PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"}
    done = told(environ, "--once", "-o", "json")
    assert not any(home.iterdir()), "a cluster that is gone leaves no kubeconfig behind"
    return done


def test_every_claim_of_the_story_is_true(once):
    found = json.loads(once.stdout)
    claims = [claim.says for chapter in built_in().chapters for act in chapter.acts for claim in act.claims]
    assert found["held"] is True
    assert [one["says"] for one in found["claims"]][: len(claims)] == claims
    assert all(one["held"] and one["seen"] and not one["differs"] for one in found["claims"])
    for claim in claims:
        assert f"✓ {claim}\n" in once.stderr
    assert "\n  ✗" not in once.stderr


def test_the_story_is_short(once):
    """Not the time of the process, which depends on the machine: the lines that somebody reads."""
    assert len(once.stderr.splitlines()) < 250
    assert once.stderr.splitlines()[-1].startswith("next: ")


def test_the_readme_shows_a_chapter_as_it_is(once):
    """A line … stands for any number of lines."""
    (chapter,) = [text for _, text in BLOCK.findall(README) if re.match(r"\d of \d · ", text)]
    parts = [re.escape(part) for part in re.split(rf"^{MORE}\n", chapter, flags=re.MULTILINE)]
    assert re.search(r"(.*\n)*?".join(parts), once.stderr)


def test_it_keeps_running_until_it_is_told_to_end(environ, tmp_path):
    """Until then kubectl works with the kubeconfig that is named; Ctrl-C ends it in order, within two seconds."""
    with subprocess.Popen(
        command(), env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            said = []
            for line in process.stdout:
                said.append(line)
                if line.startswith("  muster plan"):
                    break
            exported = next(line for line in said if "export KUBECONFIG=" in line)
            path = Path(exported.partition("=")[2].strip().replace("~", environ["HOME"]))
            assert path.stat().st_mode & 0o077 == 0
            kubectl = None if build.obstacle() else build.build() / "kubectl"
            kubectl = kubectl or shutil.which("kubectl")
            if kubectl:
                asked = [kubectl, "get", "pg", "sweep", "-o", "jsonpath={.status.ready}"]
                known = {**environ, "KUBECONFIG": str(path)}
                shown = subprocess.run(asked, env=known, capture_output=True, text=True, timeout=60)
                assert shown.stdout == "3/2", shown.stderr
            asked_s = time.monotonic()
            process.send_signal(signal.SIGINT)
            rest = process.stdout.read()
            assert process.wait(PATIENCE_S) == 0
            assert time.monotonic() - asked_s < 2.0 * slowness()
            assert "Traceback" not in rest
        finally:
            process.kill()


def slowness():
    """How much longer this machine takes than an idle one: it may be busy."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)) * 2.0


def test_a_claim_that_is_not_true_ends_the_story(environ, tmp_path):
    file = tmp_path / "file.yaml"
    acts = [
        {"workloads": {"g": {"gang": {"minMember": 3}, "pods": {"": 3}}}, "within": 3, "claims": [claim("Placed")]},
        {"claims": [claim("Held")]},
    ]
    nodes = [{"name": "n", "count": 1, "gpus": 2}]
    file.write_text(json.dumps({"claim": "c", "nodes": nodes, "chapters": [{"title": "One", "acts": acts}]}))
    done = told(environ, file, "--once", "-o", "json", code=1)
    found = json.loads(done.stdout)
    assert (found["held"], [one["held"] for one in found["claims"]]) == (False, [False, None])
    assert "g: verdict: expected Placed, found Infeasible" in found["claims"][0]["differs"]
    assert "✗ it is Placed" in done.stderr


def claim(verdict):
    return {"says": f"it is {verdict}", "expect": {"gangs": {"g": {"verdict": verdict}}}}


def test_what_a_story_expects_is_claimed(environ, tmp_path):
    """At its second and in the end; binds count from the beginning."""
    file = tmp_path / "file.yaml"
    right = {
        "claim": "c",
        "nodes": [{"name": "n", "gpus": 3}],
        "workloads": {"g": {"gang": {"minMember": 2}, "pods": {"": 2}}},
        "happens": [{"at": 1, "expect": {"bindings": 2}, "scale": {"g": {"": 3}}}],
        "lasts": 2,
        "ends": {"bindings": 3, **claim("Placed")["expect"]},
    }
    file.write_text(json.dumps(right))
    said = told(environ, file, "--once").stdout
    assert "✓ at 1 s it is as expected" in said
    assert "✓ in the end it is as expected" in said
    happens = [{"at": 1, "expect": claim("Held")["expect"]}]
    file.write_text(json.dumps({**right, "happens": happens}))
    done = told(environ, file, "--once", "-o", "json", code=1)
    first, *rest = json.loads(done.stdout)["claims"]
    assert first["differs"] == ["g: verdict: expected Held, found Placed"]
    assert [one["held"] for one in rest] == [None, None]


def test_a_scenario_is_played_live(environ):
    file = ROOT / "tests" / "scenarios" / "a-cordoned-node-takes-nobody-and-keeps-whom-it-has.yaml"
    said = told(environ, file, "--once").stdout
    assert "✓ step 1 is as expected" in said
    assert "✓ step 2 is as expected" in said


def test_a_port_that_is_taken_is_said(environ):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = told(environ, "--once", "--port", taken.getsockname()[1], code=2)
    assert "can't listen on port" in done.stderr
    assert "Traceback" not in done.stderr
