"""When claims are bound, refused, withdrawn, retried, and what they wait for."""

import msgspec
import pytest
from deviceshare.model import (
    ConfigFact,
    ContainerGrant,
    ContainerRequest,
    DeviceGrant,
    Gone,
    NodeLedger,
    PodFact,
    PodRequest,
    Toleration,
)
from deviceshare_binder.core import BinderCore, events
from deviceshare_binder.core.commands import BindPod, FencePod, ReadPod, RecordEvent
from deviceshare_binder.core.views import NodeView, QueueView
from deviceshare_binder.service import decoder
from deviceshare_bus.cores.core import CaughtUp, Count, Log, Now, RecordStep, Tick
from deviceshare_bus.messages.subjects import Stream, ledger
from deviceshare_cluster.interface import BindState
from support.binder import BinderDriver, messages
from support.binder_scene import READY, claim, message, of, pod, seen, started, states


def test_nothing_begins_before_the_bus_has_been_read():
    core = BinderDriver()
    core.node("n1", READY)
    core.pod("u1", pod())
    core.ledger("n1", [claim()])
    assert core.take(0.0) == []
    assert core.open_work == 1
    core.start()
    assert of(BindPod, core.take(0.0))


def test_a_pod_that_is_bound_already_is_adopted():
    core = started(claim(), pods=[pod(node="n1")])
    assert states(core.take(0.0)) == {"c1": ("bound", "")}


@pytest.mark.parametrize(
    ("answer", "node", "reason", "expected"),
    [
        (BindState.ALREADY, "n1", "", ("bound", "")),
        (BindState.ALREADY, "n2", "", ("refused", "the pod is bound to n2")),
        (BindState.GONE, "", "", ("refused", "the pod is gone")),
    ],
)
def test_the_answer_of_the_cluster_is_final(answer, node, reason, expected):
    core = started(claim(), pods=[pod()])
    core.take(0.0)
    core.bind_answered("c1", answer, node, reason, 1.0)
    assert states(core.take(1.0)) == {"c1": expected}


@pytest.mark.parametrize(
    ("pods", "nodes", "reason"),
    [
        ([pod(terminating=True)], [READY], "the pod is being deleted"),
        ([pod(ended=True)], [READY], "the pod has ended"),
        ([pod(gates=("example.com/wait",))], [READY], "the pod has scheduling gates: example.com/wait"),
        ([pod()], [NodeView(name="n1", ready=False)], "node n1 is not ready"),
        ([pod()], [NodeView(name="n1", unschedulable=True)], "node n1 is unschedulable"),
    ],
)
@pytest.mark.parametrize("found", ["", "n1", "n2", None])
def test_a_refusal_fences_the_pod_since_another_process_may_have_bound_it(pods, nodes, reason, found):
    core = started(claim(), pods=pods, nodes=nodes)
    assert [type(one) for one in core.take(0.0)] == [FencePod]
    core.read_answered("c1", found, 1.0)
    bound = {"n1": ("bound", ""), "n2": ("refused", "the pod is bound to n2"), None: ("refused", "the pod is gone")}
    assert states(core.take(1.0)) == {"c1": bound.get(found, ("refused", reason))}


def test_a_pod_that_tolerates_a_cordon_is_bound_to_a_cordoned_node():
    fact = PodFact(
        uid="u1", namespace="default", name="pod-u1", ask=PodRequest(tolerations=(Toleration("", "Exists", "", ""),))
    )
    view = seen(fact)
    core = started(claim(), pods=[view], nodes=[NodeView(name="n1", unschedulable=True)])
    assert [type(one) for one in core.take(0.0)] == [BindPod]


WITHOUT_PREDICATES = "tiers: [{plugins: [{name: predicates, enablePredicate: false}, {name: deviceshare}]}]"


