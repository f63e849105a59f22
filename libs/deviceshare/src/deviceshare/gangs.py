"""Deciding a group of pods together: a gang is placed with at least its minimum, or not at all.

A pod without a PodGroup is a group of one. What a group gets is held in the allocator when :func:`decide` returns, so
that the next group sees it taken; where too few fit, nothing is held.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from deviceshare.allocator import Allocator, Placement, Unplaceable
from deviceshare.facts import GroupKey, PodFact


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

    def short(self, fitted: Counter[str]) -> tuple[tuple[str, int, int], ...]:
        """Return the tasks of which too few pods fit: name, how many of the waiting fit, how many must."""
        return tuple((task, fitted[task], needed) for task, needed in self.tasks if fitted[task] < needed)


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a group: ``placed`` are held now; ``waiting`` are not, each for its reason.

    ``fitted`` is how many pods could have been placed, also where that was too few; ``short`` are the tasks that are to
    blame, as :meth:`Group.short` tells them.
    """

    group: Group
    placed: tuple[tuple[PodFact, Placement], ...]
    waiting: tuple[tuple[PodFact, Unplaceable | None], ...]
    fitted: int
    short: tuple[tuple[str, int, int], ...] = ()


def decide(allocator: Allocator, group: Group) -> Decision:
    """Place as many pods of the group as fit, if they are at least its minimum; else place none.

    A waiting pod that would have fitted on its own has no reason of its own (None): its gang is the reason.
    """
    placed: list[tuple[PodFact, Placement]] = []
    refused: list[PodFact] = []
    hopeless: set[int] = set()
    for pod in group.pods:
        # Within one group room only shrinks: an ask that was refused once stays refused.
        placement = None if id(pod.ask) in hopeless else allocator.place(pod.ask)
        if placement is None:
            hopeless.add(id(pod.ask))
            refused.append(pod)
            continue
        allocator.hold(placement.node, pod.uid, placement.grants, placement.resources, pod.tenant)
        placed.append((pod, placement))
    # The reasons are those that hold with the others of the gang in place.
    waiting = [(pod, unplaceable) for pod, unplaceable in _reasons(allocator, refused)]
    fitted = len(placed)
    short = group.short(Counter(pod.task for pod, _ in placed))
    if fitted < group.missing or short:
        for pod, placement in placed:
            allocator.release(placement.node, pod.uid)
        waiting = [*((pod, None) for pod, _ in placed), *waiting]
        placed = []
    return Decision(group=group, placed=tuple(placed), waiting=tuple(waiting), fitted=fitted, short=short)


def _reasons(allocator: Allocator, pods: Sequence[PodFact]) -> list[tuple[PodFact, Unplaceable | None]]:
    """Ask why for each distinct ask once."""
    answers: dict[int, Unplaceable] = {}
    found: list[tuple[PodFact, Unplaceable | None]] = []
    for pod in pods:
        if id(pod.ask) not in answers:
            answers[id(pod.ask)] = allocator.why_not(pod.ask)
        found.append((pod, answers[id(pod.ask)]))
    return found
