"""What becomes of claims, whatever the order of facts, answers and crashes."""

import hypothesis.strategies as st
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
    PodFact,
    PodRequest,
    Toleration,
)
from deviceshare_binder.bind_task import Bind, Finished, Read, WriteOutcomes
from deviceshare_binder.core import Core
from deviceshare_binder.views import GoneView, Ledgers, NodeView, PodView, decode_pod
from deviceshare_bus.messages import encode
from deviceshare_cluster.interface import BindState
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, rule
from support.families import restored_families

READY = NodeView(name="n1")


def pod(uid="u1", **fields):
    return PodView(uid=uid, namespace="default", name=f"pod-{uid}", **fields)


def claim(identity="c1", uid="u1", **fields):
    return Claim(id=identity, uid=uid, namespace="default", name=f"pod-{uid}", **fields)


def started(*claims, pods=(), nodes=(READY,), outcomes=()):
    core = Core()
    for one in nodes:
        core.node(one.name, one)
    for one in pods:
        core.pod(one.uid, one)
    if outcomes:
        core.outcomes("n1", 1, {one.claim: one for one in outcomes})
    core.start()
    core.ledger("n1", {one.id: one for one in claims})
    return core


def of(kind, instructions):
    return [one for one in instructions if isinstance(one, kind)]


def states(instructions):
    return {one.claim: (one.state, one.reason) for write in of(WriteOutcomes, instructions) for one in write.outcomes}


def test_a_claim_is_bound_with_the_annotations_of_its_families():
    grant = ContainerGrant("main", 0, "gpu-share", (DeviceGrant("2", 2, 1024, 0),))
    core = started(claim(grants=(grant,)), pods=[PodView(uid="u1", namespace="default", name="pod-u1")])
    (bind,) = core.take(1_700_000_000.0)
    assert (bind.namespace, bind.name, bind.uid, bind.node) == ("default", "pod-u1", "u1", "n1")
    assert bind.annotations["volcano.sh/gpu-index"] == "2"
    core.bind_answered("c1", BindState.BOUND, "n1", "", 2.0)
    done = core.take(2.0)
    assert states(done) == {"c1": ("bound", "")}
    assert [(one.state, one.node) for one in of(Finished, done)] == [("bound", "n1")]
    core.outcomes_written("n1", 7)
    assert core.take(3.0) == []
    assert core.open_work == 0


def test_the_annotations_have_room_for_the_pods_init_containers():
    grant = ContainerGrant("main", 0, "hami-vnpu", (DeviceGrant("D0", 0, 3072, 0, "Ascend310P/vir01"),))
    ask = PodRequest(containers=(ContainerRequest("main", ()),), init_containers=(ContainerRequest("fetch", ()),))
    fact = PodFact(uid="u1", namespace="default", name="pod-u1", ask=ask)
    core = started(claim(grants=(grant,)), pods=[decode_pod(encode(fact))])
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
    core = Core()
    core.node("n1", READY)
    core.pod("u1", pod())
    core.ledger("n1", {"c1": claim()})
    assert core.take(0.0) == []
    assert core.open_work == 1
    core.start()
    assert of(Bind, core.take(0.0))


def test_a_pod_that_is_bound_already_is_adopted():
    core = started(claim(), pods=[pod(node="n1")])
    assert states(core.take(0.0)) == {"c1": ("bound", "")}


@pytest.mark.parametrize(
    ("answer", "node", "reason", "expected"),
    [
        (BindState.ALREADY, "n1", "", ("bound", "")),
        (BindState.ALREADY, "n2", "", ("refused", "the pod is bound to n2")),
        (BindState.GONE, "", "", ("refused", "the pod is gone")),
        (BindState.REFUSED, "", "admission webhook says no", ("refused", "admission webhook says no")),
    ],
)
def test_the_word_of_the_cluster_is_final(answer, node, reason, expected):
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
def test_a_refusal_reads_the_pod_back_since_a_predecessor_may_have_bound_it(pods, nodes, reason, found):
    core = started(claim(), pods=pods, nodes=nodes)
    assert [type(one) for one in core.take(0.0)] == [Read]
    core.read_answered("c1", found, 1.0)
    bound = {"n1": ("bound", ""), "n2": ("refused", "the pod is bound to n2"), None: ("refused", "the pod is gone")}
    assert states(core.take(1.0)) == {"c1": bound.get(found, ("refused", reason))}


