"""`muster group --test`: folders with objects, pods and what is expected of them, for authors of interfaces.

A case is a folder with an `expected.yaml`; its other files are the input. Folders `then-…` in it are what happens
afterwards, in order: their objects replace those of the same name, and the PodGroups made so far are there.
"""

import json
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from muster.api.cluster import POD_GROUP_ANNOTATION, SUBGROUP_LABEL
from muster.api.documents import child_path
from muster.api.kinds import POD_GROUP, RESOURCE_INTERFACE
from muster.api.validation import ERROR
from muster.cli.files import Source, read_document, read_objects
from muster.cli.grouping import Groupable, groupable
from muster.cli.judging import STYLES, check_all, name_of, plural
from muster.cli.render import JSON, YAML, say, say_data, tell
from muster.config import Config
from muster.errors import MusterError, UsageError
from muster.grouping.grouper import Grouping

EXPECTED, THEN = "expected.yaml", "then-"
# An object of a later step that takes the one of its name away.
GONE_ANNOTATION = "muster.test/gone"
_LISTS = ("podGroups", "pods", "errors")
_ENDINGS = (".yaml", ".yml", ".json")
_MOST_DIFFERENCES = 20
_KNOWN = {"apiVersion", "kind", "podGroups", "pods", "errors", "warnings"}
# So many pods are each tried as the first one.
_MOST_FIRST = 64


class Case(NamedTuple):
    """A folder, and what is wrong with it."""

    name: str
    steps: int
    differences: list[str]


def run_fixtures(folder: str, names: Sequence[str], config: Config, *, form: str, strict: bool) -> int:
    """Runs every case below the folder and says how it went; the exit code is 1 when one failed."""
    root = Path(folder)
    if not root.is_dir():
        raise UsageError(f"there is no folder {folder}", "name one with --test; a case in it holds expected.yaml")
    shared = read_objects(names, config.input) if names else []
    found = list(_folders(root))
    if not found:
        raise UsageError(f"no {EXPECTED} below {folder}", f"a case is a folder with objects, pods and {EXPECTED}")
    failed = 0
    cases = []
    for where in found:
        case = _run(where, str(where.relative_to(root)) if where != root else where.name, shared, config, strict)
        cases.append(case)
        failed += bool(case.differences)
        if form not in (JSON, YAML):
            _say_case(case)
    if form in (JSON, YAML):
        say_data(
            [{"case": one.name, "passed": not one.differences, "differences": one.differences} for one in cases], form
        )
    tell(f"{plural(len(found), 'case')}: {len(found) - failed} passed, {failed} failed")
    if failed:
        first = next(where for where, case in zip(found, cases, strict=True) if case.differences)
        files = " ".join(f"-f {shlex.quote(str(name))}" for name in (first, *names))
        tell(f"next: muster group {files} --explain   (why?)")
    return 1 if failed else 0


def _folders(root: Path) -> Iterator[Path]:
    for where, below, files in os.walk(root):
        below[:] = sorted(name for name in below if not name.startswith((THEN, ".")))
        if EXPECTED in files:
            yield Path(where)


def _say_case(case: Case) -> None:
    if not case.differences:
        say(f"ok      {case.name}" + (f"  ({case.steps} steps)" if case.steps > 1 else ""), **STYLES["valid"])
        return
    say(f"FAILED  {case.name}", **STYLES[ERROR])
    for line in case.differences[:_MOST_DIFFERENCES]:
        say(f"        {line}")
    if len(case.differences) > _MOST_DIFFERENCES:
        say(f"        and {plural(len(case.differences) - _MOST_DIFFERENCES, 'more difference')}")


def _run(folder: Path, name: str, shared: Sequence[Source], config: Config, strict: bool) -> Case:
    later = [below for below in folder.iterdir() if below.is_dir() and below.name.startswith(THEN)]
    steps = [folder, *sorted(later, key=_place_of)]
    differences: list[str] = []
    objects: dict[Any, Source] = {}
    _replace(objects, _copied(shared))
    for number, step in enumerate(steps):
        title = f"{step.name}: " if number else ""
        try:
            _replace(objects, _sources(step, config))
            found = _one_step(list(objects.values()), read_document(str(step / EXPECTED), config.input), config, strict)
        except MusterError as error:
            differences.append(f"{title}{error.message}" + (f" ({error.hint})" if error.hint else ""))
            break
        differences += [f"{title}{line}" for line in found.differences]
        _carry(objects, found.grouping)
    return Case(name, len(steps), differences)


def _place_of(step: Path) -> tuple[int, str]:
    """`then-2-…` comes before `then-10-…`."""
    number = step.name.removeprefix(THEN).partition("-")[0]
    return int(number) if number.isdigit() else 0, step.name


