"""Checks claims: ids are used once, cards hold what is claimed, bindings equal claims. Reads LEDGER and OUTCOME."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from deviceshare_lab.checker.cards import Device, Object, Parts, cards_of, over_claimed

KNOWN = 50_000
"""Claims that are remembered."""
Report = Callable[[str, str], None]


class Claim(NamedTuple):
    """A claim as a message holds it."""

    id: str
    uid: str
    name: str
    node: str
    withdraw: bool
    devices: tuple[tuple[str, str], ...]
    """Card and part of each device, under the names that annotations give to them, sorted."""
    amounts: tuple[Device, ...]


class Claims:
    """The claims and outcomes of all nodes, and the claims that there were."""

    def __init__(self, report: Report, nodes: Callable[[], Mapping[str, Object]], parts: Parts) -> None:
        self._report, self._nodes, self._parts = report, nodes, parts
        self.now: dict[str, dict[str, Claim]] = {}
        """By node and id."""
        self.outcomes: dict[str, dict[str, tuple[str, str]]] = {}
        """The pod and the state of each claim with an outcome, by node and claim."""
        self.explained: set[str] = set()
        """Pods with an explanation."""
        self._known: OrderedDict[str, Claim] = OrderedDict()
        self._of_pod: defaultdict[str, list[str]] = defaultdict(list)
        self.foreign: set[str] = set()
        """Ids of claims, and subjects, that a stranger wrote."""
        self.lost = 0
        """How often a fault removed messages."""

    def forget_ledger(self) -> None:
        """LEDGER is read anew."""
        self.now.clear()

    def forget_outcomes(self) -> None:
        """OUTCOME is read anew."""
        self.outcomes.clear()

    def forget_explanations(self) -> None:
        """EXPLAIN is read anew."""
        self.explained.clear()

    def ledger(self, subject: str, data: bytes) -> None:
        """Take a message of LEDGER."""
        node = _node_of(subject)
        message = _decode(data)
        if message is None or message.get("node") != node or subject in self.foreign:
            return
        try:
            claims = [_claim(node, claim) for claim in message.get("claims", ())]
        except (AttributeError, KeyError, TypeError, ValueError):  # a stranger's message
            return
        before = self.now.get(node, {})
        self.now[node] = {claim.id: claim for claim in claims}
        if len(self.now[node]) < len(claims):
            self._report("claim ids are unique", f"{node} has two claims with one id: {[each.id for each in claims]}")
        new = [claim for claim in claims if claim.id not in before]
        for claim in new:
            self._remember(claim)
        if new and not any(claim.id in self.foreign for claim in claims):
            self._check_cards(node, claims)

    def outcome(self, subject: str, data: bytes) -> None:
        """Take a message of OUTCOME."""
        node = _node_of(subject)
        message = _decode(data)
        if message is None or message.get("node") != node:
            return
        self.outcomes[node] = {claim: (uid, state) for claim, uid, state, *_ in message.get("outcomes", ())}

    def explanation(self, subject: str, data: bytes) -> None:
        """Take a message of EXPLAIN."""
        uid = subject.partition(".")[2]
        if data:
            self.explained.add(uid)
        else:
            self.explained.discard(uid)

    def of_pod(self, uid: str) -> list[Claim]:
        """Return the claims that a pod has or had."""
        return [self._known[identity] for identity in self._of_pod.get(uid, ()) if identity in self._known]

    def held(self) -> list[Claim]:
        """Return all claims of the ledger."""
        return [claim for claims in self.now.values() for claim in claims.values()]

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
        elif (known.uid, known.node) != (claim.uid, claim.node):
            text = f"{claim.id} was {known.name} ({known.uid}) on {known.node}, is {claim.name} ({claim.uid})"
            self._report("claim ids are unique", f"{text} on {claim.node}")

    def _check_cards(self, node: str, claims: list[Claim]) -> None:
        obj = self._nodes().get(node)
        if obj is None:
            return
        claimed = (device for claim in claims for device in claim.amounts)
        for problem in over_claimed(cards_of(obj, self._parts), claimed):
            self._report("claims fit their cards", f"{node} {problem}")


def _node_of(subject: str) -> str:
    """Return the node of a subject, '' if the subject is not valid."""
    tokens = subject.split(".", 2)
    if len(tokens) < 3 or tokens[1] != str(crc32(tokens[2].encode()) % 64):
        return ""
    return tokens[2]


def _decode(data: bytes) -> dict[str, Any] | None:
    try:
        message = msgspec.msgpack.decode(data)
    except msgspec.MsgspecError:
        return None
    return message if isinstance(message, dict) else None


def _claim(node: str, raw: Mapping[str, Any]) -> Claim:
    devices = []
    for grant in raw.get("grants", ()):
        _, _, family, granted, *_ = grant
        devices += [_device(family, *(*device, "")[:5]) for device in granted]
    names = tuple(sorted((device.card, device.part) for device in devices))
    return Claim(raw["id"], raw["uid"], raw["name"], node, bool(raw.get("withdraw")), names, tuple(devices))


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
