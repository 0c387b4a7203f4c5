"""Whether a cluster protects admission marks: one attempt to forge one, which is only rehearsed."""

from muster.api.cluster import ADMITTED_ANNOTATION
from muster.cli.checkup import OK, WARN, Finding
from muster.cli.live import POD
from muster.errors import ApiError, Forbidden
from muster.kube.client import Client

CHECK = "admission marks"
_MEANS = "who may write pods can charge them to any queue, or to none, and so exceed limits and use up other queues"


async def check_marks(client: Client, scheduler: str) -> Finding:
    """What the API server says to a pod that comes with a mark. It is not written."""
    annotations = {ADMITTED_ANNOTATION: "forged/by-muster-doctor"}
    metadata = {"generateName": "muster-doctor-", "namespace": "default", "annotations": annotations}
    spec = {"schedulerName": scheduler, "containers": [{"name": "main", "image": "none"}]}
    try:
        await client.rehearse(POD, "default", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    except ApiError as error:
        if ADMITTED_ANNOTATION in error.message:
            return Finding(CHECK, OK, f"protected: only muster may write the annotation {ADMITTED_ANNOTATION}")
        if isinstance(error, Forbidden):
            hint = "ask for the right to create pods in the namespace default, or let an admin run this"
            return Finding(CHECK, WARN, f"not checked: {error.message}", hint)
        return Finding(CHECK, WARN, f"not checked: {error.message}", error.hint)
    says = f"not protected, the policy muster-admitted is missing: {_MEANS}"
    return Finding(CHECK, WARN, says, "muster manifests has the policy: its part guard")
