"""A Job, a StatefulSet and a PodDisruptionBudget controller, simple enough to trust.

Pods are created, counted and deleted by requests, as the real controllers do. Left out: finalizers that track pods of
Jobs, back-off between failures, rolling updates of StatefulSets, claims of volumes.
"""

import hashlib
import json
from functools import partial
from math import ceil
from typing import Any

from muster.embedded.apart import fails
from muster.embedded.mirror import MERGE, Caller, Document, Mirror, Moved, Place, controller_uid, owner_of
from muster.embedded.objects import same_value, seconds_of, timestamp
from muster.embedded.places import copied
from muster.embedded.selectors import selector
from muster.embedded.server import Server

INDEX = "batch.kubernetes.io/job-completion-index"
_OVER = ("Complete", "Failed")
# So many pods of a Job may fail when it does not say how many.
_LIMIT = 6
# So many pods of one owner are made at once; the next look makes more.
AT_ONCE = 100
# How long a pod that was to be evicted counts as gone although nobody deletes it.
EVICTION_S = 120.0


class Workloads:
    """All three controllers over one view of the pods; `step` looks at those for whom something changed."""

    def __init__(self, server: Server) -> None:
        self.caller = Caller(server, "kube-controller-manager")
        self._pods = Mirror(server, "pods")
        self._jobs = Mirror(server, "jobs.batch")
        self._sets = Mirror(server, "statefulsets.apps")
        self._budgets = Mirror(server, "poddisruptionbudgets.policy")
        # The pods of each controller, by its uid; the place of each controller; who is looked at once more, because a
        # write was refused.
        self._owned: dict[str, dict[Place, Document]] = {}
        self._owners: dict[str, tuple[Mirror, Place]] = {}
        self._again: dict[str, None] = {}
        # Pods without a controller, by the StatefulSet that their name would be of.
        self._orphans: dict[Place, dict[Place, Document]] = {}
        # When a budget has to be counted again, though nothing changes.
        self._due: dict[Place, float] = {}

    def close(self) -> None:
        """Follow the server no longer."""
        for mirror in (self._pods, self._jobs, self._sets, self._budgets):
            mirror.close()

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do before the time that `step` named."""
        mirrors = (self._pods, self._jobs, self._sets, self._budgets)
        return not self._again and all(mirror.is_current for mirror in mirrors)

    def step(self, now: float) -> float | None:
        """Look at everything that may have changed, or is due; when something is due next, if anything is."""
        late = {place for place, at in self._due.items() if at <= now}
        if self.is_idle and not late:
            return min(self._due.values(), default=None)
        again, self._again = self._again, {}
        owners = dict(again)
        # Budgets of these namespaces are counted again.
        spaces: dict[str, None] = {}
        for moved in self._pods.look():
            spaces[moved.place[0]] = None
            owners |= self._own(moved)
        for mirror in (self._jobs, self._sets):
            for moved in mirror.look():
                owners |= self._follow(mirror, moved)
                spaces |= {moved.place[0]: None} if mirror is self._sets else {}
        defects: list[Exception] = []
        for uid in owners:
            if fails(partial(self._look, now), uid, defects):
                self._again[uid] = None
        changed = late | {moved.place for moved in self._budgets.look()}
        for place, budget in list(self._budgets.objects.items()):
            uid = budget["metadata"]["uid"]
            is_due = place in changed or place[0] in spaces or uid in again
            if is_due and fails(partial(self._budget, place, now), budget, defects):
                self._again[uid] = None
        for place in changed - self._budgets.objects.keys():
            self._due.pop(place, None)
        if defects:
            raise defects[0]
        return min(self._due.values(), default=None)

    def _look(self, now: float, uid: str) -> None:
        """Do what is to do for a controller of pods, if it is there."""
        mirror, place = self._owners.get(uid, (self._jobs, ("", "")))
        one = mirror.objects.get(place)
        if one is not None and one["metadata"]["uid"] == uid and not one["metadata"].get("deletionTimestamp"):
            pods = list(self._owned.get(uid, {}).values())
            if mirror is self._jobs:
                self._job(one, pods, now)
            else:
                self._set(one, pods + self._adopted(one))

    def _own(self, moved: Moved) -> dict[str, None]:
        """Take in a pod; whose it was, and whose it is."""
        found: dict[str, None] = {}
        for pod in (moved.before, moved.now):
            uid = controller_uid(pod) if pod is not None else ""
            if uid:
                found[uid] = None
                self._owned.setdefault(uid, {}).pop(moved.place, None)
                if pod is not None and pod is moved.now:
                    self._owned[uid][moved.place] = pod
                elif not self._owned[uid]:
                    del self._owned[uid]
        return found | self._orphan(moved)

    def _orphan(self, moved: Moved) -> dict[str, None]:
        """Keep a pod that has no controller where a StatefulSet looks for it; which one may want it."""
        space, name = moved.place
        parent, _, ordinal = name.rpartition("-")
        if not parent or not ordinal.isdecimal():
            return {}
        kept = self._orphans.setdefault((space, parent), {})
        kept.pop(moved.place, None)
        if moved.now is not None and not controller_uid(moved.now):
            kept[moved.place] = moved.now
            wanting = self._sets.objects.get((space, parent))
            return {wanting["metadata"]["uid"]: None} if wanting is not None else {}
        if not kept:
            del self._orphans[space, parent]
        return {}

    def _follow(self, mirror: Mirror, moved: Moved) -> dict[str, None]:
        """Take in a controller of pods; who it is, if it is there."""
        if moved.before is not None:
            self._owners.pop(moved.before["metadata"]["uid"], None)
        if moved.now is None:
            return {}
        uid = moved.now["metadata"]["uid"]
        self._owners[uid] = mirror, moved.place
        return {uid: None}

    # Jobs.

    def _job(self, job: Document, pods: list[Document], now: float) -> None:
        status = dict(job.get("status") or {})
        if any(one.get("type") in _OVER and one.get("status") == "True" for one in status.get("conditions") or ()):
            return
        spec = job["spec"]
        active = [pod for pod in pods if _phase(pod) not in ("Succeeded", "Failed") and not _leaving(pod)]
        done = [pod for pod in pods if _phase(pod) == "Succeeded"]
        failed = [pod for pod in pods if _phase(pod) == "Failed"]
        if spec.get("suspend"):
            self._delete(active)
            active = []
            status["startTime"] = None
        else:
            status["startTime"] = status.get("startTime") or timestamp(now)
        status["conditions"] = _suspended(status.get("conditions") or [], bool(spec.get("suspend")), now)
        over = _over(spec, len(done), len(failed), len(active))
        if over and self._delete(active):
            active = []
            status["conditions"] = [*(status.get("conditions") or ()), *_ended(over, now)]
            if over == "Complete":
                status["completionTime"] = timestamp(now)
        elif not over and not spec.get("suspend"):
            active += self._more(job, active, done)
        ready = sum(_is_ready(pod) for pod in active)
        if spec.get("completionMode") == "Indexed":
            indexes = (_index_of(pod) for pod in done)
            status["completedIndexes"] = _ranges({int(one) for one in indexes if one.isdecimal() and len(one) < 10})
        status |= {"active": len(active), "succeeded": len(done), "failed": len(failed), "ready": ready}
        self._write("/apis/batch/v1", "jobs", job, status)

    def _more(self, job: Document, active: list[Document], done: list[Document]) -> list[Document]:
        """Create the pods that are missing, and delete those that are too many."""
        spec = job["spec"]
        wanted = spec.get("parallelism", 1)
        if spec.get("completions") is not None:
            wanted = min(wanted, spec["completions"] - len(done))
        elif done:
            wanted = 0
        if wanted < len(active):
            spare = sorted(active, key=lambda pod: pod["metadata"]["name"])[wanted:]
            self._delete(spare)
            return []
        taken = {_index_of(pod) for pod in (*active, *done)}
        free = (str(row) for row in range(spec.get("completions") or 0) if str(row) not in taken)
        made: list[Document] = []
        for _ in range(min(wanted - len(active), AT_ONCE)):
            pod = _pod_of(job, {"generateName": f"{job['metadata']['name']}-"})
            if spec.get("completionMode") == "Indexed":
                _index(pod, job["metadata"]["name"], next(free))
            found = self._create(job, pod)
            if found is None:
                break  # the next would be refused as well
            made.append(found)
        return made

    # StatefulSets.

    def _set(self, owner: Document, pods: list[Document]) -> None:
        spec, name = owner["spec"], owner["metadata"]["name"]
        start = (spec.get("ordinals") or {}).get("start", 0)
        rows = range(start, start + spec.get("replicas", 1))
        there = {pod["metadata"]["name"]: pod for pod in pods}
        parallel = spec.get("podManagementPolicy") == "Parallel"
        made = 0
        for one in (f"{name}-{row}" for row in rows):
            pod = there.get(one)
            if pod is None:
                self._create(owner, _replica(owner, one))
                made += 1
                if not parallel or made == AT_ONCE:
                    break
            elif _phase(pod) in ("Succeeded", "Failed") and not _leaving(pod):
                self._delete([pod])
                break
            elif not parallel and not _is_ready(pod):
                break
        # Of one whose name is written in another way (`web-01`) there is no replica.
        spare = [pod for one, pod in there.items() if _ordinal(pod) not in rows or one != f"{name}-{_ordinal(pod)}"]
        spare.sort(key=_ordinal, reverse=True)
        for pod in spare:
            if not _leaving(pod):
                self._delete([pod])
            if not parallel:
                break
        self._write("/apis/apps/v1", "statefulsets", owner, _set_status(owner, pods))

    def _adopted(self, owner: Document) -> list[Document]:
        """Take over the pods that have the labels and the name of a replica and belong to nobody."""
        metadata, found = owner["metadata"], []
        matches = selector(owner["spec"].get("selector"))
        for place, pod in (self._orphans.get((metadata["namespace"], metadata["name"])) or {}).items():
            if _leaving(pod) or not matches(pod):
                continue
            references = [*(pod["metadata"].get("ownerReferences") or ()), owner_of(owner)]
            body = {"metadata": {"uid": pod["metadata"]["uid"], "ownerReferences": references}}
            path = f"/api/v1/namespaces/{place[0]}/pods/{place[1]}"
            status, taken = self.caller.send("PATCH", path, body, MERGE)
            if status == 200:
                found.append(taken)
            else:
                self._again[metadata["uid"]] = None
        return found

    # Budgets.

    def _budget(self, place: Place, now: float, budget: Document) -> None:
        spec, old = budget["spec"], budget.get("status") or {}
        matches = selector(spec.get("selector"))
        pods = [pod for (space, _), pod in self._pods.objects.items() if space == place[0] and matches(pod)]
        pods = [pod for pod in pods if _phase(pod) not in ("Succeeded", "Failed")]
        expected = max(len(pods), self._asked(pods))
        # Until when those that are about to be evicted count as gone.
        staying = {pod["metadata"]["name"] for pod in pods if not _leaving(pod)}
        until = {name: seconds_of(when) + EVICTION_S for name, when in (old.get("disruptedPods") or {}).items()}
        disrupted = {name: at for name, at in until.items() if name in staying and now < at}
        self._due.pop(place, None)
        if disrupted:
            self._due[place] = min(disrupted.values())
        healthy = sum(_is_ready(pod) and not _leaving(pod) and pod["metadata"]["name"] not in disrupted for pod in pods)
        if spec.get("minAvailable") is not None:
            desired = _share(spec["minAvailable"], expected)
        else:
            desired = max(0, expected - _share(spec.get("maxUnavailable", 0), expected))
        status = {
            "disruptionsAllowed": max(0, healthy - desired) if expected else 0,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "observedGeneration": budget["metadata"].get("generation", 0),
        }
        gone = {name: None for name in until if name not in disrupted}
        if gone:
            status["disruptedPods"] = gone
        self._write("/apis/policy/v1", "poddisruptionbudgets", budget, status)

    def _asked(self, pods: list[Document]) -> int:
        """How many pods their StatefulSets want."""
        owners = {controller_uid(pod) for pod in pods}
        found = (one for one in self._sets.objects.values() if one["metadata"]["uid"] in owners)
        return sum(one["spec"].get("replicas", 1) for one in found)

    # Requests.

    def _create(self, owner: Document, pod: Document) -> Document | None:
        status, made = self.caller.send("POST", f"/api/v1/namespaces/{owner['metadata']['namespace']}/pods", pod)
        if status != 201:
            self._again[owner["metadata"]["uid"]] = None
        return made if status == 201 else None

    def _delete(self, pods: list[Document]) -> bool:
        """Whether no deletion failed."""
        failed = 0
        for pod in pods:
            metadata = pod["metadata"]
            body = {"preconditions": {"uid": metadata["uid"]}, "propagationPolicy": "Background"}
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
            if self.caller.tell("DELETE", path, body) >= 500:
                self._again[controller_uid(pod)] = None
                failed += 1
        return not failed

    def _write(self, api: str, plural: str, document: Document, status: Document) -> None:
        """Write a status, if it says something new."""
        old = document.get("status") or {}
        # What is zero is left out of what is kept.
        status = {name: value for name, value in status.items() if value or name in old}
        if same_value({**old, **status}, old):
            return
        metadata = document["metadata"]
        path = f"{api}/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}"
        body = {"metadata": {"uid": metadata["uid"]}, "status": status}
        if self.caller.tell("PATCH", f"{path}/status", body, MERGE) >= 500:
            self._again[metadata["uid"]] = None


def _over(spec: Document, done: int, failed: int, active: int) -> str:
    """Complete or Failed, if a Job is over."""
    wanted = spec.get("completions")
    if (wanted is not None and done >= wanted) or (wanted is None and done and not active):
        return "Complete"
    limit = spec.get("backoffLimit", _LIMIT)
    if spec.get("backoffLimitPerIndex") is not None:
        limit = min(limit, _LIMIT)  # the server made it endless, and nobody counts failures by index
    return "Failed" if failed > limit else ""


def _ended(kind: str, now: float) -> list[Document]:
    time = timestamp(now)
    before, reason, message = "SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods"
    if kind == "Failed":
        before, reason = "FailureTarget", "BackoffLimitExceeded"
        message = "Job has reached the specified backoff limit"
    common = {"status": "True", "lastProbeTime": time, "lastTransitionTime": time, "reason": reason, "message": message}
    return [{"type": before, **common}, {"type": kind, **common}]


def _suspended(conditions: list[Document], holds: bool, now: float) -> list[Document]:
    """The conditions of a Job with whether it is suspended; of one that never was nothing is said."""
    old = next((one for one in conditions if one.get("type") == "Suspended"), None)
    status = "True" if holds else "False"
    if (old is None and not holds) or (old is not None and old.get("status") == status):
        return conditions
    time, word = timestamp(now), "suspended" if holds else "resumed"
    new = {"type": "Suspended", "status": status, "lastProbeTime": time, "lastTransitionTime": time}
    new |= {"reason": f"Job{word.capitalize()}", "message": f"Job {word}"}
    return [*(one for one in conditions if one is not old), new]


def _index_of(pod: Document) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(INDEX) or "")


def _ranges(numbers: set[int]) -> str:
    """Numbers as Jobs write them: `0-2,4`; two in a row are a range too."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def _pod_of(owner: Document, metadata: Document) -> Document:
    template = copied(owner["spec"]["template"])
    given = template.get("metadata") or {}
    kept = {key: given[key] for key in ("labels", "annotations", "finalizers") if given.get(key)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**kept, **metadata, "ownerReferences": [owner_of(owner)]},
        "spec": template["spec"],
    }