def test_a_pod_that_tolerates_a_cordon_is_bound_to_a_cordoned_node():
    fact = PodFact(
        uid="u1", namespace="default", name="pod-u1", ask=PodRequest(tolerations=(Toleration("", "Exists", "", ""),))
    )
    seen = decode_pod(encode(fact))
    core = started(claim(), pods=[seen], nodes=[NodeView(name="n1", unschedulable=True)])
    assert [type(one) for one in core.take(0.0)] == [Bind]


def test_a_claim_waits_for_its_pod_and_asks_for_it_after_ten_seconds():
    core = started(claim())
    assert core.take(0.0) == []
    assert core.next_due() == 10.0
    assert core.take(9.9) == []
    assert of(Read, core.take(10.0))
    core.read_answered("c1", "", 10.5)  # it is there, the fact is late
    assert core.take(11.0) == []
    core.pod("u1", pod())
    assert of(Bind, core.take(12.0))


def test_a_pod_that_never_comes_is_gone():
    core = started(claim())
    core.take(0.0)
    core.take(10.0)
    core.read_answered("c1", None, 11.0)
    assert states(core.take(11.0)) == {"c1": ("refused", "the pod is gone")}


def test_a_claim_on_a_node_that_never_comes_is_refused():
    core = started(claim(), pods=[pod()], nodes=[])
    core.take(0.0)
    assert of(Read, core.take(10.0))
    core.read_answered("c1", "", 11.0)
    assert states(core.take(11.0)) == {"c1": ("refused", "there is no node n1")}


def test_a_cluster_that_does_not_answer_is_asked_again_later_and_later():
    core = started(claim(), pods=[pod()])
    now, pauses = 0.0, []
    for _ in range(9):
        assert of(Bind, core.take(now))
        core.failed("c1", now, 0.0)
        assert core.take(now) == []
        pauses.append(core.next_due() - now)
        now = core.next_due()
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0])


def test_a_withdrawn_claim_is_read_back_after_the_binding_in_flight():
    core = started(claim(), pods=[pod()])
    core.take(0.0)
    core.ledger("n1", {"c1": claim(withdraw=True)})
    assert core.take(0.1) == []
    core.failed("c1", 0.2, 0.0)
    assert of(Read, core.take(0.4))
    core.read_answered("c1", "n1", 0.5)
    assert states(core.take(0.5)) == {"c1": ("bound", "")}


def test_a_claim_that_waits_is_withdrawn():
    core = started(claim())
    core.take(0.0)
    core.ledger("n1", {"c1": claim(withdraw=True)})
    assert of(Read, core.take(0.1))
    core.read_answered("c1", "", 0.2)
    assert states(core.take(0.2)) == {"c1": ("withdrawn", "")}


def test_a_grant_of_an_unknown_family_is_refused():
    core = started(claim(grants=(ContainerGrant("main", 0, "abacus", ()),)), pods=[pod()])
    assert of(Read, core.take(0.0))
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
        assert [one.claim for one in of(Bind, out)] == ["c2"]
        assert [one.claim for one in of(Read, out)] == ["c1"]
        core.read_answered("c1", "", 0.1)
        reason = "bug in the device family 'abacus': annotations raised KeyError: 'beads'"
        assert states(core.take(0.2)) == {"c1": ("refused", reason)}


