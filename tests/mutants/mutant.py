"""A mutant: one plausible bug as data. The YAML files beside this module hold them, one file per room of src/muster."""

import fnmatch
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
import yaml

HERE = Path(__file__).parent
TESTS = HERE.parent
ROOT = TESTS.parent
SOURCES = ROOT / "src"
_SCENARIOS = "scenarios/"


class Mutant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A text that stands once in a module, and what stands there instead.

    `breaks` says in a sentence what is wrong then, `like` which bug of the real world or which rule it is about. `near`
    are the tests that are asked first: paths below tests/, with `::test` where one is meant, or `scenarios/X.yaml`.
    """

    name: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    breaks: str
    like: str
    file: str
    old: str
    new: str
    near: Annotated[list[str], msgspec.Meta(min_length=1)]

    @property
    def room(self) -> str:
        """The room of src/muster that it is in; a module outside of all rooms belongs to `serve`, which uses it."""
        return self.file.partition("/")[0] if "/" in self.file else "serve"

    @property
    def module(self) -> str:
        """The module that it is in, as Python names it."""
        return ".".join(("muster", *Path(self.file).with_suffix("").parts))

    def applied(self, text: str) -> str:
        """The text of its module with the mistake in it. Raises ValueError when the module says it otherwise by now."""
        times = text.count(self.old)
        if times != 1:
            raise ValueError(f"its old text stands {times} times in {self.file}, not once: say the bug anew")
        return text.replace(self.old, self.new)

    def targets(self) -> list[str]:
        """What is near, as pytest names it, from the root of the repository."""
        return [target_of(one) for one in self.near]


def target_of(near: str) -> str:
    """A test as pytest names it, from the root of the repository."""
    if near.startswith(_SCENARIOS) and near.endswith(".yaml"):
        return f"tests/scenarios/test_scenarios.py::test_scenario[{Path(near).stem}]"
    return f"tests/{near}"


def all_mutants(folder: Path = HERE) -> list[Mutant]:
    """Every mutant, in the order of the files and of what stands in them."""
    found: list[Mutant] = []
    for path in sorted(folder.glob("*.yaml")):
        found += msgspec.convert(yaml.safe_load(path.read_text()), list[Mutant])
    return found


def chosen(mutants: Iterable[Mutant], patterns: Iterable[str]) -> list[Mutant]:
    """Those whose name or file one of the patterns is a part of, or matches with stars; all without patterns."""
    wanted = [pattern if "*" in pattern else f"*{pattern}*" for pattern in patterns]
    return [
        one
        for one in mutants
        if not wanted or any(fnmatch.fnmatch(text, pattern) for pattern in wanted for text in (one.name, one.file))
    ]
