"""Which placed pods may be restarted elsewhere: those that a controller creates again, and that nothing forbids. Pure.

The rules are those of Kubernetes' descheduler and cluster autoscaler, as far as the objects in a snapshot show them.
"""

from collections.abc import Mapping

from deviceshare.model import PodFact, PodGroupFact

from deviceshare_cli.recreation import PodParts, obstacle_to_recreate

NEVER = "restartPolicy Never"
NO_POD_GROUP = "PodGroup not found"
GANG = "member of a gang"
CRITICAL = "system-critical priority"
LOCAL_VOLUME = "local volume"
INVALID = "request that is not valid"
QUEUE = "queue that takes no pods"
UNKNOWN_CARDS = "cards that the kubelet chooses"
"""Why a pod is not restarted, in the order in which the reasons are checked, :data:`FORBIDDEN` after the gangs."""

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
EVICT = "descheduler.alpha.kubernetes.io/evict"
PREFER_NO_EVICTION = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
FORBIDDEN: Mapping[str, str | None] = {SAFE_TO_EVICT: "false", PREFER_NO_EVICTION: None, DO_NOT_DISRUPT: "true"}
"""Annotations that forbid an eviction, and the value with which they do; None: with any value."""
SYSTEM_CRITICAL = 2_000_000_000
"""The least priority of the PriorityClasses ``system-cluster-critical`` and ``system-node-critical``."""


def obstacle_to_restart(fact: PodFact, pod: PodParts | None, group: PodGroupFact | None) -> str:
    """Return why a placed pod is not restarted, '' if it may be.

    Args:
        fact: the pod.
        pod: of its object, None if it is not known.
        group: its PodGroup, None if it has none, or if it is not known.
    """
    if (obstacle := obstacle_to_recreate(fact, pod)) or pod is None:
        return obstacle
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


def _local_volumes(pod: PodParts) -> set[str]:
    """Return the names of the volumes whose content a restart on another node loses."""
    volumes = pod.spec.volumes or ()
    local = {
        each.name or ""
        for each in volumes
        if each.host_path is not None or (each.empty_dir is not None and each.empty_dir.medium != "Memory")
    }
    safe = (pod.metadata.annotations or {}).get(SAFE_VOLUMES, "")
    return local - {name.strip() for name in safe.split(",")}
