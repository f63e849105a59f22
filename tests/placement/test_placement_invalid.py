"""Invalid messages: only the node or the pod that a message is about waits, nothing is overwritten."""

import pytest
from deviceshare.model import Claim
from deviceshare_bus.cores.core import Count, Log, ReadBack
from deviceshare_bus.messages import subjects
from msgspec.structs import replace
from support.builders import card, node, pod, vgpu
from support.played import Played


def two_nodes() -> Played:
    return Played(*(node(name, [card(at, memory=100, node=name) for at in range(2)]) for name in "ab"))


def nodes_of(commands) -> list[str]:
    return [each.node for each in commands.ledgers]


@pytest.mark.parametrize(
    ("subject", "newer"),
    [
        (subjects.ledger("a"), False),
        (subjects.ledger("a"), True),
        (subjects.outcome("a"), True),
        (subjects.fact("node", "a"), False),
        (subjects.fact("node", "a"), True),
    ],
)
def test_only_the_node_of_an_invalid_message_takes_no_pods(subject: str, newer: bool) -> None:
    played = two_nodes()
    played.invalid(subject, newer=newer)
    for uid in ("u1", "u2"):
        played.put(pod(uid, vgpu(1, 90), uid=uid))
    out = played.tick()
    assert nodes_of(out) == ["b"]
    assert len(out.claims) == 2
    played.written(out)
    played.put(pod("u3", vgpu(1, 90), uid="u3"))
    stream = {"l": "LEDGER", "o": "OUTCOME"}.get(subject[0], "CLUSTER")
    (message,) = played.tick(2.0).messages
    assert "1 node(s) were paused" in message
    assert f"the message about them in {stream} is not valid" in message
    if subject.startswith("cluster"):
        played.put(node("a", [card(0, memory=100)]))
    else:
        played.send(ReadBack(subject, 0))  # an operator deleted it
    assert nodes_of(played.tick(2.0)) == ["a"]


def test_invalid_outcomes_that_the_binder_replaces_pause_nothing() -> None:
    played = Played()
    played.invalid(subjects.outcome("a"))
    played.put(pod("u1", vgpu(1, 90), uid="u1"))
    assert nodes_of(played.tick()) == ["a"]


@pytest.mark.parametrize("subject", ["ledger.x", "ledger", "outcome.x", "cluster.pod", "cluster.x.y", "ledger.0.a", ""])
def test_an_unknown_subject_pauses_nothing(subject: str) -> None:
    played = Played()
    assert subject != subjects.ledger("a")
    played.invalid(subject, newer=True)
    played.put(pod("u1", vgpu(1, 90), uid="u1"))
    assert nodes_of(played.tick()) == ["a"]


def test_a_pod_with_an_invalid_fact_is_not_decided_and_keeps_its_claims() -> None:
    played = Played()
    subject = subjects.fact("pod", "u1")
    played.put(pod("u1", vgpu(1, 90), uid="u1"))
    played.invalid(subject)
    played.put(pod("u2", vgpu(1, 90), uid="u2"))
    out = played.tick()
    assert [claim.uid for claim in out.claims] == ["u2"]
    assert out.messages == ["the message about the pod in CLUSTER is not valid: the reason"]
    played.put(pod("u1", vgpu(1, 90), uid="u1"))
    played.written(out)
    assert [claim.uid for claim in played.tick(2.0).claims] == ["u2", "u1"]


def test_the_claim_of_a_pod_whose_fact_was_never_valid_is_no_orphan() -> None:
    played = Played(synced=False)
    claim = Claim(id="c1", uid="u1", namespace="default", name="u1")
    played.invalid(subjects.fact("pod", "u1"), newer=True)
    played.ledger("a", 1, claim)
    played.sync()
    played.caught_up()
    for _ in range(5):
        assert played.tick(11.0).ledgers == []
    played.remove("pod", "u1")
    assert [ledger.claims for ledger in played.tick(1.0).ledgers] == [()]


def test_a_ledger_with_the_claims_of_another_node_is_not_applied() -> None:
    played = two_nodes()
    played.put(pod("u1", vgpu(1, 90), uid="u1"))
    out = played.decided()
    (claim,) = out.claims
    there = out.ledgers[0].node
    other = {"a": "b", "b": "a"}[there]
    commands = played.ledger(other, 90, claim)
    assert [each.level for each in commands if isinstance(each, Log)] == ["error"]
    assert [each.name for each in commands if isinstance(each, Count)] == ["ledgers_invalid"]
    played.put(pod("u2", vgpu(1, 90), uid="u2"))
    assert nodes_of(played.tick()) == [there]
    played.ledger(there, 91)
    played.ledger(other, 92)
    assert played.core.scheduler.cluster.claims_of("u1") == ()


def test_a_write_in_flight_does_not_replace_an_invalid_ledger() -> None:
    played = Played()
    played.put(pod("u1", vgpu(1, 90), uid="u1"))
    (write,) = played.tick().writes
    played.invalid(subjects.ledger("a"), 5, newer=True)
    played.conflict(write)
    assert played.tick(5.0).writes == []
    played.put(pod("u2", vgpu(1, 10), uid="u2"))
    assert played.tick(5.0).writes == []
    played.send(ReadBack(subjects.ledger("a"), 0))
    (write,) = played.tick(5.0).writes
    assert [each.expected for each in write.writes] == [0]


def test_removals_wait_while_a_ledger_is_invalid() -> None:
    played = Played()
    played.put(pod("u1", vgpu(1, 90), uid="u1"))
    played.decided()
    played.invalid(subjects.ledger("a"), 9)
    played.remove("pod", "u1")
    assert played.tick(5.0).writes == []
    played.ledger("a", 10)
    assert played.tick(5.0).writes == []
    assert played.core.scheduler.cluster.ledger("a").claims == {}


def test_the_removal_that_was_due_while_the_outcomes_were_not_readable_is_written_when_they_are() -> None:
    played = Played()
    waits = pod("u1", vgpu(1, 90), uid="u1")
    played.put(waits)
    out = played.tick()
    (claim,) = out.claims
    played.written(out)
    played.outcome(claim, "bound")
    played.put(replace(waits, node="a"))
    played.invalid(subjects.outcome("a"), 9, newer=True)
    played.gone(waits)
    assert played.tick(5.0).writes == []
    played.outcome(claim, "bound")
    (ledger,) = played.tick().ledgers
    assert ledger.claims == ()
