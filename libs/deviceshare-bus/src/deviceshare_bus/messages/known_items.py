"""Decoding of ledgers and outcomes: of a node's claims only those that its previous message did not have.

A message holds all claims, or all outcomes, of a node, and usually differs from the one before in one of them. Items
with the same bytes are the same object as before, which also makes them cheap to compare. Pure.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from deviceshare.model import Claim, Eviction, NodeLedger, NodeOutcomes, Outcome

from deviceshare_bus.messages.sharing import SharedValues

KNOWN_BYTES = 1 << 25
"""Bytes of the items that one reader remembers of a stream, encoded; beyond them, the nodes whose messages are oldest
are forgotten, and their next messages are decoded as a whole."""

T = TypeVar("T")


class KnownItems(Generic[T]):
    """The items in the last message of each node, by their encoding.

    Args:
        decode: decodes one item.
        share: replaces parts of a new item by equal ones of others.
        most: bytes to remember at most.
    """

    def __init__(self, decode: Callable[[bytes], T], share: Callable[[T], None], most: int = KNOWN_BYTES) -> None:
        self._decode = decode
        self._share = share
        self._most = most
        self._bytes = 0
        self._nodes: OrderedDict[str, dict[bytes, T]] = OrderedDict()
        """By node; the node of the latest message is the last."""

    def items(self, node: str, encoded: Sequence[msgspec.Raw]) -> tuple[T, ...]:
        """Return the items of a node's message, in their order. Raises the errors of ``decode``."""
        before = self._nodes.get(node, {})
        now: dict[bytes, T] = {}
        found = []
        for data in map(bytes, encoded):
            item = before.get(data)
            if item is None and (item := now.get(data)) is None:
                item = self._decode(data)
                self._share(item)
            now[data] = item
            found.append(item)
        self._remember(node, before, now)
        return tuple(found)

    def _remember(self, node: str, before: dict[bytes, T], now: dict[bytes, T]) -> None:
        self._nodes.pop(node, None)
        self._bytes += sum(map(len, now)) - sum(map(len, before))
        if now:
            self._nodes[node] = now
        while self._bytes > self._most:
            _, oldest = self._nodes.popitem(last=False)
            self._bytes -= sum(map(len, oldest))


class _EncodedLedger(msgspec.Struct, frozen=True, kw_only=True):
    """A :class:`deviceshare.model.NodeLedger` whose claims are not decoded."""

    v: int = 1
    node: str
    claims: tuple[msgspec.Raw, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    gone: bool = False


class _EncodedOutcomes(msgspec.Struct, frozen=True, kw_only=True):
    """A :class:`deviceshare.model.NodeOutcomes` whose outcomes are not decoded."""

    v: int = 1
    node: str
    outcomes: tuple[msgspec.Raw, ...] = ()
    gone: bool = False


def ledger_decoder(shared: SharedValues) -> Callable[[bytes], NodeLedger]:
    """Return a decoder of the ledgers that one reader receives; their claims share parts."""
    known = KnownItems(msgspec.msgpack.Decoder(Claim).decode, shared.claim)
    encoded = msgspec.msgpack.Decoder(_EncodedLedger).decode

    def decode(data: bytes) -> NodeLedger:
        found = encoded(data)
        claims = known.items(found.node, found.claims)
        return NodeLedger(
            v=found.v, node=shared.value(found.node), claims=claims, evictions=found.evictions, gone=found.gone
        )

    return decode


def outcomes_decoder(shared: SharedValues) -> Callable[[bytes], NodeOutcomes]:
    """Return a decoder of the outcomes that one reader receives; they share parts."""
    known = KnownItems(msgspec.msgpack.Decoder(Outcome).decode, shared.outcome)
    encoded = msgspec.msgpack.Decoder(_EncodedOutcomes).decode

    def decode(data: bytes) -> NodeOutcomes:
        found = encoded(data)
        outcomes = known.items(found.node, found.outcomes)
        return NodeOutcomes(v=found.v, node=shared.value(found.node), outcomes=outcomes, gone=found.gone)

    return decode


class ReaderDecoder(NamedTuple):
    """A decoder with a memory: each reader has one of its own."""

    begin: Callable[[SharedValues], Callable[[bytes], Any]]
    """Returns the decoder of a reader, whose messages share parts."""


LEDGERS = ReaderDecoder(ledger_decoder)
OUTCOMES = ReaderDecoder(outcomes_decoder)
