"""What happens by itself: dependents follow their owners, namespaces end with their content, definitions get served."""

from collections import Counter

from muster.embedded import applying, objects
from muster.embedded.core import Core, Document, Target
from muster.embedded.deleting import FOREGROUND, ORPHAN, Deletion, delete, release
from muster.embedded.kinds import Resource
from muster.embedded.refusals import Refused
from muster.embedded.store import Change, Key

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
NAMESPACES = "namespaces"
# Each round can only set off what hangs one level deeper; more levels than anybody stacks.
MOST_ROUNDS = 50


class Due:
    """Knows after each change whether there is anything to collect, so that most writes cost nothing."""

    def __init__(self, core: Core) -> None:
        self.definitions = True
        self.namespaces = False
        self.owners = False
        self._alive: set[str] = set()
        self._owned: Counter[str] = Counter()
        for resource in _kinds(core).values():
            for document in core.store.list(resource.stored).items:
                self._alive.add(document["metadata"]["uid"])
                self._owned.update(_owners(document))
                self._look(Key(resource.stored, document["metadata"].get("namespace") or "", ""), document)
        self._leaving = {one["metadata"]["name"] for one in core.store.list(NAMESPACES).items if _is_leaving(one)}
        core.store.subscribe(self.changed)

    def changed(self, change: Change) -> None:
        """Take in a change."""
        key, document = change.key, change.document
        uid = document["metadata"]["uid"]
        self._owned.subtract(_owners(change.before or {}))
        if change.type == "DELETED":
            self._alive.discard(uid)
            self.owners |= self._owned[uid] > 0
            if key.resource == NAMESPACES:
                self._leaving.discard(key.name)
        else:
            self._alive.add(uid)
            self._owned.update(_owners(document))
            self.owners |= any(owner not in self._alive for owner in _owners(document))
            self._look(key, document)
        if key.resource == NAMESPACES and _is_leaving(document) and change.type != "DELETED":
            self._leaving.add(key.name)
            self.namespaces = True
        self.namespaces |= key.namespace in self._leaving
        self.definitions |= key.resource == DEFINITIONS

    def _look(self, key: Key, document: Document) -> None:
        held = document["metadata"].get("finalizers") or ()
        self.owners |= _is_leaving(document) and (FOREGROUND in held or ORPHAN in held)
        # Who waits for its dependents is looked at again whenever one of them moves.
        self.owners |= any(one.get("blockOwnerDeletion") for one in _references(document)) and _is_leaving(document)

    def any(self) -> bool:
        """Whether there is anything to do."""
        return self.definitions or self.namespaces or self.owners


def _is_leaving(document: Document) -> bool:
    return bool(document["metadata"].get("deletionTimestamp"))


def _references(document: Document) -> list[Document]:
    return (document.get("metadata") or {}).get("ownerReferences") or []


def _owners(document: Document) -> list[str]:
    return [one.get("uid") or "" for one in _references(document)]


def collect(core: Core, due: Due | None = None) -> int:
    """Delete what has lost its owners or its namespace, and let go what waited for its dependents; how many writes."""
    start = core.store.revision
    for _ in range(MOST_ROUNDS):
        before = core.store.revision
        namespaces, owners = (due.namespaces, due.owners) if due else (True, True)
        if due:
            due.namespaces = due.owners = False
        if namespaces:
            _end_namespaces(core)
        if owners:
            _follow_owners(core)
        if core.store.revision == before and not (due and due.any()):
            break
    return core.store.revision - start


