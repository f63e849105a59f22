"""The metrics of cards: of each card and container, of each node, and of the cluster.

The number of the first grows with the cards and their pods: 16 series for a card with one pod.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, get_args

from deviceshare.families import FAMILIES

from deviceshare_metrics.api import Device
from deviceshare_metrics.core import Snapshot
from deviceshare_metrics.free_cards import nodes_with
from deviceshare_metrics.holders import CARDS_METRIC, HOLDER_LABELS, MEMORY_METRIC
from deviceshare_metrics.many_series import Gauge, Labels
from deviceshare_metrics.totals import AMOUNTS, MIB, OTHER_KIND, Totals, sums

Detail = Literal["card", "node", "cluster"]
"""The smallest objects that have series of their own."""
DETAILS: tuple[Detail, ...] = get_args(Detail)
MAX_HOLDERS = 10_000
"""Namespaces, by owner kind, queue and card model, that have series of their own."""
MAX_OWNER_KINDS = 30
"""Kinds of owners of pods that are named: tenants may write any kind."""


def node_gauges(snapshot: Snapshot, detail: Detail) -> Iterator[Gauge]:
    """Yield the gauges of the nodes of a snapshot and, at the detail of cards, of what is on them."""
    if detail == "card":
        for prefix, share in dict.fromkeys(family.series for family in FAMILIES if any(family.series)):
            yield from _of_families(prefix, share, snapshot)
        yield from _cards(snapshot.registered)
        yield _containers(snapshot)
    if detail != "cluster":
        names = ("mode", "node", "type")
        yield from _sums("node", names, sums(names, snapshot.devices))


def cluster_gauges(totals: Totals) -> Iterator[Gauge]:
    """Yield the gauges of the cluster."""
    yield from _sums("cluster", ("mode", "type"), totals.amounts)
    yield from _free(totals)
    text = "Pods that wait only for fragmentation: enough is free for them in sum, and on no node or card."
    labels = Labels(("type",), [(model,) for model in totals.fragmented])
    yield Gauge("deviceshare_cluster_pods_fragmented", text, labels, [*totals.fragmented.values()])
    yield from _held(totals)


def _of_families(prefix: str, share: str, snapshot: Snapshot) -> Iterator[Gauge]:
    """The metrics that Volcano has for cards of some families, unit MiB; ``share`` is what it calls a share.

    Labels and meaning: volcano-sh/volcano pkg/scheduler/api/devices/nvidia/vgpu/metrics.go.
    """
    modes = {mode for family in FAMILIES if family.series == (prefix, share) for mode in family.modes}
    cards = [device for device in snapshot.devices if device.mode in modes]
    labels = Labels(("NodeName", "devID"), [(device.node, device.id) for device in cards])
    for name, text, values in (
        ("shared_number", f"Number of {share} pods that share this card.", [len(card.pods) for card in cards]),
        ("allocated_memory", f"{share} memory allocated on this card, in MiB.", [card.memory_used for card in cards]),
        ("allocated_cores", "Percent of this card's cores that is allocated.", [card.cores_used for card in cards]),
        ("memory_limit", "Memory of this card, in MiB.", [card.memory_total for card in cards]),
    ):
        yield Gauge(f"{prefix}_{name}", text, labels, values)

    known = {(device.node, device.id) for device in cards}
    memory: Counter[tuple[str, str, str]] = Counter()
    cores: Counter[tuple[str, str, str]] = Counter()
    for on_card in snapshot.pod_shares:
        if (on_card.node, on_card.card) in known:
            # Without the namespace, as in Volcano: pods of one name are one series.
            key = (on_card.node, on_card.card, on_card.pod)
            memory[key] += on_card.memory
            cores[key] += on_card.cores
    labels = Labels(("NodeName", "devID", "podName"), [*memory])
    for name, text, amounts in (
        ("memory", f"{share} memory allocated to a pod on this card, in MiB.", memory),
        ("core", "Percent of this card's cores that is allocated to a pod.", cores),
    ):
        series = f"{prefix}_{name}_allocation_for_a_certain_pod"
        yield Gauge(series, text, labels, [*amounts.values()])


def _cards(cards: Sequence[Device]) -> Iterator[Gauge]:
    labels = Labels(("device", "mode", "node", "type"), [(card.id, card.mode, card.node, card.type) for card in cards])
    for name, text, values in (
        ("memory_bytes", "Memory of the card.", [card.memory_total * MIB for card in cards]),
        ("memory_allocated_bytes", "Memory allocated on the card.", [card.memory_used * MIB for card in cards]),
        ("cores", "Compute of the card: percent, or AI cores.", [card.cores_total for card in cards]),
        ("cores_allocated_ratio", "Share of the card's compute that is allocated.", [*map(_cores_ratio, cards)]),
        ("slots", "Number of shares that the card can be divided into.", [card.slots_total for card in cards]),
        ("slots_allocated", "Number of shares that are allocated.", [card.slots_used for card in cards]),
        ("pods", "Number of pods that have a share of the card.", [len(card.pods) for card in cards]),
        ("healthy", "1 if the device plugin reports the card as healthy.", [card.healthy for card in cards]),
        (
            "cordoned",
            "1 if the card is cordoned: it gets no further pods.",
            [card.cordon is not None for card in cards],
        ),
    ):
        yield Gauge(f"deviceshare_card_{name}", text, labels, values)


def _cores_ratio(device: Device) -> float:
    return device.cores_used / device.cores_total if device.cores_total else 0.0


def _containers(snapshot: Snapshot) -> Gauge:
    memory: Counter[tuple[str, str, str, str, str]] = Counter()
    for share in snapshot.shares:
        memory[share.container, share.card, share.namespace, share.node, share.pod] += share.memory
    labels = Labels(("container", "device", "namespace", "node", "pod"), [*memory])
    text = "Device memory allocated to the container."
    return Gauge("deviceshare_container_memory_bytes", text, labels, [amount * MIB for amount in memory.values()])


def _free(totals: Totals) -> Iterator[Gauge]:
    """Yield what is free in whole cards, and on how many nodes at least 8, 4, 2 and 1 of them are."""
    free = totals.free
    labels, text = Labels(("mode", "type"), [*free]), "Cards that are wholly free, by model and mode."
    yield Gauge("deviceshare_cluster_cards_free", text, labels, [cards.total() for cards in free.values()])
    text = "Most wholly free cards of one node: the largest pod that could get them."
    yield Gauge("deviceshare_cluster_cards_free_most", text, labels, [max(cards.values()) for cards in free.values()])
    series = {(str(number), *key): nodes for key, cards in free.items() for number, nodes in nodes_with(cards).items()}
    labels = Labels(("cards", "mode", "type"), [*series])
    text = "Nodes on which at least so many cards are wholly free."
    yield Gauge("deviceshare_cluster_nodes_with_free_cards", text, labels, [*series.values()])


def _held(totals: Totals) -> Iterator[Gauge]:
    """Yield who holds how much; beyond :data:`MAX_HOLDERS` those with least are one holder without a name.

    Kinds of owners with few cards are :data:`OTHER_KIND` beyond :data:`MAX_OWNER_KINDS`.
    """
    kinds: defaultdict[str, float] = defaultdict(float)
    for (_, kind, _, _), (cards, _) in totals.held.items():
        kinds[kind] += cards
    named = sorted(kinds, key=lambda kind: -kinds[kind])[:MAX_OWNER_KINDS]
    held: defaultdict[tuple[str, ...], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for (namespace, kind, queue, model), holds in totals.held.items():
        amounts = held[namespace, kind if kind in named else OTHER_KIND, queue, model]
        amounts[:] = map(sum, zip(amounts, holds, strict=True))
    for holder, least in sorted(held.items(), key=lambda item: -item[1][0])[MAX_HOLDERS:]:
        others = held["", "", "", ""]
        others[:] = map(sum, zip(others, least, strict=True))
        del held[holder]
    labels = Labels(HOLDER_LABELS, [*held])
    text = "Cards that pods hold; a share counts by its part of the card's memory, or of its cores."
    yield Gauge(CARDS_METRIC, text, labels, [cards for cards, _ in held.values()])
    text = "Device memory that pods hold."
    yield Gauge(MEMORY_METRIC, text, labels, [memory for _, memory in held.values()])


def _sums(what: str, names: tuple[str, ...], found: Mapping[tuple[str, ...], Sequence[float]]) -> Iterator[Gauge]:
    """Yield the sums of all cards with equal values of ``names``."""
    labels = Labels(names, [*found])
    for at, (name, text, _) in enumerate(AMOUNTS):
        values = [amounts[at] for amounts in found.values()]
        yield Gauge(f"deviceshare_{what}_{name}", f"{text}, of the {what}, by model and mode.", labels, values)
