"""`muster validate` and `muster migrate`: what is wrong with objects, and older spellings made new."""

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import click

from muster.api import migration
from muster.api.kinds import POD_GROUP, Kind, Unknown, kind_of
from muster.api.tree import minimum_in_words
from muster.api.validation import ERROR, WARNING, Violation
from muster.api.writing import write_yaml
from muster.cli.files import STDIN, Source, read_objects
from muster.cli.judging import STYLES, Checked, check_all, identity_of, name_of, plural, tell_skipped, tell_violations
from muster.cli.options import load_config, with_config, with_files, with_output
from muster.cli.render import JSON, NAME, TABLE, WIDE, YAML, columns, say, say_data, signs, tell, tree_lines
from muster.config import Config
from muster.errors import UsageError


@click.command(epilog="Example: muster validate -f podgroup.yaml -f queues/ --old now.yaml")
@with_files
@click.option(
    "--old",
    "old_names",
    metavar="FILE",
    multiple=True,
    help="The objects as they are now: those of -f are judged as changes of them. Can be repeated.",
)
@with_output(TABLE, JSON, YAML, NAME, WIDE)
@click.option("--tree", "draw", is_flag=True, help="Draw the tree of every PodGroup.")
@click.option("--no-strict", "lenient", is_flag=True, help="Do not mind unknown fields.")
@with_config
@click.pass_context
def validate(
    ctx: click.Context,
    names: Sequence[str],
    old_names: Sequence[str],
    form: str,
    draw: bool,
    lenient: bool,
    config_file: str | None,
    flags: tuple[str, ...],
) -> None:
    """Say everything that is wrong with objects: file, document, field, and how to mend it.

    Exits with 1 when there is an error; warnings alone are fine. Objects are judged together: a PodGroup against the
    Topologies, Queues and PriorityClasses of the same input. With --old, an object is also judged as a change of the
    one of its kind, namespace and name there: the minimum of a semi-preemptible gang that runs may not rise, and the
    levels of a Topology stay. Other kinds are skipped with a note. With -o name: the objects that have errors.
    """
    config = load_config(config_file, flags).config
    old = _old(old_names, names, config)
    checked = check_all(read_objects(names, config.input), config, strict=not lenient, old=old)
    if form in (JSON, YAML):
        say_data([_row(one, violation) for one in checked for violation in one.judgement.violations], form)
    elif form == NAME:
        for one in checked:
            if not one.judgement.valid:
                kind = one.judgement.kind
                say(
                    f"{kind.name.lower()}.{kind.group}/{one.name}"
                    if kind
                    else f"{one.source.file}/{one.source.document}"
                )
    else:
        for one in checked:
            _say_checked(one, draw=draw or form == WIDE)
    if old_names:
        _tell_new(checked, old)
    if form in (TABLE, WIDE):
        _tell_outcome(checked, names, old_names)
    tell_skipped(checked)
    ctx.exit(0 if all(one.judgement.valid for one in checked) else 1)


def _old(old_names: Sequence[str], names: Sequence[str], config: Config) -> list[Source]:
    """The objects as they are now. What can't be read of them would be judged wrongly, so that it is an error."""
    if STDIN in old_names and STDIN in names:
        raise UsageError("standard input can't be both -f and --old", "name a file for one of them")
    found = read_objects(old_names, config.input) if old_names else []
    for source in found:
        if source.problems:
            problem = source.problems[0]
            where = f"--old {source.file}, document {source.document}"
            raise UsageError(f"{where}: {problem.path} {problem.message}".replace("  ", " "), problem.hint)
    return found


def _tell_new(checked: Sequence[Checked], old: Sequence[Source]) -> None:
    """Which objects were not there before, and which were there without the status that says whether they run."""
    known = {identity_of(source.value): source.value for source in old}
    meant = [known[key] for one in checked if (key := identity_of(one.source.value)) in known and key is not None]
    bare = [name_of(value) for value in meant if kind_of(value) is POD_GROUP and not value.get("status")]
    if bare:
        more = f" and {plural(len(bare) - 1, 'more PodGroup')}" if len(bare) > 1 else ""
        tell(f"note: PodGroup {bare[0][1]}/{bare[0][0]}{more} in --old without a status: no pod of it counts as placed")
    new = [one for one in checked if (key := identity_of(one.source.value)) is not None and key not in known]
    if new:
        more = f" and {plural(len(new) - 1, 'more object')}" if len(new) > 1 else ""
        tell(f"note: {new[0].title}{more} not in --old: judged as new")


