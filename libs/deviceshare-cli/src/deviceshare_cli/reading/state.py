"""The state of the services, computed from the messages of the bus by the services' own cores."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from deviceshare_bus.cores.core import CaughtUp, Event, Now, Unreadable
from deviceshare_bus.messages.codec import Message
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.messages.validation import InvalidMessageError

from deviceshare_cli.reading.reader import StoredMessage

if TYPE_CHECKING:
    from deviceshare.scheduler import Scheduler
    from deviceshare_metrics.core import MetricsCore
    from deviceshare_metrics.core import StateStore as MetricsStore
    from deviceshare_placement.core import PlacementCore

PLACEMENT_STREAMS = (Stream.LEDGER, Stream.CLUSTER, Stream.OUTCOME)
"""The streams that placement decides by; claims come before the pods, whose devices are then counted once."""


def metrics_store(messages: Iterable[StoredMessage], now: float) -> "MetricsStore":
    """Return the state of a metrics service that has read these messages; ``now`` in unix seconds."""
    from deviceshare_metrics.core import MetricsCore
    from deviceshare_metrics.decoding import decode

    core = MetricsCore()
    _feed(core, decode, messages, now)
    return core.store


def scheduler_of(messages: Iterable[StoredMessage], now: float) -> "Scheduler":
    """Return the scheduler of a placement service that has read these messages, and has decided nothing."""
    from deviceshare_placement.core import build_core
    from deviceshare_placement.decoding import decode

    core = build_core({"instance": "fit", "claim_prefix": "fit"})
    _feed(core, decode, messages, now)
    return core.scheduler


def _feed(
    core: "MetricsCore | PlacementCore",
    decode: Callable[[Message], Event | None],
    messages: Iterable[StoredMessage],
    now: float,
) -> None:
    at = Now(now, now)
    for each in messages:
        message = Message(each.subject, each.sequence, each.data)
        try:
            event = decode(message)
        except InvalidMessageError as error:
            event = Unreadable(each.stream, each.subject, each.sequence, str(error)[:1000], error.newer)
        if event is not None:
            core.handle(event, at)
    for stream in Stream:
        core.handle(CaughtUp(stream), at)