def _copied(sources: Sequence[Source]) -> list[Source]:
    return [source._replace(value=json.loads(json.dumps(source.value))) for source in sources]


def _sources(folder: Path, config: Config) -> list[Source]:
    files = _input_of(folder)
    return read_objects(files, config.input) if files else []


def _input_of(folder: Path) -> list[str]:
    return [str(file) for file in sorted(folder.iterdir()) if file.suffix in _ENDINGS and file.name != EXPECTED]


def without_cases(names: Sequence[str]) -> list[str]:
    """What `-f` names, where a folder that is a case stands for its input: not for what is expected or comes later."""
    found: list[str] = []
    for name in names:
        folder = Path(name)
        found += _input_of(folder) if (folder / EXPECTED).is_file() else [name]
    return found


def _replace(objects: dict[Any, Source], sources: Sequence[Source]) -> None:
    for source in sources:
        key = _key(source)
        before = objects.pop(key, None)
        metadata = source.value.get("metadata") if isinstance(source.value, dict) else None
        annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
        if isinstance(annotations, dict) and annotations.get(GONE_ANNOTATION) == "true":
            continue
        if before is not None:
            _keep_membership(before.value, source.value)
        objects[key] = source


def _key(source: Source) -> Any:
    value = source.value
    if not isinstance(value, dict) or not name_of(value)[0]:
        return source.file, source.document
    return str(value.get("apiVersion")), str(value.get("kind")), *name_of(value)


def _keep_membership(before: Any, after: Any) -> None:
    """A pod that is written again is the same pod: it keeps the gang that it was given."""
    if before.get("kind") != "Pod":
        return
    for place, key in (("annotations", POD_GROUP_ANNOTATION), ("labels", SUBGROUP_LABEL)):
        given = _texts(before["metadata"], place).get(key)
        if given is not None:
            _texts(after["metadata"], place).setdefault(key, given)


def _texts(metadata: dict[str, Any], place: str) -> dict[str, Any]:
    """The labels or annotations, to be changed; there are some afterwards."""
    if not isinstance(metadata.get(place), dict):
        metadata[place] = {}
    found: dict[str, Any] = metadata[place]
    return found


def _carry(objects: dict[Any, Source], grouping: Grouping) -> None:
    """What a cluster looks like afterwards: the PodGroups are there, and the pods say where they belong."""
    for made in grouping.groups:
        source = Source("made", 1, json.loads(json.dumps(made.document)), [])
        objects[_key(source)] = source
    for pod in grouping.pods:
        source = objects["v1", "Pod", pod.name, pod.namespace]
        metadata = source.value["metadata"] = json.loads(json.dumps(source.value["metadata"]))
        _texts(metadata, "annotations")[POD_GROUP_ANNOTATION] = pod.pod_group
        labels = _texts(metadata, "labels")
        labels.pop(SUBGROUP_LABEL, None)
        if pod.sub_group:
            labels[SUBGROUP_LABEL] = pod.sub_group


class _Step(NamedTuple):
    grouping: Grouping
    differences: list[str]


def _one_step(sources: Sequence[Source], expected: Any, config: Config, strict: bool) -> _Step:
    checked = check_all(sources, config, strict=strict)
    wrong = [
        f"{one.title}: {violation.path} {violation.message}"
        for one in checked
        if one.judgement.kind in (RESOURCE_INTERFACE, POD_GROUP)
        for violation in one.judgement.violations
        if violation.severity == ERROR
    ]
    ready = groupable(sources, checked, config)
    found = ready.group(preview=not ready.pods)
    differences = [*wrong, *compared(found, expected), *_whoever_is_first(ready, found)]
    if not differences:
        differences += _repeated(sources, found, config, strict)
    return _Step(found, differences)


def compared(found: Grouping, expected: Any) -> Iterator[str]:
    """Where the outcome differs from what is expected, a line each."""
    if not isinstance(expected, dict):
        yield f"{EXPECTED} is no mapping of podGroups, pods and errors"
        return
    wrong = [f"{EXPECTED}: {key} is no list of mappings" for key in _LISTS if not _is_list(expected.get(key), key)]
    if wrong:
        yield from wrong
        return
    for key in sorted(expected.keys() - _KNOWN):
        yield f"{EXPECTED} has the key {key!r}, which means nothing; known are {', '.join(sorted(_KNOWN))}"
    groups = {_title(made.document): made.document for made in found.groups}
    wanted = {_title(one): one for one in expected.get("podGroups") or []}
    yield from _names("PodGroup", set(groups), set(wanted))
    for name in sorted(groups.keys() & wanted.keys()):
        spec, wish = groups[name].get("spec"), wanted[name].get("spec", {})
        yield from _differences(f"PodGroup {name}: spec", spec, wish, whole=True)
        yield from _differences(
            f"PodGroup {name}: metadata", groups[name]["metadata"], wanted[name]["metadata"], whole=False
        )
    pods = {f"{pod.namespace}/{pod.name}": (pod.pod_group, pod.sub_group) for pod in found.pods}
    places = {
        f"{pod.get('namespace', 'default')}/{pod.get('name')}": (pod.get("podGroup"), pod.get("subGroup") or "")
        for pod in expected.get("pods") or []
    }
    yield from _names("grouped pod", set(pods), set(places))
    for name in sorted(pods.keys() & places.keys()):
        if pods[name] != places[name]:
            yield f"pod {name}: is in {_place(pods[name])}, expected {_place(places[name])}"
    yield from _errors(found, expected.get("errors") or [])


