"""The part of placement in the traces of pods, and the counts of attempts."""

from deviceshare.model import BOUND, REFUSED, NodeLedger
from deviceshare_bus.cores.core import Count, RecordBatch, RecordTrace, Written
from deviceshare_bus.messages.codec import ATTEMPTS
from deviceshare_placement.core import LedgerReceived, PlacementCore
from support.builders import pod, vgpu
from support.played import WALL, Played


def traces(commands):
    return [each for each in commands if isinstance(each, RecordTrace)]


def attempts(commands):
    return {
        each.name.removeprefix(ATTEMPTS): each.amount
        for each in commands
        if isinstance(each, Count) and each.name.startswith(ATTEMPTS)
    }


def claimed(played, fact, sent_at=0.5):
    """Claim a pod; the shell stamps the claim with the time at which the ledger was sent."""
    played.put(fact)
    out = played.tick(after=2.0)
    (write,) = out.writes
    played.sequence += 1
    played.send(Written(write.token, played.sequence, WALL + played.now + sent_at))
    (claim,) = [each for each in out.claims if each.uid == fact.uid]
    return claim, out


def test_the_trace_of_a_pod_is_exported_once_it_is_bound():
    played = Played()
    claim, out = claimed(played, pod("x", vgpu(1, 100)))
    assert (claim.seen_at, claim.decided_at, claim.sent_at) == (WALL + 100, WALL + 102, 0.0)
    (batch,) = [each for each in out if isinstance(each, RecordBatch)]
    assert (batch.decided_by, batch.at, batch.uids, batch.messages) == ("p", WALL + 102, (claim.uid,), 1)
    assert attempts(out) == {"scheduled": 1}
    assert traces(played.tick()) == []
    played.outcome(claim, BOUND)
    (trace,) = traces(played.tick())
    assert (trace.uid, trace.times) == (claim.uid, (WALL + 100, WALL + 102, WALL + 102.5))
    assert (trace.first, trace.root, trace.decided_by) == (0, False, "p")
    played.outcome(claim, BOUND)
    assert traces(played.tick()) == [], "once"


def test_the_stamped_claim_is_in_the_next_ledger():
    played = Played()
    claim, _ = claimed(played, pod("x", vgpu(1, 100)))
    played.put(pod("y", vgpu(1, 100)))
    (ledger,) = played.tick().ledgers
    assert [each.sent_at for each in ledger.claims] == [WALL + 102.5, 0.0]
    assert ledger.sent(7.0).claims[0] == ledger.claims[0]
    assert ledger.sent(7.0).claims[1].sent_at == 7.0
    assert ledger.claims[0].id == claim.id


def test_an_outcome_may_overtake_the_acknowledgement():
    played = Played()
    played.put(pod("x", vgpu(1, 100)))
    out = played.tick()
    (claim,), (write,) = out.claims, out.writes
    played.outcome(claim, BOUND)
    assert traces(played.tick()) == []
    played.send(Written(write.token, 1, WALL + 101))
    assert [trace.times[2] for trace in traces(played.tick())] == [WALL + 101]


def test_a_refused_claim_leaves_no_part_of_a_trace():
    played = Played()
    claim, _ = claimed(played, pod("x", vgpu(1, 100)))
    answered = played.outcome(claim, REFUSED, "no")
    assert attempts(answered) == {"error": 1}
    out = played.tick()
    assert traces(out) == []
    played.written(out)
    out = played.tick(after=1.0)
    (again,) = out.claims
    (write,) = out.writes
    played.sequence += 1
    played.send(Written(write.token, played.sequence, WALL + played.now))
    played.outcome(again, BOUND)
    (trace,) = traces(played.tick())
    assert trace.times[0] == WALL + 100, "since the pod was first seen"


def test_without_traces_nothing_is_exported():
    played = Played()
    played.put(pod("x", vgpu(1, 100)))
    out = played.decided()
    played.outcome(out.claims[0], BOUND)
    assert traces(played.tick()) == []


def test_the_trace_says_why_the_pod_waited():
    played = Played()
    first, second = pod("x", vgpu(2, 100)), pod("y", vgpu(2, 100))
    claim, _ = claimed(played, first)
    played.put(second)
    assert attempts(played.tick(after=1.0)) == {"unschedulable": 1}
    played.outcome(claim, BOUND)
    played.tick()
    played.gone(first)
    out = played.tick(after=1.0)
    while not out.claims:
        played.written(out)
        out = played.tick(after=1.0)
    (write,) = out.writes
    played.send(Written(write.token, 100, WALL + played.now))
    played.outcome(out.claims[0], BOUND)
    (trace,) = traces(played.tick())
    assert trace.uid == second.uid
    assert trace.reason.startswith("0/1 nodes are unavailable: 1 Insufficient volcano.sh/vgpu-memory")


def test_a_pod_that_is_deleted_while_it_waits_has_a_trace():
    played = Played()
    fact = pod("x", vgpu(1, 1000))
    played.put(fact)
    played.tick()
    played.now += 5.0
    (trace,) = traces(played.gone(fact))
    assert (trace.uid, trace.times) == (fact.uid, (WALL + 100, WALL + 105))
    assert (trace.root, trace.result) == (True, "deleted")
    assert trace.reason


def test_a_pod_that_is_deleted_with_its_claim_leaves_its_trace_to_the_binder():
    played = Played()
    claim, _ = claimed(played, pod("x", vgpu(1, 100)))
    assert traces(played.remove("pod", claim.uid)) == []


def test_a_new_process_exports_the_claims_that_were_open():
    first = Played()
    one, _ = claimed(first, pod("x", vgpu(1, 100)))
    other, _ = claimed(first, pod("y", vgpu(1, 100)))
    claims = NodeLedger(node="a", claims=(one, other)).sent(WALL + 103)
    second = Played(synced=False)
    second.core = PlacementCore("q", "q")
    second.send(LedgerReceived("a", 1, claims))
    second.outcome(one, BOUND)
    second.put(pod("x", vgpu(1, 100)))
    second.put(pod("y", vgpu(1, 100)))
    second.sync()
    second.caught_up()
    assert traces(second.tick()) == [], "its predecessor has exported what was bound"
    second.outcome(other, BOUND)
    assert [trace.uid for trace in traces(second.tick())] == [other.uid]


def test_another_replica_exports_its_own_claims():
    played, replica = Played(), Played()
    claim, _ = claimed(played, pod("x", vgpu(1, 100)))
    replica.core = PlacementCore("q", "q")
    replica.sync()
    replica.caught_up()
    replica.put(pod("x", vgpu(1, 100)))
    stamped = NodeLedger(node="a", claims=(claim,)).sent(WALL + 103)
    replica.send(LedgerReceived("a", 1, stamped))
    replica.outcome(claim, BOUND)
    assert traces(replica.tick()) == []
