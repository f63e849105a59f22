"""Inter-pod constraints, volumes and ResourceClaims of one pod class on top of its ranking: the best node.

The ranking of a class, which equivalent classes share, knows nothing of other pods, volumes and ResourceClaims. Where
pods have inter-pod constraints, or those of other pods select them, or where they have volumes or ResourceClaims, each
placement filters the nodes of the ranking, adds the scores of both plugins, and takes the best node of the result.
"""

from collections.abc import Callable, Hashable
from typing import NamedTuple

import numpy as np

from deviceshare.allocation.device_filter import NO_DEVICES, DeviceFilter, NodeDevices
from deviceshare.allocation.node_ranking import NodeRanking
from deviceshare.allocation.predicates import RefusalReason, Rule, matches, untolerated
from deviceshare.allocation.topology_ranking import TopologyRanking
from deviceshare.allocation.volume_filter import VolumeFilter
from deviceshare.conf import SchedulerConf
from deviceshare.families import Check
from deviceshare.kernels import NEVER, Best, Changes, Floats, Mask, NodeScores, RowScan, weighted_score
from deviceshare.model import NodeFact, PodRequest, Refusal, VolumeBinding
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
    """The inter-pod constraints of a pod class, and of other pods towards it, its volumes and its ResourceClaims.

    Args:
        request: the request of the pods.
        conf: the configuration: which constraints filter nodes, and the weights of scores.
        pods: the pods on nodes; None if there are no inter-pod constraints.
        required_weight: what required affinity of other pods adds to scores.
        volumes: the volumes of the pods, None if they have none.
        devices: their ResourceClaims, None if they have none.
        every_row: returns the numbers of the first rows, int64[rows], one array for all classes.
        scan: arrays of the size of the cluster for the time of a call of :meth:`best`, shared by all classes.
        changes: the nodes that changed; None: each call of :meth:`best` passes over all nodes.
    """

    def __init__(
        self,
        request: PodRequest,
        conf: SchedulerConf,
        pods: PlacedPods | None,
        required_weight: int = REQUIRED_WEIGHT,
        volumes: VolumeFilter | None = None,
        devices: DeviceFilter | None = None,
        every_row: Callable[[int], Ints] = np.arange,
        scan: RowScan | None = None,
        changes: Changes | None = None,
    ) -> None:
        self._request = request
        self._pods = pods
        self._volumes = volumes
        self._devices = devices
        self._every_row = every_row
        self._scan = scan if scan is not None else RowScan()
        order = conf.nodeorder
        self._affinity_weight = order.pod_affinity if order is not None else 0
        self._spread_weight = order.topology_spread if order is not None else 0
        self.affinity: PodAffinity | None = None
        self.spread: TopologySpread | None = None
        if pods is not None:
            pods.classes += 1
            self.affinity = PodAffinity(request.topology, request.imposed, pods, required_weight)
            if request.topology is not None:
                self.spread = TopologySpread(request.topology, pods, self._admits)
        self._scores = bool(
            (self._affinity_weight and self.affinity is not None and self.affinity.prefers)
            or (self._spread_weight and self.spread is not None and self.spread.preferred)
        )
        """Whether it scores nodes."""
        restricts = self.affinity is not None and self.affinity.restricts
        self._filters_affinity = conf.predicates.pod_affinity and restricts
        self._filters_spread = conf.predicates.topology_spread and self.spread is not None
        self._ranking: TopologyRanking | None = None
        if pods is not None and changes is not None and self.affinity is not None:
            self._ranking = TopologyRanking(
                pods,
                changes,
                self.affinity,
                self.spread,
                filters_affinity=self._filters_affinity,
                filters_spread=self._filters_spread,
                affinity_weight=self._affinity_weight,
                spread_weight=self._spread_weight,
            )

    def close(self) -> None:
        """Release what is counted for it."""
        if self._pods is not None:
            self._pods.classes -= 1
        if self.affinity is not None:
            self.affinity.close()
        if self.spread is not None:
            self.spread.close()
        if self._devices is not None:
            self._devices.close()

    @property
    def rejection(self) -> Refusal | None:
        """Why no node is feasible, whatever node it is: because of a volume or a ResourceClaim."""
        found = self._volumes.rejection() if self._volumes is not None else None
        return self._devices.rejection() if found is None and self._devices is not None else found

    @property
    def exclusive(self) -> bool:
        """Whether the pod uses a volume that one pod of the cluster may use at a time, or binds one, or has
        ResourceClaims or devices that concern several nodes.
        """
        of_devices = self._devices is not None and self._devices.exclusive
        return of_devices or (self._volumes is not None and self._volumes.exclusive)

    def bindings(self, row: int) -> tuple[VolumeBinding, ...]:
        """Return how the unbound claims of the pod are bound on a node that fits."""
        return self._volumes.bindings(row) if self._volumes is not None else ()

    def devices(self, row: int) -> NodeDevices:
        """Return what the ResourceClaims of the pod get on a node that fits."""
        return self._devices.on_node(row) if self._devices is not None else NO_DEVICES

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
        if self._filters_affinity and self.affinity is not None:
            self.affinity.refresh()
            found += self.affinity.filters()
        return found

    def checks(self, rows: Ints) -> list[Check]:
        """Return the checks that some of these nodes (rows, int64[R]) fail: each node one of each plugin at most."""
        no_cards = np.zeros(len(rows), dtype=np.int64)
        filters = self._filters()
        found: dict[str, Bools] = {}
        for reasons in (SPREAD_REASONS, AFFINITY_REASONS):
            if of_plugin := [each for each in filters if each.reason in reasons]:
                found |= failing(of_plugin, len(of_plugin[0].domains.of_row))
        excluded = [(_REASONS[text].code, text, nodes) for text, nodes in found.items()]
        for reason, nodes in self._volumes.excluded() if self._volumes is not None else ():
            excluded.append((*reason, nodes))
        checks = [Check(code, text, nodes[rows], no_cards) for code, text, nodes in excluded if nodes[rows].any()]
        of_devices = self._devices.excluded(rows) if self._devices is not None else ()
        return [*checks, *(Check(*reason, nodes, no_cards) for reason, nodes in of_devices)]

    def _without_excluded(self, rows: int) -> tuple[Ints, Mask] | None:
        """Return the nodes that volumes exclude, as domains of one row each; None: no node."""
        if self._volumes is None or not (reasons := self._volumes.excluded()):
            return None
        excluded = np.zeros(rows, dtype=np.bool_)
        for _, nodes in reasons:
            excluded |= nodes
        return self._every_row(rows), excluded.view(np.uint8)

    def best(self, ranking: NodeRanking, bonus: float) -> BestNode:
        """Return the best node; ``bonus`` as in :meth:`NodeRanking.best <.node_ranking.NodeRanking.best>`."""
        index = ranking.node_index
        scores = index.scores
        normalized = scores is not None and (scores.preferred_affinity.highest or scores.prefer_no_schedule.highest)
        of_rows = self._without_excluded(len(index.best.keys))
        if self._ranking is not None and self._devices is None and of_rows is None and not bonus:
            if normalized:
                self._ranking.drop()
            elif (found := self._ranking.find(ranking)) is not None:
                row, known = found
                return BestNode(row, known.feasible, known.total, 0.0) if row >= 0 else _NONE
        return self._scanned(ranking, bonus, of_rows, normalized=bool(normalized))

    def _scanned(
        self, ranking: NodeRanking, bonus: float, of_rows: tuple[Ints, Mask] | None, *, normalized: bool
    ) -> BestNode:
        """Pass over all nodes; ``of_rows``: those that volumes exclude; ``normalized``: scores are."""
        index, scan = ranking.node_index, self._scan
        excluded: dict[Domains, Mask] = {}
        for _, domains, of_filter in self._filters():
            known = excluded.get(domains)
            excluded[domains] = of_filter if known is None else known | of_filter
        keys, scores = index.best.keys, index.scores
        devices = self._devices.scores(len(keys)) if self._devices is not None else None
        if self._pods is None and of_rows is None and devices is None:
            row, gained = ranking.best(bonus) if bonus else (index.best.first(), 0.0)
            return BestNode(row, index.best.able, index.best.key(row), gained) if row >= 0 else _NONE
        simple = not (self._scores or normalized or bonus) and devices is None
        if len(excluded) + (of_rows is not None) == 1 and simple:
            of_row, one = of_rows if of_rows is not None else _only(excluded)
            row = scan.best_without(keys, of_row, one, index.best)
            return BestNode(row, scan.able, float(keys[row]), 0.0) if row >= 0 else _NONE
        scan.start(keys)
        if devices is not None:
            totals = np.asarray(scan.totals)
            np.add(totals, devices, out=totals)
        if of_rows is not None:
            scan.exclude(*of_rows)
        for domains, of_domains in excluded.items():
            scan.exclude(domains.of_row, of_domains)
        if scores is not None and normalized:
            _normalize_again(scores, scan)
        if self._affinity_weight and self.affinity is not None:
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


def _only(excluded: dict[Domains, Mask]) -> tuple[Ints, Mask]:
    ((domains, of_domains),) = excluded.items()
    return domains.of_row, of_domains


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
