"""Cards that a device plugin offers as a plain number (``nvidia.com/gpu``), without registering each."""

from collections.abc import Iterator

from deviceshare.families import FAMILIES
from deviceshare.model import NodeFact

from deviceshare_metrics import api


def whole_count(node: NodeFact) -> int:
    """Return how many of these cards a node has."""
    return sum(number for resource, number in node.allocatable.items() if api.is_whole(resource))


def whole_models(fact: NodeFact) -> Iterator[tuple[str, str, int]]:
    """Yield the resource, the model and the number of the cards that a node offers as plain numbers."""
    models = {family.hardware.model_label for family in FAMILIES} & fact.labels.keys()
    for resource, number in sorted(fact.allocatable.items()):
        if api.is_whole(resource):
            yield resource, next((fact.labels[label] for label in models), resource), number


def whole_cards(fact: NodeFact, node: api.Node) -> list[api.Device]:
    """Return the cards that a node offers as plain numbers, the first of them in use.

    Which of them a pod gets is decided by the kubelet, so they have neither ids nor pods.
    """
    cards = []
    for resource, model, number in whole_models(fact):
        used = node.used.get(resource, 0)
        for at in range(min(number, api.MAX_WHOLE)):
            in_use = int(at < used)
            cards.append(
                api.Device(
                    node=node.name, id=f"{resource}-{at}", index=at, type=model,
                    mode=api.WHOLE, healthy=True, memory_total=0, memory_used=0, cores_total=100,
                    cores_used=100 * in_use, slots_total=1, slots_used=in_use, pods=(),
                    largest_free=100 * (1 - in_use),
                )
            )  # fmt: skip
    return cards
