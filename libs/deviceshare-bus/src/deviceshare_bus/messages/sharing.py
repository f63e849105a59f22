"""Equal parts of messages as one object: most of the memory of a large cluster are repetitions of few values.

The names of namespaces, nodes, queues, containers and services, resources of pods and whole requests are in every
message about a pod. Decoded, each is an object of its own. Ids of cards are in the fact of their node and in each claim
on it, owners in the facts of their pods: they are interned, so that Python remembers them as long as one of these
messages exists. What only the few messages about one pod repeat, its uid and name and the id of its claim, is not
remembered here: a core that keeps these messages finds one by the other (:func:`share_names`).
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from deviceshare.model import Claim, ContainerGrant, Outcome, PodFact
from msgspec.structs import force_setattr, replace

MAX_SHARED = 1 << 16
"""Values that are remembered. Beyond this number all are forgotten: later ones are shared among themselves."""
SHARED_BYTES = 1 << 24
"""Bytes of the values that are remembered, encoded. Beyond this sum all are forgotten, as above."""
LARGEST = 1 << 12
"""Bytes of an encoded value that is remembered, at most. Larger ones, for example of a label, would fill the memory."""
_FIELDS = frozenset({"namespace", "scheduler", "node", "queue", "unserved", "until_running", "selectable"}) | {
    "message", "refusals", "first_failing", "closest", "gang", "decided_by", "caveats"
}  # fmt: skip
"""Fields of facts and explanations whose values are those of many objects: pods of one class wait for one reason."""
_PARTS = frozenset({"ask", "labels", "held", "owner", "cards"})
"""Fields of facts of which parts are shared."""
_OF_CLAIMS = ("namespace", "queue", "decided_by", "resources", "counted")
_OF_CHOICES = ("nodes", "feasible", "policy", "plugins", "queue")

T = TypeVar("T")
_encode = msgspec.msgpack.encode


class SharedValues:
    """Replaces parts of decoded messages by equal ones of earlier messages. The messages stay equal.

    What is remembered stays after its messages have gone, up to the bounds.
    """

    def __init__(self, most: int = MAX_SHARED) -> None:
        self._most = most
        self._bytes = 0
        """Of the remembered values, encoded."""
        self._values: dict[Any, Any] = {}
        self._fields: dict[type, tuple[tuple[str, ...], frozenset[str]]] = {}
        """The fields to share, and those of which parts are shared, of each type of message."""

    def __len__(self) -> int:
        return len(self._values)

    def value(self, value: T) -> T:
        """Return an earlier value that is equal to this one, if there is one; none is a bool or a float."""
        found: T | None = self._values.get(value)
        if found is not None:
            return found
        size = len(_encode(value))
        if size > LARGEST:
            return value
        if len(self._values) >= self._most or self._bytes + size > SHARED_BYTES:
            self._values.clear()
            self._bytes = 0
        self._values[value] = value
        self._bytes += size
        return value

    def message(self, message: msgspec.Struct) -> None:
        """Share the parts of a fact or an explanation."""
        fields = self._fields.get(type(message))
        if fields is None:
            every = message.__struct_fields__
            fields = self._fields[type(message)] = (
                tuple(field for field in every if field in _FIELDS),
                _PARTS.intersection(every),
            )
        shared, parts = fields
        self._share(message, shared)
        if parts:
            self._share_parts(message, parts)

    def _share_parts(self, message: Any, parts: frozenset[str]) -> None:
        if "ask" in parts and message.ask is not None:
            force_setattr(message, "ask", self._request(message.ask))
        if "labels" in parts and message.labels and isinstance(message.labels, tuple):
            # Labels of a pod may be its own: their pairs are repeated, all of them together are often not.
            force_setattr(message, "labels", tuple([self.value(pair) for pair in message.labels]))
        if "held" in parts:
            self._grants(message.held)
        if "owner" in parts:
            force_setattr(message, "owner", sys.intern(message.owner))
        for card in message.cards if "cards" in parts else ():
            _intern_id(card)

    def claim(self, claim: Claim) -> None:
        """Share the parts of a claim."""
        self._share(claim, _OF_CLAIMS)
        if claim.choice is not None:
            self._share(claim.choice, _OF_CHOICES)
        self._grants(claim.grants)

    def outcome(self, outcome: Outcome) -> None:
        """Share the parts of an outcome."""
        self._share(outcome, ("state",))

    def _request(self, request: Any) -> Any:
        """Return an equal request; one that is not decoded is copied, since it keeps the bytes of the whole message."""
        return msgspec.Raw(self.value(bytes(request))) if isinstance(request, msgspec.Raw) else self.value(request)

    def _grants(self, grants: Sequence[ContainerGrant]) -> None:
        for grant in grants:
            self._share(grant, ("container", "family"))
            for device in grant.devices:
                _intern_id(device)
                self._share(device, ("memory",))

    def _share(self, message: msgspec.Struct, fields: tuple[str, ...]) -> None:
        for field in fields:
            value = getattr(message, field)
            if value and (shared := self.value(value)) is not value:
                force_setattr(message, field, shared)


def share_names(new: msgspec.Struct, known: msgspec.Struct) -> None:
    """Replace names in a new claim by equal ones of its pod's known fact, or those in a new fact by its claim's."""
    for field in ("uid", "name", "group"):
        name = getattr(known, field)
        if getattr(new, field) == name:
            force_setattr(new, field, name)


def share_grants(fact: PodFact, grants: tuple[ContainerGrant, ...]) -> None:
    """Replace what a bound pod holds by the grants of its claim if only indexes differ: annotations lack some."""
    if fact.held and fact.held in (grants, tuple(_unindexed(grant) for grant in grants)):
        force_setattr(fact, "held", grants)


def _unindexed(grant: ContainerGrant) -> ContainerGrant:
    return replace(grant, devices=tuple([replace(device, index=-1) for device in grant.devices]))


def share_outcome(outcome: Outcome, claim: Claim) -> None:
    """Replace the names in the outcome of a claim by the claim's own."""
    force_setattr(outcome, "claim", claim.id)
    force_setattr(outcome, "uid", claim.uid)


def share_outcomes(outcomes: Iterable[Outcome], claims: Mapping[str, Claim]) -> None:
    """Replace the names in outcomes by those of their claims, which are given by id."""
    for outcome in outcomes:
        claim = claims.get(outcome.claim)
        if claim is not None and claim.uid == outcome.uid:
            share_outcome(outcome, claim)


def _intern_id(message: Any) -> None:
    force_setattr(message, "id", sys.intern(message.id))
