"""Gang scheduling: places the minimum of a group, or none of its pods.

A pod without a PodGroup is a group of one. On success :func:`decide` leaves the placements in the allocator and charges
them to the queue; on failure it leaves nothing.
"""

from collections import Counter
from collections.abc import Container, MutableMapping, Sequence
from typing import NamedTuple

import msgspec

from deviceshare.allocation import Allocator, Placement, Unplaceable
from deviceshare.model import PodFact, PodRequest
from deviceshare.queueing.group import Group
from deviceshare.queueing.queues import Queues
from deviceshare.queueing.shortage import Shortage
from deviceshare.state import Trial

UNEXPLAINED = Unplaceable(0, ())
"""No node fits a pod; not diagnosed."""

Reason = Unplaceable | Shortage | None
"""Why a pod waits: no node fits, a limit of its queue, or (None) other pods of its gang do not fit."""


def lacks_room(why: Reason) -> bool:
    """Return whether room on other nodes may serve a pod: none fits, or a limit forbids what the chosen one gives."""
    return why.of_place if isinstance(why, Shortage) else why is not None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The result for a group: the placed pods, or the waiting pods with their reasons.

    ``fitted``: how many pods fit, even if too few. ``short``: the tasks below their minimum (:meth:`Group.short`).
    ``waiting`` is empty if the minimum was placed: the other pods are decided later.
    """

    group: Group
    placed: tuple[tuple[PodFact, Placement], ...]
    waiting: tuple[tuple[PodFact, Reason], ...]
    fitted: int
    short: tuple[tuple[str, int, int], ...] = ()
    reserved: tuple[tuple[PodFact, Placement], ...] = ()
    """Best-effort pods that the minimum requires: their capacity is held until ``backfill`` places them."""

    @property
    def whole(self) -> bool:
        """Whether it completes the minimum of a gang; False if gangs are not enforced."""
        return self.group.placed + len(self.placed) >= self.group.minimum > 0


def decide(
    allocator: Allocator,
    group: Group,
    queues: Queues | None = None,
    *,
    borrowing: bool = False,
    no_room: MutableMapping[PodRequest, Unplaceable] | None = None,
    reasons: bool = True,
) -> Decision:
    """Place the missing minimum of a group, one pod if it has its minimum, or none.

    Tries the pods in order. If a task stays below its minimum, tries the minimum of each task first (unless
    :attr:`~deviceshare.conf.Extensions.gang_retry` is off).

    Args:
        allocator: the cluster's nodes.
        group: the group.
        queues: the accounts that limit the pods' queue; None: no limit.
        borrowing: the queue may exceed its deserved amount.
        no_room: diagnoses of requests that fit no node; valid while capacity only shrinks. Extended in place.
        reasons: whether to diagnose why no node fits, which costs more than the decision.
    """
    known: MutableMapping[PodRequest, Unplaceable] = {} if no_room is None else no_room
    if len(group.pods) == 1 and group.missing <= 1 and not group.tasks:
        return _Single(allocator, group, queues, known).decide(borrowing=borrowing, reasons=reasons)
    with Trial(allocator.undo_log) if queues is None else Trial(allocator.undo_log, queues.undo_log) as trial:
        attempt = _Attempt(allocator, group, queues, known, borrowing=borrowing, reasons=reasons)
        placed = attempt.place(group.pods)
        if not placed and group.tasks and allocator.conf.extensions.gang_retry:
            trial.roll_back()
            attempt = _Attempt(allocator, group, queues, known, borrowing=borrowing, reasons=reasons)
            placed = attempt.place(_minimum_first(group))
        if not placed:
            return attempt.failure()
        trial.commit()
        return attempt.success()


def _find_place(
    allocator: Allocator,
    queues: Queues | None,
    pod: PodFact,
    no_room: Container[PodRequest],
    *,
    borrowing: bool,
) -> tuple[Placement | None, Shortage | None]:
    """Return the place of a pod, or the limit of its queue that it would exceed; neither if no node fits.

    A request for whole cards, or for a percentage of them, counts as the largest cards that the pod may get, and one of
    which only the place shows what it gets of alternatives as the first. What it gets there may be within the limits.
    """
    shortage = queues.shortage(pod.uid, borrowing=borrowing) if queues is not None else None
    depends = queues is not None and queues.depends_on_place(pod.uid)
    if shortage is not None and not depends:
        return None, shortage
    placement = None if pod.ask in no_room else allocator.place(pod.ask)
    if queues is None or placement is None or not depends:
        return placement, None
    shortage = queues.shortage(pod.uid, placement.grants, placement.devices, borrowing=borrowing)
    return (placement if shortage is None else None), shortage


class _Single(NamedTuple):
    """A group of one pod, which is placed as :class:`_Attempt` does, or not."""

    allocator: Allocator
    group: Group
    queues: Queues | None
    no_room: MutableMapping[PodRequest, Unplaceable]

    def decide(self, *, borrowing: bool, reasons: bool) -> Decision:
        (pod,) = self.group.pods
        request = pod.ask
        placement, shortage = _find_place(self.allocator, self.queues, pod, self.no_room, borrowing=borrowing)
        if placement is None:
            why: Reason = shortage if shortage is not None else self._why_not(request, reasons=reasons)
            return Decision(group=self.group, placed=(), waiting=((pod, why),), fitted=0)
        self.allocator.take(pod.uid, placement, pod.tenant)
        if self.queues is not None:
            self.queues.hold(pod.uid, placement.grants, placement.devices)
        return Decision(group=self.group, placed=((pod, placement),), waiting=(), fitted=1)

    def _why_not(self, request: PodRequest, *, reasons: bool) -> Unplaceable:
        why = self.no_room.get(request, UNEXPLAINED)
        if reasons and why is UNEXPLAINED:
            why = self.allocator.why_not(request)
        self.no_room[request] = why
        return why


class _Attempt(msgspec.Struct, eq=False):
    """One attempt to place a group's minimum, pod by pod without backtracking."""

    allocator: Allocator
    group: Group
    queues: Queues | None
    no_room: MutableMapping[PodRequest, Unplaceable]
    borrowing: bool
    reasons: bool
    placed: list[tuple[PodFact, Placement]] = []
    reserved: list[tuple[PodFact, Placement]] = []
    refused: list[PodFact] = []
    lacking: dict[PodRequest, Reason] = {}
    """Why requests do not fit."""
    tasks: Counter[str] = msgspec.field(default_factory=Counter)

    def place(self, pods: Sequence[PodFact]) -> bool:
        """Place pods until the group has its minimum; returns whether it has.

        For the best-effort pods of a mixed group it only holds capacity.
        """
        group = self.group
        later = [pod for pod in pods if pod.ask.best_effort] if group.mixed else []
        later_tasks = Counter(pod.task for pod in later)
        for pod in pods:
            if self._is_enough(len(later), later_tasks):
                break
            if not (later and pod.ask.best_effort):
                self._try(pod)
        enough = self._is_enough(len(later), later_tasks)
        if not enough or not self.allocator.conf.extensions.gang_backfill:
            return enough
        for pod in later:
            if self._is_enough():
                break
            self._reserve(pod)
        return self._is_enough()

    def _is_enough(self, more: int = 0, of_tasks: Counter[str] | None = None) -> bool:
        """Return whether the group has its minimum, counting some additional pods of these tasks."""
        placed, tasks = len(self.placed), self.tasks + of_tasks if of_tasks else self.tasks
        return placed > 0 and placed + len(self.reserved) + more >= self.group.missing and not self.group.short(tasks)

    def _reserve(self, pod: PodFact) -> None:
        """Hold a pod slot of a node without changing the scores of nodes."""
        request = pod.ask
        placement = self.allocator.place(pod.ask) if request not in self.lacking else None
        if placement is None:
            self.lacking.setdefault(request, None)
            self.refused.append(pod)
            return
        self.allocator.hold(placement.node, pod.uid, (), placement.resources, pod.tenant, placement.ports)
        self.reserved.append((pod, placement))
        self.tasks[pod.task] += 1

    def _try(self, pod: PodFact) -> None:
        request = pod.ask
        if request in self.lacking:
            self.refused.append(pod)
            return
        placement, shortage = _find_place(self.allocator, self.queues, pod, self.no_room, borrowing=self.borrowing)
        if placement is None:
            self.lacking[request] = shortage
            if shortage is None and not self.placed:
                self.no_room[request] = self._why_not(pod)
            self.refused.append(pod)
            return
        self.allocator.take(pod.uid, placement, pod.tenant)
        if self.queues is not None:
            self.queues.hold(pod.uid, placement.grants, placement.devices)
        self.placed.append((pod, placement))
        self.tasks[pod.task] += 1

    def success(self) -> Decision:
        return Decision(
            group=self.group,
            placed=tuple(self.placed),
            waiting=(),
            fitted=len(self.placed),
            reserved=tuple(self.reserved),
        )

    def failure(self) -> Decision:
        """Return the decision that places no pod; reasons are diagnosed with the other pods of the gang placed."""
        for pod in self.refused:
            if self.lacking[pod.ask] is None:
                self.lacking[pod.ask] = self._why_not(pod)
        waiting = [
            *((pod, None) for pod, _ in self.placed),
            *((pod, self.lacking[pod.ask]) for pod in self.refused),
        ]
        if self.group.mixed:
            # Some pods were not tried. Best-effort pods may be placed without the rest of the gang.
            named, alone = {pod.uid for pod, _ in waiting}, self.group.enough_best_effort
            others = [pod for pod in self.group.pods if pod.uid not in named]
            waiting += [(pod, None) for pod in others if not (alone and pod.ask.best_effort)]
        return Decision(
            group=self.group,
            placed=(),
            waiting=tuple(waiting),
            fitted=len(self.placed) + len(self.reserved),
            short=self.group.short(self.tasks),
        )

    def _why_not(self, pod: PodFact) -> Unplaceable:
        why = self.no_room.get(pod.ask, UNEXPLAINED)
        return self.allocator.why_not(pod.ask) if self.reasons and why is UNEXPLAINED else why


def _minimum_first(group: Group) -> list[PodFact]:
    """Return the pods with the minimum of each task first."""
    needed = dict(group.tasks)
    first, others = [], []
    for pod in group.pods:
        if needed.get(pod.task, 0) > 0:
            needed[pod.task] -= 1
            first.append(pod)
        else:
            others.append(pod)
    return [*first, *others]
