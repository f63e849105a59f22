"""Binding conditions of devices, which their driver sets, say, when a device is attached: what a pod waits for.

Source: isClaimReadyForBinding, isClaimTimeout and PreBind of Kubernetes 1.36.1 (pkg/scheduler/framework/plugins/
dynamicresources). There a device that is not ready hides the failure of a later one.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from deviceshare.model import DeviceClaimFact
from deviceshare.model.device_objects import AllocationStatus, ClaimStatus, Condition, DeviceStatus, Result

BINDING_TIMEOUT = 600.0
"""Seconds from its allocation in which a device gets its binding conditions, as with kube-scheduler."""
_REASON = 200
"""Characters of the reason and of the message of a condition that are kept; the API allows 32,768."""


class DeviceBinding(NamedTuple):
    """How far the binding conditions of a claim are; both texts name a device and a condition, '' for none.

    ``failed``: a failure condition is true; ``waits``: a binding condition is not; ``since``: the unix time from which
    it is waited for, 0 if it is not known.
    """

    failed: str = ""
    waits: str = ""
    since: float = 0.0

    def problem(self, now: float) -> str:
        """Return why the devices cannot be used any more at a unix time, '' if they can."""
        late = self.waits and self.since and now >= self.since + BINDING_TIMEOUT
        return self.timed_out if late else self.failed

    @property
    def timed_out(self) -> str:
        """Why the devices cannot be used when the time for the condition that is missing is over."""
        return f"{self.waits} after {BINDING_TIMEOUT:g} s"


_READY = DeviceBinding()


def binding_of(claim: DeviceClaimFact) -> DeviceBinding:
    """Return how far the binding conditions of the devices of a claim are."""
    allocation = claim.allocation
    if allocation is None or not _has_conditions(allocation):
        return _READY
    statuses = {_device(each): each for each in claim.device_statuses}
    waits = ""
    for result in allocation.devices.results:
        name = f"device {result.driver}/{result.pool}/{result.device}"
        found = statuses.get(_device(result))
        true = {each.type: each for each in found.conditions} if found is not None else {}
        for condition in result.binding_failure_conditions:
            if condition in true:
                why = ": ".join(filter(None, (true[condition].reason, true[condition].message)))
                return DeviceBinding(f"{name} has the condition {condition!r}{f' ({why})' if why else ''}")
        for condition in result.binding_conditions:
            if condition not in true:
                waits = waits or f"{name} lacks the condition {condition!r}"
    return DeviceBinding(waits=waits, since=_unix(allocation.allocation_timestamp)) if waits else _READY


def kept(status: ClaimStatus) -> tuple[AllocationStatus | None, tuple[DeviceStatus, ...]]:
    """Return the allocation of a claim, and of its devices the binding conditions that are true."""
    allocation = status.allocation
    if allocation is None or not _has_conditions(allocation):
        return allocation and replace(allocation, allocation_timestamp=""), ()
    named = {
        _device(each): {*each.binding_conditions, *each.binding_failure_conditions}
        for each in allocation.devices.results
    }
    found = (
        replace(each, conditions=tuple(_true(each.conditions, names)))
        for each in status.devices
        if (names := named.pop(_device(each), None))
    )
    return allocation, tuple(each for each in found if each.conditions)


def _device(of: Result | DeviceStatus) -> tuple[str, str, str, str]:
    return of.driver, of.pool, of.device, of.share_id


def _true(conditions: Iterable[Condition], names: set[str]) -> Iterable[Condition]:
    for each in conditions:
        if each.type in names and each.status == "True":
            names.discard(each.type)
            yield replace(each, reason=each.reason[:_REASON], message=each.message[:_REASON])


def _has_conditions(allocation: AllocationStatus) -> bool:
    return any(each.binding_conditions for each in allocation.devices.results)


def _unix(timestamp: str) -> float:
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except (ValueError, OverflowError):
        return 0.0
