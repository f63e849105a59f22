"""Workloads of the allocator: nodes with existing pods, and pods to place one after the other."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from deviceshare.conf import SchedulerConf
from deviceshare.model import NodeFact, PodFact, PodRequest, Tenant
from deviceshare.objects import decode_node, decode_pod

from deviceshare_lab.clusters import objects
from deviceshare_lab.clusters.cards import Published

PODS_PER_NODE = "1000"
"""More than the cards of a node can hold: devices are the limit."""


class Workload(NamedTuple):
    """Nodes with existing pods, generated lazily, and pods: name and index of the request in ``requests``."""

    name: str
    conf: SchedulerConf
    nodes: Iterator[tuple[NodeFact, list[PodFact]]]
    requests: Sequence[PodRequest]
    pods: Sequence[tuple[str, int]]
    tenants: Sequence[Tenant] = ()
    """For each request what inter-pod constraints see of its pods; empty without such constraints."""


def node_fact(name: str, published: Published, labels: Mapping[str, str] | None = None) -> NodeFact:
    """Return a node as inventory decodes it, with the native resources."""
    amounts = {"cpu": "256", "memory": "2Ti", "pods": PODS_PER_NODE, **published.resources}
    return decode_node(msgspec.json.encode(objects.node(name, amounts, published.annotations, labels)))


def pod_fact(name: str, limits: Mapping[str, str], *, node: str = "", annotations: Mapping[str, str]) -> PodFact:
    """Return a pod with one container, bound if ``node`` is given."""
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"limits": limits}}]}
    if node:
        spec["nodeName"] = node
    metadata = {"name": name, "namespace": "bench", "uid": f"{node}/{name}", "annotations": annotations}
    return decode_pod(msgspec.json.encode({"metadata": metadata, "spec": spec}))


def distinct(requests: Iterator[tuple[str, PodRequest]]) -> tuple[list[PodRequest], list[tuple[str, int]]]:
    """Return the distinct requests, and for each pod its name and the index of its request."""
    numbers: dict[PodRequest, int] = {}
    pods = [(name, numbers.setdefault(request, len(numbers))) for name, request in requests]
    return list(numbers), pods
