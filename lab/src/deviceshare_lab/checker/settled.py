"""What is missing in a simulated system at rest: in addition, no pod waits that would fit, and device plugins serve."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from deviceshare_lab.checker.at_rest import of_claims
from deviceshare_lab.checker.budgets import selects
from deviceshare_lab.checker.cards import Parts
from deviceshare_lab.checker.feasibility import Node, fits_somewhere
from deviceshare_lab.checker.ledgers import Cluster, Ledgers
from deviceshare_lab.checker.objects import torn_gangs
from deviceshare_lab.clusters.fields import Object, group_of, has_ended, name_of, queue_of, waiting_reason

RESERVED = "kept free for a gang"
"""Part of the explanation of a pod that may not use a reserved node."""


class Settled:
    """Compares the objects of the cluster and the claims with what must hold at rest."""

    def __init__(
        self, cluster: Cluster, ledgers: Ledgers, scheduler: str, parts: Parts, *, preempts: bool = False
    ) -> None:
        """``preempts``: whether pods of lower priority go for others of their queue."""
        self._cluster, self._ledgers, self._scheduler, self._parts = cluster, ledgers, scheduler, parts
        self._preempts = preempts

    def problems(self, pods: Sequence[Object]) -> list[str]:
        """Return everything that is not as it must be; ``pods`` are those that hold devices or wait."""
        pods = [pod for pod in pods if not has_ended(pod)]
        twins = self._ledgers.twins
        single = [pod for pod in pods if pod["metadata"]["uid"] not in twins]
        groups = [group for group in self._cluster.objects("PodGroup") if name_of(group) not in self._ledgers.disturbed]
        return [
            *of_claims(self._ledgers, {pod["metadata"]["uid"]: pod for pod in single}, frozenset(twins)),
            *_of_bound(single),
            *self._of_waiting(single, pods),
            *torn_gangs((pod for pod in pods if pod["spec"].get("nodeName")), groups),
        ]

    def _of_waiting(self, single: list[Object], pods: Sequence[Object]) -> Iterator[str]:
        waiting = [
            pod
            for pod in single
            if pod["spec"].get("schedulerName") == self._scheduler and not pod["spec"].get("nodeName")
        ]
        for pod in waiting:
            if not waiting_reason(pod):
                yield f"{name_of(pod)} waits without an explanation"
        # Room may be reserved for a pod or gang that has waited for long and does not fit.
        waiting = [pod for pod in waiting if RESERVED not in waiting_reason(pod)]
        for group, members in sorted(_by_group(waiting).items()):
            if not group:
                for pod in members:
                    if fits_somewhere([pod], self._nodes(pods)):
                        yield f"{name_of(pod)} waits although it fits"
                    elif self._preempts and fits_somewhere([pod], self._nodes(list(self._without_victims(pod, pods)))):
                        yield f"{name_of(pod)} waits although pods of lower priority could go"
            elif (wanted := self._wanted(group, members)) and fits_somewhere(wanted, self._nodes(pods)):
                yield f"gang {group} waits although it fits"

    def _without_victims(self, preemptor: Object, pods: Sequence[Object]) -> Iterator[Object]:
        """Yield the pods but those that could go for one in any case: single ones of its queue without a budget."""
        queue, priority = queue_of(preemptor), preemptor["spec"].get("priority", 0)
        budgets = list(self._cluster.objects("PodDisruptionBudget"))
        for pod in pods:
            could_go = (
                pod["spec"].get("schedulerName") == self._scheduler
                and pod["spec"].get("priority", 0) < priority
                and queue_of(pod) == queue
                and not group_of(pod)
                and not any(selects(budget, pod) for budget in budgets)
            )
            if not could_go:
                yield pod

    def _wanted(self, group: str, members: list[Object]) -> list[Object]:
        """Return the waiting pods that a gang needs to run, [] if it cannot be decided or has all that it needs."""
        obj = self._cluster.peek("PodGroup", *group.split("/", 1))
        if obj is None:
            return []
        placed = sum(
            1
            for pod in self._cluster.objects("Pod")
            if pod["spec"].get("nodeName") and group_of(pod) == group and not has_ended(pod)
        )
        missing = max(1, obj["spec"]["minMember"] - placed)
        return members[:missing] if len(members) >= missing else []

    def _nodes(self, pods: Sequence[Object]) -> list[Node]:
        return [
            Node(node, [pod for pod in pods if pod["spec"].get("nodeName") == node["metadata"]["name"]], self._parts)
            for node in self._cluster.objects("Node")
            if _ready(node)
        ]


def _of_bound(pods: Sequence[Object]) -> Iterator[str]:
    for pod in pods:
        if "deletionTimestamp" in pod["metadata"]:
            yield f"{name_of(pod)} is still terminating"
        elif pod["spec"].get("nodeName") and pod["status"].get("phase") != "Running":
            yield f"{name_of(pod)} is bound to {pod['spec']['nodeName']} and does not run"


def _by_group(pods: list[Object]) -> dict[str, list[Object]]:
    groups: defaultdict[str, list[Object]] = defaultdict(list)
    for pod in pods:
        groups[group_of(pod)].append(pod)
    return groups


def _ready(node: Object) -> bool:
    conditions = node["status"].get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and not node["spec"].get("unschedulable")
