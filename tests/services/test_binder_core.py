"""Outcomes of claims: bindings, refusals, waiting, and the writes of their outcomes."""

import msgspec
import pytest
from deviceshare.families import GpuNumber, register
from deviceshare.families.device_plugin import DevicePlugin
from deviceshare.model import (
    Claim,
    ContainerGrant,
    ContainerRequest,
    DeviceGrant,
    Gone,
    NodeLedger,
    Outcome,
    PodFact,
    PodRequest,
    Toleration,
)
from deviceshare_binder.core import BinderCore
from deviceshare_binder.core.commands import BindPod, FencePod, ReadPod, RecordEvent
from deviceshare_binder.core.events import (
    BindAnswered,
    ClusterFailed,
    LedgerChanged,
    NodeChanged,
    PodChanged,
    QueueChanged,
)
from deviceshare_binder.core.views import NodeView, PodView, QueueView
from deviceshare_binder.service import decoder
from deviceshare_bus.core import CaughtUp, Count, Log, Now, RecordStep, Tick, Write
from deviceshare_bus.follower import Message
from deviceshare_bus.messages import encode
from deviceshare_bus.subjects import Stream, ledger
from deviceshare_cluster.interface import BindState
from support.binder import BinderDriver, expected, messages
from support.families import restored_families

READY = NodeView(name="n1")


def message(subject, content):
    return Message(subject, 1, encode(content))


def seen(fact):
    """Return what the binder's core gets to know of a pod's fact."""
    return decoder()(message("cluster.pod.u1", fact)).pod


def pod(uid="u1", **fields):
    return PodView(uid=uid, namespace="default", name=f"pod-{uid}", **fields)


def claim(identity="c1", uid="u1", **fields):
    return Claim(id=identity, uid=uid, namespace="default", name=f"pod-{uid}", **fields)


def started(*claims, pods=(), nodes=(READY,), outcomes=()):
    core = BinderDriver()
    for one in nodes:
        core.node(one.name, one)
    for one in pods:
        core.pod(one.uid, one)
    if outcomes:
        core.outcomes("n1", 1, {one.claim: one for one in outcomes})
    core.start()
    core.ledger("n1", claims)
    return core


def of(kind, commands):
    return [one for one in commands if isinstance(one, kind)]


def states(commands):
    return {one.claim: (one.state, one.reason) for message in messages(commands) for one in message.outcomes}


def test_a_claim_is_bound_with_the_annotations_of_its_families():
    grant = ContainerGrant("main", 0, "gpu-share", (DeviceGrant("2", 2, 1024, 0),))
    core = started(claim(grants=(grant,)), pods=[PodView(uid="u1", namespace="default", name="pod-u1")])
    (bind,) = core.take(1_700_000_000.0)
    assert (bind.namespace, bind.name, bind.uid, bind.node) == ("default", "pod-u1", "u1", "n1")
    assert bind.annotations["volcano.sh/gpu-index"] == "2"
    core.bind_answered("c1", BindState.BOUND, "n1", "", 2.0)
    done = core.take(2.0)
    assert states(done) == {"c1": ("bound", "")}
    assert [(one.name, one.node) for one in of(RecordStep, done)] == [("bound", "n1")]
    core.outcomes_written("n1", 7)
    assert core.take(3.0) == []
    assert core.open_work == 0


def test_the_annotations_have_room_for_the_pods_init_containers():
    grant = ContainerGrant("main", 0, "hami-vnpu", (DeviceGrant("D0", 0, 3072, 0, "Ascend310P/vir01"),))
    ask = PodRequest(containers=(ContainerRequest("main", ()),), init_containers=(ContainerRequest("fetch", ()),))
    fact = PodFact(uid="u1", namespace="default", name="pod-u1", ask=ask)
    core = started(claim(grants=(grant,)), pods=[seen(fact)])
    (lock,) = core.take(1_700_000_000.0)
    core.lock_answered("c1", lock.value, 1_700_000_000.0)
    (bind,) = core.take(1_700_000_000.0)
    assert bind.annotations["hami.io/Ascend310P-devices-allocated"] == ";D0,Ascend310P,3072,0:;"


