"""Withdrawal of a claim that counts as bound: the pod is read once more. Signatures of annotations."""

import pytest
from deviceshare.model import BOUND, Claim, ContainerGrant, DeviceGrant, Outcome, signed
from deviceshare.model.signatures import SIGNATURE
from deviceshare_binder.core.commands import BindPod, FencePod
from deviceshare_binder.core.views import NodeView, PodView
from deviceshare_bus.cores.core import RecordStep, Write
from support.binder import BinderDriver, messages

KEY = b"a key of ours 123"


def claim(**fields):
    return Claim(id="c1", uid="u1", namespace="default", name="a", **fields)


def at_work(one, keys=(), outcomes=(), **pod):
    core = BinderDriver(keys=keys)
    core.node("n1", NodeView(name="n1"))
    core.pod("u1", PodView(uid="u1", namespace="default", name="a", **pod))
    core.outcomes("n1", 1, {each.claim: each for each in outcomes})
    core.start()
    core.ledger("n1", [one])
    return core


def written(commands):
    return [one.state for message in messages(commands) for one in message.outcomes]


@pytest.mark.parametrize("found", ["", None])
def test_a_pod_that_is_not_bound_after_all_loses_its_claim(found):
    core = at_work(claim(withdraw=True), outcomes=[Outcome("c1", "u1", BOUND)])
    assert [type(one) for one in core.take(0.0)] == [FencePod]
    core.read_answered("c1", found, 1.0)
    done = core.take(1.0)
    assert written(done) == ["withdrawn"]
    core.outcomes_written("n1", 2)
    assert core.take(2.0) == []


def test_a_pod_that_is_bound_keeps_its_claim_and_is_not_read_again():
    core = at_work(claim(withdraw=True), outcomes=[Outcome("c1", "u1", BOUND)])
    core.take(0.0)
    core.read_answered("c1", "n1", 1.0)
    done = core.take(1.0)
    assert not [one for one in done if isinstance(one, RecordStep | Write)]
    core.ledger("n1", [claim(withdraw=True, decided_at=1.0)])
    assert core.take(2.0) == []
    assert core.open_work == 0


def test_a_bound_claim_is_not_read_unless_it_is_to_be_withdrawn():
    core = at_work(claim(), outcomes=[Outcome("c1", "u1", BOUND)])
    assert core.take(0.0) == []


@pytest.mark.parametrize("keys", [(), (KEY,), (KEY, b"one from before 45")])
def test_the_devices_are_signed_with_the_first_key(keys):
    grant = ContainerGrant("main", 0, "gpu-share", (DeviceGrant("2", 2, 1024, 0),))
    (bind,) = at_work(claim(grants=(grant,)), keys).take(1_700_000_000.0)
    assert isinstance(bind, BindPod)
    assert (SIGNATURE in bind.annotations) == bool(keys)
    if keys:
        assert signed(keys[:1], "u1", "n1", bind.annotations) == {"volcano.sh/gpu-index": "2"}
        assert signed(keys[1:], "u1", "n1", bind.annotations) is None
