"""Messages of the bus besides facts, ledgers and explanations: steps in the life of pods, the status of a service.

All messages are msgpack with a version field ``v``. Decoding ignores unknown fields; a message that cannot be decoded
is quarantined (:class:`Undecodable`).
"""

from typing import NamedTuple

import msgspec
from deviceshare.model import Amount, AnyFact, Count, Eviction, Explanation, NodeLedger, NodeOutcomes, Real

RECONCILED = "reconciled:"
"""The prefix of counters of repaired differences from the cluster; the rest of the name is the kind of difference."""

ATTEMPTS = "attempts:"
"""The prefix of counters of attempts to place pods; the rest of the name is the result."""
VICTIMS = "preemption_victims:"
"""Before :func:`victim_labels` in the names of counters of evicted pods."""
PREEMPTIONS = "preemptions:"
"""Before the action in the names of counters of decisions by which pods go."""
CHOSEN_VICTIMS = "preemption_victims_chosen:"
"""Before :data:`TOTAL`, or a bound of :data:`CHOSEN_BOUNDS`, in the names of counters: the pods that go by decisions,
and the decisions by which at most so many go, and more than the bound before."""
CHOSEN_BOUNDS, TOTAL = (1, 2, 4, 8, 16, 32, 64), "total"
"""Those of kube-scheduler's ``scheduler_preemption_victims``; further ones have the bound ``+Inf``."""
PREEMPTION_ATTEMPTS = "preemption_attempts"
"""The counter of groups for which it was looked whether pods may go."""
WASTED_VICTIMS = "preemption_wasted_victims"
"""The counter of pods that were evicted for a nomination that was withdrawn."""
BLOCKED_EVICTIONS = "preemption_blocked:"
"""Before the reason in the names of counters of pods that could not be evicted."""

COMPARED_PODS = "dry_run_compared:"
"""Before the result in the names of counters of pods whose other scheduler's choice was compared with ours."""


class VictimLabels(NamedTuple):
    """By what evicted pods are counted; ``owner_kind`` and ``owner_name``: see :class:`deviceshare.model.Eviction`."""

    action: str
    queue: str = ""
    owner_kind: str = ""
    owner_name: str = ""


def victim_labels(eviction: Eviction) -> VictimLabels:
    """Return by what the pod of an eviction is counted; as text joined by line breaks, which no name has."""
    return VictimLabels(eviction.action, eviction.queue, *eviction.owner)


class Message(NamedTuple):
    """One message of a stream, as it was read."""

    subject: str
    sequence: int
    data: bytes


class Step(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One step in the life of a pod.

    Names of steps: inventory: seen, gone; placement: pending, claimed, conflict, claim refused, claim withdrawn, gone;
    binder: bound, refused, withdrawn.
    """

    uid: str
    pod: str
    name: str
    at: Real
    node: str = ""
    message: str = ""


class Undecodable(msgspec.Struct, frozen=True):
    """A quarantined message: a message that a reader could not decode, with its bytes."""

    stream: str
    subject: str
    sequence: Amount
    error: str
    data: bytes


class Events(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Steps of pods, quarantined messages and increments of counters since a service's last message."""

    v: int = 1
    service: str
    instance: str
    at: Real
    steps: tuple[Step, ...] = ()
    undecodable: tuple[Undecodable, ...] = ()
    counters: dict[str, Count] = {}


class Status(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The status of a service, its answer on ``status.<service>``: last sequence read by stream, and open work.

    ``revision`` is the cluster's revision up to which inventory has published, 0 for other services.
    """

    v: int = 1
    service: str
    instance: str
    positions: dict[str, int]
    revision: int = 0
    open: int = 0
    detail: dict[str, int] = {}


_encoder = msgspec.msgpack.Encoder()


def encode(message: msgspec.Struct) -> bytes:
    """Return a message as msgpack."""
    return _encoder.encode(message)


decode_fact = msgspec.msgpack.Decoder(AnyFact).decode
decode_ledger = msgspec.msgpack.Decoder(NodeLedger).decode
decode_outcomes = msgspec.msgpack.Decoder(NodeOutcomes).decode
decode_explanation = msgspec.msgpack.Decoder(Explanation).decode
decode_events = msgspec.msgpack.Decoder(Events).decode
decode_status = msgspec.msgpack.Decoder(Status).decode
