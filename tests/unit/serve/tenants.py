"""What tenants, administrators and muster ask of pods and their admission marks, and whether the policy lets them.

The same steps are played on an embedded server (test_guarding.py) and on a real one (tests/e2e/test_policies.py).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

PODS = "/api/v1/namespaces/default/pods"
MARK, GANG, SUBGROUP = "muster.dev/admitted", "pod-group-name", "kai.scheduler/subgroup-name"
ADMIN, TENANT, MUSTER = "admin", "tenant", "muster"
# Who asks, how, where, what; gives the code and the document of the answer.
Ask = Callable[[str, str, str, Any], tuple[int, Any]]


class Step(NamedTuple):
    """One request, and whether it is taken."""

    says: str
    who: str
    method: str
    path: str
    body: Any
    taken: bool


def pod(name: str, *, scheduler: str = "kai-scheduler", mark: str | None = None) -> dict[str, Any]:
    annotations = {GANG: "g", **({} if mark is None else {MARK: mark})}
    metadata = {"name": name, "namespace": "default", "labels": {SUBGROUP: "a"}, "annotations": annotations}
    spec = {"schedulerName": scheduler, "containers": [{"name": "main", "image": "none"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def binding(name: str, mark: str = "") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", **({"annotations": {MARK: mark}} if mark else {})}
    target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


def _bind(name: str, who: str, mark: str, *, taken: bool, says: str) -> Step:
    return Step(says, who, "POST", f"{PODS}/{name}/binding", binding(name, mark), taken)


def _replaced(name: str) -> dict[str, Any]:
    """A bound pod without the mark."""
    made = pod(name)
    return made | {"spec": made["spec"] | {"nodeName": "n1"}}


def annotated(**more: Any) -> dict[str, Any]:
    return {"metadata": {"annotations": {{"mark": MARK, "gang": GANG}.get(key, key): one for key, one in more.items()}}}


def labelled(value: str | None, key: str = SUBGROUP) -> dict[str, Any]:
    return {"metadata": {"labels": {key: value}}}


def _patch(says: str, name: str, body: Any, *, taken: bool, who: str = TENANT) -> Step:
    return Step(says, who, "PATCH", f"{PODS}/{name}", body, taken)


STEPS = [
    *(Step(f"makes {name}", TENANT, "POST", PODS, pod(name), True) for name in ("bound", "free", "early")),
    Step("makes a pod of others", TENANT, "POST", PODS, pod("other", scheduler="default-scheduler"), True),
    Step("makes a pod with a mark", TENANT, "POST", PODS, pod("forged", mark="q/u"), False),
    Step("makes a pod with an empty mark", TENANT, "POST", PODS, pod("x", mark=""), False),
    _patch("marks a waiting pod", "free", annotated(mark="q/u"), taken=False),
    _patch("chooses the gang of a waiting pod", "free", annotated(gang="h"), taken=True),
    _patch("chooses the subgroup of a waiting pod", "free", labelled("b"), taken=True),
    _bind("bound", ADMIN, "q/u", taken=False, says="binds with a mark"),
    Step("binds with a mark, by the older path", ADMIN, "POST", f"{PODS[:-4]}bindings", binding("bound", "q/u"), False),
    _bind("bound", MUSTER, "q/u", taken=True, says="binds with a mark"),
    _bind("early", ADMIN, "", taken=True, says="binds without a mark"),
    _bind("other", ADMIN, "", taken=True, says="binds a pod of others"),
    _patch("changes the mark", "bound", annotated(mark="other/u"), taken=False),
    _patch("removes the mark", "bound", annotated(mark=None), taken=False),
    _patch("removes all annotations", "bound", {"metadata": {"annotations": None}}, taken=False),
    _patch("marks a pod that was bound without", "early", annotated(mark="q/u"), taken=False),
    _patch("changes the mark", "bound", annotated(mark="other/u"), taken=False, who=ADMIN),
    _patch("moves a bound pod to another gang", "bound", annotated(gang="h"), taken=False),
    _patch("takes a bound pod out of its gang", "bound", annotated(gang=None), taken=False),
    _patch("moves a bound pod to another subgroup", "bound", labelled("b"), taken=False),
    _patch("takes a bound pod out of its subgroup", "bound", labelled(None), taken=False),
    _patch("moves a pod that was bound without a mark", "early", annotated(gang="h"), taken=False),
    _patch("moves a bound pod of another scheduler", "other", annotated(gang="h"), taken=True),
    _patch("labels a bound pod", "bound", labelled("yes", "app"), taken=True),
    _patch("annotates a bound pod", "bound", annotated(note="yes"), taken=True),
    Step("replaces a bound pod", TENANT, "PUT", f"{PODS}/bound", _replaced("bound"), False),
    _patch("changes the mark with the status", "bound/status", annotated(mark="other/u"), taken=False, who=ADMIN),
    _patch("changes the gang with the status", "bound/status", annotated(gang="h"), taken=False, who=ADMIN),
    _patch("writes the status", "bound/status", {"status": {"phase": "Running"}}, taken=True, who=ADMIN),
    _patch("marks a pod", "early", annotated(mark="q/u"), taken=True, who=MUSTER),
    _patch("changes a mark", "bound", annotated(mark="q2/u"), taken=True, who=MUSTER),
    _patch("moves a bound pod", "bound", annotated(gang="h"), taken=True, who=MUSTER),
]


def play(ask: Ask) -> list[str]:
    """The steps with another end than is said."""
    wrong = []
    for one in STEPS:
        code, said = ask(one.who, one.method, one.path, one.body)
        refused = code == 422 and "ValidatingAdmissionPolicy 'muster-admitted'" in said.get("message", "")
        if not (code < 300 if one.taken else refused):
            wrong.append(f"{one.who} {one.says}: {code} {said.get('message')}")
    return wrong
