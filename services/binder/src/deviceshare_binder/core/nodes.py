"""The nodes as their facts describe them."""

from collections import OrderedDict
from collections.abc import Mapping

from deviceshare.model import Card

from deviceshare_binder.core.views import NodeView

MAX_GONE = 10_000
"""Deleted nodes that are remembered, to refuse late claims on them at once."""


class Nodes:
    """All nodes that facts have named."""

    def __init__(self) -> None:
        self.views: dict[str, NodeView | None] = {}
        """The nodes by name, None for a deleted node."""
        self.cards: dict[str, dict[str, Card]] = {}
        """The cards of the nodes that have some, by id."""
        self._gone: dict[str, None] = OrderedDict()

    def put(self, name: str, view: NodeView | None) -> None:
        """Apply a node's state, None if it is gone."""
        self.views[name] = view
        self.cards.pop(name, None)
        if view is not None and view.cards:
            self.cards[name] = {card.id: card for card in view.cards}
        self._gone.pop(name, None)
        if view is None:
            self._gone[name] = None
            if len(self._gone) > MAX_GONE:
                oldest = next(iter(self._gone))
                del self._gone[oldest], self.views[oldest]

    def is_gone(self, name: str) -> bool:
        """Return whether a node was deleted."""
        return name in self._gone

    def locks(self, name: str) -> Mapping[str, str]:
        """Return the lock annotations of a node."""
        view = self.views.get(name)
        return dict(view.locks) if view is not None else {}
