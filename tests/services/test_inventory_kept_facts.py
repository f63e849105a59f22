"""A fact that is kept as an object is written as the message that it had at first, however often."""

import pytest
from deviceshare.model import PodFact
from deviceshare_bus.cores.core import Write, Written
from deviceshare_bus.messages.codec import encode
from deviceshare_inventory.core.desired_state import DesiredState
from support.inventory import started, vgpu_node, vgpu_pod

POD = PodFact(uid="u", namespace="x", name="a", revision="7")
SUBJECT = "cluster.pod.u"


def written(state: DesiredState) -> tuple[Write, bytes]:
    (write,) = state.take_writes()
    assert isinstance(write, Write)
    (only,) = write.writes
    return write, only.message


@pytest.mark.parametrize("kept", [False, True])
def test_what_another_writer_replaced_is_written_again(kept: bool) -> None:
    state = DesiredState()
    state.want(SUBJECT, POD, 7, kept=kept)
    write, message = written(state)
    assert message == encode(POD)
    state.handle(Written(write.token, 1), 0.0)
    assert not state.open
    state.load(SUBJECT, 2, PodFact(uid="u", namespace="x", name="other", revision="3"), foreign=True)
    assert written(state)[1] == encode(POD)


def test_the_message_of_a_fact_that_is_kept_is_not() -> None:
    state = DesiredState()
    state.want(SUBJECT, POD, 7, kept=True)
    assert state._records[SUBJECT].message is POD


def test_the_fact_of_a_bound_pod_with_devices_is_kept_once() -> None:
    core = started([vgpu_node(), vgpu_pod()], 3)[0].core
    assert core._desired._records["cluster.pod.u1"].message is core._builder._problems._pods["u1"]
