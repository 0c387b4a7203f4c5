"""Pods in, gangs out: each pod is followed to its workload, the workload becomes its PodGroups, the pod finds its leaf.

One workload that can't be grouped costs nobody else anything: it is a problem in the result. What was derived is kept
while the objects it came from stay the same, so that looking again at thousands of pods costs little.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from muster.api.cluster import POD_GROUP_ANNOTATION, SKIP_ANNOTATION, SUBGROUP_LABEL
from muster.api.documents import shown
from muster.api.interface import Defaults, KindReference
from muster.api.tree import NONE
from muster.api.validation import ERROR, Context, validate
from muster.grouping.derive import Blueprint
from muster.grouping.language.limits import DEFAULT, Limits
from muster.grouping.matching import Refusal, refusals
from muster.grouping.memory import Memory
from muster.grouping.metadata import derived
from muster.grouping.model import UNMATCHED_ERROR, UNMATCHED_IGNORE, Interface, Object, Template
from muster.grouping.nodes import Node
from muster.grouping.owners import (
    DEFAULT_NAMESPACE,
    Identity,
    Link,
    Lookup,
    annotations_of,
    chain_of,
    identity_of,
    labels_of,
    metadata_of,
    namespace_of,
)
from muster.grouping.podgroup import Document, capped, document_of, is_foreign, leaf_names, merged, name_of
from muster.grouping.registry import Registry
from muster.grouping.resolve import Resolved, resolve
from muster.grouping.scope import Heard
from muster.grouping.trouble import Trouble

Key = tuple[str, str]
_ENDED = ("Succeeded", "Failed")
# Of how many leaves a pod is told why it is not theirs.
_MOST_TOLD = 100
_TELL_APART = "let nameTemplate tell them apart, for example by .metadata.uid"
# How a workload without an interface is grouped: one flat gang that needs one pod.
_DEFAULT = Interface(
    name="default", target=KindReference(kind="Any"), built_in=True, templates=(Template(path="", name="default"),)
)


class Assignment(NamedTuple):
    """A pod and its place; `sub_group` is empty in a flat gang."""

    namespace: str
    name: str
    pod_group: str
    sub_group: str


class Made(NamedTuple):
    """A PodGroup, and whether it is new or differs from the one that is there."""

    document: Document
    changed: bool


class Problem(NamedTuple):
    """Why pods of a workload are not grouped. With `retry` it may only be a matter of time."""

    kind: str
    namespace: str
    name: str
    interface: str
    path: str
    message: str
    hint: str
    retry: bool
    pods: tuple[str, ...]


class ToldGroup(NamedTuple):
    """How a PodGroup came about: who decided, and every expression with its values."""

    namespace: str
    name: str
    steps: tuple[str, ...]
    heard: tuple[Heard, ...]


class ToldPod(NamedTuple):
    """How a pod came to its place: `sub_group` is None when nobody claims it, `refusals` say why the others do not."""

    namespace: str
    name: str
    pod_group: str
    sub_group: str | None
    refusals: tuple[Refusal, ...]


class Grouping(NamedTuple):
    """What came out, each list in an order that does not depend on that of the pods."""

    groups: tuple[Made, ...]
    pods: tuple[Assignment, ...]
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]
    # Pods that were left as they are, with the reason.
    alone: tuple[tuple[Key, str], ...]
    # Workloads that will be grouped when a pod comes, with the reason why not before.
    later: tuple[str, ...] = ()
    # The kinds of all objects that pods led to.
    kinds: frozenset[str] = frozenset()
    told_groups: tuple[ToldGroup, ...] = ()
    told_pods: tuple[ToldPod, ...] = ()


@dataclass
class _Gang:
    """A PodGroup on its way: its blueprint, and the pods that belong to it."""

    blueprint: Blueprint
    namespace: str
    name: str
    top: Object
    defaults: tuple[Defaults, ...]
    interface: Interface | None
    # The interface that was meant for it and can't be used.
    broken: str = ""
    pods: list["_Member"] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The interface that made it, as people call it."""
        return self.interface.title if self.interface else ""

    @property
    def rank(self) -> tuple[Any, ...]:
        """Where it stands among those that would have the same name, in an order that no pod has a part in."""
        blueprint = self.blueprint
        return identity_of(blueprint.owner), blueprint.template.path, blueprint.key, repr(blueprint.root)

    def is_of(self, blueprint: Blueprint) -> bool:
        """Whether a blueprint with the same owner is that of this gang, perhaps read a second time."""
        if blueprint is self.blueprint:
            return True
        return blueprint.template is self.blueprint.template and blueprint.root == self.blueprint.root