def test_a_configuration_without_predicates_ignores_cordons_as_placement_does():
    core = started(claim(), pods=[pod()], nodes=[NodeView(name="n1", unschedulable=True)])
    core.handle(events.SchedulerConfigured(ConfigFact(name="scheduler", text=WITHOUT_PREDICATES)))
    assert [type(one) for one in core.take(0.0)] == [BindPod]
    core = started(claim(), pods=[pod()], nodes=[NodeView(name="n1", ready=False)])
    core.handle(events.SchedulerConfigured(ConfigFact(name="scheduler", text=WITHOUT_PREDICATES)))
    assert [type(one) for one in core.take(0.0)] == [FencePod]


def test_a_claim_waits_for_its_pod_and_asks_for_it_after_ten_seconds():
    core = started(claim())
    assert core.take(0.0) == []
    assert core.next_due() == 10.0
    assert core.take(9.9) == []
    assert of(ReadPod, core.take(10.0))
    core.read_answered("c1", "", 10.5)  # it is there, the fact is late
    assert core.take(11.0) == []
    core.pod("u1", pod())
    assert of(BindPod, core.take(12.0))


def test_a_pod_that_never_comes_is_gone():
    core = started(claim())
    core.take(0.0)
    core.take(10.0)
    core.read_answered("c1", None, 11.0)
    assert states(core.take(11.0)) == {"c1": ("refused", "the pod is gone")}


def test_a_claim_on_a_node_that_never_comes_is_refused():
    core = started(claim(), pods=[pod()], nodes=[])
    core.take(0.0)
    assert of(FencePod, core.take(10.0))
    core.read_answered("c1", "", 11.0)
    assert states(core.take(11.0)) == {"c1": ("refused", "there is no node n1")}


def test_requests_without_an_answer_are_retried_with_growing_pauses():
    core = started(claim(), pods=[pod()])
    now, pauses = 0.0, []
    for _ in range(9):
        assert of(BindPod, core.take(now))
        core.failed("c1", now, 0.0)
        assert core.take(now) == []
        pauses.append(core.next_due() - now)
        now = core.next_due()
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0])


def test_a_request_that_the_cluster_refuses_for_good_is_reported_once_and_retried_with_a_growing_pause():
    core, now = started(claim(), pods=[pod()]), 0.0
    for pause in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0):
        assert of(BindPod, core.take(now))
        core.failed("c1", now, 0.0, final=True)
        core.take(now)
        core.take(now + pause - 0.01)
        assert core.next_due() == now + pause
        now += pause
    records = [one.record for one in core.written_reports() if isinstance(one, RecordEvent)]
    assert [(one.name, one.reason, one.message, one.warning) for one in records] == [
        ("pod-u1", "FailedScheduling", "forbidden", True)
    ]
    assert core.notes.count(Count("cluster_errors")) == 8
    assert [one.message for one in core.notes if isinstance(one, Log) and one.level == "warning"] == ["forbidden"]
    assert of(BindPod, core.take(now))
    core.bind_answered("c1", BindState.BOUND, "n1", "", now)
    assert states(core.take(now)) == {"c1": ("bound", "")}


def test_pauses_follow_the_monotonic_clock_and_timestamps_the_wall_clock():
    core = BinderCore(check=False)
    grant = ContainerGrant("main", 0, "gpu-share", (DeviceGrant("2", 2, 1024, 0),))
    core.handle(events.NodeChanged("n1", READY), Now(1.0, 1_700_000_000.0))
    core.handle(events.PodChanged("u1", pod(revision="1")), Now(1.0, 1_700_000_000.0))
    for stream in (Stream.CLUSTER, Stream.LEDGER, Stream.OUTCOME):
        core.handle(CaughtUp(stream), Now(1.0, 1_700_000_000.0))
    for queue in ("root", "default"):
        core.handle(events.QueueChanged(queue, QueueView(name=queue, state="Open")), Now(1.0, 1_700_000_000.0))
    core.handle(events.LedgerChanged("n1", (claim(grants=(grant,)),)), Now(1.0, 1_700_000_000.0))
    (bind,) = of(BindPod, core.handle(Tick(), Now(1.0, 1_700_000_000.0)))
    assert int(bind.annotations["volcano.sh/predicate-time"]) == 1_700_000_000 * 10**9
    core.handle(events.ClusterFailed(bind, "no answer"), Now(2.0, 0.0))  # the wall clock was set back
    assert not of(BindPod, core.handle(Tick(), Now(2.05, 1_800_000_000.0)))
    assert of(BindPod, core.handle(Tick(), Now(2.1, 0.0)))
    core.handle(events.BindAnswered("c1", BindState.BOUND, "n1"), Now(3.0, 50.0))
    out = core.handle(Tick(), Now(3.0, 51.0))
    (message,), (step,) = messages(out), of(RecordStep, out)
    assert (message.outcomes[0].at, step.at) == (50.0, 51.0)


