"""Feasibility and score of every node, cached per equivalence class of pods.

Pod classes are equivalent if their requests differ only in parts that do not affect nodes: the names of containers, or
memory that results in the same instance or template of a card. They share one ranking.
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
from deviceshare.kernels import (
    NEVER,
    Best,
    Changes,
    Floats,
    NodeFragmentation,
    NodeIndex,
    NodeScores,
    TieOrder,
    weighted_score,
)
from deviceshare.model import NodeFact, PodRequest, ResourceAmounts
from deviceshare.state import PODS, Bools, CardTable, Ints, ResourceTable

_TIE_BREAK = 1e-9
"""The weight of the exact score, which breaks ties between nodes with equal rounded scores."""


class NodeRanking:
    """The ranking of all nodes for equivalent pod classes.

    ``node_index`` has the weighted score of a placement on each node; ties break by least waste (MiB allocated beyond
    the request). ``favourites`` has the family's rank of each node if a family prefers one node to all others, else it
    is None.

    If kernels select the cards (``node_index.selectors``), nodes are evaluated in the table, in one call. Otherwise the
    families evaluate them in NumPy, on a view.
    """

    def __init__(
        self,
        card_requests: Sequence[CardRequest],
        node_index: NodeIndex,
        node_filter: NodeFilter,
        favourites: Best | None,
    ) -> None:
        self.card_requests = card_requests
        """Those of the first class: the waste of equivalent classes differs by a constant, and is not comparable."""
        self.node_index = node_index
        self.node_filter = node_filter
        self.favourites = favourites
        self.version = -1
        """The version of the tables whose codes ``node_index`` uses."""

    def resolve(
        self,
        asked: ResourceAmounts,
        models: ModelWish | None,
        cards: CardTable,
        resources: ResourceTable,
        conf: SchedulerConf,
    ) -> None:
        """Translate the request into the codes and columns of the tables."""
        node_index = self.node_index
        node_index.columns, node_index.wanted = resources.columns(((PODS, 1), *asked))
        if models is not None:
            node_index.restricts_models = True
            node_index.models = models.accepted(cards.type_names).view(np.uint8)
        selectors = selectors_of(self.card_requests, cards, conf)
        node_index.selectors = None if selectors is None else selectors.kernels
        for selector in node_index.selectors or ():
            selector.cards = cards.charges
            selector.order = cards.order(selector.by_memory, selector.by_shares, selector.by_column)
            if selector.offers:
                selector.offered = resources.column(selector.offers)

    def measure_by(self, fragmentation: NodeFragmentation | None, cpu: int, conf: SchedulerConf) -> None:
        """Score nodes and choose cards by fragmentation where the policies say so; ``cpu``: millicores of a pod."""
        self.node_index.fragmentation = fragmentation if conf.scoring.fragmentation else None
        self.node_index.taken_cpu = cpu
        for selector in self.node_index.selectors or ():
            selector.fragmentation, selector.taken_cpu = fragmentation, cpu

    def refresh(self, facts: Changes, nodes: Sequence[NodeFact | None], ask: PodRequest) -> None:
        """Re-run node filters and preference scores for rows whose NodeFact changed; ``nodes`` are by row."""
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
        """Return the weighted scores for the scores of cards (float64[R])."""
        return [
            weighted_score(score, self.node_index.weight, self.node_index.tie_break_weight) for score in scores.tolist()
        ]

    def put_rows(self, rows: Ints, fits: Bools, key: Floats, waste: Floats, rank: Floats) -> None:
        """Set feasibility, weighted score of the cards, waste, and the family's rank of some nodes, [R] each."""
        key = np.where(fits, key, NEVER)
        if self.node_index.scores is not None:
            self.node_index.scores.enter_rows(rows, key)
        self.node_index.best.put_rows(rows, key, waste)
        if self.favourites is not None:
            self.favourites.put_rows(rows, np.where(fits, rank, NEVER), np.zeros(len(rows)))

    def best(self, bonus: float) -> tuple[int, float]:
        """Return the row of the best node, -1 if none is feasible, and the bonus that its score includes.

        The node that a family ranks first scores ``bonus`` more, before weighting.
        """
        best = self.node_index.best
        row = best.first()
        if row < 0 or self.favourites is None:
            return row, 0.0
        # A node that became infeasible whatever its cards, which rank it, is ranked again once it may be feasible.
        while best.key(favourite := self.favourites.first()) == NEVER:
            self.favourites.put(favourite, NEVER, 0.0)
        gained = best.key(favourite) + weighted_score(bonus, self.node_index.weight, self.node_index.tie_break_weight)
        if favourite == row or gained > best.key(row):
            return favourite, bonus
        # Ties break as without the bonus: by waste, then by the order.
        if gained == best.key(row) and best.precedes(favourite, row):
            return favourite, bonus
        return row, 0.0


class RankingCache:
    """The rankings of the pod classes in use, and the node filters that rankings share.

    Holds weak references: a ranking lives as long as its pod classes, whose number :class:`~.pod_classes.PodClasses`
    bounds.
    """

    def __init__(self, order: TieOrder, cards: CardTable, resources: ResourceTable) -> None:
        self._order = order
        self.cards = cards
        self.resources = resources
        """The tables that rankings read."""
        self.fragmentation: NodeFragmentation | None = None
        """Measures nodes for the policy fragmentation; None until a pod is placed by it."""
        self._rankings: WeakValueDictionary[Hashable, NodeRanking] = WeakValueDictionary()
        self._filters: WeakValueDictionary[Rule, NodeFilter] = WeakValueDictionary()

    def get(self, equivalence_key: Hashable) -> NodeRanking | None:
        """Return the ranking of equivalent pod classes, or None."""
        return self._rankings.get(equivalence_key)

    def add(
        self,
        equivalence_key: Hashable,
        card_requests: Sequence[CardRequest],
        rule: Rule,
        scores: NodeScores | None,
        conf: SchedulerConf,
        *,
        favouring: bool,
    ) -> NodeRanking:
        """Add a ranking; ``conf`` is that of its pods, ``favouring``: a family prefers one node to all others."""
        node_index = NodeIndex(self._order, conf.weight, tie_break_weight(conf))
        node_index.scores = scores
        favourites = Best(self._order) if favouring else None
        ranking = self._rankings[equivalence_key] = NodeRanking(
            card_requests, node_index, self.node_filter(rule), favourites
        )
        return ranking

    def node_filter(self, rule: Rule) -> NodeFilter:
        """Return the node filter of a rule, which lives as long as it is used."""
        found = self._filters.get(rule)
        if found is None:
            found = self._filters[rule] = NodeFilter(rule)
        return found


def tie_break_weight(conf: SchedulerConf) -> float:
    """Return the weight of the exact score: 0 under a rounded policy, unless the rounded score has no weight."""
    return _TIE_BREAK if conf.scoring.exact or not conf.weight else 0.0
