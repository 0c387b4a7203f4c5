"""The rule of an update: the protected part of a running semi-preemptible gang may not grow by a change of its spec."""

from muster.api import quantity
from muster.api.podgroup import SEMI_PREEMPTIBLE, PodGroup
from muster.api.tree import Node, Tree, count_in_words, minimum_pods
from muster.api.validation.violation import Report
from muster.errors import BadObject


def check_update(old: PodGroup, old_tree: Tree | None, new_tree: Tree, report: Report) -> None:
    """No existing node's minimum rises while the gang has placed pods; judged by the old object's status."""
    if old_tree is None or old.spec.preemptibility != SEMI_PREEMPTIBLE or not has_placed_pods(old):
        return
    before = {node.name: (node, pods) for node, pods in zip(old_tree.nodes, minimum_pods(old_tree), strict=True)}
    for node, pods in zip(new_tree.nodes, minimum_pods(new_tree), strict=True):
        if node.name not in before or not _rises(*before[node.name], node, pods):
            continue
        field = "minSubGroup" if node.children and not node.floor else "minMember"
        who, was, is_now = node.name or "the PodGroup", _words(before[node.name][0]), _words(node)
        report.error(
            f"{node.path}.{field}",
            f"raises the minimum of {who} from {was} to {is_now} while a semi-preemptible gang runs",
            "its core would grow without room or quota: keep the old number, or delete and create the PodGroup again",
        )


def has_placed_pods(group: PodGroup) -> bool:
    """Whether the status says that some pod of the gang is placed."""
    if any(entry.pods.placed for entry in group.status.sub_groups):
        return True
    try:
        return any(quantity.parse(amount) > 0 for amount in group.status.resources_status.allocated.values())
    except BadObject:
        return True


def _rises(old: Node, old_pods: int, new: Node, new_pods: int) -> bool:
    """Pods are compared with pods and children with children; a node that changed its kind is compared in pods."""
    if bool(old.children) != bool(new.children):
        return new_pods > old_pods
    return new.minimum > old.minimum or (new.floor > old.floor and new_pods > old_pods)


def _words(node: Node) -> str:
    if not node.children:
        return f"{node.minimum} pods"
    return count_in_words(node) + (f" and {node.floor} pods" if node.floor else "")
