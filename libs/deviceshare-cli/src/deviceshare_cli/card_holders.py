"""Which pods of some nodes have a share of cards: by any reading of their annotations, or for a running system.

The keys of the signatures are not at hand, and the owner of a pod can change its annotations after it was bound. A
running system charges a pod for as long as it lives with the devices with which it was bound.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec
from deviceshare.model import PodFact, PodUid
from deviceshare.objects import decode_pod, held_by_any_reading
from deviceshare_cluster.interface import Object
from deviceshare_metrics import api

from deviceshare_cli.endpoint import Endpoint
from deviceshare_cli.json_api import fetch

CardName = tuple[str, str]
"""Node and id."""
Held = Mapping[PodUid, frozenset[CardName]]
"""The cards of which pods have a share, MIG instances and templates included."""


class PodOnCard(NamedTuple):
    """A pod that has a share of one of the cards."""

    fact: PodFact
    obj: Object


async def held_in_system(endpoint: Endpoint) -> Held:
    """Return what each pod has in a running system. Raises CommandError."""
    pods = (await fetch(endpoint, "pods", api.Items[api.Pod])).items
    return {
        PodUid(pod.uid): frozenset((pod.node, device.id.partition("[")[0]) for device in pod.devices)
        for pod in pods
        if pod.node and pod.state != "Ended"
    }


def pods_on_cards(objects: Iterable[Object], cards: Collection[CardName], held: Held) -> list[PodOnCard]:
    """Return the pods that have a share of one of the cards, in the order of their names.

    ``objects``: all pods; ``held``: what a running system knows of them.
    """
    found = []
    nodes = {node for node, _ in cards}
    for obj in objects:
        if (obj.get("spec") or {}).get("nodeName") not in nodes:
            continue
        fact = decode_pod(msgspec.json.encode(obj))
        if fact.ended:
            continue
        grants, _ = held_by_any_reading(_annotations(obj), fact.ask, fact.ref)
        named = {(fact.node, device.id) for grant in grants for device in grant.devices}
        if not named.isdisjoint(cards) or not held.get(fact.uid, frozenset()).isdisjoint(cards):
            found.append(PodOnCard(fact, obj))
    return sorted(found, key=lambda each: each.fact.ref)


def _annotations(obj: Object) -> dict[str, str]:
    """Return the annotations of a pod, none if they are not texts."""
    try:
        return msgspec.convert(obj["metadata"].get("annotations") or {}, dict[str, str])
    except msgspec.ValidationError:
        return {}