class _Member(NamedTuple):
    """A pod of a gang: the place of its leaf among the leaves, its name, its leaf."""

    row: int
    name: str
    leaf: str
    pod: Object


class Grouper:
    """Groups pods, again and again. `lookup` finds their owners, `registry` the interfaces.

    `classes` are the PriorityClasses that exist; None: nothing is known of them. With `explain` every step is told.
    `looked` is told, pod by pod, of every object beside its owners that its gang depends on (see `Memory`).
    `registry` and `classes` may be replaced between passes: what was derived stays where it is still right.
    """

    def __init__(
        self,
        registry: Registry,
        lookup: Lookup,
        *,
        classes: Set[str] | None = None,
        default_queue: str = "default-queue",
        limits: Limits = DEFAULT,
        context: Context | None = None,
        explain: bool = False,
        looked: Callable[[Any], None] | None = None,
    ) -> None:
        self.registry, self.lookup, self.classes = registry, lookup, classes
        self.default_queue, self.explain = default_queue, explain
        self.context = context or Context(default_queue=default_queue)
        self._kept = Memory(lookup, limits, explain=explain, looked=looked)

    @property
    def evaluations(self) -> Counter[tuple[str, str]]:
        """How often each interface was asked, by its name and the result. May be emptied by who counts."""
        return self._kept.evaluations

    def is_instance(self, owner: Object) -> bool:
        """Whether every PodGroup of this owner is one of several, told apart by what pods say: without pods, nobody
        knows whether it will be wanted again.
        """
        try:
            chain = chain_of(owner, self.lookup)
            resolved = resolve(chain, self.registry)
        except Trouble:
            return False
        templates = resolved.interface.templates if resolved.interface is not None and not resolved.broken else ()
        return chain[resolved.link_index].object is owner and bool(templates) and all(one.keys for one in templates)

    def group(
        self, pods: Iterable[Object], existing: Mapping[Key, Object] | None = None, workloads: Iterable[Object] = ()
    ) -> Grouping:
        """The gangs of these pods. `existing` are the PodGroups that are there, by namespace and name.

        `workloads` are previewed: the gang of one that has no pod here comes out too, where it does not need a pod.
        """
        self._kept.begin()
        run = _Run(self, self._kept, existing or {})
        for pod in pods:
            run.take(pod)
        for workload in workloads:
            run.preview(workload)
        return run.result()


