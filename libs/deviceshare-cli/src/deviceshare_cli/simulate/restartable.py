"""Which placed pods may be restarted elsewhere: those that a controller creates again, and that nothing forbids. Pure.

The rules are those of Kubernetes' descheduler and cluster autoscaler, as far as the objects in a snapshot show them.
"""

from collections.abc import Mapping

import msgspec
from deviceshare.model import PodFact, PodGroupFact
from deviceshare.objects.views import Metadata, Present
from deviceshare_cluster.interface import Object

TERMINATING = "terminating"
UNREAD = "Pod object not read"
STATIC = "static pod"
DAEMON_SET = "pod of a DaemonSet"
NO_CONTROLLER = "no controller that creates it again"
NEVER = "restartPolicy Never"
NO_POD_GROUP = "PodGroup not found"
GANG = "member of a gang"
CRITICAL = "system-critical priority"
LOCAL_VOLUME = "local volume"
OTHER_SCHEDULER = "another scheduler"
INVALID = "request that is not valid"
QUEUE = "queue that takes no pods"
UNKNOWN_CARDS = "cards that the kubelet chooses"
"""Why a pod is not restarted, in the order in which the reasons are checked, :data:`FORBIDDEN` after the gangs."""

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
EVICT = "descheduler.alpha.kubernetes.io/evict"
PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
MIRROR = "kubernetes.io/config.mirror"
FORBIDDEN: Mapping[str, str | None] = {SAFE_TO_EVICT: "false", PREFER_NO_EVICTION: None, DO_NOT_DISRUPT: "true"}
"""Annotations that forbid an eviction, and the value with which they do; None: with any value."""
SYSTEM_CRITICAL = 2_000_000_000
"""The least priority of the PriorityClasses ``system-cluster-critical`` and ``system-node-critical``."""


class _Owner(msgspec.Struct, rename="camel"):
    kind: str | None = None
    controller: bool | None = None


class _Metadata(Metadata):
    owner_references: list[_Owner] | None = None


class _EmptyDir(msgspec.Struct, rename="camel"):
    medium: str | None = None


class _Volume(msgspec.Struct, rename="camel"):
    name: str | None = None
    host_path: Present | None = None
    empty_dir: _EmptyDir | None = None


class _Spec(msgspec.Struct, rename="camel"):
    restart_policy: str | None = None
    volumes: list[_Volume] | None = None


class _Pod(msgspec.Struct, rename="camel"):
    metadata: _Metadata
    spec: _Spec


def obstacle_to_restart(fact: PodFact, obj: Object | None, group: PodGroupFact | None) -> str:
    """Return why a placed pod is not restarted, '' if it may be.

    Args:
        fact: the pod.
        obj: its object, None if it is not known.
        group: its PodGroup, None if it has none, or if it is not known.
    """
    if obstacle := obstacle_to_recreate(fact, obj):
        return obstacle
    pod = _decoded(obj)
    assert pod is not None
    annotations = pod.metadata.annotations or {}
    if pod.spec.restart_policy == "Never":
        return NEVER
    if fact.podgroup and group is None:
        return NO_POD_GROUP
    if group is not None and group.min_member > 1:
        return GANG
    for name, value in FORBIDDEN.items():
        if name in annotations and value in (None, annotations[name]):
            return f"annotation {name}"
    if fact.priority >= SYSTEM_CRITICAL:
        return CRITICAL
    if _local_volumes(pod) and not (EVICT in annotations or annotations.get(SAFE_TO_EVICT) == "true"):
        return LOCAL_VOLUME
    return ""


def obstacle_to_recreate(fact: PodFact, obj: Object | None) -> str:
    """Return why no controller creates a pod again on another node when it is gone, '' if one does.

    ``obj``: its object, None if it is not known.
    """
    pod = _decoded(obj)
    if pod is None:
        return TERMINATING if fact.terminating else UNREAD
    owner = next((each.kind for each in pod.metadata.owner_references or () if each.controller), None)
    if MIRROR in (pod.metadata.annotations or {}) or owner == "Node":
        return STATIC
    if owner == "DaemonSet":
        return DAEMON_SET
    if fact.terminating:
        return TERMINATING
    return NO_CONTROLLER if owner is None else ""


def empty_dirs(obj: Object) -> list[str]:
    """Return the names of the volumes of a pod whose data is lost with it."""
    pod = _decoded(obj)
    volumes = (pod.spec.volumes or ()) if pod is not None else ()
    return [each.name or "" for each in volumes if each.empty_dir is not None]


def _decoded(obj: Object | None) -> _Pod | None:
    try:
        return None if obj is None else msgspec.convert(obj, _Pod)
    except msgspec.ValidationError:
        return None


def _local_volumes(pod: _Pod) -> set[str]:
    """Return the names of the volumes whose content a restart on another node loses."""
    volumes = pod.spec.volumes or ()
    local = {
        each.name or ""
        for each in volumes
        if each.host_path is not None or (each.empty_dir is not None and each.empty_dir.medium != "Memory")
    }
    safe = (pod.metadata.annotations or {}).get(SAFE_VOLUMES, "")
    return local - {name.strip() for name in safe.split(",")}
