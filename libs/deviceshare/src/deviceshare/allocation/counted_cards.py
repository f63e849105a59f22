"""The cards whose family counts their usage itself, since it is not the sum of what their pods request."""

from collections.abc import Iterable

from deviceshare.conf import SchedulerConf
from deviceshare.families import accountings
from deviceshare.model import Card
from deviceshare.state import CardShare, Counted, Holding, shares_on


class CountedCards:
    """Counts such cards, and keeps the shares of each: a node may have many other pods."""

    def __init__(self) -> None:
        self._accountings = accountings()
        self.modes = self._accountings.keys()
        """The modes of such cards."""
        self._shares: dict[int, dict[int, list[list[CardShare]]]] = {}
        """By row and column one list for each pod, in the order of the holdings of the node."""

    def forget(self, row: int) -> None:
        """Forget the cards of a row, which gets others."""
        self._shares.pop(row, None)

    def count(
        self,
        row: int,
        column: int,
        card: Card,
        holdings: Iterable[Holding],
        last: Holding | None,
        conf: SchedulerConf,
    ) -> Counted:
        """Return the usage of a card by the holdings of its node.

        ``last``: the last holding, which is new, if the others were counted before.
        """
        if last is None:
            shares = self._shares.setdefault(row, {})[column] = shares_on(card, holdings)
        else:
            shares = self._shares[row][column]
            shares += shares_on(card, (last,))
        return self._accountings[card.mode].count(card, shares, conf)
