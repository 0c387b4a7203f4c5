"""Server-side apply: documents of several owners become one, and managedFields says who owns which field.

The rules are those of the real server. Who applies owns all fields that he sends, and gives up those that he no longer
sends; what nobody else owns of these goes. A field of another owner that would change is a conflict, unless forced.
Who writes in another way (create, update, patch) takes over what he changed, without asking.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from muster.embedded.fieldsets import (
    ABSENT,
    Difference,
    Fields,
    difference,
    fields_of,
    from_v1,
    indexed,
    is_ours,
    outside,
    removed,
    to_v1,
    with_parents,
    written_path,
)
from muster.embedded.objects import Document, same, same_value, with_metadata
from muster.embedded.refusals import Cause, Refused
from muster.embedded.schema import Schema
from muster.embedded.shapes import ANYTHING, ATOMIC, NoKey, Shape
from muster.embedded.zeros import zero

APPLY, UPDATE = "Apply", "Update"
# So many Update entries are kept; older ones become one.
MOST_UPDATERS = 10
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# Nobody owns these.
_UNOWNED: Fields = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",)}
    | {
        ("f:metadata", f"f:{name}")
        for name in ("name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation")
    }
    | {("f:metadata", "f:managedFields"), ("f:metadata", "f:resourceVersion")}
)


class Owner(NamedTuple):
    """One entry of managedFields. The version of an Apply entry is no part of who it is."""

    manager: str
    operation: str
    api_version: str
    subresource: str = ""

    def __str__(self) -> str:
        text = json.dumps(self.manager, ensure_ascii=False)
        if self.subresource:
            text += f" with subresource {json.dumps(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


class _Owned(NamedTuple):
    """What somebody owns; `entry` is how managedFields says just this, if it does."""

    fields: Fields
    api_version: str
    time: str | None
    entry: Document | None = None

    def having(self, fields: Fields) -> "_Owned":
        """The same owner with other fields."""
        return self if fields == self.fields else self._replace(fields=fields, entry=None)

    def at(self, time: str) -> "_Owned":
        """The same, at another time."""
        if time == self.time:
            return self
        # One without a time gets it in its usual place.
        entry = {**self.entry, "time": time} if self.entry is not None and self.time else None
        return self._replace(time=time, entry=entry)


_Owners = dict[Owner, _Owned]


class Conflict(NamedTuple):
    """A field that another manager owns."""

    manager: str
    field: str


class Conflicts(Refused):
    """409: fields of others would change. One cause (FieldManagerConflict) a field."""

    def __init__(self, conflicts: Sequence[Conflict]) -> None:
        self.conflicts = tuple(conflicts)
        causes = [Cause("FieldManagerConflict", f"conflict with {manager}", field) for manager, field in conflicts]
        if len(conflicts) == 1:
            ((manager, field),) = conflicts
            message = f"Apply failed with 1 conflict: conflict with {manager}: {field}"
        else:
            lines: list[str] = []
            for manager in dict.fromkeys(conflict.manager for conflict in conflicts):
                lines.append(f"conflicts with {manager}:")
                lines += [f"- {field}" for owner, field in conflicts if owner == manager]
            message = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
        super().__init__(409, "Conflict", message, causes)


def apply(
    current: Document | None,
    wanted: Document,
    *,
    manager: str,
    force: bool,
    schema: Schema,
    time: str,
    subresource: str = "",
) -> Document:
    """What becomes of a document when `wanted` is applied to it (None: it is created). Raises Conflicts, or Refused.

    Server-owned metadata is left as it was; with a creation there is none yet. What is returned is `current` itself, if
    nothing changed but a time.
    """
    if "managedFields" in (wanted.get("metadata") or {}):
        raise Refused(400, "BadRequest", "metadata.managedFields must be nil")
    _check(wanted, schema.shape)
    live = _bare(current)
    owners = _owners((current or {}).get("metadata"))
    if current is not None and not owners:
        # Somebody wrote it before anybody applied: he keeps what is there.
        before = difference(zero(current, schema), live, schema.shape).without(schema.reset(subresource))
        first = Owner("before-first-apply", UPDATE, wanted.get("apiVersion", ""), subresource)
        owners[first] = _Owned((before.added | before.modified) - _UNOWNED, first.api_version, time)
    me = Owner(manager or "unknown", APPLY, "", subresource)
    try:
        new, after = _applied(live, wanted, owners, me, force=force, schema=schema)
    except Conflicts as conflicts:
        if manager != "kubectl" or not _all_last_applied(conflicts, live, wanted, schema):
            raise
        new, after = _applied(live, wanted, owners, me, force=True, schema=schema)
    changed = current is None or not same_value(new, live)
    if me in after and changed:
        after[me] = after[me].at(time)
    annotations = (new.get("metadata") or {}).get("annotations") or {}
    if manager == "kubectl" and annotations.get(LAST_APPLIED):
        new = with_metadata(new, annotations={**annotations, LAST_APPLIED: _last_applied(wanted)})
    return _with_owners(new, after, current)


def updated(
    current: Document | None,
    new: Document,
    *,
    manager: str,
    operation: str = UPDATE,
    schema: Schema,
    time: str,
    subresource: str = "",
) -> Document:
    """The document `new` with its managedFields after a create (no `current`), update or patch by `manager`.

    To be called with what the client decided and the defaults, before the server adds its own.
    """
    assert operation == UPDATE, "Apply goes through apply()"
    said = (new.get("metadata") or {}).get("managedFields")
    if said is not None and not subresource and (said == [] or said == [{}]):
        owners: _Owners = {}
    else:
        owners = {} if subresource else _owners(new.get("metadata"))
        owners = owners or _owners((current or {}).get("metadata"))
    bare = _bare(new)
    if current is not None and not owners:
        return bare  # nobody kept book of it so far
    start = zero(new, schema) if current is None else _bare(current)
    changes = difference(start, bare, schema.shape).without(schema.reset(subresource))
    taken = (changes.added | changes.modified) - _UNOWNED
    gone = changes.added | changes.modified | changes.removed
    after: _Owners = {}
    me = Owner(manager or "unknown", UPDATE, new.get("apiVersion", ""), subresource)
    for owner, owned in owners.items():
        left = owned.fields if owned.fields.isdisjoint(gone) else owned.fields - gone
        if owner == me and taken:
            after[me] = owned.having(left | taken).at(time)
        elif left:
            after[owner] = owned.having(left)
    if taken and me not in after:
        after[me] = _Owned(taken, me.api_version, time)
    # What has another value than before has not only another time.
    return _with_owners(bare, _capped(after), None if gone else current)


# Inside


def _applied(
    live: Document, wanted: Document, owners: Mapping[Owner, _Owned], me: Owner, *, force: bool, schema: Schema
) -> tuple[Document, _Owners]:
    shape = schema.shape
    reset = schema.reset(me.subresource)
    last = owners.get(me)
    mine = _Owned(
        outside(fields_of(wanted, shape), reset), wanted.get("apiVersion", ""), last.time if last is not None else None
    )
    after: _Owners = {**owners, me: mine}
    new = merged(live, wanted, shape)
    if last is not None:
        new = _pruned(new, last.fields, frozenset().union(*(owned.fields for owned in after.values())), shape)
    changes = difference(live, new, shape).without(reset)
    conflicts = _conflicts(after, me, changes)
    if conflicts and not force:
        raise Conflicts(conflicts)
    gone = changes.added | changes.modified | changes.removed
    for owner, owned in list(after.items()):
        left = owned.fields - (_UNOWNED if owner == me else gone)
        if left:
            after[owner] = owned.having(left)
        else:
            del after[owner]
    return new, after


def _conflicts(owners: _Owners, me: Owner, changes: Difference) -> list[Conflict]:
    changed = changes.added | changes.modified
    return [
        Conflict(str(owner), written_path(path))
        for owner, owned in sorted(owners.items())
        if owner != me
        for path in sorted(owned.fields & changed)
    ]


def _pruned(document: Document, last: Fields, owned: Fields, shape: Shape) -> Document:
    """The document without what its applier sent the last time, and nobody owns any more."""
    last = with_parents(last, shape)
    there = with_parents(fields_of(document, shape), shape)
    rest = removed(document, last, shape)
    left = with_parents(fields_of(rest, shape), shape)
    rest = removed(document, there - (left | with_parents(owned, shape)), shape)
    left = with_parents(fields_of(rest, shape), shape)
    found: Document = removed(document, (there - left) & last, shape)
    return found


def merged(live: Any, wanted: Any, shape: Shape) -> Any:
    """One value of two: what is wanted, and all of the other that it says nothing of."""
    if wanted is ABSENT:
        return live
    atom = shape.atom(wanted)
    if live is ABSENT:
        # What is sent is kept as it is, but for nothing in it.
        live = {} if atom == "map" else [] if atom == "list" else None
    if atom == "map" and isinstance(wanted, dict) and isinstance(live, dict):
        if shape.atomic_map or not (wanted or live):
            return wanted
        out = {}
        for name in {**live, **wanted}:
            child = shape.child(name) or ANYTHING
            out[name] = merged(live.get(name, ABSENT), wanted.get(name, ABSENT), child)
        return out
    if atom == "list" and shape.list_type != ATOMIC and isinstance(wanted, list) and isinstance(live, list):
        return _merged_lists(live, wanted, shape) if wanted or live else wanted
    if wanted is None and isinstance(live, dict | list) and live:
        return live  # null says nothing of what is in there
    return wanted


def _merged_lists(live: Sequence[Any], wanted: Sequence[Any], shape: Shape) -> list[Any]:
    """The items of both lists: shared ones in the order that is wanted, the others where they stood."""
    new, new_order = indexed(wanted, shape)
    old, old_order = indexed(live, shape)
    shared = [known for known in new_order if known in old]
    out: list[Any] = []
    done: set[str] = set()
    i = j = 0

    def place(known: str) -> None:
        before = old.get(known, [])
        out.append(merged(before[0] if len(before) == 1 else ABSENT, new[known][0], shape.items))
        done.add(known)
        if shared and shared[0] == known:
            del shared[0]

    while i < len(old_order) or j < len(new_order):
        if i < len(old_order):
            known = old_order[i]
            if j < len(new_order) and known == new_order[j]:
                place(known)
                i, j = i + 1, j + 1
                continue
            if known not in new:
                out.append(live[i])
                i += 1
                continue
            if known in done or (j < len(new_order) and shared and shared[0] != known):
                i += 1  # it has its place, or gets it where it is wanted
                continue
        place(new_order[j])
        j += 1
    return out


def _check(wanted: Any, shape: Shape) -> None:
    problems = list(_problems(wanted, shape, ""))
    if problems:
        said = problems[0] if len(problems) == 1 else "errors:\n" + "\n".join("  " + problem for problem in problems)
        name = (wanted.get("metadata") or {}).get("name", "")
        namespace = (wanted.get("metadata") or {}).get("namespace", "")
        group, _, version = wanted.get("apiVersion", "").rpartition("/")
        kind = f"{group}/{version}, Kind={wanted.get('kind', '')}"
        # Not a 400: this is what the real server answers.
        raise Refused(500, "", f"failed to create typed patch object ({namespace}/{name}; {kind}): {said}")


def _problems(value: Any, shape: Shape, path: str) -> Iterable[str]:
    atom = shape.atom(value)
    if value is None:
        return
    if atom == "map":
        if not isinstance(value, dict):
            yield f"{path}: expected map, got &{{{value}}}"
            return
        for name, below in value.items():
            child = shape.child(name)
            if child is None:
                yield f"{path}.{name}: field not declared in schema"
            else:
                yield from _problems(below, child, f"{path}.{name}")
    elif atom == "list":
        if not isinstance(value, list):
            yield f"{path}: expected list, got &{{{value}}}"
        elif shape.list_type != ATOMIC:
            seen = set()
            for row, item in enumerate(value):
                try:
                    known = shape.known_by(item)
                except NoKey as error:
                    yield f"{path}: element {row}: {error}"
                    continue
                if known in seen:
                    yield f"{path}: duplicate entries for key {written_path((known,))}"
                seen.add(known)
                yield from _problems(item, shape.items, path + written_path((known,)))


def _all_last_applied(conflicts: Conflicts, live: Document, wanted: Document, schema: Schema) -> bool:
    """Whether all conflicts are with what `kubectl apply` wrote itself, before it applied on the server's side."""
    text = ((live.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    try:
        last = json.loads(text or "")
    except ValueError:
        return False
    if not isinstance(last, dict) or last.get("apiVersion") != wanted.get("apiVersion"):
        return False
    changes = difference(last, live, schema.shape)
    unchanged = fields_of(last, schema.shape) - changes.added - changes.modified - changes.removed
    return {conflict.field for conflict in conflicts.conflicts} <= {written_path(path) for path in unchanged}


def _last_applied(wanted: Document) -> str:
    annotations = dict((wanted.get("metadata") or {}).get("annotations") or {})
    annotations.pop(LAST_APPLIED, None)
    sent = with_metadata(wanted, annotations=annotations or None)
    return json.dumps(sent, separators=(",", ":"), sort_keys=True, ensure_ascii=False) + "\n"


def _bare(document: Document | None) -> Document:
    """The document without its managedFields; unchanged parts stay the same objects."""
    if document is None:
        return {}
    if "managedFields" not in (document.get("metadata") or {}):
        return document
    return with_metadata(document, managedFields=None)


def _owners(metadata: Mapping[str, Any] | None) -> _Owners:
    """Who owns what, as managedFields says it; what cannot be read says nothing."""
    found: _Owners = {}
    try:
        for entry in (metadata or {}).get("managedFields") or ():
            operation, version = entry["operation"], entry["apiVersion"]
            if operation not in (APPLY, UPDATE) or not version or entry.get("fieldsType") != "FieldsV1":
                return {}
            key = "" if operation == APPLY else version
            owner = Owner(entry.get("manager", ""), operation, key, entry.get("subresource", ""))
            tree = entry.get("fieldsV1") or {}
            found[owner] = _Owned(from_v1(tree), version, entry.get("time"), entry if is_ours(tree) else None)
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}
    return found


def _with_owners(document: Document, owners: _Owners, current: Document | None) -> Document:
    entries = [
        owned.entry
        or {
            "manager": owner.manager,
            "operation": owner.operation,
            "apiVersion": owned.api_version,
            **({"time": owned.time} if owned.time else {}),
            "fieldsType": "FieldsV1",
            "fieldsV1": to_v1(owned.fields),
            **({"subresource": owner.subresource} if owner.subresource else {}),
        }
        for owner, owned in sorted(owners.items(), key=_order)
    ]
    new = with_metadata(document, managedFields=entries or None)
    return current if current is not None and _only_time(new, current) else new


def _only_time(new: Document, current: Document) -> bool:
    versions = [(document.get("metadata") or {}).get("resourceVersion") for document in (new, current)]
    return versions[0] in (None, versions[1]) and same(new, current)


def _order(item: tuple[Owner, _Owned]) -> tuple[str, str, str, str, str]:
    owner, owned = item
    return owner.operation, owned.time or "", owner.manager, owned.api_version, owner.subresource


def _capped(owners: _Owners) -> _Owners:
    """No more Update entries than are kept: the oldest of one version become one."""
    updaters = sorted((owner for owner in owners if owner.operation == UPDATE), key=lambda o: (owners[o].time or "", o))
    over = len(updaters) - MOST_UPDATERS
    if over <= 0:
        return owners
    after = dict(owners)
    first: dict[str, Owner] = {}
    for owner in updaters:
        if over <= 0:
            break
        version = owner.api_version
        if version not in first:
            first[version] = owner
            continue
        bucket = Owner("ancient-changes", UPDATE, version)
        if bucket not in after:
            after[bucket] = after.pop(first[version])._replace(entry=None)
        if owner != bucket:
            owned = after.pop(owner)
            after[bucket] = owned._replace(fields=owned.fields | after[bucket].fields, entry=None)
        over -= 1
    return after
