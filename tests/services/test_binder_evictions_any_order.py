"""Evictions, whatever the order of ledgers, facts, answers and crashes: only pods that were to go are evicted."""

import hypothesis.strategies as st
from deviceshare.model import BLOCKED, FORBIDDEN, MAY_GO, Eviction
from deviceshare_binder.core.commands import EvictPod
from deviceshare_binder.core.views import NodeView
from deviceshare_bus.cores.core import Write
from deviceshare_cluster.eviction import EvictState
from hypothesis import settings
from hypothesis.stateful import invariant, rule
from msgspec.structs import replace
from support.binder import BinderDriver, expected, messages
from support.binder_scene import claim, pod
from support.two_binders import NODES, WHICH, Binder, TwoBinders

NEEDS = "The disruption budget b needs 1 healthy pods and has 1 currently"


def _node_of(name):
    return "n2" if name == "c" else "n1"


class AnyOrder(TwoBinders):
    """A cluster with a budget and a placement around two cores; pods end and are made again under their names."""

    NAMES = ("a", "b", "c")

    def __init__(self):
        super().__init__()
        self.claims = self.uids = 0
        self.budget = 1
        self.forbidden = False
        self.cluster = {}
        self.facts = {}
        """All that facts have said or could say, by uid; None: gone."""
        for name in self.NAMES:
            self.make(name)
        self.ever = set()
        """Claim and uid of the evictions that had go."""
        self.leaving = set()
        """Uids of pods that could have gone at some time."""
        self.evicted = set()
        self.binders = [self.begun(), self.begun()]

    def make(self, name):
        self.uids += 1
        view = replace(pod(f"u{self.uids}", node=_node_of(name), running=True), name=name)
        self.cluster[name] = self.facts[view.uid] = view

    def begun(self):
        """Return a binder that begins with what stands on the bus."""
        binder = Binder(BinderDriver(self.now))
        binder.ledgers = {}
        for name in NODES:
            binder.core.node(name, NodeView(name=name))
            self.deliver(binder, name)
            binder.core.outcomes(name, *self.on_bus[name])
        for view in self.cluster.values():
            binder.core.pod(view.uid, view)
        binder.core.start()
        return binder

    def deliver(self, binder, name):
        binder.ledgers[name] = dict(self.ledger[name])
        waits = {}
        for each in self.ledger[name].values():
            waits.setdefault(each.claim, []).append(each.uid)
        claims = [claim(identity, f"p-{identity}", waits_for=tuple(uids)) for identity, uids in waits.items()]
        binder.core.ledger(name, claims, self.ledger[name].values())

    # -- the scene ----------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES))
    def placement_nominates(self, name):
        view = self.cluster.get(name)
        node = self.ledger[_node_of(name)]
        if view is not None and view.uid not in {each.uid for each in node.values()}:
            self.claims += 1
            one = Eviction(
                uid=view.uid, namespace="default", name=name, claim=f"c{self.claims}", preemptor="default/p",
                action="preempt",
            )  # fmt: skip
            node[one.claim, one.uid] = one

    @rule(node=st.sampled_from(NODES))
    def placement_lets_go(self, node):
        outcomes = self.on_bus[node][1]
        for key, one in self.ledger[node].items():
            if key in outcomes and outcomes[key].state == MAY_GO:
                self.ledger[node][key] = replace(one, go=True)
                self.ever.add(key)

    @rule(node=st.sampled_from(NODES), data=st.data())
    def placement_withdraws(self, node, data):
        if self.ledger[node]:
            del self.ledger[node][data.draw(st.sampled_from(sorted(self.ledger[node])))]

    @rule(name=st.sampled_from(NAMES), how=st.sampled_from(["gone", "another", "terminating", "ended"]))
    def a_pod_changes(self, name, how):
        view = self.cluster.get(name)
        if view is None:
            self.make(name)
            return
        self.leaving.add(view.uid)
        if how in ("gone", "another"):
            self.facts[view.uid] = None
            del self.cluster[name]
            if how == "another":
                self.make(name)
        else:
            self.cluster[name] = self.facts[view.uid] = replace(view, **{how: True})

    @rule(allowed=st.integers(0, 2), forbidden=st.booleans())
    def the_budget_changes(self, allowed, forbidden):
        self.budget, self.forbidden = allowed, forbidden

    # -- what the binders hear ----------------------------------------------------------------------------------------

    @rule(which=WHICH, number=st.integers(1, 6))
    def a_pod_fact_comes(self, which, number):
        if f"u{number}" in self.facts:
            self.binders[which].core.pod(f"u{number}", self.facts[f"u{number}"])

    @rule(which=WHICH, name=st.sampled_from(NODES))
    def a_ledger_comes(self, which, name):
        self.deliver(self.binders[which], name)

    @rule(seconds=st.sampled_from([0.1, 1.0, 10.0, 100.0]))
    def time_goes_by(self, seconds):
        self.now += seconds

    @rule(which=WHICH)
    def the_core_is_asked(self, which):
        binder = self.binders[which]
        for one in binder.core.take(self.now):
            if isinstance(one, EvictPod):
                known = binder.ledgers[one.node].get((one.claim, one.uid))
                assert known is not None, "not in the ledger that it read last"
                assert one.dry_run != known.go, "evicted without go, or asked after it"
                assert (one.namespace, one.name) == (known.namespace, known.name)
                assert (one.claim, one.uid) not in {(each.claim, each.uid) for each in binder.in_flight}
                binder.in_flight.append(one)
            elif isinstance(one, Write):
                (message,) = messages([one])
                binder.writing.append((message, expected(one)))

    def act(self, one):
        """Do as the API server does (:meth:`deviceshare_cluster.interface.Cluster.evict`)."""
        view = self.cluster.get(one.name)
        if self.forbidden:
            return EvictState.FORBIDDEN, "forbidden"
        if view is None or view.uid != one.uid:
            return EvictState.GONE, ""
        if not (view.terminating or view.ended):
            if not self.budget:
                return EvictState.BLOCKED, NEEDS
            self.leaving.add(view.uid)
            if not one.dry_run:
                assert (one.claim, one.uid) in self.ever, "evicted a pod that was not to go"
                self.budget -= 1
                self.evicted.add(one.uid)
                self.cluster[one.name] = self.facts[view.uid] = replace(view, terminating=True)
        return (EvictState.MAY_GO if one.dry_run else EvictState.DONE), ""

    def answer(self, which, one, answer):
        core = self.binders[which].core
        if answer is None:
            core.evict_failed(one, self.now)
        else:
            core.evict_answered(one, answer[0], self.now, answer[1])

    def store(self, write, sequence):
        if sequence != self.on_bus[write.node][0]:
            return None
        for one in write.outcomes:
            assert one.state in (MAY_GO, BLOCKED, FORBIDDEN)
            if one.state == MAY_GO and self.facts[one.uid] is not None:
                assert one.uid in self.leaving, "a pod that could not go at any time"
        self.on_bus[write.node] = (sequence + 1, {(one.claim, one.uid): one for one in write.outcomes})
        return sequence + 1

    @invariant()
    def who_was_evicted_had_to_go(self):
        assert self.evicted <= {uid for _, uid in self.ever}

    def hear(self, which):
        """Let a binder hear everything."""
        for uid, view in self.facts.items():
            self.binders[which].core.pod(uid, view)
        for name in NODES:
            self.a_ledger_comes(which, name)
            self.an_outcome_comes(which, name)

    def teardown(self):
        self.forbidden = False
        for turn in range(200):
            self.budget = max(self.budget, 1)
            self.work(0)
            self.work(1)
            for name in NODES:
                self.placement_lets_go(name)
            self.now += 1.0
            if turn == 100:
                for one in self.late:
                    self.act(one)
        for binder in self.binders:
            binder.core.written_reports()
            assert binder.core.open_work == 0
        for name in NODES:
            for key, one in self.ledger[name].items():
                assert self.on_bus[name][1][key].state == MAY_GO
                assert one.go
                view = self.facts[one.uid]
                assert view is None or view.terminating or view.ended, "a pod that had to go stays"


AnyOrder.TestCase.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
TestAnyOrder = AnyOrder.TestCase
