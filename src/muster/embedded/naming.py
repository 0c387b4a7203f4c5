"""What the real server refuses of metadata: names, labels, annotations, owners, finalizers."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from muster.embedded.exchange import denied, required, shown, too_long, wrong
from muster.embedded.refusals import Cause

Document = dict[str, Any]

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = _LABEL + r"(\." + _LABEL + ")*"
_VALUE = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
LABEL_SAID = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
SUBDOMAIN_SAID = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_VALUE_SAID = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'{_VALUE}')"
)
_NAME_SAID = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)
IMMUTABLE = "field is immutable"
_LABEL_NAMED = ("Namespace",)
_PATH_NAMED = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")


def is_label(text: str) -> bool:
    """Whether a text is a DNS label."""
    return len(text) <= 63 and bool(re.fullmatch(_LABEL, text))


def is_subdomain(text: str) -> bool:
    """Whether a text is a DNS name."""
    return len(text) <= 253 and bool(re.fullmatch(_SUBDOMAIN, text))


def name_causes(kind: str, name: str, path: str = "metadata.name") -> list[Cause]:
    """What is wrong with the name of an object."""
    if kind in _PATH_NAMED:
        return [wrong(path, name, f"may not contain '{one}'") for one in "/%" if one in name]
    longest, form, said = (63, _LABEL, LABEL_SAID) if kind in _LABEL_NAMED else (253, _SUBDOMAIN, SUBDOMAIN_SAID)
    found = [wrong(path, name, f"must be no more than {longest} characters")] if len(name) > longest else []
    return found + ([] if re.fullmatch(form, name) else [wrong(path, name, said)])


def key_causes(path: str, key: str) -> list[Cause]:
    """What is wrong with the key of a label or an annotation."""
    prefix, slash, name = key.rpartition("/")
    found = []
    if slash and not is_subdomain(prefix):
        found.append(wrong(path, key, f"prefix part {SUBDOMAIN_SAID}" if prefix else "prefix part must be non-empty"))
    if not name:
        found.append(wrong(path, key, "name part must be non-empty"))
    elif len(name) > 63:
        found.append(wrong(path, key, "name part must be no more than 63 bytes"))
    if not re.fullmatch(_QUALIFIED, name):
        found.append(wrong(path, key, _NAME_SAID))
    return found


def label_causes(labels: Mapping[str, Any], path: str) -> list[Cause]:
    """What is wrong with labels."""
    found = []
    for key, value in sorted(labels.items()):
        found += key_causes(path, key) + value_causes(path, value)
    return found


def value_causes(path: str, value: str) -> list[Cause]:
    """What is wrong with the value of a label."""
    found = [wrong(path, value, "must be no more than 63 bytes")] if len(value) > 63 else []
    return found if re.fullmatch(_VALUE, value) else [*found, wrong(path, value, _VALUE_SAID)]


def metadata_causes(kind: str, document: Document) -> list[Cause]:
    """What is wrong with the metadata of a new object."""
    metadata = document.get("metadata") or {}
    name, base = metadata.get("name") or "", metadata.get("generateName") or ""
    found: list[Cause] = []
    if base:
        found += name_causes(kind, base.rstrip("-."), "metadata.generateName")
    if not name:
        found.append(required("metadata.name", "name or generateName is required"))
    else:
        found += name_causes(kind, name)
    return found + _common_causes(metadata)


def update_causes(new: Document, old: Document) -> list[Cause]:
    """What is wrong with the metadata of an object that changes."""
    found = []
    one, other = new.get("metadata") or {}, old.get("metadata") or {}
    if other.get("deletionTimestamp"):
        added = sorted(set(one.get("finalizers") or ()) - set(other.get("finalizers") or ()))
        if added:
            listed = " ".join(f'"{name}"' for name in added)
            said = "no new finalizers can be added if the object is being deleted, found new finalizers []string{"
            found.append(denied("metadata.finalizers", f"{said}{listed.replace(' ', ', ')}}}"))
    return found + _common_causes(one)


_STANDARD = ("kubernetes", "orphan", "foregroundDeletion")


def finalizer_causes(metadata: Document) -> list[Cause]:
    """What is wrong with the finalizers of a new object of a built-in kind: they need a prefix."""
    said = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        wrong(f"metadata.finalizers[{row}]", name, said)
        for row, name in enumerate(metadata.get("finalizers") or ())
        if "/" not in name and name not in _STANDARD
    ]


_MOST_ANNOTATED = 256 * 1024


def _common_causes(metadata: Document) -> list[Cause]:
    found = label_causes(metadata.get("labels") or {}, "metadata.labels")
    said = metadata.get("annotations") or {}
    if sum(len(key.encode()) + len(value.encode()) for key, value in said.items()) > _MOST_ANNOTATED:
        found.append(too_long("metadata.annotations", _MOST_ANNOTATED))
    for key in sorted(metadata.get("annotations") or {}):
        found += key_causes("metadata.annotations", key.lower())
    found += _owner_causes(metadata.get("ownerReferences") or ())
    for row, name in enumerate(metadata.get("finalizers") or ()):
        found += key_causes(f"metadata.finalizers[{row}]", name)
    return found


def _owner_causes(owners: Sequence[Document]) -> list[Cause]:
    path = "metadata.ownerReferences"
    found: list[Cause] = []
    leading = ""
    for owner in owners:
        for name, said in (("apiVersion", "version must not be empty"), ("kind", "must not be empty")):
            if not owner.get(name):
                found.append(wrong(f"{path}.{name}", owner.get(name) or "", said))
        for name in ("name", "uid"):
            if not owner.get(name):
                found.append(wrong(f"{path}.{name}", owner.get(name) or "", "must not be empty"))
        if owner.get("controller"):
            if leading:
                said = f'Only one reference can have Controller set to true. Found "true" in references for {leading}'
                text = f"Invalid value: {shown(list(owners))}: {said} and {owner.get('kind')}/{owner.get('name')}"
                found.append(Cause("FieldValueInvalid", text, path))
            leading = leading or f"{owner.get('kind')}/{owner.get('name')}"
    return found
