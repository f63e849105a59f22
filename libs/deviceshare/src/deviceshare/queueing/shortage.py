"""A limit that a pod or a group would exceed in its queue: numbers, message and refusal."""

import msgspec

from deviceshare.allocation import Reason
from deviceshare.model import Refusal, shown

CAPABILITY, GUARANTEED, DESERVED = "capability", "guaranteed", "deserved"
"""Limits of a queue: its capability, the guarantees of other queues, its deserved amount."""
CLUSTER, OVERCOMMIT = "cluster", "overcommit"
"""Further limits of admission: the cluster, and the total that may be committed to all queues."""

_REASONS = {
    CAPABILITY: Reason("QueueOverCapability", "the queue would pass its capability"),
    GUARANTEED: Reason("QueueOverGuarantees", "the queue would take what others are guaranteed"),
    DESERVED: Reason("QueueOverDeserved", "the queue would pass what it deserves"),
    CLUSTER: Reason("ClusterTooSmall", "the queue's groups would need more than the cluster has"),
    OVERCOMMIT: Reason("ClusterOvercommitted", "all queues' groups would need more than they may be promised"),
}
_UNITS = {"cpu": "millicores", "memory": "bytes", "ephemeral-storage": "bytes"}


class Shortage(msgspec.Struct, frozen=True):
    """A limit that a pod, or a group that waits for admission, would exceed.

    ``promised``: ``used`` is the total minimum resources of admitted groups, whether allocated or not.
    """

    queue: str
    bound: str
    resource: str
    limit: int
    used: int
    asked: int
    promised: bool = False

    def __str__(self) -> str:
        """Return the user-visible message."""
        limit, used, asked = (shown(amount, self._unit) for amount in (self.limit, self.used, self.asked))
        word = "promised" if self.promised else "used"
        match self.bound:
            case "overcommit":
                return f"all queues may be promised {limit} of {self.resource}, {used} are, {asked} asked"
            case "cluster":
                what, then = f"may have {limit}, all that there is,", ""
            case "capability":
                what, then = f"has a capability of {limit}", ""
            case "guaranteed":
                what, then = f"may have {limit}, as other queues are guaranteed the rest", ""
            case _:
                what, then = f"deserves {limit}", "; it gets more when other queues ask for less"
        return f"queue {self.queue!r} {what} of {self.resource}, {used} {word}, {asked} asked{then}"

    @property
    def refusal(self) -> Refusal:
        """The shortage as a refusal."""
        reason, free = _REASONS[self.bound], max(0, self.limit - self.used)
        return Refusal(
            code=reason.code, text=reason.text, nodes=0, resource=self.resource, asked=self.asked, free=free,
            unit=self._unit,
        )  # fmt: skip

    @property
    def _unit(self) -> str:
        return _UNITS.get(self.resource, "MiB" if self.resource.endswith("memory") else "")
