"""Requests about a stream that tell whether it is still the one that was read: its state and stored messages.

They go to the stream's leader, and keep what nats-py drops: the time of the answer, and nanoseconds.
"""

import base64
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec
from nats.errors import Error as NatsError
from nats.js.errors import APIError, NotFoundError

from deviceshare_bus.cores.position import Stored
from deviceshare_bus.wire.connection import Connection

EPOCH = "epoch"
HOLD = "hold"
"""Keys of a stream's metadata: its epoch, and the seconds after its creation before which no service decides by it."""
ANSWER = 1.0
"""Seconds for an answer; while a stream of several servers has no leader, there is none."""
_NOT_FOUND = 404
_COPYING = ("mirror", "sources", "subject_transform", "republish")
"""Settings of a stream by which messages get to subjects whose writers have not written them."""
_EXPIRES = b"\r\nNats-TTL: "


class _Error(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class CopiedStream(NatsError):
    """A stream gets messages, or its messages get subjects, that no writer has chosen: its content can be forged."""


class _Config(msgspec.Struct):
    metadata: dict[str, str] = {}
    num_replicas: int = 1
    mirror: Any = None
    sources: Any = None
    subject_transform: Any = None
    republish: Any = None


class _Counts(msgspec.Struct):
    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    last_seq: int = 0


class _Cluster(msgspec.Struct):
    leader: str = ""
    leader_since: str = ""


class _Info(msgspec.Struct):
    error: _Error | None = None
    config: _Config = msgspec.field(default_factory=_Config)
    state: _Counts = msgspec.field(default_factory=_Counts)
    cluster: _Cluster = msgspec.field(default_factory=_Cluster)
    created: str = ""
    ts: str = ""


class _Stored(msgspec.Struct):
    subject: str
    seq: int
    time: str
    hdrs: str = ""
    data: str = ""


class _Found(msgspec.Struct):
    error: _Error | None = None
    message: _Stored | None = None


class StreamState(msgspec.Struct, frozen=True):
    """The state of a stream.

    Args:
        epoch: the random id that the stream was created with.
        server: what changes when another server, or a restarted one, begins to answer for the stream.
        led_since: when the answering server became the stream's leader (nanoseconds of unix time), 0 for a stream that
            one server holds. A server that was suspended may answer although another one leads by now.
        messages: how many messages the stream holds.
        first: the first sequence.
        last: the last sequence.
        hold: seconds from now before which no service decides by the stream, 0 for none.
        size: how many bytes its messages take in the store.
    """

    epoch: str
    server: tuple[str, ...]
    led_since: int
    messages: int
    first: int
    last: int
    hold: float
    size: int = 0


_decode_info = msgspec.json.Decoder(_Info).decode
_decode_found = msgspec.json.Decoder(_Found).decode


async def stream_state(connection: Connection, stream: str, within: float = ANSWER) -> StreamState:
    """Return the state of a stream; the server has ``within`` seconds to answer.

    Raises:
        NotFoundError: the stream does not exist.
        CopiedStream: the stream has settings that the set-up step never gives it.
        nats.errors.Error: there was no answer, or the server reports another error.
    """
    answer = await connection.requests.request(f"$JS.API.STREAM.INFO.{stream}", b"", within)
    info = _decode_info(answer.data)
    _raise(info.error)
    if found := [name for name in _COPYING if getattr(info.config, name) is not None]:
        raise CopiedStream(f"stream {stream} has {', '.join(found)}: its messages can be forged; delete it")
    metadata = info.config.metadata
    age = _nanoseconds(info.ts) - _nanoseconds(info.created) if info.ts and info.created else 0
    hold = max(0.0, float(metadata.get(HOLD, "0")) - age / 1e9)
    # A single server keeps its name when it restarts, but not its id. Clusters have a leader for each stream.
    leader = (info.cluster.leader, info.cluster.leader_since)
    server = leader if info.cluster.leader_since else (connection.server, *leader)
    counts = info.state
    since = _nanoseconds(info.cluster.leader_since) if info.cluster.leader_since else 0
    return StreamState(
        metadata.get(EPOCH, ""), server, since, counts.messages, counts.first_seq, counts.last_seq, hold, counts.bytes
    )


async def stored_message(
    connection: Connection, stream: str, *, sequence: int = 0, subject: str = ""
) -> tuple[Stored, bytes] | None:
    """Return the message at a sequence, or the last one of a subject, with its data; None if there is none.

    With both, return the first message of the subject, which may have wildcards, at the sequence or after it.
    """
    request: dict[str, Any] = {"seq": sequence} if sequence else {}
    if subject:
        request["next_by_subj" if sequence else "last_by_subj"] = subject
    answer = await connection.requests.request(f"$JS.API.STREAM.MSG.GET.{stream}", msgspec.json.encode(request), ANSWER)
    found = _decode_found(answer.data)
    try:
        _raise(found.error)
    except NotFoundError:
        return None
    message = found.message
    if message is None:
        return None
    expires = _EXPIRES in base64.b64decode(message.hdrs)
    return Stored(message.seq, _nanoseconds(message.time), expires), base64.b64decode(message.data)


async def delete_message(connection: Connection, stream: str, sequence: int) -> None:
    """Delete the message at a sequence.

    Its bytes are not overwritten, as nats-py has it: that takes nats-server 100 times as long.

    Raises:
        nats.errors.Error: there was no answer, there is no such message, or the server reports another error.
    """
    request = msgspec.json.encode({"seq": sequence, "no_erase": True})
    answer = await connection.requests.request(f"$JS.API.STREAM.MSG.DELETE.{stream}", request, ANSWER)
    _raise(_decode_found(answer.data).error)


def _raise(error: _Error | None) -> None:
    if error is None:
        return
    kind = NotFoundError if error.code == _NOT_FOUND else APIError
    raise kind(code=error.code, err_code=error.err_code, description=error.description)


def _nanoseconds(time: str) -> int:
    """Return a timestamp of nats-server (RFC 3339, UTC) as nanoseconds of unix time."""
    date, _, rest = time.removesuffix("Z").partition(".")
    return _seconds(date) * 1_000_000_000 + int(rest.ljust(9, "0") or 0)


@lru_cache(maxsize=100)
def _seconds(date: str) -> int:
    return int(datetime.fromisoformat(f"{date}+00:00").timestamp())
