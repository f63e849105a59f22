"""Jobs and their place in their queue.

Source: Volcano pkg/scheduler/framework (JobOrderFn) and pkg/scheduler/plugins/{priority,gang,drf,sla}.
"""

from collections.abc import Hashable
from math import inf

import msgspec

from deviceshare.conf import SchedulerConf
from deviceshare.model import GroupKey
from deviceshare.queueing.gangs import Group

Order = tuple[float | str, ...]
"""A job's place in its queue: the lowest comes first."""


class Job(msgspec.Struct, kw_only=True):
    """What is decided together: the pods of ``group`` that wait.

    ``waiting_time`` are the seconds that it may wait, by its own word; None where it says nothing.
    """

    queue: str
    group: Group
    priority: int = 0
    created: float = 0.0
    waiting_time: float | None = None
    alike: bool | None = None
    """Whether all its pods ask the same; None: nobody looked yet."""

    @property
    def key(self) -> GroupKey:
        """The key of its group."""
        return self.group.key

    @property
    def kind(self) -> Hashable:
        """Jobs of one kind are answered alike: so many pods at once of a queue that all ask the same.

        Where its pods ask different things it is the job itself, apart from its pods that request nothing.
        """
        group = self.group
        ask = group.pods[0].ask
        if self.alike is None:
            # Pods of one class share one request object.
            self.alike = not group.tasks and all(pod.ask is ask for pod in group.pods)
        return (self.queue, ask, max(1, group.missing)) if self.alike else (group.key, self.asks_nothing)

    def may_wait(self, otherwise: float | None) -> float | None:
        """Return how many seconds it may wait: by its own word, else as long as all others."""
        return otherwise if self.waiting_time is None else self.waiting_time

    @property
    def asks_nothing(self) -> bool:
        """Whether none of its pods asks anything: it is served by backfill."""
        return self.group.best_effort == len(self.group.pods)


class JobOrder:
    """The order of jobs under one configuration."""

    def __init__(self, conf: SchedulerConf) -> None:
        self._plugins = [name for name in conf.enabled("JobOrder") if name in ("priority", "gang", "drf", "sla")]
        self._waiting_time = conf.waiting_time

    def place(self, job: Job, share: float) -> Order:
        """Return a job's place; ``share`` is its dominant share."""
        place: list[float | str] = []
        for plugin in self._plugins:
            match plugin:
                case "priority":
                    place.append(-job.priority)
                case "gang":
                    # Who has its minimum stands behind those who have not.
                    place.append(job.group.counts_as_ready)
                case "drf":
                    place.append(share)
                case _:
                    waiting = job.may_wait(self._waiting_time)
                    place.append(inf if waiting is None else job.created + waiting)
        return (*place, job.created, job.key)
