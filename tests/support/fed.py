"""The cores of the services, fed with messages as the shell passes them."""

from collections.abc import Callable, Iterable

from deviceshare_binder.core import build_core as build_binder
from deviceshare_binder.service import decoder as binder_decoder
from deviceshare_bus.cores.core import (
    CaughtUp,
    Command,
    Core,
    Event,
    Now,
    Read,
    ReadBack,
    Tick,
    Unreadable,
    Write,
    Written,
)
from deviceshare_bus.messages.codec import encode
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.messages.validation import InvalidMessageError
from deviceshare_inventory.core import build_core as build_inventory
from deviceshare_inventory.core import core_arguments
from deviceshare_inventory.service import decode_message as inventory_decode
from deviceshare_metrics.core import build_core as build_metrics
from deviceshare_metrics.service import decode as metrics_decode
from deviceshare_placement.core import build_core as build_placement
from deviceshare_placement.service import decode as placement_decode
from support.hostile import message

STREAMS = {"cluster": "CLUSTER", "ledger": "LEDGER", "outcome": "OUTCOME", "explain": "EXPLAIN", "event": "EVENT"}


class Fed:
    """A core that gets messages as the shell passes them, and whose writes are acknowledged."""

    def __init__(self, core: Core, decode: Callable[..., Event | None], streams: Iterable[str]) -> None:
        self.core = core
        self.decode = decode
        self.streams = list(streams)
        self.sequence = 0
        self.now = 100.0
        self.commands: list[Command] = []

    def send(self, event: Event) -> None:
        commands = self.core.handle(event, Now(self.now, 1e9 + self.now))
        encode_all = [encode(command) for command in commands]
        assert len(encode_all) == len(commands)
        self.commands += commands
        for command in commands:
            match command:
                case Write(token=token, writes=writes):
                    self.sequence += len(writes)
                    self.send(Written(token, self.sequence))
                case Read(subject=subject):
                    self.send(ReadBack(subject, 0))

    def receive(self, subject: str, data: bytes) -> None:
        stream = STREAMS.get(subject.partition(".")[0])
        if stream not in self.streams:
            return
        self.sequence += 1
        try:
            event = self.decode(message(subject, data, self.sequence))
        except InvalidMessageError as error:
            event = Unreadable(stream, subject, self.sequence, str(error), error.newer)
        if event is not None:
            self.send(event)

    def tick(self) -> None:
        for _ in range(3):
            due = self.core.next_due(Now(self.now, 1e9 + self.now))
            assert due is None or isinstance(due, float)
            self.now += 0.5
            self.send(Tick())
        assert self.core.open_work >= 0

    def caught_up(self) -> None:
        for stream in self.streams:
            self.send(CaughtUp(stream))


def placement() -> Fed:
    return Fed(
        build_placement({"instance": "p", "claim_prefix": "p"}), placement_decode, ("CLUSTER", "LEDGER", "OUTCOME")
    )


def binder() -> Fed:
    core = build_binder({"plugin_patience": 60.0, "reports_per_second": 200.0}, ())
    return Fed(core, binder_decoder(), ("CLUSTER", "LEDGER", "OUTCOME", "EXPLAIN"))


def inventory() -> Fed:
    return Fed(
        build_inventory(core_arguments(frozenset({"deviceshare"}), None, 0.5), ()), inventory_decode, ("CLUSTER",)
    )


def metrics() -> Fed:
    return Fed(build_metrics({}), metrics_decode, Stream)
