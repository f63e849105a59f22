"""Whatever the order of changes, answers and restarts: the facts on CLUSTER become those of the cluster."""

import hypothesis.strategies as st
from deviceshare.model import Gone, NodeFact
from deviceshare.objects import decode_node, decode_pod
from deviceshare_bus.cores.core import PutLatest, Read, Write, WriteConflict, WriteUnknown, Written
from deviceshare_bus.messages.codec import decode_fact, encode
from deviceshare_bus.messages.subjects import SYNCED
from deviceshare_cluster.interface import ChangeType, Listed
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from support.inventory import OURS, Bus, Driver, execute, gone, node, pod


class AnyOrder(RuleBasedStateMachine):
    """A cluster that changes, a bus that answers at any time, restarts, and another writer that lags behind."""

    def __init__(self):
        super().__init__()
        self.bus = Bus()
        self.revision = 0
        self.objects = {}
        self.ticks = 0
        self.start()

    def start(self):
        self.core = Driver(limit=3)
        self.core.load_all(self.bus)
        self.read = len(self.bus.log)
        self.writes, self.reads = [], []
        self.begin_watch()

    def begin_watch(self):
        self.core.begin_list()
        self.coming = [*self.objects.values(), Listed(self.revision)]

    def change(self, key, make):
        self.revision += 1
        change = make(self.revision)
        if change.type is ChangeType.DELETED:
            self.objects.pop(key, None)
        else:
            self.objects[key] = change
        self.coming.append(change)

    @rule(name=st.sampled_from("ab"), cpu=st.integers(1, 3))
    def node_changes(self, name, cpu):
        self.change(("Node", name), lambda revision: node(name, revision, allocatable={"cpu": str(cpu)}))

    @rule(
        name=st.sampled_from("xy"),
        uid=st.sampled_from(["1", "2"]),
        on=st.sampled_from([None, "a"]),
        phase=st.sampled_from(["Pending", "Failed"]),
        scheduler=st.sampled_from(["volcano", "other"]),
    )
    def pod_changes(self, name, uid, on, phase, scheduler):
        make = lambda revision: pod(name, f"{name}{uid}", revision, scheduler, on, phase)  # noqa: E731
        self.change(("Pod", name), make)

    @rule(kind=st.sampled_from(["Node", "Pod"]), name=st.sampled_from("abxy"))
    def something_goes(self, kind, name):
        if (kind, name) in self.objects:
            self.change((kind, name), lambda revision: gone(kind, name, revision))

    @rule(count=st.integers(1, 3))
    def the_watch_delivers(self, count):
        self.core.deliver(self.coming[:count])
        del self.coming[:count]

    @rule()
    def the_core_acts(self):
        self.ticks += 1
        for one in self.core.take():
            if isinstance(one, Write):
                busy = {write.writes[0].subject for write, _ in self.writes}
                assert one.writes[0].subject not in busy, "two writes in flight"
                self.writes.append((one, "sent"))
            elif isinstance(one, Read):
                self.reads.append(one.subject)
            elif isinstance(one, PutLatest):
                execute(self.core, self.bus, one)

    def write(self, write):
        (one,) = write.writes
        return self.bus.write(one.subject, one.message, one.expected)

    def answer(self, write, sequence):
        self.core.handle(WriteConflict(write.token) if sequence is None else Written(write.token, sequence))

    @rule(data=st.data())
    def the_bus_takes_a_write(self, data):
        waiting = [n for n, (_, state) in enumerate(self.writes) if state == "sent"]
        if waiting:
            n = data.draw(st.sampled_from(waiting))
            write = self.writes[n][0]
            self.writes[n] = (write, self.write(write))

    @rule(data=st.data(), lost=st.booleans())
    def an_answer_comes(self, data, lost):
        if self.writes:
            n = data.draw(st.integers(0, len(self.writes) - 1))
            write, state = self.writes.pop(n)
            if state == "sent" or lost:
                self.core.handle(WriteUnknown(write.token))
            else:
                self.answer(write, state)

    @rule(data=st.data())
    def a_subject_is_read_back(self, data):
        if self.reads:
            self.read_back(self.reads.pop(data.draw(st.integers(0, len(self.reads) - 1))))

    def read_back(self, subject):
        execute(self.core, self.bus, Read("CLUSTER", subject))

    @rule(count=st.integers(1, 4))
    def the_follower_delivers(self, count):
        for subject, sequence, message in self.bus.log[self.read : self.read + count]:
            self.core.load(subject, sequence, decode_fact(message))
        self.read = min(self.read + count, len(self.bus.log))

    @rule(name=st.sampled_from("ab"))
    def a_writer_that_lags_writes(self, name):
        stale = NodeFact(name=name, revision="0", labels={"stale": "yes"})
        if f"cluster.node.{name}" in self.bus.messages:
            self.bus.write(f"cluster.node.{name}", encode(stale), None)

    @rule()
    def the_watch_is_lost(self):
        self.begin_watch()

    @rule()
    def inventory_is_killed(self):
        self.start()

    @invariant()
    def the_revision_is_not_ahead(self):
        assert self.core.revision <= self.revision

    def teardown(self):
        while self.coming or self.writes or self.reads or self.read < len(self.bus.log) or self.core.open_work:
            self.core.deliver(self.coming)
            self.coming = []
            self.the_core_acts()
            while self.writes:
                write, state = self.writes.pop()
                self.answer(write, self.write(write) if state == "sent" else state)
            while self.reads:
                self.read_back(self.reads.pop())
            self.the_follower_delivers(1000)
            self.ticks += 1
            assert self.ticks < 10_000, "it does not settle"
        assert self.core.revision == self.revision
        stand = {
            subject: self.bus.fact(subject)
            for subject in self.bus.messages
            if subject != SYNCED and ".config." not in subject
        }
        stand = {subject: one for subject, one in stand.items() if not isinstance(one, Gone)}
        pods = [decode_pod(change.raw) for (kind, _), change in self.objects.items() if kind == "Pod"]
        must = {f"cluster.pod.{one.uid}" for one in pods if not one.ended and (one.node or one.scheduler in OURS)}
        may = must | {f"cluster.pod.{one.uid}" for one in pods if one.ended}
        assert must <= {subject for subject in stand if ".pod." in subject} <= may
        for one in pods:
            if f"cluster.pod.{one.uid}" in stand:
                there = stand[f"cluster.pod.{one.uid}"]
                assert (there.node, there.ended) == (one.node, one.ended)
        nodes = {name: change for (kind, name), change in self.objects.items() if kind == "Node"}
        assert {subject for subject in stand if ".node." in subject} == {f"cluster.node.{name}" for name in nodes}
        for name, change in nodes.items():
            assert stand[f"cluster.node.{name}"].allocatable == decode_node(change.raw).allocatable


AnyOrder.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase
