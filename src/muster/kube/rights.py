"""What muster may do: every right that it needs, why, and where. The one list of which roles are made and which
`muster doctor` checks.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

READ = ("get", "list", "watch")

# Who needs it.
SCHEDULER, GROUPER, STATUS, WEBHOOK = "scheduler", "grouper", "status", "webhook"


# The Lease of who leads.
LEASE_NAME = "muster"
# The Role with the right to ask for evictions.
OPERATOR = "muster-operator"


class Right(NamedTuple):
    """Some verbs on a resource of a group, and what for. `ours` is only where muster's Lease is."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    part: str
    why: str
    ours: bool = False
    # Nothing stops without it: something is only told, found or kept less well.
    optional: bool = False
    # Only this object; creating is not about one that has a name.
    name: str = ""

    @property
    def title(self) -> str:
        """As RBAC and kubectl write it: `podgroups.scheduling.run.ai`."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


RIGHTS: tuple[Right, ...] = (
    Right("", "nodes", READ, SCHEDULER, "where there is room"),
    Right("", "pods", READ, SCHEDULER, "what waits and what holds room"),
    Right("", "pods/binding", ("create",), SCHEDULER, "to send pods to nodes"),
    Right("", "pods/eviction", ("create",), SCHEDULER, "to make room, within disruption budgets"),
    Right("", "pods/status", ("patch",), SCHEDULER, "to nominate nodes, and to say why a pod waits"),
    Right("scheduling.k8s.io", "priorityclasses", READ, SCHEDULER, "the priorities of gangs"),
    Right("policy", "poddisruptionbudgets", READ, SCHEDULER, "whom not to evict"),
    Right("", "namespaces", READ, SCHEDULER, "which namespaces the anti-affinity of pods means", optional=True),
    Right("", "persistentvolumeclaims", READ, SCHEDULER, "which claims of pods are bound", optional=True),
    Right("", "persistentvolumes", READ, SCHEDULER, "which nodes reach the volumes of pods", optional=True),
    Right("storage.k8s.io", "storageclasses", READ, SCHEDULER, "why a claim is not bound", optional=True),
    Right("storage.k8s.io", "csinodes", READ, SCHEDULER, "which drivers limit the volumes of a node", optional=True),
    Right("storage.k8s.io", "csidrivers", READ, SCHEDULER, "which drivers must be on the node of a pod", optional=True),
    Right("resource.k8s.io", "deviceclasses", READ, SCHEDULER, "which resources may be devices", optional=True),
    Right("scheduling.k8s.io", "podgroups", READ, SCHEDULER, "which groups of pods ask for a gang", optional=True),
    Right("scheduling.run.ai", "podgroups", READ, SCHEDULER, "the gangs"),
    Right("scheduling.run.ai", "podgroups", ("patch",), SCHEDULER, "to note the room that is kept for moved pods"),
    Right("scheduling.run.ai", "podgroups/status", ("patch",), STATUS, "to say how gangs fare"),
    Right("scheduling.run.ai", "queues", READ, SCHEDULER, "who is due what"),
    Right("scheduling.run.ai", "queues/status", ("patch",), STATUS, "to say what queues hold", optional=True),
    Right("kai.scheduler", "topologies", READ, SCHEDULER, "the domains of the nodes"),
    Right("kai.scheduler", "resourceinterfaces", READ, GROUPER, "how workloads become gangs"),
    Right(
        "kai.scheduler", "resourceinterfaces/status", ("patch",), STATUS, "to say whether they are used", optional=True
    ),
    Right("scheduling.run.ai", "podgroups", ("create", "patch"), GROUPER, "to make gangs of workloads"),
    Right(
        *("scheduling.run.ai", "podgroups", ("delete",), GROUPER),
        "to remove the gangs of instances that are gone",
        optional=True,
    ),
    Right("", "pods", ("patch",), GROUPER, "to say which gang and subgroup a pod is of"),
    Right("events.k8s.io", "events", ("create", "patch"), STATUS, "to tell people what happens", optional=True),
    Right("muster.dev", "evictionrequests", READ, SCHEDULER, "who is to leave for whom", ours=True, optional=True),
    Right(
        *("muster.dev", "evictionrequests/status", ("patch",), SCHEDULER, "to answer these requests"),
        ours=True,
        optional=True,
    ),
    Right(
        *("coordination.k8s.io", "leases", ("get", "create", "patch"), SCHEDULER, "to be the only leader"),
        ours=True,
        name=LEASE_NAME,
    ),
    Right(
        *("admissionregistration.k8s.io", "validatingwebhookconfigurations", ("get", "patch"), WEBHOOK),
        "to renew the authority of its own certificate",
        optional=True,
        name="muster",
    ),
)

# The owners of pods that come with Kubernetes. Those of others are added by labels (an aggregated role).
WORKLOADS: tuple[Right, ...] = (
    Right("apps", "daemonsets", READ, GROUPER, "an owner of pods", optional=True),
    Right("apps", "deployments", READ, GROUPER, "an owner of pods", optional=True),
    Right("apps", "replicasets", READ, GROUPER, "an owner of pods", optional=True),
    Right("apps", "statefulsets", READ, GROUPER, "an owner of pods", optional=True),
    Right("batch", "cronjobs", READ, GROUPER, "an owner of pods", optional=True),
    Right("batch", "jobs", READ, GROUPER, "an owner of pods", optional=True),
)


# Only where queues may ignore disruption budgets (muster.dev/reclaim-policy): the eviction API would refuse.
DELETING = Right(
    *("", "pods", ("delete",), SCHEDULER, "to take back what queues with muster.dev/reclaim-policy are owed"),
    optional=True,
)

# Only where the page is served in a cluster: who looks at it, and what they may see.
PAGE: tuple[Right, ...] = (
    Right("authentication.k8s.io", "tokenreviews", ("create",), "page", "to know who looks at the page"),
    Right("authorization.k8s.io", "subjectaccessreviews", ("create",), "page", "to show them what they may see"),
)


class Ask(NamedTuple):
    """One verb on one resource: what an access review is about. Without a namespace, in all of them."""

    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str = ""

    def __str__(self) -> str:
        what = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {what}{'.' + self.group if self.group else ''}{where}"


def review_of(ask: Ask) -> dict[str, Any]:
    """The question as an access review has it in its spec."""
    attributes = {
        "verb": ask.verb,
        "group": ask.group,
        "resource": ask.resource,
        "subresource": ask.subresource,
        "namespace": ask.namespace,
        "name": ask.name,
    }
    return {"resourceAttributes": {key: value for key, value in attributes.items() if value}}


def asks(right: Right, namespace: str) -> Iterator[Ask]:
    """A right as questions, one a verb; `namespace` is that of muster's Lease."""
    resource, _, part = right.resource.partition("/")
    for verb in right.verbs:
        name = right.name if verb != "create" else ""
        yield Ask(verb, right.group, resource, part, namespace if right.ours else "", name)
