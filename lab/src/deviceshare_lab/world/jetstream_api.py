"""Requests of JetStream's API that the product sends itself: the state of a stream, and one stored message.

The timestamps of the answers have nanoseconds, as those of nats-server.
"""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from deviceshare_lab.world.jetstream import Stored, Stream

_encode = msgspec.json.Encoder().encode
_INFO, _GET = "$JS.API.STREAM.INFO.", "$JS.API.STREAM.MSG.GET."


def answer_of(streams: Mapping[str, Stream], subject: str, data: bytes, now: float) -> bytes | None:
    """Return the answer to a request at a unix time, None for a message that is none."""
    if subject.startswith(_INFO):
        stream = streams.get(subject.removeprefix(_INFO))
        return _encode(_state(stream, now) if stream is not None else _missing(10059, "stream not found"))
    if not subject.startswith(_GET):
        return None
    stream = streams.get(subject.removeprefix(_GET))
    if stream is None:
        return _encode(_missing(10059, "stream not found"))
    asked = msgspec.json.decode(data)
    found = stream.get(asked["seq"]) if "seq" in asked else stream.last(asked["last_by_subj"])
    return _encode({"message": _message(found)} if found is not None else _missing(10037, "no message found"))


def _missing(code: int, description: str) -> Mapping[str, Any]:
    return {"error": {"code": 404, "err_code": code, "description": description}}


def _state(stream: Stream, now: float) -> Mapping[str, Any]:
    return {
        "config": {"metadata": stream.config.metadata or {}, "num_replicas": 1},
        "state": {"messages": len(stream), "first_seq": stream.first_sequence, "last_seq": stream.last_sequence},
        "created": _timestamp(int(stream.created * 1e9)),
        "ts": _timestamp(int(now * 1e9)),
    }


def _message(stored: Stored) -> Mapping[str, Any]:
    headers = "".join(f"{name}: {value}\r\n" for name, value in (stored.headers or {}).items())
    return {
        "subject": stored.subject,
        "seq": stored.sequence,
        "time": _timestamp(stored.nanoseconds),
        "hdrs": base64.b64encode(f"NATS/1.0\r\n{headers}\r\n".encode()).decode() if headers else "",
        "data": base64.b64encode(stored.data).decode(),
    }


def _timestamp(nanoseconds: int) -> str:
    """Return nanoseconds of unix time as RFC 3339."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{_date(seconds)}.{rest:09d}Z"


@lru_cache(maxsize=1000)
def _date(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
