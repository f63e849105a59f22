"""Pods without a PodGroup, and outcomes that changed, take a short way: with the same results as the long one."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from deviceshare.model import NodeOutcomes, Outcome, Problem, QueueFact
from deviceshare.queueing import gangs
from deviceshare.scheduler import readiness
from deviceshare.state import Trial
from deviceshare_bus.messages.codec import encode
from deviceshare_placement.core import OutcomesReceived
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import ask, card, container, node, pod, vgpu
from support.played import Commands, Played

PODS = st.lists(
    st.fixed_dictionaries(
        {
            "what": st.sampled_from([vgpu(1, 40), vgpu(2, 60), vgpu(1, 900), ask(container()), ask(container(cpu=9))]),
            "queue": st.sampled_from(["default", "closed", "small", "nowhere"]),
            "gates": st.sampled_from([(), (), ("wait",)]),
            "problems": st.sampled_from([(), (), (Problem("Pod x", "spec", "1", "2"),)]),
            "priority": st.integers(0, 2),
        }
    ),
    min_size=1,
    max_size=8,
)


def in_general(single, *, borrowing: bool, reasons: bool) -> gangs.Decision:
    with Trial(*(each.undo_log for each in (single.allocator, single.queues) if each is not None)) as trial:
        attempt = gangs._Attempt(*single, borrowing=borrowing, reasons=reasons)
        if not attempt.place(single.group.pods):
            return attempt.failure()
        trial.commit()
        return attempt.success()


@contextmanager
def long_way() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readiness, "_single_job", lambda *_: None)
        patch.setattr(gangs._Single, "decide", in_general)
        yield


def play(pods: list[dict], refused: int) -> list[bytes]:
    played = Played(node("a", [card(at, memory=100) for at in range(2)]), node("b", [card(0, memory=100)]))
    played.put(QueueFact(name="closed", open=False, state="Closed"))
    played.put(QueueFact(name="small", capability={"volcano.sh/vgpu-memory": 50}))
    said: list[bytes] = []

    def note(out: Commands) -> Commands:
        said.extend(map(encode, out))
        return out

    for at, each in enumerate(pods):
        what = {key: value for key, value in each.items() if key != "what"}
        note(played.put(replace(pod(f"p{at}", each["what"]), **what)))
    for _ in range(3):
        out = note(played.tick(1.0))
        for answer in played.written(out):
            note(answer)
        for at, claim in enumerate(out.claims):
            where = next(ledger.node for ledger in out.ledgers if claim in ledger.claims)
            if at < refused:
                note(played.outcome(claim, "refused", "no", where))
            else:
                index = int(claim.name.removeprefix("p"))
                what = {key: value for key, value in pods[index].items() if key != "what"}
                bound = replace(pod(claim.name, pods[index]["what"], node=where, held=claim.grants), **what)
                note(played.put(bound))
    return said


@given(PODS, st.integers(0, 2))
def test_pods_without_a_podgroup_are_decided_as_groups_of_one(pods, refused) -> None:
    short = play(pods, refused)
    with long_way():
        assert play(pods, refused) == short


def outcomes(played: Played, node_name: str, *found: Outcome) -> Commands:
    return played.send(OutcomesReceived(node_name, NodeOutcomes(node=node_name, outcomes=found)))


def test_only_outcomes_that_changed_are_applied() -> None:
    played = Played()
    for name in ("x", "y"):
        played.put(pod(name, vgpu(1, 40)))
    out = played.decided()
    x, y = sorted(out.claims, key=lambda claim: claim.name)
    bound, refused = Outcome(x.id, x.uid, "bound"), Outcome(y.id, y.uid, "refused", "no")
    assert outcomes(played, "a", bound).steps == []
    assert [step.name for step in outcomes(played, "a", bound, refused).steps] == ["claim refused"]
    assert outcomes(played, "a", bound, refused).steps == [], "once"
    assert outcomes(played, "a", refused, bound).steps == [], "in any order"
    later = Outcome(x.id, x.uid, "withdrawn")
    assert [step.name for step in outcomes(played, "a", later, refused).steps] == ["claim withdrawn"]
    assert {claim.id for ledger in played.tick().ledgers for claim in ledger.claims} == set()


def test_an_outcome_that_comes_before_its_claim_is_applied_with_it() -> None:
    played = Played()
    played.put(pod("x", vgpu(1, 40)))
    out = played.tick()
    (claim,) = out.claims
    outcomes(played, "a", Outcome(claim.id, claim.uid, "refused", "no"))
    played.written(out)
    assert [ledger.claims for ledger in played.tick().ledgers] == [()]


def test_a_claim_with_an_earlier_outcome_bound_is_doubted_if_its_pod_is_not_bound() -> None:
    played = Played()
    played.put(pod("x", vgpu(1, 40)))
    out = played.tick()
    (claim,) = out.claims
    outcomes(played, "a", Outcome(claim.id, claim.uid, "bound"))
    played.written(out)
    (ledger,) = played.tick(11.0).ledgers
    assert [each.withdraw for each in ledger.claims] == [True]
