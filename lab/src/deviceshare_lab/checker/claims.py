"""Checks claims: ids are used once, and cards hold what is claimed.

Messages are decoded without the product's types.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from deviceshare_lab.checker.cards import Device, Names, Parts, cards_of, devices_of, names_of, overfull
from deviceshare_lab.checker.pods import Report
from deviceshare_lab.clusters.fields import Object

KNOWN = 50_000
"""Claims that are remembered."""


class Claim(NamedTuple):
    """A claim as a message of LEDGER holds it; the devices are under the names that annotations give to cards."""

    id: str
    uid: str
    name: str
    node: str
    group: str
    withdraw: bool
    devices: tuple[Device, ...]
    waits_for: tuple[str, ...] = ()
    """Uids of the pods that have to go first."""

    @property
    def names(self) -> Names:
        """Card and part of each device."""
        return names_of(self.devices)

    @property
    def adds_up(self) -> bool:
        """Whether what it takes of cards is what :func:`.overfull` adds up: no instances, templates or chips."""
        return all(
            not each.part and each.amounts.keys() & {"slots", "pods beside whole cards"} for each in self.devices
        )


class Eviction(NamedTuple):
    """A pod that has to go for a claim, as a message of LEDGER holds it.

    ``go``: it may be evicted; ``action``: the one that decided it.
    """

    uid: str
    name: str
    node: str
    claim: str
    go: bool
    action: str


class Outcome(NamedTuple):
    """The outcome of a claim, for a pod's uid."""

    claim: str
    uid: str
    state: str


class Claims:
    """The claims and outcomes of all nodes, and the claims that there were."""

    def __init__(self, report: Report, node: Callable[[str], Object | None], parts: Parts) -> None:
        self._report, self._node, self._parts = report, node, parts
        self.now: dict[str, dict[str, Claim]] = {}
        """By node and id."""
        self.outcomes: dict[str, list[Outcome]] = {}
        """By node."""
        self.explained: set[str] = set()
        """Uids of pods with an explanation."""
        self.foreign: set[str] = set()
        """Ids of claims, and subjects, that a stranger wrote."""
        self._known: OrderedDict[str, Claim] = OrderedDict()
        self._of_pod: defaultdict[str, list[str]] = defaultdict(list)

    def ledger(self, subject: str, data: bytes) -> None:
        """Take a message of LEDGER."""
        if subject not in self.foreign and (ledger := parse_ledger(subject, data)) is not None:
            self.take(*ledger)

    def outcome(self, subject: str, data: bytes) -> None:
        """Take a message of OUTCOME."""
        if (outcomes := parse_outcomes(subject, data)) is not None:
            self.outcomes[outcomes[0]] = outcomes[1]

    def explanation(self, subject: str, data: bytes) -> None:
        """Take a message of EXPLAIN."""
        (self.explained.add if data else self.explained.discard)(subject.partition(".")[2])

    def take(self, node: str, claims: Sequence[Claim]) -> list[Claim]:
        """Check a ledger that a service wrote; return the new claims of it that no stranger wrote."""
        before = self.now.get(node, {})
        self.now[node] = {claim.id: claim for claim in claims}
        new = [claim for claim in claims if claim.id not in before and claim.id not in self.foreign]
        for claim in new:
            self._remember(claim)
        if len(self.now[node]) < len(claims):
            self._report("claim ids are unique", f"{node} has two claims with one id: {[each.id for each in claims]}")
        if new and (obj := self._node(node)) is not None:
            ours = [claim for claim in claims if claim.id not in self.foreign]
            victims = {uid for claim in ours for uid in claim.waits_for}
            self._check_cards(obj, [claim for claim in ours if not claim.waits_for])
            if victims:
                self._check_cards(obj, [claim for claim in ours if claim.uid not in victims])
        return new

    def _check_cards(self, node: Object, claims: Iterable[Claim]) -> None:
        claimed = (device for claim in claims for device in claim.devices)
        for problem in overfull(cards_of(node, self._parts), claimed):
            self._report("claims fit their cards", f"{node['metadata']['name']} {problem}")

    def fit(self, node: str, claims: Iterable[Claim], pods: Iterable[Object]) -> bool:
        """Return whether claims fit the cards of a node beside what pods have.

        False if there is no such node, or it has replaced the one with the cards: what they request counts here, too.
        """
        devices = [device for claim in claims for device in claim.devices]
        devices += [device for pod in pods for device in devices_of(pod, self._parts)]
        obj = self._node(node)
        if obj is None:
            return False
        cards = cards_of(obj, self._parts)
        return all(device.card in cards for device in devices) and not overfull(cards, devices)

    def all(self) -> Iterable[Claim]:
        """Yield all claims of the ledger, by node."""
        return (claim for _, claims in sorted(self.now.items()) for claim in claims.values())

    def known(self, identity: str) -> Claim | None:
        """Return a claim that is or was in the ledger by its id."""
        return self._known.get(identity)

    def of_pod(self, uid: str) -> list[Claim]:
        """Return the claims that a pod has or had."""
        return [self._known[identity] for identity in self._of_pod.get(uid, ()) if identity in self._known]

    def check_binding(self, what: str, names: Names, claims: Sequence[Claim]) -> None:
        """Check that a pod was bound with the devices of one of the claims that it may follow."""
        by = [claim for claim in claims if claim.names == names]
        if not by:
            claimed = [(claim.id, claim.names) for claim in claims]
            self._report("bindings equal claims", f"{what} is bound with {names}; claims: {claimed}")
        elif all(claim.id in self.foreign for claim in by):
            self._report("no pod is bound by a forged claim", f"{what} by {[claim.id for claim in by]}")

    def _remember(self, claim: Claim) -> None:
        known = self._known.get(claim.id)
        if known is None:
            self._known[claim.id] = claim
            self._of_pod[claim.uid].append(claim.id)
            if len(self._known) > KNOWN:
                identity, oldest = self._known.popitem(last=False)
                self._of_pod[oldest.uid].remove(identity)
                if not self._of_pod[oldest.uid]:
                    del self._of_pod[oldest.uid]
        elif self._reuses(known, claim):
            text = f"{claim.id} was {known.name} ({known.uid}) on {known.node}, is {claim.name} ({claim.uid})"
            self._report("claim ids are unique", f"{text} on {claim.node}")

    def _reuses(self, known: Claim, claim: Claim) -> bool:
        """Return whether a claim has the id of another one: the same may appear again after a fault."""
        return (known.uid, known.node) != (claim.uid, claim.node)


