"""Stories of classes and drivers of volumes, and of classes of devices. Claims and volumes have a controller there."""

from fidelity.making import Document, delete, get, patch, post
from fidelity.play import Story

STORAGE = "/apis/storage.k8s.io/v1"
DEVICES = "/apis/resource.k8s.io/v1/deviceclasses"


def of(api_version: str, kind: str, name: str, **more: object) -> Document:
    """An object without a namespace."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **more}


STORIES: tuple[Story, ...] = (
    Story(
        "storage",
        (
            post(f"{STORAGE}/storageclasses", of("storage.k8s.io/v1", "StorageClass", "f-late", provisioner="p")),
            get(f"{STORAGE}/storageclasses/f-late"),
            post(
                f"{STORAGE}/csinodes",
                of(
                    "storage.k8s.io/v1",
                    "CSINode",
                    "f-node",
                    spec={"drivers": [{"name": "d.example.com", "nodeID": "i", "allocatable": {"count": 3}}]},
                ),
            ),
            get(f"{STORAGE}/csinodes/f-node"),
            delete(f"{STORAGE}/csinodes/f-node"),
            delete(f"{STORAGE}/storageclasses/f-late"),
            post(f"{STORAGE}/csidrivers", of("storage.k8s.io/v1", "CSIDriver", "d.example.com", spec={})),
            delete(f"{STORAGE}/csidrivers/d.example.com"),
            post(
                DEVICES,
                of("resource.k8s.io/v1", "DeviceClass", "f-gpu", spec={"extendedResourceName": "nvidia.com/gpu"}),
            ),
            patch(f"{DEVICES}/f-gpu", {"spec": {"extendedResourceName": "example.com/gpu"}}),
            get(f"{DEVICES}/f-gpu"),
            delete(f"{DEVICES}/f-gpu"),
        ),
    ),
)
