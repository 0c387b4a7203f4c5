"""Files become something that can be grouped: interfaces, owners and pods, and the grouper over them."""

from collections.abc import Iterator, Sequence, Set
from typing import Any, NamedTuple

from muster.api.interface import ResourceInterface
from muster.api.kinds import POD_GROUP, RESOURCE_INTERFACE, Kind, kind_of
from muster.api.nearest import Nearest
from muster.api.validation import ERROR, Context
from muster.cli.files import Source
from muster.cli.judging import Checked, context_of, name_of
from muster.config import Config
from muster.grouping.grouper import Grouper, Grouping, Key
from muster.grouping.loading import registry_of
from muster.grouping.owners import ANY_VERSION, Objects, split_version
from muster.grouping.registry import Registry

NOTHING = Grouping((), (), (), (), ())


class Groupable(NamedTuple):
    """What files hold for the grouper."""

    grouper: Grouper
    pods: list[dict[str, Any]]
    # PodGroups that are there already.
    existing: dict[Key, dict[str, Any]]
    # Everything that could own pods.
    workloads: list[dict[str, Any]]
    # Pods of other schedulers.
    strangers: int

    def group(self, *, preview: bool = False) -> Grouping:
        """One pass; a preview also shows workloads without pods."""
        return self.grouper.group(self.pods, self.existing, self.workloads if preview else ())


def groupable(
    sources: Sequence[Source],
    checked: Sequence[Checked],
    config: Config,
    *,
    only: Set[Key] | None = None,
    explain: bool = False,
    lookup: Objects | None = None,
    interfaces: Sequence[ResourceInterface] = (),
) -> Groupable:
    """Sorts what was read; `checked` holds the interfaces, beside those that are known already. Without `only`, pods
    that name no scheduler are ours too.

    A `lookup` that is given takes the documents and may know of more.
    """
    pods, existing, workloads, strangers = [], {}, [], 0
    documents = _documents(sources)
    lookup = lookup or Objects()
    lookup.take(documents)
    for document in documents:
        kind = kind_of(document)
        if not isinstance(kind, Kind):
            workloads.append(document)
        elif kind.name == "Pod":
            if _is_ours(document, config) if only is None else name_of(document)[::-1] in only:
                pods.append(document)
            else:
                strangers += 1
        elif kind is POD_GROUP:
            name, namespace = name_of(document)
            existing[namespace, name] = document
    context = context_of(sources, config)
    grouper = Grouper(
        registry_for(checked, config, interfaces),
        lookup,
        classes=context.priority_classes.keys() if context.priority_classes is not None else None,
        default_queue=config.default_queue,
        limits=config.grouping.expressions,
        context=Context(default_queue=config.default_queue, settings=config.validation, priorities=config.priorities),
        explain=explain,
    )
    return Groupable(grouper, pods, existing, workloads, strangers)


def registry_for(checked: Sequence[Checked], config: Config, known: Sequence[ResourceInterface] = ()) -> Registry:
    """The catalog, and the interfaces that are known or among the objects that were judged."""
    named = {one.name for one in checked if one.judgement.kind is RESOURCE_INTERFACE}
    found = [one for one in known if one.metadata.name not in named]
    wrong: dict[str, str] = {}
    for one in checked:
        if one.judgement.kind is RESOURCE_INTERFACE and isinstance(one.judgement.object, ResourceInterface):
            found.append(one.judgement.object)
            errors = [violation for violation in one.judgement.violations if violation.severity == ERROR]
            if errors:
                wrong[one.name] = f"{errors[0].path} {errors[0].message}".strip()
    return registry_of(found, wrong, limits=config.grouping.expressions, prefer=config.grouping.prefer)


def idle_interfaces(sources: Sequence[Source], checked: Sequence[Checked]) -> Iterator[str]:
    """Interfaces for kinds of which the input has no object: often a kind or group that is misspelled."""
    present: dict[tuple[str, str], set[str]] = {}
    for source in sources:
        if isinstance(source.value, dict):
            group, version = split_version(str(source.value.get("apiVersion")))
            present.setdefault((group, str(source.value.get("kind"))), set()).add(version)
    nearest = Nearest(f"{kind}.{group}" if group else kind for group, kind in sorted(present))
    for one in checked:
        found = one.judgement.object
        if isinstance(found, ResourceInterface) and one.judgement.kind is RESOURCE_INTERFACE:
            target = found.spec.target_gvk
            title = f"{target.kind}.{target.group}" if target.group else target.kind
            versions = present.get((target.group, target.kind), set())
            if target.kind and not versions:
                hint = nearest.hint(title)
                yield f"{one.title} is for {title}, and there is none in the input" + (f": {hint}" if hint else "")
            elif target.kind and target.version not in (ANY_VERSION, *versions):
                others = ", ".join(sorted(versions))
                yield f"{one.title} is for version {target.version} of {title}, and the input has {others}"


def _documents(sources: Sequence[Source]) -> list[dict[str, Any]]:
    """The objects, each once: of two of the same name the last one counts."""
    found: dict[Any, dict[str, Any]] = {}
    for source in sources:
        value = source.value
        if isinstance(value, dict):
            name, namespace = name_of(value)
            found[str(value.get("apiVersion")), str(value.get("kind")), namespace, name or id(value)] = value
    return list(found.values())


def scheduler_of(pod: dict[str, Any]) -> str:
    """The scheduler that a pod names; empty when it names none, or has no spec that could."""
    spec = pod.get("spec")
    named = spec.get("schedulerName") if isinstance(spec, dict) else None
    return named if isinstance(named, str) else ""


def _is_ours(pod: dict[str, Any], config: Config) -> bool:
    scheduler = scheduler_of(pod)
    return not scheduler or scheduler in config.scheduler_names
