"""The map of cards: a compact row for each node."""

from collections import defaultdict
from collections.abc import Iterator

from deviceshare.formats import mindcluster, vgpu
from deviceshare.model import NodeFact

from deviceshare_metrics import api
from deviceshare_metrics.api_dashboard import CardCell, CardKind, NodeCards
from deviceshare_metrics.core.snapshot import cards_of, nodes_of
from deviceshare_metrics.core.state_store import StateStore
from deviceshare_metrics.core.states import node_state
from deviceshare_metrics.core.usage import Cards, holdings

WHOLE = "whole"
"""The mode of cards that a device plugin offers as a plain number, without registering each."""
_SLICED = frozenset({vgpu.MIG, mindcluster.MODE, "vnpu"})
_PRODUCT = "nvidia.com/gpu.product"


def card_rows(store: StateStore) -> Iterator[NodeCards]:
    """Yield the rows of the nodes of a store, sorted by name."""
    cards = Cards(store)
    held = list(holdings(store))
    usage = cards.usage(held)
    slices: dict[tuple[str, str], list[int]] = defaultdict(list)
    for share in usage.shares:
        slices[share.node, share.card].append(share.memory or share.cores)
    devices: dict[str, list[api.Device]] = defaultdict(list)
    for device in cards_of(store, cards, usage):
        devices[device.node].append(device)
    facts = {fact.name: fact for fact in store.nodes.values()}
    for node in nodes_of(store, held):
        kinds: dict[CardKind, int] = {}
        cells = []
        for device in devices.get(node.name) or whole_cards(facts[node.name], node):
            kind = CardKind(device.type, device.mode, device.memory_total, device.cores_total, device.slots_total)
            on_card = slices.get((node.name, device.id), []) if device.mode in _SLICED else []
            cells.append(
                CardCell(
                    kinds.setdefault(kind, len(kinds)),
                    device.memory_used,
                    device.cores_used,
                    device.slots_used,
                    device.healthy,
                    tuple(sorted(on_card, reverse=True)),
                )
            )
        yield NodeCards(node.name, node_state(node), node.pods, len(node.problems), tuple(kinds), tuple(cells))


def whole_cards(fact: NodeFact, node: api.Node) -> list[api.Device]:
    """Return the cards that a node offers as plain numbers (``nvidia.com/gpu``), the first of them in use.

    Which of them a pod gets is decided by the kubelet, so they have neither ids nor pods.
    """
    cards = []
    for resource, number in sorted(node.allocatable.items()):
        if api.is_whole(resource):
            used = node.used.get(resource, 0)
            for at in range(min(number, api.MOST_WHOLE)):
                in_use = int(at < used)
                cards.append(
                    api.Device(
                        node=node.name, id=f"{resource}-{at}", index=at, type=fact.labels.get(_PRODUCT, resource),
                        mode=WHOLE, healthy=True, memory_total=0, memory_used=0, cores_total=100,
                        cores_used=100 * in_use, slots_total=1, slots_used=in_use, pods=(),
                    )
                )  # fmt: skip
    return cards
