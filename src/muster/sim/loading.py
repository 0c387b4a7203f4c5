"""A story or scenario file becomes a Story; and a scenario becomes the stories that have to be played to judge it.

A scenario file is about single cycles: a step without `bind` happens as if the plan before it had not been carried
out. A whole system carries out every plan. So such a step is played in another take, in which everything that has come
until then comes at once.
"""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from muster.api.documents import Document, read
from muster.api.writing import write_yaml
from muster.errors import UnreadableInput, UsageError
from muster.sim.objects import Objects
from muster.sim.scenario import BadScenario, Expected, Step
from muster.sim.story import STRIKES, Fault, Story
from muster.sim.vetting import vet_happening, vet_object, vet_objects, vet_workloads

# What is played at most: a story is small.
# A pod of a scenario that is told to go takes so long, unless a step says that it is gone.
NEVER_S = 1_000_000
MOST_NODES, MOST_PODS, MOST_PROCESSES, LONGEST_S = 2_000, 20_000, 8, 7 * 86_400.0
# Where every answer is some seconds late, nobody holds the Lease: that would be the fault of the file.
LATEST_S = 1.0


def load(path: Path) -> Story:
    """A story or scenario file. Raises BadScenario, or UsageError when there is no such file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}", "name a story or scenario file") from None
    return parse(data, path.name)


def parse(data: bytes, name: str = "story") -> Story:
    """The text of a story or scenario; the first document is the story, others are objects. Raises BadScenario."""
    documents = _documents(data, name)
    header = documents[0].value
    if isinstance(header, dict) and {"apiVersion", "kind"} <= set(header):
        hint = f"write it behind the story and a line of ---; or: muster plan -f {name}"
        raise BadScenario(f"{name}: begins with a {header['kind']}, an object of Kubernetes: that is no story", hint)
    try:
        story = msgspec.convert(header, Story, str_keys=True)
    except msgspec.ValidationError as error:
        raise BadScenario(f"{name}: {error}", "docs/simulation.md has the keys of a story") from None
    for one in documents[1:]:
        vet_object(one.value, f"{name}: document {one.number}")
    story = msgspec.structs.replace(story, documents=[*story.documents, *(one.value for one in documents[1:])])
    check(story, name)
    return story


def _documents(data: bytes, name: str) -> list[Document]:
    """At least one, and nothing is wrong with them. Raises BadScenario."""
    try:
        documents = read(data)
    except UnreadableInput as error:
        raise BadScenario(f"{name}: {error.message}", error.hint) from None
    for document in documents:
        for one in document.problems:
            where = ": ".join(filter(None, (name, f"document {document.number}", one.path)))
            raise BadScenario(f"{where}: {one.message}", one.hint)
    if not documents:
        raise BadScenario(f"{name}: is empty", "docs/simulation.md has the keys of a story")
    return documents


def check(story: Story, name: str = "story") -> None:
    """What the types can't say. Raises BadScenario."""
    applied = [story, *(step.apply for step in story.steps), *(one.apply for one in story.happens)]
    for objects in applied:
        strangers = sorted({*objects.history, *objects.keep} - set(objects.gangs))
        if strangers:
            which = f"history or keep of {', '.join(strangers)}"
            raise BadScenario(f"{name}: {which}, which are not among the gangs beside it")
    vet_objects(story, f"{name}: ")
    vet_workloads(story.workloads, f"{name}: ")
    for number, step in enumerate(story.steps):
        vet_objects(step.apply, f"{name}: steps[{number}].apply.")
    for number, one in enumerate(story.happens):
        vet_happening(one, f"{name}: happens[{number}]")
    _check_amounts(story, name, applied)
    for number, one in enumerate(story.happens):
        if one.at > story.lasts:
            after = f"happens[{number}].at: {one.at:g} is after the end of the story (lasts: {story.lasts:g})"
            raise BadScenario(f"{name}: {after}", f"write lasts: {one.at:g}, or more")
    for number, fault in enumerate(story.faults):
        _check_fault(fault, f"{name}: faults[{number}]")
    if story.claim:
        _check_processes(story, name)


def _check_processes(story: Story, name: str) -> None:
    """A file with a claim names only processes that there are. Raises BadScenario."""
    named = [(f"faults[{row}].process", one.process) for row, one in enumerate(story.faults) if one.process is not None]
    for row, happening in enumerate(story.happens):
        for word in ("crash", "stop", "start", "pause", "jump"):
            named += [(f"happens[{row}].{word}", number) for number in getattr(happening, word)]
    for where, number in named:
        if not 0 <= number < story.processes:
            hint = "there is only process 0" if story.processes == 1 else f"they are 0 to {story.processes - 1}"
            raise BadScenario(
                f"{name}: {where}: there is no process {number}", f"{hint} (processes: {story.processes})"
            )