def test_pods_bound_together_are_not_equally_old():
    grants = [(ContainerGrant("main", 0, "gpu-share", (DeviceGrant("2", 2, 1024 + n, 0),)),) for n in range(3)]
    claims = [claim(f"c{n}", f"u{n}", grants=each) for n, each in enumerate(grants)]
    core = started(*claims, pods=[pod(f"u{n}") for n in range(3)])
    times = [int(bind.annotations["volcano.sh/predicate-time"]) for bind in core.take(1_700_000_000.0)]
    assert times == sorted(set(times)), "the plugin serves the smallest time first"


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
    core.handle(NodeChanged("n1", READY), Now(1.0, 1_700_000_000.0))
    core.handle(PodChanged("u1", pod(revision="1")), Now(1.0, 1_700_000_000.0))
    for stream in (Stream.CLUSTER, Stream.LEDGER, Stream.OUTCOME):
        core.handle(CaughtUp(stream), Now(1.0, 1_700_000_000.0))
    for queue in ("root", "default"):
        core.handle(QueueChanged(queue, QueueView(name=queue, state="Open")), Now(1.0, 1_700_000_000.0))
    core.handle(LedgerChanged("n1", (claim(grants=(grant,)),)), Now(1.0, 1_700_000_000.0))
    (bind,) = of(BindPod, core.handle(Tick(), Now(1.0, 1_700_000_000.0)))
    assert int(bind.annotations["volcano.sh/predicate-time"]) == 1_700_000_000 * 10**9
    core.handle(ClusterFailed(bind, "no answer"), Now(2.0, 0.0))  # the wall clock was set back
    assert not of(BindPod, core.handle(Tick(), Now(2.05, 1_800_000_000.0)))
    assert of(BindPod, core.handle(Tick(), Now(2.1, 0.0)))
    core.handle(BindAnswered("c1", BindState.BOUND, "n1"), Now(3.0, 50.0))
    out = core.handle(Tick(), Now(3.0, 51.0))
    (message,), (step,) = messages(out), of(RecordStep, out)
    assert (message.outcomes[0].at, step.at) == (50.0, 51.0)


def test_outcomes_that_the_bus_refuses_are_reported_and_not_sent_again():
    core = started(claim(), pods=[pod(node="n1")])
    assert states(core.take(0.0)) == {"c1": ("bound", "")}
    core.outcomes_refused("n1", "too large")
    assert Count("outcomes_refused") in core.notes
    assert [one.level for one in core.notes if isinstance(one, Log) and one.message != "pod bound"] == ["error"]
    assert of(Write, core.take(1.0)) == []
    assert core.open_work == 0


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


def test_a_grant_of_an_unknown_family_is_refused():
    core = started(claim(grants=(ContainerGrant("main", 0, "abacus", ()),)), pods=[pod()])
    assert of(FencePod, core.take(0.0))
    core.read_answered("c1", "", 0.1)
    assert states(core.take(0.2)) == {"c1": ("refused", "there is no device family 'abacus'")}


class AnnotationsFail(GpuNumber):
    """A family whose devices cannot be written."""

    name = "abacus"

    def annotations(self, claim, node, containers, now, init_containers=()):
        raise KeyError("beads")


class PluginFails(DevicePlugin):
    def same(self, written, found):
        raise KeyError("same")


class SameFails(GpuNumber):
    """A family whose devices cannot be compared."""

    name = "abacus"
    plugin = PluginFails()


def test_a_bug_in_a_family_refuses_its_claim_alone_and_is_named():
    with restored_families():
        register(AnnotationsFail())
        grants = (ContainerGrant("main", 0, "abacus", ()),)
        core = started(claim(grants=grants), claim("c2", "u2"), pods=[pod(), pod("u2")])
        out = core.take(0.0)
        assert [one.claim for one in of(BindPod, out)] == ["c2"]
        assert [one.claim for one in of(FencePod, out)] == ["c1"]
        core.read_answered("c1", "", 0.1)
        reason = "bug in the device family 'abacus': annotations raised KeyError: 'beads'"
        assert states(core.take(0.2)) == {"c1": ("refused", reason)}


