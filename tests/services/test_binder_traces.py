"""The part of the binder in the traces of pods: exported once, by the binder whose outcome is on the bus."""

from deviceshare.model import BOUND, Outcome
from deviceshare_bus.cores.core import Log, RecordTrace
from deviceshare_cluster.interface import BindState
from support.binder_scene import claim, of, pod, started

CLAIM = claim(queue="research", decided_by="p", seen_at=10.0, decided_at=11.0, sent_at=11.5)


def bound(one=CLAIM):
    core = started(pods=[pod()])
    core.now = 12.0
    core.ledger("n1", [one])
    core.take(14.0)
    core.bind_answered("c1", BindState.BOUND, "n1", "", 15.0)
    return core


def traces(commands):
    return of(RecordTrace, commands)


def test_the_trace_is_exported_when_the_outcome_is_written():
    core = bound()
    assert traces(core.take(16.0)) == []
    core.outcomes_written("n1", 1)
    (trace,) = traces(core.take(17.0))
    assert trace.times == (10.0, 11.0, 11.5, 12.0, 14.0, 15.0)
    assert (trace.first, trace.root, trace.node, trace.queue, trace.result) == (2, True, "n1", "research", "bound")
    assert (trace.uid, trace.namespace, trace.name, trace.decided_by) == ("u1", "default", "pod-u1", "p")
    assert traces(core.take(18.0)) == []


def test_the_trace_is_exported_if_the_answer_is_lost_and_the_outcome_was_written():
    core = bound()
    core.take(16.0)
    assert core.outcomes_unclear("n1")
    core.outcomes_read("n1", 1, {"c1": Outcome("c1", "u1", BOUND, "", 15.0)})
    assert len(traces(core.take(17.0))) == 1
    assert traces(core.take(18.0)) == []


def test_another_binder_exports_the_trace_of_its_own_outcome():
    core = bound()
    core.take(16.0)
    assert core.outcomes_unclear("n1", conflict=True)
    core.outcomes_read("n1", 1, {"c1": Outcome("c1", "u1", BOUND, "", 14.9)})
    assert traces(core.take(17.0)) == []


def test_a_new_binder_does_not_export_what_was_bound_before():
    core = started(CLAIM, pods=[pod(node="n1")], outcomes=[Outcome("c1", "u1", BOUND, "", 15.0)])
    assert traces(core.take(20.0)) == []


def test_a_pod_that_is_deleted_before_its_outcome_is_written_has_its_trace():
    core = bound()
    core.ledger("n1", [])
    core.pod("u1", None)
    assert len(traces([*core.take(16.0), *core.take(17.0)])) == 1


def test_without_traces_nothing_is_exported():
    core = bound(claim(decided_at=11.0))
    core.take(16.0)
    core.outcomes_written("n1", 1)
    assert traces(core.take(17.0)) == []


def test_one_line_is_logged_for_each_bound_pod():
    core = bound()
    core.take(16.0)
    (line,) = of(Log, core.notes)
    assert (line.level, line.message) == ("debug", "pod bound")
    assert line.details == {
        "namespace": "default", "pod": "pod-u1", "uid": "u1", "node": "n1", "queue": "research", "claim": "c1",
        "seconds": 6.0,
    }  # fmt: skip
