"""Topology spread constraints of one pod class: feasible nodes, and the score of nodes.

Source: kube-scheduler's plugin PodTopologySpread (common.go, filtering.go, scoring.go).
"""

from collections.abc import Callable, Hashable, Mapping
from math import log
from typing import NamedTuple

import numpy as np

from deviceshare.kernels import RowScan
from deviceshare.model import HOSTNAME, NodeFact, PodTopology, SpreadConstraint, matches_labels
from deviceshare.topology.counts import DomainCount
from deviceshare.topology.domains import DomainFilter
from deviceshare.topology.placed_pods import PlacedPods
from deviceshare.topology.selections import InNamespace

SPREAD_REASONS = (
    "node(s) didn't match pod topology spread constraints (missing required label)",
    "node(s) didn't match pod topology spread constraints",
)

Policies = tuple[bool, bool]
"""Whether a constraint honours the pod's node affinity, and the taints of nodes."""


class CountedConstraint(NamedTuple):
    """A constraint, and the pods that it counts."""

    constraint: SpreadConstraint
    selected: DomainCount
    """The selected pods in each domain, on nodes that count."""
    itself: int
    """1 if the pod is selected itself."""

    @property
    def most(self) -> int:
        """The number of pods in a domain above which the pod may not be placed there."""
        enough = self.selected.populated >= max(1, self.constraint.min_domains)
        return self.constraint.max_skew - self.itself + (self.selected.least if enough else 0)


class TopologySpread:
    """The spread of one pod class.

    Args:
        topology: the constraints of the pods.
        pods: the pods on nodes.
        admits: returns for some policies a key, and which nodes count under them.
    """

    def __init__(
        self,
        topology: PodTopology,
        pods: PlacedPods,
        admits: Callable[[Policies], tuple[Hashable, Callable[[NodeFact], bool]]],
    ) -> None:
        self._pods = pods
        self._admits = admits
        labels = dict(topology.labels)
        self.required = self._read([each for each in topology.spread if each.required], topology.namespace, labels)
        self.preferred = self._read([each for each in topology.spread if not each.required], topology.namespace, labels)

    def _read(
        self, constraints: list[SpreadConstraint], namespace: str, labels: Mapping[str, str]
    ) -> list[CountedConstraint]:
        keys = tuple(sorted({each.topology_key for each in constraints}))
        found = []
        for each in constraints:
            key, admits = self._admits((each.honors_affinity, each.honors_taints))

            def counts(node: NodeFact, admits: Callable[[NodeFact], bool] = admits) -> bool:
                return all(name in node.labels for name in keys) and admits(node)

            eligible = self._pods.eligible((keys, key), counts)
            count = self._pods.count(InNamespace(namespace, each.selector), each.topology_key, eligible)
            found.append(CountedConstraint(each, count, int(matches_labels(each.selector, labels))))
        return found

    def close(self) -> None:
        """Release the counts."""
        for each in (*self.required, *self.preferred):
            self._pods.drop(each.selected)
        self.required, self.preferred = [], []

    def refresh(self) -> None:
        """Count again what nodes have changed."""
        for each in (*self.required, *self.preferred):
            each.selected.on_nodes.refresh(self._pods.version)

    def filters(self) -> list[DomainFilter]:
        """Return the domains that are excluded now, by :data:`SPREAD_REASONS`."""
        missing, skewed = SPREAD_REASONS
        found = []
        for each in self.required:
            count = each.selected
            unlabelled = np.zeros(len(count.pods), dtype=np.uint8)
            unlabelled[0] = 1
            over = (count.pods > each.most).view(np.uint8)
            over[0] = 0
            found += [
                DomainFilter(missing, count.domains, unlabelled),
                DomainFilter(skewed, count.domains, over),
            ]
        return found

    def add_scores(self, scan: RowScan, weight: float) -> bool:
        """Add the weighted scores of the feasible nodes to their totals; return whether a constraint is preferred.

        The fewer pods, the more. Nodes without the label of a constraint score 0.
        """
        if not self.preferred:
            return False
        scan.clear()
        for each in self.preferred:
            scan.skip(each.selected.domains.of_row)
        for each in self.preferred:
            domains, more = each.selected.domains, float(each.constraint.max_skew - 1)
            marks = np.zeros(domains.size, dtype=np.uint8)
            nodes = scan.mark(domains.of_row, marks)
            if each.constraint.topology_key == HOSTNAME:
                scan.add_counts(each.selected.on_nodes.per_row, log(nodes + 2), more)
            else:
                pods = each.selected.pods.astype(np.float64)
                scan.add(domains.of_row, pods * log(int(marks.sum()) + 2) + more)
        scan.add_lowest(weight)
        return True
