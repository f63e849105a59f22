"""Inter-pod constraints of a pod class as an index that changes with the nodes that changed.

:class:`.inter_pod.InterPod` passes over all nodes where there is no index: for the first placement since labels or
taints of nodes changed, and where an index would be larger than the cluster.
"""

from collections.abc import Callable, Iterable

import numpy as np

from deviceshare.allocation.node_ranking import NodeRanking
from deviceshare.kernels import MAX_LEVELS, Changes, TopologyIndex, TopologyTerm
from deviceshare.model import HOSTNAME
from deviceshare.state import Ints
from deviceshare.topology import CountedConstraint, DomainCount, Domains, PlacedPods, PodAffinity, TopologySpread

_FEW_GROUPS = 64
_ROWS_PER_GROUP = 8
"""A cluster of many nodes has so many per group at least."""
_FEW_STEPS = 512
"""An index reads each term for each group: so often at most, or once for each node in a large cluster."""
_FIRST_LEVELS = 4
_ANY = 1 << 61
"""A number of pods above every other one."""
_WAIT = 256
"""After so many placements an index is tried again that had too many levels."""


class TopologyRanking:
    """The index of a pod class, built when it is used twice.

    Args:
        pods: the pods on nodes.
        changes: the nodes that changed.
        affinity: inter-pod affinity; ``filters_affinity``: whether it makes nodes infeasible, ``affinity_weight``: the
            weight of its score, 0 for none.
        spread: likewise topology spread, None without it.
    """

    def __init__(
        self,
        pods: PlacedPods,
        changes: Changes,
        affinity: PodAffinity,
        spread: TopologySpread | None,
        *,
        filters_affinity: bool,
        filters_spread: bool,
        affinity_weight: float,
        spread_weight: float,
    ) -> None:
        self._pods = pods
        self._changes = changes
        self._affinity = affinity
        self._spread = spread
        self._filters_affinity = filters_affinity
        self._filters_spread = filters_spread
        self._affinity_weight = affinity_weight
        self._spread_weight = spread_weight
        self._index: TopologyIndex | None = None
        self._limits: list[Callable[[], None]] = []
        """Functions that set how many pods the filters admit now."""
        self._grouping: list[tuple[TopologyTerm, Domains]] = []
        """The terms of the index whose domains have several nodes."""
        self._version = self._recounts = -1
        """Of the nodes and counts by which the index was built, or was last searched."""
        self._wait = 0

    def drop(self) -> None:
        """Forget the index: scores change without changes of nodes."""
        self._index = None

    def find(self, ranking: NodeRanking) -> tuple[int, TopologyIndex] | None:
        """Return the best row, -1 where none is feasible, and the index; None if all nodes have to be passed over."""
        pods = self._pods
        if self._version != pods.version or self._recounts != pods.recounts:
            self._version, self._recounts = pods.version, pods.recounts
            self._index = None
            self._wait = 0
            return None
        if self._wait:
            self._wait -= 1
            return None
        index = self._index
        best = ranking.node_index.best
        if index is None or index.best is not best or len(index.place) != best.rows:
            index = self._index = self._build(ranking, _FIRST_LEVELS)
        if index is not None:
            index.refresh(self._changes)
            while index is not None and index.overflow:
                more = 2 * index.levels
                index = self._index = self._build(ranking, more) if more <= MAX_LEVELS else None
                if index is not None:
                    index.refresh(self._changes)
        if index is None:
            self._wait = _WAIT
            return None
        for limit in self._limits:
            limit()
        return index.find(), index

    def _build(self, ranking: NodeRanking, levels: int) -> TopologyIndex | None:
        """Return an index that knows no row yet, or None if it would not be smaller than the cluster."""
        best = ranking.node_index.best
        if best.rows != len(self._pods):
            return None
        self._limits, self._grouping = [], []
        self._affinity.refresh()
        if self._spread is not None:
            self._spread.refresh()
        filters = [*self._affinity_filters(), *self._spread_filters()]
        nearby = self._nearby() if self._affinity_weight else []
        spread = self._spread_scores() if self._spread_weight else []
        of_row, groups = _grouped((domains for _, domains in self._grouping), best.rows)
        terms = len(filters) + len(nearby) + len(spread)
        if groups > max(_FEW_GROUPS, best.rows // _ROWS_PER_GROUP) or groups * terms > max(_FEW_STEPS, best.rows):
            return None
        first = np.unique(of_row, return_index=True)[1]
        for term, domains in self._grouping:
            term.of_group = domains.of_row[first]
        return TopologyIndex(
            best, of_row, groups, levels, filters, nearby, spread, self._affinity_weight, self._spread_weight
        )

    def _affinity_filters(self) -> list[TopologyTerm]:
        found: list[TopologyTerm] = []
        if not self._filters_affinity:
            return found
        affinity = self._affinity
        for count in affinity.near:
            term = self._term(count)
            term.most, term.cap = _ANY, 1
            found.append(term)
        if near := list(found):

            def limit() -> None:
                least = affinity.least
                for term in near:
                    term.least = least

            self._limits.append(limit)
        for count in (*affinity.apart, *affinity.kept_out):
            term = self._term(count)
            term.cap = 1
            found.append(term)
        return found

    def _spread_filters(self) -> list[TopologyTerm]:
        found: list[TopologyTerm] = []
        for each in self._spread.required if self._filters_spread and self._spread is not None else ():
            term = self._term(each.selected)
            term.least = 0

            def limit(term: TopologyTerm = term, each: CountedConstraint = each) -> None:
                term.most = each.most

            self._limits.append(limit)
            found.append(term)
        return found

    def _nearby(self) -> list[TopologyTerm]:
        found = []
        for count, points in self._affinity.scored:
            term = self._term(count)
            term.points = float(points)
            found.append(term)
        return found

    def _spread_scores(self) -> list[TopologyTerm]:
        found = []
        for each in self._spread.preferred if self._spread is not None else ():
            count = each.selected
            if each.constraint.topology_key == HOSTNAME:
                term = TopologyTerm(count.on_nodes.per_row, count.domains.of_row, by_row=True, of_rows=True)
            else:
                term = self._term(count)
                term.marks = np.zeros(count.domains.size, dtype=np.uint8)
            term.more = float(each.constraint.max_skew - 1)
            found.append(term)
        return found

    def _term(self, count: DomainCount) -> TopologyTerm:
        domains = count.domains
        term = TopologyTerm(count.pods, domains.of_row, by_row=domains.single)
        if not term.by_row:
            self._grouping.append((term, domains))
        return term


def _grouped(domains: Iterable[Domains], rows: int) -> tuple[Ints, int]:
    """Return the group of each row, and their number: rows of a group are in the same domains."""
    of_row = np.zeros(rows, dtype=np.int64)
    groups = 1
    for each in dict.fromkeys(domains):
        values, of_row = np.unique(of_row * each.size + each.of_row, return_inverse=True)
        groups = len(values)
    return of_row.astype(np.int64), groups
