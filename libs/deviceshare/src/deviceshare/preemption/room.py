"""Tries what fits when pods are gone, on the state of the cluster, which stays the same."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, permutations
from types import TracebackType
from typing import Self

from msgspec.structs import replace

from deviceshare.allocation import Allocator
from deviceshare.model import PodFact, PodRequest, Refusal
from deviceshare.policies import SPREAD
from deviceshare.preemption.candidates import EvictionCandidate, Preemptor
from deviceshare.queueing import Decision, Group, Queues, decide
from deviceshare.state import Holding, Trial

MAX_ORDERS = 6
"""Orders of the pods of a gang that are tried: all those of three different requests."""
RELEASED_PER_PLACEMENT = 4
"""Pods whose room is released in the time of one placement."""


class Room:
    """The room for the pods of a group, within ``with``.

    ``leaving``: pods that are terminating, and the node of each: what they hold counts as free.
    """

    def __init__(
        self, allocator: Allocator, queues: Queues, preemptor: Preemptor, leaving: Iterable[tuple[str, str]]
    ) -> None:
        self._allocator = allocator
        self._queues = queues
        self._preemptor = preemptor
        self._leaving = tuple(leaving)
        self._ways = _ways(allocator, preemptor.group)
        """The group in the ways in which it is tried: one may fit where another does not."""
        self._counted = {pod.uid: pod.ask for pod in self._ways[-1].pods}
        """The requests by which :meth:`gain` counts pods, by their uid."""
        self._trial = Trial(allocator.undo_log, queues.undo_log)
        self._placed: dict[str, list[PodFact]] = {}
        """The pods that fit into free room, by node."""
        self._unplaced: list[PodFact] = []
        self._gains: dict[tuple[str, frozenset[str]], int] = {}
        self._borrowing = True
        """Whether the queue of the group may have more than it deserves."""
        self.work = 0
        """How many placements were tried, and how often what a pod holds was released."""

    @property
    def mixed(self) -> bool:
        """Whether pods of the group have different requests, so that what fits depends on their order and nodes."""
        return len(_orders(self._preemptor.group)) > 1

    @property
    def spent(self) -> int:
        """The work with the release of the pods that leave, in placements."""
        return self.work + len(self._leaving) // RELEASED_PER_PLACEMENT

    def __enter__(self) -> Self:
        self._trial.__enter__()
        for uid, node in self._leaving:
            self._allocator.release(node, uid)
            self._queues.release(uid)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._trial.__exit__(kind, error, traceback)

    def fits(self) -> Decision | None:
        """Return the decision about the group if it fits without victims.

        If it fits but for what its queue deserves, its queue must not have more once others are gone.
        """
        decision = self.decide(())
        if not decision.placed:
            return None
        self._borrowing = False
        within = self.decide(())
        return within if within.placed else None

    def decide(self, gone: Collection[EvictionCandidate]) -> Decision:
        """Return the decision about the group if pods were gone; its queue may have more than it deserves."""
        self.work += len(self._preemptor.pods) + len(gone)
        with Trial(self._allocator.undo_log, self._queues.undo_log):
            for node, pods in self._placed.items():
                for pod in pods:
                    self._allocator.release(node, pod.uid)
            for each in gone:
                self._allocator.release(each.node, each.uid)
                self._queues.release(each.uid)
            return self._decide()

    def _decide(self) -> Decision:
        decisions = (
            decide(self._allocator, group, self._queues, borrowing=self._borrowing, reasons=False)
            for group in self._ways
        )
        first = next(decisions)
        return first if first.placed else next((self._as_asked(each) for each in decisions if each.placed), first)

    def _as_asked(self, decision: Decision) -> Decision:
        """Return a decision with the pods as they are: they were tried with other requests."""
        pods = {pod.uid: pod for pod in self._preemptor.group.pods}
        return replace(
            decision,
            group=self._preemptor.group,
            placed=tuple((pods[pod.uid], placement) for pod, placement in decision.placed),
            reserved=tuple((pods[pod.uid], placement) for pod, placement in decision.reserved),
        )

    @contextmanager
    def node_by_node(self) -> Iterator[int]:
        """Let :meth:`gain` look at each node alone; yields how many pods of the group do not fit into free room."""
        allocator = self._allocator
        with Trial(allocator.undo_log):
            failed = set[PodRequest]()
            for pod in self._preemptor.pods:
                ask = self._counted[pod.uid]
                placement = None if ask in failed else allocator.place(ask)
                if placement is None:
                    failed.add(ask)
                    self._unplaced.append(pod)
                else:
                    allocator.take(pod.uid, placement, pod.tenant)
                    self._placed.setdefault(placement.node, []).append(pod)
            try:
                yield len(self._unplaced)
            finally:
                self._placed, self._unplaced = {}, []

    def gain(self, node: str, gone: frozenset[str]) -> int:
        """Return how many more pods of the group fit on a node if pods of it were gone."""
        found = self._gains.get((node, gone))
        if found is None:
            found = self._gains[node, gone] = self._count(node, gone)
        return found

    def _count(self, node: str, gone: frozenset[str]) -> int:
        allocator, here = self._allocator, self._placed.get(node, [])
        if allocator.is_reserved(node):
            return 0
        fitting, failed = 0, set[PodRequest]()
        self.work += len(gone)
        with Trial(allocator.undo_log):
            for uid in gone:
                allocator.release(node, uid)
            for pod in here:
                allocator.release(node, pod.uid)
            for pod in (*here, *self._unplaced):
                ask = self._counted[pod.uid]
                if ask in failed:
                    continue
                self.work += 1
                placement = allocator.place_on(node, ask)
                if placement is None:
                    failed.add(ask)
                else:
                    allocator.take(pod.uid, placement, pod.tenant)
                    fitting += 1
        return fitting - len(here)

    def lacks(self, gone: Iterable[EvictionCandidate], nodes: Collection[str]) -> Sequence[Refusal]:
        """Return what these nodes lack for a further pod of the group if pods were gone, each node counted once."""
        with self.node_by_node(), Trial(self._allocator.undo_log):
            for each in gone:
                self._allocator.release(each.node, each.uid)
            for request in dict.fromkeys(pod.ask for pod in self._unplaced):
                refusals = self._allocator.why_not(request, nodes).first_failing
                if refusals:
                    return refusals
        return ()

    def gains(self, node: str, order: Sequence[str]) -> list[int]:
        """Return :meth:`gain` for the first pod of a node, the first two, and so on: where it can be in one pass."""
        if len(self._ways) > 1:
            # Pods that are placed before the room grows may take the wrong cards for the next ones.
            return [self.gain(node, frozenset(order[:number])) for number in range(1, len(order) + 1)]
        allocator, here = self._allocator, self._placed.get(node, [])
        gained: list[int] = []
        waiting = [*here, *self._unplaced]
        if not waiting or allocator.is_reserved(node):
            return [0] * len(order)
        self.work += len(order)
        with Trial(allocator.undo_log):
            for pod in here:
                allocator.release(node, pod.uid)
            fitting = 0
            for uid in order:
                allocator.release(node, uid)
                for pod in waiting[fitting:]:
                    self.work += 1
                    placement = allocator.place_on(node, self._counted[pod.uid])
                    if placement is None:
                        break
                    allocator.take(pod.uid, placement, pod.tenant)
                    fitting += 1
                gained.append(fitting - len(here))
        return gained

    @property
    def constrained(self) -> bool:
        """Whether it matters for a pod of the group what is on other nodes than its own."""
        return any(self._allocator.pod_class(pod.ask).constrained for pod in self._preemptor.pods)

    @property
    def of_one_node(self) -> bool:
        """Whether the group is one pod that finds its room on a node whatever is on others."""
        return len(self._preemptor.pods) == 1 and not self.constrained

    def queue_priority(self, candidate: EvictionCandidate) -> int:
        """Return the priority of the queue of a pod."""
        return self._queues.account(candidate.queue).fact.priority

    def held(self, candidate: EvictionCandidate) -> Holding | None:
        """Return what a pod holds on its node."""
        return self._allocator.holding(candidate.node, candidate.uid)


def _ways(allocator: Allocator, group: Group) -> list[Group]:
    """Return a group in its orders, then with its cards spread where the choice of cards decides how many pods fit."""
    orders = _orders(group)
    several = group.missing > 1 and any(allocator.cards(pod.ask) > 1 for pod in group.pods)
    return [*orders, *map(_spread, orders)] if several else orders


def _spread(group: Group) -> Group:
    """Return a group whose pods leave their cards as evenly used as they can: of these most pods find enough."""
    return replace(group, pods=tuple(replace(pod, ask=_spread_request(pod.ask)) for pod in group.pods))


def _spread_request(request: PodRequest) -> PodRequest:
    return replace(request, policies=replace(request.policies, card=SPREAD.name))


def _orders(group: Group) -> list[Group]:
    """Return a group with its pods in their order, and in others: all pods with equal requests one after the other."""
    requests = list(dict.fromkeys(pod.ask for pod in group.pods))
    if len(requests) == 1 or group.missing <= 1:
        return [group]
    found = [group]
    for order in islice(permutations(requests), MAX_ORDERS):
        pods = tuple(pod for request in order for pod in group.pods if pod.ask == request)
        found.append(replace(group, pods=pods))
    return found
