"""The pictures of docs/pictures: the page beside the demo, in Chromium, light and dark. `make pictures` calls this."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from e2e.page.looking import Looking
from e2e.page.serving import ROOT, Serving

FOLDER = ROOT / "docs" / "pictures"
WIDTH, HEIGHT = 1280, 760
# A gang that waits has more to say, a few queues less.
HEIGHTS = {"why": 1000, "timeline": 600, "queues": 290}
# For who looks at them over a slow line.
MOST_BYTES = 250_000
# Somebody has to go for it.
NEWCOMER = """\
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: embed}
spec:
  queue: inference
  minMember: 4
  topologyConstraint:
    topology: datacenter
    requiredTopologyLevel: rack
"""
POD = """\
---
apiVersion: v1
kind: Pod
metadata:
  name: embed-%d
  annotations: {pod-group-name: embed}
spec:
  schedulerName: kai-scheduler
  containers:
  - resources: {requests: {nvidia.com/gpu: 8}}
"""


def moment(looking: Looking, name: str, state: str) -> int:
    """The last version in which a gang was in a state."""
    versions = [version for version, _, _ in looking.api("/api/timeline")["cycles"]]
    for version in reversed(versions):
        found = looking.api(f"/api/frame?version={version}")["gangs"].get(name)
        if found and found["state"] == state:
            return int(version)
    raise AssertionError(f"{name} was never {state}")


def take(browser: Browser, serving: Serving, scheme: str) -> None:
    """All pictures in one scheme."""
    size = {"width": WIDTH, "height": HEIGHT}
    context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
    looking = Looking(context).open(serving.address)
    waits = moment(looking, "default/pretrain", "pending")
    views = {
        "map": "#/map",
        "queues": "#/queues",
        "timeline": "#/timeline",
        "what-if": "#/whatif",
        "gang": "#/gang/default/inference",
        "why": f"#/gang/default/pretrain?at={waits}",
    }
    for name, view in views.items():
        looking.page.set_viewport_size({"width": WIDTH, "height": HEIGHTS.get(name, HEIGHT)})
        looking.go(view)
        looking.page.wait_for_timeout(800)
        if name == "what-if":
            looking.part("whatif-text").fill(NEWCOMER + "".join(POD % number for number in range(4)))
            looking.part("whatif-go").click()
            looking.part("whatif-result").wait_for()
            looking.part("whatif-text").evaluate("(box) => { box.blur(); box.scrollTop = 0 }")
            looking.page.wait_for_timeout(800)
        elif name == "why":
            looking.part("remedy").first.wait_for()
        file = FOLDER / f"{name}-{scheme}.png"
        looking.is_live()
        looking.page.screenshot(path=file)
        if name == "what-if":
            looking.part("whatif-clear").click()
        bytes_there = file.stat().st_size
        sys.stdout.write(f"{file.relative_to(ROOT)}  {bytes_there / 1000:.0f} KB\n")
        assert bytes_there < MOST_BYTES, file
    assert looking.complaints == [], looking.complaints
    context.close()


def main() -> None:
    """The whole of it."""
    FOLDER.mkdir(exist_ok=True)
    program = shutil.which(os.environ.get("MUSTER_TEST_CHROMIUM") or "chromium")
    with (
        tempfile.TemporaryDirectory(prefix="muster-pictures-") as home,
        Serving("demo", "--pace", "fast", home=Path(home)) as serving,
        sync_playwright() as playwright,
    ):
        serving.line(r"next: |export KUBECONFIG")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--hide-scrollbars"])
        for scheme in ("light", "dark"):
            take(browser, serving, scheme)
        browser.close()


if __name__ == "__main__":
    main()
