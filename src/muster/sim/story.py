"""A story for the simulation as data: what there is, what happens when, and what goes wrong on the way.

A seed becomes a story (`drawing`), a file is one (`muster simulate -f`), and a failing one is made smaller by leaving
parts of it out (`shrinking`). Whoever plays the same story sees the same trace.
"""

from typing import Annotated, Literal

import msgspec

from muster.sim.objects import Document, Entry, Objects
from muster.sim.scenario import Expected, Step

# Where things can go wrong: the requests of muster by what they do (`open` begins a watch), each event of a watch, and
# the process itself at each of its writes.
Point = Literal[
    "bind", "evict", "status", "create", "patch", "delete", "event", "lease", "get", "list", "open", "watch", "write"
]
# What can go wrong. A request: `refuse` (answered with `code`, nothing was done), `lose` (it never came; the connection
# breaks after `seconds`, or with 0 there is no answer at all), `swallow` (it was done, and the answer is `code`, or
# with 0 the connection breaks), `delay` (it arrives up to `seconds` later), `late` (it was done at once, its answer
# comes up to `seconds` later). A watch: `late` (from here on it shows everything up to `seconds` later), `cut` (it
# ends), `repeat` (an event comes twice), `gone` (it ends with 410), `silent` (it shows nothing for `seconds`, then
# breaks). A process: `crash`, before this write leaves it (`code` 0) or right after (`code` 1).
Does = Literal["refuse", "lose", "swallow", "delay", "late", "cut", "repeat", "gone", "silent", "crash"]
_REQUESTS: tuple[Point, ...] = ("bind", "evict", "status", "create", "patch", "delete", "event", "lease", "get", "list")
# Which of it can happen where. Who begins a watch and is lost hears nothing, whatever `seconds` says.
STRIKES: dict[Point, tuple[Does, ...]] = {
    **dict.fromkeys(_REQUESTS, ("refuse", "lose", "swallow", "delay", "late")),
    "open": ("refuse", "lose"),
    "watch": ("late", "cut", "repeat", "gone", "silent"),
    "write": ("crash",),
}


Seconds = Annotated[float, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Nth = Annotated[int, msgspec.Meta(ge=1)]
# A clock goes wrong by some years at most, back or forth.
Jump = Annotated[float, msgspec.Meta(ge=-1e8, le=1e8)]


class Fault(Entry, frozen=True, kw_only=True):
    """At each passing of `point`, with `chance`, this happens; from second `since` until second `until`."""

    point: Point
    does: Does
    chance: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    code: int = 0
    seconds: Seconds = 0.0
    since: Seconds = 0.0
    until: Seconds | None = None
    # Only the n-th passing (from 1), whatever the chance; and only of this kind of object, of a request to an object of
    # this name (a pattern), and of this process.
    nth: Nth | None = None
    plural: str = ""
    name: str = ""
    process: int | None = None


class Workload(Entry, frozen=True, kw_only=True):
    """A gang, or a Job, that an operator looks after: it makes the pods, and makes them anew when they go.

    `gang` is the spec of a PodGroup, `pods` how many there are per leaf ("" when it has none). Without `gang` it is a
    batch/v1 Job of so many pods, and muster groups it.
    """

    gang: Document | None = None
    pods: dict[str, Count] = {}
    namespace: str = "default"
    gpus: Count = 1
    cpus: Count = 0
    # Pods end by themselves after so long, with this code; never without.
    run_for: Seconds | None = None
    exit: int = 0
    # How long a pod takes to start, and to go once it is told to.
    starts_after: Seconds = 0.0
    grace: Count = 0
    # Whether successors have the names of those before them, as in a StatefulSet; and whether there are any.
    same_names: bool = False
    makes_anew: bool = True
    # Seconds between two pods that it makes.
    pace: Seconds = 0.0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    spec: Document = {}


class Happening(Entry, frozen=True, kw_only=True):
    """What happens at a second of the story. Patterns have * for anything.

    Nodes are named by pattern, or by `label=value`.
    """

    at: Seconds
    says: str = ""
    # Objects come or change; workloads come; `kind/name` or `kind/namespace/name` go.
    apply: Objects = Objects()
    workloads: dict[str, Workload] = {}
    delete: list[str] = []
    # Merge patches by kind/name: another spec, other labels.
    change: dict[str, Document] = {}
    # Workload -> leaf -> how many pods.
    scale: dict[str, dict[str, Count]] = {}
    # Nodes: nobody answers there any more, and its pods are deleted `lost_after` seconds later; it answers again; the
    # object goes; nobody new may come; they may.
    fail: list[str] = []
    recover: list[str] = []
    vanish: list[str] = []
    cordon: list[str] = []
    uncordon: list[str] = []
    # Pods, by pattern: end well, end badly, are deleted by somebody.
    finish: list[str] = []
    break_: list[str] = msgspec.field(default=[], name="break")
    remove: list[str] = []
    # Processes of muster by number: end without a word, are told to end, begin (anew); stand still for seconds; clocks
    # of the wall that are set forth or back by seconds.
    crash: list[int] = []
    stop: list[int] = []
    start: list[int] = []
    pause: dict[int, Seconds] = {}
    jump: dict[int, Jump] = {}
    # All watches (of these plurals, [] for none, ["*"] for all) end; the server forgets its history.
    cut: list[str] = []
    compact: bool = False
    # The server answers nobody for so long.
    away: Seconds = 0.0
    # What must be so at this second, before anything of this happens; what moved is counted from the beginning.
    expect: Expected = Expected()


class Story(Objects, frozen=True, kw_only=True):
    """All of it. `lasts`: then nothing goes wrong any more, whatever was paused goes on, and calm has to come."""

    claim: str = ""
    why: str = ""
    seed: int = 0
    lasts: Seconds = 120.0
    # How long muster may take to come to rest after the end; then it must hold still.
    calm: Seconds = 240.0
    # How many processes run; more than one ask for the Lease, and one does with `elects`.
    processes: Annotated[int, msgspec.Meta(ge=1)] = 1
    elects: bool = False
    # A node that failed loses its pods so much later.
    lost_after: Seconds = 20.0
    # Whether the API server takes what the rules of our kinds refuse: it was there before they were.
    unchecked: bool = False
    # How late an answer and a watch are at least.
    latency: Seconds = 0.002
    workloads: dict[str, Workload] = {}
    happens: list[Happening] = []
    faults: list[Fault] = []
    # As in a scenario file: one after the other, each when the one before has come to rest.
    steps: list[Step] = []
    # What must be so in the end, when calm has come; what moved is counted from the beginning.
    ends: Expected = Expected()
