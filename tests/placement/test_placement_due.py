"""The timer and the open work of placement, when several things are pending at once; reasons of late pods."""

from deviceshare.model import REFUSED, WITHDRAWN, Claim, ConfigFact, GroupKey, QueueFact
from deviceshare.scheduler import PROMPT_RETRIES, RETRY
from deviceshare.scheduler.reporter import INTERVAL
from deviceshare_placement.core.ledgers import BOUND_GRACE, ORPHAN_GRACE
from msgspec.structs import replace
from support.builders import MEMORY, card, node, pod, vgpu
from support.played import Played

BY_CARD = """
tiers:
- plugins:
  - {{name: proportion}}
  - {{name: deviceshare, arguments: {{deviceshare.VGPUEnable: true, deviceshare.CardQuotaEnable: {}}}}}
"""


def claim(uid: str, name: str = "c", memory: int = 10) -> Claim:
    return Claim(id=name, uid=uid, namespace="ns", name=uid, group=GroupKey(f"pod/{uid}"), decided_by="other")


def test_nothing_is_due_and_open_in_a_settled_cluster(played) -> None:
    played.tick()
    assert played.due is None
    assert played.core.open_work == 0


def test_before_the_cluster_is_known_work_is_open_and_nothing_is_due() -> None:
    played = Played(synced=False)
    assert (played.core.open_work, played.due) == (1, None)
    played.caught_up()
    played.tick()
    assert (played.core.open_work, played.due) == (1, None), "the cluster was not on the bus yet"
    played.sync()
    played.put(pod("x", vgpu(1, 60)))
    assert played.core.open_work == 1
    played.decided()
    played.tick()
    assert played.core.open_work == 0


def test_the_earliest_of_an_orphan_a_retry_and_a_repeated_reason_is_next(played) -> None:
    played.tick()
    played.ledger("a", 1, claim("unknown"))
    assert played.due == ORPHAN_GRACE
    assert played.core.open_work == 1
    played.tick(4.0)
    assert played.due == ORPHAN_GRACE - 4.0

    played.put(pod("x", vgpu(1, 60)))
    out = played.tick()
    (new,) = [each for each in out.claims if each.uid == "uid-x"]
    assert played.due is None, "the write is in flight: nothing is decided before its result"
    assert played.core.open_work == 2, "the orphan and the write"
    played.sequence = 1
    played.written(out)
    played.tick()
    assert (played.due, played.core.open_work) == (ORPHAN_GRACE - 4.0, 1)
    played.outcome(new, REFUSED, "no")
    out = played.decided()
    assert played.due == 0.5, "the retry of the refused pod comes before its reason and the orphan"
    assert played.core.open_work == 3
    out = played.tick(0.5)
    assert [each.uid for each in out.claims if each.id != "c"] == ["uid-x"]
    played.written(out)
    assert played.due == ORPHAN_GRACE - 4.5
    assert played.tick(played.due).pods_read == ["unknown"]
    assert played.due is None, "the answer is awaited"
    assert played.pod_read("unknown").repaired == ["claim without pod"]
    played.decided()
    assert (played.due, played.core.open_work) == (None, 1), "the binder reads the pod back"
    played.outcome(claim("unknown"), WITHDRAWN)
    played.decided()
    played.decided()
    assert (played.due, played.core.open_work) == (None, 0)


def test_a_claim_that_counts_as_bound_and_is_not_has_its_time_beside_others(played) -> None:
    played.put(pod("x", vgpu(1, 60)))
    out = played.decided()
    played.outcome(out.claims[0], "bound")
    assert played.due == BOUND_GRACE
    played.tick(3.0)
    played.ledger("a", 5, out.claims[0], claim("unknown"))
    assert played.due == BOUND_GRACE - 3.0, "before the orphan, which has its whole time"
    assert played.tick(BOUND_GRACE - 3.0).repaired == ["claim not bound"]


def test_open_work_counts_refused_pods_until_they_wait_with_their_reason(played) -> None:
    played.put(pod("x", vgpu(1, 60)))
    for refusals in range(1, PROMPT_RETRIES + 3):
        out = played.decided(played.due or 0.0)
        played.outcome(out.claims[0], REFUSED, "no")
        played.decided()
        assert played.tick().writes == []
        assert played.core.open_work == (refusals <= PROMPT_RETRIES) + 1, "its reason is to be published"
        retry = RETRY.first * 2 ** (refusals - 1)
        assert played.due == min(retry, INTERVAL)
        if retry > INTERVAL:
            (explained,) = played.tick(INTERVAL).explanations
            assert explained.message == "binding was refused: no; it will be tried again"
            assert played.core.open_work == (refusals <= PROMPT_RETRIES)


def test_a_pod_that_comes_to_others_that_wait_alike_gets_their_reason(played) -> None:
    played.put(pod("first", vgpu(1, 500)))
    (reason,) = played.tick().messages
    played.put(pod("second", vgpu(1, 500), created=1.0))
    out = played.tick()
    assert [(each.uid, each.message) for each in out.explanations] == [("uid-second", reason)]
    assert played.tick(10.0).explanations == [], "once"
    played.put(pod("third", vgpu(1, 500), created=-1.0))
    assert [each.uid for each in played.tick().explanations] == ["uid-third"], "also one that goes first"


def test_a_pod_that_comes_to_others_that_wait_for_their_queue_gets_their_reason(played) -> None:
    played.put(QueueFact(name="q", capability={MEMORY: 50}))
    for at in range(3):
        played.put(replace(pod(f"p{at}", vgpu(1, 60)), queue="q", created=float(at)))
        (reason,) = played.tick().messages
        assert reason.startswith("queue 'q' has a capability of 50 MiB")


def by_card(played: Played, enabled: bool) -> None:
    played.put(ConfigFact(name="scheduler", text=BY_CARD.format(str(enabled).lower()), source="x"))


def test_what_counts_in_queues_follows_the_configuration_while_pods_wait() -> None:
    played = Played(node("a", [card(at, memory=100) for at in range(4)]))
    played.put(QueueFact(name="q", capability={MEMORY: 100}))
    by_card(played, enabled=True)
    played.put(replace(pod("two", vgpu(2, 60)), queue="q"))
    out = played.tick()
    assert out.claims == [], "two cards of 60 MiB are 120"
    assert "60 MiB used" not in out.messages[0]
    by_card(played, enabled=False)
    out = played.tick()
    assert [each.name for each in out.claims] == ["two"], "as Volcano counts, it requests 60"
    played.written(out)
    played.put(replace(pod("late", vgpu(1, 30)), queue="q"))
    by_card(played, enabled=True)
    out = played.tick()
    assert out.claims == [], "the pod that was placed counts 120 again"
    assert "120 MiB used" in out.messages[0]
    by_card(played, enabled=False)
    assert [each.name for each in played.tick().claims if each.name == "late"] == ["late"]
