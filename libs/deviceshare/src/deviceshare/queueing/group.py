"""The waiting pods of a PodGroup: which of them must be placed together."""

from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec.structs import force_setattr

from deviceshare.model import GroupKey, PodFact


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The waiting pods of a PodGroup.

    ``minimum`` counts all pods of the group, ``placed`` the placed ones. ``tasks``: for each task with its own
    minimum, how many of the waiting pods must be placed.
    """

    key: GroupKey
    pods: tuple[PodFact, ...]
    minimum: int = 1
    placed: int = 0
    tasks: tuple[tuple[str, int], ...] = ()
    best_effort: int = -1
    """Number of best-effort pods among the waiting pods; -1: count them. The action ``backfill`` places them, after
    all other pods."""

    def __post_init__(self) -> None:
        if self.best_effort < 0:
            force_setattr(self, "best_effort", _count_best_effort(self.pods))

    @property
    def missing(self) -> int:
        """How many of the waiting pods must be placed together."""
        return max(0, self.minimum - self.placed)

    @property
    def together(self) -> tuple[PodFact, ...]:
        """The first waiting pods that must be placed together; one pod if the group has its minimum."""
        return self.pods[: max(1, self.missing)]

    @property
    def ready(self) -> bool:
        """Whether it has its minimum; further pods are placed one by one."""
        return self.placed >= self.minimum and not self.tasks

    @property
    def counts_as_ready(self) -> bool:
        """Whether it has its minimum if all its best-effort pods are placed.

        Source: Volcano pkg/scheduler/api (JobInfo.IsReady).
        """
        return self.placed + self.best_effort >= self.minimum

    @property
    def mixed(self) -> bool:
        """Whether some of its waiting pods are best-effort, but not all."""
        return 0 < self.best_effort < len(self.pods)

    def short(self, fitted: Counter[str]) -> tuple[tuple[str, int, int], ...]:
        """Return the tasks of which too few waiting pods fit: name, how many fit, how many must fit."""
        return tuple((task, fitted[task], needed) for task, needed in self.tasks if fitted[task] < needed)

    def without(self, placed: Sequence[PodFact]) -> "Group":
        """Return the group after the placement of these pods."""
        count = len(placed)
        if all(mine is theirs for mine, theirs in zip(self.pods, placed, strict=False)):
            rest = self.pods[count:]
        else:
            gone = {pod.uid for pod in placed}
            rest = tuple(pod for pod in self.pods if pod.uid not in gone)
        done = Counter(pod.task for pod in placed)
        return Group(
            key=self.key,
            pods=rest,
            minimum=self.minimum,
            placed=self.placed + count,
            tasks=tuple((task, needed - done[task]) for task, needed in self.tasks if needed > done[task]),
            best_effort=self.best_effort - _count_best_effort(placed) if self.best_effort else 0,
        )

    @property
    def enough_best_effort(self) -> bool:
        """Whether its best-effort pods alone complete its minimum."""
        return self.missing <= self.best_effort and not self.short(
            Counter(pod.task for pod in self.pods if pod.ask.best_effort)
        )

    def only_best_effort(self) -> "Group":
        """Return the group with its best-effort pods only."""
        return msgspec.structs.replace(self, pods=tuple(pod for pod in self.pods if pod.ask.best_effort))

    def only_requesting(self) -> "Group":
        """Return the group without its best-effort pods, and with its minimum reached."""
        return Group(
            key=self.key,
            pods=tuple(pod for pod in self.pods if not pod.ask.best_effort),
            minimum=self.minimum,
            placed=max(self.placed, self.minimum),
            best_effort=0,
        )


def _count_best_effort(pods: Sequence[PodFact]) -> int:
    # There are few distinct requests.
    if not any(request.best_effort for request in {pod.ask for pod in pods}):
        return 0
    return sum(pod.ask.best_effort for pod in pods)
