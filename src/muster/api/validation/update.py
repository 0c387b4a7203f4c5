"""The rule of an update: the protected part of a running semi-preemptible gang may not grow by a change of its spec."""

from muster.api import quantity
from muster.api.podgroup import SEMI_PREEMPTIBLE, PodGroup
from muster.api.tree import Tree, TreeNode, count_in_words, minimum_pods
from muster.api.validation.violation import Report
from muster.errors import BadObject


def check_update(old: PodGroup, old_tree: Tree | None, new_tree: Tree, report: Report) -> None:
    """No existing node's minimum rises while the gang has placed pods; judged by the old object's status."""
    if old_tree is None or old.spec.preemptibility != SEMI_PREEMPTIBLE or not has_placed_pods(old):
        return
    # A child that goes may have been the cheapest: that its siblings need more is not a rise.
    allowed = [max(pair) for pair in zip(minimum_pods(old_tree), minimum_pods(_kept(old_tree, new_tree)), strict=True)]
    before = {node.name: (node, pods) for node, pods in zip(old_tree.nodes, allowed, strict=True)}
    pods_of = minimum_pods(new_tree)
    rising = {
        row
        for row, node in enumerate(new_tree.nodes)
        if node.name in before and _rises(*before[node.name], node, pods_of[row])
    }
    for row in sorted(rising):
        node = new_tree.nodes[row]
        if any(child in rising for child in node.children) and node.minimum <= before[node.name][0].minimum:
            # It rises because a child does, which is told there.
            continue
        field = "minSubGroup" if node.children and not node.floor else "minMember"
        old_node, old_pods = before[node.name]
        who, was, is_now = node.name or "the PodGroup", _words(old_node, old_pods), _words(node, pods_of[row])
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


def _kept(old: Tree, new: Tree) -> Tree:
    """The old tree without the children that are gone."""
    nodes = []
    for node in old.nodes:
        children = tuple(child for child in node.children if old.nodes[child].name in new.row_of)
        emptied = node.children and not children
        nodes.append(node._replace(children=children, minimum=0 if emptied else node.minimum))
    return Tree(tuple(nodes), ())


def _rises(old: TreeNode, old_pods: int, new: TreeNode, new_pods: int) -> bool:
    """More pods are needed, or more children of the same node."""
    return new_pods > old_pods or (bool(old.children) == bool(new.children) and new.minimum > old.minimum)


def _words(node: TreeNode, pods: int) -> str:
    return f"{count_in_words(node)} ({pods} pods)" if node.children else f"{pods} pods"
