"""Outcomes of claims, whatever the order of facts, answers and crashes."""

import hypothesis.strategies as st
import msgspec
from deviceshare.model import Claim
from deviceshare_binder.core.commands import BindPod, ReadPod
from deviceshare_binder.core.views import NodeView, PodView
from deviceshare_bus.core import Write
from deviceshare_cluster.interface import BindState
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, rule
from support.binder import BinderDriver, expected, messages


def pod(uid="u1", **fields):
    return PodView(uid=uid, namespace="default", name=f"pod-{uid}", **fields)


def claim(identity="c1", uid="u1", **fields):
    return Claim(id=identity, uid=uid, namespace="default", name=f"pod-{uid}", **fields)


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
        self.core = BinderDriver(self.now, limit=3)
        self.in_flight, self.writing, self.reading = [], [], []
        for name in self.NODES:
            self.core.ledger(name, self.ledger[name].values())
            self.core.outcomes(name, *self.on_bus[name])
            self.core.node(name, self.node_views[name])
        for uid, view in self.cluster.items():
            self.core.pod(uid, view)
        self.core.start()

    # -- the scene ----------------------------------------------------------------------------------------------------

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
        self.core.ledger(name, self.ledger[name].values())

    @rule(name=st.sampled_from(NODES))
    def an_outcome_comes(self, name):
        self.core.outcomes(name, *self.on_bus[name])

    @rule(seconds=st.sampled_from([0.1, 1.0, 10.0]))
    def time_goes_by(self, seconds):
        self.now += seconds

    @rule()
    def the_core_is_asked(self):
        for one in self.core.take(self.now):
            if isinstance(one, BindPod | ReadPod):
                assert one.uid not in {other.uid for other in self.in_flight}, "two in flight for one pod"
                self.in_flight.append(one)
            elif isinstance(one, Write):
                (message,) = messages([one])
                assert message.node not in {other.node for other, _ in self.writing}, "two writes for one node"
                assert message.node not in self.reading
                self.writing.append((message, expected(one)))

    @rule(data=st.data(), done=st.booleans(), answered=st.booleans())
    def the_cluster_acts(self, data, done, answered):
        if self.in_flight:
            one = self.in_flight.pop(data.draw(st.integers(0, len(self.in_flight) - 1)))
            answer = self.act(one) if done else None
            self.answer(one, answer if answered else None)

    def act(self, one):
        view = self.cluster.get(one.uid)
        if isinstance(one, ReadPod):
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
        elif isinstance(one, ReadPod):
            self.core.read_answered(one.claim, *answer, self.now)
        else:
            self.core.bind_answered(one.claim, *answer, self.now)

    @rule(data=st.data(), done=st.booleans(), answered=st.booleans())
    def the_bus_acts(self, data, done, answered):
        if self.writing:
            write = self.writing.pop(data.draw(st.integers(0, len(self.writing) - 1)))
            self.bus_answers(write, answered=done and answered, sequence=self.store(*write) if done else None)

    def bus_answers(self, write, *, answered, sequence):
        name = write[0].node
        if answered and sequence is not None:
            self.core.outcomes_written(name, sequence)
        elif self.core.outcomes_unclear(name, conflict=answered):
            self.reading.append(name)

    def store(self, write, sequence):
        if sequence != self.on_bus[write.node][0]:
            return None
        self.on_bus[write.node] = (sequence + 1, {one.claim: one for one in write.outcomes})
        for one in write.outcomes:
            assert self.history.setdefault(one.claim, one.state) == one.state, "an outcome changed its mind"
            view = self.cluster.get(one.uid)
            if one.state == "bound":
                assert view is None or view.node == write.node, f"{one}, but the pod is on {view.node!r}"
            elif view is not None:  # a pod that is gone has no further facts
                assert self.bound_by.get(one.uid) != one.claim, f"{one}, but this claim bound the pod"
        return sequence + 1

    @rule()
    def outcomes_are_read_back(self):
        if self.reading:
            name = self.reading.pop()
            self.core.outcomes_read(name, *self.on_bus[name])

    @rule(data=st.data())
    def the_binder_is_killed(self, data):
        for one in self.in_flight:
            if data.draw(st.booleans()):
                self.act(one)
        for write in self.writing:
            if data.draw(st.booleans()):
                self.store(*write)
        self.crash()

    def teardown(self):
        for _ in range(200):
            for uid in self.PODS:
                self.a_pod_fact_comes(uid)
            for name in self.NODES:
                self.a_node_fact_comes(name)
                self.a_ledger_comes(name)
            self.the_core_is_asked()
            while self.in_flight:
                one = self.in_flight.pop()
                self.answer(one, self.act(one))
            while self.writing:
                write = self.writing.pop()
                self.bus_answers(write, answered=True, sequence=self.store(*write))
            while self.reading:
                self.outcomes_are_read_back()
            self.now += 1.0
        assert self.core.open_work == 0
        assert self.core.detail["in_flight"] == 0
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
