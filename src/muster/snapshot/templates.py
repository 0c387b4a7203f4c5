"""What a pod's spec comes to, found once for all pods that are made from one template, and kept once."""

from typing import NamedTuple

import msgspec
from msgspec import structs

from muster.api.cluster import ClaimSource, Pod, PodSpec, Volume
from muster.errors import BadObject
from muster.snapshot.ports import Port
from muster.snapshot.requests import PODS, Request, host_ports_of, request_of, unsupported_fields, wishes

# What stands in a template for every claim: pods of one template have claims of different names.
_A_CLAIM = Volume(persistent_volume_claim=ClaimSource())
# Templates that nobody uses any more are forgotten when there are so many, or when they are so long in all.
_MOST_TEMPLATES, _MOST_BYTES = 10_000, 2**24
# The most host ports that a pod may ask for. Names of resources need no bound: what no node offers is no column.
MOST_PORTS = 1_000


class Template(NamedTuple):
    """A spec without its node, and what follows from it; `problem` says why its pods can't be placed at all."""

    spec: PodSpec
    request: Request
    shape: bytes
    ports: tuple[Port, ...]
    problem: str
    unsupported: tuple[str, ...]
    # What it would only like of other pods.
    wishes: tuple[str, ...] = ()
    # Why its pods ask for too much to be placed; those that have a node hold what they hold.
    excess: str = ""


class Templates:
    """Specs by what they say. Pods of a mirror share theirs: there are many pods and few templates."""

    def __init__(self) -> None:
        self._known: dict[bytes, Template] = {}
        self._bytes = 0

    def of(self, spec: PodSpec) -> Template:
        """The template of a spec, wherever its pod is."""
        bare = structs.replace(spec, node_name="") if spec.node_name else spec
        if any(map(_names_claim, spec.volumes)):
            bare = structs.replace(bare, volumes=[_A_CLAIM if _names_claim(one) else one for one in spec.volumes])
        key = msgspec.json.encode(bare)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_TEMPLATES or self._bytes >= _MOST_BYTES:
                self._known.clear()
                self._bytes = 0
            found = self._known[key] = _template(bare)
            self._bytes += len(key)
        return found

    def shared(self, pod: Pod, template: Template) -> Pod:
        """The same pod, with the spec that all pods of the template share as far as they can."""
        node, volumes = pod.spec.node_name, pod.spec.volumes
        if any(map(_names_claim, volumes)):
            # Each pod has claims of its own, and the rest in common.
            return structs.replace(pod, spec=structs.replace(template.spec, node_name=node, volumes=volumes))
        return structs.replace(pod, spec=structs.replace(template.spec, node_name=node) if node else template.spec)


def _names_claim(volume: Volume) -> bool:
    return volume.persistent_volume_claim is not None


def _template(spec: PodSpec) -> Template:
    problem = ""
    try:
        request = request_of(spec)
    except BadObject as unread:
        request, problem = {PODS: 1}, unread.message
    pod = Pod(spec=spec)
    ports = tuple(host_ports_of(spec))
    unsupported, liked = tuple(unsupported_fields(pod)), tuple(wishes(spec))
    excess = ""
    if len(ports) > MOST_PORTS:
        excess = f"it asks for {len(ports):,} host ports, and a pod may ask for {MOST_PORTS:,}"
    return Template(spec, request, shape_of(pod, request), ports, problem, unsupported, liked, excess)


def shape_of(pod: Pod, request: Request) -> bytes:
    """All that matters of a pod for placement, as a key: pods of one shape are interchangeable."""
    spec = pod.spec
    affinity = spec.affinity.node_affinity if spec.affinity else None
    seen = (
        sorted(request.items()),
        sorted(spec.node_selector.items()),
        affinity,
        spec.tolerations,
        host_ports_of(spec),
    )
    return msgspec.json.encode(seen)
