"""Who owns a pod: the chain of its owners, found with a lookup that is a parameter.

Objects are JSON of anybody's making. Whatever is wrong with them is a Trouble of the one pod that was asked about.
"""

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from muster.api.documents import shown
from muster.grouping.model import Object
from muster.grouping.trouble import Trouble

# Links of a chain, the pod among them. Real ones have up to six.
MOST_LINKS = 16
ANY_VERSION = "*"
DEFAULT_NAMESPACE = "default"

# What can stand in a sentence, and in a command that somebody copies, without quotes.
_PLAIN = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._]{0,252}")
_NOTHING: Mapping[str, Any] = {}


class Absence(enum.Enum):
    """Why a lookup has no answer: the object was not seen (yet), or may not be read."""

    NOT_SEEN = "not seen"
    FORBIDDEN = "forbidden"


class Wanted(NamedTuple):
    """An object that is looked for. Any served version of it will do, the one in `api_version` (`ray.io/v1`) is the
    best; `ray.io/*` has no best. `namespace` is the asker's: it means nothing for a kind of the whole cluster.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


class Lookup(Protocol):
    """Where objects are found. Those that it gives say their apiVersion and kind.

    While an object stays as it is, the very same one is given, and none is ever changed in place: what was derived from
    an object is kept as long as it is that one.
    """

    def get(self, wanted: Wanted) -> Object | Absence:
        """The object of that group, kind, namespace and name. Who asks compares the uid."""
        ...

    def select(
        self, api_version: str, kind: str, namespace: str, labels: Mapping[str, str]
    ) -> Sequence[Object] | Absence:
        """All objects of the kind that carry the labels, by name."""
        ...


class Identity(NamedTuple):
    """What an object says it is. What it does not say, or not as text, is empty."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def title(self) -> str:
        """As people call it: `RayJob default/train`."""
        return title_of(self.kind, self.namespace, self.name)


class Link(NamedTuple):
    """An object of a chain. A `bare` one may not be read: only what the reference to it says is known."""

    object: Object
    bare: bool = False


def split_version(api_version: str) -> tuple[str, str]:
    """Group and version, as Kubernetes splits them: `v1` has no group."""
    group, _, version = api_version.rpartition("/")
    return group, version


def identity_of(thing: object) -> Identity:
    """What an object says it is, whatever it is."""
    if not isinstance(thing, dict):
        return Identity("", "", "", "", "")
    metadata = metadata_of(thing)
    return Identity(
        _text(thing.get("apiVersion")),
        _text(thing.get("kind")),
        _text(metadata.get("namespace")),
        _text(metadata.get("name")),
        _text(metadata.get("uid")),
    )


def metadata_of(thing: object) -> Mapping[str, Any]:
    """The metadata of an object; nothing when there is none, or it is none."""
    found = thing.get("metadata") if isinstance(thing, dict) else None
    return found if isinstance(found, dict) else _NOTHING


def annotations_of(thing: object) -> Mapping[Any, Any]:
    """The annotations of an object. Keys and values may be anything."""
    found = metadata_of(thing).get("annotations")
    return found if isinstance(found, dict) else _NOTHING


def labels_of(thing: object) -> Mapping[Any, Any]:
    """The labels of an object. Keys and values may be anything."""
    found = metadata_of(thing).get("labels")
    return found if isinstance(found, dict) else _NOTHING


def namespace_of(thing: object) -> str:
    """The namespace of an object; what says none is in `default`."""
    return identity_of(thing).namespace or DEFAULT_NAMESPACE


def title_of(kind: str, namespace: str, name: str) -> str:
    """An object in a sentence: `RayJob default/train`. Text that nobody would expect there is quoted and cut."""
    called = f"{_inline(namespace) + '/' if namespace else ''}{_inline(name)}" if name else "without a name"
    return f"{_inline(kind) if kind else 'object'} {called}"


def chain_of(bottom: Object, lookup: Lookup) -> tuple[Link, ...]:
    """The owners of an object, top owner first, and the object itself last. Raises Trouble.

    The owner is whom the reference with `controller: true` names, else the first. One that may not be read ends the
    chain: nobody knows its owners.
    """
    identity = identity_of(bottom)
    namespace = identity.namespace or DEFAULT_NAMESPACE
    links = [Link(bottom)]
    passed = [(split_version(identity.api_version)[0], identity.kind, identity.name)]
    while (wanted := _owner(links[-1].object, namespace)) is not None:
        who = (split_version(wanted.api_version)[0], wanted.kind, wanted.name)
        if who in passed:
            raise _cycle(links, passed.index(who))
        if len(links) == MOST_LINKS:
            raise Trouble(
                f"{identity.title} has more than {MOST_LINKS - 1} owners, one above the other",
                "look at metadata.ownerReferences of its owners: so many can hardly be meant",
            )
        passed.append(who)
        found = lookup.get(wanted)
        if found is Absence.FORBIDDEN:
            links.append(Link(_bare(wanted), bare=True))
            break
        if isinstance(found, Absence):
            raise not_seen(wanted, _owner_of(links))
        if wanted.uid and (uid := identity_of(found).uid) and uid != wanted.uid:
            raise not_seen(wanted, _owner_of(links), seen=uid)
        links.append(Link(found))
    return tuple(reversed(links))