def establish(core: Core, definition: Document) -> Document:
    """Write into a definition that its kind is served."""
    status = definition.get("status") or {}
    wanted = dict(definition["spec"]["names"])
    conditions = status.get("conditions") or []
    if conditions and status.get("acceptedNames") == wanted:
        return definition
    now = core.now()
    conditions = [
        _true("NamesAccepted", "NoConflicts", "no conflicts found", now),
        _true("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
    ]
    new = {**definition, "status": {**status, "conditions": conditions, "acceptedNames": wanted}}
    resource = core.kinds.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    assert resource
    new = applying.updated(
        definition,
        new,
        manager="kube-apiserver",
        operation="Update",
        schema=resource.schema,
        time=now,
        subresource="status",
    )
    key = Key(DEFINITIONS, "", definition["metadata"]["name"])
    return core.store.replace(key, new, definition["metadata"]["resourceVersion"])


def _true(kind: str, reason: str, message: str, now: str) -> Document:
    return {"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}


def _kinds(core: Core) -> dict[str, Resource]:
    """One resource for each kind of document that is stored."""
    return {one.stored: one for one in core.kinds if "list" in one.verbs and not (one.plural == "events" and one.group)}


def _target(resource: Resource, document: Document) -> Target:
    metadata = document["metadata"]
    return Target(resource, metadata.get("namespace") or "", metadata["name"])


def _delete(core: Core, resource: Resource, document: Document, policy: str = "Background") -> None:
    try:
        delete(core, _target(resource, document), Deletion(policy=policy, uid=document["metadata"]["uid"]))
    except Refused:
        # Somebody objects (a review); it is tried again after the next write.
        return


def end_definition(core: Core, name: str) -> None:
    """Objects of a kind that is no longer defined go with it, whatever holds them."""
    for document in core.store.list(name).items:
        metadata = document["metadata"]
        core.store.remove(Key(name, metadata.get("namespace") or "", metadata["name"]))


def _end_namespaces(core: Core) -> None:
    for space in core.store.list(NAMESPACES).items:
        if not space["metadata"].get("deletionTimestamp"):
            continue
        name, left = space["metadata"]["name"], 0
        for resource in core.kinds.namespaced():
            for document in core.store.list(resource.stored, name).items:
                if not document["metadata"].get("deletionTimestamp"):
                    _delete(core, resource, document)
                left += core.store.get(_target(resource, document).key) is not None
        if left:
            continue
        current = core.store.get(Key(NAMESPACES, "", name))
        if current is None:
            continue
        new = {**current, "spec": {}}
        core.store.replace(Key(NAMESPACES, "", name), new, current["metadata"]["resourceVersion"])
        if not current["metadata"].get("finalizers"):
            core.store.remove(Key(NAMESPACES, "", name))


def _follow_owners(core: Core) -> None:
    kinds = _kinds(core)
    everything = [(resource, one) for resource in kinds.values() for one in core.store.list(resource.stored).items]
    alive = {one["metadata"]["uid"]: one for _, one in everything}
    dependents: dict[str, list[tuple[Resource, Document]]] = {}
    for resource, one in everything:
        for owner in one["metadata"].get("ownerReferences") or ():
            dependents.setdefault(owner.get("uid", ""), []).append((resource, one))
    for resource, one in everything:
        _let_go(core, resource, one, dependents.get(one["metadata"]["uid"], []))
    for resource, one in everything:
        _lose(core, kinds, resource, one, alive)


def _let_go(core: Core, resource: Resource, owner: Document, below: list[tuple[Resource, Document]]) -> None:
    """An owner that waits for its dependents, or that leaves them behind."""
    held = owner["metadata"].get("finalizers") or ()
    if not owner["metadata"].get("deletionTimestamp") or not (FOREGROUND in held or ORPHAN in held):
        return
    uid = owner["metadata"]["uid"]
    if ORPHAN in held:
        for kind, one in below:
            _disown(core, kind, one, {uid})
        release(core, resource, owner, ORPHAN)
        return
    blocking = 0
    for kind, one in below:
        references = one["metadata"].get("ownerReferences") or ()
        if not one["metadata"].get("deletionTimestamp"):
            _delete(core, kind, one, "Foreground")
        there = core.store.get(_target(kind, one).key) is not None
        blocking += there and any(each.get("uid") == uid and each.get("blockOwnerDeletion") for each in references)
    if not blocking:
        release(core, resource, owner, FOREGROUND)


def _lose(
    core: Core, kinds: dict[str, Resource], resource: Resource, one: Document, alive: dict[str, Document]
) -> None:
    """A dependent whose owners are all gone goes too; one that keeps an owner forgets those that are gone."""
    references = one["metadata"].get("ownerReferences") or ()
    if not references or one["metadata"].get("deletionTimestamp"):
        return
    gone = {each.get("uid", "") for each in references if not _is_there(core, kinds, one, each, alive)}
    if len(gone) == len(references):
        _delete(core, resource, one)
    elif gone:
        _disown(core, resource, one, gone)


def _is_there(
    core: Core, kinds: dict[str, Resource], one: Document, reference: Document, alive: dict[str, Document]
) -> bool:
    """Whether an owner is there; kinds that are not served here count as there, as nobody could tell."""
    found = alive.get(reference.get("uid", ""))
    if found is not None:
        space = found["metadata"].get("namespace") or ""
        return space in ("", one["metadata"].get("namespace") or "")
    owner = core.kinds.of(reference.get("apiVersion", ""), reference.get("kind", ""))
    return owner is None or owner.stored not in kinds


def _disown(core: Core, resource: Resource, one: Document, uids: set[str]) -> None:
    current = core.store.get(_target(resource, one).key)
    if current is None:
        return
    kept = [each for each in current["metadata"].get("ownerReferences") or () if each.get("uid") not in uids]
    new = objects.with_metadata(current, ownerReferences=kept or None)
    if not objects.same(current, new):
        core.store.replace(_target(resource, one).key, new, current["metadata"]["resourceVersion"])
