"""What is missing in a system to which nothing happens any more: stuck pods, unexplained pods, leftover claims."""

from collections import defaultdict
from collections.abc import Iterator

from deviceshare_cluster.interface import Object

from deviceshare_lab.checker.feasibility import Node, fits_somewhere
from deviceshare_lab.checker.ledgers import GROUP, Ledgers
from deviceshare_lab.clusters.manifests import SCHEDULER
from deviceshare_lab.world.apiserver import ApiServer, annotations_of, has_ended, holds_nothing, name_of

RESERVED = "kept free for a gang"
"""Part of the explanation of a pod that may not use a reserved node."""


class Settled:
    """Compares the objects of the cluster and the claims with what must hold at rest."""

    def __init__(self, api: ApiServer, ledgers: Ledgers) -> None:
        self._api, self._ledgers = api, ledgers

    def problems(self) -> list[str]:
        """Return everything that is not as it must be."""
        pods = [pod for pod in self._api.objects("Pod") if not (has_ended(pod) or holds_nothing(pod))]
        single = [pod for pod in pods if pod["metadata"]["uid"] not in self._ledgers.twins]
        return [
            *self._of_claims(single),
            *self._of_bound(single),
            *self._of_waiting(single, pods),
            *self._of_gangs(pods),
        ]

    def _of_claims(self, pods: list[Object]) -> Iterator[str]:
        nodes = {pod["metadata"]["uid"]: pod["spec"].get("nodeName") for pod in pods}
        for node, claims in sorted(self._ledgers.claims.items()):
            for claim in claims.values():
                if claim.uid in self._ledgers.twins:
                    continue
                if claim.uid not in nodes:
                    yield f"leftover claim {claim.id} on {node}: there is no such pod {claim.name} ({claim.uid})"
                elif nodes[claim.uid] != node:
                    yield f"claim {claim.id} on {node} of {claim.name}, which is bound to {nodes[claim.uid]}"

    def _of_bound(self, pods: list[Object]) -> Iterator[str]:
        for pod in pods:
            if "deletionTimestamp" in pod["metadata"]:
                yield f"{name_of(pod)} is still terminating"
            elif pod["spec"].get("nodeName") and pod["status"].get("phase") != "Running":
                yield f"{name_of(pod)} is bound to {pod['spec']['nodeName']} and does not run"

    def _of_waiting(self, single: list[Object], pods: list[Object]) -> Iterator[str]:
        waiting = [pod for pod in single if _ours(pod) and not pod["spec"].get("nodeName")]
        for pod in waiting:
            if not _explanation(pod):
                yield f"{name_of(pod)} waits without an explanation"
        # Room may be reserved for a pod or gang that has waited for long and does not fit.
        waiting = [pod for pod in waiting if RESERVED not in _explanation(pod)]
        for group, members in sorted(_by_group(waiting).items()):
            wanted = members
            if group:
                wanted = self._wanted(group, members, pods)
                if wanted and fits_somewhere(wanted, self._nodes(pods)):
                    yield f"gang {group} waits although it fits"
                continue
            for pod in wanted:
                if fits_somewhere([pod], self._nodes(pods)):
                    yield f"{name_of(pod)} waits although it fits"

    def _wanted(self, group: str, members: list[Object], pods: list[Object]) -> list[Object]:
        """Return the waiting pods that a gang needs to run, [] if it cannot be decided or has all that it needs."""
        namespace, _, name = group.partition("/")
        obj = self._api.peek("PodGroup", namespace, name)
        if obj is None:
            return []
        placed = sum(
            1
            for pod in self._api.objects("Pod")
            if pod["spec"].get("nodeName") and annotations_of(pod).get(GROUP) == name and not has_ended(pod)
        )
        missing = max(1, obj["spec"]["minMember"] - placed)
        return members[:missing] if len(members) >= missing else []

    def _nodes(self, pods: list[Object]) -> list[Node]:
        return [
            Node(node, [pod for pod in pods if pod["spec"].get("nodeName") == node["metadata"]["name"]])
            for node in self._api.objects("Node")
            if _ready(node)
        ]

    def _of_gangs(self, pods: list[Object]) -> Iterator[str]:
        for group in self._api.objects("PodGroup"):
            key = name_of(group)
            bound = sum(
                1
                for pod in pods
                if pod["spec"].get("nodeName") and annotations_of(pod).get(GROUP) == group["metadata"]["name"]
            )
            if key not in self._ledgers.disturbed and 0 < bound < group["spec"]["minMember"]:
                yield f"gang {key}: {bound} of {group['spec']['minMember']} pods are bound"


def _explanation(pod: Object) -> str:
    conditions = pod["status"].get("conditions") or ()
    said: dict[str, str] = next((each for each in conditions if each["type"] == "PodScheduled"), {})
    return said.get("message", "") if said.get("status") == "False" else ""


def _ours(pod: Object) -> bool:
    return bool(pod["spec"].get("schedulerName") == SCHEDULER)


def _by_group(pods: list[Object]) -> dict[str, list[Object]]:
    groups: defaultdict[str, list[Object]] = defaultdict(list)
    for pod in pods:
        name = annotations_of(pod).get(GROUP)
        groups[f"{pod['metadata']['namespace']}/{name}" if name else ""].append(pod)
    return groups


def _ready(node: Object) -> bool:
    conditions = node["status"].get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and not node["spec"].get("unschedulable")
