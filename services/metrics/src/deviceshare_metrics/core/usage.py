"""Usage of nodes and cards, counted as placement counts it.

The usage of a node is that of its claims and of the pods bound there that have no claim, by uid. Memory is in MiB, even
if the device plugin registers cards in larger units (``gpuMemoryFactor``).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec
from deviceshare.families import FAMILIES, CardCount, CardCounter, Family, device_resources
from deviceshare.model import Card, ContainerGrant, DeviceGrant, with_made
from deviceshare.state import CardShare, pod_resources, shares_by_card

from deviceshare_metrics import api
from deviceshare_metrics.core.facts import PodSeen, decoded_request
from deviceshare_metrics.core.state_store import StateStore


class Holding(NamedTuple):
    """The devices and resources of one pod on one node."""

    node: str
    uid: str
    namespace: str
    name: str
    grants: tuple[ContainerGrant, ...]
    resources: Iterable[tuple[str, int]]


class Share(msgspec.Struct, frozen=True, gc=False):
    """The share of a container on a card; without ``container`` that of a pod, whose containers may use it in turn.

    ``card`` is the card's id; ``memory`` in MiB, ``cores`` in percent or AI cores.
    """

    node: str
    card: str
    namespace: str
    pod: str
    memory: int
    cores: int
    container: str = ""
    uid: str = ""
    """Of the pod; only of the share of a pod."""


class CardUsage(NamedTuple):
    """Usage of registered cards; ``by_card`` is by node and id, of cards in use, with memory in MiB."""

    shares: tuple[Share, ...]
    pods: tuple[Share, ...]
    by_card: dict[tuple[str, str], CardCount]


def holdings(store: StateStore) -> Iterator[Holding]:
    """Yield the holding of each pod on each node."""
    bound: dict[str, dict[str, PodSeen]] = defaultdict(dict)
    for pod in store.pods.values():
        if pod.node and not pod.ended:
            bound[pod.node][pod.uid] = pod
    for ledger in store.ledgers.values():
        here = bound.get(ledger.node, {})
        for claim in ledger.claims:
            pod_here = here.get(claim.uid)
            grants = with_made(claim.grants, pod_here.held) if pod_here is not None else claim.grants
            yield Holding(ledger.node, claim.uid, claim.namespace, claim.name, grants, claim.resources)
        for claim in ledger.claims:
            here.pop(claim.uid, None)
    devices = device_resources(store.conf)
    for node, pods in bound.items():
        for uid, pod in pods.items():
            yield Holding(node, uid, pod.namespace, pod.name, pod.held, _requested(pod, devices))


def _requested(pod: PodSeen, devices: frozenset[str]) -> tuple[tuple[str, int], ...]:
    """Return the resources of a pod without a claim, none if its request cannot be decoded."""
    request = decoded_request(pod.ask)
    return pod_resources(request, devices) if request is not None else ()


class Cards:
    """The registered cards: resolves the cards of grants and counts their usage."""

    def __init__(self, store: StateStore) -> None:
        self._by_node: dict[str, dict[str, Card]] = {
            node.name: {card.id: card for card in node.cards} for node in store.nodes.values()
        }
        self._conf = store.conf
        self._counter = CardCounter(store.conf)
        self._families: dict[str, list[Family]] = {}
        """The families that allocate cards of each mode."""
        for family in FAMILIES:
            for mode in family.modes:
                self._families.setdefault(mode, []).append(family)
        self._units = {mode: families[-1].memory_unit(store.conf) for mode, families in self._families.items()}
        """The MiB in one unit of the memory of cards of each mode."""
        self._alone: dict[tuple[object, ...], CardCount] = {}
        """The usage of single devices, and of unused cards: few cards and grants differ in more than their names."""

    def of(self, node: str) -> Iterable[Card]:
        """Return the cards of a node, each id once."""
        return self._by_node.get(node, {}).values()

    def find(self, node: str, device: DeviceGrant) -> Card | None:
        """Return the card of a grant, None if it is not registered."""
        return self._by_node.get(node, {}).get(device.id)

    def counts_cores(self, card: Card) -> bool:
        """Return whether the cores of a card are an amount of their own."""
        return all(family.counts_cores for family in self._families.get(card.mode, ()))

    def device_id(self, card: Card, device: DeviceGrant) -> str:
        """Return the device plugin's id of a device of a card."""
        return next((family.device_id(device) for family in self._families.get(card.mode, ())), device.id)

    def mebibytes(self, card: Card, amount: int) -> int:
        """Return an amount of a card's memory in MiB."""
        return amount * self._unit(card)

    def _unit(self, card: Card) -> int:
        return self._units.get(card.mode, 1)

    def memory(self, card: Card, grant: ContainerGrant, device: DeviceGrant) -> int:
        """Return the MiB that a device alone takes of its card: the size of the MIG instance or of the template."""
        return self._used_alone(card, CardShare(device, grant.position, grant.stage)).usage.memory

    def unused(self, card: Card) -> CardCount:
        """Return what is shown of a card that no pod uses."""
        key = (card.type, card.mode, card.memory, card.cores, card.slots)
        found = self._alone.get(key)
        if found is None:
            found = self._alone[key] = self._in_mebibytes(card, self._counter.count(card, ()))
        return found

    def used_resources(self, node: str, usage: CardUsage) -> Counter[str]:
        """Return what is used of a node's cards by the resources by which pods request them, in the plugin's units."""
        found: Counter[str] = Counter()
        for card in self.of(node):
            count = usage.by_card.get((node, card.id))
            if count is None:
                continue
            used = count.usage
            memory = used.memory // self._unit(card)
            counted: dict[str, int] = {}
            for family in self._families.get(card.mode, ()):
                names = family.card_names(card, self._conf)
                number = int(used.slots > 0) if names.whole else used.slots
                counted |= {names.number: number, names.memory: memory, names.cores: used.cores}
            found.update({name: amount for name, amount in counted.items() if name})
        return found

    def usage(self, holdings: Iterable[Holding]) -> CardUsage:
        """Return the usage of all cards."""
        shares: list[Share] = []
        pods: list[Share] = []
        on_card: dict[tuple[str, str], list[list[CardShare]]] = defaultdict(list)
        for held in holdings:
            cards = self._by_node.get(held.node, {})
            for grant in held.grants:
                for device in grant.devices:
                    if (card := cards.get(device.id)) is not None:
                        memory = self.memory(card, grant, device)
                        share = (held.node, card.id, held.namespace, held.name, memory, device.cores, grant.container)
                        shares.append(Share(*share))
            for name, of_pod in shares_by_card(held.grants).items():
                if (card := cards.get(name)) is not None:
                    on_card[held.node, name].append(of_pod)
                    memory, cores, _ = self._used(card, [of_pod]).usage
                    pods.append(Share(held.node, name, held.namespace, held.name, memory, cores, uid=held.uid))
        usage = {
            (node, name): self._used(self._by_node[node][name], of_pods) for (node, name), of_pods in on_card.items()
        }
        return CardUsage(tuple(shares), tuple(pods), usage)

    def _used(self, card: Card, pods: Sequence[Sequence[CardShare]]) -> CardCount:
        if len(pods) == 1 and len(pods[0]) == 1:
            return self._used_alone(card, pods[0][0])
        return self._in_mebibytes(card, self._counter.count(card, pods))

    def _used_alone(self, card: Card, share: CardShare) -> CardCount:
        device = share.device
        key = (
            *(card.type, card.mode, card.memory, card.cores, card.slots),
            *(device.memory, device.cores, device.detail, device.asked, device.made, share.position, share.stage),
        )
        found = self._alone.get(key)
        if found is None:
            found = self._alone[key] = self._in_mebibytes(card, self._counter.count(card, ((share,),)))
        return found

    def _in_mebibytes(self, card: Card, count: CardCount) -> CardCount:
        if self._unit(card) == 1:
            return count
        usage = count.usage._replace(memory=self.mebibytes(card, count.usage.memory))
        return CardCount(usage, self.mebibytes(card, count.largest_free) if card.memory else count.largest_free)


def overcommitted(device: api.Device) -> bool:
    """Return whether more of a card is allocated than it has."""
    return (
        device.memory_used > device.memory_total
        or device.cores_used > device.cores_total
        or device.slots_used > device.slots_total
    )


def overcommitted_text(device: api.Device) -> str:
    """Return what is allocated of an overcommitted card."""
    amounts = (
        (device.memory_used, device.memory_total, "MiB"),
        (device.cores_used, device.cores_total, "cores"),
        (device.slots_used, device.slots_total, "shares"),
    )
    exceeded = ", ".join(f"{used} of {total} {unit}" for used, total, unit in amounts if used > total)
    return f"card {device.id} is overcommitted: {exceeded} are allocated"
