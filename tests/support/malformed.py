"""Objects of every kind that services read, and the same objects with each field replaced by values of wrong types."""

import json
from collections.abc import Iterator
from typing import Any

from deviceshare.objects import DEVICE_KINDS, KINDS
from deviceshare_localcluster import LocalCluster

Object = dict[str, Any]

WRONG: tuple[Any, ...] = ("text", 7, None, [], [None], {"a": None}, "\x00 …")
"""Values that a field may have instead of its own."""
_META = {
    "uid": "u1",
    "creationTimestamp": "2026-01-01T00:00:00Z",
    "labels": {"app": "a"},
    "annotations": {
        "volcano.sh/vgpu-ids-new": "GPU-1,NVIDIA,1,1:",
        "deviceshare.io/fenced-claims": "c1",
        "scheduling.k8s.io/group-name": "g",
        "pod-complete.stage.kwok.x-k8s.io/delay": "1h",
        "volume.kubernetes.io/selected-node": "n1",
    },
    "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "none", "controller": True}
    ],
}
_CONTAINER = {"name": "main", "image": "busybox", "resources": {"limits": {"volcano.sh/vgpu-number": "1"}}}
_TERM = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
_POD_SPEC = {
    "schedulerName": "volcano",
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER | {"name": "first"}],
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "a"}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_TERM]}}},
    "volumes": [
        {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}},
    ],
    "schedulingGates": [{"name": "g"}],
}
_STATUS = {
    "phase": "Pending",
    "startTime": "2026-01-01T00:00:00Z",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "r", "message": "m"}],
}
_TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [_CONTAINER]}}
_SELECTOR = {"matchLabels": {"app": "a"}}
OBJECTS: dict[str, tuple[str, Object]] = {
    "Pod": ("v1", {"spec": _POD_SPEC, "status": _STATUS}),
    "Node": ("v1", {"spec": {"taints": [{"key": "a"}]}, "status": {"allocatable": {"cpu": "1"}, "conditions": [{}]}}),
    "PodGroup": (
        "scheduling.volcano.sh/v1beta1",
        {
            "spec": {"minMember": 1, "minTaskMember": {"a": 1}, "minResources": {"cpu": "1"}, "queue": "q"},
            "status": {"phase": "Pending", "conditions": [{"type": "Unschedulable", "status": "True"}]},
        },
    ),
    "Queue": (
        "scheduling.volcano.sh/v1beta1",
        {"spec": {"weight": 1, "capability": {"cpu": "1"}}, "status": {"state": "Open", "allocated": {"cpu": "1"}}},
    ),
    "PriorityClass": ("scheduling.k8s.io/v1", {"value": 5, "globalDefault": False}),
    "Namespace": ("v1", {}),
    "PodDisruptionBudget": (
        "policy/v1",
        {
            "spec": {"minAvailable": 1, "selector": _SELECTOR},
            "status": {"disruptionsAllowed": 1, "conditions": [{"type": "DisruptionAllowed", "status": "True"}]},
        },
    ),
    "ConfigMap": ("v1", {"data": {"a": "b"}}),
    "PersistentVolumeClaim": (
        "v1",
        {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "s",
                "selector": _SELECTOR,
            },
            "status": {"phase": "Pending"},
        },
    ),
    "PersistentVolume": (
        "v1",
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "claimRef": {"namespace": "default", "name": "a", "uid": "u1"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [_TERM]}},
                "csi": {"driver": "d", "volumeHandle": "h"},
            },
            "status": {"phase": "Available"},
        },
    ),
    "StorageClass": (
        "storage.k8s.io/v1",
        {"provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": [_TERM]},
    ),
    "CSINode": ("storage.k8s.io/v1", {"spec": {"drivers": [{"name": "d", "allocatable": {"count": 1}}]}}),
    "DeviceClass": (
        "resource.k8s.io/v1",
        {"spec": {"selectors": [{"cel": {"expression": "true"}}], "extendedResourceName": "example.com/gpu"}},
    ),
    "DeviceTaintRule": (
        "resource.k8s.io/v1",
        {"spec": {"deviceSelector": {"pool": "n1"}, "taint": {"key": "k", "value": "v", "effect": "NoSchedule"}}},
    ),
    "ResourceSlice": (
        "resource.k8s.io/v1",
        {
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": "n1",
                "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0", "attributes": {"index": {"int": 0}}, "capacity": {"m": {"value": "1"}}}],
            }
        },
    ),
    "ResourceClaim": (
        "resource.k8s.io/v1",
        {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "a", "count": 1}}]}}},
    ),
    "Job": (
        "batch.volcano.sh/v1alpha1",
        {"spec": {"minAvailable": 1, "tasks": [{"name": "w", "replicas": 1, "template": _TEMPLATE}]}},
    ),
    "ReplicaSet": ("apps/v1", {"spec": {"replicas": 1, "selector": _SELECTOR, "template": _TEMPLATE}}),
}
"""By kind, the version and a valid object without its metadata."""
CLUSTER_SCOPED = tuple(name for name, kind in {**KINDS, **DEVICE_KINDS}.items() if not kind.namespaced)


def valid(kind: str, name: str = "a") -> Object:
    """Return an object whose fields are all valid."""
    version, rest = OBJECTS[kind]
    where = {} if kind in CLUSTER_SCOPED else {"namespace": "default"}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **where, **_META}, **rest}


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _paths(item, (*path, key))


def malformed(kind: str) -> Iterator[Object]:
    """Yield the object with each field, apart from its kind and name, replaced by each wrong value."""
    for path in _paths(valid(kind)):
        if path[0] in ("apiVersion", "kind") or path[:2] in (("metadata", "name"), ("metadata", "namespace")):
            continue
        if path == ("metadata",):
            continue
        for wrong in WRONG:
            obj = json.loads(json.dumps(valid(kind)))
            holder = obj
            for step in path[:-1]:
                holder = holder[step]
            holder[path[-1]] = wrong
            yield obj


async def put_raw(cluster: LocalCluster, subject: str, data: bytes) -> None:
    """Store what no admission has seen."""
    await cluster._store._connection.jetstream.publish(subject, data)


BROKEN = (
    b"{",
    b"[]",
    b"null",
    b'"a"',
    b"{}",
    b'{"metadata":7}',
    b"\xff\xfe",
    b'{"metadata":{"name":"a"}}',
    b"[" * 5000,
)
"""What is no object at all, or has no metadata."""
