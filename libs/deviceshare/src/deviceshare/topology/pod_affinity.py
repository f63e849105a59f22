"""Inter-pod affinity and anti-affinity of one pod class: feasible nodes, and the score of nodes.

Source: kube-scheduler's plugin InterPodAffinity (filtering.go, scoring.go). One difference: the namespace selectors of
the pod's own terms are matched against the labels of namespaces, as those of other pods' terms are. kube-scheduler
compares a selector that only has negative requirements with no labels at all, so that it selects every namespace.
"""

from collections.abc import Iterable

import numpy as np

from deviceshare.kernels import Floats, RowScan
from deviceshare.model import AFFINITY, ANTI_AFFINITY, ImposedTerm, PodTopology
from deviceshare.topology.counts import DomainCount
from deviceshare.topology.domains import DomainFilter, Domains
from deviceshare.topology.placed_pods import PlacedPods
from deviceshare.topology.selections import Imposing, SelectedByAll, Selection, selects

AFFINITY_REASONS = (
    "node(s) didn't match pod affinity rules",
    "node(s) didn't match pod anti-affinity rules",
    "node(s) didn't satisfy existing pods anti-affinity rules",
)


class PodAffinity:
    """The affinity of one pod class.

    Args:
        topology: the constraints of the pods, None if they have none of their own.
        imposed: the terms of other pods that select the pods.
        pods: the pods on nodes.
        required_weight: what a term of required affinity of another pod adds to the score (``hardPodAffinityWeight``).
    """

    def __init__(
        self,
        topology: PodTopology | None,
        imposed: Iterable[ImposedTerm],
        pods: PlacedPods,
        required_weight: int,
    ) -> None:
        self._pods = pods
        self._topology = topology = topology or PodTopology()
        self._counts: list[DomainCount] = []
        together = SelectedByAll(tuple(dict.fromkeys(term.pods for term in topology.affinity)))
        self.near = [self._count(together, term.topology_key) for term in topology.affinity]
        """For each term of required affinity, the pods that match all terms."""
        self.apart = [self._count(SelectedByAll((term.pods,)), term.topology_key) for term in topology.anti_affinity]
        """The pods of each term of required anti-affinity."""
        self.kept_out: list[DomainCount] = []
        """Pods whose required anti-affinity selects the pod."""
        self.scored = [
            (self._count(SelectedByAll((each.term.pods,)), each.term.topology_key), each.weight)
            for each in topology.preferred
        ]
        """Pods that score the nodes of their domains, each with its weight."""
        for term in imposed:
            weight = required_weight if term.kind == AFFINITY else term.weight
            if term.kind == ANTI_AFFINITY or weight:
                count = self._count(Imposing(term), term.term.topology_key)
                if term.kind == ANTI_AFFINITY:
                    self.kept_out.append(count)
                else:
                    self.scored.append((count, weight))
        self._own_labels = dict(topology.labels)

    def _count(self, selection: Selection, key: str) -> DomainCount:
        self._counts.append(self._pods.count(selection, key))
        return self._counts[-1]

    def close(self) -> None:
        """Release the counts."""
        for count in self._counts:
            self._pods.drop(count)
        self._counts.clear()

    @property
    def restricts(self) -> bool:
        """Whether it may make nodes infeasible."""
        return bool(self.near or self.apart or self.kept_out)

    @property
    def prefers(self) -> bool:
        """Whether it may score nodes."""
        return bool(self.scored)

    def refresh(self) -> None:
        """Count again what nodes have changed."""
        for count in self._counts:
            count.on_nodes.refresh(self._pods.version)

    def filters(self) -> list[DomainFilter]:
        """Return the domains that are excluded now, by :data:`AFFINITY_REASONS`."""
        found = []
        far, apart, kept_out = AFFINITY_REASONS
        least = self.least
        for count in self.near:
            excluded = (count.pods < least).view(np.uint8)
            excluded[0] = 1
            found.append(DomainFilter(far, count.domains, excluded))
        for reason, counts in ((apart, self.apart), (kept_out, self.kept_out)):
            found += [
                DomainFilter(reason, count.domains, (count.pods > 0).view(np.uint8)) for count in counts if count.total
            ]
        return found

    @property
    def least(self) -> int:
        """How many pods required affinity wants in a domain: 1, or 0 if the pod may be the first one."""
        if not self.near or any(count.total for count in self.near):
            return 1
        return 0 if self._selects_itself() else 1

    def _selects_itself(self) -> bool:
        """Return whether all terms of required affinity select the pod itself: it may be the first one."""
        own = self._topology.namespace
        namespaces = self._pods.namespaces
        return all(selects(term.pods, own, self._own_labels, namespaces) for term in self._topology.affinity)

    def add_scores(self, scan: RowScan, weight: float) -> bool:
        """Add the weighted scores of the feasible nodes to their totals; return whether a term applies to any pod."""
        by_domains: dict[Domains, Floats] = {}
        for count, points in self.scored:
            if count.total:
                if count.domains not in by_domains:
                    by_domains[count.domains] = np.zeros(count.domains.size)
                by_domains[count.domains] += count.pods * float(points)
        if not by_domains:
            return False
        scan.clear()
        for domains, points_of in by_domains.items():
            scan.add(domains.of_row, points_of)
        scan.add_highest(weight)
        return True
