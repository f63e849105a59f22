"""Which pods of some nodes have a share of cards: by any reading of their annotations, or for a running system.

The keys of the signatures are not at hand, and the owner of a pod can change its annotations after it was bound. A
running system charges a pod for as long as it lives with the devices with which it was bound.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec
from deviceshare.conf import default_conf
from deviceshare.families import Demands, kind_of
from deviceshare.model import DEVICES_DIFFER, PodFact, PodUid
from deviceshare.objects import decode_pod, held_by_any_reading, requests_devices
from deviceshare_cluster.interface import Object
from deviceshare_metrics import api

from deviceshare_cli.endpoint import Endpoint
from deviceshare_cli.json_api import fetch

CardName = tuple[str, str]
"""Node and id."""


class PodOnCard(NamedTuple):
    """A pod that has a share of one of the cards."""

    fact: PodFact
    obj: Object


class SystemView(NamedTuple):
    """What a running system knows: all cards, and by the uid of a pod the cards of which it has a share."""

    cards: frozenset[CardName] = frozenset()
    held: Mapping[PodUid, frozenset[CardName]] = {}


async def system_view(endpoint: Endpoint) -> SystemView:
    """Return what a running system knows. Raises CommandError."""
    devices = (await fetch(endpoint, "devices", api.Items[api.Device])).items
    pods = (await fetch(endpoint, "pods", api.Items[api.Pod])).items
    held = {
        PodUid(pod.uid): frozenset((pod.node, device.id.partition("[")[0]) for device in pod.devices)
        for pod in pods
        if pod.node and pod.state != "Ended"
    }
    return SystemView(frozenset((device.node, device.id) for device in devices), held)


class CardHolders(NamedTuple):
    """The pods that have a share of one of the cards, in the order of their names.

    ``unread``: other pods that request devices and whose cards cannot be read, and why, by namespace and name.
    ``copied``: pods that name one, and request no device of its kind, as with annotations of another pod.
    """

    pods: list[PodOnCard]
    unread: dict[str, str]
    copied: list[str]


def card_holders(objects: Iterable[Object], cards: Collection[CardName], view: SystemView) -> CardHolders:
    """Return the pods that have, or may have, a share of one of the cards.

    ``objects``: all pods.
    """
    found = CardHolders([], {}, [])
    nodes = {node for node, _ in cards}
    demands = Demands(default_conf())
    for obj in sorted(objects, key=lambda each: (each["metadata"].get("namespace", ""), each["metadata"]["name"])):
        if (obj.get("spec") or {}).get("nodeName") not in nodes:
            continue
        fact = decode_pod(msgspec.json.encode(obj))
        if fact.ended:
            continue
        grants, problems = held_by_any_reading(_annotations(obj), fact.ask, fact.ref)
        naming = [grant for grant in grants if any((fact.node, device.id) in cards for device in grant.devices)]
        kinds, requests = demands.kinds(fact.ask), requests_devices(fact.ask)
        # The configuration may give the resources of devices other names, which no family has here.
        is_asked = (not kinds and requests) or any(kind_of(grant.family) in kinds for grant in naming)
        known = view.held.get(fact.uid, frozenset())
        is_known = not known.isdisjoint(view.cards)
        if not known.isdisjoint(cards) or (naming and is_asked):
            found.pods.append(PodOnCard(fact, obj))
        elif differing := [each for each in fact.problems if each.field == DEVICES_DIFFER and requests]:
            found.unread[fact.ref] = str(differing[0])
        elif problems and requests and not is_known:
            found.unread[fact.ref] = str(problems[0])
        elif kinds - {kind_of(grant.family) for grant in grants} and not is_known:
            found.unread[fact.ref] = "it requests devices, and its annotations name none"
        elif naming:
            found.copied.append(fact.ref)
    return found


def _annotations(obj: Object) -> dict[str, str]:
    """Return the annotations of a pod, none if they are not texts."""
    try:
        return msgspec.convert(obj["metadata"].get("annotations") or {}, dict[str, str])
    except msgspec.ValidationError:
        return {}