def _row(one: Checked, violation: Violation) -> dict[str, Any]:
    return {
        "file": one.source.file,
        "document": one.source.document,
        "kind": one.kind,
        "name": one.name,
        "severity": violation.severity,
        "path": violation.path,
        "message": violation.message,
        "hint": violation.hint,
    }


def _say_checked(one: Checked, *, draw: bool) -> None:
    kind = one.judgement.kind
    if not one.judgement.violations and (kind is None or not kind.ours):
        # Of a cluster's pods and nodes only those are told that have something wrong with them.
        return
    tree = one.judgement.tree
    severities = [violation.severity for violation in one.judgement.violations]
    state = ERROR if ERROR in severities else WARNING if severities else "valid"
    words = {ERROR: "invalid", WARNING: "valid, with warnings", "valid": "valid"}[state]
    says = f"{one.title}: {words}"
    if tree is not None and one.judgement.valid and not draw:
        says += f"; {minimum_in_words(tree)}"
    say(f"{says}  ({one.source.file}, document {one.source.document})", **STYLES[state])
    if tree is not None and draw:
        for line in tree_lines(tree):
            say(f"  {line}")
    for violation in one.judgement.violations:
        path = f"{violation.path}: " if violation.path else ""
        say(f"  {violation.severity:<8} {path}{violation.message}", **STYLES[violation.severity])
        if violation.hint:
            say(f"  {'':<8} {signs()['arrow']} {violation.hint}")


def _tell_outcome(checked: Sequence[Checked], names: Sequence[str], old_names: Sequence[str]) -> None:
    judged = [one for one in checked if one.judgement.kind is not None or one.judgement.violations]
    if not judged:
        tell("nothing here is for muster to judge")
        return
    counts = Counter(violation.severity for one in judged for violation in one.judgement.violations)
    invalid = sum(not one.judgement.valid for one in judged)
    tell(
        f"{plural(len(judged), 'object')}: {len(judged) - invalid} valid, {invalid} invalid "
        f"({plural(counts[ERROR], 'error')}, {plural(counts[WARNING], 'warning')})"
    )
    files = " ".join(f"-f {shlex.quote(name)}" for name in names)
    if any(migration.migrate(one.source.value).changes for one in judged):
        tell(f"next: muster migrate {files}   (older spellings made new)")
    elif invalid:
        before = "".join(f" --old {shlex.quote(name)}" for name in old_names)
        tell(f"next: mend the errors, then muster validate {files}{before}")
    elif any(one.kind in ("Node", "Pod") for one in checked):
        tell(f"next: muster plan {files}   (would it fit?)")
    else:
        tell(f"next: kubectl apply {files}")


@click.command(epilog="Example: muster migrate -f old.yaml --counts subgroups > new.yaml")
@with_files
@with_output(YAML, JSON, NAME, TABLE, WIDE)
@click.option(
    "--counts",
    type=click.Choice([migration.PODS, migration.SUBGROUPS]),
    default=migration.PODS,
    show_default=True,
    help="What minMember on roots and branches counts in these files.",
)
@with_config
@click.pass_context
def migrate(
    ctx: click.Context, names: Sequence[str], form: str, counts: str, config_file: str | None, flags: tuple[str, ...]
) -> None:
    """Turn older spellings of a PodGroup into the normal one, and say what changed.

    All documents come out on stdout: those that did not change as they were written, those that did without their
    comments. What changed, and what somebody has to decide first, is told on stderr. An object with an open question
    comes out as it was, and the exit code is 1; so it is when an object is still invalid. With -o name: the objects
    that were changed; with -o table: every change.
    """
    config = load_config(config_file, flags).config
    sources = read_objects(names, config.input, as_written=True)
    results = [_migrated(source, counts) for source in sources]
    _say_migrated(sources, results, form)
    for source, result in zip(sources, results, strict=True):
        _tell_migrated(source, result)
    invalid = _tell_remaining(sources, results, config)
    foreign = Counter(_foreign_kind(source.value) for source in sources if _foreign_kind(source.value))
    alone = foreign.total() == len(sources)
    if foreign:
        kinds = ", ".join(f"{kind} ({count})" for kind, count in sorted(foreign.items()))
        what = (
            "there is nothing to migrate: only PodGroups have older spellings, and this is" if alone else "left alone:"
        )
        tell(f"{what} {kinds}", **(STYLES[ERROR] if alone else {}))
    changed = sum(bool(result.changes) for result in results)
    open_questions = sum(len(result.questions) for result in results)
    tell(
        f"{plural(len(sources), 'object')}: {changed} changed, {plural(open_questions, 'question')} open, "
        f"{invalid} still invalid"
    )
    if open_questions:
        tell("next: decide what is open above, then run it again")
    elif alone:
        tell(f"next: muster group {' '.join(f'-f {shlex.quote(name)}' for name in names)}   (the gangs of workloads)")
    else:
        tell("next: mend the errors above, then run it again" if invalid else "next: muster validate -f the new file")
    ctx.exit(1 if open_questions or invalid or alone else 0)


