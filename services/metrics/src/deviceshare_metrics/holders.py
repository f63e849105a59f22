"""How much of which card model pods hold, from the items of the JSON API: for the command and for metrics. Pure."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from deviceshare_metrics import api

CARDS_METRIC, MEMORY_METRIC = "deviceshare_held_cards", "deviceshare_held_card_memory_bytes"
"""The gauges of who holds how much, which ``deviceshare usage`` reads from Prometheus."""


class HeldPart(NamedTuple):
    """What a pod holds of one card.

    ``part``: of the card's memory, or of its cores where it has no memory; 1 if it is not registered any more.
    ``memory`` in MiB.
    """

    pod: api.Pod
    model: str
    part: float
    memory: int


def held_parts(pods: Iterable[api.Pod], devices: Iterable[api.Device]) -> Iterator[HeldPart]:
    """Yield what each pod holds of each of its cards."""
    cards: dict[tuple[str, str], api.Device] = {}
    plain: dict[tuple[str, str], api.Device] = {}
    for card in devices:
        cards[card.node, card.id] = card
        if not card.memory_total:
            plain[card.node, card.id.rpartition("-")[0]] = card
    for pod in pods:
        node = pod.node or ""
        for device in pod.devices:
            # A MIG instance is named UUID[group-position], a card that is a plain number by its resource.
            found = cards.get((node, device.id.partition("[")[0])) or plain.get((node, device.id))
            model = (found.type if found is not None else device.type) or "unknown"
            yield HeldPart(pod, model, _part(device, found), device.memory)


def _part(device: api.PodDevice, card: api.Device | None) -> float:
    if card is None or not (card.memory_total or card.cores_total):
        return 1.0
    return device.memory / card.memory_total if card.memory_total else device.cores / card.cores_total