def _owner_of(links: Sequence[Link]) -> str:
    """Of the bottom only its kind is told: all pods of a workload miss the same owner."""
    below = identity_of(links[-1].object)
    return f"the owner of {below.title if len(links) > 1 else 'this ' + below.kind}"


def not_seen(wanted: Wanted, role: str, *, seen: str = "") -> Trouble:
    """The Trouble that an object is not there yet. `role` says who needs it, `seen` is the uid of its namesake."""
    title = title_of(wanted.kind, wanted.namespace, wanted.name)
    if seen:
        return Trouble(
            f"{title} with uid {shown(wanted.uid)}, {role}, was not seen: the one of that name has uid {shown(seen)}",
            "wait until the old objects are gone, or correct the uid in ownerReferences",
            retry=True,
            about=wanted[1:4],
        )
    command = ""
    if all(_PLAIN.fullmatch(text) for text in (wanted.kind, wanted.namespace, wanted.name)):
        elsewhere = "" if wanted.namespace == DEFAULT_NAMESPACE else f" -n {wanted.namespace}"
        command = f" (kubectl get {wanted.kind} {wanted.name}{elsewhere} -o yaml)"
    return Trouble(f"{title}, {role}, was not seen", f"add it to the input{command}", retry=True, about=wanted[1:4])


def _owner(dependent: Object, namespace: str) -> Wanted | None:
    references = metadata_of(dependent).get("ownerReferences")
    if references is None or references == []:
        return None
    if not isinstance(references, list):
        raise _bad_reference(dependent, "metadata.ownerReferences is no list")
    number, reference = 0, references[0]
    for index, item in enumerate(references):
        if isinstance(item, dict) and item.get("controller") is True:
            number, reference = index, item
            break
    where = f"metadata.ownerReferences[{number}]"
    if not isinstance(reference, dict):
        raise _bad_reference(dependent, f"{where} is no reference but {shown(reference)}")
    said = [_text(reference.get(field)) for field in ("apiVersion", "kind", "name")]
    for field, text in zip(("apiVersion", "kind", "name"), said, strict=True):
        if not text:
            raise _bad_reference(dependent, f"{where}.{field} is missing or no text")
    return Wanted(said[0], said[1], namespace, said[2], _text(reference.get("uid")))


def _bad_reference(dependent: Object, message: str) -> Trouble:
    return Trouble(
        f"{identity_of(dependent).title}: {message}",
        "an owner reference says apiVersion, kind, name and uid",
    )


def _bare(wanted: Wanted) -> Object:
    metadata = {"name": wanted.name, "namespace": wanted.namespace, "uid": wanted.uid}
    return {"apiVersion": wanted.api_version, "kind": wanted.kind, "metadata": metadata}


def _cycle(links: Sequence[Link], start: int) -> Trouble:
    titles = [identity_of(link.object).title for link in links]
    circle = " → ".join([*titles[start:], titles[start]])
    return Trouble(
        f"the owners of {titles[0]} form a cycle: {circle}",
        "take one reference out of metadata.ownerReferences",
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _inline(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else shown(text)


class Objects:
    """A lookup in documents that are all there. Of two with the same identity, the later counts.

    What says no namespace is in `default`, and also of the whole cluster: only a cluster could tell which.
    """

    def __init__(self, documents: Iterable[object] = ()) -> None:
        # (group, kind, namespace) → name → version → object; of the versions, the one that came last stands last.
        self._found: dict[tuple[str, str, str], dict[str, dict[str, Object]]] = {}
        self.take(documents)

    def take(self, documents: Iterable[object]) -> None:
        """More documents."""
        for document in documents:
            if isinstance(document, dict):
                self._add(document)

    def _add(self, document: Object) -> None:
        api_version, kind, namespace, name, _ = identity_of(document)
        if not kind or not name:
            return
        group, version = split_version(api_version)
        for place in (namespace,) if namespace else ("", DEFAULT_NAMESPACE):
            versions = self._found.setdefault((group, kind, place), {}).setdefault(name, {})
            versions.pop(version, None)
            versions[version] = document

    def get(self, wanted: Wanted) -> Object | Absence:
        """The object, in the version that is wanted, else in the one that came last."""
        group, version = split_version(wanted.api_version)
        for place in _places(wanted.namespace):
            versions = self._found.get((group, wanted.kind, place), {}).get(wanted.name)
            if versions:
                return _best(versions, version)
        return Absence.NOT_SEEN

    def select(
        self, api_version: str, kind: str, namespace: str, labels: Mapping[str, str]
    ) -> Sequence[Object] | Absence:
        """All objects of the kind that carry the labels, by name."""
        group, version = split_version(api_version)
        named: dict[str, Object] = {}
        for place in _places(namespace):
            for name, versions in self._found.get((group, kind, place), {}).items():
                named.setdefault(name, _best(versions, version))
        return [named[name] for name in sorted(named) if _carries(named[name], labels)]


def _places(namespace: str) -> tuple[str, str]:
    return (namespace, "") if namespace else ("", DEFAULT_NAMESPACE)


def _best(versions: dict[str, Object], version: str) -> Object:
    return versions[version] if version in versions else versions[next(reversed(versions))]


def _carries(candidate: Object, labels: Mapping[str, str]) -> bool:
    carried = labels_of(candidate)
    return all(key in carried and carried[key] == value for key, value in labels.items())
