"""No message, valid or not, ends a core; messages about one node or pod do not stop the others."""

from collections.abc import Callable, Iterable

import pytest
from deviceshare.model import Card, ContainerRequest, NodeFact, PodFact, PodRequest, Synced
from deviceshare_binder.core import build_core as build_binder
from deviceshare_binder.core.commands import BindPod
from deviceshare_binder.service import decoder as binder_decoder
from deviceshare_bus.core import CaughtUp, Command, Core, Event, Now, Read, ReadBack, Tick, Unreadable, Write, Written
from deviceshare_bus.messages import encode
from deviceshare_bus.subjects import Stream, fact, ledger
from deviceshare_bus.validation import InvalidMessageError
from deviceshare_inventory.core import WatchStarted, core_arguments
from deviceshare_inventory.core import build_core as build_inventory
from deviceshare_inventory.service import decode_message as inventory_decode
from deviceshare_metrics.core import build_core as build_metrics
from deviceshare_metrics.core import build_snapshot
from deviceshare_metrics.exposition import expose
from deviceshare_metrics.service import decode as metrics_decode
from deviceshare_placement.core import build_core as build_placement
from deviceshare_placement.service import decode as placement_decode
from hypothesis import given, settings
from hypothesis import strategies as st
from support.hostile import contents, message

ASK = PodRequest(
    containers=(ContainerRequest("main", (("volcano.sh/vgpu-memory", 10), ("volcano.sh/vgpu-number", 1))),)
)
CARD = Card("GPU-9", 0, 10, 100, 100, "V100", True, "hami-core")
OTHERS = {
    fact("node", "n9"): NodeFact(name="n9", allocatable={"cpu": 10**6, "pods": 1000}, cards=(CARD,)),
    fact("pod", "u9"): PodFact(
        uid="u9", namespace="default", name="z", scheduler="deviceshare", group="pod/u9", queue="default", ask=ASK
    ),
    "cluster.synced": Synced(revision="1"),
}  # fmt: skip
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


HOSTILE = st.lists(contents(), min_size=1, max_size=6)


@pytest.mark.parametrize("build", [placement, binder, inventory, metrics], ids=lambda build: build.__name__)
@pytest.mark.parametrize("late", [False, True])
@settings(max_examples=30)
@given(hostile=HOSTILE)
def test_no_message_ends_a_core(build, late, hostile):
    fed = build()
    for subject, content in OTHERS.items():
        fed.receive(subject, encode(content))
    if late:
        fed.caught_up()
    for subject, data in hostile:
        fed.receive(subject, data)
        fed.tick()
    if not late:
        fed.caught_up()
    if build is inventory:
        fed.send(WatchStarted())
    fed.tick()
    if build is metrics:
        b"".join(expose(build_snapshot(fed.core.store), fed.core.tallies, "")[0])


INVALID = HOSTILE.map(lambda found: [each for each in found if not valid(*each)])


def valid(subject: str, data: bytes) -> bool:
    try:
        metrics_decode(message(subject, data))
        placement_decode(message(subject, data))
    except InvalidMessageError:
        return False
    return True


@settings(max_examples=30)
@given(hostile=INVALID)
def test_invalid_messages_leave_other_pods_and_nodes_alone(hostile):
    deciding, binding = placement(), binder()
    for fed in (deciding, binding):
        for subject, data in hostile:
            fed.receive(subject, data)
        fed.caught_up()
        for subject, content in OTHERS.items():
            fed.receive(subject, encode(content))
        fed.tick()
    (written,) = [each for each in deciding.commands if isinstance(each, Write)]
    (claims,) = [each.message for each in written.writes]
    assert (claims.node, [claim.uid for claim in claims.claims]) == ("n9", ["u9"])
    binding.receive(ledger("n9"), encode(claims))
    binding.tick()
    assert [each.uid for each in binding.commands if isinstance(each, BindPod)] == ["u9"]
