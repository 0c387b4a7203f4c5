"""Clusters as files, for the page to show."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Document = dict[str, Any]
# What a browser would obey, if it were markup anywhere.
HOSTILE = "<img src=x onerror=alert(1)>"
CLOSING = '</script><script>alert(1)</script>"><b onmouseover=alert(1)>'


def write(path: Path, items: list[Document]) -> Path:
    """The objects as one file."""
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return path


def topology(*levels: str, name: str = "datacenter") -> Document:
    spec = {"levels": [{"nodeLabel": level} for level in levels]}
    return {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": name}, "spec": spec}


def node(name: str, gpus: int = 8, *, cordoned: bool = False, **labels: str) -> Document:
    status = {"allocatable": {"nvidia.com/gpu": str(gpus), "cpu": "64", "memory": "512Gi", "pods": "110"}}
    spec = {"unschedulable": True} if cordoned else {}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}


def gang(name: str, namespace: str = "default", **spec: Any) -> Document:
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": "2026-11-16T03:00:00Z"}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def pod(name: str, of: str, gpus: int, on: str = "", namespace: str = "default", leaf: str = "") -> Document:
    spec: Document = {"schedulerName": "kai-scheduler"}
    spec["containers"] = [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": str(gpus), "cpu": "1"}}}]
    if on:
        spec["nodeName"] = on
    metadata: Document = {"name": name, "namespace": namespace, "annotations": {"pod-group-name": of}}
    if leaf:
        metadata["labels"] = {"kai.scheduler/subgroup-name": leaf}
    status = {"phase": "Running" if on else "Pending"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def queue(name: str, quota: float, parent: str = "", **more: Any) -> Document:
    spec: Document = {"resources": {"gpu": {"quota": quota, **more}}}
    if parent:
        spec["parentQueue"] = parent
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def small() -> list[Document]:
    """Two zones of two racks of two nodes: one gang runs, one has surplus that waits, one waits for a rack."""
    items = [topology("zone", "rack"), queue("all", 64, limit=64)]
    items += [queue("inference", 40, "all"), queue("training", 24, "all")]
    for rack in range(4):
        for number in range(2):
            zone = f"zone-{'ab'[rack // 2]}"
            items.append(node(f"n{rack}{number}", zone=zone, rack=f"rack-{rack}", cordoned=(rack, number) == (3, 1)))
    rack = {"topology": "datacenter", "requiredTopologyLevel": "rack"}
    items += [gang("serve", queue="inference", minMember=2, preemptibility="semi-preemptible", topologyConstraint=rack)]
    items += [pod(f"serve-{number}", "serve", 4, f"n0{number % 2}") for number in range(4)]
    items += [gang("holds", queue="training", minMember=1), pod("holds-0", "holds", 4, "n10")]
    items += [gang("more", queue="training", minMember=1), pod("more-0", "more", 2, "n20")]
    # 16 GPUs in one rack: each of the three racks that are left has less.
    items += [gang("waits", queue="training", minMember=4, topologyConstraint=rack)]
    items += [pod(f"waits-{number}", "waits", 4) for number in range(4)]
    return items


def newcomer() -> str:
    """A gang that somebody might submit to `small`, as they would write it: there is room."""
    return manifest(
        gang("newcomer", queue="inference", minMember=2), *(pod(f"newcomer-{n}", "newcomer", 4) for n in range(2))
    )


def pusher() -> str:
    """One for whom somebody has to go: all of a rack, with a priority above the others."""
    rack = {"topology": "datacenter", "requiredTopologyLevel": "rack"}
    spec = {"queue": "training", "minMember": 4, "priorityClassName": "inference", "topologyConstraint": rack}
    return manifest(gang("pusher", **spec), *(pod(f"pusher-{n}", "pusher", 4) for n in range(4)))


def manifest(*items: Document) -> str:
    """Objects as somebody would hand them in."""
    return "\n---\n".join(json.dumps(item, indent=1) for item in items)


def hostile() -> list[Document]:
    """Names that are markup, everywhere where a file may have any text."""
    items = [topology("zone", "rack"), queue("good", 64), queue(HOSTILE, 8)]
    items += [node(f"{HOSTILE}{number}", zone=HOSTILE, rack=f"{CLOSING}{number}") for number in range(3)]
    items += [gang("placed", queue="good", minMember=2), *(pod(f"{HOSTILE}{n}", "placed", 8) for n in range(2))]
    rack = {"topology": "datacenter", "requiredTopologyLevel": "rack"}
    items += [gang("waits", queue="good", minMember=3, topologyConstraint=rack)]
    items += [pod(f"waits{HOSTILE}{number}", "waits", 8) for number in range(3)]
    items += [gang(HOSTILE, HOSTILE, queue=HOSTILE, minMember=1), pod(HOSTILE, HOSTILE, 1, namespace=HOSTILE)]
    items += [gang("lost", queue=CLOSING, minMember=1), pod("lost-0", "lost", 1)]
    # Names that every object of JavaScript has already.
    items += [node("__proto__", zone="constructor", rack="__proto__"), queue("__proto__", 4)]
    items += [gang("constructor", "constructor", queue="constructor", minMember=1)]
    items += [pod("constructor", "constructor", 1, namespace="constructor")]
    items += [gang("__proto__", "__proto__", queue="__proto__", minMember=1)]
    items += [pod("__proto__", "__proto__", 1, "__proto__", namespace="__proto__")]
    return items


def two_ways() -> list[Document]:
    """The same nodes by racks and by feeds; one gang is held in a feed, one in a rack; none says since when it is."""
    items = [topology("rack", name="dc"), topology("feed", name="power")]
    items += [node(f"n{number}", rack=f"rack-{number // 2}", feed=f"feed-{number % 2}") for number in range(4)]
    for name, where, level in (("fed", "power", "feed"), ("racked", "dc", "rack")):
        held = {"topology": where, "requiredTopologyLevel": level}
        items += [gang(name, queue=f"of-{name}", minMember=2, topologyConstraint=held)]
    items += [pod("fed-0", "fed", 4, "n0"), pod("fed-1", "fed", 4, "n2")]
    items += [pod("racked-0", "racked", 4, "n0"), pod("racked-1", "racked", 4, "n1")]
    for one in items:
        one["metadata"].pop("creationTimestamp", None)
    return items


def wrong() -> list[Document]:
    """What can't be used, and names that would turn round or push away what stands beside them."""
    turned = f"\u05d0\u05d1\u05d2{'A' * 200}"
    items = [topology("zone"), queue("named", 8), node("n", zone=turned), node("m", zone=turned)]
    items[1]["spec"]["displayName"] = "Research"
    items += [gang("bad", minMember=-1), {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}]
    held = {"topology": "datacenter", "requiredTopologyLevel": "zone"}
    items += [gang("good", queue="named", minMember=1, topologyConstraint=held), pod("good-0", "good", 4, "n")]
    items += [gang("late", queue="named", minMember=1, topologyConstraint=held), pod("late-0", "late", 6)]
    items += [pod("extra-0", "good", 9)]
    return items


def large(nodes: int = 5_000, gangs: int = 200) -> list[Document]:
    """Five zones of ten blocks of ten racks; most of it is taken, by gangs of 40 pods of 4 GPUs."""
    return [topology("zone", "block", "rack"), queue("all", nodes * 8), *_many(nodes), *_much(nodes, gangs)]


def _many(nodes: int) -> Iterator[Document]:
    for number in range(nodes):
        rack = number // 10
        labels = {"zone": f"zone-{rack // 100}", "block": f"block-{rack // 10:02}", "rack": f"rack-{rack:03}"}
        yield node(f"node-{number:04}", cordoned=number % 997 == 0, **labels)


def _much(nodes: int, gangs: int) -> Iterator[Document]:
    for number in range(gangs):
        name = f"gang-{number:03}"
        yield gang(name, queue="all", minMember=30)
        for member in range(40):
            where = (number * 40 + member) // 2
            yield pod(f"{name}-{member}", name, 4, f"node-{where:04}" if where < nodes else "")
    yield gang("too-much", queue="all", minMember=nodes)
    for member in range(20):
        yield pod(f"too-much-{member}", "too-much", 8)
