"""No bind task waits for ever, whatever the order of facts, answers, refusals and pauses."""

import hypothesis.strategies as st
from deviceshare.model import BOUND
from deviceshare_binder.core.bind_task import IN_FLIGHT, TIMED, State
from deviceshare_binder.core.commands import Annotate, BindPod, FencePod, LockNode, ReadPod
from deviceshare_binder.core.views import NodeView
from deviceshare_bus.cores.core import Unreadable, Write
from deviceshare_bus.messages.subjects import Stream, ledger
from deviceshare_cluster.interface import BindState
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace
from support.binder import BinderDriver, expected, messages
from support.handoff import HAMI, NOW, VNPU, claim, pod

PODS = {"p0": VNPU, "p1": VNPU}
UIDS = st.sampled_from(sorted(PODS))
REQUESTS = BindPod | ReadPod | FencePod | LockNode
LOST, LATE, FORBIDDEN, REFUSED = "the answer is lost", "it is not executed", "forbidden", "refused"


class Progress(RuleBasedStateMachine):
    """A node whose lock and device plugins make pods wait for each other, and an API server that fails.

    Placement claims each pod again as soon as it may.
    """

    def __init__(self):
        super().__init__()
        self.now, self.count = NOW, 0
        self.bound, self.served, self.gone = set(), set(), set()
        self.revision, self.fenced = dict.fromkeys(PODS, 1), dict.fromkeys(PODS, ())
        self.lock = None
        self.ledger, self.on_bus = {}, (0, {})
        self.in_flight = []
        self.core = BinderDriver(self.now, limit=3)
        self.a_node_fact_comes()
        for uid in PODS:
            self.a_pod_fact_comes(uid)
        self.core.start()
        self.the_core_is_asked()

    def placement_claims(self):
        ended = {key for key, outcome in self.on_bus[1].items() if outcome.state != BOUND}
        kept = {key: one for key, one in self.ledger.items() if key not in ended and one.uid not in self.gone}
        claimed = {one.uid for one in kept.values()}
        for uid in sorted(PODS.keys() - claimed - self.gone - self.bound):
            self.count += 1
            kept[f"c{self.count}"] = replace(claim(uid, PODS[uid]), id=f"c{self.count}")
        if kept != self.ledger:
            self.ledger = kept
            self.the_ledger_is_valid()

    @rule(uid=UIDS)
    def placement_withdraws(self, uid):
        self.ledger = {key: replace(one, withdraw=one.withdraw or one.uid == uid) for key, one in self.ledger.items()}
        self.the_ledger_is_valid()

    @rule()
    def the_ledger_is_unreadable(self):
        self.core.handle(Unreadable(Stream.LEDGER, ledger("n1"), self.count, "not valid"))

    @rule()
    def the_ledger_is_valid(self):
        self.core.ledger("n1", self.ledger.values())

    @rule(uid=UIDS, deleted=st.booleans())
    def a_pod_changes(self, uid, deleted):
        self.revision[uid] += 1
        if deleted and uid in self.served:
            self.gone.add(uid)

    @rule(uid=UIDS)
    def the_plugin_serves(self, uid):
        if uid in self.bound:
            self.served.add(uid)
            if (self.lock or "").endswith(f",{uid}"):
                self.lock = None

    @rule(uid=UIDS)
    def a_pod_fact_comes(self, uid):
        waits = uid in self.bound and uid not in self.served
        node, unserved = "n1" if uid in self.bound else "", [("hami-vnpu", "vNPUs")] if waits else []
        fields = {"revision": str(self.revision[uid]), "fenced": list(self.fenced[uid]), "unserved": unserved}
        self.core.pod(uid, None if uid in self.gone else pod(uid, PODS[uid], node, **fields))

    @rule(ready=st.booleans())
    def a_node_fact_comes(self, ready=True):
        self.core.node("n1", NodeView(name="n1", ready=ready, locks=((HAMI, self.lock),) if self.lock else ()))

    @rule(seconds=st.sampled_from([0.2, 2.0, 100.0]))
    def time_goes_by(self, seconds):
        self.now += seconds
        self.the_core_is_asked()

    def the_core_is_asked(self):
        self.placement_claims()
        for command in self.core.take(self.now):
            if isinstance(command, REQUESTS):
                assert command.claim not in {one.claim for one in self.in_flight}, "begun again while it is in flight"
                self.in_flight.append(command)
            elif isinstance(command, Annotate) and command.kind == "Node" and command.expected[HAMI] == self.lock:
                self.lock = None
            elif isinstance(command, Write):
                (message,) = messages([command])
                self.on_bus = (expected(command) + 1, {outcome.claim: outcome for outcome in message.outcomes})
                self.core.outcomes_written("n1", self.on_bus[0])

    @rule()
    def the_cluster_answers(self):
        if self.in_flight:
            request = self.in_flight.pop(0)
            self.answer(request, self.act(request))
            self.the_core_is_asked()

    @rule(how=st.sampled_from([LOST, LATE, FORBIDDEN, REFUSED]))
    def the_cluster_fails(self, how):
        if not self.in_flight:
            return
        request = self.in_flight.pop()
        if how == LOST:
            self.act(request)
        if how == REFUSED and isinstance(request, BindPod):
            self.core.bind_answered(request.claim, BindState.REFUSED, "", "pods/binding is forbidden", self.now)
        else:
            self.core.failed(request.claim, self.now, 0.0, final=how in (FORBIDDEN, REFUSED))
        self.the_core_is_asked()

    def act(self, request):
        """Execute a request; return what the answer to it says."""
        if isinstance(request, LockNode):
            self.lock = request.value if self.lock == request.expected else self.lock
            return self.lock
        uid, binds = request.uid, isinstance(request, BindPod)
        if uid in self.gone:
            return (BindState.GONE, "") if binds else None
        if uid in self.bound:
            return (BindState.ALREADY, "n1") if binds else "n1"
        if isinstance(request, FencePod):
            self.fenced[uid] = (*self.fenced[uid], request.claim)
            self.revision[uid] += 1
        if not binds:
            return ""
        if request.revision != str(self.revision[uid]):
            return BindState.CHANGED, ""
        self.bound.add(uid)
        return BindState.BOUND, "n1"

    def answer(self, request, answer):
        if isinstance(request, LockNode):
            self.core.lock_answered(request.claim, answer, self.now)
            return
        revision = str(self.revision[request.uid])
        fences = {"deviceshare.io/fenced-claims": ",".join(self.fenced[request.uid])}
        if isinstance(request, BindPod):
            self.core.bind_answered(request.claim, *answer, "", self.now, fences, revision)
        else:
            self.core.read_answered(request.claim, answer, self.now, fences, revision)

    @invariant()
    def each_task_waits_for_something(self):
        claims = self.core.core._claims
        queue, (handoff, freed) = claims._tasks, (claims.handoffs._handoffs.get("n1"), claims.handoffs.freed)
        tasks = list(queue.all())
        in_flight = [task for task in tasks if task.state in IN_FLIGHT]
        assert queue.in_flight == len(in_flight)
        assert queue._busy == {task.claim.uid for task in in_flight}
        assert len(queue._busy) == len(in_flight), "two tasks of a pod are in flight"
        for task in tasks:
            key, node = task.claim.id, task.node
            assert (key in queue._timers._entries) == (task.state in TIMED)
            if task.state is State.QUEUED:
                assert key in queue._resumed or (key in node.queue and node in queue._turns)
            elif task.state is State.PARKED:
                assert node.invalid or node in claims.outcomes._resumed or queue.is_busy(task.claim.uid)
            assert (task.state is State.HELD) == (handoff is not None and key in handoff.held)
        if handoff is not None and handoff.held and not freed:
            first = next(iter(handoff.held.values()))
            assert handoff.blocked(*first) or handoff.called, "a task is held by nothing"
        for one in claims.outcomes.node("n1").ledger.values():
            assert queue.get(one.id) is not None or claims.outcomes.node("n1").has_outcome(one), "a claim is lost"

    def teardown(self):
        """When all is well again each claim gets its outcome."""
        for _ in range(400):
            self.the_ledger_is_valid()
            for uid in PODS:
                self.the_plugin_serves(uid)
                self.a_pod_fact_comes(uid)
            self.a_node_fact_comes()
            self.now += 1.0
            self.the_core_is_asked()
            while self.in_flight:
                request = self.in_flight.pop(0)
                self.answer(request, self.act(request))
            if not self.core.open_work:
                break
        assert self.on_bus[1].keys() >= self.ledger.keys(), "a claim waits for ever"


TestProgress = Progress.TestCase
TestProgress.settings = settings(max_examples=300, stateful_step_count=10, deadline=None)
