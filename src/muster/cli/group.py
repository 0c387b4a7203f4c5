"""`muster group`: owners, pods and ResourceInterfaces in; PodGroups and the place of every pod out."""

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

import click

from muster.api.kinds import POD_GROUP, read_object
from muster.api.validation import ERROR
from muster.api.validation.podgroup import tree_of
from muster.cli.files import Source, read_objects
from muster.cli.fixtures import EXPECTED, run_fixtures, without_cases
from muster.cli.grouping import groupable, idle_interfaces, scheduler_of
from muster.cli.judging import STYLES, Checked, about_warnings, check_all, plural, tell_violations
from muster.cli.options import (
    Server,
    input_flags,
    is_live,
    load_config,
    with_cluster,
    with_config,
    with_files,
    with_output,
)
from muster.cli.render import JSON, NAME, TABLE, WIDE, YAML, columns, say, say_data, signs, tell, tree_lines
from muster.config import Config
from muster.errors import UsageError
from muster.grouping.grouper import Grouping, Made, Problem, ToldPod
from muster.grouping.owners import Objects
from muster.grouping.scope import Heard

# A terminal is read from the bottom up: so many trees, then how many more there are.
_MOST_TREES = 20
_MOST_LINES = 50
_MOST_VALUE = 100
# Where nearly all expressions stand; lines are long enough without it.
_PREFIX = "spec.gangScheduling."


@click.command(epilog="Example: muster group -f raycluster.yaml -f pods.yaml --explain")
@with_files
@click.option("--explain", is_flag=True, help="Show each expression with its value, and why each pod is where it is.")
@click.option("--test", "folder", metavar="DIR", help="Run the fixtures in a folder: objects, pods, expected.yaml.")
@click.option("--no-strict", "lenient", is_flag=True, help="Do not mind unknown fields.")
@click.option("-n", "--namespace", metavar="NAME", default="", help="Live: this namespace. Default: the context's.")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Live: all namespaces.")
@with_output(TABLE, JSON, YAML, NAME, WIDE)
@with_cluster
@with_config
@click.pass_context
def group(
    ctx: click.Context,
    names: Sequence[str],
    explain: bool,
    folder: str | None,
    lenient: bool,
    namespace: str,
    everywhere: bool,
    server: Server,
    form: str,
    config_file: str | None,
    flags: tuple[str, ...],
) -> None:
    """Turn workloads into gangs: the PodGroup of every workload, and the SubGroup of every pod.

    Reads owners of any kind, their pods, ResourceInterfaces and PodGroups that are there already: from the files of -f,
    or without -f those of muster's pods in the current namespace of the cluster. Nothing is written. In files, a
    workload without pods is shown too, as it will be when its first pod comes. Exits with 1 when something can't be
    grouped. With -o name: the PodGroups; with -o wide: every pod.

    With --test, every folder below DIR that holds an expected.yaml is a case: the other files in it are the input (with
    those of -f), and what comes out must be as expected, whichever pod comes first, and again when repeated.
    """
    config = load_config(config_file, flags).config
    if folder is not None:
        ctx.exit(run_fixtures(folder, names, config, form=form, strict=not lenient))
    place = Place(server, namespace, everywhere)
    sources, notes, lookup = _read(names, place, config)
    checked = check_all(sources, config, strict=not lenient and bool(names))
    ready = groupable(sources, checked, config, explain=explain, lookup=lookup)
    # Of a cluster only what has pods of ours was read, and what that refers to.
    found = ready.group(preview=bool(names))
    wrong = [one for one in checked if not one.judgement.valid]
    for one in wrong:
        tell_violations(one, "has errors", only=ERROR)
    if form in (JSON, YAML):
        document = document_of(found, explain=explain)
        document["errors"] = [*(row for one in wrong for row in _input_errors(one)), *document["errors"]]
        say_data(document, form)
    elif form == NAME:
        for made in found.groups:
            metadata = made.document["metadata"]
            say(f"{POD_GROUP.name.lower()}.{POD_GROUP.group}/{metadata['namespace']}/{metadata['name']}")
    else:
        _say_groups(found, wide=form == WIDE)
        if explain:
            _say_told(found)
    _tell_problems(found)
    idle = idle_interfaces(sources, checked) if names else ()
    for note in (*notes, *idle, *about_warnings(checked)):
        tell(f"note: {note}")
    unnamed = sum(not scheduler_of(pod) for pod in ready.pods)
    if unnamed:
        name = config.scheduler_names[0]
        tell(f"note: {plural(unnamed, 'pod')} without a schedulerName counted as ours; muster plan wants {name} there")
    if ready.strangers:
        tell(f"note: {plural(ready.strangers, 'pod')} of other schedulers left out")
    if form in (TABLE, WIDE):
        _tell_outcome(found, names, place, explain=explain, wrong=bool(wrong))
    ctx.exit(1 if found.problems or wrong else 0)


