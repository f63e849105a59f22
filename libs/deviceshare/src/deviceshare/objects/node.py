"""Decoding of Nodes and of the cards that device plugins registered."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from deviceshare.conf import SchedulerConf
from deviceshare.families import FAMILIES, Family, Hardware, NodeView, card_cordons
from deviceshare.families.card_lists import mark_unhealthy, unknown_items
from deviceshare.model import Card, CardCordon, FormatError, NodeFact, Taint, limited
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
    cards, contested, hidden = _cards(node, problems)
    if hidden:
        allocatable = {
            resource: amount
            for resource, amount in allocatable.items()
            if not any(hardware.offers_whole(resource) for hardware in hidden)
        }
    cordons: tuple[CardCordon, ...] = ()
    by_families = [cordon for family in FAMILIES for cordon in family.cordoned(node.annotations)]
    if card_cordons.ANNOTATION in node.annotations or by_families:
        cards, cordons = _cordon(cards, by_families, node, problems)
    for family in FAMILIES:
        for key, expected in family.unread_registers(node.annotations):
            problems.add(f"metadata.annotations[{key}]", node.annotations[key], expected)
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
        cordons=cordons,
        locks=_locks(node.annotations),
        problems=limited(found),
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


_Registered = dict[Family, tuple[Card, ...]]
"""The cards of one hardware that device plugins registered on a node, () where the registration is malformed."""


def _cards(node: NodeView, problems: Problems) -> tuple[tuple[Card, ...], tuple[str, ...], frozenset[Hardware]]:
    """Return the cards, the names of hardware that two device plugins register, and hardware not allocated whole.

    Where the registration of cards that share the resource of whole ones cannot be read, a pod would get a share as a
    whole card.
    """
    registered: dict[Hardware, _Registered] = {}
    hidden: set[Hardware] = set()
    for family in FAMILIES:
        found = registered.setdefault(family.hardware, {})
        try:
            cards = family.node_cards(node)
        except FormatError as error:
            problems.found.append(error.problem)
            if family.whole_modes:
                hidden.add(family.hardware)
            # A deleted registration that was left behind does not contest the cards of another device plugin.
            if not family.is_deleted(node.annotations):
                found[family] = ()
            continue
        if cards:
            found[family] = cards
            _check_modes(family, cards, problems)
    kept: list[Card] = []
    contested = []
    for hardware, found in registered.items():
        _drop_left_behind(found, node, problems)
        if _is_contested(hardware, found, node, problems):
            contested.append(hardware.name)
        else:
            every = [card for theirs in found.values() for card in theirs]
            kept += _mark_unhealthy(hardware, every, node, problems)
    return tuple(kept), tuple(contested), frozenset(hidden)


def _cordon(
    cards: tuple[Card, ...], by_families: Sequence[CardCordon], node: NodeView, problems: Problems
) -> tuple[tuple[Card, ...], tuple[CardCordon, ...]]:
    """Mark the cordoned cards; report unknown ones, and what cannot be read.

    ``by_families``: cordons of annotations that device families read, which may name cards that are gone.
    """
    try:
        cordons, invalid = card_cordons.of_node(node.annotations, f"Node {node.name}")
        problems.found += invalid
    except FormatError as error:
        problems.found.append(error.problem)
        cordons = ()
    ids = {card.id for card in cards}
    theirs = [cordon for cordon in by_families if cordon.id in ids]
    marked, resolved, unknown = card_cordons.resolve((*cordons, *theirs), cards)
    for name in unknown:
        expected = f"the id or index of one of its {len(cards)} cards"
        problems.add(f"metadata.annotations[{card_cordons.ANNOTATION}]", name, expected)
    return marked, resolved


def _check_modes(family: Family, cards: tuple[Card, ...], problems: Problems) -> None:
    """Report unknown modes. Their cards stay, to preserve indexes, but no family allocates them."""
    alike = [other for other in FAMILIES if other is family or (family.answers and other.answers == family.answers)]
    modes = frozenset[str]().union(*(each.modes for each in alike))
    for mode, card in {card.mode: card for card in reversed(cards) if card.mode not in modes}.items():
        field = f"card {card.index} ({card.id}) of {family.name}: mode"
        problems.add(field, mode, f"one of {', '.join(sorted(modes))}")


def _drop_left_behind(found: _Registered, node: NodeView, problems: Problems) -> None:
    """Remove the cards of a GPU plugin that was removed from the node, if another plugin registers or offers the cards.

    Kubelet offers 0 of its resources as soon as the plugin is gone, but the annotation stays. A node that does not
    mention the resources proves nothing, since the plugin may use other names. A plugin that offers nothing goes first:
    one that was changed from memory to whole cards offers 0 of the memory and does not yield to a plugin that is gone.
    """
    registered = [family for family in found if family.hardware.whole and not family.whole_modes]
    for family in sorted(registered, key=lambda family: any(_offered_of(family, node))):
        taken_over = len(found) > 1 or node.allocatable.get(family.hardware.whole)
        amounts = _offered_of(family, node)
        nothing = bool(amounts) and not any(amounts)
        if taken_over and (nothing or 0 in map(node.allocatable.get, family.resources(_DEFAULT_CONF))):
            del found[family]
    sharing = [family for family in found if family.whole_modes and family.hardware.whole]
    for family in sharing if len(found) > 1 else ():
        offered = node.allocatable.get(family.hardware.whole)
        if offered == 0 or (offered is None and family.is_deleted(node.annotations)):
            del found[family]
            expected = "nothing: its device plugin is gone, and another one registers the cards"
            key = family.register_annotation
            problems.add(f"metadata.annotations[{key}]", node.annotations.get(key, ""), expected)


def _offered_of(family: Family, node: NodeView) -> list[int]:
    """Return how much the node offers of each resource of a family or of another one that allocates the same cards."""
    alike = [other for other in FAMILIES if other.modes & family.modes]
    names = {name for other in alike for name in other.resources(_DEFAULT_CONF)}
    return [node.allocatable[name] for name in names & node.allocatable.keys()]


def _is_contested(hardware: Hardware, found: _Registered, node: NodeView, problems: Problems) -> bool:
    """Return whether two device plugins register the hardware, which is a problem."""
    plugins = [family.name for family in found]
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
    Resources of families with ``whole_modes`` do not count: their plugins may offer memory and cores of the cards that
    the number ``hardware.whole`` counts.
    """
    names = {
        name
        for family in FAMILIES
        if family.hardware == hardware and not family.whole_modes
        for name in family.resources(_DEFAULT_CONF)
    }
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
