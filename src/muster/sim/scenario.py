"""The format of scenario files: a story as data. A key that nobody knows is an error, with its path."""

from pathlib import Path

import msgspec

from muster.api.documents import read
from muster.errors import UnreadableInput
from muster.sim.objects import Entry, Objects


class BadScenario(UnreadableInput):
    """A file that is no scenario; says where and why."""


class ReasonExpected(Entry, frozen=True, kw_only=True):
    """A reason, by whatever of it is written."""

    code: str
    sub_group: str | None = None
    where: str | None = None
    asked: int | None = None
    best: int | None = None
    pod: str | None = None
    detail: str | None = None
    surplus: bool | None = None
    queue: str | None = None
    resource: str | None = None
    total: int | None = None


class EvictionExpected(Entry, frozen=True, kw_only=True):
    """Pods that go, by a pattern of their names: by an action, for a gang, so many, with room kept on nodes `to`.

    `ignored` is a pattern of the disruption budgets that are passed over, by `namespace/name`; "" is none.
    """

    pods: str
    action: str
    # A gang by name, or namespace/name; for nobody when it is stale.
    for_: str | None = msgspec.field(default=None, name="for")
    count: int | None = None
    to: str | None = None
    ignored: str | None = None


class QueueExpected(Entry, frozen=True, kw_only=True):
    """What must be said of a queue: a bare number is of gpu, else by resource in the Queue's own units."""

    fair_share: float | dict[str, float] | None = None
    allocated: float | dict[str, float] | None = None
    non_preemptible: float | dict[str, float] | None = None
    requested: float | dict[str, float] | None = None


class Together(Entry, frozen=True, kw_only=True):
    """Placed pods of some subgroups that lie in one domain of a level; `apart`, no two subgroups in the same one."""

    sub_groups: list[str]
    level: str
    topology: str = ""
    apart: bool = False


class GangExpected(Entry, frozen=True, kw_only=True):
    """What must be said of a gang after the cycle. What is not written is not looked at.

    `placed` and `pending` are pods by subgroup, "" is the root; `domain` the path that a constrained subgroup lies in.
    `reasons` are all reasons: each is written, and each that is written is there.
    """

    verdict: str
    satisfied: bool | None = None
    placed: dict[str, int] = {}
    pending: dict[str, int] = {}
    met: dict[str, bool] = {}
    core: dict[str, bool] = {}
    joined: dict[str, bool] = {}
    stale: dict[str, bool] = {}
    domain: dict[str, str] = {}
    preferred_met: dict[str, bool] = {}
    together: list[Together] = []
    reasons: list[ReasonExpected] | None = None
    bindings: int | None = None
    nominations: int | None = None
    evicted: int | None = None


class Where(Entry, frozen=True, kw_only=True):
    """Pods that are placed or sent, by a pattern of their names, are exactly on nodes of a pattern; so many of them."""

    pods: str
    nodes: str
    count: int | None = None


class Expected(Entry, frozen=True, kw_only=True):
    """What must come of a cycle. `unchanged`: gangs that are not named here get nothing."""

    gangs: dict[str, GangExpected] = {}
    queues: dict[str, QueueExpected] = {}
    bindings: int | None = None
    nominations: int | None = None
    # How many in all; or all of them, each by one entry.
    evictions: int | list[EvictionExpected] | None = None
    where: list[Where] = []
    unchanged: bool = False


class Step(Entry, frozen=True, kw_only=True):
    """What happens, in this order: objects go, the last plan is carried out, what terminates is gone, objects come.

    Then a cycle is judged, `now` in seconds of the story (else as late as before), with these actions (else all).
    In the simulation binds and ends happen by themselves, and what is judged is the state that is settled in.
    """

    says: str = ""
    now: int | None = None
    actions: list[str] | None = None
    # kind/name or kind/namespace/name, with * for anything.
    delete: list[str] = []
    bind: bool = False
    gone: bool = False
    apply: Objects = Objects()
    expect: Expected = Expected()
    # What is expected is so after one cycle only, or only in files: a cluster that comes to rest shows something else.
    fleeting: bool = False


class Scenario(Objects, frozen=True, kw_only=True):
    """The header of a file, and what stands behind it as documents."""

    claim: str
    why: str
    steps: list[Step]
    # For the simulation: the API server takes what the rules of our kinds refuse.
    unchecked: bool = False


def load(path: Path) -> Scenario:
    """A scenario file. Raises BadScenario."""
    return parse(path.read_bytes(), path.name)


def parse(data: bytes, name: str = "scenario") -> Scenario:
    """The text of a scenario. Raises BadScenario."""
    documents = read(data)
    for document in documents:
        if document.problems:
            raise BadScenario(f"{name}: document {document.number}: {document.problems[0]}")
    try:
        header = msgspec.convert(documents[0].value, Scenario)
    except (msgspec.ValidationError, IndexError) as error:
        raise BadScenario(f"{name}: {error}") from None
    if not header.steps:
        raise BadScenario(f"{name}: no steps")
    for objects in (header, *(step.apply for step in header.steps)):
        strangers = {*objects.history, *objects.keep} - set(objects.gangs)
        if strangers:
            raise BadScenario(
                f"{name}: history or keep of {sorted(strangers)}, which are not among the gangs beside it"
            )
    return msgspec.structs.replace(header, documents=[*header.documents, *(one.value for one in documents[1:])])
