"""Draws StatefulSets, of which each pod is a gang of its own by a ResourceInterface of the story.

When one shrinks, gangs without pods are left, which muster deletes a minute later.
"""

from typing import Any

from muster.sim.drawing.dice import Dice
from muster.sim.drawing.draft import Draft
from muster.sim.objects import GPU, Objects

Document = dict[str, Any]
INTERFACE: Document = {
    "apiVersion": "kai.scheduler/v1",
    "kind": "ResourceInterface",
    "metadata": {"name": "sets"},
    "spec": {
        "targetGVK": {"group": "apps", "version": "*", "kind": "StatefulSet"},
        "gangScheduling": {
            "podGroups": [
                {
                    "name": "one",
                    "instanceKeyPaths": ['.metadata.labels["apps.kubernetes.io/pod-index"]'],
                    "minMember": 1,
                }
            ]
        },
    },
}
# After so long without pods, and a little, their gangs are deleted.
RETIRES_S = 62.0


def sets(dice: Dice, draft: Draft) -> None:
    """One of them: it comes, shrinks, and usually grows again; sometimes the interface comes later, or goes."""
    count = dice.whole(3, 5)
    begins = dice.between(0, 10)
    one = _set(count)
    early = dice.likely(0.7)
    first = [INTERFACE, one] if early else [one]
    draft.happen(begins, apply=Objects(documents=first))
    if not early:
        draft.happen(begins + dice.between(0.1, 5), apply=Objects(documents=[INTERFACE]))
    shrinks = begins + dice.between(2, 15)
    draft.lasts = max(draft.lasts, round(shrinks + RETIRES_S + 30))
    draft.happen(shrinks, change={"statefulset/set": {"spec": {"replicas": dice.whole(0, count - 2)}}})
    if dice.likely(0.35):
        grows = dice.one_of([shrinks + dice.between(1, 20), shrinks + RETIRES_S + dice.between(-3, 3)])
        draft.happen(grows, change={"statefulset/set": {"spec": {"replicas": count}}})
    if dice.likely(0.15):
        draft.happen(dice.between(begins, draft.lasts), delete=["resourceinterface/sets"])


def _set(count: int) -> Document:
    asked = {GPU: "1"}
    container = {"name": "main", "image": "none", "resources": {"requests": asked, "limits": asked}}
    template = {
        "metadata": {"labels": {"app": "set"}},
        "spec": {"schedulerName": "kai-scheduler", "terminationGracePeriodSeconds": 0, "containers": [container]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "set"},
        "spec": {
            "replicas": count,
            "serviceName": "set",
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "set"}},
            "template": template,
        },
    }