def _check_amounts(story: Story, name: str, applied: list[Objects]) -> None:
    """No more than can be played. Raises BadScenario."""
    workloads = [*story.workloads.values(), *(one for some in story.happens for one in some.workloads.values())]
    nodes = sum(one.count or 1 for objects in applied for one in objects.nodes)
    pods = sum(one.count or 1 for objects in applied for one in objects.pods)
    pods += sum(sum(one.pods.values()) for one in workloads)
    times = [("lasts", story.lasts), ("calm", story.calm), ("lostAfter", story.lost_after)]
    times += [(f"happens[{row}].at", one.at) for row, one in enumerate(story.happens)]
    for where, what, found, most in (
        ("cluster", "nodes", nodes, MOST_NODES),
        ("workloads", "pods", pods, MOST_PODS),
        ("processes", "processes", story.processes, MOST_PROCESSES),
        *((where, "seconds", seconds, LONGEST_S) for where, seconds in times),
        ("latency", "seconds of latency", story.latency, LATEST_S),
    ):
        if found > most:
            said = f"{name}: {where}: {found:,} {what} are more than the {most:,.0f} that can be played"
            raise BadScenario(said, f"write {most:,.0f}, or less")


def _check_fault(fault: Fault, where: str) -> None:
    may = STRIKES[fault.point]
    if fault.does not in may:
        raise BadScenario(f"{where}: nothing can {fault.does} at {fault.point}", f"there: {', '.join(may)}")
    if fault.until is not None and fault.until <= fault.since:
        raise BadScenario(f"{where}: until {fault.until:g} is not after since {fault.since:g}", "it would never strike")
    least, most = (0, 1) if fault.does == "crash" else (400, 599)
    if not (least <= fault.code <= most or (fault.code == 0 and fault.does != "refuse")):
        raise BadScenario(f"{where}: {fault.does} with code {fault.code}", f"a code from {least} to {most}")


class Take(NamedTuple):
    """One playing of a scenario: the story, and for each of its steps the number that it has in the file."""

    story: Story
    numbers: list[int]


def takes(story: Story) -> list[Take]:
    """The stories in which each step of a scenario is judged once; a story that is none is played as it is."""
    if not story.steps or story.happens or story.faults or story.workloads:
        return [Take(story, list(range(1, len(story.steps) + 1)))]
    story = _lingering(msgspec.structs.replace(story, lasts=0.0))
    found: list[Take] = []
    # The steps of the take that is being made: a list of steps that happen at once for each plan that is carried out.
    groups: list[list[int]] = []
    judged: list[int] = []
    for number, step in enumerate(story.steps):
        if number == 0 or step.bind or _is_idle(story.steps[number - 1].expect):
            groups.append([number])
            judged.append(number)
            continue
        found.append(_take(story, groups, judged))
        groups, judged = [*groups[:-1], [*groups[-1], number]], [number]
    return [*found, _take(story, groups, judged)]


def _lingering(story: Story) -> Story:
    """Whoever is told to go stays until a step says that it is gone."""
    steps = [msgspec.structs.replace(step, apply=_slow(step.apply)) for step in story.steps]
    return msgspec.structs.replace(story, pods=_slow(story).pods, steps=steps)


def _slow(objects: Objects) -> Objects:
    pods = [
        msgspec.structs.replace(one, spec={"terminationGracePeriodSeconds": NEVER_S, **one.spec})
        for one in objects.pods
    ]
    return msgspec.structs.replace(objects, pods=pods)


def _is_idle(expected: Expected) -> bool:
    """Whether a plan does nothing, so that it makes no difference whether it is carried out."""
    waits = bool(expected.gangs) and all(one.verdict in ("Infeasible", "Held") for one in expected.gangs.values())
    is_bound = expected.bindings or (expected.bindings is None and not waits)
    return not (is_bound or expected.evictions or expected.nominations)


def _take(story: Story, groups: list[list[int]], judged: list[int]) -> Take:
    steps = []
    for group in groups:
        step = _merged([story.steps[number] for number in group])
        steps.append(step if group[-1] in judged else msgspec.structs.replace(step, expect=Expected()))
    numbers = [group[-1] + 1 for group in groups]
    return Take(msgspec.structs.replace(story, steps=steps), numbers)


def _merged(steps: list[Step]) -> Step:
    """Steps that happen at once; the last one is judged."""
    last = steps[-1]
    applied = {name: _joined([getattr(one.apply, name) for one in steps]) for name in Objects.__struct_fields__}
    nows = [one.now for one in steps if one.now is not None]
    return msgspec.structs.replace(
        last,
        delete=[pattern for one in steps for pattern in one.delete],
        apply=Objects(**applied),
        now=max(nows) if nows else None,
    )


def _joined(values: list[Any]) -> Any:
    if isinstance(values[0], dict):
        return {key: value for one in values for key, value in one.items()}
    return [value for one in values for value in one]


def write(story: Story) -> str:
    """A story as YAML."""
    return write_yaml([plain(story)]).removeprefix("---\n")


def plain(story: Story) -> dict[str, Any]:
    """A story as plain data, without what is as usual."""
    found: dict[str, Any] = _written(story)
    return found


def _written(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        usual = {
            field.name: field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
            for field in msgspec.structs.fields(value)
        }
        found = {
            field.encode_name: getattr(value, field.name)
            for field in msgspec.structs.fields(value)
            if getattr(value, field.name) != usual[field.name]
        }
        return {name: _written(one) for name, one in found.items()}
    if isinstance(value, dict):
        return {str(key): _written(one) for key, one in value.items()}
    return [_written(one) for one in value] if isinstance(value, list) else value
