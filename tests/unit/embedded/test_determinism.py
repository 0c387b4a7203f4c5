"""The same requests give the same bytes in every process: nothing depends on the order of a set."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]
PLAYED = """
import json
from unit.embedded.asked import SCHEMA, widget
from unit.embedded.stories import STORIES
from muster.embedded.applying import apply
from muster.embedded.schema import Schema

schema = Schema(SCHEMA, status=True)
for story, steps in STORIES.items():
    document = None
    for step in steps:
        if step.verb in ("apply", "force") and step.body["kind"] == "Widget" and not step.door:
            try:
                document = apply(
                    document, step.body, manager=step.manager, force=step.verb == "force", schema=schema, time="t"
                )
            except Exception as refused:
                print(refused)
    print(json.dumps(document))

from muster.embedded.exchange import encode
from unit.embedded.cluster import BUDGETS, JOBS, SETS, PODS, Cluster, job, stateful_set
from unit.embedded.test_shortcuts import gang_requests, pod_requests
import random

cluster = Cluster()
for name in "nmo":
    cluster.create("/api/v1/nodes", {"metadata": {"name": name}})
for row in range(3):
    cluster.create(JOBS, job(f"j{row}", "10s", str(row), parallelism=3, completions=5, backoffLimit=2))
    cluster.create(SETS, stateful_set(f"s{row}", 3, podManagementPolicy="Parallel"))
    spec = {"minAvailable": 2, "selector": {"matchLabels": {"set": f"s{row}"}}}
    cluster.create(BUDGETS, {"metadata": {"name": f"b{row}"}, "spec": spec})
cluster.bind_all()
for request in [*gang_requests(random.Random(1)), *pod_requests(random.Random(1))]:
    print(cluster.server.handle(request))
cluster.after(10)
cluster("DELETE", f"{JOBS}/j0", {"propagationPolicy": "Foreground"})
cluster("DELETE", f"{SETS}/s0", {"propagationPolicy": "Background"})
cluster("DELETE", PODS)
cluster.after(40)
store = cluster.server.core.store
for name in store.resources():
    print([(one.revision, one.type, one.key, encode(one.document)) for one in store.since(1, name)])
"""


def test_the_seed_of_hashes_is_not_seen_in_any_answer() -> None:
    said = set()
    for seed in ("1", "2", "3"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(TESTS)}
        done = subprocess.run(
            [sys.executable, "-c", PLAYED], env=environment, capture_output=True, text=True, check=True
        )
        said.add(done.stdout)
    assert len(said) == 1
    (text,) = said
    assert "managedFields" in text
    assert "Succeeded" in text
