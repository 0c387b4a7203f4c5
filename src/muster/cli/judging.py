"""Objects of the input, judged together: what commands that read files know of them before they go on."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any, NamedTuple

from muster.api.cluster import BUILT_IN_PRIORITIES
from muster.api.kinds import QUEUE, TOPOLOGY, Kind, Unknown, kind_of, read_object
from muster.api.validation import ERROR, WARNING, Context, Judgement, Violation
from muster.api.validation import validate as judge
from muster.cli.files import Source
from muster.cli.render import signs, tell
from muster.config import Config
from muster.grouping.compiler import check as check_interface

STYLES: dict[str, dict[str, Any]] = {ERROR: {"fg": "red"}, WARNING: {"fg": "yellow"}, "valid": {"fg": "green"}}


class Checked(NamedTuple):
    """An object of the input and what was found."""

    source: Source
    judgement: Judgement
    name: str
    namespace: str

    @property
    def kind(self) -> str:
        written = self.source.value.get("kind") if isinstance(self.source.value, dict) else ""
        return written if isinstance(written, str) else ""

    @property
    def title(self) -> str:
        """The object in words: `PodGroup default/a`."""
        kind = self.judgement.kind
        if kind is None:
            return self.kind or "document"
        return f"{kind.name} {self.namespace + '/' if kind.namespaced else ''}{self.name or '(no name)'}"


def check_all(
    sources: Sequence[Source],
    config: Config,
    *,
    strict: bool,
    old: Sequence[Source] = (),
    there: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Checked]:
    """Judges every object, knowing the others and what is `there` (objects by kind and name); as a change of the object
    of the same name in `old`, if there is one.
    """
    context = context_of(sources, config, there)
    before = {key: source.value for source in old if (key := identity_of(source.value)) is not None}
    seen: dict[tuple[str, str, str], Source] = {}
    checked = []
    for source in sources:
        unread = [Violation(ERROR, *problem[:3]) for problem in source.problems]
        judgement = Judgement(None, None, unread)
        name, namespace = "", ""
        if source.value is not None or not unread:
            judgement = judge(source.value, context, _before(source.value, before), strict=strict)
            doubts = _doubts(source, judgement)
            judgement = judgement._replace(violations=[*unread, *judgement.violations, *doubts])
            name, namespace = name_of(source.value)
        key = identity_of(source.value) if judgement.kind is not None else None
        if key is not None:
            first = seen.setdefault(key, source)
            if first is not source:
                where = f"{first.file}, document {first.document}"
                says = Violation(WARNING, "metadata.name", f"stands already in {where}", "the last one applied wins")
                judgement = judgement._replace(violations=[*judgement.violations, says])
        checked.append(Checked(source, judgement, name, namespace))
    return checked


def identity_of(value: Any) -> tuple[str, str, str] | None:
    """Kind, namespace and name of a document of a kind that is judged; None when it has none."""
    kind = kind_of(value)
    name, namespace = name_of(value)
    if not isinstance(kind, Kind) or not name:
        return None
    return kind.resource, namespace if kind.namespaced else "", name


def _before(value: Any, before: Mapping[tuple[str, str, str], Any]) -> Any:
    """The document that this one replaces."""
    key = identity_of(value) if before else None
    return before.get(key) if key is not None else None


def _doubts(source: Source, judgement: Judgement) -> list[Violation]:
    """Scalars of our own kinds that the API server would get differently; a field with an error has enough of it."""
    if judgement.kind is None or not judgement.kind.ours:
        return []
    told = {violation.path for violation in judgement.violations}
    return [Violation(ERROR, *doubt[:3]) for doubt in source.doubts if doubt.path not in told]


def context_of(
    sources: Sequence[Source], config: Config, there: Mapping[str, Mapping[str, Any]] | None = None
) -> Context:
    """What the input itself tells about the cluster, and what is `there` besides. Without any Queue every queue exists;
    the same for Topologies.
    """
    found: dict[str, dict[str, Any]] = {}
    for source in sources:
        kind = kind_of(source.value)
        if isinstance(kind, Kind) and (kind in (TOPOLOGY, QUEUE) or kind.name == "PriorityClass"):
            read, _ = read_object(source.value, kind, strict=False)
            found.setdefault(kind.name, {}).setdefault(read.metadata.name, read)
    for name, objects in (there or {}).items():
        if objects:
            found[name] = {**objects, **found.get(name, {})}
    return Context(
        topologies=found.get("Topology"),
        queues=found.get("Queue"),
        priority_classes={
            **BUILT_IN_PRIORITIES,
            **{name: one.value for name, one in found.get("PriorityClass", {}).items()},
        },
        priorities=config.priorities,
        default_queue=config.default_queue,
        settings=config.validation,
        check_interface=partial(check_interface, limits=config.grouping.expressions),
    )


def name_of(value: Any) -> tuple[str, str]:
    """Name and namespace as the document has them, whatever else it holds."""
    metadata = value.get("metadata") if isinstance(value, dict) else None
    if not isinstance(metadata, dict):
        return "", "default"
    name, namespace = metadata.get("name"), metadata.get("namespace")
    return name if isinstance(name, str) else "", namespace if isinstance(namespace, str) and namespace else "default"


def tell_violations(one: Checked, words: str, *, only: str = "") -> None:
    """An object and what is wrong with it, to stderr; with `only`, violations of one severity."""
    found = [violation for violation in one.judgement.violations if not only or violation.severity == only]
    severity = ERROR if any(violation.severity == ERROR for violation in found) else WARNING
    where = f"{one.source.file}, document {one.source.document}" if one.source.document else one.source.file
    tell(f"{one.title}: {words}  ({where})", **STYLES[severity])
    for violation in found:
        path = f"{violation.path}: " if violation.path else ""
        tell(f"  {violation.severity:<8} {path}{violation.message}", **STYLES[violation.severity])
        if violation.hint:
            tell(f"  {'':<8} {signs()['arrow']} {violation.hint}")


def tell_skipped(checked: Sequence[Checked], used: Set[str] = frozenset()) -> None:
    """Which kinds were passed over; those that are `used` as owners of pods were not."""
    for said in about_skipped(checked, used):
        tell(f"note: {said}")


def about_skipped(checked: Sequence[Checked], used: Set[str] = frozenset()) -> Iterator[str]:
    """The same, for who tells it elsewhere."""
    kinds = Counter(
        one.kind
        for one in checked
        if isinstance(kind_of(one.source.value), Unknown) and not one.judgement.violations and one.kind not in used
    )
    if kinds:
        listed = ", ".join(f"{kind} ({count})" for kind, count in sorted(kinds.items()))
        yield f"skipped {plural(kinds.total(), 'object')} of other kinds: {listed}"


def about_warnings(checked: Sequence[Checked]) -> Iterator[str]:
    """How many warnings there are, for commands that do not tell each."""
    warned = [one for one in checked if any(v.severity == WARNING for v in one.judgement.violations)]
    if warned:
        said = sum(v.severity == WARNING for one in warned for v in one.judgement.violations)
        more = f" and {plural(len(warned) - 1, 'more object')}" if len(warned) > 1 else ""
        yield f"{plural(said, 'warning')} about {warned[0].title}{more}: muster validate says which"


def plural(count: int, noun: str) -> str:
    """`1 pod`, `2,000 pods`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
