"""A limit that a pod or a group would exceed in its queue: numbers, message and refusal."""

import msgspec

from deviceshare.allocation import RefusalReason
from deviceshare.model import Refusal, shown, unit_of

CAPABILITY, GUARANTEED, DESERVED = "capability", "guaranteed", "deserved"
"""Limits of a queue: its capability, the guarantees of other queues, its deserved amount."""
CLUSTER, OVERCOMMIT = "cluster", "overcommit"
"""Further limits of admission: the cluster, and the total that may be committed to all queues."""

_REASONS = {
    CAPABILITY: RefusalReason("QueueOverCapability", "the queue would pass its capability"),
    GUARANTEED: RefusalReason("QueueOverGuarantees", "the queue would take what others are guaranteed"),
    DESERVED: RefusalReason("QueueOverDeserved", "the queue would pass what it deserves"),
    CLUSTER: RefusalReason("ClusterTooSmall", "the queue's groups would need more than the cluster has"),
    OVERCOMMIT: RefusalReason("ClusterOvercommitted", "all queues' groups would need more than they may be promised"),
}
LIMIT_OF_CODE = {reason.code: bound for bound, reason in _REASONS.items()}
"""The limits by the codes of their refusals."""


class Shortage(msgspec.Struct, frozen=True):
    """A limit that a pod, or a group that waits for admission, would exceed.

    ``promised``: ``used`` is the total minimum resources of admitted groups, whether allocated or not. ``of_place``:
    ``asked`` is what the pod would get on the node that was chosen for it; another node may give it less.
    """

    queue: str
    bound: str
    resource: str
    limit: int
    used: int
    asked: int
    promised: bool = False
    of_place: bool = False

    def __str__(self) -> str:
        """Return the user-visible message."""
        limit, used, asked = (shown(amount, self._unit) for amount in (self.limit, self.used, self.asked))
        numbers = f"{used} {'promised' if self.promised else 'used'}, {asked} asked"
        match self.bound:
            case "overcommit":
                return f"the overcommit limit of {self.resource} is {limit}, {numbers}"
            case "cluster":
                return f"queue {self.queue!r} is limited to the cluster's {limit} of {self.resource}, {numbers}"
            case "capability":
                return f"queue {self.queue!r} has a capability of {limit} of {self.resource}, {numbers}"
            case "guaranteed":
                text = f"queue {self.queue!r} is limited to {limit} of {self.resource}, {numbers}"
                return f"{text}; the rest is guaranteed to other queues"
            case _:
                text = f"queue {self.queue!r} deserves {limit} of {self.resource}, {numbers}"
                return f"{text}; it may borrow more when other queues request less"

    @property
    def refusal(self) -> Refusal:
        """The shortage as a refusal."""
        reason, free = _REASONS[self.bound], max(0, self.limit - self.used)
        return Refusal(
            code=reason.code, text=reason.text, nodes=0, resource=self.resource, asked=self.asked, free=free,
            unit=self._unit, used=None if self.promised else self.used,
        )  # fmt: skip

    @property
    def _unit(self) -> str:
        return unit_of(self.resource) or ("MiB" if self.resource.endswith("memory") else "")
