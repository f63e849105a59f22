"""Decoding of ledgers and outcomes: of a node's claims only those that its previous message did not have.

A message holds all claims, or all outcomes, of a node, and usually differs from the one before in one of them. Items
with the same bytes are the same object as before, which also makes them cheap to compare. Pure.
"""

from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from deviceshare.model import Claim, Eviction, NodeLedger, NodeOutcomes, Outcome

from deviceshare_bus.messages.sharing import SharedValues

MAX_KNOWN_ITEMS = 1 << 20
"""Items that one reader remembers of a stream, 16 bytes each beside the item; beyond them, the nodes whose messages are
oldest are forgotten, and their next messages are decoded as a whole."""

T = TypeVar("T")


class _Known(NamedTuple, Generic[T]):
    """The items of a message, and the hashes of their encoding."""

    hashes: "array[int]"
    items: tuple[T, ...]


class KnownItems(Generic[T]):
    """The items in the last message of each node, by their encoding.

    Of an encoding only its hash is kept: it is larger than the rest. Python's hash of bytes has 64 bits and a random
    key, so that no two items of a node have the same by chance or by intent.

    Args:
        decode: decodes one item.
        share: replaces parts of a new item by equal ones of others.
        most: items to remember at most.
    """

    def __init__(self, decode: Callable[[bytes], T], share: Callable[[T], None], most: int = MAX_KNOWN_ITEMS) -> None:
        self._decode = decode
        self._share = share
        self._most = most
        self._count = 0
        self._nodes: OrderedDict[str, _Known[T]] = OrderedDict()
        """By node; the node of the latest message is the last."""

    def items(self, node: str, encoded: Sequence[msgspec.Raw]) -> tuple[T, ...]:
        """Return the items of a node's message, in their order. Raises the errors of ``decode``."""
        known = self._nodes.get(node)
        items = dict(zip(known.hashes, known.items, strict=True)) if known is not None else {}
        hashes = array("q")
        found = []
        for data in map(bytes, encoded):
            key = hash(data)
            item = items.get(key)
            if item is None:
                item = items[key] = self._decode(data)
                self._share(item)
            hashes.append(key)
            found.append(item)
        now = _Known(hashes, tuple(found))
        self._remember(node, now)
        return now.items

    def _remember(self, node: str, now: _Known[T]) -> None:
        before = self._nodes.pop(node, None)
        self._count += len(now.items) - (0 if before is None else len(before.items))
        if now.items:
            self._nodes[node] = now
        while self._count > self._most:
            _, oldest = self._nodes.popitem(last=False)
            self._count -= len(oldest.items)


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
