"""Which pods of some nodes have a share of cards: by any reading of their annotations, or for a running system.

The keys of the signatures are not at hand, and the owner of a pod can change its annotations after it was bound. A
running system charges a pod for as long as it lives with the devices with which it was bound.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec
from deviceshare.conf import default_conf
from deviceshare.families import FAMILIES, Demands, kind_of
from deviceshare.model import DEVICES_DIFFER, ContainerRequest, PodFact, PodRequest, PodUid, is_native
from deviceshare.objects import decode_pod, held_by_any_reading
from deviceshare_cluster.interface import Object
from deviceshare_metrics import api
from msgspec.structs import replace

from deviceshare_cli.endpoint import Endpoint
from deviceshare_cli.errors import CommandError
from deviceshare_cli.json_api import fetch

CardName = tuple[str, str]
"""Node and id."""


class PodOnCard(NamedTuple):
    """A pod that has a share of one of the cards."""

    fact: PodFact
    obj: Object


class SystemView(NamedTuple):
    """What a running system knows: all cards with ids, and by the uid of a pod the cards of which it has a share."""

    cards: frozenset[CardName] = frozenset()
    held: Mapping[PodUid, frozenset[CardName]] = {}


async def system_view(endpoint: Endpoint) -> SystemView:
    """Return what a running system knows. Raises CommandError, also if it has not read the whole cluster yet."""
    if not (await fetch(endpoint, "status", api.ClusterStatus)).synced:
        raise CommandError("the running system has not read the whole cluster yet")
    devices = (await fetch(endpoint, "devices", api.Items[api.Device])).items
    pods = (await fetch(endpoint, "pods", api.Items[api.Pod])).items
    held = {
        PodUid(pod.uid): frozenset((pod.node, device.id.partition("[")[0]) for device in pod.devices)
        for pod in pods
        if pod.node and pod.state != "Ended"
    }
    return SystemView(frozenset((each.node, each.id) for each in devices if each.mode != api.WHOLE), held)


class CardHolders(NamedTuple):
    """The pods that have a share of one of the cards, in the order of their names.

    ``unread``: other pods that request devices and whose cards cannot be read, and why, by namespace and name.
    ``copied``: pods that name one, and request no device of its kind, as with annotations of another pod.
    ``unseen``: pods that request devices and that a running system, which knows cards, does not show.
    """

    pods: list[PodOnCard]
    unread: dict[str, str]
    copied: list[str]
    unseen: list[str]


NO_CARDS = ("rdma/", "devices.kubevirt.io/")
"""Prefixes of extended resources of other device plugins, which are no cards."""


def card_holders(objects: Iterable[Object], cards: Collection[CardName], view: SystemView) -> CardHolders:
    """Return the pods that have, or may have, a share of one of the cards.

    ``objects``: all pods.
    """
    found = CardHolders([], {}, [], [])
    nodes = {node for node, _ in cards}
    asking = _Asking()
    for obj in sorted(objects, key=lambda each: (each["metadata"].get("namespace", ""), each["metadata"]["name"])):
        if (obj.get("spec") or {}).get("nodeName") not in nodes:
            continue
        fact = decode_pod(msgspec.json.encode(obj))
        if fact.ended:
            continue
        asked = asking.of(fact.ask)
        grants, problems = held_by_any_reading(_annotations(obj), fact.ask, fact.ref)
        naming = {
            kind_of(grant.family) for grant in grants if any((fact.node, each.id) in cards for each in grant.devices)
        }
        named = {kind_of(grant.family) for grant in grants}
        known = view.held.get(fact.uid)
        found.unseen.extend([fact.ref] if asked.names and known is None and view.cards else [])
        # What kubelet chooses the cards of has a resource in place of an id, or is not shown at all.
        is_known = bool(known) and not any(api.is_whole(card) for _, card in known or ())
        is_excused = not asked.names or (known == frozenset() and not asked.of_vendors)
        differing = [each for each in fact.problems if each.field == DEVICES_DIFFER]
        if (
            (known and not known.isdisjoint(cards))
            or naming & asked.kinds
            or (naming and asked.names and not asked.kinds)
        ):
            found.pods.append(PodOnCard(fact, obj))
        elif differing and asked.names:
            found.unread[fact.ref] = str(differing[0])
        elif is_known or is_excused:
            found.copied.extend([fact.ref] if naming else [])
        elif problems:
            found.unread[fact.ref] = str(problems[0])
        elif known is not None or naming or asked.kinds - named or (asked.others and named <= asked.kinds):
            resources = ", ".join(sorted(asked.names))
            found.unread[fact.ref] = f"it requests {resources}, and its annotations do not name the cards of all"
    return found


class _Asked(NamedTuple):
    """What a pod requests that may be cards: the extended resources ``names``.

    The configuration of the cluster may give them other names than the default one: of ``kinds`` are the resources
    with default names, ``others`` may be of any kind. ``of_vendors``: a name is one of a vendor of cards.
    """

    kinds: frozenset[str]
    names: frozenset[str]
    others: frozenset[str]
    of_vendors: bool


class _Asking:
    """Finds what pods request."""

    def __init__(self) -> None:
        conf = default_conf()
        self._demands = Demands(conf)
        self._names = conf.devices.resources().union(*(family.resources(conf) for family in FAMILIES))
        self._vendors = tuple({f"{name.partition('/')[0]}/" for name in self._names})

    def of(self, ask: PodRequest) -> _Asked:
        """Return what a pod requests; 0 is no request."""
        ask = replace(
            ask, containers=_without_zeros(ask.containers), init_containers=_without_zeros(ask.init_containers)
        )
        resources = {name for each in (*ask.containers, *ask.init_containers) for name, _ in each.resources}
        names = frozenset(name for name in resources if not (is_native(name) or name.startswith(NO_CARDS)))
        kinds = self._demands.kinds(ask)
        others = names - self._names if kinds else names
        return _Asked(kinds, names, others, any(name.startswith(self._vendors) for name in names))


def _without_zeros(containers: Iterable[ContainerRequest]) -> tuple[ContainerRequest, ...]:
    return tuple(replace(each, resources=tuple(one for one in each.resources if one[1])) for each in containers)


def _annotations(obj: Object) -> dict[str, str]:
    """Return the annotations of a pod, none if they are not texts."""
    try:
        return msgspec.convert(obj["metadata"].get("annotations") or {}, dict[str, str])
    except msgspec.ValidationError:
        return {}
