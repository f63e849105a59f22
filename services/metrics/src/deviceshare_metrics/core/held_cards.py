"""What pods hold on their nodes: cards that are plain numbers, and their parts of all cards."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from deviceshare_metrics import api
from deviceshare_metrics.core.usage import CardUsage, Holding


class HeldCards:
    """What pods hold on their nodes, by node and uid: cards that are plain numbers, and their parts of all cards."""

    def __init__(self, held: Iterable[Holding], usage: CardUsage, devices: Iterable[api.Device]) -> None:
        cards = {(card.node, card.id): card for card in devices}
        plain = {(card.node, card.id.rpartition("-")[0]): card.type for card in devices if card.mode == api.WHOLE}
        found: defaultdict[tuple[str, str], list[api.PodCard]] = defaultdict(list)
        for share in usage.pods:
            card = cards[share.node, share.card]
            used, total = (share.memory, card.memory_total) if card.memory_total else (share.cores, card.cores_total)
            part = api.PodCard(id=card.id, type=card.type, part=used / total if total else 1.0, memory=share.memory)
            found[share.node, share.uid].append(part)
        self._numbers: dict[tuple[str, str], tuple[api.PodDevice, ...]] = {}
        for each in held:
            key = (each.node, each.uid)
            if numbers := api.whole_cards(each.resources, each.grants):
                self._numbers[key] = numbers
                for resource, number in Counter(device.id for device in numbers).items():
                    model = plain.get((each.node, resource), resource)
                    found[key].append(api.PodCard(id=resource, type=model, part=number, memory=0))
        self._cards = found

    def numbers(self, node: str, uid: str) -> tuple[api.PodDevice, ...]:
        """Return the cards of a pod that are a plain number."""
        return self._numbers.get((node, uid), ())

    def cards(self, node: str, uid: str) -> tuple[api.PodCard, ...]:
        """Return what a pod holds of each card."""
        return tuple(self._cards.get((node, uid), ()))
