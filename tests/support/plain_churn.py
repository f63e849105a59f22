"""Departures on a trace, second by second: every waiting pod is tried on every node whenever a pod ends."""

import random
from collections import Counter
from math import floor

import numpy as np
from deviceshare.allocation import Allocator
from deviceshare_lab.studies.trace.product import AllocatorPlacer
from deviceshare_lab.studies.trace.runs import Run
from deviceshare_lab.traces import CARD, ExpectedPods, Trace, TraceNode, TracePod, TypicalPod, pod_classes, trace_nodes
from support.plain_traces import Plain, kind

KINDS = ((12_000, 60_000, 4, "G2"), (9_000, 40_000, 2, "T4"), (4_000, 20_000, 1, "P100"))
PODS = (
    (3_000, 5_600, 1, 810, ""),
    (2_000, 9_000, 1, 1000, ""),
    (2_500, 7_000, 0, 0, ""),
    (1_900, 4_000, 1, 470, "G2|T4"),
    (3_000, 6_000, 1, 1000, "P100|G2"),
    (8_000, 20_000, 4, 1000, ""),
    (1_000, 8_000, 2, 1000, ""),
    (500, 2_000, 1, 230, "T4"),
)


def random_recorded(seed: int, nodes: int, pods: int, longest: int = 300) -> Trace:
    """Return a small trace with times; it has each kind of nodes, so that every pod fits on an empty one."""
    chance = random.Random(seed)
    kinds = [*KINDS, *(chance.choice(KINDS) for _ in range(nodes))]
    found = tuple(TraceNode(f"n{number:03}", *each) for number, each in enumerate(kinds))
    made = []
    for number in range(pods):
        created = chance.randrange(200)
        deleted = created + chance.choice((0, 5, chance.randrange(1, longest)))
        made.append(TracePod(f"p{number:03}", *chance.choice(PODS), created, max(deleted, 1)))
    return Trace("made", found, tuple(made))


def plain_arrivals(
    trace: Trace, cycle: float, since: int, until: int, draw: random.Random
) -> tuple[list[tuple[int, int, int]], list[int]]:
    """Return (time, pod, seconds to run) of each arrival, and the pods that arrived and ended in the past.

    Of more copies than can matter.
    """
    ends = max(pod.created + max(pod.deleted - pod.created, 1) for pod in trace.pods)
    first = floor(min(-ends, since - max(pod.created for pod in trace.pods)) / cycle) - 1
    starts = {copy: floor(copy * cycle) + draw.randrange(max(round(cycle), 1)) for copy in range(first, first + 2000)}
    found, past = [], []
    for copy, start in starts.items():
        for number, pod in enumerate(trace.pods):
            at, lifetime = start + pod.created, max(pod.deleted - pod.created, 1)
            if at < until and at + lifetime > 0:
                found.append((at, copy, number, lifetime))
            if since <= at and at + lifetime <= 0:
                past.append((at, copy, number))
    running = [(max(at, 0), number, seconds + min(at, 0)) for at, _, number, seconds in sorted(found)]
    return running, [number for _, _, number in sorted(past)]


class PlainPolicy:
    """A policy of :class:`Plain`, with departures."""

    def __init__(self, trace: Trace, ranks: list[int], policy: str) -> None:
        self.plain = Plain(trace, ranks)
        self.policy = policy

    def arrive(self, pod: TracePod, number: int) -> None:
        """Learn from an arrival."""

    def place(self, pod: TracePod) -> tuple[int, list[int]] | None:
        """Place a pod; return its node and what it has of each card there."""
        free = [list(each) for each in self.plain.free]
        at, _ = self.plain.place(pod, self.policy)
        if at < 0:
            return None
        return at, [was - now for was, now in zip(free[at], self.plain.free[at], strict=True)]

    def release(self, pod: TracePod, placed: tuple[int, list[int]], number: int) -> None:
        at, taken = placed
        self.plain.cpu[at] += pod.cpu
        self.plain.memory[at] += pod.memory
        self.plain.free[at] = [free + amount for free, amount in zip(self.plain.free[at], taken, strict=True)]
        if pod.cards:
            self.plain.kinds[at] -= Counter([kind(pod)])