def parse_ledger(subject: str, data: bytes) -> tuple[str, list[Claim]] | None:
    """Return a node and its claims, None if it is no message of a service."""
    node = _node_of(subject)
    message = _decode(node, data)
    try:
        return None if message is None else (node, [_claim(node, claim) for claim in message.get("claims", ())])
    except (AttributeError, KeyError, TypeError, ValueError):  # a stranger's message
        return None


def parse_evictions(subject: str, data: bytes) -> list[Eviction]:
    """Return the pods that have to go of a node's ledger, [] if it is no message of a service."""
    node = _node_of(subject)
    message = _decode(node, data) or {}
    try:
        return [
            Eviction(
                each["uid"],
                f"{each['namespace']}/{each['name']}",
                node,
                each["claim"],
                bool(each.get("go")),
                each.get("action", ""),
            )
            for each in message.get("evictions", ())
        ]
    except (AttributeError, KeyError, TypeError):  # a stranger's message
        return []


def parse_outcomes(subject: str, data: bytes) -> tuple[str, list[Outcome]] | None:
    """Return a node and the outcomes of its claims, None if it is no message of a service."""
    node = _node_of(subject)
    message = _decode(node, data)
    try:
        return None if message is None else (node, [Outcome(*each[:3]) for each in message.get("outcomes", ())])
    except (TypeError, ValueError):  # a stranger's message
        return None


def _node_of(subject: str) -> str:
    """Return the node of a subject, '' if the subject is not valid."""
    tokens = subject.split(".", 2)
    if len(tokens) < 3 or tokens[1] != str(crc32(tokens[2].encode()) % 64):
        return ""
    return tokens[2]


def _decode(node: str, data: bytes) -> dict[str, Any] | None:
    try:
        message = msgspec.msgpack.decode(data)
    except msgspec.MsgspecError:
        return None
    return message if isinstance(message, dict) and message.get("node") == node else None


def _claim(node: str, raw: Mapping[str, Any]) -> Claim:
    devices = []
    for grant in raw.get("grants", ()):
        _, _, family, granted, *_ = grant
        devices += [_device(family, *(*device, "")[:5]) for device in granted]
    group, withdraw = raw.get("group", ""), bool(raw.get("withdraw"))
    waits_for = tuple(raw.get("waits_for", ()))
    return Claim(raw["id"], raw["uid"], raw["name"], node, group, withdraw, tuple(devices), waits_for)


def _device(family: str, identity: str, index: int, memory: int, cores: int, detail: str) -> Device:
    match family:
        case "gpu-share":
            return Device(str(index), "", {"MiB": memory, "pods beside whole cards": 1})
        case "gpu-number":
            return Device(str(index), "", {"pods beside whole cards": 10**6})
        case "mindcluster":
            return Device(f"chip {index}", "", {"AI cores": cores})
        case "hami-vnpu":
            return Device(identity, "", {"MiB": memory})
        case _:
            return Device(identity, detail, {"slots": 1, "MiB": memory, "percent": cores})