def _foreign_kind(value: Any) -> str:
    """The kind of a document that is none of ours; nothing for one of ours, or one that can't be read."""
    kind = kind_of(value)
    ours = isinstance(kind, Kind) and kind.ours
    if value is None or ours or (isinstance(kind, Unknown) and kind.problem):
        return ""
    # Kubernetes has a PodGroup, too, and so have other schedulers.
    if str(value.get("kind")) == POD_GROUP.name:
        return f"{value.get('apiVersion')} {POD_GROUP.name}"
    return str(value.get("kind"))


def _migrated(source: Source, counts: str) -> migration.Migrated:
    """What kubectl and muster read differently can't be written again without choosing a side."""
    result = migration.migrate(source.value, counts)
    if result.changes and source.doubts:
        return migration.Migrated(source.value, [], source.doubts)
    return result


def _say_migrated(sources: Sequence[Source], results: Sequence[migration.Migrated], form: str) -> None:
    if form == NAME:
        for result in results:
            if result.changes:
                say(f"{POD_GROUP.name.lower()}.{POD_GROUP.group}/{name_of(result.document)[0]}")
    elif form in (TABLE, WIDE):
        rows = [("FILE", "DOCUMENT", "NAME", "PATH", "CHANGE")]
        for source, result in zip(sources, results, strict=True):
            name = name_of(source.value)[0]
            rows += [(source.file, str(source.document), name, *change) for change in result.changes]
        for line in columns(rows):
            say(line)
    elif form == JSON:
        items = [result.document for result in results if result.document is not None]
        say_data({"apiVersion": "v1", "kind": "List", "items": items}, JSON)
    else:
        for text in _texts(sources, results):
            click.echo(text, nl=False)


def _texts(sources: Sequence[Source], results: Sequence[migration.Migrated]) -> Iterator[str]:
    """The documents in their order; one of which nothing changed is the very text that was read."""
    documents: dict[tuple[str, int], list[tuple[Source, migration.Migrated]]] = {}
    for source, result in zip(sources, results, strict=True):
        documents.setdefault((source.file, source.document), []).append((source, result))
    for parts in documents.values():
        if any(result.changes for _, result in parts):
            yield write_yaml(result.document for _, result in parts if result.document is not None)
        elif parts[0][0].text:
            text = parts[0][0].text.rstrip("\n") + "\n"
            yield text if text.startswith("---") else "---\n" + text.removeprefix("...")


def _tell_migrated(source: Source, result: migration.Migrated) -> None:
    if not result.changes and not result.questions:
        return
    name, namespace = name_of(source.value)
    tell(f"PodGroup {namespace}/{name or '(no name)'}  ({source.file}, document {source.document})")
    for change in result.changes:
        tell(f"  changed  {change.path}: {change.message}")
    for question in result.questions:
        tell(f"  decide   {question.path}: {question.message}", **STYLES[ERROR])
        if question.hint:
            tell(f"           {signs()['arrow']} {question.hint}")


def _tell_remaining(sources: Sequence[Source], results: Sequence[migration.Migrated], config: Config) -> int:
    """Errors that no migration mends, in the new form; objects with an open question have been told theirs."""
    new = [source._replace(value=result.document) for source, result in zip(sources, results, strict=True)]
    invalid = 0
    for one, result in zip(check_all(new, config, strict=True), results, strict=True):
        errors = [violation for violation in one.judgement.violations if violation.severity == ERROR]
        if not errors or result.questions:
            continue
        invalid += 1
        tell_violations(one, "still invalid", only=ERROR)
    return invalid
