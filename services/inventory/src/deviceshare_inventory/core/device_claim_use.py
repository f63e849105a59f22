"""Whether the objects of devices (Dynamic Resource Allocation) have to be watched."""

from deviceshare.conf import SchedulerConf
from deviceshare.model import PodFact


class DeviceClaimUse:
    """Whether pods that deviceshare places use ResourceClaims, or did since the start."""

    def __init__(self, schedulers: frozenset[str]) -> None:
        self._schedulers = schedulers
        self._is_used = self._is_placed = False

    def note(self, pod: PodFact) -> None:
        """Note a pod."""
        self._is_used |= bool(pod.device_claims) and pod.scheduler in self._schedulers

    def configure(self, conf: SchedulerConf) -> None:
        """Note whether a configuration says that such pods are placed."""
        self._is_placed |= conf.dra

    @property
    def active(self) -> bool:
        """Whether there are such pods, and they are placed."""
        return self._is_used and self._is_placed
