"""How a pod is deleted: its grace period, and when it is gone. Pure.

A pod is gone at once if it is on no node, has ended, or its grace period is 0. Else its kubelet ends it: on a node that
is ready at once, or after the delay of the stage ``pod-delete`` (:mod:`.stages`), at the latest at the end of the grace
period; on a node that is not ready not before it is. A missing node keeps no pod. Source: Kubernetes
pkg/registry/core/pod/strategy.go (CheckGracefulDelete), staging/src/k8s.io/apiserver/pkg/registry/rest/delete.go.
"""

from collections.abc import Mapping

from deviceshare_cluster.changes import timestamp
from deviceshare_cluster.interface import Object

from deviceshare_localcluster.stages import delay_of_deletion, seconds_at

USUAL_GRACE = 30
"""Seconds of ``terminationGracePeriodSeconds`` without a value, as by the API server."""
ENDED = ("Succeeded", "Failed")
EVICTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
"""The condition of a pod that is evicted; without the time."""


def is_terminating(pod: Object) -> bool:
    """Return whether a pod is being deleted."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_node_ready(node: Object) -> bool:
    """Return whether the kubelet of a node works."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def grace_of(pod: Object, requested: int | None) -> int:
    """Return the seconds that a pod has to end; ``requested``: by the request to delete it."""
    if not pod["spec"].get("nodeName") or (pod.get("status") or {}).get("phase") in ENDED:
        return 0
    own = pod["spec"].get("terminationGracePeriodSeconds")
    grace = requested if requested is not None else USUAL_GRACE if own is None else own
    return max(0, int(grace))


def goes_at_once(pod: Object, grace: int, *, ready: bool) -> bool:
    """Return whether a pod is gone as soon as it is deleted; ``ready``: whether its node is, or does not exist."""
    return grace == 0 or (ready and not is_terminating(pod) and delay_of_deletion(pod) == 0)


def terminating(pod: Object, grace: int, at: float, *, evicted: bool) -> Object | None:
    """Return a pod that is being deleted since ``at`` (unix seconds), None if nothing changes.

    A later request can only shorten the grace period.
    """
    metadata: dict[str, object] = pod["metadata"]
    before = metadata.get("deletionGracePeriodSeconds")
    changed = dict(pod)
    if before is None or (isinstance(before, int) and grace < before):
        since = at if before is None else seconds_at(metadata["deletionTimestamp"]) - float(str(before))
        changed["metadata"] = metadata | {
            "deletionTimestamp": timestamp(since + grace),
            "deletionGracePeriodSeconds": grace,
        }
    if evicted:
        status: Mapping[str, object] = pod.get("status") or {}
        others: list[dict[str, object]] = (pod.get("status") or {}).get("conditions") or []
        if not any(one.get("type") == EVICTED["type"] and one.get("status") == "True" for one in others):
            kept = [one for one in others if one.get("type") != EVICTED["type"]]
            changed["status"] = {**status, "conditions": [*kept, EVICTED | {"lastTransitionTime": timestamp(at)}]}
    return None if changed == pod else changed


def end_of(pod: Object) -> float:
    """Return when a terminating pod on a ready node is gone, unix seconds."""
    metadata = pod["metadata"]
    last = seconds_at(metadata.get("deletionTimestamp"))
    since = last - float(metadata.get("deletionGracePeriodSeconds") or 0)
    return min(last, since + delay_of_deletion(pod))
