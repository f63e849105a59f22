"""Claims whose pod is not known: CLUSTER itself tells whether there is one, since its reader may lag."""

from deviceshare.model import BOUND, REFUSED, WITHDRAWN, Claim, Eviction, GroupKey, NodeLedger
from deviceshare_bus.messages.codec import Message
from deviceshare_placement.core import LedgerReceived
from deviceshare_placement.core.ledgers import ORPHAN_GRACE
from support.builders import pod, vgpu
from support.played import Played


def claim(uid: str) -> Claim:
    return Claim(id="c", uid=uid, namespace="ns", name=uid, group=GroupKey(f"pod/{uid}"), decided_by="other")


def test_a_live_claim_survives_a_reader_of_the_cluster_that_lags() -> None:
    played = Played()
    played.ledger("a", 1, claim("uid-x"))
    assert played.tick(ORPHAN_GRACE - 0.1).pods_read == []
    assert played.tick(0.1).pods_read == ["uid-x"]
    assert played.tick(60.0).pods_read == [], "the answer is awaited"
    later = pod("x", vgpu(1, 60), node="a", revision="9")
    out = played.pod_read("uid-x", 20, later)
    assert (out.repaired, played.tick(60.0).ledgers) == ([], [])
    # The reader skips what was read before.
    assert played.core.knows_fact(Message("cluster.pod.uid-x", 20, b""))
    assert not played.core.knows_fact(Message("cluster.pod.uid-x", 21, b""))
    played.gone(later)
    assert not played.core.knows_fact(Message("cluster.pod.uid-x", 1, b""))
    (ledger,) = played.tick().ledgers
    assert ledger.claims == ()


def test_an_unreadable_fact_of_a_pod_keeps_its_claim() -> None:
    played = Played()
    played.ledger("a", 1, claim("uid-x"))
    assert played.tick(ORPHAN_GRACE).pods_read == ["uid-x"]
    assert played.pod_read("uid-x", 20).repaired == []
    assert played.due == ORPHAN_GRACE
    assert played.tick(ORPHAN_GRACE).pods_read == ["uid-x"]
    assert played.pod_read("uid-x").repaired == ["claim without pod"]


def orphan() -> tuple[Played, Claim]:
    """Return a core that has found that CLUSTER lacks the pod of a claim."""
    played = Played()
    known = claim("uid-x")
    played.ledger("a", 1, known)
    played.tick(ORPHAN_GRACE)
    assert played.pod_read("uid-x").repaired == ["claim without pod"]
    return played, known


def test_the_binder_is_asked_before_the_claim_of_an_unknown_pod_is_removed() -> None:
    """CLUSTER may have lost a bound pod: only the API server tells that there is none."""
    played, known = orphan()
    (ledger,) = played.decided().ledgers
    assert [(each.id, each.withdraw) for each in ledger.claims] == [("c", True)]
    assert played.core.open_work == 1
    played.outcome(known, WITHDRAWN)
    (ledger,) = played.decided().ledgers
    assert ledger.claims == ()
    assert played.decided().ledgers == []
    assert played.core.open_work == 0


def test_a_claim_whose_pod_the_binder_finds_bound_stays_until_a_list_of_the_cluster_lacks_the_pod() -> None:
    played, known = orphan()
    played.decided()
    played.outcome(known, BOUND)
    assert (played.tick(600.0).pods_read, played.due) == ([], None)
    played.sync()
    assert played.tick().pods_read == ["uid-x"]
    assert played.pod_read("uid-x").repaired == []
    (ledger,) = played.decided().ledgers
    assert ledger.claims == ()


def test_a_claim_stays_whose_pod_is_published_again() -> None:
    played, known = orphan()
    played.decided()
    played.outcome(known, BOUND)
    played.put(pod("x", vgpu(1, 60), node="a", revision="9"))
    played.sync()
    assert played.tick(600.0) == []
    assert played.core.open_work == 0


def test_room_is_not_free_while_the_binder_may_find_the_pod_that_has_to_leave_it() -> None:
    played = Played()
    leaves = claim("uid-x")
    waits = Claim(
        id="new", uid="uid-new", namespace="ns", name="new", group=GroupKey("pod/uid-new"), waits_for=("uid-x",)
    )
    eviction = Eviction(
        uid="uid-x", namespace="ns", name="x", claim="new", action="preempt", preemptor="ns/new", go=True
    )
    played.put(pod("new", vgpu(1, 60)))
    ledger = NodeLedger(node="a", claims=(leaves, waits), evictions=(eviction,))
    played.send(LedgerReceived("a", 1, ledger))
    assert played.tick().pods_read == ["uid-x"]
    played.pod_read("uid-x")
    (written,) = played.decided().ledgers
    assert [(each.id, each.withdraw, each.waits_for) for each in written.claims] == [
        ("c", True, ()),
        ("new", False, ("uid-x",)),
    ]
    played.outcome(leaves, REFUSED, "the pod is gone")
    (written,) = played.decided().ledgers
    assert [each.id for each in written.claims] == ["new"]
    assert played.tick(ORPHAN_GRACE).pods_read == ["uid-x"]
    played.pod_read("uid-x")
    (written,) = played.decided().ledgers
    assert [(each.id, each.waits_for) for each in written.claims] == [("new", ())]
    assert written.evictions == ()
