"""The nodes and pods of ``deviceshare bench kube``."""

from deviceshare.families import SERVED
from deviceshare_cluster.interface import Object

CARDS, CARD_MEMORY = 8, 24_576
MEMORY = 1000
CONF = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: deviceshare
    arguments:
      deviceshare.GPUSharingEnable: true
      deviceshare.SchedulePolicy: spread
      deviceshare.ScheduleWeight: 10
"""
OURS = "deviceshare"
"""``spec.schedulerName`` of the pods that the system binds."""
PODS = "/api/v1/namespaces/default/pods"


def node(number: int) -> Object:
    """Return a node of eight cards."""
    devices = {"volcano.sh/gpu-memory": str(CARD_MEMORY * CARDS), "volcano.sh/gpu-number": str(CARDS)}
    resources = {"cpu": "128", "memory": "1Ti", "pods": "250", **devices}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number:05d}"},
        "status": {"allocatable": resources, "capacity": resources},
    }


def pod(name: str, scheduler: str, *, plugins: bool) -> Object:
    """Return a pod that requests a part of a card; without ``plugins`` it needs no device plugin."""
    resources = {"limits": {"volcano.sh/gpu-memory": str(MEMORY)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": {} if plugins else {SERVED: "true"}},
        "spec": {
            "schedulerName": scheduler,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "busybox", "resources": resources}],
        },
    }


def binding(name: str, node: str, annotations: dict[str, str]) -> Object:
    """Return the Binding of a pod with its annotations."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
