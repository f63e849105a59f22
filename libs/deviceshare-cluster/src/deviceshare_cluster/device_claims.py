"""What is written to ResourceClaims: finalizer, allocation and the pods that may use it.

The API server accepts an allocation without the finalizer, and the claim then vanishes on deletion, though pods use it:
so the finalizer comes first, and is removed last. Source: kubernetes pkg/scheduler/framework/plugins/dynamicresources
(bindClaim, Unreserve).
"""

from typing import NamedTuple

from deviceshare_cluster.interface import DeviceClaimState, Object

FINALIZER = "resource.kubernetes.io/delete-protection"


class ClaimingPod(NamedTuple):
    """A pod that uses a claim."""

    name: str
    uid: str


def finalized(claim: Object, allocation: Object | None) -> Object | None:
    """Return the merge patch that sets the finalizer of a claim that is to be allocated, None if it is not needed."""
    finalizers = _finalizers(claim)
    if allocation is None or FINALIZER in finalizers or _allocation(claim) or _is_terminating(claim):
        return None
    return {"metadata": {"finalizers": [*finalizers, FINALIZER]}}


def reserved(claim: Object, allocation: Object | None, pod: ClaimingPod) -> Object | None:
    """Return the merge patch of the status that allocates a claim and reserves it for a pod.

    None if that is so, or if it cannot be: the claim has other devices, or none and ``allocation`` is None, or it is
    being deleted.
    """
    known, reserved_for = _allocation(claim), _reserved_for(claim)
    if _is_terminating(claim) or any(each.get("uid") == pod.uid for each in reserved_for):
        return None
    entry = {"resource": "pods", "name": pod.name, "uid": pod.uid}
    if known:
        mine = allocation is None or same_devices(known, allocation)
        return {"status": {"reservedFor": [*reserved_for, entry]}} if mine else None
    if allocation is None or FINALIZER not in _finalizers(claim):
        return None
    return {"status": {"allocation": allocation, "reservedFor": [entry]}}


def released(claim: Object, allocation: Object | None, pod: ClaimingPod) -> Object | None:
    """Return the merge patch of the status that takes a claim from a pod, None for nothing.

    ``allocation``: what was allocated for the pod: if no other pod uses the claim it has no devices any more.
    """
    known, reserved_for = _allocation(claim), _reserved_for(claim)
    others = [each for each in reserved_for if each.get("uid") != pod.uid]
    if known and not others and allocation is not None and same_devices(known, allocation):
        return {"status": {"allocation": None, "reservedFor": None, "devices": None}}
    return {"status": {"reservedFor": others or None}} if len(others) < len(reserved_for) else None


def unfinalized(claim: Object) -> Object | None:
    """Return the merge patch that removes the finalizer of a claim without devices, None for nothing."""
    finalizers = _finalizers(claim)
    if FINALIZER not in finalizers or _allocation(claim):
        return None
    return {"metadata": {"finalizers": [each for each in finalizers if each != FINALIZER]}}


def state_of(claim: Object, allocation: Object | None, pod: ClaimingPod) -> DeviceClaimState:
    """Return the state of a claim that was read."""
    known = _allocation(claim)
    return DeviceClaimState(
        revision=claim["metadata"]["resourceVersion"],
        allocated=bool(known),
        elsewhere=bool(known) and allocation is not None and not same_devices(known, allocation),
        reserved=any(each.get("uid") == pod.uid for each in _reserved_for(claim)),
        terminating=_is_terminating(claim),
    )


def same_devices(one: Object, other: Object) -> bool:
    """Return whether two allocations have the same devices and shares for the same requests."""
    return _devices(one) == _devices(other)


def _devices(allocation: Object) -> list[tuple[str, ...]]:
    results = (allocation.get("devices") or {}).get("results") or ()
    fields = ("request", "driver", "pool", "device", "shareID")
    return sorted(tuple(str(each.get(name) or "") for name in fields) for each in results)


def _allocation(claim: Object) -> Object:
    found: Object = (claim.get("status") or {}).get("allocation") or {}
    return found


def _reserved_for(claim: Object) -> list[Object]:
    return (claim.get("status") or {}).get("reservedFor") or []


def _finalizers(claim: Object) -> list[str]:
    return claim["metadata"].get("finalizers") or []


def _is_terminating(claim: Object) -> bool:
    return bool(claim["metadata"].get("deletionTimestamp"))
