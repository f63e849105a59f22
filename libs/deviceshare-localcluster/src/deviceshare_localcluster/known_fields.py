"""Warnings about fields of manifests that are unknown, as of kubectl's strict validation, or that have no effect here.

``known_fields.json`` has the fields of Kubernetes' types, from the official client (``tests/local_cluster/
test_known_fields.py`` writes it); those of Volcano's types are below, from its API (staging/src/volcano.sh/apis).
"""

from functools import cache
from importlib.resources import files

import msgspec
from deviceshare.conf import did_you_mean

from deviceshare_localcluster.checks import ManifestField
from deviceshare_localcluster.kinds import KUBERNETES_JOB
from deviceshare_localcluster.workloads.admission import template_fields

Types = dict[str, dict[str, str]]
"""The fields of each type; the value is the type of a structure, or of the items of a list, '' for other values."""

_TOPOLOGY = dict.fromkeys(("mode", "highestTierAllowed", "highestTierName"), "")
_OBJECT = {"apiVersion": "", "kind": "", "metadata": "V1ObjectMeta", "status": ""}
_VOLCANO: Types = {
    "NetworkTopology": _TOPOLOGY,
    "Queue": _OBJECT | {"spec": "QueueSpec"},
    "QueueSpec": dict.fromkeys(
        (
            "weight", "capability", "reclaimable", "extendClusters", "affinity", "type", "parent", "deserved",
            "priority", "dequeueStrategy",
        ),
        "",
    ) | {"guarantee": "Guarantee"},
    "Guarantee": {"resource": ""},
    "PodGroup": _OBJECT | {"spec": "PodGroupSpec"},
    "PodGroupSpec": dict.fromkeys(
        ("minMember", "minTaskMember", "queue", "priorityClassName", "minResources"), ""
    ) | {"networkTopology": "NetworkTopology", "subGroupPolicy": "SubGroupPolicy"},
    "SubGroupPolicy": dict.fromkeys(
        ("name", "subGroupSize", "minSubGroups", "labelSelector", "matchLabelKeys"), ""
    ) | {"networkTopology": "NetworkTopology"},
    "Job": _OBJECT | {"spec": "JobSpec"},
    "JobSpec": dict.fromkeys(
        (
            "schedulerName", "minAvailable", "plugins", "runningEstimate", "queue", "maxRetry",
            "ttlSecondsAfterFinished", "priorityClassName", "minSuccess",
        ),
        "",
    ) | {
        "volumes": "VolumeSpec", "tasks": "TaskSpec", "policies": "LifecyclePolicy",
        "networkTopology": "NetworkTopology",
    },
    "VolumeSpec": {"mountPath": "", "volumeClaimName": "", "volumeClaim": "V1PersistentVolumeClaimSpec"},
    "LifecyclePolicy": dict.fromkeys(("action", "event", "events", "exitCode", "timeout"), ""),
    "TaskSpec": dict.fromkeys(("name", "replicas", "minAvailable", "topologyPolicy", "maxRetry"), "") | {
        "template": "V1PodTemplateSpec", "policies": "LifecyclePolicy", "dependsOn": "DependsOn",
        "partitionPolicy": "PartitionPolicy",
    },
    "DependsOn": {"name": "", "iteration": ""},
    "PartitionPolicy": dict.fromkeys(("totalPartitions", "partitionSize", "minPartitions"), "") | {
        "networkTopology": "NetworkTopology",
    },
}  # fmt: skip
_UNEVALUATED = {
    "QueueSpec": ("extendClusters", "affinity", "dequeueStrategy"),
    "PodGroupSpec": ("networkTopology", "subGroupPolicy"),
    "JobSpec": ("networkTopology", "runningEstimate"),
    "TaskSpec": ("topologyPolicy",),
    "PartitionPolicy": ("networkTopology",),
    "SubGroupPolicy": ("networkTopology",),
}
"""Known fields of Volcano that nothing here evaluates."""


_NAMES = {KUBERNETES_JOB: "V1Job"}
"""Types with another name than the kind."""
_TEMPLATE = "V1PodTemplateSpec"


@cache
def _types() -> Types:
    text = files(__package__).joinpath("known_fields.json").read_bytes()
    return msgspec.json.decode(text, type=Types) | _VOLCANO


def warn_of_fields(kind: str, root: ManifestField) -> None:
    """Warn of the fields of a manifest that are unknown, and of known ones without an effect.

    ``kind`` is a name in :data:`~deviceshare_localcluster.kinds.KINDS`. Of custom resources of other projects, pod
    templates are checked.
    """
    types = _types()
    name = _NAMES.get(kind) or (kind if kind in types else f"V1{kind}")
    if name in types:
        _check(root, name, types)
        return
    for template in template_fields(root):
        _check(template, _TEMPLATE, types)


def _check(field: ManifestField, name: str, types: Types) -> None:
    value = field.value
    if isinstance(value, list):
        for item in field.items():
            _check(item, name, types)
    if not isinstance(value, dict):
        return
    fields, without_effect = types[name], _UNEVALUATED.get(name, ())
    for key in value:
        if not isinstance(key, str):
            continue
        found = field[key]
        if key not in fields:
            found.warn(f'unknown field "{found.path}"{did_you_mean(key, fields)}')
        elif key in without_effect:
            found.warn(f'field "{found.path}" of Volcano is not evaluated{_effect(key, found.value)}')
        if fields.get(key):
            _check(found, fields[key], types)


def _effect(key: str, value: object) -> str:
    """Return what follows from a field that is not evaluated: what nodes would have to meet makes pods wait."""
    if key == "networkTopology":
        waits = isinstance(value, dict) and value.get("mode") != "soft"
    else:
        waits = key == "topologyPolicy" and value not in (None, "", "none")
    return ": its pods are not placed" if waits else " and has no effect"
