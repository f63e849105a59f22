"""Random traces, and the published policies as their definitions say, without anything remembered."""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator

from deviceshare_lab.traces import (
    CARD,
    BestFit,
    DotProd,
    Fgd,
    Fragmentation,
    GpuClustering,
    GpuPacking,
    Trace,
    TraceNode,
    TraceNodes,
    TracePod,
    TracePolicy,
    Typical,
    pod_classes,
    trace_nodes,
    typical_pods,
)

KINDS = (
    (96_000, 393_216, 8, "G2"),
    (104_000, 524_288, 2, "T4"),
    (16_000, 122_880, 2, "P100"),
    (12_000, 60_000, 1, "A10"),
)
PODS = (
    (3_152, 5_600, 1, 810, ""),
    (11_300, 49_152, 1, 1000, ""),
    (12_500, 57_344, 0, 0, ""),
    (11_908, 47_104, 1, 470, "G2|T4"),
    (8_000, 100_000, 1, 320, ""),
    (18_708, 64_512, 1, 1000, "P100|G2"),
    (64_000, 262_144, 8, 1000, ""),
    (8_000, 30_517, 2, 1000, ""),
    (4_000, 24_576, 1, 230, "T4"),
)


def random_trace(seed: int, nodes: int = 14, pods: int = 400) -> Trace:
    chance = random.Random(seed)
    found = tuple(TraceNode(f"n{number:03}", *chance.choice(KINDS)) for number in range(nodes))
    return Trace("made", found, tuple(TracePod(f"p{number:04}", *chance.choice(PODS)) for number in range(pods)))


NO_CPU, UNWANTED = 1.5, 1.5
"""The weights of capacity that CPU cannot serve, and of models with little demand: docs/policies.md."""


