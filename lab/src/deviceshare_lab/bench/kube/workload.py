"""The nodes and pods of ``deviceshare lab bench kube``."""

from typing import Any

from deviceshare.families import SERVED
from deviceshare_cluster.interface import Object

from deviceshare_lab.clusters import objects
from deviceshare_lab.clusters.cards import gpus

CARDS, CARD_MEMORY = 8, 24_576
MEMORY = 1000
CONF = objects.conf({"GPUSharingEnable": "true", "SchedulePolicy": "spread", "ScheduleWeight": 10})
OURS = "deviceshare"
"""``spec.schedulerName`` of the pods that the system binds."""
PODS = "/api/v1/namespaces/default/pods"


def node(number: int) -> Object:
    """Return a node of eight cards."""
    return objects.node(f"node-{number:05d}", {"pods": "250", **gpus(CARDS, CARD_MEMORY).resources})


def pod(name: str, scheduler: str, *, plugins: bool) -> Object:
    """Return a pod that requests a part of a card; without ``plugins`` it needs no device plugin."""
    limits, annotations = {"volcano.sh/gpu-memory": str(MEMORY)}, {} if plugins else {SERVED: "true"}
    return objects.pod(name, limits, scheduler=scheduler, annotations=annotations, **objects.TOLERANT)


def plain_pod(name: str, scheduler: str, **spec: Any) -> Object:
    """Return a pod without devices of nodes."""
    return objects.pod(name, {"cpu": "1m"}, scheduler=scheduler, **objects.TOLERANT, **spec)


def binding(name: str, node: str, annotations: dict[str, str]) -> Object:
    """Return the Binding of a pod with its annotations."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
