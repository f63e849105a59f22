"""Kubernetes objects as plain manifests: hami-core nodes and the pods that share them."""

from typing import Any

from deviceshare_lab.clusters import objects
from deviceshare_lab.clusters.cards import vgpu

CARDS = 8


def node(number: int) -> dict[str, Any]:
    """Return a node of 8 cards of 80 GiB, as the vGPU device plugin registers them."""
    ids = [f"GPU-{number:05d}-{index}" for index in range(CARDS)]
    published = vgpu(ids, "NVIDIA-NVIDIA A100-SXM4-80GB", 81920, 10, "hami-core")
    return objects.node(f"node-{number:05d}", published.resources, published.annotations)


def pod(number: int, *, group: str | None = None, namespace: str = "default") -> dict[str, Any]:
    """Return a pod that asks a tenth to a third of a card; ten kinds of them."""
    limits = {
        "cpu": "500m",
        "volcano.sh/vgpu-number": "1",
        "volcano.sh/vgpu-cores": "10",
        "volcano.sh/vgpu-memory": str(8192 + 2048 * (number % 10)),
    }
    return objects.pod(f"pod-{number:05d}", limits, namespace=namespace, group=group or "")


pod_group = objects.pod_group
