"""Validation of messages, in one place for all services: no core sees a message that contradicts its subject. Pure.

A message is invalid if its subject is none that a service writes (such as a wrong partition), if it cannot be decoded,
if its version ``v`` is not one that this program knows, or if it names another object than its subject. The shell
puts invalid messages in quarantine.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from deviceshare.model import WAITING_VERSION

from deviceshare_bus.messages.codec import Message
from deviceshare_bus.messages.known_items import ReaderDecoder
from deviceshare_bus.messages.sharing import SharedValues
from deviceshare_bus.messages.subjects import NAMED_BY, Address, address

VERSION = 1
"""The version ``v`` of messages."""
LATER_VERSIONS = {"ledger": WAITING_VERSION}
"""By kind of subject, the latest version of messages that have several; all from :data:`VERSION` on are read."""

UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError)
"""What decoders raise: invalid UTF-8 and deep nesting raise no ``MsgspecError``."""
_NAMES = {
    **NAMED_BY,
    "ledger": "node",
    "lease": "key",
    "fence": "key",
    "outcome": "node",
    "explain": "uid",
    "event": "service",
}
"""By kind of subject, the field that repeats the subject's key."""
_LISTS = {"ledger": "claims", "outcome": "outcomes"}
"""Kinds of subjects whose messages have a list and no tag: a fact or another kind of message reads as empty."""
_GONE = "gone"

_SHARED = frozenset({"pod", "explain"})
"""Kinds of subjects with the most objects whose messages are decoded as a whole."""
Decoders = Mapping[str, Callable[[bytes], Any] | ReaderDecoder]
"""By kind of subject (:class:`~deviceshare_bus.messages.subjects.Address`), the decoder of its messages."""
E = TypeVar("E")
ToEvent = Callable[[Message, Address, Any], E | None]
"""Returns the event of a message with its decoded content; may raise the same errors as decoders."""


class InvalidMessageError(msgspec.ValidationError):
    """A message is invalid. ``newer``: it has a later version than this program knows, and must not be replaced."""

    newer = False


class _Versioned(msgspec.Struct):
    v: int = VERSION


class _Listless(msgspec.Struct):
    kind: msgspec.Raw | None = None
    claims: tuple[msgspec.Raw, ...] = ()
    outcomes: tuple[msgspec.Raw, ...] = ()


_listless = msgspec.msgpack.Decoder(_Listless).decode
_version = msgspec.msgpack.Decoder(_Versioned).decode


def validated(decoders: Decoders, event: ToEvent[E]) -> Callable[[Message], E | None]:
    """Return the ``decode`` of a :class:`deviceshare_bus.runtime.shell.Source`: it validates a message.

    Messages of kinds without a decoder do not concern the service. Contents share equal parts with earlier ones. The
    result raises :class:`InvalidMessageError`.
    """
    shared = SharedValues()
    begun = {kind: each.begin(shared) if isinstance(each, ReaderDecoder) else each for kind, each in decoders.items()}

    def decode(message: Message) -> E | None:
        where = address(message.subject)
        if where is None:
            raise InvalidMessageError("its subject is not valid")
        decoder = begun.get(where.kind)
        if decoder is None:
            return None
        try:
            content = decoder(message.data)
            _check(where, content)
            if where.kind in _LISTS and not getattr(content, _LISTS[where.kind]):
                _check_empty(message.data)
            if where.kind in _SHARED:
                shared.message(content)
            return event(message, where, content)
        except InvalidMessageError:
            raise
        except UNDECODABLE as error:
            raise _invalid(where.kind, message.data, error) from error

    return decode


def _check(where: Address, content: Any) -> None:
    """Check the version and the name of a decoded message."""
    if not VERSION <= content.v <= _latest(where.kind):
        raise _other_version(where.kind, content.v)
    tag = content.__struct_config__.tag
    if tag == _GONE and where.kind != "synced":
        return
    if tag is not None and tag != where.kind:
        raise InvalidMessageError(f"its kind is {tag!r}, that of its subject is {where.kind!r}")
    if (field := _NAMES.get(where.kind)) is not None and (name := getattr(content, field)) != where.key:
        raise InvalidMessageError(f"{field}: {name[:100]!r} is not {where.key!r}, as in its subject")
    if where.kind == "ledger" and len({claim.id for claim in content.claims}) != len(content.claims):
        raise InvalidMessageError("two claims have the same id")
    if where.kind == "ledger" and len({each.uid for each in content.evictions}) != len(content.evictions):
        raise InvalidMessageError("two evictions name the same pod")


def _check_empty(data: bytes) -> None:
    """Raise :class:`InvalidMessageError` if a message that reads as an empty list is one of another kind."""
    found = _listless(data)
    if found.kind is not None or found.claims or found.outcomes:
        raise InvalidMessageError("it is a message of another kind")


def _invalid(kind: str, data: bytes, error: Exception) -> InvalidMessageError:
    """Return why a message cannot be decoded: because of its version, if it has another one."""
    try:
        version = _version(data).v
    except UNDECODABLE:
        version = VERSION
    return InvalidMessageError(str(error)) if VERSION <= version <= _latest(kind) else _other_version(kind, version)


def _latest(kind: str) -> int:
    return LATER_VERSIONS.get(kind, VERSION)


def _other_version(kind: str, version: int) -> InvalidMessageError:
    latest = _latest(kind)
    expected = f"{VERSION}" if latest == VERSION else f"{VERSION} to {latest}"
    error = InvalidMessageError(f"v: its version is {version}, expected {expected}")
    error.newer = version > latest
    return error