def test_a_withdrawn_claim_is_fenced_after_the_binding_in_flight():
    core = started(claim(), pods=[pod()])
    core.take(0.0)
    core.ledger("n1", [claim(withdraw=True)])
    assert core.take(0.1) == []
    core.failed("c1", 0.2, 0.0)
    assert of(FencePod, core.take(0.4))
    core.read_answered("c1", "n1", 0.5)
    assert states(core.take(0.5)) == {"c1": ("bound", "")}


def test_a_claim_that_waits_is_withdrawn():
    core = started(claim())
    core.take(0.0)
    core.ledger("n1", [claim(withdraw=True)])
    assert of(FencePod, core.take(0.1))
    core.read_answered("c1", "", 0.2)
    assert states(core.take(0.2)) == {"c1": ("withdrawn", "")}


def test_a_claim_that_returns_to_the_ledger_is_bound():
    core = started(claim(), pods=[pod()])
    core.take(0.0)
    core.ledger("n1", [])
    core.bind_answered("c1", BindState.CHANGED, "", "", 0.0, revision="2")
    core.ledger("n1", [claim()])
    assert of(BindPod, core.take(1.0))


def test_limit_and_turns():
    core = BinderDriver(limit=20)
    for name in ("n1", "n2"):
        core.node(name, NodeView(name=name))
        core.ledger(name, [claim(f"{name}-{n}", f"{name}-{n}") for n in range(30)])
        for n in range(30):
            core.pod(f"{name}-{n}", pod(f"{name}-{n}"))
    core.start()
    begun = core.take(0.0)
    assert [one.claim for one in begun] == [f"n1-{n}" for n in range(16)] + [f"n2-{n}" for n in range(4)]
    core.bind_answered("n1-0", BindState.BOUND, "n1", "", 0.0)
    assert [one.claim for one in of(BindPod, core.take(0.0))] == ["n1-16"]


def test_views_are_read_from_the_messages_that_the_others_write():
    ask = PodRequest(containers=(ContainerRequest("main", (("cpu", 1),)), ContainerRequest("side", ())))
    fact = PodFact(uid="u1", namespace="a", name="b", node="n1", gates=("g",), ask=ask)
    view = seen(fact)
    assert (view.uid, view.node, view.gates, view.containers) == ("u1", "n1", ("g",), ("main", "side"))
    assert seen(Gone(revision="4")) is None
    decode = decoder()
    one, two = claim("c1", decided_at=5.0), claim("c2", "u2")
    first = decode(message(ledger("n1"), NodeLedger(node="n1", claims=(one,))))
    assert (first.node, first.claims) == ("n1", (one,))
    changed = msgspec.structs.replace(one, withdraw=True)
    second = decode(message(ledger("n1"), NodeLedger(node="n1", claims=(changed, two))))
    assert second.claims == (changed, two)
    third = decode(message(ledger("n1"), NodeLedger(node="n1", claims=(changed, two, claim("c3")))))
    assert third.claims[0] is second.claims[0], "claims that do not change are decoded once"
