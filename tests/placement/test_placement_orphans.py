"""Claims whose pod is not known: CLUSTER itself tells whether there is one, since its reader may lag."""

from deviceshare.model import Claim, GroupKey
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
    assert played.core.knows_fact("cluster.pod.uid-x", 20)
    assert not played.core.knows_fact("cluster.pod.uid-x", 21)
    played.gone(later)
    assert not played.core.knows_fact("cluster.pod.uid-x", 1)
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
