"""What the real server refuses of nodes (amounts, taints), and of the node that a pod is promised."""

from collections.abc import Callable
from typing import Any

from muster.embedded.exchange import denied, required, shown, unsupported, wrong
from muster.embedded.naming import SUBDOMAIN_SAID, is_subdomain, key_causes, value_causes
from muster.embedded.quantities import amount, canonical
from muster.embedded.refusals import Cause

Document = dict[str, Any]
_WHOLE = ("pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def status_causes(kind: str, new: Document, old: Document | None) -> list[Cause]:
    """What is wrong with the status of a document of a built-in kind; `old` is what it would replace."""
    check = _BY_KIND.get(kind)
    return check(new, old) if check else []


def node_causes(new: Document, old: Document | None) -> list[Cause]:
    """What is wrong with a node."""
    found, seen = _amounts(new, old), set()
    for row, taint in enumerate((new.get("spec") or {}).get("taints") or ()):
        path, effect = f"metadata.taints[{row}]", taint.get("effect") or ""
        found += key_causes(f"{path}.key", taint.get("key") or "")
        found += value_causes(f"{path}.value", taint.get("value") or "")
        if not effect:
            found.append(required(f"{path}.effect"))
        elif effect not in _EFFECTS:
            found.append(unsupported(f"{path}.effect", effect, _EFFECTS))
        who = (taint.get("key"), effect)
        if who in seen:
            parts = {name: taint.get(name.lower(), "") for name in ("Key", "Value", "Effect")}
            again = shown({**parts, "TimeAdded": taint.get("timeAdded")})
            said = f"Duplicate value: {again}: taints must be unique by key and effect pair"
            found.append(Cause("FieldValueDuplicate", said, path))
        seen.add(who)
    return found


def _amounts(new: Document, old: Document | None) -> list[Cause]:
    found = []
    for field in ("capacity", "allocatable"):
        for name, said in sorted(((new.get("status") or {}).get(field) or {}).items()):
            path, text = f"status.{field}.{name}", canonical(said)
            value = amount(str(text))
            if value is not None and value < 0:
                found.append(wrong(path, text, "must be greater than or equal to 0"))
            elif value is not None and ("/" in name or name in _WHOLE) and value.denominator != 1:
                found.append(wrong(path, text, "must be an integer"))
    return found


def _promise(new: Document, old: Document | None) -> list[Cause]:
    """A pod that is bound can't be promised another node."""
    path, node = "status.nominatedNodeName", (new.get("status") or {}).get("nominatedNodeName") or ""
    if not node or node == ((old or {}).get("status") or {}).get("nominatedNodeName"):
        return []
    if not is_subdomain(node):
        return [wrong(path, node, SUBDOMAIN_SAID)]
    if ((old or {}).get("spec") or {}).get("nodeName"):
        return [denied(path, "may not be set on pods that are already bound to a node")]
    return []


_BY_KIND: dict[str, Callable[[Document, Document | None], list[Cause]]] = {"Node": _amounts, "Pod": _promise}
