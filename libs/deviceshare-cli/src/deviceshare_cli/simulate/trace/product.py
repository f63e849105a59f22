"""The product's policies on a trace: its allocator places the pods, on cards of the family hami-core."""

from deviceshare.allocation import Allocator
from deviceshare.conf import default_conf
from deviceshare.model import Card, ContainerRequest, NodeFact, PodRequest, Requirement
from deviceshare.traces import CARD, TraceNode, TracePod
from msgspec.structs import replace

from deviceshare_cli.simulate.trace.runs import Run

_MODEL = "model"
_MOST_PODS = 1001
"""Pods on a node, as in the published runs; it never binds."""


class AllocatorPlacer:
    """A run of ``deviceshare.SchedulePolicy: POLICY``. Of a card, a thousandth is a MiB of memory."""

    def __init__(self, run: Run, policy: str) -> None:
        self._allocator = Allocator(replace(default_conf(), policy=policy))
        for rank, node in zip(run.ranks, run.trace.nodes, strict=True):
            self._allocator.set_node(_fact(rank, node))
        requests = {pod._replace(name="", created=0, deleted=0): None for pod in run.trace.pods}
        known = {pod: self._allocator.pod_class(_request(pod)) for pod in requests}
        self._classes = [known[pod._replace(name="", created=0, deleted=0)] for pod in run.trace.pods]
        self._placed = 0

    def place(self, pod: int) -> bool:
        """Place a pod."""
        placement = self._allocator.place(self._classes[pod].request)
        if placement is None:
            return False
        self._placed += 1
        self._allocator.take(str(self._placed), placement)
        return True


def _fact(rank: int, node: TraceNode) -> NodeFact:
    """Return a node whose name has its rank: the allocator prefers the lowest name of equal nodes."""
    name = f"node-{rank:06}"
    cards = tuple(
        Card(f"{name}-{index}", index, CARD, CARD, 100, node.model, mode="hami-core") for index in range(node.cards)
    )
    allocatable = {"cpu": node.cpu, "memory": node.memory * 2**20, "pods": _MOST_PODS}
    return NodeFact(name=name, labels={_MODEL: node.model}, cards=cards, allocatable=allocatable)


def _request(pod: TracePod) -> PodRequest:
    resources = {"cpu": pod.cpu, "memory": pod.memory * 2**20}
    if pod.cards:
        resources |= {"volcano.sh/vgpu-number": pod.cards, "volcano.sh/vgpu-memory": pod.amount}
    models = tuple(sorted(part for part in pod.models.split("|") if part))
    terms = ((Requirement(_MODEL, "In", models),),) if models else None
    return PodRequest(containers=(ContainerRequest("main", tuple(sorted(resources.items()))),), node_terms=terms)
