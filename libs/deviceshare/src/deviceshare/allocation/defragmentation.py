"""Which pods to move to other nodes so that the expected pods can use more of what is free: a plan, nothing is moved.

The measure is the free capacity that the expected pods could not use (:meth:`~.allocator.Allocator.fragmentation`),
and what devices have beyond the requests of their pods. Both count the same, while the policy ``fragmentation``, which
chooses the places, compares instances by how well they fit (:mod:`deviceshare.kernels.instances`). Amounts are
thousandths of a card.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from deviceshare.allocation.allocator import Allocator
from deviceshare.allocation.answers import Placement
from deviceshare.kernels import CARD
from deviceshare.model import ContainerGrant, PodRequest
from deviceshare.state import Holding, Trial

MIN_GAIN = 100.0
"""Thousandths of a card that each moved pod gains at least: a restart costs more than a smaller gain is worth."""
MAX_MOVED = 8
"""The most pods that are moved together, which share a card: plans for more of them would rarely be worth it."""
MAX_TRIED = 1024
"""The most sets of pods that are tried for one step of a plan, those on cards with the fewest pods first."""
NO_GAIN = 0.0


class Movable(NamedTuple):
    """A placed pod that may be restarted elsewhere."""

    uid: str
    node: str
    request: PodRequest


class Move(NamedTuple):
    """One step: the pod is deleted on ``source``, then created again, and placed as ``placement`` says.

    ``gain``: the part of this pod in what its set of moves gains, in thousandths of a card.
    """

    pod: Movable
    placement: Placement
    gain: float

    @property
    def source(self) -> str:
        """The node that the pod leaves."""
        return self.pod.node


def plan(
    cluster: Allocator, expected: Iterable[PodRequest], budget: int, movable: Iterable[Movable]
) -> tuple[Move, ...]:
    """Return the moves that free the most capacity, in the order in which each of them is feasible.

    Greedy: of the single pods, and of all pods of each card, the set is moved that gains most for each of its pods,
    then the next one. A pod moves once, and to another node, which is not reserved; its place there is the one that the
    allocator's policy chooses. A card is emptied only if all of its pods may be moved. The placed pods and the cards
    of ``cluster`` are the same afterwards.

    Args:
        cluster: nodes and placed pods.
        expected: requests that are counted as arrived before the plan is made; () where ``cluster`` has counted its
            pods.
        budget: the most pods that are moved.
        movable: the pods that may be restarted; those that ``cluster`` does not know are left out.
    """
    cluster.learn()
    for request in expected:
        cluster.arrived(request)
    planner = _Planner(cluster, movable)
    moves: list[Move] = []
    with Trial(cluster.undo_log):
        while len(moves) < budget:
            found = planner.best(budget - len(moves))
            if not found:
                break
            for move in found:
                planner.apply(move)
            moves += found
    return tuple(moves)


def measure(cluster: Allocator, moves: Sequence[Move]) -> tuple[float, float]:
    """Return the fragmentation of all nodes before and after the moves of a plan, in thousandths of a card.

    The placed pods and the cards of ``cluster`` are the same afterwards.
    """
    planner = _Planner(cluster, [move.pod for move in moves])
    before = planner.fragmentation()
    with Trial(cluster.undo_log):
        for move in moves:
            planner.apply(move)
        return before, planner.fragmentation()


class _Planner:
    """Tries moves in the cluster."""

    def __init__(self, cluster: Allocator, movable: Iterable[Movable]) -> None:
        self._cluster = cluster
        self._pods: dict[str, Movable] = {}
        self._held: dict[str, Holding] = {}
        for pod in sorted(movable, key=lambda pod: pod.uid):
            if (held := cluster.holding(pod.node, pod.uid)) is not None and held.grants:
                self._pods[pod.uid], self._held[pod.uid] = pod, held

    def fragmentation(self) -> float:
        """Return the fragmentation of all nodes."""
        return sum(self._cluster.fragmentation(name) for name in sorted(self._cluster.node_names))

    def best(self, most: int) -> list[Move]:
        """Return the set of at most ``most`` moves that gains most for each pod, none without a sufficient one."""
        best: list[Move] = []
        gain = MIN_GAIN
        for pods in self._sets(min(most, MAX_MOVED)):
            moves = self._tried(pods)
            if moves and moves[0].gain > gain:
                best, gain = moves, moves[0].gain
        return best

    def apply(self, move: Move) -> None:
        """Move a pod, which is not moved again."""
        pod = self._pods.pop(move.pod.uid)
        self._cluster.release(pod.node, pod.uid)
        self._cluster.take(pod.uid, move.placement, self._held[pod.uid].tenant)

    def _sets(self, most: int) -> Iterator[tuple[Movable, ...]]:
        """Yield the sets of pods to try: those of the cards with the fewest pods first, all sets of a card together."""
        found: dict[tuple[str, ...], tuple[int, tuple[str, ...]]] = {}
        """The sets, each with its first card: how many pods it has, and those that may be moved."""
        for node in sorted({pod.node for pod in self._pods.values()}):
            by_card: dict[str, set[str]] = {}
            for uid, held in self._cluster.holdings_on(node):
                for grant in held.grants:
                    for device in grant.devices:
                        by_card.setdefault(device.id, set()).add(uid)
            for uids in by_card.values():
                # A pod may have holdings on several nodes, and leaves one of them.
                names = tuple(sorted(uid for uid in uids if uid in self._pods and self._pods[uid].node == node))
                card = len(uids), names
                singles = [(name,) for name in names]
                for each in (*singles, names) if len(names) == len(uids) <= most else singles:
                    found[each] = min(found.get(each, card), card)
        order = sorted(found, key=lambda names: (found[names], len(names), names))
        yield from (tuple(self._pods[name] for name in names) for names in order[:MAX_TRIED])

    def _tried(self, pods: Sequence[Movable]) -> list[Move]:
        """Return the moves of a set of pods of one node, each with its part of the gain; none if one of them fails."""
        cluster, node = self._cluster, pods[0].node
        if cluster.node(node) is None:
            return []
        before = {node: cluster.fragmentation(node)}
        found: list[tuple[Movable, Placement]] = []
        waste = NO_GAIN
        with Trial(cluster.undo_log):
            cluster.set_reserved(node, reserved=True)
            for pod in pods:
                cluster.release(node, pod.uid)
                placement = cluster.place(pod.request)
                if placement is None or cluster.holding(placement.node, pod.uid) is not None:
                    return []
                if placement.node not in before:
                    before[placement.node] = cluster.fragmentation(placement.node)
                held = self._held[pod.uid]
                waste += self._waste(node, held.grants) - self._waste(placement.node, placement.grants)
                cluster.take(pod.uid, placement, held.tenant)
                found.append((pod, placement))
            gain = waste + sum(lost - cluster.fragmentation(name) for name, lost in before.items())
        return [Move(pod, placement, gain / len(pods)) for pod, placement in found]

    def _waste(self, node: str, grants: Sequence[ContainerGrant]) -> float:
        """Return what devices have beyond the request, in thousandths of a card."""
        fact = self._cluster.node(node)
        sizes = {card.id: card.memory for card in fact.cards} if fact is not None else {}
        return sum(
            CARD * (device.memory - device.asked) / sizes[device.id]
            for grant in grants
            for device in grant.devices
            if 0 <= device.asked < device.memory and sizes.get(device.id, 0) > 0
        )
