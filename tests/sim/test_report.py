"""The rules that are told are those that can be broken: in reports, and in the docs."""

import ast
import re
from pathlib import Path

from muster.sim import report

RULE = re.compile(r"[SLUD]\d+|§\d+(\.\d+)?|claim|defect|hang or crash")
DOCS = Path(__file__).parents[2] / "docs"


def raised():
    """Every rule that a module of the simulation names, whether it raises it itself or hands it on."""
    for path in Path(report.__file__).parent.glob("*.py"):
        if path.name != "report.py":
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and RULE.fullmatch(node.value):
                    yield node.value


def test_the_rules_in_words_are_those_that_are_raised():
    assert sorted(report.RULES) == sorted(set(raised()))


def test_the_docs_promise_what_is_looked_at():
    """A row of the table may name several rules; what a file expects and a seed that dies are told elsewhere."""
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", (DOCS / "verification.md").read_text(), re.MULTILINE)
    named = [one for row in rows for one in row.split(", ") if RULE.fullmatch(one)]
    assert sorted(named) == sorted(set(report.RULES) - {"claim", "hang or crash"})