class PlainLearning(PlainPolicy):
    """``fragmentation``: what is expected is learned, as of the library; what it does with it is plain."""

    def __init__(self, trace: Trace, ranks: list[int], past: list[int]) -> None:
        super().__init__(trace, ranks, "learned")
        self.classes = pod_classes(trace)
        self.expected = ExpectedPods(trace_nodes(trace, ranks))
        self._expect(self.expected.first)
        for number in past:
            self.arrive(trace.pods[number], number)

    def arrive(self, pod: TracePod, number: int) -> None:
        if self.expected.count(self.classes[number]) and (typical := self.expected.typical()) is not None:
            self._expect(typical)

    def _expect(self, typical) -> None:
        amounts = {}
        for amount in range(CARD + 1):
            # The first amount that is no less than a level is the level itself.
            amounts.setdefault(int(typical.position[amount]), amount)
        self.plain.typical = [
            TypicalPod(
                float(typical.shares[at]),
                int(typical.cpu[at]),
                amounts[int(typical.level[at]) + 1],
                int(typical.count[at]),
                np.asarray(typical.allowed[at]),
                self.supply(int(typical.cpu[at]), int(typical.count[at]), np.asarray(typical.allowed[at])),
            )
            for at in range(typical.size)
        ]

    def supply(self, cpu: int, cards: int, allowed) -> float:
        """Return the share of all cards on the empty nodes that could serve a pod."""
        able = [
            node.cards
            for node in self.plain.nodes
            if node.cpu >= cpu and node.cards >= cards and allowed[self.plain.codes[node.model]]
        ]
        return sum(able) / sum(node.cards for node in self.plain.nodes)


class PlainRandom(PlainPolicy):
    def __init__(self, trace: Trace, ranks: list[int], seed: int) -> None:
        super().__init__(trace, ranks, "chosen")
        self.chance = random.Random(seed)

    def place(self, pod: TracePod) -> tuple[int, list[int]] | None:
        plain = self.plain
        feasible = [at for at in range(len(plain.nodes)) if plain.fits(at, pod)]
        if not feasible:
            return None
        at = self.chance.choice(feasible)
        free = list(plain.free[at])
        column = -1
        if pod.cards:
            card = self.chance.choice([card for card, each in enumerate(free) if each >= pod.amount])
            column = card if pod.cards == 1 and pod.amount < CARD else -1
        plain.free[at] = plain.after(at, pod, column)
        plain.cpu[at] -= pod.cpu
        plain.memory[at] -= pod.memory
        return at, [was - now for was, now in zip(free, plain.free[at], strict=True)]


class PlainAllocator:
    """``binpack`` and ``spread``: the allocator is asked about every waiting pod."""

    def __init__(self, trace: Trace, ranks: list[int], policy: str) -> None:
        self.placer = AllocatorPlacer(Run(trace, ranks, 0), policy)
        self.trace = trace
        self.allocator: Allocator = self.placer._allocator
        self.count = 0
        self.held: dict[int, str] = {}

    def arrive(self, pod: TracePod, number: int) -> None:
        """Nothing is learned."""

    def place(self, pod: TracePod) -> tuple[int, list[int]] | None:
        request = self.placer._classes[self.trace.pods.index(pod)].request
        placement = self.allocator.place(request)
        if placement is None:
            return None
        self.count += 1
        self.allocator.take(f"plain-{self.count}", placement)
        row = int(placement.node.split("-")[1])
        cards = [0] * 8
        for grant in placement.grants:
            for device in grant.devices:
                cards[device.index] += pod.amount
        return row, [*cards, self.count]

    def release(self, pod: TracePod, placed: tuple[int, list[int]], number: int) -> None:
        assert self.allocator.release(f"node-{placed[0]:06}", f"plain-{placed[1][-1]}")


def plain_policy(trace: Trace, ranks: list[int], policy: str, seed: int, past: list[int]):
    if policy == "fragmentation":
        return PlainLearning(trace, ranks, past)
    if policy == "random":
        return PlainRandom(trace, ranks, seed)
    if policy in ("binpack", "spread"):
        return PlainAllocator(trace, ranks, policy)
    return PlainPolicy(trace, ranks, policy)


class PlainChurn:
    """A run. ``started``: (arrival, when it was placed), in this order; the other fields: of each second."""

    def __init__(self, trace: Trace, ranks: list[int], arrivals, past, until: int, policy: str, seed: int) -> None:
        played = plain_policy(trace, ranks, policy, seed, past)
        running: list[tuple[int, int, int, object]] = []
        waiting: list[int] = []
        self.started: list[tuple[int, int]] = []
        self.used: list[int] = []
        self.demand: list[int] = []
        arriving = list(enumerate(arrivals))

        def attempt(arrival: int, now: int) -> bool:
            _, number, seconds = arrivals[arrival]
            placed = played.place(trace.pods[number])
            if placed is None:
                return False
            self.started.append((arrival, now))
            running.append((now + seconds, len(self.started), arrival, placed))
            return True

        for now in range(until):
            while ending := [each for each in running if each[0] <= now]:
                first = min(ending)
                running.remove(first)
                played.release(trace.pods[arrivals[first[2]][1]], first[3], first[1])
                waiting = [arrival for arrival in waiting if not attempt(arrival, now)]
            while arriving and arriving[0][1][0] == now:
                arrival, (_, number, _) = arriving.pop(0)
                played.arrive(trace.pods[number], number)
                if not attempt(arrival, now):
                    waiting.append(arrival)
            self.used.append(sum(trace.pods[arrivals[each[2]][1]].milli for each in running))
            self.demand.append(sum(trace.pods[arrivals[each][1]].milli for each in waiting))
        self.waiting = waiting