def test_a_bug_in_a_family_does_not_refuse_a_bound_pod():
    with restored_families():
        register(SameFails())
        core = started(claim(grants=(ContainerGrant("main", 0, "abacus", ()),)), pods=[pod()])
        assert of(BindPod, core.take(0.0))
        core.bind_answered("c1", BindState.ALREADY, "n1", "", 1.0, {"volcano.sh/vgpu-ids-new": "x"})
        (outcome,) = states(core.take(1.0)).values()
        assert outcome == (
            "bound",
            "bug in the device family 'abacus': annotations or plugin.same raised KeyError: 'same'",
        )


def test_outcomes_are_folded_while_a_write_is_in_flight():
    claims = [claim(f"c{n}", f"u{n}") for n in range(4)]
    core = started(*claims, pods=[pod(f"u{n}") for n in range(4)])
    assert len(of(BindPod, core.take(0.0))) == 4
    core.bind_answered("c0", BindState.BOUND, "n1", "", 1.0)
    (first,) = of(Write, core.take(1.0))
    for n in (1, 2, 3):
        core.bind_answered(f"c{n}", BindState.BOUND, "n1", "", 1.0)
        assert not of(Write, core.take(1.0))
    core.ledger("n1", claims[1:])  # the first claim has left the ledger meanwhile
    core.outcomes_written("n1", 5)
    (second,) = of(Write, core.take(2.0))
    assert expected(first) == 0
    assert expected(second) == 5
    assert [one.claim for one in messages([second])[0].outcomes] == ["c1", "c2", "c3"]


def test_a_conflict_is_read_back_and_merged():
    core = started(claim(), claim("c2", "u2"), pods=[pod(), pod("u2")])
    core.take(0.0)
    core.bind_answered("c1", BindState.BOUND, "n1", "", 1.0)
    (write,) = of(Write, core.take(1.0))
    core.outcomes_unclear("n1")
    assert core.take(1.0) == []
    theirs = messages([write])[0].outcomes[0]
    core.outcomes_read("n1", 9, {"c2": msgspec.structs.replace(theirs, claim="c2", uid="u2", state="refused")})
    (again,) = of(Write, core.take(1.0))
    assert expected(again) == 9
    assert {(one.claim, one.state) for one in messages([again])[0].outcomes} == {("c1", "bound"), ("c2", "refused")}


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


def outcome(identity="c1", uid="u1", state="bound"):
    return Outcome(identity, uid, state, "", 1.0)


@pytest.mark.parametrize("state", ["bound", "refused", "withdrawn"])
def test_an_outcome_of_another_pod_does_not_answer_for_a_claim_of_the_same_id(state):
    core = started(claim(), pods=[pod()], outcomes=[outcome(uid="another", state=state)])
    (bind,) = of(BindPod, core.take(0.0))
    assert bind.uid == "u1"
    core.bind_answered("c1", BindState.BOUND, "n1", "", 1.0)
    (write,) = messages(of(Write, core.take(1.0)))
    assert [(one.claim, one.uid, one.state) for one in write.outcomes] == [("c1", "u1", "bound")]


def test_outcomes_of_other_pods_are_not_written_again():
    core = started(
        claim(), claim("c2", "u2"), pods=[pod(), pod("u2")], outcomes=[outcome("c2", "another"), outcome("c1", "u1")]
    )
    (bind,) = of(BindPod, core.take(0.0))
    assert bind.uid == "u2"
    core.bind_answered("c2", BindState.BOUND, "n1", "", 1.0)
    (write,) = messages(of(Write, core.take(1.0)))
    assert {(one.claim, one.uid) for one in write.outcomes} == {("c1", "u1"), ("c2", "u2")}


def test_a_claim_under_the_id_of_another_nodes_claim_does_not_replace_it():
    core = started(claim(), pods=[pod(), pod("u2")], nodes=[READY, NodeView(name="n2")])
    core.ledger("n2", [claim(uid="u2")])
    (bind,) = of(BindPod, core.take(0.0))
    assert (bind.uid, bind.node) == ("u1", "n1")


def test_a_claim_under_the_id_of_an_earlier_claim_is_bound_for_its_own_pod():
    core = started(claim(), pods=[pod(), pod("u2")])
    assert len(of(BindPod, core.take(0.0))) == 1
    core.ledger("n1", [claim(uid="u2")])
    core.bind_answered("c1", BindState.BOUND, "n1", "", 1.0)
    core.ledger("n1", [claim(uid="u2")])
    (bind,) = of(BindPod, core.take(1.0))
    assert bind.uid == "u2"