class _Run:
    """One pass over pods."""

    def __init__(self, grouper: Grouper, memory: Memory, existing: Mapping[Key, Object]) -> None:
        self._grouper, self._memory, self._existing = grouper, memory, existing
        # By the owner of the PodGroup: mostly there is one of a name.
        self._gangs: dict[Key, dict[Identity, list[_Gang]]] = {}
        self._troubles: dict[tuple[Any, ...], tuple[Problem, list[str]]] = {}
        self._warnings: dict[str, None] = {}
        self._alone: list[tuple[Key, str]] = []
        self._told_groups: list[ToldGroup] = []
        self._told_troubles: dict[tuple[Any, ...], ToldGroup] = {}
        self._told_pods: list[ToldPod] = []
        self._seen: set[int] = set()
        self._kinds: set[str] = set()
        self._later: list[str] = []

    def take(self, pod: Object) -> None:
        """Follows one pod."""
        who = identity_of(pod)._replace(namespace=namespace_of(pod))
        key = who.namespace, who.name
        about, interface = who, ""
        steps: tuple[str, ...] = ()
        try:
            if _has_ended(pod):
                self._alone.append((key, "it has ended"))
                return
            chain = chain_of(pod, self._grouper.lookup)
            self._kinds.update(identity_of(link.object).kind for link in chain)
            skipped = _skipped_by(chain)
            if skipped is not None:
                self._seen.update(id(link.object) for link in chain)
                self._alone.append((key, f"{skipped} says {SKIP_ANNOTATION}"))
                return
            resolved = resolve(chain, self._grouper.registry)
            about = identity_of(chain[resolved.link_index].object)
            interface, steps = resolved.interface.title if resolved.interface else "", resolved.steps
            self._place(pod, who, chain, resolved)
        except Trouble as trouble:
            if trouble.about is not None and not interface:
                about = Identity("", *trouble.about, "")
            self._trouble(about, interface, trouble, who.name, steps)

    def preview(self, workload: Object) -> None:
        """The gang of a workload of which no pod was seen."""
        about, interface = identity_of(workload), ""
        try:
            chain = chain_of(workload, self._grouper.lookup)
            resolved = resolve(chain, self._grouper.registry)
            owner = chain[resolved.link_index].object
            if resolved.interface is None or id(owner) in self._seen or _skipped_by(chain) is not None:
                return
            about, interface = identity_of(owner), resolved.interface.title
            if self._gang(None, chain, resolved) is None:
                named = annotations_of(_template_of(owner))[POD_GROUP_ANNOTATION]
                self._later.append(f"{about.title}: its pods join the gang {named}, which their template names")
        except Trouble as trouble:
            if trouble.retry:
                self._later.append(f"{about.title}: {trouble.message}")
            else:
                self._trouble(about, interface, trouble, "")

    def _place(self, pod: Object, who: Identity, chain: Sequence[Link], resolved: Resolved) -> None:
        gang = self._gang(pod, chain, resolved)
        if gang is None:
            named = annotations_of(pod)[POD_GROUP_ANNOTATION]
            self._alone.append(((who.namespace, who.name), f"it names the gang {named} itself"))
            return
        leaf, row = _leaf_of(gang.blueprint, labels_of(pod))
        if leaf is None:
            self._tell(who, gang, pod, None)
            if gang.blueprint.template.unmatched == UNMATCHED_IGNORE:
                self._alone.append(((who.namespace, who.name), f"no entry of {gang.title} claims it"))
                return
            if metadata_of(pod).get("deletionTimestamp"):
                # Its entry went before it: a group that is suspended, or scaled to nothing.
                self._alone.append(((who.namespace, who.name), "it is being deleted, and no entry claims it any more"))
                return
            raise _unclaimed(gang.blueprint, pod)
        gang.pods.append(_Member(row, who.name, leaf.name, pod))
        self._tell(who, gang, pod, leaf)

    def _gang(self, pod: Object | None, chain: Sequence[Link], resolved: Resolved) -> _Gang | None:
        """The gang that a pod belongs to; None when it names another one itself."""
        owners = tuple(link.object for link in chain[resolved.link_index :: -1])
        self._seen.add(id(owners[0]))
        found = self._memory.blueprint(resolved.interface or _DEFAULT, owners, pod)
        name = name_of(found, resolved.interface)
        named = annotations_of(_template_of(owners[0]) if pod is None else pod).get(POD_GROUP_ANNOTATION)
        if named and named != name:
            return None
        namespace = namespace_of(pod if pod is not None else owners[0])
        namesakes = self._gangs.setdefault((namespace, name), {}).setdefault(identity_of(found.owner), [])
        gang = next((one for one in namesakes if one.is_of(found)), None)
        if gang is None:
            gang = _Gang(
                found, namespace, name, chain[0].object, resolved.defaults, resolved.interface, resolved.broken
            )
            namesakes.append(gang)
            self._warnings.update(dict.fromkeys((*found.warnings, *resolved.warnings)))
            if self._grouper.explain:
                self._told_groups.append(ToldGroup(namespace, name, resolved.steps, found.heard))
        return gang

    def _tell(self, who: Identity, gang: _Gang, pod: Object, leaf: Node | None) -> None:
        """Why the pod is where it is, when somebody wants to know."""
        if self._grouper.explain:
            others = [node for node in gang.blueprint.leaves.nodes if node is not leaf][:_MOST_TOLD]
            why_not = tuple(refusals(others, labels_of(pod))) if gang.blueprint.root.children else ()
            place = leaf.name if leaf is not None else None
            self._told_pods.append(ToldPod(who.namespace, who.name, gang.name, place, why_not))

    def _trouble(
        self, about: Identity, interface: str, trouble: Trouble, pod: str, steps: tuple[str, ...] = ()
    ) -> None:
        key = (about, interface, trouble.path, trouble.message)
        if self._grouper.explain and (steps or trouble.heard):
            told = ToldGroup(about.namespace, f"of {about.title} (not made)", steps, trouble.heard)
            # Of several instances with one trouble the same one is told, whichever came first.
            self._told_troubles[key] = min(told, self._told_troubles.get(key, told), key=repr)
        who = about.kind, about.namespace or DEFAULT_NAMESPACE, about.name
        problem = Problem(*who, interface, trouble.path, trouble.message, trouble.hint, trouble.retry, ())
        self._troubles.setdefault(key, (problem, []))[1].extend([pod] if pod else [])
        # It may be kept, and would keep this whole pass.
        trouble.__traceback__ = None

    def result(self) -> Grouping:
        """Everything in order."""
        groups: list[Made] = []
        assignments: list[Assignment] = []
        for _, by_owner in sorted(self._gangs.items()):
            gang = self._rightful([gang for namesakes in by_owner.values() for gang in namesakes])
            made = self._finish(gang)
            if made is not None:
                groups.append(made)
                assignments += [Assignment(gang.namespace, pod.name, gang.name, pod.leaf) for pod in gang.pods]
        problems = sorted(problem._replace(pods=tuple(sorted(pods))) for problem, pods in self._troubles.values())
        return Grouping(
            tuple(groups),
            tuple(sorted(assignments)),
            tuple(problems),
            tuple(sorted(self._warnings)),
            tuple(sorted(self._alone)),
            tuple(sorted(self._later)),
            frozenset(self._kinds),
            # Of one workload several may fail; what they heard has no order by itself.
            tuple(
                sorted([*self._told_groups, *self._told_troubles.values()], key=lambda told: (*told[:2], repr(told)))
            ),
            tuple(sorted(self._told_pods, key=lambda told: told[:2])),
        )

    def _finish(self, gang: _Gang) -> Made | None:
        """The PodGroup of a gang; None, and a problem, when it is not a valid one."""
        grouper = self._grouper
        # Which pod speaks for all must not depend on which one came first.
        pod = min(gang.pods, key=lambda one: one[:2]).pod if gang.pods else None
        said = derived(
            gang.blueprint.sources,
            pod,
            gang.defaults,
            classes=grouper.classes,
            default_queue=grouper.default_queue,
            given_class=gang.blueprint.priority,
        )
        title = identity_of(gang.blueprint.owner).title
        self._warnings.update(dict.fromkeys(said.warnings))
        document = document_of(gang.blueprint, said, gang.name, gang.namespace, gang.top)
        existing = self._existing.get((gang.namespace, gang.name))
        if existing is not None and (gang.broken or is_foreign(existing)):
            self._keep_within(gang, existing)
            return Made(dict(existing), False)
        if existing is not None:
            others = _owner_uids(existing)
            if others and identity_of(gang.blueprint.owner).uid not in (*others, ""):
                message = f"PodGroup {gang.namespace}/{gang.name} is that of another owner already"
                self._fail(gang, Trouble(message, _TELL_APART, path=gang.blueprint.template.path, retry=True))
                return None
            document, held = capped(existing, document)
            self._warnings.update(dict.fromkeys(f"{title}: {_held(name)}" for name in held))
            document = merged(existing, document, said.weak)
        if document is existing:
            return Made(document, False)
        violations = validate(document, grouper.context, existing).violations
        errors = [one for one in violations if one.severity == ERROR]
        if not errors:
            return Made(document, True)
        message = f"the PodGroup would be invalid: {errors[0].path} {errors[0].message}"
        self._fail(gang, Trouble(message, errors[0].hint, path=gang.blueprint.template.path))
        return None

    def _keep_within(self, gang: _Gang, existing: Object) -> None:
        """The PodGroup that is there stays as it is; pods that have no place in it are told."""
        leaves = leaf_names(existing)
        kept: list[_Member] = []
        for pod in gang.pods:
            given = labels_of(pod.pod).get(SUBGROUP_LABEL) if gang.broken else pod.leaf
            if not leaves or given in leaves:
                kept.append(pod._replace(leaf=str(given) if leaves else ""))
                continue
            who, whose = f"PodGroup {gang.namespace}/{gang.name}", "was made by somebody else"
            if gang.broken:
                trouble = Trouble(f"{gang.broken}; {who} stays as it is until then", "mend it", retry=True)
            else:
                hint = f"give it a leaf {pod.leaf}, or delete it: muster then makes its own"
                trouble = Trouble(f"{who} {whose} and has no SubGroup {shown(pod.leaf)} for pods", hint)
            self._trouble(identity_of(gang.blueprint.owner), gang.title, trouble, pod.name)
        gang.pods = kept

    def _rightful(self, namesakes: Sequence[_Gang]) -> _Gang:
        """Of gangs that would have one name, the one whose PodGroup is there, else the first; the others are told."""
        if len(namesakes) == 1:
            return namesakes[0]
        existing = self._existing.get((namesakes[0].namespace, namesakes[0].name))
        uids = _owner_uids(existing)
        first, *others = sorted(
            namesakes, key=lambda gang: (identity_of(gang.blueprint.owner).uid not in uids, gang.rank)
        )
        title = identity_of(first.blueprint.owner).title
        for gang in others:
            message = f"PodGroup {gang.namespace}/{gang.name} is that of {title} already"
            self._fail(gang, Trouble(message, _TELL_APART, path=gang.blueprint.template.path))
        return first

    def _fail(self, gang: _Gang, trouble: Trouble) -> None:
        """All pods of a gang share this trouble."""
        for name in [pod.name for pod in gang.pods] or [""]:
            self._trouble(identity_of(gang.blueprint.owner), gang.title, trouble, name)


