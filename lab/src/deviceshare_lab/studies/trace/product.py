"""The product's policies on a trace: its allocator places the pods, on cards of the family hami-core."""

from deviceshare.allocation import Allocator, Placement
from deviceshare.conf import default_conf
from deviceshare.model import NodeFact, PodRequest, Requirement
from deviceshare.policies import CARD_POLICIES
from msgspec.structs import replace

from deviceshare_lab.clusters.facts import make_cards, make_request
from deviceshare_lab.studies.trace.runs import Run
from deviceshare_lab.traces import CARD, TraceNode, TracePod, pod_classes, trace_nodes

_MODEL = "model"
_NAME = "node-{:06}"
_MAX_PODS = 1001
"""Pods on a node, as in the published runs; it never binds."""


class AllocatorPlacer:
    """A run of ``deviceshare.SchedulePolicy: POLICY``. Of a card, a thousandth is a MiB of memory."""

    def __init__(self, run: Run, policy: str) -> None:
        self._allocator = Allocator(replace(default_conf(), policy=policy))
        if CARD_POLICIES[policy].fragmentation:
            self._allocator.learn()
        for rank, node in zip(run.ranks, run.trace.nodes, strict=True):
            self._allocator.set_node(_fact(rank, node))
        requests = {pod._replace(name="", created=0, deleted=0): None for pod in run.trace.pods}
        known = {pod: self._allocator.pod_class(_request(pod)) for pod in requests}
        self._classes = [known[pod._replace(name="", created=0, deleted=0)] for pod in run.trace.pods]
        self._placed = 0
        self.nodes = trace_nodes(run.trace, run.ranks)
        self._pods = pod_classes(run.trace)

    def place(self, pod: int) -> bool:
        """Place an arriving pod."""
        return self.decide(pod) is not None

    def decide(self, pod: int) -> Placement | None:
        """Place an arriving pod; return where, or None."""
        self._allocator.arrived(self._classes[pod].request)
        return self._decide(pod)

    def retry(self, pod: int) -> bool:
        """Place a pod that arrived before."""
        return self._decide(pod) is not None

    def release(self, pod: int, placed: int, row: int, taken: int) -> None:
        """Remove a pod."""
        self._allocator.release(_NAME.format(row), str(placed))
        self.nodes.release(self._pods[pod], row, taken)

    def _decide(self, pod: int) -> Placement | None:
        placement = self._allocator.place(self._classes[pod].request)
        if placement is not None:
            self._placed += 1
            self._allocator.take(str(self._placed), placement)
            cards = {device.index for grant in placement.grants for device in grant.devices}
            row = int(placement.node.removeprefix(_NAME.partition("{")[0]))
            self.nodes.take_cards(self._pods[pod], row, sum(1 << card for card in cards))
        return placement


def _fact(rank: int, node: TraceNode) -> NodeFact:
    """Return a node whose name has its rank: the allocator prefers the lowest name of equal nodes."""
    name = _NAME.format(rank)
    cards = make_cards(name, node.cards, node.model, CARD, CARD)
    allocatable = {"cpu": node.cpu, "memory": node.memory * 2**20, "pods": _MAX_PODS}
    return NodeFact(name=name, labels={_MODEL: node.model}, cards=cards, allocatable=allocatable)


def _request(pod: TracePod) -> PodRequest:
    resources = {"cpu": pod.cpu, "memory": pod.memory * 2**20}
    if pod.cards:
        resources |= {"volcano.sh/vgpu-number": pod.cards, "volcano.sh/vgpu-memory": pod.amount}
    models = tuple(sorted(part for part in pod.models.split("|") if part))
    terms = ((Requirement(_MODEL, "In", models),),) if models else None
    return make_request(resources, node_terms=terms)
