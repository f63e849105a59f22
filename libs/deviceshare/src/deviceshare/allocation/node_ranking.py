"""What a pod is worth on every node: one answer for all pods that the nodes cannot tell apart.

Shapes are *alike* where their asks differ only in what makes no difference to nodes: the names of containers, or memory
that comes to the same instance or template. They share one outlook.
"""

from collections.abc import Hashable, Sequence
from weakref import WeakValueDictionary

import numpy as np

from deviceshare.allocation.card_models import ModelWish
from deviceshare.allocation.card_request import CardRequest, selectors_of
from deviceshare.allocation.node_filter import NodeFilter
from deviceshare.allocation.node_scores import enter_nodes
from deviceshare.allocation.predicates import Rule
from deviceshare.conf import SchedulerConf
from deviceshare.kernels import NEVER, Best, Changes, Floats, NodeIndex, NodeScores, TieOrder, weighted_score
from deviceshare.model import NodeFact, PodRequest
from deviceshare.state import Bools, CardTable, Ints, ResourceAmounts, ResourceTable

_TIE_BREAK = 1e-9
"""What a score counts beside its weighed, rounded value: it decides between nodes that are equal otherwise."""


class NodeRanking:
    """What pods of some shapes are worth on every node.

    ``standing`` is worth what a placement there would score, weighed; of nodes of equal worth that with the least waste
    (MiB given beyond what is asked) is taken. ``favourites`` is there where a family prefers one node to all others.

    Where the cards are found by kernels (``standing.pickers``) nodes are looked at straight in the table, in one call.
    Otherwise the families are asked in numpy, on a view.
    """

    def __init__(
        self,
        card_requests: Sequence[CardRequest],
        node_index: NodeIndex,
        node_filter: NodeFilter,
        favourites: Best | None,
    ) -> None:
        self.card_requests = card_requests
        """Those of the first of these shapes: what the others waste could not be compared with what is remembered."""
        self.node_index = node_index
        self.node_filter = node_filter
        self.favourites = favourites
        self.version = -1
        """Of the tables by whose codes ``standing`` knows what is asked."""

    def resolve(
        self,
        asked: ResourceAmounts,
        models: ModelWish | None,
        cards: CardTable,
        resources: ResourceTable,
        conf: SchedulerConf,
    ) -> None:
        """Look up by which codes the tables know what is asked."""
        node_index = self.node_index
        node_index.columns, node_index.wanted = resources.wanted(asked)
        if models is not None:
            node_index.restricts_models = True
            node_index.models = models.accepted(cards.type_names).view(np.uint8)
        selectors = selectors_of(self.card_requests, cards, conf)
        node_index.selectors = None if selectors is None else selectors.kernels
        for selector in node_index.selectors or ():
            selector.cards = cards.charges
            if selector.offers:
                selector.offered = resources.column(selector.offers)

    def refresh(self, facts: Changes, nodes: Sequence[NodeFact | None], ask: PodRequest) -> None:
        """Look again which of ``nodes``, those of all rows, such a pod may use and likes, where a fact has changed."""
        node_index = self.node_index
        self.node_filter.refresh(facts, nodes)
        if node_index.best.rows < facts.rows:
            node_index.best.grow(facts.rows)
            if self.favourites is not None:
                self.favourites.grow(facts.rows)
            node_index.admitted = self.node_filter.admitted.view(np.uint8)
        if node_index.scores is not None:
            rows = np.array(facts.found[: facts.since(node_index.facts_version)]).tolist()
            enter_nodes(node_index.scores, ask, {row: node for row in rows if (node := nodes[row])}, facts.rows)
        node_index.facts_version = facts.now

    def weighted_score(self, scores: Floats) -> list[float]:
        """Return what scores of cards (float64[R]) count for their nodes."""
        return [
            weighted_score(score, self.node_index.weight, self.node_index.tie_break_weight) for score in scores.tolist()
        ]

    def put_rows(self, rows: Ints, fits: Bools, key: Floats, waste: Floats, rank: Floats) -> None:
        """Enter what families say of some nodes, all [R].

        That is whether the pod fits, what its cards are worth and waste, and how the family ranks the node.
        """
        key = np.where(fits, key, NEVER)
        if self.node_index.scores is not None:
            self.node_index.scores.enter_rows(rows, key)
        self.node_index.best.put_rows(rows, key, waste)
        if self.favourites is not None:
            self.favourites.put_rows(rows, np.where(fits, rank, NEVER), np.zeros(len(rows)))

    def best(self, bonus: float) -> tuple[int, float]:
        """Return the best node's row, -1 where none fits, and what it scores as the favourite of a family.

        That one scores ``bonus`` more.
        """
        best = self.node_index.best
        row = best.first()
        if row < 0 or self.favourites is None:
            return row, 0.0
        favourite = self.favourites.first()
        gained = best.key(favourite) + weighted_score(bonus, self.node_index.weight, self.node_index.tie_break_weight)
        if favourite == row or gained > best.key(row):
            return favourite, bonus
        # Of equal ones it is as without the bonus: the waste, then the order.
        if gained == best.key(row) and best.precedes(favourite, row):
            return favourite, bonus
        return row, 0.0


class RankingCache:
    """The outlooks that shapes have by now, under one configuration, and the admissions that these share."""

    def __init__(self, conf: SchedulerConf, order: TieOrder) -> None:
        self._conf = conf
        self._order = order
        self._rankings: WeakValueDictionary[Hashable, NodeRanking] = WeakValueDictionary()
        self._filters: WeakValueDictionary[Rule, NodeFilter] = WeakValueDictionary()

    def get(self, equivalence_key: Hashable) -> NodeRanking | None:
        """Return the outlook of shapes that are alike, None where there is none yet."""
        return self._rankings.get(equivalence_key)

    def add(
        self,
        equivalence_key: Hashable,
        card_requests: Sequence[CardRequest],
        rule: Rule,
        scores: NodeScores | None,
        *,
        favouring: bool,
    ) -> NodeRanking:
        """Return a new one; ``favouring``: a family prefers one node to all others."""
        node_filter = self._filters.get(rule)
        if node_filter is None:
            node_filter = self._filters[rule] = NodeFilter(rule)
        node_index = NodeIndex(self._order, self._conf.weight, _tie_break_weight(self._conf))
        node_index.scores = scores
        favourites = Best(self._order) if favouring else None
        ranking = self._rankings[equivalence_key] = NodeRanking(card_requests, node_index, node_filter, favourites)
        return ranking


def _tie_break_weight(conf: SchedulerConf) -> float:
    """Return what the exact score counts: where it has no weight, and under spread, it decides between equal nodes."""
    return 0.0 if conf.weight and conf.policy == "binpack" else _TIE_BREAK
