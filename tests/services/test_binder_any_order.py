"""Outcomes of claims, whatever the order of facts, answers and crashes."""

import hypothesis.strategies as st
import msgspec
from deviceshare.model import FENCE
from deviceshare_binder.core.commands import BindPod, FencePod, ReadPod
from deviceshare_binder.core.views import NodeView
from deviceshare_bus.cores.core import Write
from deviceshare_cluster.interface import BindState
from hypothesis import settings
from hypothesis.stateful import rule
from support.binder import BinderDriver, expected, messages
from support.binder_scene import claim, pod
from support.two_binders import NODES, WHICH, Binder, TwoBinders


class AnyOrder(TwoBinders):
    """A cluster and a placement around two cores; placement is careless: it claims pods that are claimed already."""

    PODS = ("u1", "u2", "u3")

    def __init__(self):
        super().__init__()
        self.count = 0
        self.revision = 1
        self.cluster = {uid: pod(uid, revision="1") for uid in self.PODS}
        self.node_views = {name: NodeView(name=name) for name in NODES}
        self.history = {}
        self.bound_by = {}
        self.binders = [self.begun(), self.begun()]

    def begun(self):
        """Return a binder that begins with what stands on the bus."""
        binder = Binder(BinderDriver(self.now, limit=3))
        for name in NODES:
            binder.core.ledger(name, self.ledger[name].values())
            binder.core.outcomes(name, *self.on_bus[name])
            binder.core.node(name, self.node_views[name])
        for uid, view in self.cluster.items():
            binder.core.pod(uid, view)
        binder.core.start()
        return binder

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

    @rule(uid=st.sampled_from(PODS), how=st.sampled_from(["gone", "terminating", "ended", "labelled"]))
    def a_pod_changes(self, uid, how):
        if uid in self.cluster:
            if how == "gone":
                del self.cluster[uid]
            else:
                self.write(uid, **({} if how == "labelled" else {how: True}))

    def write(self, uid, **fields):
        self.revision += 1
        self.cluster[uid] = msgspec.structs.replace(self.cluster[uid], revision=str(self.revision), **fields)

    @rule(name=st.sampled_from(NODES), ready=st.booleans())
    def a_node_changes(self, name, ready):
        self.node_views[name] = NodeView(name=name, ready=ready)

    # -- what the binders hear ----------------------------------------------------------------------------------------

    @rule(which=WHICH, uid=st.sampled_from(PODS))
    def a_pod_fact_comes(self, which, uid):
        self.binders[which].core.pod(uid, self.cluster.get(uid))

    @rule(which=WHICH, name=st.sampled_from(NODES))
    def a_node_fact_comes(self, which, name):
        self.binders[which].core.node(name, self.node_views[name])

    @rule(which=WHICH, name=st.sampled_from(NODES))
    def a_ledger_comes(self, which, name):
        self.binders[which].core.ledger(name, self.ledger[name].values())

    @rule(seconds=st.sampled_from([0.1, 1.0, 10.0]))
    def time_goes_by(self, seconds):
        self.now += seconds

    @rule(which=WHICH)
    def the_core_is_asked(self, which):
        binder = self.binders[which]
        for one in binder.core.take(self.now):
            if isinstance(one, BindPod | ReadPod | FencePod):
                assert one.uid not in {other.uid for other in binder.in_flight}, "two in flight for one pod"
                binder.in_flight.append(one)
            elif isinstance(one, Write):
                (message,) = messages([one])
                assert message.node not in {other.node for other, _ in binder.writing}, "two writes for one node"
                assert message.node not in binder.reading
                binder.writing.append((message, expected(one)))

    def act(self, one):
        view = self.cluster.get(one.uid)
        if isinstance(one, FencePod) and view and not view.node and one.claim not in view.fenced:
            self.write(one.uid, fenced=(*view.fenced, one.claim))
            view = self.cluster[one.uid]
        if isinstance(one, ReadPod | FencePod):
            return (view.node, view) if view else (None, None)
        if view is None or view.ended:
            return (BindState.GONE if view is None else BindState.REFUSED, "", "it has ended" if view else "", None)
        if view.node:
            return (BindState.ALREADY, view.node, "", None)
        if view.revision != one.revision:
            return (BindState.CHANGED, "", "", view)
        state = self.history.get(one.claim, "bound")
        assert state == "bound", f"bound after it was {state}, when the place may have another pod"
        self.write(one.uid, node=one.node)
        self.bound_by[one.uid] = one.claim
        return (BindState.BOUND, one.node, "", None)

    def answer(self, which, one, answer):
        core = self.binders[which].core
        if answer is None:
            core.failed(one.claim, self.now, 0.0)
            return
        *answer, view = answer
        fence = {FENCE: ",".join(view.fenced)} if view is not None else {}
        revision = view.revision if view is not None else ""
        if isinstance(one, ReadPod | FencePod):
            core.read_answered(one.claim, *answer, self.now, fence, revision)
        else:
            core.bind_answered(one.claim, *answer, self.now, fence, revision)

    def store(self, write, sequence):
        if sequence != self.on_bus[write.node][0]:
            return None
        self.on_bus[write.node] = (sequence + 1, {one.claim: one for one in write.outcomes})
        for one in write.outcomes:
            before = self.history.setdefault(one.claim, one.state)
            assert (before == "bound") == (one.state == "bound"), "an outcome changed its mind"
            view = self.cluster.get(one.uid)
            if one.state == "bound":
                assert view is None or view.node == write.node, f"{one}, but the pod is on {view.node!r}"
            elif view is not None:  # a pod that is gone has no further facts
                assert self.bound_by.get(one.uid) != one.claim, f"{one}, but this claim bound the pod"
        return sequence + 1

    def hear(self, which):
        """Let a binder hear everything."""
        for uid in self.PODS:
            self.a_pod_fact_comes(which, uid)
        for name in NODES:
            self.a_node_fact_comes(which, name)
            self.a_ledger_comes(which, name)
            self.an_outcome_comes(which, name)

    def teardown(self):
        for turn in range(200):
            self.work(0)
            self.work(1)
            if turn == 100:
                for one in self.late:
                    self.act(one)
            self.now += 1.0
        for binder in self.binders:
            assert binder.core.open_work == 0
            assert binder.core.detail["in_flight"] == 0
        for name in NODES:
            assert self.ledger[name].keys() <= self.on_bus[name][1].keys()
        for uid, view in self.cluster.items():
            bound = [
                name
                for name in NODES
                for one in self.on_bus[name][1].values()
                if one.uid == uid and one.state == "bound"
            ]
            assert set(bound) <= {view.node}


AnyOrder.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase
