"""Cards that are wholly free, by the nodes that have them: what a pod can get that requests several cards. Pure."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from deviceshare_metrics.api import Device, Node

K = TypeVar("K", bound=Hashable)
NUMBERS = (8, 4, 2, 1)
"""Cards of one pod, of which is shown on how many nodes they are free."""


def closed_nodes(nodes: Iterable[Node]) -> frozenset[str]:
    """Return the nodes that take no pods."""
    return frozenset(node.name for node in nodes if not node.ready or node.unschedulable)


def is_available(device: Device, closed: frozenset[str]) -> bool:
    """Return whether pods can get a card: it is healthy and not cordoned, and its node takes pods."""
    return device.healthy and device.cordon is None and device.node not in closed


def whole_free(keyed: Iterable[tuple[K, Device]], closed: frozenset[str]) -> Mapping[K, Counter[str]]:
    """Return by the key of cards how many of each node are wholly free."""
    found: defaultdict[K, Counter[str]] = defaultdict(Counter)
    for key, device in keyed:
        found[key][device.node] += is_available(device, closed) and not device.slots_used
    return found


def nodes_with(free: Counter[str]) -> dict[int, int]:
    """Return on how many nodes at least 8, 4, 2 and 1 cards are free."""
    return {number: sum(cards >= number for cards in free.values()) for number in NUMBERS}
