"""Pods by topology domain: what inter-pod affinity, anti-affinity and topology spread constraints count.

A *domain* is the nodes with equal values of one label, the *topology key*. Counts of pods are kept for each selection
of pods and each domain, and change with every pod that is added to or removed from a node. Filters and scores are
arrays over domains, which :class:`deviceshare.kernels.RowScan` applies to all nodes.

Reading order: :mod:`.domains` (nodes by the value of a label), :mod:`.selections` (which pods are counted),
:mod:`.counts` (how many of them are in each domain), :mod:`.placed_pods` (all pods on nodes, and the counts in use),
:mod:`.pod_affinity` and :mod:`.spread` (the constraints of one pod class), :mod:`.imposed_terms` (which constraints of
other pods select a pod).

Rules: kube-scheduler's plugins InterPodAffinity and PodTopologySpread
(pkg/scheduler/framework/plugins/{interpodaffinity,podtopologyspread}).
"""

from deviceshare.topology.counts import DomainCount as DomainCount
from deviceshare.topology.domains import DomainFilter as DomainFilter, Domains as Domains, failing as failing
from deviceshare.topology.imposed_terms import ImposedTerms as ImposedTerms
from deviceshare.topology.placed_pods import PlacedPods as PlacedPods
from deviceshare.topology.pod_affinity import AFFINITY_REASONS as AFFINITY_REASONS, PodAffinity as PodAffinity
from deviceshare.topology.spread import (
    SPREAD_REASONS as SPREAD_REASONS,
    CountedConstraint as CountedConstraint,
    Policies as Policies,
    TopologySpread as TopologySpread,
)
