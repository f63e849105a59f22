"""Kubernetes objects as plain manifests: hami-core nodes and the pods that share them."""

from typing import Any

CARDS = 8


def node(number: int) -> dict[str, Any]:
    """Return a node of 8 cards of 80 GiB, as the vGPU device plugin registers them."""
    register = "".join(
        f"GPU-{number:05d}-{index},10,81920,NVIDIA-NVIDIA A100-SXM4-80GB,true,hami-core:" for index in range(CARDS)
    )
    resources = {
        "cpu": "128",
        "memory": "1Ti",
        "pods": "110",
        "volcano.sh/vgpu-number": str(10 * CARDS),
        "volcano.sh/vgpu-memory": str(81920 * CARDS),
        "volcano.sh/vgpu-cores": str(100 * CARDS),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number:05d}", "annotations": {"volcano.sh/node-vgpu-register": register}},
        "status": {"allocatable": resources, "capacity": resources},
    }


def pod(number: int, *, group: str | None = None, namespace: str = "default") -> dict[str, Any]:
    """Return a pod that asks a tenth to a third of a card; ten kinds of them."""
    limits = {
        "cpu": "500m",
        "volcano.sh/vgpu-number": "1",
        "volcano.sh/vgpu-cores": "10",
        "volcano.sh/vgpu-memory": str(8192 + 2048 * (number % 10)),
    }
    annotations = {"scheduling.k8s.io/group-name": group} if group else {}
    container = {"name": "main", "image": "busybox", "resources": {"limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": f"pod-{number:05d}", "annotations": annotations},
        "spec": {"schedulerName": "deviceshare", "containers": [container]},
    }


def podgroup(name: str, minimum: int, *, namespace: str = "default") -> dict[str, Any]:
    """Return a PodGroup of the default queue."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"minMember": minimum, "queue": "default"},
    }
