"""`make bench-versus BASE=commit`: this tree against an earlier commit, in turns, so that a busy machine slows both.

Each measurement is made by the bench of its own tree, a few times in turns; the least of each side counts.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parents[1]
# Measurements of a whole study, or of processes: they say nothing about a change of structure.
_LEFT_OUT = ("study", "victim gap", "(process)", "peak of memory")


class Ratio(NamedTuple):
    """One measurement: seconds before and now."""

    what: str
    before_s: float
    now_s: float

    @property
    def ratio(self) -> float:
        """Above 1 it takes longer now."""
        return self.now_s / self.before_s


def names(only: str) -> list[str]:
    """The measurements of this tree."""
    done = _bench(HERE, "--list", "--only", only)
    found = [line.strip() for line in done.splitlines()[2:] if line.strip()]
    return [name for name in found if not any(part in name for part in _LEFT_OUT) and not name.startswith("what ")]


def _bench(tree: Path, *args: str) -> str:
    env = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}"}
    command = [sys.executable, "-m", "bench", *args]
    return subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, check=True).stdout


def _seconds(tree: Path, name: str) -> dict[str, float]:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        _bench(tree, "--only", name, "--best-of", "2", "--json", file.name)
        rows = json.loads(Path(file.name).read_text())
    return {row["what"]: row["seconds"] for row in rows if row.get("seconds")}


def _git(*args: str) -> None:
    subprocess.run(["git", *args], cwd=HERE, check=True)  # noqa: S607


def compared(base: Path, only: str, rounds: int) -> Iterator[Ratio]:
    """Each measurement that both trees have."""
    told = set[str]()
    for name in names(only):
        least: tuple[dict[str, float], dict[str, float]] = ({}, {})
        for _ in range(rounds):
            for tree, best in zip((base, HERE), least, strict=True):
                for what, seconds in _seconds(tree, name).items():
                    best[what] = min(seconds, best.get(what, math.inf))
        for what in least[0].keys() & least[1].keys() - told:
            told.add(what)
            yield Ratio(what, least[0][what], least[1][what])


def main() -> int:
    """The exit code is 1 when it is slower than allowed."""
    parser = argparse.ArgumentParser(prog="python -m bench.versus", epilog="Example: python -m bench.versus HEAD~5")
    parser.add_argument("base", help="a commit")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="measurements whose name has this in it")
    parser.add_argument("--rounds", type=int, default=3, help="how often each side is measured (default: 3)")
    parser.add_argument("--mean", type=float, default=1.05, help="the most for the geometric mean (default: 1.05)")
    parser.add_argument("--worst", type=float, default=1.15, help="the most for one measurement (default: 1.15)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="muster-base-") as folder:
        base = Path(folder) / "base"
        _git("worktree", "add", "--quiet", "--detach", str(base), given.base)
        try:
            found = []
            for one in compared(base, given.only, given.rounds):
                found.append(one)
                print(
                    f"{one.ratio:6.3f}  {one.before_s * 1e3:10.2f} ms  {one.now_s * 1e3:10.2f} ms  {one.what}",
                    flush=True,
                )
        finally:
            _git("worktree", "remove", "--force", str(base))
    if not found:
        print("nothing was measured on both sides")
        return 1
    mean = math.exp(sum(math.log(one.ratio) for one in found) / len(found))
    over = [one.what for one in found if one.ratio > given.worst]
    print(f"geometric mean of {len(found)}: {mean:.3f}; above {given.worst}: {', '.join(over) or 'none'}")
    return 1 if mean > given.mean or over else 0


if __name__ == "__main__":
    raise SystemExit(main())
