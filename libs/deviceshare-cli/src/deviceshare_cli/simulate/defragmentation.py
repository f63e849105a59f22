"""Which pods of a cluster to restart elsewhere, and which waiting pods are placed then. Pure.

Two players decide the same: one without the plan, which is made for its state, and one in which the planned pods are
moved first.
"""

from collections.abc import Callable
from typing import NamedTuple

from deviceshare.allocation import Move
from deviceshare.kernels import CARD
from deviceshare.model import PodFact
from deviceshare.scheduler import Scheduler
from deviceshare_metrics.api import PodDevice

from deviceshare_cli.pods import devices_of
from deviceshare_cli.simulate.candidates import PodObjects, find_candidates
from deviceshare_cli.simulate.player import Player
from deviceshare_cli.simulate.results import PodResult, placed_pod

PODS_PER_MOVE = 100
"""Without ``--moves``, one of so many placed pods with cards may be moved, and at least one."""


class PlannedMove(NamedTuple):
    """One move: a pod, its node and devices now, and those where the plan places it; ``gain`` in cards."""

    pod: PodFact
    source: str
    held: tuple[PodDevice, ...]
    target: str
    granted: tuple[PodDevice, ...]
    gain: float


class Defragmentation(NamedTuple):
    """A plan of moves, and what it changes.

    ``pods``: placed pods with cards; ``excluded``: those of them that may not be restarted, counted by the reason;
    ``fragmentation``: of all nodes before and after the moves, in cards; ``waiting``: the pods that wait at the end
    without the plan and with it; ``only_with``, ``only_without``: the pods that are placed in one of these cases alone.
    """

    policy: str
    budget: int
    pods: int
    excluded: list[tuple[str, int]]
    moves: list[PlannedMove]
    fragmentation: tuple[float, float]
    waiting: tuple[int, int]
    only_with: list[PodResult]
    only_without: list[PodResult]

    @property
    def restartable(self) -> int:
        """The number of pods that may be restarted."""
        return self.pods - sum(number for _, number in self.excluded)

    @property
    def gain(self) -> float:
        """What all moves together gain, in cards."""
        return sum(move.gain for move in self.moves)

    @property
    def less_waste(self) -> float:
        """By how much less devices exceed the requests of the moved pods, in cards: the rest of the gain."""
        before, after = self.fragmentation
        return self.gain - (before - after)


def defragmentation(
    settled: Callable[[], Player],
    create: Callable[[Player], None],
    objects: PodObjects,
    policy: str,
    budget: int | None,
) -> Defragmentation:
    """Return a plan of moves, and what it changes.

    Args:
        settled: returns a new player of the cluster in which nothing is left to decide.
        create: creates the pods of ``--pods`` in a player.
        objects: the Pod objects of the cluster.
        policy: the name of the policy.
        budget: the most moves, None for one percent of the placed pods with cards.
    """
    without = settled()
    create(without)
    without.count_arrivals()
    candidates = find_candidates(without.scheduler, objects)
    budget = max(1, -(-candidates.pods // PODS_PER_MOVE)) if budget is None else budget
    moves, before, after = without.scheduler.plan_moves(budget, candidates.movable)
    planned = [_planned(without.scheduler, move) for move in moves]
    without.settle()
    with_plan = without
    if moves:
        with_plan = settled()
        with_plan.move(moves)
        with_plan.settle()
        create(with_plan)
        with_plan.settle()
    return Defragmentation(
        policy=policy,
        budget=budget,
        pods=candidates.pods,
        excluded=candidates.excluded.most_common(),
        moves=planned,
        fragmentation=(before / CARD, after / CARD),
        waiting=(len(without.waiting), len(with_plan.waiting)),
        only_with=_only(with_plan, without),
        only_without=_only(without, with_plan),
    )


def _planned(scheduler: Scheduler, move: Move) -> PlannedMove:
    held = scheduler.holding(move.source, move.pod.uid)
    assert held is not None
    placement = move.placement
    return PlannedMove(
        scheduler.pods[move.pod.uid].fact,
        move.source,
        devices_of(held.grants),
        placement.node,
        devices_of(placement.grants),
        move.gain / CARD,
    )


def _only(one: Player, other: Player) -> list[PodResult]:
    """Return the pods that are placed in one player and wait in the other, in the order of the decisions."""
    waits = other.waiting
    return [placed_pod(each) for uid, each in one.placed.items() if uid in waits]
