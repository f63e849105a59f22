"""Which pods of some nodes have a share of cards: by any reading of their annotations, or for a running system.

The keys of the signatures are not at hand, and the owner of a pod can change its annotations after it was bound. A
running system charges a pod for as long as it lives with the devices with which it was bound.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from deviceshare.conf import default_conf
from deviceshare.families import Demands
from deviceshare.model import PodFact, PodUid, Problem
from deviceshare.objects import decode_pod, held_by_any_reading, requests_devices
from deviceshare_cluster.interface import Object
from deviceshare_metrics import api

from deviceshare_cli.endpoint import Endpoint
from deviceshare_cli.json_api import fetch

CardName = tuple[str, str]
"""Node and id."""
_CONTAINERS = ("spec.containers", "spec.initContainers")
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


class CardHolders(NamedTuple):
    """The pods that have a share of one of the cards, in the order of their names.

    ``unread``: other pods that may have one, since their cards cannot be read, and why, by namespace and name.
    """

    pods: list[PodOnCard]
    unread: dict[str, str]


def card_holders(objects: Iterable[Object], cards: Collection[CardName], held: Held) -> CardHolders:
    """Return the pods that have, or may have, a share of one of the cards.

    ``objects``: all pods; ``held``: what a running system knows of them.
    """
    found = CardHolders([], {})
    nodes = {node for node, _ in cards}
    demands = Demands(default_conf())
    for obj in sorted(objects, key=lambda each: (each["metadata"].get("namespace", ""), each["metadata"]["name"])):
        if (obj.get("spec") or {}).get("nodeName") not in nodes:
            continue
        fact = decode_pod(msgspec.json.encode(obj))
        if fact.ended:
            continue
        known = held.get(fact.uid, frozenset())
        grants, problems = held_by_any_reading(_annotations(obj), fact.ask, fact.ref)
        named = {(fact.node, device.id) for grant in grants for device in grant.devices}
        if not (named | known).isdisjoint(cards):
            found.pods.append(PodOnCard(fact, obj))
        elif not known and (why := _unread(fact, problems, demands, named=bool(named))):
            found.unread[fact.ref] = why
    return found


def _unread(fact: PodFact, problems: Sequence[Problem], demands: Demands, *, named: bool) -> str:
    """Return why the cards of a pod cannot be read, '' if they can be, or it requests none.

    ``problems``: those of its annotations; ``named``: whether they name any card.
    """
    if problems and requests_devices(fact.ask):
        return str(problems[0])
    invalid = [problem for problem in fact.problems if problem.field.startswith(_CONTAINERS)]
    if not named and (invalid or demands.kinds(fact.ask)):
        return str(invalid[0]) if invalid else "it requests devices, and its annotations name none"
    return ""


def _annotations(obj: Object) -> dict[str, str]:
    """Return the annotations of a pod, none if they are not texts."""
    try:
        return msgspec.convert(obj["metadata"].get("annotations") or {}, dict[str, str])
    except msgspec.ValidationError:
        return {}
