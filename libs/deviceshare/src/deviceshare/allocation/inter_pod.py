"""Inter-pod constraints of one pod class on top of its ranking: filter, scores, and the best node.

The ranking of a class, which equivalent classes share, knows nothing of other pods. Where pods have inter-pod
constraints, or those of other pods select them, each placement filters the nodes of the ranking, adds the scores of
both plugins, and takes the best node of the result.
"""

from collections.abc import Callable, Hashable
from typing import NamedTuple

import numpy as np

from deviceshare.allocation.node_ranking import NodeRanking
from deviceshare.allocation.predicates import RefusalReason, Rule, matches, untolerated
from deviceshare.conf import SchedulerConf
from deviceshare.families import Check
from deviceshare.kernels import NEVER, Best, Floats, Mask, NodeScores, RowScan, weighted_score
from deviceshare.model import NodeFact, PodRequest
from deviceshare.state import Bools, Ints
from deviceshare.topology import (
    AFFINITY_REASONS,
    SPREAD_REASONS,
    DomainFilter,
    Domains,
    PlacedPods,
    PodAffinity,
    Policies,
    TopologySpread,
    failing,
)

_REASONS = {
    reason.text: reason
    for reason in (
        RefusalReason("TopologyKeyMissing", SPREAD_REASONS[0]),
        RefusalReason("TopologySpreadNotMet", SPREAD_REASONS[1]),
        RefusalReason("PodAffinityNotMet", AFFINITY_REASONS[0]),
        RefusalReason("PodAntiAffinityNotMet", AFFINITY_REASONS[1]),
        RefusalReason("ExcludedByOtherPods", AFFINITY_REASONS[2]),
    )
}
REQUIRED_WEIGHT = 0
"""What required affinity of other pods adds to scores (``hardPodAffinityWeight``): 0 in Volcano (plugins/nodeorder)."""


class BestNode(NamedTuple):
    """The best node: its row, -1 where none is feasible; the number of feasible nodes; its total score.

    ``bonus`` is what the node scores as a family's first choice, before weighting.
    """

    row: int
    feasible: int
    score: float
    bonus: float


_NONE = BestNode(-1, 0, NEVER, 0.0)


