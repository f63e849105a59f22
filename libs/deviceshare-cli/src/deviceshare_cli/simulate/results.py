"""What is counted of a simulation: pods by class, nodes and cards in use, the allocated share of the cards. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from deviceshare.model import PodFact, PodUid, shown, unit_of
from deviceshare.objects import requests_devices
from deviceshare_metrics import api
from deviceshare_metrics.core import build_snapshot

from deviceshare_cli.pods import devices_of
from deviceshare_cli.reading.reader import StoredMessage
from deviceshare_cli.reading.state import metrics_store
from deviceshare_cli.simulate.player import Placed, Player
from deviceshare_cli.simulate.removal import Removal
from deviceshare_cli.whatif.addition import Addition

NO_DEVICES = "no devices"
"""The class of pods that request none."""
_NOT_DEVICES = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})


class Share(NamedTuple):
    """The cards of a model and mode: how many there are, and how much of them is allocated, in cards."""

    cards: int
    allocated: float

    @property
    def percent(self) -> float:
        """Percent of the cards that are allocated."""
        return 100 * self.allocated / self.cards if self.cards else 0.0


class Usage(NamedTuple):
    """The use of a cluster at one moment.

    ``nodes_in_use``: nodes of which a card is in use; ``models``: by model and mode.
    """

    nodes: int
    nodes_in_use: int
    cards_in_use: int
    models: dict[tuple[str, str], Share]
    cards: dict[tuple[str, str], api.Device]
    """The cards, by node and id."""

    @property
    def total(self) -> Share:
        """All cards together."""
        return Share(sum(each.cards for each in self.models.values()), sum(x.allocated for x in self.models.values()))

    def of(self, model: tuple[str, str]) -> Share:
        """Return the cards of a model and mode, none of one that the cluster does not have."""
        return self.models.get(model, Share(0, 0.0))


class PodResult(NamedTuple):
    """The result for a pod: its node and devices, or the reason why it waits."""

    namespace: str
    name: str
    kind: str
    """Its class: the devices that it requests."""
    node: str
    devices: tuple[api.PodDevice, ...]
    reason: str
    general: str = ""
    """The reason without the names of the pod and of its PodGroup, to count equal ones."""


class Changes(NamedTuple):
    """The nodes that are gone, whose pods that are created again are asked about, and those that there are more."""

    removal: Removal
    addition: Addition


class Result(NamedTuple):
    """The result of one policy.

    ``pods``: those that were asked about; ``others``: the other pods of the cluster that had no node before, counted by
    whether they were placed; ``curve``: percent of all cards that are allocated, by the number of placed pods.
    """

    policy: str
    before: Usage
    after: Usage
    pods: list[PodResult]
    others: Counter[bool]
    curve: list[tuple[int, float]]
    changes: Changes

    @property
    def placed(self) -> int:
        """How many of the pods were placed."""
        return sum(bool(each.node) for each in self.pods)

    @property
    def classes(self) -> dict[str, tuple[int, int]]:
        """By class: how many of the pods there are, and how many were placed; the largest class first."""
        every = Counter(each.kind for each in self.pods)
        placed = Counter(each.kind for each in self.pods if each.node)
        return {kind: (number, placed[kind]) for kind, number in every.most_common()}

    @property
    def reasons(self) -> list[tuple[str, int]]:
        """The reasons of the pods that wait, with their number, the most frequent first."""
        return Counter(each.general for each in self.pods if not each.node).most_common()


def usage(stored: Iterable[StoredMessage], now: float) -> Usage:
    """Return the use of the cluster whose messages these are, as ``deviceshare top`` counts it."""
    snapshot = build_snapshot(metrics_store(stored, now))
    models: dict[tuple[str, str], Share] = {}
    for device in snapshot.devices:
        key = (device.type or "unknown", device.mode)
        known = models.get(key, Share(0, 0.0))
        models[key] = Share(known.cards + 1, known.allocated + allocated(device))
    used = [device for device in snapshot.devices if device.slots_used]
    return Usage(
        nodes=len(snapshot.nodes),
        nodes_in_use=len({device.node for device in used}),
        cards_in_use=len(used),
        models=dict(sorted(models.items())),
        cards={(device.node, device.id): device for device in snapshot.devices},
    )


def allocated(device: api.Device) -> float:
    """Return how much of a card is allocated, 0 to 1: its memory, else its cores, else its slots."""
    if device.memory_total:
        return min(1.0, device.memory_used / device.memory_total)
    if device.cores_total:
        return min(1.0, device.cores_used / device.cores_total)
    return min(1.0, device.slots_used / device.slots_total) if device.slots_total else 0.0


def requested_devices(pod: PodFact) -> str:
    """Return the class of a pod: the devices that its containers request."""
    if not requests_devices(pod.ask):
        return NO_DEVICES
    containers = (
        ", ".join(
            f"{name}: {shown(amount, unit_of(name))}"
            for name, amount in container.resources
            if amount and name not in _NOT_DEVICES
        )
        for container in (*pod.ask.init_containers, *pod.ask.containers)
    )
    return " + ".join(filter(None, containers))


def placed_pod(placed: Placed) -> PodResult:
    """Return the result for a pod that was placed."""
    pod, node, claim = placed
    devices = devices_of(claim.grants) + api.whole_cards(claim.resources, claim.grants)
    return PodResult(pod.namespace, pod.name, requested_devices(pod), node, devices, "")


def result(
    policy: str, player: Player, asked: Collection[PodUid], before: Usage, now: float, changes: Changes
) -> Result:
    """Return the result of a player that has settled; ``asked``: the pods that were asked about."""
    after = usage(player.stored(), now)
    found = [placed_pod(each) for each in player.placed.values() if each.pod.uid in asked]
    others = Counter({True: len(player.placed) - len(found)})
    for uid, (pod, reason) in player.waiting.items():
        if uid in asked:
            general = reason.replace(f"pod group {pod.podgroup}", "pod group") if pod.podgroup else reason
            general = general.removeprefix(f"Pod {pod.ref}: ")
            found.append(PodResult(pod.namespace, pod.name, requested_devices(pod), "", (), reason, general))
        else:
            others[False] += 1
    return Result(policy, before, after, found, others, _curve(found, before, after), changes)


def _curve(pods: Iterable[PodResult], before: Usage, after: Usage) -> list[tuple[int, float]]:
    """Return the allocated percentage by the number of placed pods.

    All cards are those after the simulation, with the cards of nodes that were added. Cards of a plain number, which
    are no devices of a pod, count in the last point alone.
    """
    cards = after.total.cards
    sums = before.total.allocated
    curve = [(0, Share(cards, sums).percent)]
    placed = [pod for pod in pods if pod.node]
    for number, pod in enumerate(placed, 1):
        sums += sum(_part(after.cards.get((pod.node, each.id.partition("[")[0])), each) for each in pod.devices)
        curve.append((number, Share(cards, sums).percent))
    if placed:
        curve[-1] = (len(placed), after.total.percent)
    return curve


def _part(card: api.Device | None, device: api.PodDevice) -> float:
    """Return which part of a card a device is."""
    if card is None:
        return 0.0
    if card.memory_total:
        return min(1.0, device.memory / card.memory_total)
    return min(1.0, device.cores / card.cores_total) if card.cores_total else 0.0
