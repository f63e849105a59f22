"""The metrics core in tests, with encoded messages as input."""

import gzip
from typing import Any

from deviceshare_bus.cores.core import CaughtUp, Now, Tick
from deviceshare_bus.messages.codec import Message, encode
from deviceshare_bus.messages.subjects import Stream
from deviceshare_metrics.card_metrics import Detail
from deviceshare_metrics.core import MetricsCore, Snapshot, build_snapshot
from deviceshare_metrics.exposition import expose
from deviceshare_metrics.sections import compressed
from deviceshare_metrics.service import SOURCES

_DECODE = {source.stream.lower(): source.decode for source in SOURCES}
NOW = Now(1000.0, 1_700_000_000.0)


def receive(core: MetricsCore, subject: str, data: bytes, now: Now = NOW) -> None:
    """Pass one message to a core, as the shell does."""
    event = _DECODE[subject.partition(".")[0]](Message(subject, 1, data))
    assert event is not None
    assert core.handle(event, now) == []


def started() -> MetricsCore:
    """Return a core that counts: what was on EVENT when it started has been read."""
    core = MetricsCore()
    core.handle(CaughtUp(Stream.EVENT), NOW)
    return core


def read(*messages: tuple[str, Any], into: MetricsCore | None = None) -> MetricsCore:
    """Pass messages to a core, a new one unless given."""
    core = into or started()
    for subject, message in messages:
        receive(core, subject, encode(message))
    return core


def catch_up(core: MetricsCore, now: Now = NOW) -> None:
    """Report to a core that all streams have been read to their ends."""
    for stream in Stream:
        core.handle(CaughtUp(stream), now)
    core.handle(Tick(), now)


def snapshot_of(core: MetricsCore) -> Snapshot:
    """Return what a core shows."""
    return build_snapshot(core.store)


def exposed(core: MetricsCore, accept: str = "", detail: Detail = "card") -> str:
    """Return what Prometheus reads of a core at a detail."""
    return gzip.decompress(compressed(expose(core.store, core.tallies, accept, detail=detail)[0])).decode()
