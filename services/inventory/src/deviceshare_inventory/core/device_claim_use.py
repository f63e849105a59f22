"""Whether the objects of devices (Dynamic Resource Allocation) have to be watched, and in which order they are listed.

A reader that knew a device, and not yet the ResourceClaim that has it, would give the device to another one; and one
that must not be given, before the DeviceTaintRule that says so.
"""

from deviceshare.conf import SchedulerConf
from deviceshare.model import DEVICE_CLAIMS, PodFact
from deviceshare.objects import decode_device_claims
from deviceshare_cluster.interface import Change
from msgspec.structs import replace

_ORDER = ("ResourceClaim", "DeviceClass", "DeviceTaintRule", "ResourceSlice")
"""The kinds in the order in which a list of them is published."""


class DeviceClaimUse:
    """Whether pods that deviceshare places use ResourceClaims, or did since the start."""

    def __init__(self, schedulers: frozenset[str]) -> None:
        self._schedulers = schedulers
        self._is_used = self._is_placed = False
        self._held: dict[tuple[str, str, str], Change] = {}
        """Objects of an incomplete list."""

    def note(self, pod: PodFact) -> bool:
        """Note a pod; return whether it uses ResourceClaims and is ours to place."""
        if DEVICE_CLAIMS not in pod.ask.unsupported or pod.scheduler not in self._schedulers:
            return False
        self._is_used = True
        return True

    def read(self, pod: PodFact, raw: bytes) -> PodFact:
        """Return a pod, which is ``raw`` in JSON, with its ResourceClaims if they are to be allocated."""
        if self.note(pod) and self._is_placed and not pod.ended:
            return replace(pod, device_claims=decode_device_claims(raw, pod.namespace))
        return pod

    def configure(self, conf: SchedulerConf) -> None:
        """Note whether a configuration says that such pods are placed."""
        self._is_placed |= conf.dra

    @property
    def active(self) -> bool:
        """Whether there are such pods, and they are placed."""
        return self._is_used and self._is_placed

    def begin_list(self) -> None:
        """Forget what was held back of a list that was not completed."""
        self._held.clear()

    def hold(self, change: Change) -> bool:
        """Hold back a change of an object of an incomplete list; return whether it is one of devices."""
        if change.kind not in _ORDER:
            return False
        self._held[change.kind, change.namespace, change.name] = change
        return True

    def take_held(self) -> list[Change]:
        """Return the changes of a complete list: first the claims, those that were written first before others."""
        found = sorted(self._held.values(), key=lambda change: (_ORDER.index(change.kind), change.revision))
        self._held.clear()
        return found
