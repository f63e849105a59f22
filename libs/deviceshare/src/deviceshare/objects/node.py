"""Decoding of Nodes and of the cards that device plugins registered."""

from collections.abc import Callable, Mapping

import msgspec

from deviceshare.conf import SchedulerConf
from deviceshare.families import FAMILIES, Family, Hardware, NodeView
from deviceshare.formats.card_lists import mark_unhealthy, unknown_items
from deviceshare.model import Card, FormatError, NodeFact, Taint
from deviceshare.objects.lenient import decode_view
from deviceshare.objects.problems import Problems
from deviceshare.objects.views import Condition, NodeObject, NodeSpec, NodeStatus, TaintView

_DECODER = msgspec.json.Decoder(NodeObject)
_TAINTED = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
"""Node conditions, and the taints that Kubernetes' node controller sets for them."""
_DEFAULT_CONF = SchedulerConf()
"""The configuration with default resource names."""


def _no_devices(_: str) -> None:
    return None


def decode_node(raw: bytes, device_info: Callable[[str], Mapping[str, str] | None] = _no_devices) -> NodeFact:
    """Decode a Node in JSON.

    ``device_info`` returns the devices of a node from ConfigMaps, by node name; called only if needed.

    Omits invalid parts and appends them to ``problems``: a node with a malformed register annotation keeps its CPU but
    has no cards. A node without conditions, as in handwritten manifests, counts as ready.

    Raises:
        FormatError: the node has no name.
    """
    view, found = decode_view(raw, _DECODER, "Node")
    metadata, spec, status = view.metadata, view.spec or NodeSpec(), view.status or NodeStatus()
    conditions = status.conditions or []
    name = metadata.name or ""
    problems = Problems(f"Node {name}", found)
    capacity = problems.valid_amounts(status.capacity, "status.capacity")
    allocatable = capacity
    if status.allocatable is not None:
        allocatable = problems.valid_amounts(status.allocatable, "status.allocatable")
    node = NodeView(name, metadata.annotations or {}, metadata.labels or {}, capacity, allocatable, device_info)
    cards, contested = _cards(node, problems)
    return NodeFact(
        revision=metadata.resource_version or "",
        name=name,
        uid=metadata.uid or "",
        ready=_is_ready(conditions),
        unschedulable=bool(spec.unschedulable),
        labels=metadata.labels or {},
        taints=_taints(spec.taints or [], conditions),
        allocatable=allocatable,
        cards=cards,
        contested=contested,
        locks=_locks(node.annotations),
        problems=tuple(found),
    )


def _locks(annotations: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    names = {lock for family in FAMILIES for lock in family.plugin.locks}
    return tuple(sorted((name, annotations[name]) for name in names & annotations.keys()))


def _is_ready(conditions: list[Condition]) -> bool:
    return not conditions or any(condition.type == "Ready" and condition.status == "True" for condition in conditions)


def _taints(views: list[TaintView], conditions: list[Condition]) -> tuple[Taint, ...]:
    """Return a node's taints, and the taints for its conditions that the node controller has not set."""
    taints = [Taint(taint.key or "", taint.value or "", taint.effect or "") for taint in views]
    due = (_TAINTED[each.type] for each in conditions if each.type in _TAINTED and each.status == "True")
    has = {taint.key for taint in taints}
    return (*taints, *(Taint(key, "", "NoSchedule") for key in due if key not in has))


class _Registered(msgspec.Struct):
    """The cards of one hardware that device plugins registered on a node."""

    families: list[str] = []
    cards: list[Card] = []


def _cards(node: NodeView, problems: Problems) -> tuple[tuple[Card, ...], tuple[str, ...]]:
    """Return the node's cards, and the names of hardware that two device plugins register."""
    registered: dict[Hardware, _Registered] = {}
    for family in FAMILIES:
        found = registered.setdefault(family.hardware, _Registered())
        try:
            cards = family.node_cards(node)
        except FormatError as error:
            problems.found.append(error.problem)
            found.families.append(family.name)
            continue
        if cards:
            found.families.append(family.name)
            found.cards += cards
            _check_modes(family, cards, problems)
    kept: list[Card] = []
    contested = []
    for hardware, found in registered.items():
        if _is_contested(hardware, found, node, problems):
            contested.append(hardware.name)
        else:
            kept += _mark_unhealthy(hardware, found.cards, node, problems)
    return tuple(kept), tuple(contested)


def _check_modes(family: Family, cards: tuple[Card, ...], problems: Problems) -> None:
    """Report unknown modes. Their cards stay, to preserve indexes, but no family allocates them."""
    alike = [other for other in FAMILIES if other is family or (family.answers and other.answers == family.answers)]
    modes = frozenset[str]().union(*(each.modes for each in alike))
    for mode, card in {card.mode: card for card in reversed(cards) if card.mode not in modes}.items():
        field = f"card {card.index} ({card.id}) of {family.name}: mode"
        problems.add(field, mode, f"one of {', '.join(sorted(modes))}")


def _is_contested(hardware: Hardware, found: _Registered, node: NodeView, problems: Problems) -> bool:
    """Return whether two device plugins register the hardware, which is a problem."""
    plugins = list(found.families)
    if plugins and node.allocatable.get(hardware.whole) and _offers_parts(hardware, node):
        plugins.append(hardware.whole)
    if len(plugins) < 2:
        return False
    expected = f"one of them: the node's {hardware.name} are registered by two device plugins"
    problems.add("device plugins", " and ".join(plugins), expected)
    return True


def _offers_parts(hardware: Hardware, node: NodeView) -> bool:
    """Return whether the node offers shared cards under resource names other than ``hardware.whole``.

    A plugin may be configured to share cards under that name, and a removed plugin leaves its register annotation.
    """
    names = {name for family in FAMILIES if family.hardware == hardware for name in family.resources(_DEFAULT_CONF)}
    return any(node.allocatable.get(name) for name in names - {hardware.whole})


def _mark_unhealthy(hardware: Hardware, cards: list[Card], node: NodeView, problems: Problems) -> tuple[Card, ...]:
    """Mark the cards in the node's list of unhealthy cards; report unknown items."""
    text = node.annotations.get(hardware.unhealthy, "")
    if not (cards and text):
        return tuple(cards)
    ids = " or id" if any(card.id != str(card.index) for card in cards) else ""
    expected = f"the index{ids} of one of its {len(cards)} {hardware.name}"
    for item in unknown_items(cards, text):
        problems.add(f"metadata.annotations[{hardware.unhealthy}]", item, expected)
    return mark_unhealthy(cards, text)
