"""The cards whose family counts their usage itself, since it is not the sum of what their pods request."""

from collections.abc import Iterable, Sequence

from deviceshare.conf import SchedulerConf
from deviceshare.families import accountings
from deviceshare.model import Card
from deviceshare.state import CardShare, Counted, Holding, shares_on


class CountedCards:
    """Counts such cards, and keeps the result for each: a node may have many other pods."""

    def __init__(self) -> None:
        self._accountings = accountings()
        self.modes = self._accountings.keys()
        """The modes of such cards."""
        self._counted: dict[int, dict[int, Counted]] = {}
        """By row and column."""

    def forget(self, row: int) -> None:
        """Forget the cards of a row, which gets others."""
        self._counted.pop(row, None)

    def count(self, row: int, column: int, card: Card, holdings: Iterable[Holding], conf: SchedulerConf) -> Counted:
        """Return the usage of a card by the holdings of its node."""
        counted = self._accountings[card.mode].count(card, shares_on(card, holdings), conf)
        self._counted.setdefault(row, {})[column] = counted
        return counted

    def known(self, row: int, column: int) -> Counted:
        """Return what was counted last of a card."""
        return self._counted[row][column]

    def add(
        self, row: int, column: int, card: Card, shares: Sequence[CardShare], conf: SchedulerConf
    ) -> Counted | None:
        """Return the usage of a counted card with the shares of one more pod; None: its family cannot add them."""
        of_row = self._counted[row]
        counted = self._accountings[card.mode].add(card, of_row[column], shares, conf)
        if counted is not None:
            of_row[column] = counted
        return counted