def test_a_bug_in_a_family_does_not_refuse_a_bound_pod():
    with restored_families():
        register(SameFails())
        core = started(claim(grants=(ContainerGrant("main", 0, "abacus", ()),)), pods=[pod()])
        assert of(Bind, core.take(0.0))
        core.bind_answered("c1", BindState.ALREADY, "n1", "", 1.0, {"volcano.sh/vgpu-ids-new": "x"})
        (outcome,) = states(core.take(1.0)).values()
        assert outcome == (
            "bound",
            "bug in the device family 'abacus': annotations or plugin.same raised KeyError: 'same'",
        )


def test_outcomes_are_folded_while_a_write_is_in_flight():
    claims = [claim(f"c{n}", f"u{n}") for n in range(4)]
    core = started(*claims, pods=[pod(f"u{n}") for n in range(4)])
    assert len(of(Bind, core.take(0.0))) == 4
    core.bind_answered("c0", BindState.BOUND, "n1", "", 1.0)
    (first,) = of(WriteOutcomes, core.take(1.0))
    for n in (1, 2, 3):
        core.bind_answered(f"c{n}", BindState.BOUND, "n1", "", 1.0)
        assert not of(WriteOutcomes, core.take(1.0))
    core.ledger("n1", {one.id: one for one in claims[1:]})  # the first claim has left the ledger meanwhile
    core.outcomes_written("n1", 5)
    (second,) = core.take(2.0)
    assert first.sequence == 0
    assert second.sequence == 5
    assert [one.claim for one in second.outcomes] == ["c1", "c2", "c3"]


def test_a_conflict_is_read_back_and_merged():
    core = started(claim(), claim("c2", "u2"), pods=[pod(), pod("u2")])
    core.take(0.0)
    core.bind_answered("c1", BindState.BOUND, "n1", "", 1.0)
    (write,) = of(WriteOutcomes, core.take(1.0))
    core.outcomes_unclear("n1")
    assert core.take(1.0) == []
    theirs = write.outcomes[0]
    core.outcomes_read("n1", 9, {"c2": msgspec.structs.replace(theirs, claim="c2", uid="u2", state="refused")})
    (again,) = of(WriteOutcomes, core.take(1.0))
    assert again.sequence == 9
    assert {(one.claim, one.state) for one in again.outcomes} == {("c1", "bound"), ("c2", "refused")}


def test_limit_and_turns():
    core = Core(limit=20)
    for name in ("n1", "n2"):
        core.node(name, NodeView(name=name))
        core.ledger(name, {f"{name}-{n}": claim(f"{name}-{n}", f"{name}-{n}") for n in range(30)})
        for n in range(30):
            core.pod(f"{name}-{n}", pod(f"{name}-{n}"))
    core.start()
    begun = core.take(0.0)
    assert [one.claim for one in begun] == [f"n1-{n}" for n in range(16)] + [f"n2-{n}" for n in range(4)]
    core.bind_answered("n1-0", BindState.BOUND, "n1", "", 0.0)
    assert [one.claim for one in of(Bind, core.take(0.0))] == ["n1-16"]


def test_views_are_read_from_the_messages_that_the_others_write():
    ask = PodRequest(containers=(ContainerRequest("main", (("cpu", 1),)), ContainerRequest("side", ())))
    fact = PodFact(uid="u1", namespace="a", name="b", node="n1", gates=("g",), ask=ask)
    view = decode_pod(encode(fact))
    assert (view.uid, view.node, view.gates, view.containers) == ("u1", "n1", ("g",), ("main", "side"))
    assert isinstance(decode_pod(encode(Gone(revision="4"))), GoneView)
    ledgers = Ledgers()
    one, two = claim("c1", decided_at=5.0), claim("c2", "u2")
    assert ledgers.decode(encode(NodeLedger(node="n1", claims=(one,)))) == ("n1", {"c1": one})
    changed = msgspec.structs.replace(one, withdraw=True)
    assert ledgers.decode(encode(NodeLedger(node="n1", claims=(changed, two)))) == ("n1", {"c1": changed, "c2": two})


