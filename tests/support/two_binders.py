"""Two cores of the binder that work on the same ledger, with late messages, lost answers and crashes."""

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from support.binder import BinderDriver

WHICH = st.integers(0, 1)
NODES = ("n1", "n2")


class Binder:
    """A core, and its requests and writes that are not answered yet."""

    def __init__(self, core: BinderDriver):
        self.core = core
        self.in_flight, self.writing, self.reading = [], [], []


class TwoBinders(RuleBasedStateMachine):
    """A bus around two cores.

    Messages come late, answers get lost, the cores crash, and requests of a core that crashed arrive later. A subclass
    has the cluster (``act``, ``answer``), the outcomes that may stand on the bus (``store``), how a binder begins
    (``begun``) and all that it hears (``hear``), and begins its ``binders``.
    """

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.ledger = {name: {} for name in NODES}
        self.on_bus = {name: (0, {}) for name in NODES}
        self.late = []
        """Requests of cores that crashed."""

    @rule(which=WHICH, name=st.sampled_from(NODES))
    def an_outcome_comes(self, which, name):
        self.binders[which].core.outcomes(name, *self.on_bus[name])

    @rule(which=WHICH, data=st.data(), done=st.booleans(), answered=st.booleans())
    def the_cluster_acts(self, which, data, done, answered):
        in_flight = self.binders[which].in_flight
        if in_flight:
            one = in_flight.pop(data.draw(st.integers(0, len(in_flight) - 1)))
            if not done:
                self.late.append(one)
            answer = self.act(one) if done else None
            self.answer(which, one, answer if answered else None)

    @rule(data=st.data())
    def a_late_request_arrives(self, data):
        if self.late:
            self.act(self.late.pop(data.draw(st.integers(0, len(self.late) - 1))))

    @rule(which=WHICH, data=st.data(), done=st.booleans(), answered=st.booleans())
    def the_bus_acts(self, which, data, done, answered):
        writing = self.binders[which].writing
        if writing:
            write = writing.pop(data.draw(st.integers(0, len(writing) - 1)))
            self.bus_answers(which, write, answered=answered, sequence=self.store(*write) if done else None, done=done)

    def bus_answers(self, which, write, *, answered, sequence, done):
        name, binder = write[0].node, self.binders[which]
        if answered and sequence is not None:
            binder.core.outcomes_written(name, sequence)
        elif binder.core.outcomes_unclear(name, conflict=answered and done):
            binder.reading.append(name)

    @rule(which=WHICH)
    def outcomes_are_read_back(self, which):
        binder = self.binders[which]
        if binder.reading:
            name = binder.reading.pop()
            binder.core.outcomes_read(name, *self.on_bus[name])

    @rule(which=WHICH, data=st.data())
    def a_binder_is_killed(self, which, data):
        for one in self.binders[which].in_flight:
            if data.draw(st.booleans()):
                self.act(one)
            else:
                self.late.append(one)
        for write in self.binders[which].writing:
            if data.draw(st.booleans()):
                self.store(*write)
        self.binders[which] = self.begun()

    def work(self, which):
        """Let a binder hear everything, and answer everything that it requests."""
        binder = self.binders[which]
        self.hear(which)
        self.the_core_is_asked(which)
        while binder.in_flight:
            one = binder.in_flight.pop()
            self.answer(which, one, self.act(one))
        while binder.writing:
            write = binder.writing.pop()
            self.bus_answers(which, write, answered=True, sequence=self.store(*write), done=True)
        while binder.reading:
            self.outcomes_are_read_back(which)
