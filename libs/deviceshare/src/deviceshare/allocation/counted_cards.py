"""The cards whose family counts their usage itself, since it is not the sum of what their pods request."""

from collections.abc import Iterable

from deviceshare.conf import SchedulerConf
from deviceshare.families import accountings
from deviceshare.model import Card
from deviceshare.state import CardShare, Counted, Holding, shares_on


class CountedCards:
    """Counts such cards, and keeps the shares of each: a node may have many other pods. A place is row and column."""

    def __init__(self) -> None:
        self._accountings = accountings()
        self.modes = self._accountings.keys()
        """The modes of such cards."""
        self._shares: dict[tuple[int, int], list[list[CardShare]]] = {}
        """One list for each pod, in the order of the holdings of the node."""

    def count(
        self, place: tuple[int, int], card: Card, holdings: Iterable[Holding], last: Holding | None, conf: SchedulerConf
    ) -> Counted:
        """Return the usage of a card by the holdings of its node.

        ``last``: the last holding, which is new, if the others were counted before.
        """
        if last is None:
            self._shares[place] = shares_on(card, holdings)
        else:
            self._shares[place] += shares_on(card, (last,))
        return self._accountings[card.mode].count(card, self._shares[place], conf)
