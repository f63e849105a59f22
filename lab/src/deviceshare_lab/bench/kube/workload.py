"""The nodes and pods of ``deviceshare lab bench kube``."""

from deviceshare.families import SERVED
from deviceshare_cluster.interface import Object

from deviceshare_lab.clusters import objects

CARDS, CARD_MEMORY = 8, 24_576
MEMORY = 1000
CONF = objects.conf("deviceshare.GPUSharingEnable", "spread")
OURS = "deviceshare"
"""``spec.schedulerName`` of the pods that the system binds."""
PODS = "/api/v1/namespaces/default/pods"


def node(number: int) -> Object:
    """Return a node of eight cards."""
    devices = {"volcano.sh/gpu-memory": str(CARD_MEMORY * CARDS), "volcano.sh/gpu-number": str(CARDS)}
    resources = {"cpu": "128", "memory": "1Ti", "pods": "250", **devices}
    return objects.node(f"node-{number:05d}", resources, {})


def pod(name: str, scheduler: str, *, plugins: bool) -> Object:
    """Return a pod that requests a part of a card; without ``plugins`` it needs no device plugin."""
    made = objects.pod("default", name, scheduler, {"volcano.sh/gpu-memory": str(MEMORY)})
    made["metadata"]["annotations"] = {} if plugins else {SERVED: "true"}
    made["spec"]["tolerations"] = [{"operator": "Exists"}]
    return made


def binding(name: str, node: str, annotations: dict[str, str]) -> Object:
    """Return the Binding of a pod with its annotations."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
