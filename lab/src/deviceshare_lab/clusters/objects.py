"""The objects of made clusters: nodes, pods, PodGroups, queues and configurations."""

from collections.abc import Mapping
from typing import Any

from deviceshare_cluster.interface import Object

TOLERANT: Mapping[str, Any] = {"tolerations": [{"operator": "Exists"}]}
"""The part of a pod's spec with which it runs on every node."""
_AS_REQUESTS = ("huawei.com/npu-core",)
"""Resources that Volcano reads from the requests, which an API server fills in."""


def node(
    name: str,
    resources: Mapping[str, str],
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """Return a ready node, all of whose resources are allocatable."""
    amounts = {"cpu": "128", "memory": "1Ti", "pods": "110", **resources}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels or {}), "annotations": dict(annotations or {})},
        "spec": spec,
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(
    name: str,
    limits: Mapping[str, str],
    *,
    namespace: str = "default",
    scheduler: str = "deviceshare",
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    group: str = "",
    queue: str = "",
    **spec: Any,
) -> Object:
    """Return a pod of one container, in a PodGroup if ``group`` and in a queue if ``queue`` is given."""
    written = dict(annotations or {})
    if group:
        written["scheduling.k8s.io/group-name"] = group
    if queue:
        written["scheduling.volcano.sh/queue-name"] = queue
    requests = {resource: amount for resource, amount in limits.items() if resource in _AS_REQUESTS}
    resources = {"limits": dict(limits), **({"requests": requests} if requests else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": written, "labels": dict(labels or {})},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "main", "image": "busybox", "resources": resources}],
            **spec,
        },
    }


def pod_group(
    name: str, minimum: int, queue: str = "default", namespace: str = "default", priority_class: str = ""
) -> Object:
    """Return a PodGroup."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "minMember": minimum,
            "queue": queue,
            **({"priorityClassName": priority_class} if priority_class else {}),
        },
        "status": {"phase": "Pending"},
    }


def queue(name: str, capability: Mapping[str, str] | None = None) -> Object:
    """Return a Queue, with a limit for each resource of ``capability``."""
    spec = {"weight": 1, "reclaimable": True, **({"capability": dict(capability)} if capability else {})}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"state": "Open"},
    }


def config_map(name: str, namespace: str, data: Mapping[str, str], labels: Mapping[str, str] | None = None) -> Object:
    """Return a ConfigMap."""
    metadata = {"name": name, "namespace": namespace, "labels": dict(labels or {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}


def priority_class(name: str, value: int) -> Object:
    """Return a PriorityClass."""
    metadata = {"name": name}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value}


def budget(name: str, minimum: int, labels: Mapping[str, str], namespace: str = "default") -> Object:
    """Return a PodDisruptionBudget: so many of the pods with these labels stay."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace, "generation": 1},
        "spec": {"minAvailable": minimum, "selector": {"matchLabels": dict(labels)}},
    }


def conf(
    arguments: Mapping[str, str | int],
    *,
    plugins: tuple[str, ...] = (),
    actions: tuple[str, ...] = ("enqueue", "allocate", "backfill"),
) -> str:
    """Return a ``volcano-scheduler.conf`` with these arguments of deviceshare, after other plugins."""
    lines = [f"  - name: {plugin}\n" for plugin in (*plugins, "deviceshare")]
    lines += ["    arguments:\n", *(f"      deviceshare.{name}: {value}\n" for name, value in arguments.items())]
    return f'actions: "{", ".join(actions)}"\ntiers:\n- plugins:\n' + "".join(lines)
