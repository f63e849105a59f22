"""The fewest victims by trying every set of pods, every node and every choice of cards. It shares no code with ours."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple


class PlainPod(NamedTuple):
    """What a pod asks: CPU, and so many vGPUs of MiB and percent each, every one on another card.

    ``cards``: those that it has on its node, if it runs.
    """

    name: str
    group: str
    level: int
    cpu: int
    number: int = 0
    memory: int = 0
    cores: int = 0
    node: str = ""
    cards: tuple[str, ...] = ()
    queue: str = ""


class PlainNode(NamedTuple):
    """A node: CPU, and MiB of each card by its id; a card has 100 percent and ten places."""

    name: str
    cpu: int
    cards: Mapping[str, int]


class PlainCluster(NamedTuple):
    """Nodes, the pods that run, the minimum of each group, and how many pods each budget allows of which.

    ``deserved``: the CPU that each queue deserves.
    """

    nodes: Sequence[PlainNode]
    pods: Sequence[PlainPod]
    minimums: Mapping[str, int]
    budgets: Sequence[tuple[frozenset[str], int]] = ()
    deserved: Mapping[str, int] = {}


def best(cluster: PlainCluster, waiting: Sequence[PlainPod]) -> tuple[int, int] | None:
    """Return number and sum of priorities of the best victims for pods, None if no set is enough.

    They are of the same queue and of lower priority; or, where queues deserve something, of other queues.
    """
    if cluster.deserved:
        able = [pod for pod in cluster.pods if pod.queue != waiting[0].queue]
        used = sum(pod.cpu for pod in cluster.pods if pod.queue == waiting[0].queue)
        if used + sum(pod.cpu for pod in waiting) > cluster.deserved[waiting[0].queue]:
            able = []
    else:
        able = [pod for pod in cluster.pods if pod.level < waiting[0].level]
    for size in range(len(able) + 1):
        sums = [
            sum(pod.level for pod in gone)
            for gone in combinations(able, size)
            if allowed(cluster, gone) and fit(cluster, gone, waiting)
        ]
        if sums:
            return size, min(sums)
    return None


def allowed(cluster: PlainCluster, gone: Sequence[PlainPod]) -> bool:
    """Return whether gangs keep their minimum or go whole, budgets hold, and queues keep what they deserve."""
    names = {pod.name for pod in gone}
    left = Counter(pod.group for pod in cluster.pods if pod.name not in names)
    if any(0 < left[pod.group] < cluster.minimums[pod.group] for pod in gone):
        return False
    if not all(len(selected & names) <= most for selected, most in cluster.budgets):
        return False
    used = Counter[str]()
    for pod in cluster.pods:
        used[pod.queue] += pod.cpu
    return not cluster.deserved or _in_turn(cluster, used, list(gone))


def _in_turn(cluster: PlainCluster, used: Counter[str], gone: Sequence[PlainPod]) -> bool:
    """Return whether the pods may go in some order, each from a queue that has more than it deserves."""
    if not gone:
        return True
    for at, pod in enumerate(gone):
        if used[pod.queue] > cluster.deserved[pod.queue]:
            left = used - Counter({pod.queue: pod.cpu})
            if _in_turn(cluster, left, [*gone[:at], *gone[at + 1 :]]):
                return True
    return False


def fit(cluster: PlainCluster, gone: Iterable[PlainPod], waiting: Sequence[PlainPod]) -> bool:
    """Return whether all pods fit when others are gone."""
    names = {pod.name for pod in gone}
    cpu = {node.name: node.cpu for node in cluster.nodes}
    cards = {card: [memory, 100, 10] for node in cluster.nodes for card, memory in node.cards.items()}
    for pod in cluster.pods:
        if pod.name not in names:
            cpu[pod.node] -= pod.cpu
            for card in pod.cards:
                _use(cards[card], pod, 1)
    return _place(cluster.nodes, cpu, cards, list(waiting))


def _place(
    nodes: Sequence[PlainNode], cpu: dict[str, int], cards: dict[str, list[int]], waiting: list[PlainPod]
) -> bool:
    if not waiting:
        return True
    pod, *others = waiting
    for node in nodes:
        if cpu[node.name] < pod.cpu:
            continue
        able = [
            card
            for card in node.cards
            if cards[card][0] >= pod.memory and cards[card][1] >= pod.cores and cards[card][2] >= 1
        ]
        for chosen in combinations(able, pod.number):
            cpu[node.name] -= pod.cpu
            for card in chosen:
                _use(cards[card], pod, 1)
            found = _place(nodes, cpu, cards, others)
            cpu[node.name] += pod.cpu
            for card in chosen:
                _use(cards[card], pod, -1)
            if found:
                return True
    return False


def _use(free: list[int], pod: PlainPod, sign: int) -> None:
    for at, amount in enumerate((pod.memory, pod.cores, 1)):
        free[at] -= sign * amount