class Place(NamedTuple):
    """Which part of which cluster is meant."""

    server: Server
    namespace: str = ""
    everywhere: bool = False

    @property
    def flags(self) -> str:
        """The options that say so again."""
        chosen = "-A" if self.everywhere else f"-n {shlex.quote(self.namespace)}" if self.namespace else ""
        return " ".join(filter(None, (chosen, self.server.flags)))


def _read(names: Sequence[str], place: Place, config: Config) -> tuple[list[Source], Sequence[str], Objects | None]:
    """The objects, what to say about them, and where owners are found. Raises UsageError or ApiError."""
    if names and (place.namespace or place.everywhere):
        raise UsageError("-n and -A are about a live cluster, and -f about files", "leave one of them out")
    if place.namespace and place.everywhere:
        raise UsageError("-n and -A say different things", "leave one of them out")
    if not is_live(names, place.server):
        # The folder of a case can be named as it is.
        written = read_objects(without_cases(names), config.input)
        return [one for one in written if PurePath(one.file).name != EXPECTED], (), None
    from muster.cli.live import fetch_workloads
    from muster.cli.owners import Known

    found = fetch_workloads(place.server, config, place.namespace, everywhere=place.everywhere)
    return found.sources, found.notes, Known(forbidden=found.forbidden)


def document_of(found: Grouping, *, explain: bool = False) -> dict[str, Any]:
    """What came out, as one document."""
    document: dict[str, Any] = {
        "podGroups": [made.document for made in found.groups],
        "pods": [
            {"namespace": pod.namespace, "name": pod.name, "podGroup": pod.pod_group, "subGroup": pod.sub_group}
            for pod in found.pods
        ],
        "errors": [_error(problem) for problem in found.problems],
        "warnings": list(found.warnings),
    }
    if explain:
        document["explained"] = _explained(found)
    return document


def _input_errors(one: Checked) -> Iterator[dict[str, Any]]:
    """What is wrong with an object of the input, in the form of the other errors."""
    for violation in one.judgement.violations:
        if violation.severity == ERROR:
            yield {
                "kind": one.kind,
                "namespace": one.namespace if one.judgement.kind is None or one.judgement.kind.namespaced else "",
                "name": one.name,
                "pods": [],
                "interface": "",
                "path": violation.path,
                "message": violation.message,
                "hint": violation.hint,
                "retry": False,
            }


def _error(problem: Problem) -> dict[str, Any]:
    return {
        "kind": problem.kind,
        "namespace": problem.namespace,
        "name": problem.name,
        "pods": list(problem.pods),
        "interface": problem.interface,
        "path": problem.path,
        "message": problem.message,
        "hint": problem.hint,
        "retry": problem.retry,
    }


def _explained(found: Grouping) -> dict[str, Any]:
    return {
        "podGroups": [
            {
                "namespace": told.namespace,
                "name": told.name,
                "steps": list(told.steps),
                "expressions": [
                    {
                        "subGroup": heard.place,
                        "path": heard.path,
                        "expression": heard.expression,
                        "values": list(heard.values),
                    }
                    for heard in told.heard
                ],
            }
            for told in found.told_groups
        ],
        "pods": [
            {
                "namespace": told.namespace,
                "name": told.name,
                "podGroup": told.pod_group,
                "subGroup": told.sub_group,
                "others": [{"subGroup": refusal.leaf, "why": refusal.why} for refusal in told.refusals],
            }
            for told in found.told_pods
        ],
    }


def _say_groups(found: Grouping, *, wide: bool) -> None:
    for number, made in enumerate(found.groups[:_MOST_TREES]):
        if number:
            say()
        _say_group(made, found)
    if len(found.groups) > _MOST_TREES:
        say()
        say(f"and {plural(len(found.groups) - _MOST_TREES, 'more PodGroup')}: -o json")
    if wide and found.pods:
        say()
        rows = [("NAMESPACE", "POD", "PODGROUP", "SUBGROUP")]
        for line in columns([*rows, *(tuple(pod) for pod in found.pods)]):
            say(line)


def _say_group(made: Made, found: Grouping) -> None:
    group, _ = read_object(made.document, POD_GROUP, strict=False)
    key = group.metadata.namespace, group.metadata.name
    pods = Counter(pod.sub_group for pod in found.pods if (pod.namespace, pod.pod_group) == key)
    state = "" if made.changed else "  (there already, and up to date)"
    say(f"PodGroup {'/'.join(key)}{state}", **STYLES["valid"])
    spec = group.spec
    facts = [f"queue {spec.queue}", f"priority {spec.priority_class_name}" if spec.priority_class_name else ""]
    facts.append(spec.preemptibility)
    say(f"  {', '.join(fact for fact in facts if fact)}; {plural(pods.total(), 'pod')} here")
    tree = tree_of(group)
    if tree is not None:
        for line in tree_lines(tree):
            say(f"  {line}")


