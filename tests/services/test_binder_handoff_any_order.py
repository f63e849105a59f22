"""Handoffs in any order of facts, answers and crashes: no plugin can take one pod for another."""

from typing import ClassVar

import hypothesis.strategies as st
from deviceshare_binder.core.commands import Annotate, BindPod, ReadPod
from deviceshare_binder.core.views import NodeView
from deviceshare_bus.cores.core import Write
from deviceshare_cluster.interface import BindState
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from support.binder import BinderDriver, expected, messages
from support.handoff import NOW, claim, pod, vgpus

COUNTS = [(1,), (1,), (2,), (2,), (1, 1), (3,), (1,)]


class AnyOrder(RuleBasedStateMachine):
    """A cluster with vGPU plugins that take any pod with the right number; facts are late, the core crashes."""

    NODES = ("n1", "n2")
    PODS: ClassVar = {f"p{number}": vgpus(*counts) for number, counts in enumerate(COUNTS)}

    def __init__(self):
        super().__init__()
        self.now = NOW
        self.where = dict.fromkeys(self.PODS, "")
        self.served, self.ended, self.out_of_sight = set(), set(), set()
        self.ledger = {name: {} for name in self.NODES}
        self.on_bus = {name: (0, {}) for name in self.NODES}
        self.crash()

    def crash(self):
        self.core = BinderDriver(self.now, limit=3)
        self.in_flight = []
        for name in self.NODES:
            self.core.ledger(name, self.ledger[name].values())
            self.core.outcomes(name, *self.on_bus[name])
            self.core.node(name, NodeView(name=name))
        for uid in self.PODS:
            self.core.pod(uid, pod(uid, self.PODS[uid]))  # what the bus says may be old
        self.core.start()

    def view(self, uid):
        counts = [len(grant.devices) for grant in self.PODS[uid]]
        numbers = {*counts, sum(counts)}
        keys = [("hami-core", f"{n} vGPU{'s' * (n > 1)}") for n in sorted(numbers)]
        waits = self.where[uid] and uid not in self.served and uid not in self.out_of_sight
        return pod(uid, self.PODS[uid], self.where[uid], unserved=keys if waits else [], ended=uid in self.ended)

    @invariant()
    def no_plugin_can_take_one_pod_for_another(self):
        for name in self.NODES:
            seen = set()
            for uid, where in self.where.items():
                if where == name and uid not in self.served | self.out_of_sight:
                    counts = [len(grant.devices) for grant in self.PODS[uid]]
                    numbers = {*counts, sum(counts)}
                    assert not numbers & seen, f"two pods with {numbers & seen} vGPUs on {name}"
                    seen |= numbers

    @rule(uid=st.sampled_from(sorted(PODS)), node=st.sampled_from(NODES))
    def placement_claims(self, uid, node):
        if not any(f"claim-{uid}" in claims for claims in self.ledger.values()):
            self.ledger[node][f"claim-{uid}"] = claim(uid, self.PODS[uid])
            self.core.ledger(node, self.ledger[node].values())

    @rule(uid=st.sampled_from(sorted(PODS)))
    def the_plugin_serves(self, uid):
        if self.where[uid] and uid not in self.ended:
            self.served.add(uid)

    @rule(uid=st.sampled_from(sorted(PODS)))
    def a_pod_ends(self, uid):
        if self.where[uid]:
            self.ended.add(uid)

    @rule(uid=st.sampled_from(sorted(PODS)))
    def a_fact_comes(self, uid):
        self.core.pod(uid, self.view(uid))

    @rule(seconds=st.sampled_from([0.1, 10.0, 100.0]))
    def time_goes_by(self, seconds):
        self.now += seconds
        self.core.now = self.now

    @rule()
    def the_core_is_asked(self):
        for one in self.core.take(self.now):
            if isinstance(one, BindPod | ReadPod):
                self.in_flight.append(one)
            elif isinstance(one, Annotate):
                assert one.uid in self.ended
                self.out_of_sight.add(one.uid)
            elif isinstance(one, Write):
                (message,) = messages([one])
                sequence = expected(one) + 1
                self.on_bus[message.node] = (sequence, {each.claim: each for each in message.outcomes})
                self.core.outcomes_written(message.node, sequence)

    @rule(data=st.data(), done=st.booleans(), answered=st.booleans())
    def the_cluster_acts(self, data, done, answered):
        if not self.in_flight:
            return
        one = self.in_flight.pop(data.draw(st.integers(0, len(self.in_flight) - 1)))
        answer = self.act(one) if done else None
        if answer is None or not answered:
            self.core.failed(one.claim, self.now, 0.0)
        elif isinstance(one, ReadPod):
            self.core.read_answered(one.claim, answer, self.now)
        else:
            self.core.bind_answered(one.claim, *answer, self.now)

    def act(self, one):
        where = self.where[one.uid]
        if isinstance(one, ReadPod):
            return where
        if where:
            return BindState.ALREADY, where, ""
        self.where[one.uid] = one.node
        return BindState.BOUND, one.node, ""

    @rule(data=st.data())
    def the_binder_is_killed(self, data):
        for one in self.in_flight:
            if data.draw(st.booleans()):
                self.act(one)
        self.crash()

    def teardown(self):
        """When plugins serve and the cluster answers, every claim gets its outcome: no claim starves."""
        for _ in range(20 * len(self.PODS)):
            for uid in self.PODS:
                if self.where[uid] and uid not in self.ended:
                    self.served.add(uid)
                self.core.pod(uid, self.view(uid))
            self.now += 10.0
            self.the_core_is_asked()
            while self.in_flight:
                one = self.in_flight.pop()
                answer = self.act(one)
                if isinstance(one, ReadPod):
                    self.core.read_answered(one.claim, answer, self.now)
                else:
                    self.core.bind_answered(one.claim, *answer, self.now)
                self.no_plugin_can_take_one_pod_for_another()
        self.the_core_is_asked()
        for name in self.NODES:
            assert self.on_bus[name][1].keys() == self.ledger[name].keys(), "a claim without an outcome"


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
