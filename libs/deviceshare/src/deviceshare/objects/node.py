"""Nodes: what may run there, and the cards that device plugins registered."""

from collections.abc import Callable, Mapping

import msgspec

from deviceshare.errors import FormatError, Problem
from deviceshare.facts import Card, NodeFact, Resources, Taint
from deviceshare.families import FAMILIES
from deviceshare.formats import gpu_share, vgpu
from deviceshare.objects.lenient import decode_view
from deviceshare.objects.views import Condition, NodeObject, NodeSpec, NodeStatus, Quantities
from deviceshare.quantity import to_amount

_DECODER = msgspec.json.Decoder(NodeObject)


def _nothing(_: str) -> None:
    return None


class DecodedNode(msgspec.Struct, frozen=True):
    """A node as families look at it (:class:`~deviceshare.families.protocol.NodeView`)."""

    name: str
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    capacity: Resources
    allocatable: Resources
    device_info: Callable[[str], Mapping[str, str] | None] = _nothing

    def devices(self) -> Mapping[str, str] | None:
        """Return what ConfigMaps say of the node's devices."""
        return self.device_info(self.name)


def decode_node(raw: bytes, device_info: Callable[[str], Mapping[str, str] | None] = _nothing) -> NodeFact:
    """Return the fact of a Node given as JSON.

    ``device_info`` tells what ConfigMaps say of the devices of a node, by its name; asked only where that matters.

    What cannot be read is in ``problems`` and absent otherwise: a node whose register annotation is malformed keeps its
    CPU and has no cards. A node without any condition, as in manifests written by hand, counts as ready.

    Raises:
        FormatError: where the node has no name.
    """
    view, problems = decode_view(raw, _DECODER, "Node")
    metadata, spec, status = view.metadata, view.spec or NodeSpec(), view.status or NodeStatus()
    name = metadata.name or ""
    capacity = _resources(status.capacity or {}, name, "status.capacity", problems)
    allocatable = capacity
    if status.allocatable is not None:
        allocatable = _resources(status.allocatable, name, "status.allocatable", problems)
    node = DecodedNode(name, metadata.annotations or {}, metadata.labels or {}, capacity, allocatable, device_info)
    return NodeFact(
        revision=metadata.resource_version or "",
        name=name,
        uid=metadata.uid or "",
        ready=_is_ready(status.conditions or []),
        unschedulable=bool(spec.unschedulable),
        labels=metadata.labels or {},
        taints=tuple(Taint(taint.key or "", taint.value or "", taint.effect or "") for taint in spec.taints or ()),
        allocatable=allocatable,
        cards=_cards(node, problems),
        problems=tuple(problems),
    )


def _resources(quantities: Quantities, node: str, field: str, problems: list[Problem]) -> Resources:
    amounts: Resources = {}
    for resource, quantity in quantities.items():
        try:
            amounts[resource] = to_amount(resource, quantity, f"Node {node}", f"{field}[{resource}]")
        except FormatError as error:
            problems.append(error.problem)
    return amounts


def _is_ready(conditions: list[Condition]) -> bool:
    return not conditions or any(condition.type == "Ready" and condition.status == "True" for condition in conditions)


def _cards(node: DecodedNode, problems: list[Problem]) -> tuple[Card, ...]:
    cards: list[Card] = []
    for family in FAMILIES:
        try:
            cards += family.node_cards(node)
        except FormatError as error:
            problems.append(error.problem)
    # Only a node that both NVIDIA plugins register has its cards twice, under names that cannot be matched.
    if node.annotations.get(vgpu.REGISTER, "").strip() and any(card.mode == gpu_share.MODE for card in cards):
        field = f"metadata.annotations[{vgpu.REGISTER}] and status.capacity[{gpu_share.NUMBER}]"
        expected = "one of them: the node's cards are registered by two device plugins"
        problems.append(Problem(f"Node {node.name}", field, str(node.capacity.get(gpu_share.NUMBER, "")), expected))
        return ()
    # Cards of a mode that nobody knows stay: they keep their index, and no family gives them.
    known = frozenset(vgpu.MODES).union(*(family.modes for family in FAMILIES))
    for mode, card in {card.mode: card for card in reversed(cards) if card.mode not in known}.items():
        field = f"metadata.annotations[{vgpu.REGISTER}] card {card.index}"
        problems.append(Problem(f"Node {node.name}", field, mode, f"one of {', '.join(vgpu.MODES)} as sixth field"))
    return tuple(cards)
