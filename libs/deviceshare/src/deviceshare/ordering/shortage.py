"""What keeps a pod, or a group, from its queue though there may be room: a bound of the queue, in numbers and words."""

import msgspec

from deviceshare.explain import Refusal, shown

CAPABILITY, GUARANTEED, DESERVED = "capability", "guaranteed", "deserved"
"""What keeps a queue from more: its own capability, what other queues are guaranteed, what it deserves."""
CLUSTER, OVERCOMMIT = "cluster", "overcommit"
"""What keeps a group from its queue beside: all that there is, and what all queues may be promised of it."""

_CODES = {
    CAPABILITY: "QueueOverCapability",
    GUARANTEED: "QueueGuarantees",
    DESERVED: "QueueOverDeserved",
    CLUSTER: "ClusterTooSmall",
    OVERCOMMIT: "ClusterOvercommitted",
}
_UNITS = {"cpu": "millicores", "memory": "bytes", "ephemeral-storage": "bytes"}


class Shortage(msgspec.Struct, frozen=True):
    """A pod that would carry its queue over one of its bounds."""

    queue: str
    bound: str
    resource: str
    limit: int
    used: int
    asked: int

    def __str__(self) -> str:
        """Return the words that users read."""
        limit, used, asked = (shown(amount, self._unit) for amount in (self.limit, self.used, self.asked))
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
        return f"queue {self.queue!r} {what} of {self.resource}, {used} used, {asked} asked{then}"

    @property
    def refusal(self) -> Refusal:
        """The same with its code and numbers."""
        free = max(0, self.limit - self.used)
        text = f"queue {self.queue!r} is at its bound ({self.bound}) of {self.resource}"
        return Refusal(
            code=_CODES[self.bound], text=text, nodes=0, resource=self.resource, asked=self.asked, free=free,
            unit=self._unit,
        )  # fmt: skip

    @property
    def _unit(self) -> str:
        return _UNITS.get(self.resource, "MiB" if self.resource.endswith("memory") else "")
