"""How many of the pods that might be removed have to go at least, on each node, before a request fits there.

A bound for all nodes at once, from arrays that are kept up to date: what each pod holds. It looks at the node's own
resources and at each card (:mod:`.card_removals`); what else a request needs (a port, other pods) counts as there. So a
node may need more than it says, never less.
"""

from collections.abc import Mapping
from functools import reduce

import numpy as np

from deviceshare.allocation.card_removals import CARD_FIELDS, NEVER_ENOUGH, fewest, least_of_cards
from deviceshare.allocation.expected_pods import Cluster
from deviceshare.allocation.pod_class import PodClass
from deviceshare.kernels import CardSelector
from deviceshare.state import PODS, Bools, Holding, Ints, shares_by_card, usage_of

MAX_COMPARED = 16
"""Resources that are compared; of further ones a node counts as having enough."""
_GONE = -1


class Removals:
    """What pods hold on nodes, by slots that the caller assigns; ``rows`` maps nodes to rows of the table."""

    def __init__(self, cluster: Cluster, rows: Mapping[str, int]) -> None:
        self._cluster = cluster
        self._rows = rows
        self._held: list[Holding | None] = []
        self.row: Ints = np.zeros(0, dtype=np.int64)
        """int64[slots]: the row of each pod's node, -1 for none."""
        self.cards: Ints = np.zeros(0, dtype=np.int64)
        """int64[slots]: how many cards each pod has."""
        self._amounts: dict[str, Ints] = {PODS: np.zeros(0, dtype=np.int64)}
        """int64[slots] for each resource that was asked for."""
        self._shares: Ints = np.zeros((0, 2 + len(CARD_FIELDS)), dtype=np.int64)
        """What each pod has of each of its cards: slot (-1: unused), column, MiB, cores, places."""
        self._starts: list[int] = []
        """Where the shares of each slot begin."""
        self._used = self._unused = 0
        """Shares that were written, and those of them that are not used any more."""

    @property
    def slots(self) -> int:
        """How many slots are reserved."""
        return len(self.row)

    def reserve(self, more: int) -> None:
        """Reserve more slots."""
        self.row = np.pad(self.row, (0, more), constant_values=_GONE)
        self.cards = np.pad(self.cards, (0, more))
        self._amounts = {name: np.pad(amounts, (0, more)) for name, amounts in self._amounts.items()}
        self._held += [None] * more
        self._starts += [0] * more

    def put(self, slot: int, node: str, holding: Holding) -> None:
        """Enter what the pod of a slot holds."""
        if self._held[slot] is not None:
            self.drop(slot)
        row = self._rows.get(node, _GONE)
        self._held[slot] = holding
        self.row[slot] = row
        # At first no resource was asked for but the number of pods.
        own = dict(holding.resources) if len(self._amounts) > 1 else {}
        for name, amounts in self._amounts.items():
            amounts[slot] = 1 if name == PODS else own.get(name, 0)
        shares = self._shares_of(row, holding) if row >= 0 else []
        self.cards[slot] = len(shares)
        self._reserve_shares(len(shares))
        self._starts[slot] = self._used
        for share in shares:
            self._shares[self._used] = (slot, *share)
            self._used += 1

    def drop(self, slot: int) -> None:
        """Empty a slot."""
        count = int(self.cards[slot])
        start = self._starts[slot]
        self._shares[start : start + count, 0] = _GONE
        self._unused += count
        self._held[slot] = None
        self.row[slot], self.cards[slot] = _GONE, 0

    def _shares_of(self, row: int, holding: Holding) -> list[tuple[int, int, int, int]]:
        """Return column and usage of each card of the row that a pod has."""
        table = self._cluster.cards
        found = []
        for name, shares in shares_by_card(holding.grants).items():
            column = table.column(row, name, shares[0].device.index)
            if column >= 0:
                found.append((column, *usage_of(table.cards[row][column], shares)))
        return found

    def _reserve_shares(self, count: int) -> None:
        if self._used + count <= len(self._shares):
            return
        if self._unused > self._used // 2:
            kept = self._shares[: self._used]
            kept = kept[kept[:, 0] != _GONE]
            self._used, self._unused = len(kept), 0
            self._shares[: len(kept)] = kept
            first = np.flatnonzero(np.diff(kept[:, 0], prepend=_GONE)).tolist()
            for at in first:
                self._starts[int(kept[at, 0])] = at
        if self._used + count > len(self._shares):
            self._shares = np.pad(self._shares, ((0, max(count, len(self._shares) // 2, 64)), (0, 0)))

    def _amount(self, name: str) -> Ints | None:
        """Return int64[slots]: what each pod has of a resource; None: too many are compared already."""
        if name not in self._amounts:
            if len(self._amounts) == MAX_COMPARED:
                return None
            self._amounts[name] = np.zeros(len(self.row), dtype=np.int64)
            for slot, holding in enumerate(self._held):
                if holding is not None:
                    self._amounts[name][slot] = dict(holding.resources).get(name, 0)
        return self._amounts[name]

    # The bound

    def least(self, pod_class: PodClass, able: Bools) -> Ints:
        """Return int64[rows]: how many of the ``able`` pods (bool[slots]) have to go before a request fits.

        0 where it needs none of them to go; :data:`NEVER_ENOUGH` where it does not fit even if all go.
        """
        index, cards = pod_class.ranking.node_index, self._cluster.cards
        rows = len(self._cluster.nodes)
        slots = np.flatnonzero(able & (self.row >= 0))
        at = self.row[slots]
        fits: Bools = np.asarray(index.admitted)[:rows].view(np.bool_).copy()
        if index.restricts_models:
            fits &= np.asarray(index.models).view(np.bool_)[cards.models[:rows]]
        least = np.zeros(rows, dtype=np.int64)
        wanted = pod_class.resources + self._cluster.resources.limited(pod_class.of_devices)
        for name, amount in ((PODS, 1), *wanted):
            least = np.maximum(least, self._least_of_resource(name, amount, slots, at, rows))
        if index.selectors:
            of_cards = [self._least_of_cards(selector, able, slots, at, rows) for selector in index.selectors]
            of_any: Ints = reduce(np.minimum, of_cards)
            least = np.maximum(least, of_any)
        return np.where(fits, least, NEVER_ENOUGH)

    def _least_of_resource(self, name: str, amount: int, slots: Ints, at: Ints, rows: int) -> Ints:
        every = np.arange(rows)
        lacking = amount - self._cluster.resources.free(every, name)
        amounts = self._amount(name)
        if amounts is None:
            return np.zeros(rows, dtype=np.int64)
        return fewest(lacking, at, amounts[slots])

    def _least_of_cards(self, selector: CardSelector, able: Bools, slots: Ints, at: Ints, rows: int) -> Ints:
        block = self._cluster.cards.block[:rows]
        columns = block.shape[2]
        shares = self._shares[: self._used]
        shares = shares[(shares[:, 0] != _GONE) & able[shares[:, 0]]]
        cells = self.row[shares[:, 0]] * columns + shares[:, 1]
        of_card = least_of_cards(selector, block, cells, shares[:, 2:])
        if of_card is None:
            return np.zeros(rows, dtype=np.int64)
        if selector.restricted:
            of_card = np.where(np.asarray(selector.allowed)[:rows].view(np.bool_), of_card, NEVER_ENOUGH)
        if selector.count > columns:
            return np.full(rows, NEVER_ENOUGH, dtype=np.int64)
        if selector.count == 1:
            least: Ints = of_card.min(axis=1)
        else:
            of_card = np.sort(of_card, axis=1)[:, : selector.count]
            # Each card needs its own pods to go, but one pod may have several of the cards.
            together = fewest(np.minimum(of_card, NEVER_ENOUGH).sum(axis=1), at, self.cards[slots])
            least = np.maximum(of_card[:, -1], together)
        if selector.offers:
            resources = self._cluster.resources
            least = np.where(resources.allocatable(np.arange(rows), selector.offers) > 0, least, NEVER_ENOUGH)
        return least
