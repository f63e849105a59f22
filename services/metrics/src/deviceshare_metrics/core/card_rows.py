"""The map of cards: a compact row for each node."""

from collections import defaultdict
from collections.abc import Iterator

from deviceshare.families import FAMILIES

from deviceshare_metrics import api
from deviceshare_metrics.api_dashboard import CardCell, CardKind, NodeCards
from deviceshare_metrics.core.snapshot import cards_of, nodes_of
from deviceshare_metrics.core.state_store import StateStore
from deviceshare_metrics.core.states import node_state
from deviceshare_metrics.core.usage import Cards, holdings
from deviceshare_metrics.core.whole_cards import whole_cards


def card_rows(store: StateStore) -> Iterator[NodeCards]:
    """Yield the rows of the nodes of a store, sorted by name."""
    sliced = frozenset[str]().union(*(family.sliced_modes for family in FAMILIES))
    cards = Cards(store)
    held = list(holdings(store))
    usage = cards.usage(held)
    slices: dict[tuple[str, str], list[int]] = defaultdict(list)
    for share in usage.shares:
        slices[share.node, share.card].append(share.memory or share.cores)
    devices: dict[str, list[api.Device]] = defaultdict(list)
    registered = tuple(cards_of(store, cards, usage))
    for device in registered:
        devices[device.node].append(device)
    facts = {fact.name: fact for fact in store.nodes.values()}
    for node in nodes_of(store, held, cards, usage, registered):
        kinds: dict[CardKind, int] = {}
        cells = []
        for device in devices.get(node.name) or whole_cards(facts[node.name], node):
            kind = CardKind(device.type, device.mode, device.memory_total, device.cores_total, device.slots_total)
            on_card = slices.get((node.name, device.id), []) if device.mode in sliced else []
            cells.append(
                CardCell(
                    kinds.setdefault(kind, len(kinds)),
                    device.memory_used,
                    device.cores_used,
                    device.slots_used,
                    device.healthy,
                    tuple(sorted(on_card, reverse=True)),
                    device.largest_free,
                    device.cordon is not None,
                )
            )
        yield NodeCards(node.name, node_state(node), node.pods, len(node.problems), tuple(kinds), tuple(cells))