class Plain:
    """The state of the nodes as lists, in the order of their ranks."""

    def __init__(self, trace: Trace, ranks: list[int]) -> None:
        self.typical = typical_pods(trace.pods, trace.models)
        """Those that the policies ``fgd`` and ``learned`` (``fragmentation``, told what to expect) know."""
        self.codes = {model: code for code, model in enumerate(trace.models)}
        self.nodes = [node for _, node in sorted(zip(ranks, trace.nodes, strict=True))]
        self.cpu = [node.cpu for node in self.nodes]
        self.memory = [node.memory for node in self.nodes]
        self.free = [[CARD] * node.cards for node in self.nodes]
        self.kinds: list[Counter[float]] = [Counter() for _ in self.nodes]
        """How many pods of each kind are on each node."""

    def fits(self, at: int, pod: TracePod) -> bool:
        room = sum(free >= pod.amount for free in self.free[at])
        models = not pod.cards or not pod.models or self.nodes[at].model in pod.models.split("|")
        return self.cpu[at] >= pod.cpu and self.memory[at] >= pod.memory and room >= pod.cards and models

    def place(self, pod: TracePod, policy: str) -> tuple[int, int]:
        feasible = [at for at in range(len(self.nodes)) if self.fits(at, pod)]
        if not feasible:
            return -1, -1
        scored = [(*getattr(self, policy)(at, pod), at) for at in feasible]
        _, column, at = max(scored, key=lambda each: (each[0], -each[2]))
        self.cpu[at] -= pod.cpu
        self.memory[at] -= pod.memory
        self.free[at] = self.after(at, pod, column)
        if pod.cards:
            self.kinds[at][kind(pod)] += 1
        return at, column

    def after(self, at: int, pod: TracePod, column: int) -> list[int]:
        free = list(self.free[at])
        chosen = [column] if column >= 0 else [at for at, each in enumerate(free) if each >= pod.amount][: pod.cards]
        for each in chosen:
            free[each] -= pod.amount
        return free

    def tightest(self, at: int, pod: TracePod) -> int:
        if pod.cards != 1 or pod.amount == CARD:
            return -1
        return min((free, column) for column, free in enumerate(self.free[at]) if free >= pod.amount)[1]

    def bestfit(self, at: int, pod: TracePod) -> tuple[int, int]:
        left = sum(self.free[at]) - pod.milli
        score = int(100 * (1 - (0.5 * (self.cpu[at] - pod.cpu) / 128000 + 0.5 * left / 8000)))
        return score, self.tightest(at, pod)

    def dotprod(self, at: int, pod: TracePod) -> tuple[int, int]:
        product = (self.cpu[at] / 128000) * (pod.cpu / 128000) + (sum(self.free[at]) / 8000) * (pod.milli / 8000)
        return int(100 * (1 - product / 2)), self.tightest(at, pod)

    def gpupacking(self, at: int, pod: TracePod) -> tuple[int, int]:
        column = self.tightest(at, pod)
        if not pod.cards:
            return 0, column
        whole = self.free[at].count(CARD)
        if whole == len(self.free[at]):
            return max(33 - whole, whole), column
        chosen = sorted(free for free in self.free[at] if free >= pod.amount)[: pod.cards]
        if fresh := chosen.count(CARD):
            return max(50 - fresh, 33), column
        return max(100 - sum(free // 10 for free in chosen) // 10, 50), column

    def gpuclustering(self, at: int, pod: TracePod) -> tuple[int, int]:
        column = self.tightest(at, pod)
        if not pod.cards:
            return 0, column
        base = 25 * (8000 - sum(self.free[at])) // 8000
        if kind(pod) in self.kinds[at]:
            return base + (75 if len(self.kinds[at]) == 1 else 50), column
        return base + (0 if self.kinds[at] else 25), column

    def fgd(self, at: int, pod: TracePod) -> tuple[int, int]:
        columns = [-1]
        if pod.cards == 1 and pod.amount < CARD:
            columns = [column for column, free in enumerate(self.free[at]) if free >= pod.amount]
        before = self.fragmentation(at, self.cpu[at], self.free[at])
        found = []
        for column in columns:
            after = self.fragmentation(at, self.cpu[at] - pod.cpu, self.after(at, pod, column))
            found.append((int(100 / (1 + math.exp(-(before - after) / 1000))), -column))
        score, column = max(found)
        return score, -column

    def learned(self, at: int, pod: TracePod) -> tuple[int, int]:
        columns = [-1]
        if pod.cards == 1 and pod.amount < CARD:
            columns = [column for column, free in enumerate(self.free[at]) if free >= pod.amount]
        before = self.lost(at, self.cpu[at], self.free[at])
        found = []
        for column in columns:
            after = self.lost(at, self.cpu[at] - pod.cpu, self.after(at, pod, column))
            found.append((int((before - after) / 160 + 1_000_000 + 0.5) - 1_000_000, -column))
        score, column = max(found)
        return score, -column

    def lost(self, at: int, cpu: int, free: list[int]) -> float:
        model = self.codes[self.nodes[at].model]
        requested = [pod for pod in self.typical if pod.cards]
        lost = 0.0
        for pod in requested:
            if not pod.allowed[model] or cpu < pod.cpu or sum(each >= pod.amount for each in free) < pod.cards:
                lost += pod.share * sum(free)
            else:
                lost += pod.share * sum(each for each in free if each < pod.amount)
        cards = sum(pod.share * pod.cards * pod.amount for pod in requested)
        served = cpu * (cards / sum(pod.share * pod.cpu for pod in requested))
        demand = sum(pod.share / max(pod.supply, 0.01) for pod in requested if pod.allowed[model])
        lost += UNWANTED * max(1.0 - demand, 0.0) * sum(free)
        return lost + NO_CPU * max(sum(free) - served, 0.0)

    def fragmentation(self, at: int, cpu: int, free: list[int]) -> float:
        model = self.codes[self.nodes[at].model]
        bins = [0.0] * 6
        for typical in self.typical:
            fitting = sum(each >= typical.amount for each in free) >= typical.cards
            lost, cause = sum(free), 1
            if not typical.allowed[model]:
                cause = 5
            elif not typical.cards:
                cause = 3 if cpu >= typical.cpu else 4
            elif cpu < typical.cpu:
                cause = 2 if fitting else 0
            elif fitting:
                lost = sum(each for each in free if each < typical.amount)
            bins[cause] += lost * typical.share
        return ((((bins[0] + bins[1]) + bins[2]) + bins[3]) + bins[4]) + bins[5]


def kind(pod: TracePod) -> float:
    return 0.5 if pod.amount < CARD else pod.cards


POLICIES: dict[str, Callable[[TraceNodes, Trace], TracePolicy]] = {
    "bestfit": lambda nodes, trace: BestFit(nodes),
    "dotprod": lambda nodes, trace: DotProd(nodes),
    "gpupacking": lambda nodes, trace: GpuPacking(nodes),
    "gpuclustering": lambda nodes, trace: GpuClustering(nodes),
    "learned": lambda nodes, trace: Fragmentation(
        nodes, Typical([pod for pod in typical_pods(trace.pods, trace.models) if pod.cards])
    ),
    "fgd": lambda nodes, trace: Fgd(nodes, Typical(typical_pods(trace.pods, trace.models))),
}


def ranks_of(trace: Trace, seed: int) -> list[int]:
    """Return the nodes' ranks in a random order."""
    ranks = list(range(len(trace.nodes)))
    random.Random(seed).shuffle(ranks)
    return ranks


def placements(seed: int) -> Iterator[tuple[str, list[int]]]:
    """Yield for each policy the row of each pod of a random trace."""
    for name, policy in POLICIES.items():
        trace = random_trace(seed)
        started = policy(trace_nodes(trace, ranks_of(trace, seed)), trace)
        yield name, [started.place(pods) for pods in pod_classes(trace)]
