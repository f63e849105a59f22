"""Which pods of a cluster to restart elsewhere, and which waiting pods are placed then. Pure.

Two players decide the same: one without the plan, which is made for its state, and one in which the planned pods are
moved first.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from deviceshare.allocation import Movable, Move, PodClass, measure, plan
from deviceshare.kernels import CARD
from deviceshare.model import PodFact, PodUid
from deviceshare_cluster.interface import Object
from deviceshare_metrics.api import PodDevice, whole_cards
from deviceshare_placement.core.cluster_state import ClusterState
from deviceshare_placement.core.readiness import queue_obstacle
from deviceshare_placement.core.records import PodRecord
from msgspec.structs import replace

from deviceshare_cli.pods import devices_of
from deviceshare_cli.simulate.cluster.player import Player
from deviceshare_cli.simulate.cluster.restartable import (
    INVALID,
    OTHER_SCHEDULER,
    QUEUE,
    UNKNOWN_CARDS,
    obstacle_to_restart,
)
from deviceshare_cli.simulate.cluster.results import PodResult, placed_pod

PERCENT = 100
"""Without ``--moves``, one of so many placed pods with cards may be moved, and at least one."""


class PodObjects(NamedTuple):
    """The Pod objects of a cluster by uid, and the schedulers that are served, none if they are not known."""

    by_uid: Mapping[PodUid, Object]
    schedulers: Sequence[str]


class PlannedMove(NamedTuple):
    """One move: a pod, its node and devices now, and those where the plan places it; ``gain`` in cards."""

    pod: PodFact
    source: str
    held: tuple[PodDevice, ...]
    target: str
    granted: tuple[PodDevice, ...]
    gain: float


class Candidates(NamedTuple):
    """The placed pods with cards: those that may be restarted, and the others, counted by the reason."""

    movable: list[Movable]
    excluded: Counter[str]
    classes: list[PodClass]
    """The classes of the movable pods, which keep their requests known to the allocator."""

    @property
    def pods(self) -> int:
        """The number of placed pods with cards."""
        return len(self.movable) + self.excluded.total()


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
    candidates = find_candidates(without.cluster, objects)
    budget = max(1, -(-candidates.pods // PERCENT)) if budget is None else budget
    allocator = without.cluster.allocator
    with without.cluster.dispatcher.reservations.enforced():
        moves = plan(allocator, (), budget, candidates.movable)
    before, after = measure(allocator, moves)
    planned = [_planned(without.cluster, move) for move in moves]
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


def find_candidates(cluster: ClusterState, objects: PodObjects) -> Candidates:
    """Return the placed pods with cards that may be restarted, and why the others may not be."""
    found = Candidates([], Counter(), [])
    for record in cluster.pods.values():
        fact = record.fact
        held = cluster.allocator.holding(fact.node, fact.uid)
        if held is None or not (held.grants or whole_cards(held.resources)):
            continue
        if obstacle := _obstacle(cluster, record, objects):
            found.excluded[obstacle] += 1
            continue
        # As it is when it is created again: without a node.
        _, pod_class = cluster.classify(replace(fact, node=""))
        found.movable.append(Movable(fact.uid, fact.node, pod_class.request))
        found.classes.append(pod_class)
    return found


def _obstacle(cluster: ClusterState, record: PodRecord, objects: PodObjects) -> str:
    """Return why a pod is not restarted, '' if it may be."""
    fact = record.fact
    group = cluster.groups.get(fact.group) if fact.podgroup else None
    obj = objects.by_uid.get(fact.uid)
    if obstacle := obstacle_to_restart(fact, obj, group.fact if group is not None else None):
        return obstacle
    if objects.schedulers and fact.scheduler not in objects.schedulers:
        return OTHER_SCHEDULER
    if record.invalid or fact.problems:
        return INVALID
    if queue_obstacle(cluster, cluster.queue_of(fact), "", fact.namespace):
        return QUEUE
    held = cluster.allocator.holding(fact.node, fact.uid)
    return "" if held is not None and held.grants else UNKNOWN_CARDS


def _planned(cluster: ClusterState, move: Move) -> PlannedMove:
    held = cluster.allocator.holding(move.source, move.pod.uid)
    assert held is not None
    placement = move.placement
    return PlannedMove(
        cluster.pods[move.pod.uid].fact,
        move.source,
        devices_of(held.grants),
        placement.node,
        devices_of(placement.grants),
        move.gain / CARD,
    )


def _only(one: Player, other: Player) -> list[PodResult]:
    """Return the pods that are placed in one player and wait in the other, in the order of the decisions."""
    return [placed_pod(each) for uid, each in one.placed.items() if uid in other.waiting]