class InterPod:
    """The inter-pod constraints of a pod class, and of other pods towards it.

    Args:
        request: the request of the pods.
        conf: the configuration: which constraints filter nodes, and the weights of scores.
        pods: the pods on nodes.
        required_weight: what required affinity of other pods adds to scores.
    """

    def __init__(
        self, request: PodRequest, conf: SchedulerConf, pods: PlacedPods, required_weight: int = REQUIRED_WEIGHT
    ) -> None:
        self._request = request
        self._pods = pods
        self._scan = RowScan()
        order = conf.nodeorder
        self._affinity_weight = order.pod_affinity if order is not None else 0
        self._spread_weight = order.topology_spread if order is not None else 0
        self.affinity = PodAffinity(request.topology, request.imposed, pods, required_weight)
        self.spread = TopologySpread(request.topology, pods, self._admits) if request.topology is not None else None
        self._scores = bool(
            (self._affinity_weight and self.affinity.prefers)
            or (self._spread_weight and self.spread is not None and self.spread.preferred)
        )
        """Whether it scores nodes."""
        self._filters_affinity = conf.predicates.pod_affinity and self.affinity.restricts
        self._filters_spread = conf.predicates.topology_spread and self.spread is not None

    def close(self) -> None:
        """Release what is counted for it."""
        self.affinity.close()
        if self.spread is not None:
            self.spread.close()

    def _admits(self, policies: Policies) -> tuple[Hashable, Callable[[NodeFact], bool]]:
        request, (affinity, taints) = self._request, policies
        rule = Rule(
            request.node_selector if affinity else (),
            request.node_terms if affinity else None,
            request.tolerations if taints else (),
            taints=taints,
        )
        return rule, lambda node: matches(rule, node) and not (node.taints and untolerated(rule, node))

    def _filters(self) -> list[DomainFilter]:
        """Return what both plugins exclude now."""
        found: list[DomainFilter] = []
        if self._filters_spread and self.spread is not None:
            self.spread.refresh()
            found += self.spread.filters()
        if self._filters_affinity:
            self.affinity.refresh()
            found += self.affinity.filters()
        return found

    def checks(self, rows: Ints) -> list[Check]:
        """Return the checks that some of these nodes (rows, int64[R]) fail: each node one of each plugin at most."""
        no_cards = np.zeros(len(rows), dtype=np.int64)
        filters = self._filters()
        found: dict[str, Bools] = {}
        for reasons in (SPREAD_REASONS, AFFINITY_REASONS):
            found |= failing([each for each in filters if each.reason in reasons], len(self._pods))
        return [
            Check(_REASONS[text].code, text, nodes[rows], no_cards)
            for text, nodes in found.items()
            if nodes[rows].any()
        ]

    def best(self, ranking: NodeRanking, bonus: float) -> BestNode:
        """Return the best node; ``bonus`` as in :meth:`NodeRanking.best <.node_ranking.NodeRanking.best>`."""
        index, scan = ranking.node_index, self._scan
        excluded: dict[Domains, Mask] = {}
        for _, domains, of_filter in self._filters():
            known = excluded.get(domains)
            excluded[domains] = of_filter if known is None else known | of_filter
        keys, scores = index.best.keys, index.scores
        normalized = scores is not None and (scores.preferred_affinity.highest or scores.prefer_no_schedule.highest)
        if len(excluded) == 1 and not (self._scores or normalized or bonus):
            ((domains, of_domains),) = excluded.items()
            row = scan.best_without(keys, domains.of_row, of_domains, index.best)
            return BestNode(row, scan.able, float(keys[row]), 0.0) if row >= 0 else _NONE
        scan.start(keys)
        for domains, of_domains in excluded.items():
            scan.exclude(domains.of_row, of_domains)
        if scores is not None and normalized:
            _normalize_again(scores, scan)
        if self._affinity_weight:
            self.affinity.refresh()
            self.affinity.add_scores(scan, self._affinity_weight)
        if self._spread_weight and self.spread is not None:
            self.spread.refresh()
            self.spread.add_scores(scan, self._spread_weight)
        row = scan.best(index.best)
        if row < 0:
            return _NONE
        if bonus and ranking.favourites is not None:
            totals = np.asarray(scan.totals)
            ranks = np.where(totals != NEVER, np.asarray(ranking.favourites.keys), NEVER)
            favourite = _first(ranking.favourites, ranks)
            gained = float(totals[favourite]) + weighted_score(bonus, index.weight, index.tie_break_weight)
            level = gained == totals[row] and index.best.precedes(favourite, row)
            if favourite == row or gained > totals[row] or level:
                return BestNode(favourite, scan.able, float(totals[favourite]), bonus)
        return BestNode(row, scan.able, float(scan.totals[row]), 0.0)


def _first(order: Best, keys: Floats) -> int:
    """Return the row with the highest key; ties break by rank."""
    at = np.flatnonzero(keys == keys.max())
    return int(at[np.asarray(order.order.ranks).take(at).argmin()])


def _normalize_again(of_nodes: NodeScores, scan: RowScan) -> None:
    """Change the scores that are normalized over feasible nodes, since fewer nodes are feasible."""
    for part in (of_nodes.preferred_affinity, of_nodes.prefer_no_schedule):
        if not (part.weight and part.highest):
            continue
        totals = np.asarray(scan.totals)
        values = np.zeros(len(totals), dtype=np.int64)
        values[: len(part.values)] = np.asarray(part.values)
        highest = int(values[totals != NEVER].max(initial=0))
        if highest != part.highest:
            changed = (100 * values // highest if highest else 0) - 100 * values // part.highest
            totals += part.weight * (-changed if part.reverse else changed)
