"""Deciding a group of pods together: a gang is placed with its minimum, or not at all.

A pod without a PodGroup is a group of one. What a group gets is held in the allocator, and charged to its queue, when
:func:`decide` returns, so that the next group sees it taken; where too few fit, nothing is held.
"""

from collections import Counter
from collections.abc import Iterator, MutableMapping, Sequence

import msgspec

from deviceshare.allocator import Allocator, Placement, Unplaceable
from deviceshare.facts import GroupKey, PodFact
from deviceshare.ordering.queues import Queues
from deviceshare.ordering.shortage import Shortage

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
        return Group(key=self.key, pods=rest, minimum=self.minimum, placed=self.placed + count)


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


def decide(
    allocator: Allocator,
    group: Group,
    queues: Queues | None = None,
    *,
    beyond: bool = False,
    no_room: MutableMapping[int, Unplaceable] | None = None,
    reasons: bool = True,
) -> Decision:
    """Place the pods that the group must have together, one where it has them; else place none.

    Args:
        allocator: where.
        group: whom; the pods of tasks that must be there come first, else all in their order.
        queues: the accounts by which the pods' queue may have enough; None for no such bound.
        beyond: the queue may pass what it deserves.
        no_room: why asks fit nowhere, by their identity, as long as room only shrinks. Grows.
        reasons: whether to ask why no node takes a pod, which costs more than the decision.
    """
    placed: list[tuple[PodFact, Placement]] = []
    refused: list[PodFact] = []
    lacking: dict[int, Reason] = {}
    least, tasks = max(1, group.missing), Counter[str]()
    no_room = {} if no_room is None else no_room
    for pod in _in_turn(group) if group.tasks else group.pods:
        if len(placed) >= least and not (group.tasks and group.short(tasks)):
            break
        ask = id(pod.ask)
        if ask in lacking:
            refused.append(pod)
            continue
        shortage = queues.shortage(pod.uid, beyond=beyond) if queues is not None else None
        placement = None if shortage is not None or ask in no_room else allocator.place(pod.ask)
        if placement is None:
            lacking[ask] = shortage
            if shortage is None and not placed:
                no_room[ask] = _why_not(allocator, pod, no_room, reasons=reasons)
            refused.append(pod)
            continue
        allocator.take(pod.uid, placement, pod.tenant)
        if queues is not None:
            queues.hold(pod.uid)
        placed.append((pod, placement))
        tasks[pod.task] += 1
    short = group.short(tasks)
    if len(placed) >= least and not short:
        return Decision(group=group, placed=tuple(placed), waiting=(), fitted=len(placed))
    # The reasons are those that hold with the others of the gang in place.
    for pod in refused:
        if lacking[id(pod.ask)] is None:
            lacking[id(pod.ask)] = _why_not(allocator, pod, no_room, reasons=reasons)
    for pod, placement in placed:
        allocator.release(placement.node, pod.uid)
        if queues is not None:
            queues.release(pod.uid)
    waiting = [*((pod, None) for pod, _ in placed), *((pod, lacking[id(pod.ask)]) for pod in refused)]
    return Decision(group=group, placed=(), waiting=tuple(waiting), fitted=len(placed), short=short)


def _why_not(
    allocator: Allocator, pod: PodFact, known: MutableMapping[int, Unplaceable], *, reasons: bool
) -> Unplaceable:
    why = known.get(id(pod.ask), UNEXPLAINED)
    return allocator.why_not(pod.ask) if reasons and why is UNEXPLAINED else why


def _in_turn(group: Group) -> Iterator[PodFact]:
    """Yield as many pods of each task as must be there, then the others."""
    needed = dict(group.tasks)
    others = []
    for pod in group.pods:
        if needed.get(pod.task, 0) > 0:
            needed[pod.task] -= 1
            yield pod
        else:
            others.append(pod)
    yield from others
