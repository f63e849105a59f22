"""Deciding a group of pods together: a gang is placed with its minimum, or not at all.

A pod without a PodGroup is a group of one. What a group gets is held in the allocator, and charged to its queue, when
:func:`decide` returns, so that the next group sees it taken; where too few fit, nothing is held.
"""

from collections import Counter
from collections.abc import MutableMapping, Sequence

import msgspec
from msgspec.structs import force_setattr

from deviceshare.allocation import Allocator, Placement, Unplaceable
from deviceshare.model import GroupKey, PodFact, PodRequest
from deviceshare.queueing.queues import Queues
from deviceshare.queueing.shortage import Shortage

UNEXPLAINED = Unplaceable(0, ())
"""No node takes a pod, and nobody asked why."""

Reason = Unplaceable | Shortage | None
"""Why a pod waits: no node takes it, its queue has enough, or (None) others of its gang do not fit."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that wait and belong together.

    ``minimum`` counts all pods of the group, ``placed`` those that have their place already. ``tasks`` says for tasks
    with a minimum of their own how many of the waiting pods must be placed, at least.
    """

    key: GroupKey
    pods: tuple[PodFact, ...]
    minimum: int = 1
    placed: int = 0
    tasks: tuple[tuple[str, int], ...] = ()
    best_effort: int = -1
    """How many of the waiting pods request nothing; counted where it is not given. The action ``backfill`` places
    them, after those of all jobs that request something."""

    def __post_init__(self) -> None:
        if self.best_effort < 0:
            force_setattr(self, "best_effort", _count_best_effort(self.pods))

    @property
    def missing(self) -> int:
        """How many of the waiting pods must be placed together, at least."""
        return max(0, self.minimum - self.placed)

    @property
    def together(self) -> tuple[PodFact, ...]:
        """As many of the waiting pods as must be placed together, one where it has its minimum."""
        return self.pods[: max(1, self.missing)]

    @property
    def ready(self) -> bool:
        """Whether it has its minimum: more pods are placed one by one."""
        return self.placed >= self.minimum and not self.tasks

    @property
    def counts_as_ready(self) -> bool:
        """Whether it has its minimum once its pods that request nothing are placed.

        Source: Volcano pkg/scheduler/api (JobInfo.IsReady).
        """
        return self.placed + self.best_effort >= self.minimum

    @property
    def mixed(self) -> bool:
        """Whether some of its waiting pods request something and others nothing."""
        return 0 < self.best_effort < len(self.pods)

    def short(self, fitted: Counter[str]) -> tuple[tuple[str, int, int], ...]:
        """Return the tasks of which too few pods fit: name, how many of the waiting fit, how many must."""
        return tuple((task, fitted[task], needed) for task, needed in self.tasks if fitted[task] < needed)

    def without(self, placed: Sequence[PodFact]) -> "Group":
        """Return what is left to be decided when the minimum was placed, by these pods."""
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
        """Whether its pods that request nothing are enough for its minimum, whatever happens to the others."""
        return self.missing <= self.best_effort and not self.short(
            Counter(pod.task for pod in self.pods if pod.ask.best_effort)
        )

    def only_best_effort(self) -> "Group":
        """Return the group with those waiting pods alone that request nothing."""
        return msgspec.structs.replace(self, pods=tuple(pod for pod in self.pods if pod.ask.best_effort))

    def only_requesting(self) -> "Group":
        """Return the group with those waiting pods alone that request something, and as one that has its minimum."""
        return Group(
            key=self.key,
            pods=tuple(pod for pod in self.pods if not pod.ask.best_effort),
            minimum=self.minimum,
            placed=max(self.placed, self.minimum),
            best_effort=0,
        )


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a group: ``placed`` are held now; ``waiting`` are not, each for its reason.

    ``fitted`` is how many pods could have been placed, also where that was too few; ``short`` are the tasks that are to
    blame, as :meth:`Group.short` tells them. Where the minimum was placed nothing is said of the others: their turn
    comes.
    """

    group: Group
    placed: tuple[tuple[PodFact, Placement], ...]
    waiting: tuple[tuple[PodFact, Reason], ...]
    fitted: int
    short: tuple[tuple[str, int, int], ...] = ()
    reserved: tuple[tuple[PodFact, Placement], ...] = ()
    """Pods that request nothing and that the minimum needs: room is held for them, and they are placed by backfill."""

    @property
    def whole(self) -> bool:
        """Whether it gives a gang its minimum; False where nothing enforces gangs."""
        return self.group.placed + len(self.placed) >= self.group.minimum > 0


def decide(
    allocator: Allocator,
    group: Group,
    queues: Queues | None = None,
    *,
    beyond: bool = False,
    no_room: MutableMapping[PodRequest, Unplaceable] | None = None,
    reasons: bool = True,
) -> Decision:
    """Place the pods that the group must have together, one where it has them; else place none.

    The pods are tried in their order. Where the minimum of a task is not reached that way, as many pods as each task
    needs are tried before the others (unless :attr:`~deviceshare.conf.Extensions.gang_retry` is off).

    Args:
        allocator: where.
        group: whom.
        queues: the accounts by which the pods' queue may have enough; None for no such bound.
        beyond: the queue may pass what it deserves.
        no_room: why requests fit nowhere, as long as room only shrinks. Grows.
        reasons: whether to ask why no node takes a pod, which costs more than the decision.
    """
    known: MutableMapping[PodRequest, Unplaceable] = {} if no_room is None else no_room
    attempt = _Attempt(allocator, group, queues, known, beyond=beyond, reasons=reasons)
    if attempt.place(group.pods):
        return attempt.success()
    if group.tasks and allocator.conf.extensions.gang_retry:
        attempt.give_back()
        attempt = _Attempt(allocator, group, queues, known, beyond=beyond, reasons=reasons)
        if attempt.place(_by_need(group)):
            return attempt.success()
    failure = attempt.failure()
    attempt.give_back()
    return failure


class _Attempt:
    """One attempt to place a group's minimum, pod by pod without going back."""

    def __init__(
        self,
        allocator: Allocator,
        group: Group,
        queues: Queues | None,
        no_room: MutableMapping[PodRequest, Unplaceable],
        *,
        beyond: bool,
        reasons: bool,
    ) -> None:
        self._allocator = allocator
        self._group = group
        self._queues = queues
        self._no_room = no_room
        self._beyond = beyond
        self._reasons = reasons
        self._placed: list[tuple[PodFact, Placement]] = []
        self._reserved: list[tuple[PodFact, Placement]] = []
        self._refused: list[PodFact] = []
        self._lacking: dict[PodRequest, Reason] = {}
        """Why requests cannot be placed now."""
        self._tasks = Counter[str]()

    def place(self, pods: Sequence[PodFact]) -> bool:
        """Place pods until the group has what it must have together; returns whether it has.

        Of a mixed group room is only reserved for those that request nothing.
        """
        group = self._group
        later = [pod for pod in pods if pod.ask.best_effort] if group.mixed else []
        of_later = Counter(pod.task for pod in later)
        for pod in pods:
            if self._is_enough(len(later), of_later):
                break
            if not (later and pod.ask.best_effort):
                self._try(pod)
        enough = self._is_enough(len(later), of_later)
        if not enough or not self._allocator.conf.extensions.gang_backfill:
            return enough
        for pod in later:
            if self._is_enough():
                break
            self._reserve(pod)
        return self._is_enough()

    def _is_enough(self, more: int = 0, of_tasks: Counter[str] | None = None) -> bool:
        """Return whether the group has its minimum, with some more pods of these tasks."""
        placed, tasks = len(self._placed), self._tasks + of_tasks if of_tasks else self._tasks
        return (
            placed > 0 and placed + len(self._reserved) + more >= self._group.missing and not self._group.short(tasks)
        )

    def _reserve(self, pod: PodFact) -> None:
        """Hold a slot of a node for a pod, without what would change the scores of nodes."""
        ask = pod.ask
        placement = self._allocator.place(pod.ask) if ask not in self._lacking else None
        if placement is None:
            self._lacking.setdefault(ask, None)
            self._refused.append(pod)
            return
        self._allocator.hold(placement.node, pod.uid, (), placement.resources, pod.tenant, placement.ports)
        self._reserved.append((pod, placement))
        self._tasks[pod.task] += 1

    def _try(self, pod: PodFact) -> None:
        ask = pod.ask
        if ask in self._lacking:
            self._refused.append(pod)
            return
        shortage = self._queues.shortage(pod.uid, beyond=self._beyond) if self._queues is not None else None
        placement = None if shortage is not None or ask in self._no_room else self._allocator.place(pod.ask)
        if placement is None:
            self._lacking[ask] = shortage
            if shortage is None and not self._placed:
                self._no_room[ask] = self._why_not(pod)
            self._refused.append(pod)
            return
        self._allocator.take(pod.uid, placement, pod.tenant)
        if self._queues is not None:
            self._queues.hold(pod.uid)
        self._placed.append((pod, placement))
        self._tasks[pod.task] += 1

    def success(self) -> Decision:
        """Return the decision that places the pods."""
        return Decision(
            group=self._group,
            placed=tuple(self._placed),
            waiting=(),
            fitted=len(self._placed),
            reserved=tuple(self._reserved),
        )

    def failure(self) -> Decision:
        """Return the decision that places no pod; the reasons hold with the other pods of the gang in place."""
        for pod in self._refused:
            if self._lacking[pod.ask] is None:
                self._lacking[pod.ask] = self._why_not(pod)
        waiting = [
            *((pod, None) for pod, _ in self._placed),
            *((pod, self._lacking[pod.ask]) for pod in self._refused),
        ]
        if self._group.mixed:
            # Others of the gang were not tried. Those that request nothing may be placed without it.
            named, alone = {pod.uid for pod, _ in waiting}, self._group.enough_best_effort
            others = [pod for pod in self._group.pods if pod.uid not in named]
            waiting += [(pod, None) for pod in others if not (alone and pod.ask.best_effort)]
        return Decision(
            group=self._group,
            placed=(),
            waiting=tuple(waiting),
            fitted=len(self._placed) + len(self._reserved),
            short=self._group.short(self._tasks),
        )

    def give_back(self) -> None:
        """Release what was placed."""
        for pod, placement in self._placed:
            self._allocator.release(placement.node, pod.uid)
            if self._queues is not None:
                self._queues.release(pod.uid)
        for pod, placement in self._reserved:
            self._allocator.release(placement.node, pod.uid)

    def _why_not(self, pod: PodFact) -> Unplaceable:
        why = self._no_room.get(pod.ask, UNEXPLAINED)
        return self._allocator.why_not(pod.ask) if self._reasons and why is UNEXPLAINED else why


def _count_best_effort(pods: Sequence[PodFact]) -> int:
    # There are few different requests.
    if not any(request.best_effort for request in {pod.ask for pod in pods}):
        return 0
    return sum(pod.ask.best_effort for pod in pods)


def _by_need(group: Group) -> list[PodFact]:
    """Return the pods with as many of each task first as must be placed."""
    needed = dict(group.tasks)
    first, others = [], []
    for pod in group.pods:
        if needed.get(pod.task, 0) > 0:
            needed[pod.task] -= 1
            first.append(pod)
        else:
            others.append(pod)
    return [*first, *others]
