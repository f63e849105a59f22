"""The pods that a cluster usually gets, as arrays."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from deviceshare.kernels.arrays import Floats, Ints, Mask

CARD = 1000
"""A whole card: parts of cards are counted in thousandths."""
MIN_SHARE = 0.04
"""The share of all weights from which on an amount counts in ``usable``: parts are not kept free for less."""
SIZE_POWER, SUPPLY_POWER = 0.45, 0.25
"""How much the size of a request, and how much the supply of cards for it, count in :func:`expected_weight`."""
MIN_SUPPLY = 0.01
"""The least share of all cards that counts as the supply of a request; with none at all its weight is 0."""


class TypicalPod(NamedTuple):
    """A frequent request, and its share of the weights of all typical pods; ``allowed`` uint8[models].

    ``cpu`` in thousandths of a core, ``amount`` in thousandths of each of ``cards`` cards. ``supply``: the share of all
    cards that could serve it, 0 to 1.
    """

    share: float
    cpu: int
    amount: int
    cards: int
    allowed: Mask
    supply: float = 1.0


def expected_weight(pods: float, amount: int, supply: float) -> float:
    """Return the weight of expected pods with the same request under the policy ``fragmentation``.

    Pods that are large, or that few nodes can serve, are the first that find no room, so they weigh more than their
    number. Pods that no node can serve weigh nothing: no placement can help them.

    Args:
        pods: their number.
        amount: what each of them requests of all its cards, in thousandths of a card.
        supply: the share of all cards that is on nodes which could serve such a pod if they were empty, 0 to 1.
    """
    if supply <= 0.0:
        return 0.0
    weight: float = pods * (amount / CARD) ** SIZE_POWER / max(supply, MIN_SUPPLY) ** SUPPLY_POWER
    return weight


class Typical:
    """Typical pods as arrays, maybe none. ``level`` is the index of a pod's amount among all amounts.

    ``position`` int64[1001] is the number of amounts that are no more than a free amount. ``cards_per_cpu``: what pods
    with cards request of cards, per thousandth of a core that they request; 0 if they request no CPU.

    ``usable`` int64[1001] is what typical pods can use at most of a part of this size that one pod gets as a whole: the
    largest amount up to it of pods that accept the first model, 0 without one.

    ``unwanted`` float64[models] is how much less than 1, the mean of all cards, is the demand for a card of a model, 0
    if it is more: each typical pod spreads its share over its supply.
    """

    def __init__(self, pods: Sequence[TypicalPod]) -> None:
        levels = sorted({pod.amount for pod in pods if pod.cards})
        self.size, self.levels = len(pods), len(levels)
        self.shares: Floats = np.array([pod.share for pod in pods], dtype=np.float64)
        self.cpu: Ints = np.array([pod.cpu for pod in pods], dtype=np.int64)
        self.count: Ints = np.array([pod.cards for pod in pods], dtype=np.int64)
        self.level: Ints = np.array([levels.index(pod.amount) if pod.cards else 0 for pod in pods], dtype=np.int64)
        self.allowed: Mask = np.array([pod.allowed for pod in pods], dtype=np.uint8).reshape(
            len(pods), -1 if pods else 1
        )
        self.position: Ints = np.searchsorted(levels, np.arange(CARD + 1), side="right").astype(np.int64)
        by_amount: dict[int, float] = defaultdict(float)
        for pod in pods:
            if pod.cards and pod.allowed[0]:
                by_amount[pod.amount] += pod.share
        amounts = [0, *sorted(amount for amount, share in by_amount.items() if share >= MIN_SHARE)]
        self.usable: Ints = np.array(amounts, dtype=np.int64)[
            np.searchsorted(amounts, np.arange(CARD + 1), side="right") - 1
        ]
        spread = np.array([pod.share / max(pod.supply, MIN_SUPPLY) if pod.cards else 0.0 for pod in pods])
        demand = np.sum(spread[:, np.newaxis] * self.allowed, axis=0, dtype=np.float64)
        self.unwanted: Floats = 1.0 - np.minimum(demand, 1.0)
        cpu = sum(pod.share * pod.cpu for pod in pods if pod.cards)
        self.cards_per_cpu = sum(pod.share * pod.amount * pod.cards for pod in pods) / cpu if cpu else 0.0
