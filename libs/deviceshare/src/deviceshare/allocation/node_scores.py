"""The scores of feasible nodes by Volcano's plugins ``nodeorder`` and ``binpack``, which do not depend on cards.

Volcano adds up the scores of its plugins for each node (pkg/scheduler/util/scheduler_helper.go: PrioritizeNodes): first
the scores that depend on one node (binpack, deviceshare), then the scores that are normalized over all feasible nodes
(nodeorder).

The scores by inter-pod affinity and topology spread are in :mod:`.inter_pod`. That by image locality is not
implemented, since the facts do not contain the images of nodes.
"""

from collections.abc import Mapping

import numpy as np

from deviceshare.allocation.predicates import discouraging, preferred
from deviceshare.conf import NodeOrder, SchedulerConf
from deviceshare.kernels import NodeScores, NormalizedScore
from deviceshare.model import NodeFact, PodRequest, ResourceAmounts
from deviceshare.state import PODS, SCORED, ResourceTable, at_least, pod_resources, unasked

_GPU = "nvidia.com/gpu"
_NO_ORDER = NodeOrder(**dict.fromkeys(NodeOrder.__struct_fields__, 0))


def counted(ask: PodRequest, devices: frozenset[str]) -> ResourceAmounts:
    """Return the amounts of a pod that nodes count in addition to its resources, sorted by name.

    These are, for scores, the CPU and memory of containers that request none, and the requests for ``devices`` as
    kubelet counts them: families account for devices by card.
    """
    return tuple(sorted((*unasked(ask), *of_devices(ask, devices))))


def of_devices(ask: PodRequest, devices: frozenset[str]) -> ResourceAmounts:
    """Return what a pod requests of the resources by which devices are requested, as kubelet counts it."""
    return tuple(each for each in pod_resources(ask, frozenset()) if each[0] in devices)


def scored(ask: PodRequest, conf: SchedulerConf) -> tuple[ResourceAmounts, tuple[int, int]] | None:
    """Return the parts of a request that :func:`node_scores` depends on; None if the configuration scores no nodes."""
    if conf.nodeorder is None and conf.binpack is None:
        return None
    names = {"cpu", "memory", _GPU, *(name for name, _ in (conf.binpack.resources if conf.binpack else ()))}
    return tuple(sorted(each for each in pod_resources(ask, frozenset()) if each[0] in names)), at_least(ask)


def node_scores(ask: PodRequest, conf: SchedulerConf, table: ResourceTable) -> NodeScores | None:
    """Return the node scores for pods with this request; None if the configuration scores no nodes."""
    if conf.nodeorder is None and conf.binpack is None:
        return None
    order = conf.nodeorder or _NO_ORDER
    asked = dict(pod_resources(ask, frozenset()))
    column = table.reserve
    scores = NodeScores(
        table.amounts,
        NormalizedScore(order.node_affinity if ask.preferences else 0, reverse=False),
        NormalizedScore(order.taint_toleration, reverse=True),
    )
    scores.least, scores.most = order.least_requested, order.most_requested
    scores.cpu, scores.memory, scores.gpu = column("cpu"), column("memory"), column(_GPU)
    scores.more_cpu, scores.more_memory = column("cpu" + SCORED), column("memory" + SCORED)
    scores.asks_cpu, scores.asks_memory = asked.get("cpu", 0), asked.get("memory", 0)
    scores.asks_gpu = asked.get(_GPU, 0)
    scores.counts_cpu, scores.counts_memory = at_least(ask)
    # As in Kubernetes: otherwise all pods that request nothing would be placed on one node.
    scores.balanced = order.balanced_resource if scores.asks_cpu or scores.asks_memory or scores.asks_gpu else 0
    if conf.binpack is not None:
        asked[PODS] = 1
        binpack_terms = [
            (column(name), asked[name], weight) for name, weight in conf.binpack.resources if name in asked
        ]
        scores.pack = conf.binpack.weight
        scores.binpack_terms = np.array(binpack_terms, dtype=np.int64).reshape(-1, 3)
        scores.weight_sum = sum(weight for *_, weight in binpack_terms)
    return scores


def enter_nodes(scores: NodeScores, ask: PodRequest, nodes: Mapping[int, NodeFact], rows: int) -> None:
    """Set preferred affinity and PreferNoSchedule taints of some nodes, by row, and mark the nodes as infeasible.

    The caller then sets their feasibility. ``rows`` is the number of all rows.
    """
    if scores.preferred_affinity.weight:
        for row, node in nodes.items():
            scores.preferred_affinity.put(row, preferred(ask.preferences, node), rows)
    if scores.prefer_no_schedule.weight:
        for row, node in nodes.items():
            # Most nodes have no taints, and most clusters no PreferNoSchedule taint.
            value = discouraging(ask.tolerations, node) if node.taints else 0
            if value or len(scores.prefer_no_schedule.values):
                scores.prefer_no_schedule.put(row, value, rows)
