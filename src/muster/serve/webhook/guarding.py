"""The policy for admission marks as the embedded API server applies it: what `cli/policies.py` says to a real one.

Only muster sets or changes the mark of a pod, and which gang and subgroup a bound pod of ours is of.
"""

from collections.abc import Collection
from typing import Any

from muster.api.cluster import ADMITTED_ANNOTATION, POD_GROUP_ANNOTATION, SUBGROUP_LABEL
from muster.embedded.core import Asked, Verdict

POLICY = "muster-admitted"
_PASSED = Verdict()


class Guarding:
    """A review of an embedded server. `us` is who muster is, `schedulers` the scheduler names of its pods."""

    def __init__(self, us: str, schedulers: Collection[str]) -> None:
        self._us, self._schedulers = us, frozenset(schedulers)

    def __call__(self, asked: Asked) -> Verdict:
        """What the policy says to a write of a pod or a Binding."""
        resource = asked.target.resource
        if asked.user == self._us or asked.new is None or (resource.group, resource.plural) != ("", "pods"):
            return _PASSED
        new, old = asked.new, asked.old or {}
        if _changed(new, old, "annotations", ADMITTED_ANNOTATION):
            return self._refused(f"set or change metadata.annotations['{ADMITTED_ANNOTATION}']: leave it out")
        moves = _changed(new, old, "annotations", POD_GROUP_ANNOTATION) or _changed(new, old, "labels", SUBGROUP_LABEL)
        if moves and self._is_bound(old):
            what = f"change the annotation {POD_GROUP_ANNOTATION} and the label {SUBGROUP_LABEL} of a bound pod: "
            return self._refused(f"{what}delete the pod, and create another one")
        return _PASSED

    def _is_bound(self, pod: dict[str, Any]) -> bool:
        spec = pod.get("spec") or {}
        ours = spec.get("schedulerName") in self._schedulers or ADMITTED_ANNOTATION in _part(pod, "annotations")
        return bool(spec.get("nodeName")) and ours

    def _refused(self, what: str) -> Verdict:
        said = (
            f"ValidatingAdmissionPolicy '{POLICY}' with binding '{POLICY}' denied request: only {self._us} may {what}"
        )
        return Verdict(said, (), 422, "Invalid")


def _part(document: dict[str, Any], part: str) -> dict[str, Any]:
    return (document.get("metadata") or {}).get(part) or {}


def _changed(new: dict[str, Any], old: dict[str, Any], part: str, key: str) -> bool:
    return bool(_part(new, part).get(key) != _part(old, part).get(key))
