"""Jobs: what is decided as a whole."""

from collections.abc import Hashable

import msgspec

from deviceshare.model import GroupKey
from deviceshare.queueing.group import Group


class Job(msgspec.Struct, kw_only=True):
    """The unit of decision: the waiting pods of ``group``.

    ``waiting_time``: its own limit of the waiting time in seconds, or None.
    """

    queue: str
    group: Group
    priority: int = 0
    created: float
    waiting_time: float | None = None
    uniform: bool | None = None
    """Whether all its pods have equal requests; None: not computed yet."""

    @property
    def key(self) -> GroupKey:
        """The key of its group."""
        return self.group.key

    @property
    def class_key(self) -> Hashable:
        """Key of its job class: jobs with the same key have the same feasibility.

        Equal for uniform jobs of one queue with the same request and the same number of missing pods; otherwise
        unique for the job, and different for its best-effort part.
        """
        group = self.group
        ask = group.pods[0].ask
        if self.uniform is None:
            # Pods of one class share one request object.
            self.uniform = not group.tasks and all(pod.ask is ask for pod in group.pods)
        return (self.queue, ask, max(1, group.missing)) if self.uniform else (group.key, self.best_effort)

    def may_wait(self, default: float | None) -> float | None:
        """Return its limit of the waiting time in seconds, or else the given default."""
        return default if self.waiting_time is None else self.waiting_time

    @property
    def best_effort(self) -> bool:
        """Whether no pod requests anything: the action ``backfill`` serves it."""
        return self.group.best_effort == len(self.group.pods)
