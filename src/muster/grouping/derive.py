"""An interface and a workload become the gang's tree: entries are repeated, named, counted and held.

Everything comes from the workload's own spec, so that the gang is complete when its first pod appears. What depends on
the pod is its instance key, and the objects that a reference finds through it.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from muster.api.documents import shown
from muster.api.interface import KEEP_ALL
from muster.api.podgroup import MAX_SUBGROUPS
from muster.grouping.annotations import finish
from muster.grouping.language.limits import DEFAULT, Limits, Meter
from muster.grouping.matching import Leaves, holds
from muster.grouping.model import (
    KEY_VARIABLE,
    KEYS_VARIABLE,
    NO_TOPOLOGY,
    OWNER,
    POD,
    Condition,
    Entry,
    Interface,
    Object,
    Question,
    Reference,
    Template,
    TopologyQuestions,
)
from muster.grouping.names import dns_label, short_hash
from muster.grouping.nodes import FREE, Bound, Hold, Node
from muster.grouping.owners import Absence, Lookup, Wanted, identity_of, labels_of, namespace_of, not_seen
from muster.grouping.scope import Heard, Listener, Scope
from muster.grouping.trouble import ROLE_HINT, Trouble, right_to_read

# Of one condition. It is the number that a ResourceInterface may write itself.
_MOST_VALUES = 1_000
_NEEDS_VALUE = ("Equals", "NotEquals")


class Blueprint(NamedTuple):
    """One gang of a workload: its tree, and which of its leaves claims a pod. Of a flat gang the root claims every pod.

    `sources` are the objects whose labels and annotations count: who owns the PodGroup first, then the owners.
    """

    template: Template
    sources: tuple[Object, ...]
    key: str
    root: Node
    leaves: Leaves
    given_name: str
    warnings: tuple[str, ...]
    heard: tuple[Heard, ...]
    # The default PriorityClass, where an expression gives one.
    priority: str

    @property
    def owner(self) -> Object:
        """Who owns the PodGroup, and gives it its name."""
        return self.sources[0]


class Reading:
    """An interface, asked about one owner. Its answers hold while the owners and the objects it refers to stay as they
    are: `used` lists what was looked up.

    `owners` are the one that resolved and those above it, nearest first. `pod` is needed where the interface refers to
    something through the pod; None previews a workload without pods.
    """

    def __init__(
        self,
        interface: Interface,
        owners: Sequence[Object],
        pod: Object | None,
        lookup: Lookup,
        limits: Limits = DEFAULT,
        *,
        explain: bool = False,
    ) -> None:
        self.interface, self.owners, self.owner = interface, tuple(owners), owners[0]
        owner = self.owner
        self._pod, self._lookup, self._limits = pod, lookup, limits
        self._listener = Listener() if explain else None
        self.used: list[tuple[Any, Any]] = []
        self._scope = Scope(owner, Meter(limits), self._find, self._listener)
        self._templates: list[tuple[Template, tuple[Bound, ...] | None]] | Trouble | None = None

    def template_of(self, pod: Object | None) -> tuple[Template, tuple[str, ...]]:
        """Which template a pod belongs to, and which instance of it: what each key gives. Raises Trouble."""
        labels = labels_of(pod) if pod is not None else {}
        if self._templates is None:
            try:
                self._templates = list(self._applicable())
            except Trouble as trouble:
                self._templates = trouble
        if isinstance(self._templates, Trouble):
            raise self._templates.with_traceback(None)
        for template, bounds in self._templates:
            if pod is None or bounds is None or all(holds(bound, labels) for bound in bounds):
                return template, self._keys(template, pod, None)
        if not self._templates:
            message, hint = "no podGroups entry is there for this workload", "its conditions (`when`) all fail"
        else:
            message, hint = "no podGroups entry claims the pod", "compare its labels with the podClassifiers"
        raise Trouble(message, hint, path="spec.gangScheduling.podGroups")

    def derive(self, template: Template, keys: tuple[str, ...], pod: Object | None) -> Blueprint:
        """The gang. Raises Trouble."""
        if self._listener is None:
            return self._derive(template, keys, pod)
        # What another gang asked before is not asked again, nor heard. So this one is read by itself.
        own = Reading(self.interface, self.owners, self._pod, self._lookup, self._limits, explain=True)
        own.used = self.used
        own._templates = list(own._applicable())
        return own._derive(template, keys, pod)

    def _derive(self, template: Template, keys: tuple[str, ...], pod: Object | None) -> Blueprint:
        listener = Listener() if self._listener is not None else None
        scope = Scope(self.owner, Meter(self._limits), self._scope.__getitem__, listener)
        if template.keys:
            # Asked again, so that it is heard once a gang and not once a pod.
            keys = keys if listener is None else self._keys(template, pod, listener)
            scope[KEY_VARIABLE], scope[KEYS_VARIABLE] = _joined(keys), list(keys)
        owner = self._owner_of(template, pod)
        given = scope.text(template.name_template)
        if given is None and template.name_template is not None:
            raise Trouble("nameTemplate gives no name", "let it give a text", path=template.name_template.path)
        sources = self.owners if owner is self.owner else (owner, *self.owners)
        making = _Making(scope, listener)
        try:
            root = making.root(template)
        except Trouble as trouble:
            trouble.heard = tuple(listener.heard) if listener is not None else ()
            raise
        title = identity_of(self.owner).title
        warnings = (*(f"{title}: {text}" for text in making.warnings), *finish(root, sources))
        priority = scope.text(self.interface.priority) or ""
        heard = (*self._listener.heard, *listener.heard) if self._listener and listener else ()
        return Blueprint(template, sources, _joined(keys), root, _leaves(root), given or "", warnings, heard, priority)

    def _applicable(self) -> Iterator[tuple[Template, tuple[Bound, ...] | None]]:
        for template in self.interface.templates:
            if self._scope.truth(template.when):
                yield template, _bounds(template.conditions, self._scope)

    def _keys(self, template: Template, pod: Object | None, listener: Listener | None) -> tuple[str, ...]:
        if not template.keys:
            return ()
        if pod is None:
            raise Trouble("there is one PodGroup for every instance, and no pod yet", "add a pod", retry=True)
        scope = Scope(pod, Meter(self._limits), _nothing, listener)
        parts = []
        for question in template.keys:
            part = scope.text(question)
            if not part:
                text = question.expressions[0].text if question.expressions else ""
                raise Trouble(f"{text} gives nothing for this pod", "every pod needs its key", path=question.path)
            parts.append(part)
        return tuple(parts)

    def _owner_of(self, template: Template, pod: Object | None) -> Object:
        if template.owner == OWNER:
            return self.owner
        if template.owner == POD:
            if pod is None:
                raise Trouble("the PodGroup belongs to its pod, and there is no pod yet", "add a pod", retry=True)
            return pod
        found: Object = self._scope[template.owner]
        return found

    def _find(self, name: str) -> Any:
        """A let or a reference. Other variables are bound where they are used."""
        question = self.interface.lets.get(name)
        if question is not None:
            return self._scope.value(question)
        return self._refer(name, self.interface.references[name])

    def _refer(self, name: str, reference: Reference) -> Any:
        kind, namespace = reference.kind, namespace_of(self._pod if self._pod is not None else self.owner)
        api_version = f"{kind.group}/{kind.version}" if kind.group else kind.version
        answer: Any
        if reference.name is None:
            labels = {key: self._scope.text(question) or "" for key, question in reference.labels}
            answer = self._lookup.select(api_version, kind.kind, namespace, labels)
            asked: Any = (api_version, kind.kind, namespace, labels)
            what = f"{kind.kind}s"
        else:
            wanted = Wanted(api_version, kind.kind, namespace, self._name_of(name, reference, reference.name))
            answer, asked = self._lookup.get(wanted), wanted
            what = f"{kind.kind} {namespace}/{wanted.name}"
        self.used.append((asked, answer))
        if answer is Absence.FORBIDDEN:
            message = f"{what} may not be read: {right_to_read(kind.group, kind.kind)}"
            raise Trouble(message, ROLE_HINT, path=reference.path, retry=True)
        if answer is Absence.NOT_SEEN and not isinstance(asked, Wanted):
            # Nothing of the kind was listed so far: that is not the same as an empty list.
            raise Trouble(f"{what} were not seen yet", path=reference.path, retry=True)
        if answer is Absence.NOT_SEEN:
            trouble = not_seen(asked, f"${name} of {self.interface.title}")
            raise Trouble(trouble.message, trouble.hint, path=reference.path, retry=True)
        return list(answer) if reference.name is None else answer

    def _name_of(self, name: str, reference: Reference, question: Question) -> str:
        scope = self._scope
        if reference.root == POD:
            if self._pod is None:
                raise Trouble(f"${name} is found through a pod, and there is none yet", "add a pod", retry=True)
            scope = Scope(self._pod, Meter(self._limits), _nothing, self._listener)
        found = scope.text(question)
        if not found:
            raise Trouble(f"the name of ${name} is not there yet", "", path=question.path, retry=True)
        return found


def pod_names(interface: Interface, pod: Object, limits: Limits = DEFAULT) -> tuple[str, ...]:
    """The names that the interface refers to through this pod: pods with the same ones share a Reading."""
    questions = [one.name for one in interface.references.values() if one.root == POD and one.name is not None]
    if not questions:
        return ()
    scope = Scope(pod, Meter(limits), _nothing)
    return tuple(scope.text(question) or "" for question in questions)


def is_current(reading: Reading, lookup: Lookup) -> bool:
    """Whether everything that was looked up is still the same object."""
    for asked, answer in reading.used:
        if isinstance(asked, Wanted):
            if lookup.get(asked) is not answer:
                return False
            continue
        now = lookup.select(*asked)
        if isinstance(now, Absence) or isinstance(answer, Absence):
            return False
        if len(now) != len(answer) or any(one is not other for one, other in zip(now, answer, strict=True)):
            return False
    return True


def _nothing(name: str) -> Any:
    raise Trouble(f"${name} is not known at a pod", "pod fields start with .")


def _joined(keys: tuple[str, ...]) -> str:
    """The name of an instance. Where it could be taken apart in several ways, a hash tells these apart."""
    unclear = len(keys) > 1 and any("-" in key for key in keys)
    return "-".join(keys) + (f"-{short_hash(json.dumps(keys))}" if unclear else "")


def _leaves(root: Node) -> Leaves:
    return Leaves([node for node in root.below() if not node.children])


def _bounds(conditions: Sequence[Condition] | None, scope: Scope) -> tuple[Bound, ...] | None:
    """The conditions with their values; None claims every pod."""
    if conditions is None:
        return None
    found = []
    for condition in conditions:
        values = condition.values if condition.question is None else scope.texts(condition.question)
        if len(values) > _MOST_VALUES:
            raise Trouble(f"{len(values):,} values are too many for one condition", path=condition.path)
        if condition.question is not None and condition.operator in _NEEDS_VALUE and len(set(values)) != 1:
            text = condition.question.expressions[0].text if condition.question.expressions else ""
            if values:
                message = f"{text} gives several values, and {condition.operator} needs one"
                raise Trouble(message, "use In for several", path=condition.path)
            message = f"{text} gives no value, and {condition.operator} needs one"
            raise Trouble(message, "valuePath starts at the owner, not at the pod: check the path", path=condition.path)
        found.append(Bound(condition.path, condition.key, condition.operator, values))
    return tuple(found)


class _Making:
    """Makes the nodes of one gang, and remembers what is worth a warning."""

    def __init__(self, scope: Scope, listener: Listener | None) -> None:
        self._scope, self._listener = scope, listener
        self._names: dict[str, str] = {}
        self.warnings: list[str] = []

    def root(self, template: Template) -> Node:
        node = Node("", "root", template.path)
        scope = self._scope
        node.hold = _hold(template.topology, scope)
        if template.entries:
            self._fill(template.entries, node, scope)
            if not node.children:
                message = "every entry of it is empty: there is no SubGroup"
                # A workload that is scaled to nothing has no gang, and may have one later.
                raise Trouble(message, "check `when` and `foreach`", path=template.path, retry=True)
            self._now_at("")
            node.minimum = self._children_minimum(template.minimum, node, scope)
            node.keep = _keeps(template.keep, scope)
        else:
            self._count_pods(template, node, scope)
        return node

    def _fill(self, entries: Sequence[Entry], parent: Node, scope: Scope) -> None:
        for entry in entries:
            if entry.foreach is None:
                self._add(entry, parent, scope)
            else:
                self._now_at(parent.name)
                for _, inner in scope.repeated(entry.foreach, f"{entry.path}.foreach"):
                    self._add(entry, parent, inner)

    def _add(self, entry: Entry, parent: Node, scope: Scope) -> None:
        self._now_at(parent.name)
        if not scope.truth(entry.when):
            return
        if len(self._names) >= MAX_SUBGROUPS:
            message = f"more than {MAX_SUBGROUPS:,} SubGroups come out of it"
            raise Trouble(message, "no PodGroup holds more: repeat less", path=entry.path)
        name, short = self._name(entry, parent, scope)
        self._now_at(name)
        node = Node(name, short, entry.path)
        node.hold = _hold(entry.topology, scope)
        if entry.children:
            self._fill(entry.children, node, scope)
            if not node.children:
                # A branch without children holds no pods.
                return
            self._now_at(name)
            node.minimum = self._children_minimum(entry.minimum, node, scope)
            node.keep = _keeps(entry.keep, scope)
        else:
            node.bounds = _bounds(entry.conditions, scope)
            self._count_pods(entry, node, scope)
        self._register(name, entry.name.path)
        parent.children.append(node)

    def _now_at(self, name: str) -> None:
        if self._listener is not None:
            self._listener.place = name

    def _name(self, entry: Entry, parent: Node, scope: Scope) -> tuple[str, str]:
        path = entry.name.path
        text = scope.text(entry.name)
        if not text:
            raise Trouble("componentName gives no name", "let it give a text", path=path)
        short = _label(text, path)
        name = _label(f"{parent.name}-{short}", path) if entry.qualified and parent.name else short
        return name, short

    def _register(self, name: str, path: str) -> None:
        if name in self._names:
            message = f"two SubGroups would be called {shown(name)}, the other one by {self._names[name]}"
            raise Trouble(message, "rename one in the workload, or let componentName give two names", path=path)
        self._names[name] = path

    def _children_minimum(self, question: Question | None, node: Node, scope: Scope) -> int | None:
        found, children = scope.count(question), len(node.children)
        if found is not None and found > children:
            here = f"{children} {'child' if children == 1 else 'children'}"
            who = f"{node.name or 'the PodGroup'} has {here}: {found} of them"
            self.warnings.append(f"{question.path if question else ''}: {who} can't be required, so all are")
            return None
        return found

    def _count_pods(self, entry: Entry | Template, node: Node, scope: Scope) -> None:
        """The minimum of a leaf or flat root, never above the pods that the workload creates there."""
        node.replicas = scope.count(entry.replicas)
        node.minimum = scope.count(entry.minimum)
        if node.minimum is None and entry.minimum is not None:
            texts = " and ".join(expression.text for expression in entry.minimum.expressions[:3])
            hint = "add a last path that always gives one, such as 1"
            raise Trouble(f"{texts} give no number", hint, path=entry.minimum.path)
        if node.minimum is None:
            node.minimum = 1 if node.replicas is None else min(1, node.replicas)
        if node.replicas == 0:
            # Scaled to nothing, which is no mistake.
            node.minimum = 0
        if node.replicas is not None and node.minimum > node.replicas:
            who = f"{node.name or 'the PodGroup'} asks for {node.minimum} pods and gets {node.replicas}"
            path = entry.minimum.path if entry.minimum else entry.path
            self.warnings.append(f"{path}: {who}: the minimum is {node.replicas}")
            node.minimum = node.replicas
        if entry.segments is not None:
            node.cut = entry.segments
            node.size = scope.count(entry.segments.size)
            node.first = scope.count(entry.segments.first) or 0
            node.numbered = scope.count(entry.segments.numbered)
            node.segment_hold = _hold(entry.segments.topology, scope)


def _keeps(question: Question | None, scope: Scope) -> bool:
    text = scope.text(question)
    if text and text != KEEP_ALL:
        path = question.path if question is not None else ""
        raise Trouble(f"{shown(text)} is not {KEEP_ALL}", f"let it give {KEEP_ALL}, or nothing", path=path)
    return bool(text)


def _hold(questions: TopologyQuestions, scope: Scope) -> Hold:
    if questions == NO_TOPOLOGY:
        return FREE
    return Hold(
        scope.text(questions.name) or "", scope.text(questions.required) or "", scope.text(questions.preferred) or ""
    )


def _label(text: str, path: str) -> str:
    """A DNS label, or the Trouble with it at this field."""
    try:
        return dns_label(text)
    except Trouble as trouble:
        raise Trouble(trouble.message, trouble.hint, path=path) from None
