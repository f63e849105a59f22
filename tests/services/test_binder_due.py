"""The binder's timer and its open work, when several things are pending at once."""

from deviceshare.model import Claim, Outcome
from deviceshare_binder.core.commands import BindPod, CreateQueue
from deviceshare_binder.core.events import QueueChanged
from deviceshare_binder.core.views import NodeView
from deviceshare_cluster.interface import BindState
from support.binder import BinderDriver
from support.handoff import NOW, claim, pod, vgpus


def driver(*uids: str) -> BinderDriver:
    core = BinderDriver(NOW)
    core.node("n1", NodeView(name="n1"))
    for uid in uids:
        core.pod(uid, pod(uid))
    core.start()
    return core


def test_the_earliest_of_several_timers_is_next() -> None:
    core = driver("a", "b")
    core.ledger("n1", [claim("a", ()), claim("b", ())])
    assert [type(each) for each in core.take(NOW)] == [BindPod, BindPod]
    assert core.next_due() is None, "both wait for answers"
    core.failed("claim-b", NOW + 1.0, 0.0)
    later = core.next_due()
    core.failed("claim-a", NOW + 0.5, 0.0)
    sooner = core.next_due()
    assert NOW < sooner < later
    assert [each.uid for each in core.take(sooner)] == ["a"]
    assert core.next_due() == later
    assert [each.uid for each in core.take(later)] == ["b"]
    assert core.next_due() is None


def test_a_missing_queue_and_a_claim_each_have_their_timer() -> None:
    core = driver("a")
    core.ledger("n1", [claim("a", ())])
    core.take(NOW)
    core.failed("claim-a", NOW, 0.0)
    retry = core.next_due()
    core.accept = False
    core.handle(QueueChanged("default", None), NOW)
    assert core.next_due() < NOW, "the queue is created at once"
    core.take(NOW)
    (created,) = [each for each in core.reports if isinstance(each, CreateQueue)]
    assert core.next_due() == retry
    core.report_failed(created)
    assert core.next_due() == retry, "the claim comes before the next attempt to create the queue"
    core.take(retry)
    assert core.next_due() > retry


def test_a_claim_whose_pod_is_unknown_and_a_stuck_pod_each_have_their_timer() -> None:
    core = driver()
    core.pod("theirs", pod("theirs", vgpus(2), "n1", unserved=[("hami-core", "2 vGPUs")]), NOW)
    core.take(NOW)
    patience = core.next_due()
    core.ledger("n1", [Claim(id="c", uid="unknown", namespace="default", name="unknown")])
    core.take(NOW)
    grace = core.next_due()
    assert NOW < grace < patience
    core.take(grace)
    core.read_answered("c", None, grace)
    core.take(grace)
    assert core.next_due() == patience


def test_an_outcome_that_another_binder_wrote_ends_the_work_on_its_claim() -> None:
    core = driver()
    core.ledger("n1", [claim("unknown", ()), claim("other", ())])
    core.take(NOW)
    before = core.open_work
    core.outcomes("n1", 1, {"claim-unknown": Outcome("claim-unknown", "unknown", "refused", "no")})
    assert core.open_work == before - 1
    core.outcomes(
        "n1", 2, {f"claim-{uid}": Outcome(f"claim-{uid}", uid, "refused", "no") for uid in ("unknown", "other")}
    )
    assert core.open_work == before - 2
    core.pod("unknown", pod("unknown"))
    assert not [each for each in core.take(NOW + 100.0) if isinstance(each, BindPod)]


def test_open_work_adds_up_claims_outcomes_and_reports() -> None:
    core = driver("a", "b", "waits")
    core.take(NOW)
    assert core.open_work == 0, "the status of the queues is written"
    core.ledger("n1", [claim("a", ()), claim("b", ())])
    assert core.open_work == 2
    core.take(NOW)
    assert core.open_work == 2, "until the bindings are answered"
    core.explain("waits", "no room")
    assert core.open_work == 3, "the condition of the pod that waits is to be written"
    for uid in ("a", "b"):
        core.bind_answered(f"claim-{uid}", BindState.BOUND, "n1", "", NOW)
    assert core.open_work == 2, "the outcomes of a node, and the report"
    core.take(NOW)
    core.written_reports()
    assert core.open_work == 2, "the outcomes to be written, and their write; the report is written"
    core.outcomes_written("n1", 1)
    assert core.open_work == 0