def _say_told(found: Grouping) -> None:
    """How it came to this: each PodGroup's way and expressions, then the place of each of its pods."""
    for told in found.told_groups[:_MOST_TREES]:
        say()
        say(f"How PodGroup {told.namespace}/{told.name} came about", bold=True)
        for step in told.steps:
            say(f"  {step}")
        rows = [
            (f"  {heard.place}", heard.path.removeprefix(_PREFIX), heard.expression, _values(heard))
            for heard in told.heard
        ]
        _say_some([*columns([("  SUBGROUP", "FIELD", "EXPRESSION", "VALUE"), *rows])] if rows else [])
        members = [pod for pod in found.told_pods if (pod.namespace, pod.pod_group) == (told.namespace, told.name)]
        # Who is claimed by nobody is why people ask.
        members.sort(key=lambda pod: pod.sub_group is not None)
        _say_some([line for pod in members for line in _place_lines(pod)])
    if len(found.told_groups) > _MOST_TREES:
        say()
        say(f"and {plural(len(found.told_groups) - _MOST_TREES, 'more PodGroup')}: -o json")


def _place_lines(told: ToldPod) -> Iterator[str]:
    where = f"SubGroup {told.sub_group}" if told.sub_group else "the PodGroup itself"
    if told.sub_group is None:
        where = "no entry claims it"
    yield f"  pod {told.name}: {where}"
    for refusal in told.refusals[:5]:
        yield f"    not {refusal.leaf}: {refusal.why}"
    if len(told.refusals) > 5:
        yield f"    and {len(told.refusals) - 5} more do not claim it"


def _say_some(lines: Sequence[str]) -> None:
    for line in lines[:_MOST_LINES]:
        say(line)
    if len(lines) > _MOST_LINES:
        say(f"  and {plural(len(lines) - _MOST_LINES, 'more line')}: -o json")


def _values(heard: Heard) -> str:
    texts = [json.dumps(value, ensure_ascii=False) for value in heard.values[:5]]
    text = ", ".join(texts) + (f" and {len(heard.values) - 5} more" if len(heard.values) > 5 else "")
    return (text if len(text) <= _MOST_VALUE else text[: _MOST_VALUE - 3] + "...") or "nothing"


def _tell_problems(found: Grouping) -> None:
    arrow = signs()["arrow"]
    for problem in found.problems[:_MOST_LINES]:
        what = "not yet grouped" if problem.retry else "not grouped"
        if problem.pods:
            first = "first " if len(problem.pods) > 1 else ""
            what = f"{plural(len(problem.pods), 'pod')} {what} ({first}{problem.pods[0]})"
        tell(f"{problem.kind} {problem.namespace or 'default'}/{problem.name}: {what}", **STYLES[ERROR])
        where = f"{problem.interface}, {problem.path}: " if problem.interface and problem.path else ""
        tell(f"  error    {where}{problem.message}", **STYLES[ERROR])
        if problem.hint:
            tell(f"           {arrow} {problem.hint}")
    if len(found.problems) > _MOST_LINES:
        tell(f"and {plural(len(found.problems) - _MOST_LINES, 'more error')}: -o json")
    for warning in found.warnings[:_MOST_LINES]:
        tell(f"warning: {warning}")
    if len(found.warnings) > _MOST_LINES:
        tell(f"and {plural(len(found.warnings) - _MOST_LINES, 'more warning')}: -o json")
    for text in found.later[:_MOST_LINES]:
        tell(f"note: {text}")
    reasons = Counter(why for _, why in found.alone)
    for why, count in sorted(reasons.items())[:_MOST_LINES]:
        example = "/".join(min(key for key, said in found.alone if said == why))
        tell(f"note: {plural(count, 'pod')} left alone (first {example}): {why}")


def _tell_outcome(found: Grouping, names: Sequence[str], place: Place, *, explain: bool, wrong: bool) -> None:
    again = " ".join(filter(None, ("muster group", input_flags(names, place.server) if names else place.flags)))
    if not found.groups and not found.problems and not found.later:
        tell("nothing here to group: no workload of a known kind, and no pod of ours")
        other = "add pods or owners with -f" if names else "muster group -A   (all namespaces)"
        tell(f"next: {other}, or write a ResourceInterface (docs/grouping.md)")
        return
    changed = sum(made.changed for made in found.groups)
    tell(
        f"{plural(len(found.groups), 'PodGroup')} ({changed} new or changed) with {plural(len(found.pods), 'pod')}, "
        f"{plural(len(found.problems), 'error')}"
    )
    if found.problems and not explain and not wrong:
        tell(f"next: {again} --explain   (why?)")
    elif found.problems or wrong:
        tell(f"next: mend what is said above, then {again}")
    else:
        add = " (would they fit? add nodes)" if names else " (do they fit?)"
        plan = " ".join(filter(None, ("muster plan", input_flags(names, place.server))))
        tell(f"next: {plan}  {add}, or {again} -o yaml")