def _is_list(value: Any, key: str) -> bool:
    """An error may be written as its message alone."""
    items = dict | str if key == "errors" else dict
    return value is None or (isinstance(value, list) and all(isinstance(item, items) for item in value))


def _errors(found: Grouping, expected: Sequence[Any]) -> Iterator[str]:
    """Each expected error is there, and no other. One names the object, a pod, or part of the message."""
    left = list(found.problems)
    for written in expected:
        wish = written if isinstance(written, dict) else {"message": str(written)}
        match = next(
            (
                problem
                for problem in left
                if str(wish.get("message") or "") in problem.message
                and wish.get("name", problem.name) == problem.name
                and ("pod" not in wish or wish["pod"] in problem.pods)
            ),
            None,
        )
        if match is None:
            yield f"expected error {json.dumps(wish)} did not come"
        else:
            left.remove(match)
    for problem in left:
        pods = f" (pods: {', '.join(problem.pods[:3])})" if problem.pods else ""
        yield f"error: {problem.kind} {problem.name}: {problem.path} {problem.message}{pods}"


def _names(what: str, found: set[str], expected: set[str]) -> Iterator[str]:
    for name in sorted(expected - found):
        yield f"{what} {name} is missing"
    for name in sorted(found - expected):
        yield f"{what} {name} was not expected"


def _differences(path: str, found: Any, wish: Any, *, whole: bool) -> Iterator[str]:
    """Where two values differ. Unless compared as a whole, only what is expected must be there."""
    if isinstance(found, dict) and isinstance(wish, dict):
        for key in sorted(wish.keys() | (found.keys() if whole else set())):
            here = child_path(path, key)
            if key not in found or key not in wish:
                has = json.dumps(found.get(key, wish.get(key)))
                yield f"{here} is missing, expected {has}" if key not in found else f"{here} is {has}, not expected"
            else:
                yield from _differences(here, found[key], wish[key], whole=whole)
    elif isinstance(found, list) and isinstance(wish, list) and len(found) == len(wish):
        for index, (one, other) in enumerate(zip(found, wish, strict=True)):
            yield from _differences(f"{path}[{index}]", one, other, whole=whole)
    elif found != wish or type(found) is not type(wish):
        yield f"{path} is {json.dumps(found)}, expected {json.dumps(wish)}"


def _whoever_is_first(ready: Groupable, found: Grouping) -> Iterator[str]:
    """Each pod alone gives the very PodGroup that all of them give."""
    groups = {_title(made.document): made.document["spec"] for made in found.groups}
    for pod in ready.pods[:_MOST_FIRST]:
        alone = ready.grouper.group([pod], ready.existing)
        for made in alone.groups:
            title = _title(made.document)
            if title not in groups:
                yield f"pod {name_of(pod)[0]} alone makes PodGroup {title}, all pods together do not"
            else:
                path = f"with pod {name_of(pod)[0]} alone, PodGroup {title}: spec"
                yield from _differences(path, made.document["spec"], groups[title], whole=True)


def _repeated(sources: Sequence[Source], found: Grouping, config: Config, strict: bool) -> Iterator[str]:
    """Grouping what was grouped changes nothing."""
    objects: dict[Any, Source] = {}
    _replace(objects, _copied(sources))
    _carry(objects, found)
    again = groupable(list(objects.values()), check_all(list(objects.values()), config, strict=strict), config)
    second = again.group(preview=not again.pods)
    for made in second.groups:
        if made.changed:
            yield f"grouping again changes PodGroup {_title(made.document)}"
    if second.pods != found.pods:
        yield "grouping again moves pods"


def _title(document: dict[str, Any]) -> str:
    name, namespace = name_of(document)
    return f"{namespace}/{name}"


def _place(place: tuple[Any, Any]) -> str:
    return f"{place[0]}, SubGroup {place[1] or '(none)'}"