class AnyOrder(RuleBasedStateMachine):
    """A cluster, a bus and a placement around the core; messages come late, answers get lost, the core crashes.

    Placement is careless: it claims pods that are claimed already.
    """

    NODES, PODS = ("n1", "n2"), ("u1", "u2", "u3")

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.count = 0
        self.cluster = {uid: pod(uid) for uid in self.PODS}
        self.node_views = {name: NodeView(name=name) for name in self.NODES}
        self.ledger = {name: {} for name in self.NODES}
        self.on_bus = {name: (0, {}) for name in self.NODES}
        self.history = {}
        self.bound_by = {}
        self.crash()

    def crash(self):
        """Begin anew with what stands on the bus."""
        self.core = Core(limit=3)
        self.flying, self.writing, self.reading = [], [], []
        for name in self.NODES:
            self.core.ledger(name, dict(self.ledger[name]))
            self.core.outcomes(name, *self.on_bus[name])
            self.core.node(name, self.node_views[name])
        for uid, view in self.cluster.items():
            self.core.pod(uid, view)
        self.core.start()

    # -- the world ----------------------------------------------------------------------------------------------------

    @rule(uid=st.sampled_from(PODS), node=st.sampled_from(NODES))
    def placement_claims(self, uid, node):
        self.count += 1
        one = claim(f"c{self.count}", uid)
        self.ledger[node][one.id] = one

    @rule(data=st.data(), node=st.sampled_from(NODES))
    def placement_wants_a_claim_back(self, data, node):
        if self.ledger[node]:
            one = data.draw(st.sampled_from(sorted(self.ledger[node])))
            self.ledger[node][one] = msgspec.structs.replace(self.ledger[node][one], withdraw=True)

    @rule(node=st.sampled_from(NODES))
    def placement_cleans_up(self, node):
        outcomes = self.on_bus[node][1]
        for one in list(self.ledger[node].values()):
            over = one.id in outcomes and outcomes[one.id].state != "bound"
            if over or one.uid not in self.cluster:
                del self.ledger[node][one.id]

    @rule(uid=st.sampled_from(PODS), how=st.sampled_from(["gone", "terminating", "ended"]))
    def a_pod_changes(self, uid, how):
        if uid in self.cluster:
            if how == "gone":
                del self.cluster[uid]
            else:
                self.cluster[uid] = msgspec.structs.replace(self.cluster[uid], **{how: True})

    @rule(name=st.sampled_from(NODES), ready=st.booleans())
    def a_node_changes(self, name, ready):
        self.node_views[name] = NodeView(name=name, ready=ready)

    # -- what the binder hears ----------------------------------------------------------------------------------------

    @rule(uid=st.sampled_from(PODS))
    def a_pod_fact_comes(self, uid):
        self.core.pod(uid, self.cluster.get(uid))

    @rule(name=st.sampled_from(NODES))
    def a_node_fact_comes(self, name):
        self.core.node(name, self.node_views[name])

    @rule(name=st.sampled_from(NODES))
    def a_ledger_comes(self, name):
        self.core.ledger(name, dict(self.ledger[name]))

    @rule(name=st.sampled_from(NODES))
    def an_outcome_comes(self, name):
        self.core.outcomes(name, *self.on_bus[name])

    @rule(seconds=st.sampled_from([0.1, 1.0, 10.0]))
    def time_goes_by(self, seconds):
        self.now += seconds

    @rule()
    def the_core_is_asked(self):
        for one in self.core.take(self.now):
            if isinstance(one, Bind | Read):
                assert one.uid not in {other.uid for other in self.flying}, "two in flight for one pod"
                self.flying.append(one)
            elif isinstance(one, WriteOutcomes):
                assert one.node not in {other.node for other in self.writing}, "two writes for one node"
                assert one.node not in self.reading
                self.writing.append(one)

    @rule(data=st.data(), done=st.booleans(), answered=st.booleans())
    def the_cluster_acts(self, data, done, answered):
        if self.flying:
            one = self.flying.pop(data.draw(st.integers(0, len(self.flying) - 1)))
            answer = self.act(one) if done else None
            self.answer(one, answer if answered else None)

    def act(self, one):
        view = self.cluster.get(one.uid)
        if isinstance(one, Read):
            return (view.node,) if view else (None,)
        if view is None or view.ended:
            return (BindState.GONE if view is None else BindState.REFUSED, "", "it has ended" if view else "")
        if view.node:
            return (BindState.ALREADY, view.node, "")
        self.cluster[one.uid] = msgspec.structs.replace(view, node=one.node)
        self.bound_by[one.uid] = one.claim
        return (BindState.BOUND, one.node, "")

    def answer(self, one, answer):
        if answer is None:
            self.core.failed(one.claim, self.now, 0.0)
        elif isinstance(one, Read):
            self.core.read_answered(one.claim, *answer, self.now)
        else:
            self.core.bind_answered(one.claim, *answer, self.now)

    @rule(data=st.data(), done=st.booleans(), answered=st.booleans())
    def the_bus_acts(self, data, done, answered):
        if self.writing:
            write = self.writing.pop(data.draw(st.integers(0, len(self.writing) - 1)))
            sequence = self.store(write) if done else None
            if sequence is None or not answered:
                self.core.outcomes_unclear(write.node)
                self.reading.append(write.node)
            else:
                self.core.outcomes_written(write.node, sequence)

    def store(self, write):
        if write.sequence != self.on_bus[write.node][0]:
            return None
        self.on_bus[write.node] = (write.sequence + 1, {one.claim: one for one in write.outcomes})
        for one in write.outcomes:
            assert self.history.setdefault(one.claim, one.state) == one.state, "an outcome changed its mind"
            view = self.cluster.get(one.uid)
            if one.state == "bound":
                assert view is None or view.node == write.node, f"{one}, but the pod is on {view.node!r}"
            elif view is not None:  # of a pod that is gone there is nothing left to tell
                assert self.bound_by.get(one.uid) != one.claim, f"{one}, but this claim bound the pod"
        return write.sequence + 1

    @rule()
    def outcomes_are_read_back(self):
        if self.reading:
            name = self.reading.pop()
            self.core.outcomes_read(name, *self.on_bus[name])

    @rule(data=st.data())
    def the_binder_is_killed(self, data):
        for one in self.flying:
            if data.draw(st.booleans()):
                self.act(one)
        for write in self.writing:
            if data.draw(st.booleans()):
                self.store(write)
        self.crash()

    def teardown(self):
        for _ in range(200):
            for uid in self.PODS:
                self.a_pod_fact_comes(uid)
            for name in self.NODES:
                self.a_node_fact_comes(name)
                self.a_ledger_comes(name)
            self.the_core_is_asked()
            while self.flying:
                one = self.flying.pop()
                self.answer(one, self.act(one))
            while self.writing:
                write = self.writing.pop()
                sequence = self.store(write)
                if sequence is None:
                    self.core.outcomes_unclear(write.node)
                    self.reading.append(write.node)
                else:
                    self.core.outcomes_written(write.node, sequence)
            while self.reading:
                self.outcomes_are_read_back()
            self.now += 1.0
        assert self.core.open_work == 0
        assert self.core.in_flight == 0
        for name in self.NODES:
            assert self.ledger[name].keys() <= self.on_bus[name][1].keys()
        for uid, view in self.cluster.items():
            bound = [
                name
                for name in self.NODES
                for one in self.on_bus[name][1].values()
                if one.uid == uid and one.state == "bound"
            ]
            assert set(bound) <= {view.node}


AnyOrder.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase
