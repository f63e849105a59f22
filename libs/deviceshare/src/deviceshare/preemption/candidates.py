"""The pods that may have to go, and the group that they would go for."""

import msgspec

from deviceshare.model import GroupKey, PodFact
from deviceshare.queueing import Group

PREEMPT, RECLAIM = "preempt", "reclaim"
"""Actions: taking from pods of lower priority in the same queue, and from queues that have more than they deserve."""


# Excluded from garbage collection: there is one for each pod, and none can be part of a reference cycle.
class EvictionCandidate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod on a node.

    ``job_priority``: the priority of its PodGroup, or its own without one.
    """

    pod: PodFact
    node: str
    queue: str
    job_priority: int

    @property
    def uid(self) -> str:
        """The uid of the pod."""
        return self.pod.uid

    @property
    def group(self) -> GroupKey:
        """The key of its group."""
        return self.pod.group

    @property
    def priority(self) -> int:
        """Its own priority, by which victims are compared."""
        return self.pod.priority


class Preemptor(msgspec.Struct, frozen=True, kw_only=True):
    """A waiting group for which pods may go; ``priority``: that of its PodGroup, or of its pods without one."""

    group: Group
    queue: str
    priority: int

    @property
    def pods(self) -> tuple[PodFact, ...]:
        """Those of its pods that are placed together."""
        return self.group.together