def _leaf_of(blueprint: Blueprint, labels: Mapping[str, Any]) -> tuple[Node | None, int]:
    """The leaf that claims a pod, and its place among the leaves."""
    root, leaves = blueprint.root, blueprint.leaves
    if not root.children:
        return root, 0
    row = leaves.of(labels)
    unmatched = blueprint.template.unmatched
    if row == NONE and unmatched not in (UNMATCHED_ERROR, UNMATCHED_IGNORE):
        row = next((at for at, node in enumerate(leaves.nodes) if unmatched in (node.short, node.name)), NONE)
    return (leaves.nodes[row], row) if row != NONE else (None, 0)


def _template_of(owner: Object) -> Object:
    """What the pods of a workload will be like, where that stands at the usual place."""
    spec = owner.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    return template if isinstance(template, dict) else {}


def _unclaimed(blueprint: Blueprint, pod: Object) -> Trouble:
    nearest = next(iter(refusals(blueprint.leaves.nodes, labels_of(pod))), None)
    why = f"; {nearest.leaf}: {nearest.why}" if nearest else ""
    hint = "compare the pod's labels with the podClassifiers (--explain), or set unmatchedPods"
    return Trouble(f"no entry claims the pod{why}", hint, path=blueprint.template.path)


def _owner_uids(group: Object | None) -> list[Any]:
    """Who owns a PodGroup that is there."""
    references = metadata_of(group).get("ownerReferences")
    return [one.get("uid") for one in references if isinstance(one, dict)] if isinstance(references, list) else []


def _held(name: str) -> str:
    return f"the minimum of {name} stays as it is while the gang runs, because it is semi-preemptible"


def _has_ended(pod: Object) -> bool:
    status = pod.get("status")
    return isinstance(status, Mapping) and status.get("phase") in _ENDED


def _skipped_by(chain: Sequence[Link]) -> str | None:
    """Who of the chain says that the grouper keeps out."""
    for link in chain:
        # Files may have it as a truth value.
        if annotations_of(link.object).get(SKIP_ANNOTATION) in ("true", True):
            return "it" if link is chain[-1] else identity_of(link.object).title
    return None
