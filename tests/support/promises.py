"""A queue that promised all that it has to a job, and a later job that is not admitted while it keeps that."""

from typing import Any

from support.card_objects import MEMORY, node, waiting

CONF = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: capacity
  - name: deviceshare
    arguments: {deviceshare.VGPUEnable: true, deviceshare.PromiseReturnEnable: RETURNS}
"""
QUEUE = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "q"},
    "spec": {"capability": {"volcano.sh/vgpu-memory": str(2 * MEMORY)}},
}


def conf(*, returns: bool) -> str:
    """Return a configuration in which jobs that can never run give back what their queue promised them, or not."""
    return CONF.replace("RETURNS", str(returns).lower())


def never_and_later(memory: int = 2 * MEMORY, annotations: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """Return the cluster; the pod of the first job ``never`` asks so much of one card, and has these annotations."""
    cluster = [node("a", cards=2), QUEUE]
    for day, (name, asked, added) in enumerate((("never", memory, annotations or {}), ("later", 6000, {})), 1):
        group = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"namespace": "default", "name": name, "creationTimestamp": f"2026-01-0{day}T00:00:00Z"},
            "spec": {"minMember": 1, "queue": "q", "minResources": {"volcano.sh/vgpu-memory": str(2 * MEMORY)}},
        }
        pod = waiting(name, asked)
        pod["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": name, **added}
        cluster += [group, pod]
    return cluster
