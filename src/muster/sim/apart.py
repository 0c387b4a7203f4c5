"""Required anti-affinity of pods that run, as the judge counts it: pod by pod, from the documents alone."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from muster.sim.facts import Member

Document = Mapping[str, Any]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def terms_of(spec: Document) -> list[Document]:
    """The required anti-affinity of a pod."""
    affinity = (spec.get("affinity") or {}).get("podAntiAffinity") or {}
    return list(affinity.get(_REQUIRED) or ())


def document_of(pod: Member) -> Document:
    """Of a pod, all that a term asks for."""
    return {"metadata": {"namespace": pod.key[0], "labels": pod.labels}, "spec": pod.spec}


def is_kept_away(
    newcomer: Document, node: Document, pods: Iterable[Document], nodes: Mapping[str, Document], spaces: Document
) -> bool:
    """Whether a pod on some node forbids a node to a newcomer. `spaces` are the labels of namespaces by name."""
    labels = node["metadata"].get("labels") or {}
    for pod in pods:
        if not _counts(pod):
            continue
        there = nodes.get(pod["spec"]["nodeName"])
        if there is None:
            continue
        theirs = there["metadata"].get("labels") or {}
        for term in terms_of(pod["spec"]):
            key = term["topologyKey"]
            if key in labels and labels[key] == theirs.get(key) and means(term, pod, newcomer, spaces):
                return True
    return False


def _counts(pod: Document) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return bool(pod["spec"].get("nodeName")) and phase not in ("Succeeded", "Failed")


def means(term: Document, owner: Document, newcomer: Document, spaces: Document) -> bool:
    """Whether a term of one pod means another."""
    selector, own = term.get("labelSelector"), owner["metadata"].get("labels") or {}
    if selector is None:
        return False
    space = newcomer["metadata"].get("namespace") or "default"
    named, chosen = term.get("namespaces") or [], term.get("namespaceSelector")
    if not named and chosen is None:
        named = [owner["metadata"].get("namespace") or "default"]
    of_space = {**(spaces.get(space) or {}), "kubernetes.io/metadata.name": space}
    if space not in named and (chosen is None or not selects(chosen, of_space)):
        return False
    labels = newcomer["metadata"].get("labels") or {}
    for keys, wanted in ((term.get("matchLabelKeys"), True), (term.get("mismatchLabelKeys"), False)):
        if any((labels.get(key) == own[key]) != wanted for key in keys or () if key in own):
            return False
    return selects(selector, labels)


def selects(selector: Document, labels: Mapping[str, str]) -> bool:
    """Whether labels meet a selector."""
    return all(_wanted(selector, labels))


def _wanted(selector: Document, labels: Mapping[str, str]) -> Iterator[bool]:
    for key, value in (selector.get("matchLabels") or {}).items():
        yield labels.get(key) == value
    for one in selector.get("matchExpressions") or ():
        key, operator, values = one["key"], one["operator"], one.get("values") or ()
        if operator in ("In", "NotIn"):
            yield (key in labels and labels[key] in values) == (operator == "In")
        else:
            yield (key in labels) == (operator == "Exists")
