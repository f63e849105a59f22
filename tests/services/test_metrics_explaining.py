"""Explanations of pods, also of pods that are gone, and when these are forgotten."""

from deviceshare.model import Gone, PodFact, trace_id
from deviceshare_bus.cores.core import Now, Tick
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.codec import Step
from deviceshare_metrics.core import MetricsCore, metrics_core
from deviceshare_metrics.core.metrics_core import FORGET_INTERVAL, FORGET_PAUSE, RETENTION
from deviceshare_metrics.core.state_store import MAX_STEPS
from support.metrics import NOW, catch_up, read
from support.metrics_messages import events, explain, explanation, pod, step


def test_an_explanation_has_the_steps_of_the_pod_in_their_order_and_its_trace():
    uid = "0191d4c6-51a8-7f40-8b1e-5d8f1c1d2e3f"
    steps = [Step(uid, "default/x", name, at) for name, at in (("claimed", 2.0), ("seen", 1.0))]
    core = read(
        events("placement", *steps),
        events("binder", Step(uid, "default/x", "bound", 3.0, "n1", "done")),
        ("cluster.pod." + uid, PodFact(uid=uid, namespace="default", name="x")),
    )
    answer = explain(core, "default", "x")
    assert [(each.service, each.step) for each in answer.steps] == [
        ("placement", "seen"), ("placement", "claimed"), ("binder", "bound"),
    ]  # fmt: skip
    assert (answer.steps[2].node, answer.steps[2].message, answer.explanation) == ("n1", "done", None)
    assert answer.trace_id == trace_id(uid)
    assert explain(core, "default", "y") is None
    assert explain(core, "other", "x") is None


def test_a_pod_that_is_gone_can_be_explained_until_it_is_forgotten():
    placed = explanation("b", decision="placed")
    core = read(pod("a"), explanation("a"), pod("b"), placed, events("placement", step("seen", 7.0, "c")))
    read((subjects.fact("pod", "uid-a"), Gone()), into=core)
    answer = explain(core, "default", "a")
    assert (answer.pod, answer.explanation.message) == (None, "0/1 nodes are unavailable: 1 too small.")
    assert explain(core, "default", "c").steps[0].time == 7.0

    early, late = Now(1000.0, 6.0 + RETENTION), Now(1100.0, 8.0 + RETENTION)
    core.handle(Tick(), late)
    assert explain(core, "default", "a") is not None, "the pod may be on a stream that has not been read yet"
    assert core.next_due(early) is None
    core._wall_offset = early.wall - early.monotonic
    catch_up(core, early)
    assert explain(core, "default", "a") is None
    assert explain(core, "default", "c") is not None
    core.handle(Tick(), early._replace(monotonic=core.next_due(early)))
    assert core.next_due(early) == early.monotonic + FORGET_PAUSE + FORGET_INTERVAL
    core.handle(Tick(), late._replace(monotonic=early.monotonic + FORGET_INTERVAL))
    assert explain(core, "default", "c") is not None
    core.handle(Tick(), late)
    assert explain(core, "default", "c") is None
    assert explain(core, "default", "b").explanation is not None


def test_of_too_many_pods_that_are_gone_the_oldest_are_forgotten():
    core = MetricsCore(most_gone=2)
    read(pod("alive"), *(events("placement", step("seen", 1.0, name)) for name in ("alive", "a", "b", "c")), into=core)
    core._wall_offset = 4.0 - NOW.monotonic
    catch_up(core, NOW._replace(wall=4.0))
    assert core.store.histories.keys() == {"uid-alive", "uid-b", "uid-c"}
    assert core.next_due(NOW) == NOW.monotonic + FORGET_PAUSE


def test_a_search_for_pods_to_forget_examines_a_part_of_them(monkeypatch):
    monkeypatch.setattr(metrics_core, "FORGET_BATCH", 2)
    names = ("a", "alive", "b", "c")
    core = read(pod("alive"), *(events("placement", step("seen", 1.0, name)) for name in names))
    catch_up(core)
    assert list(core.store.histories) == ["uid-b", "uid-c", "uid-alive"]
    later = NOW._replace(monotonic=NOW.monotonic + FORGET_PAUSE)
    core.handle(Tick(), later)
    assert list(core.store.histories) == ["uid-alive"]
    core.handle(Tick(), later._replace(monotonic=core.next_due(later)))
    assert list(core.store.histories) == ["uid-alive"]
    assert core.next_due(later) == later.monotonic + FORGET_PAUSE + FORGET_INTERVAL


def test_the_last_steps_of_a_pod_are_kept():
    core = read(events("placement", *(step("pending", float(at)) for at in range(MAX_STEPS + 5))))
    steps = explain(read(pod(), into=core), "default", "a").steps
    assert (len(steps), steps[0].time) == (MAX_STEPS, 5.0)
