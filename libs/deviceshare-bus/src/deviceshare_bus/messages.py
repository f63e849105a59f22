"""Messages of the bus that are neither facts nor ledgers: explanations, the events of a pod's life, a service's status.

On the wire everything is msgpack with a version field ``v``. Unknown fields are ignored when decoding; what cannot be
decoded at all is put aside (:class:`Undecodable`).
"""

import msgspec
from deviceshare.model import AnyFact, Explanation, NodeLedger, NodeOutcomes


class Step(msgspec.Struct, frozen=True, array_like=True):
    """One step in the life of a pod.

    ``name``: inventory says seen and gone; placement pending, claimed, conflict, claim refused, claim withdrawn and
    gone; the binder bound, refused and withdrawn.
    """

    uid: str
    pod: str
    name: str
    at: float
    node: str = ""
    message: str = ""


class Undecodable(msgspec.Struct, frozen=True):
    """A message that a reader could not decode, put aside with its bytes."""

    stream: str
    subject: str
    sequence: int
    error: str
    data: bytes


class Events(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What happened since a service's last message: steps of many pods, messages put aside, counters that grew."""

    v: int = 1
    service: str
    instance: str
    at: float
    steps: tuple[Step, ...] = ()
    undecodable: tuple[Undecodable, ...] = ()
    counters: dict[str, int] = {}


class Status(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a service has read (last sequence by stream) and what it still has to do; the answer on
    ``status.<service>``.

    ``revision`` is the cluster's revision up to which inventory has published, 0 for the other services.
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
