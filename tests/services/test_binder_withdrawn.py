"""Withdrawal of a claim that counts as bound: the pod is read once more. Signatures of annotations."""

import pytest
from deviceshare.model import BOUND, ContainerGrant, DeviceGrant, Outcome, signed
from deviceshare.model.signatures import SIGNATURE
from deviceshare_binder.core.commands import BindPod, FencePod
from deviceshare_bus.cores.core import RecordStep, Write
from support.binder_scene import claim, pod, started, states

KEY = b"a key of ours 123"


BOUND_BEFORE = [Outcome("c1", "u1", BOUND)]


@pytest.mark.parametrize("found", ["", None])
def test_a_pod_that_is_not_bound_after_all_loses_its_claim(found):
    core = started(claim(withdraw=True), pods=[pod()], outcomes=BOUND_BEFORE)
    assert [type(one) for one in core.take(0.0)] == [FencePod]
    core.read_answered("c1", found, 1.0)
    done = core.take(1.0)
    assert states(done) == {"c1": ("withdrawn", "")}
    core.outcomes_written("n1", 2)
    assert core.take(2.0) == []


def test_a_pod_that_is_bound_keeps_its_claim_and_is_not_read_again():
    core = started(claim(withdraw=True), pods=[pod()], outcomes=BOUND_BEFORE)
    core.take(0.0)
    core.read_answered("c1", "n1", 1.0)
    done = core.take(1.0)
    assert not [one for one in done if isinstance(one, RecordStep | Write)]
    core.ledger("n1", [claim(withdraw=True, decided_at=1.0)])
    assert core.take(2.0) == []
    assert core.open_work == 0


def test_a_bound_claim_is_not_read_unless_it_is_to_be_withdrawn():
    core = started(claim(), pods=[pod()], outcomes=BOUND_BEFORE)
    assert core.take(0.0) == []


@pytest.mark.parametrize("keys", [(), (KEY,), (KEY, b"one from before 45")])
def test_the_devices_are_signed_with_the_first_key(keys):
    grant = ContainerGrant("main", 0, "gpu-share", (DeviceGrant("2", 2, 1024, 0),))
    (bind,) = started(claim(grants=(grant,)), pods=[pod()], keys=keys).take(1_700_000_000.0)
    assert isinstance(bind, BindPod)
    assert (SIGNATURE in bind.annotations) == bool(keys)
    if keys:
        assert signed(keys[:1], "u1", "n1", bind.annotations) == {"volcano.sh/gpu-index": "2"}
        assert signed(keys[1:], "u1", "n1", bind.annotations) is None
