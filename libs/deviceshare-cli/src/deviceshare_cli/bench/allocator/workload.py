"""What the allocator is measured on: nodes, what is taken there, and pods to be placed one after the other."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from deviceshare.conf import SchedulerConf
from deviceshare.model import NodeFact, PodFact, PodRequest
from deviceshare.objects import decode_node, decode_pod

PODS_PER_NODE = "1000"
"""More than the cards of a node have room for: it is the devices that are measured."""


class Workload(NamedTuple):
    """Nodes with what is taken there, made as they are read, and pods: name and the number of the ask in ``asks``."""

    name: str
    conf: SchedulerConf
    nodes: Iterator[tuple[NodeFact, list[PodFact]]]
    asks: Sequence[PodRequest]
    pods: Sequence[tuple[str, int]]


def node_fact(name: str, annotations: Mapping[str, str], allocatable: Mapping[str, str]) -> NodeFact:
    """Return a node as inventory would decode it, with the labels and the native resources that any node has."""
    amounts = {"cpu": "256", "memory": "2Ti", "pods": PODS_PER_NODE, **allocatable}
    return decode_node(
        msgspec.json.encode(
            {
                "metadata": {"name": name, "annotations": annotations},
                "status": {"capacity": amounts, "allocatable": amounts},
            }
        )
    )


def pod_fact(name: str, limits: Mapping[str, str], *, node: str = "", annotations: Mapping[str, str]) -> PodFact:
    """Return a pod with one container; bound where ``node`` is given."""
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"limits": limits}}]}
    if node:
        spec["nodeName"] = node
    metadata = {"name": name, "namespace": "bench", "uid": f"{node}/{name}", "annotations": annotations}
    return decode_pod(msgspec.json.encode({"metadata": metadata, "spec": spec}))


def distinct(facts: Iterator[tuple[str, PodRequest]]) -> tuple[list[PodRequest], list[tuple[str, int]]]:
    """Return the distinct asks, and for each pod its name and the number of its ask."""
    numbers: dict[PodRequest, int] = {}
    pods = [(name, numbers.setdefault(ask, len(numbers))) for name, ask in facts]
    return list(numbers), pods
