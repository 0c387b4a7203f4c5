"""Real jq, in a process of its own: it may hang or abort, and the test session goes on and says so."""

import atexit
import importlib.util
import json
import select
import subprocess
import sys
from typing import Any, NamedTuple

THERE = importlib.util.find_spec("jq") is not None
WHY_NOT = "the jq wheel is not installed: make setup"
TIMEOUT_S = 20

_SERVER = """
import json, resource, sys
import jq
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
for line in sys.stdin:
    asked = json.loads(line)
    try:
        program = jq.compile(asked["program"], args=asked["variables"])
        answer = {"values": program.input_text(asked["input"]).all() if asked["run"] else []}
    except ValueError as problem:
        kind = "refused" if "compile error" in str(problem) else "failed"
        answer = {kind: str(problem)}
    sys.stdout.write(json.dumps(answer) + "\\n")
    sys.stdout.flush()
"""


class Answer(NamedTuple):
    """What jq says: values, or the error of the run, or why it does not read the program."""

    values: list[Any] | None = None
    failed: str | None = None
    refused: str | None = None


class Jq:
    """One long-lived process, started when it is first asked and after it died."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.asked = 0

    def ask(self, program: str, document: Any, variables: dict[str, Any], run: bool = True) -> Answer:
        """The answer of jq; with `run=False` only whether it reads the program."""
        process = self.process = self.process or self._started()
        question = {"program": program, "input": json.dumps(document), "variables": variables, "run": run}
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps(question) + "\n")
        process.stdin.flush()
        self.asked += 1
        ready, _, _ = select.select([process.stdout], [], [], TIMEOUT_S)
        line = process.stdout.readline() if ready else ""
        if not line:
            self.stop()
            raise AssertionError(f"jq {'died' if ready else 'hung'} on {program!r}")
        return Answer(**json.loads(line))

    def _started(self) -> subprocess.Popen[str]:
        atexit.register(self.stop)
        command = [sys.executable, "-c", _SERVER]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def stop(self) -> None:
        """Ends the process."""
        process, self.process = self.process, None
        if process:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe:
                    pipe.close()


JQ = Jq()
