"""Measures of the structure, read from the source: which files know what, and how the rooms hang together."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SRC = Path(__file__).parents[2] / "src" / "muster"
# Each seam: what a file has in it that knows the subject; and the rooms whose business it is.
SEAMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "reasons: reason codes": (r"\bCode\.[A-Z_]+|\b[a-z_]+\.code == ['\"]", ("model",)),
    "gang: the PodGroup struct": (r"\bPodGroup(Spec|Status)?\b(?!\.)", ("doors", "api")),
    "gang: the PodGroup kind": (r"\bPOD_GROUP\b|['\"]podgroups?['\"]", ("doors", "api")),
    "gang: membership of pods": (r"POD_GROUP_ANNOTATION|SUBGROUP_LABEL|pod-group-name|subgroup-name", ("doors", "api")),
    "plan: its evictions and placements": (r"\.(placements|evictions)\b", ("cycle",)),
    "rules of pods: anti-affinity": (r"\b(repelled|carried|Repelled|Carried)\b", ("engine",)),
    "rules of pods: host ports": (r"\b(host_?ports?|HOST_PORT|PortIndex)\b", ("engine",)),
}
# The dialect that DESIGN.md replaces.
DIALECT = re.compile(
    r"\b(who(ever)?|(no|some|any|every)body|so (many|long)|anew|come apart|mend(ed|s)?|told)\b",
    re.IGNORECASE,
)


def sources() -> list[Path]:
    """All Python files of the program."""
    return sorted(SRC.rglob("*.py"))


def room_of(path: Path) -> str:
    """The first folder below the package."""
    parts = path.relative_to(SRC).parts
    return parts[0] if len(parts) > 1 else "."


def knowing(pattern: str, rooms: tuple[str, ...]) -> list[str]:
    """The files outside of these rooms that have the pattern in their code; comments and docstrings do not count."""
    found = []
    for path in sources():
        if room_of(path) not in rooms and re.search(pattern, _code(path)):
            found.append(str(path.relative_to(SRC)))
    return found


def _code(path: Path) -> str:
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        has_doc = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if has_doc and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def flags() -> int:
    """Boolean parameters of functions and methods."""
    found = 0
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                found += sum(isinstance(one.annotation, ast.Name) and one.annotation.id == "bool" for one in given)
    return found


def words() -> Counter[str]:
    """Words of the dialect in prose and names, by room."""
    found: Counter[str] = Counter()
    for path in sources():
        found[room_of(path)] += len(DIALECT.findall(path.read_text()))
    return found


def lines() -> Counter[str]:
    """Lines by room."""
    found: Counter[str] = Counter()
    for path in sources():
        found[room_of(path)] += path.read_text().count("\n")
    return found


def cycles() -> list[list[str]]:
    """Modules that import each other, directly or through others; what is imported for types counts."""
    edges = {_module(path): set(_imports(path)) for path in sources()}
    edges = {name: {one for one in others if one in edges} for name, others in edges.items()}
    return [sorted(part) for part in _components(edges) if len(part) > 1]


def _module(path: Path) -> str:
    parts = ("muster", *path.relative_to(SRC).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def _components(edges: dict[str, set[str]]) -> Iterator[set[str]]:
    """Strongly connected parts, by Kosaraju."""
    order, seen = list[str](), set[str]()
    for start, first in edges.items():
        path = [(start, iter(first))] if start not in seen else []
        seen.add(start)
        while path:
            name, others = path[-1]
            following = next((one for one in others if one not in seen), None)
            if following is None:
                order.append(path.pop()[0])
            else:
                seen.add(following)
                path.append((following, iter(edges[following])))
    back: dict[str, set[str]] = {name: set() for name in edges}
    for name, others in edges.items():
        for one in others:
            back[one].add(name)
    left = set(edges)
    for name in reversed(order):
        if name not in left:
            continue
        part, open_ones = set[str](), [name]
        while open_ones:
            one = open_ones.pop()
            if one in left:
                left.remove(one)
                part.add(one)
                open_ones += back[one]
        yield part


def report(*, names: bool = False) -> Iterator[str]:
    """All measures, a line each; with `names` the files that know each seam."""
    yield "files that know a seam, outside of its room"
    for seam, (pattern, rooms) in SEAMS.items():
        found = knowing(pattern, rooms)
        yield f"  {len(found):4}  {seam} ({', '.join(rooms)})"
        yield from (f"          {name}" for name in found if names)
    found_words, found_lines = words(), lines()
    yield f"words of the dialect: {found_words.total():,} in {found_lines.total():,} lines"
    yield f"boolean parameters: {flags():,}"
    groups = cycles()
    yield f"import cycles: {len(groups)}" + "".join(f"\n        {' '.join(one)}" for one in groups)
    yield "lines by room, and words of the dialect"
    for room, count in sorted(found_lines.items(), key=lambda one: -one[1]):
        yield f"  {count:7,}  {found_words[room]:5,}  {room}"
