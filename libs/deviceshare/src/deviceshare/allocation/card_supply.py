"""How much of a cluster's cards could serve a request if all nodes were empty."""

from collections.abc import Mapping, Sequence

import numpy as np

from deviceshare.kernels import KIND
from deviceshare.model import NodeFact
from deviceshare.state import Bools, CardTable, Ints, ResourceTable


class CardSupply:
    """The usable cards of each node, by kind. ``kinds`` maps the number of each usable kind to the first one alike.

    It is not updated: create another one after nodes change.
    """

    def __init__(
        self, cards: CardTable, resources: ResourceTable, nodes: Sequence[NodeFact | None], kinds: Mapping[int, int]
    ) -> None:
        rows = np.flatnonzero([node is not None for node in nodes])
        self._rows = rows
        self._cpu: Ints = np.asarray(resources.amounts.allocatable)[rows, resources.reserve("cpu")]
        self._of_kind: dict[int, Ints] = {}
        """int64[rows] for each first kind: the cards of this kind on each node."""
        found = np.asarray(cards.block)[rows, KIND]
        for kind, first in kinds.items():
            count = np.count_nonzero(found == kind, axis=1)
            self._of_kind[first] = self._of_kind.get(first, 0) + count
        self.cards = int(sum(np.sum(count) for count in self._of_kind.values()))
        """All usable cards."""

    def share(self, kinds: set[int], hardware: set[int], cards: int, cpu: int, admitted: Bools | None) -> float:
        """Return the share of cards that could serve pods, 0 to 1; 1 if there is no card of ``hardware``.

        Args:
            kinds: the first kinds whose cards serve the pods.
            hardware: the first kinds of all cards to compare with.
            cards: the cards that a pod requests, all on one node.
            cpu: the millicores that it requests.
            admitted: bool[rows of the cluster], the nodes that admit the pods; None: all of them.
        """
        total = sum(int(np.sum(self._of_kind[kind])) for kind in hardware)
        if not total:
            return 1.0
        serving = sum((self._of_kind[kind] for kind in kinds), np.zeros(len(self._rows), dtype=np.int64))
        able = (serving >= cards) & (self._cpu >= cpu)
        if admitted is not None:
            able &= np.asarray(admitted)[self._rows].astype(np.bool_)
        return int(np.sum(serving[able])) / total
