"""Kubernetes objects of any kind."""

from collections.abc import Mapping
from typing import Any

_VERSIONS = {
    "Deployment": "apps/v1",
    "Job": "batch.volcano.sh/v1alpha1",
    "PodDisruptionBudget": "policy/v1",
    "PodGroup": "scheduling.volcano.sh/v1beta1",
    "Queue": "scheduling.volcano.sh/v1beta1",
    "StorageClass": "storage.k8s.io/v1",
}


def manifest(kind: str, metadata: Mapping[str, Any], version: str = "", **fields: Any) -> dict[str, Any]:
    """Return an object; without ``version`` it is of ``v1``, Volcano or the only API that has the kind."""
    return {"apiVersion": version or _VERSIONS.get(kind, "v1"), "kind": kind, "metadata": metadata, **fields}
