"""No message, valid or not, ends a core; messages about one node or pod do not stop the others."""

import pytest
from deviceshare.model import Card, ContainerRequest, NodeFact, PodFact, PodRequest, Synced
from deviceshare_binder.core.commands import BindPod
from deviceshare_bus.cores.core import Write
from deviceshare_bus.messages.codec import encode
from deviceshare_bus.messages.subjects import fact, ledger
from deviceshare_bus.messages.validation import InvalidMessageError
from deviceshare_inventory.core import WatchStarted
from deviceshare_metrics.decoding import decode as metrics_decode
from deviceshare_placement.decoding import decode as placement_decode
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fed import binder, inventory, metrics, placement
from support.hostile import contents, message
from support.metrics import exposed

ASK = PodRequest(
    containers=(ContainerRequest("main", (("volcano.sh/vgpu-memory", 10), ("volcano.sh/vgpu-number", 1))),)
)
CARD = Card("GPU-9", 0, 10, 100, 100, "V100", True, "hami-core")
OTHERS = {
    fact("node", "n9"): NodeFact(name="n9", allocatable={"cpu": 10**6, "pods": 1000}, cards=(CARD,)),
    fact("pod", "u9"): PodFact(
        revision="1",
        uid="u9",
        namespace="default",
        name="z",
        scheduler="deviceshare",
        group="pod/u9",
        queue="default",
        ask=ASK,
    ),
    "cluster.synced": Synced(revision="1"),
}  # fmt: skip
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
        exposed(fed.core)


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