def _index(pod: Document, name: str, index: str) -> None:
    metadata = pod["metadata"]
    metadata["generateName"] = f"{name}-{index}-"
    metadata["annotations"] = {**(metadata.get("annotations") or {}), INDEX: index}
    metadata["labels"] = {**(metadata.get("labels") or {}), INDEX: index}
    pod["spec"].setdefault("hostname", f"{name}-{index}"[:63])


def _revision(owner: Document) -> str:
    text = json.dumps(owner["spec"]["template"], sort_keys=True).encode()
    return f"{owner['metadata']['name']}-{hashlib.sha256(text).hexdigest()[:10]}"


def _replica(owner: Document, name: str) -> Document:
    pod = _pod_of(owner, {"name": name})
    ordinal = name.rpartition("-")[2]
    templates = owner["spec"].get("volumeClaimTemplates") or ()
    claims = [named for one in templates if (named := (one.get("metadata") or {}).get("name"))]
    if claims:
        # Each pod has claims of its own, which come instead of volumes of the same name.
        others = [one for one in pod["spec"].get("volumes") or () if one.get("name") not in claims]
        own = [{"name": one, "persistentVolumeClaim": {"claimName": f"{one}-{name}"}} for one in claims]
        pod["spec"] = {**pod["spec"], "volumes": [*own, *others]}
    pod["metadata"]["labels"] = {
        **(pod["metadata"].get("labels") or {}),
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": ordinal,
        "controller-revision-hash": _revision(owner),
    }
    pod["spec"].setdefault("hostname", name[:63])
    if owner["spec"].get("serviceName"):
        pod["spec"].setdefault("subdomain", owner["spec"]["serviceName"])
    return pod


def _set_status(owner: Document, pods: list[Document]) -> Document:
    revision, ready = _revision(owner), sum(_is_ready(pod) for pod in pods)
    label = "controller-revision-hash"
    updated = sum((pod["metadata"].get("labels") or {}).get(label) == revision for pod in pods)
    return {
        "observedGeneration": owner["metadata"].get("generation", 0),
        "replicas": len(pods),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "currentReplicas": updated,
        "updatedReplicas": updated,
        "currentRevision": revision,
        "updateRevision": revision,
    }


def _ordinal(pod: Document) -> int:
    text = pod["metadata"]["name"].rpartition("-")[2]
    return int(text) if text.isdigit() else -1


def _phase(pod: Document) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _leaving(pod: Document) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def _is_ready(pod: Document) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _share(value: Any, total: int) -> int:
    """A number, or a percentage of a total, rounded up."""
    if isinstance(value, str) and value.endswith("%"):
        return ceil(int(value[:-1]) * total / 100)
    return int(value)
