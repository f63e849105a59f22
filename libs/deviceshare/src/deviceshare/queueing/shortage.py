"""What keeps a pod, or a group, from its queue though there may be room: a bound of the queue, in numbers and words."""

import msgspec

from deviceshare.allocation import RefusalReason
from deviceshare.model import Refusal, shown

CAPABILITY, GUARANTEED, DESERVED = "capability", "guaranteed", "deserved"
"""What keeps a queue from more: its own capability, what other queues are guaranteed, what it deserves."""
CLUSTER, OVERCOMMIT = "cluster", "overcommit"
"""What keeps a group from its queue beside: all that there is, and what all queues may be promised of it."""

_REASONS = {
    CAPABILITY: RefusalReason("QueueOverCapability", "the queue would pass its capability"),
    GUARANTEED: RefusalReason("QueueOverGuarantees", "the queue would take what others are guaranteed"),
    DESERVED: RefusalReason("QueueOverDeserved", "the queue would pass what it deserves"),
    CLUSTER: RefusalReason("ClusterTooSmall", "the queue's groups would need more than the cluster has"),
    OVERCOMMIT: RefusalReason("ClusterOvercommitted", "all queues' groups would need more than they may be promised"),
}
_UNITS = {"cpu": "millicores", "memory": "bytes", "ephemeral-storage": "bytes"}


class Shortage(msgspec.Struct, frozen=True):
    """A pod, or a group that wants to be let in, that would carry its queue over one of its bounds.

    ``promised``: ``used`` is what the groups that were let in need at least, whether they have it or not.
    """

    queue: str
    bound: str
    resource: str
    limit: int
    used: int
    asked: int
    promised: bool = False

    def __str__(self) -> str:
        """Return the words that users read."""
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
        """The same with its code and numbers."""
        reason, free = _REASONS[self.bound], max(0, self.limit - self.used)
        return Refusal(
            code=reason.code, text=reason.text, nodes=0, resource=self.resource, asked=self.asked, free=free,
            unit=self._unit,
        )  # fmt: skip

    @property
    def _unit(self) -> str:
        return _UNITS.get(self.resource, "MiB" if self.resource.endswith("memory") else "")
