"""Why claims do not fit on a node: the first request for which a rule leaves too few devices."""

from collections.abc import Callable
from typing import NamedTuple

from deviceshare.families.dra.layout import LayoutDevice, Taken
from deviceshare.families.dra.matching import DeviceRequest
from deviceshare.families.dra.solver import Solver
from deviceshare.families.dra.taints import tolerated


class DeviceReason(NamedTuple):
    """Why a node has no devices for a pod: a code and a text."""

    code: str
    text: str


_INCOMPLETE = DeviceReason("DevicePoolIncomplete", "node(s) had a pool of devices that is not complete")
_TOGETHER = DeviceReason("DevicesDoNotFit", "node(s) had no devices that fit all requests of the pod together")
_NONE_MATCHES = DeviceReason("NoMatchingDevice", "no device that matches")
_TOO_SMALL = DeviceReason("DeviceTooSmall", "no device with enough capacity for")
_TAINTED = DeviceReason("DeviceTainted", "only tainted devices for")
_IN_USE = DeviceReason("DevicesInUse", "too few free devices for")


def why_not(solver: Solver, taken: Taken) -> DeviceReason:
    """Return why the claims of a solver do not fit where some devices are ``taken``, after it has searched.

    Raises AllocationError as the solver does.
    """
    rules: list[tuple[DeviceReason, Callable[[DeviceRequest, LayoutDevice], bool]]] = [
        (_NONE_MATCHES, lambda request, device: solver.matching.selectable(request, device.candidate)),
        (_TOO_SMALL, lambda request, device: solver.matching.enough(request, device.candidate)),
        (_TAINTED, _tolerates),
        (_IN_USE, lambda request, device: solver.is_free(request, device, taken)),
    ]
    for alternatives in solver.requests:
        request = alternatives[0]
        left = list(solver.candidates)
        for reason, passes in rules:
            left = [each for each in left if passes(request, each)]
            if len(left) < max(1, request.number):
                if reason is _NONE_MATCHES and solver.layout.incomplete:
                    return _INCOMPLETE
                name = f"request {request.name} ({request.device_class.metadata.name})"
                return DeviceReason(reason.code, f"node(s) had {reason.text} {name}")
    return _TOGETHER


def _tolerates(request: DeviceRequest, device: LayoutDevice) -> bool:
    return tolerated(device.candidate.device.taints, request.exact.tolerations)
