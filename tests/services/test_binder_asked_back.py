"""A claim that counts as bound and is asked back: the pod is read once more. And what the binder signs."""

import pytest
from deviceshare.model import BOUND, SIGNATURE, Claim, ContainerGrant, DeviceGrant, Outcome, signed
from deviceshare_binder.bind_task import Bind, Finished, Read, WriteOutcomes
from deviceshare_binder.core import Core
from deviceshare_binder.views import NodeView, PodView

KEY = b"a key of ours 123"


def claim(**fields):
    return Claim(id="c1", uid="u1", namespace="default", name="a", **fields)


def at_work(one, keys=(), outcomes=(), **pod):
    core = Core(keys=keys)
    core.node("n1", NodeView(name="n1"))
    core.pod("u1", PodView(uid="u1", namespace="default", name="a", **pod))
    core.outcomes("n1", 1, {each.claim: each for each in outcomes})
    core.start()
    core.ledger("n1", {one.id: one})
    return core


def written(instructions):
    return [one.state for write in instructions if isinstance(write, WriteOutcomes) for one in write.outcomes]


@pytest.mark.parametrize("found", ["", None])
def test_a_pod_that_is_not_bound_after_all_loses_its_claim(found):
    core = at_work(claim(withdraw=True), outcomes=[Outcome("c1", "u1", BOUND)])
    assert [type(one) for one in core.take(0.0)] == [Read]
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
    assert not [one for one in done if isinstance(one, Finished | WriteOutcomes)]
    core.ledger("n1", {"c1": claim(withdraw=True, decided_at=1.0)})
    assert core.take(2.0) == []
    assert core.open_work == 0


def test_what_is_bound_is_not_looked_at_unless_it_is_asked_back():
    core = at_work(claim(), outcomes=[Outcome("c1", "u1", BOUND)])
    assert core.take(0.0) == []


@pytest.mark.parametrize("keys", [(), (KEY,), (KEY, b"one from before 45")])
def test_the_devices_are_signed_with_the_first_key(keys):
    grant = ContainerGrant("main", 0, "gpu-share", (DeviceGrant("2", 2, 1024, 0),))
    (bind,) = at_work(claim(grants=(grant,)), keys).take(1_700_000_000.0)
    assert isinstance(bind, Bind)
    assert (SIGNATURE in bind.annotations) == bool(keys)
    if keys:
        assert signed(keys[:1], "u1", "n1", bind.annotations) == {"volcano.sh/gpu-index": "2"}
        assert signed(keys[1:], "u1", "n1", bind.annotations) is None
