"""What a ResourceInterface is once it was read: its tree of entries, with every expression compiled.

`compiler` makes these from the object that people write; `derive` asks them about one workload. Paths (`spec.let.n`)
are those of the object, so that whatever is said about an entry names the place where it stands.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from muster.api.interface import GROUP, Defaults, KindReference
from muster.grouping.language.expression import Binder, Expression

# A Kubernetes object as JSON.
Object = Mapping[str, Any]

OWNER, POD = "owner", "pod"
UNMATCHED_ERROR, UNMATCHED_IGNORE = "Error", "Ignore"
# The instance of a PodGroup with instanceKeyPaths, as variables: its name, and what each path gave.
KEY_VARIABLE, KEYS_VARIABLE = "key", "keys"
NO_DEFAULTS = Defaults()


class Question(NamedTuple):
    """A field that gives a value: a literal, or expressions of which the first that gives a value wins.

    `positive` skips 0 as well as null (`resolve: FirstPositive`).
    """

    path: str
    literal: str | int | None = None
    expressions: tuple[Expression, ...] = ()
    positive: bool = False


class Condition(NamedTuple):
    """One condition on a pod's label. The values are literal, or those that `question` gives."""

    path: str
    key: str
    operator: str
    values: tuple[str, ...] = ()
    question: Question | None = None


class TopologyQuestions(NamedTuple):
    """Where a topology constraint is written in the workload."""

    name: Question | None = None
    required: Question | None = None
    preferred: Question | None = None


NO_TOPOLOGY = TopologyQuestions()


class Cut(NamedTuple):
    """How pods are cut into segments when the workload asks for that: they are numbered by a label."""

    path: str
    index_label: str
    first: Question | None = None
    numbered: Question | None = None
    size: Question | None = None
    topology: TopologyQuestions = NO_TOPOLOGY


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A branch or leaf of the gang; with `foreach`, one per value.

    `conditions` is None in a branch, and in a leaf that claims every pod. `minimum` counts pods of a leaf, children of
    a branch; `keep` says whether these go only with it. The name of a `qualified` entry gets its parent's in front: it
    stands below a repeated entry and does not tell the repetitions apart.
    """

    path: str
    name: Question
    qualified: bool = False
    foreach: Binder | None = None
    when: Question | None = None
    conditions: tuple[Condition, ...] | None = None
    minimum: Question | None = None
    keep: Question | None = None
    replicas: Question | None = None
    segments: Cut | None = None
    topology: TopologyQuestions = NO_TOPOLOGY
    children: tuple["Entry", ...] = ()


@dataclass(frozen=True, kw_only=True)
class Template:
    """One PodGroup that a workload becomes, or one for every value of `keys`.

    `minimum` counts pods when there are no entries, else children of the root. `owner` is OWNER, POD, or the name of a
    reference: who owns the PodGroup, and gives it its name.
    """

    path: str
    name: str
    when: Question | None = None
    conditions: tuple[Condition, ...] | None = None
    keys: tuple[Question, ...] = ()
    name_template: Question | None = None
    owner: str = OWNER
    minimum: Question | None = None
    keep: Question | None = None
    replicas: Question | None = None
    segments: Cut | None = None
    topology: TopologyQuestions = NO_TOPOLOGY
    unmatched: str = UNMATCHED_ERROR
    entries: tuple[Entry, ...] = ()


class Reference(NamedTuple):
    """Another object that expressions may read: by the name that `name` gives, rooted at the owner or the pod, or all
    that carry `labels`.
    """

    path: str
    kind: KindReference
    root: str = OWNER
    name: Question | None = None
    labels: tuple[tuple[str, Question], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Interface:
    """A ResourceInterface that can be asked. `built_in` tells the catalog's from a user's.

    Those of one kind are ranked by `created` (oldest first) and name.
    """

    name: str
    target: KindReference
    action: str = GROUP
    built_in: bool = False
    created: str = ""
    lets: Mapping[str, Question] = field(default_factory=dict)
    references: Mapping[str, Reference] = field(default_factory=dict)
    defaults: Defaults = NO_DEFAULTS
    # The default PriorityClass, where an expression gives it.
    priority: Question | None = None
    templates: tuple[Template, ...] = ()

    @property
    def title(self) -> str:
        """As people call it: `ResourceInterface raycluster (built in)`."""
        return f"ResourceInterface {self.name}{' (built in)' if self.built_in else ''}"
