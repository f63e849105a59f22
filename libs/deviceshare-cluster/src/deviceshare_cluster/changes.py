"""The effect of bindings, conditions, statuses and annotations on objects: pure functions, for every cluster.

Source: the API server's handling of ``pods/binding``: node, annotations and the condition in one write.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from deviceshare.model import visible

from deviceshare_cluster.interface import Binding, BindState, Change, ChangeType, Listed, Object, PodState, StatusValue


def why_not_bound(pod: Object | None, uid: str, revision: str = "") -> Binding | None:
    """Return the answer to a binding that is not possible, None if the pod can be bound.

    ``revision``: the one that the binding expects, '' for any.
    """
    if pod is None or pod["metadata"]["uid"] != uid:
        return Binding(BindState.GONE, reason="there is no such pod" if pod is None else "the pod has another uid")
    spec = pod["spec"]
    if spec.get("nodeName"):
        return Binding(BindState.ALREADY, spec["nodeName"], pod["metadata"].get("annotations") or {})
    if spec.get("schedulingGates"):
        names = ", ".join(str(gate.get("name")) for gate in spec["schedulingGates"])
        return Binding(BindState.REFUSED, reason=f"the pod has scheduling gates: {names}")
    if has_ended(pod):
        return Binding(BindState.REFUSED, reason=f"the pod has ended: {pod['status']['phase']}")
    state = pod_state(pod)
    if revision not in ("", state.revision):
        reason = f"the pod is at revision {state.revision}, not {revision}"
        return Binding(BindState.CHANGED, "", state.annotations, reason, state.revision)
    return None


BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
"""The annotation of a PersistentVolume that no user reserved for its claim: without it the claim stays reserved."""


def reservation(volume: Object, namespace: str, claim: str, uid: str) -> Object | None:
    """Return the merge patch that reserves a PersistentVolume for a claim, None if it has a claim or is deleted.

    Source: GetBindVolumeToClaim of kubernetes component-helpers/storage/volume/pv_helpers.go.
    """
    known = volume["spec"].get("claimRef") or {}
    same = (known.get("namespace"), known.get("name")) == (namespace, claim)
    if (known and not same) or known.get("uid") or volume["metadata"].get("deletionTimestamp"):
        return None
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim, "uid": uid}
    patch: Object = {"spec": {"claimRef": reference}}
    return patch if known else patch | {"metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}}}


def has_ended(pod: Object) -> bool:
    """Return whether a pod has ended: it holds nothing, and is never bound."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def pod_state(pod: Object) -> PodState:
    """Return the state of a pod that was read."""
    metadata = pod["metadata"]
    return PodState(
        (pod.get("spec") or {}).get("nodeName") or "", metadata.get("annotations") or {}, metadata["resourceVersion"]
    )


def bind(pod: Object, node: str, annotations: Mapping[str, str], at: float) -> None:
    """Bind a pod, in place. The pod runs immediately, since there is no kubelet."""
    metadata = pod["metadata"]
    if annotations:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    pod["spec"]["nodeName"] = node
    status = pod.setdefault("status", {})
    status["phase"] = "Running"
    status["startTime"] = timestamp(at)
    set_condition(pod, status=True, reason="", message="", at=at)


def annotated(
    obj: Object, annotations: Mapping[str, str | None], expected: Mapping[str, str | None]
) -> dict[str, str] | None:
    """Return an object's annotations with these merged in (None removes one).

    None if the object does not have the expected ones, or nothing changes.
    """
    before: dict[str, str] = obj["metadata"].get("annotations") or {}
    if any(before.get(key) != value for key, value in expected.items()):
        return None
    kept = {key: value for key, value in before.items() if key not in annotations}
    after = kept | {key: value for key, value in annotations.items() if value is not None}
    return None if after == before else after


def set_condition(pod: Object, *, status: bool, reason: str, message: str, at: float) -> bool:
    """Write the condition ``PodScheduled`` into a pod, in place; return whether it changed."""
    condition: dict[str, Any] = {"type": "PodScheduled", "status": "True" if status else "False"}
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = visible(message)
    before: list[dict[str, Any]] = pod.setdefault("status", {}).get("conditions") or []
    old = next((one for one in before if one.get("type") == "PodScheduled"), {})
    if all(old.get(field, "") == condition.get(field, "") for field in ("status", "reason", "message")):
        return False
    same = old.get("status") == condition["status"] and "lastTransitionTime" in old
    condition["lastTransitionTime"] = old["lastTransitionTime"] if same else timestamp(at)
    pod["status"]["conditions"] = [one for one in before if one is not old] + [condition]
    return True


def changed_status(
    obj: Object, fields: Mapping[str, StatusValue], condition: Mapping[str, str] | None, at: float
) -> dict[str, Any] | None:
    """Return the merge patch that gives an object's status these fields and this condition, None if it has them.

    Keys that a mapping no longer has are null in the patch.
    """
    status: dict[str, Any] = obj.get("status") or {}
    # A missing number is 0.
    changed: dict[str, Any] = {
        name: value for name, value in fields.items() if status.get(name, 0 if isinstance(value, int) else "") != value
    }
    for name, value in changed.items():
        if isinstance(value, Mapping):
            changed[name] = dict.fromkeys(status.get(name) or ()) | dict(value)
    if condition is not None:
        before: list[dict[str, Any]] = status.get("conditions") or []
        wanted = {"status": "True"} | {name: visible(value) for name, value in condition.items() if value}
        old = next((one for one in before if one.get("type") == condition["type"]), {})
        if any(old.get(name, "") != wanted.get(name, "") for name in ("status", "reason", "message")):
            wanted["lastTransitionTime"] = timestamp(at)
            changed["conditions"] = [one for one in before if one is not old] + [wanted]
    return changed or None


def merged(before: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping after a merge patch (RFC 7386)."""
    found = dict(before)
    for name, value in patch.items():
        if isinstance(value, Mapping):
            found[name] = merged(found.get(name) or {}, value)
        elif value is None:
            found.pop(name, None)
        else:
            found[name] = value
    return found


def newest(items: Sequence[Change | Listed]) -> list[Change | Listed]:
    """Return the changes in order, without those that a later change of the same object supersedes.

    No change moves behind a :class:`Listed`, and deletions are kept even if the object exists again.
    """
    kept: dict[int, Change | Listed] = {}
    latest: dict[tuple[str, str, str], int] = {}
    for number, item in enumerate(items):
        if isinstance(item, Listed):
            latest.clear()
        else:
            earlier = latest.pop(item[1:4], None)
            if earlier is not None:
                del kept[earlier]
            if item.type is ChangeType.APPLIED:
                latest[item[1:4]] = number
        kept[number] = item
    return list(kept.values())


def timestamp(at: float) -> str:
    """Return unix seconds as RFC 3339, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
