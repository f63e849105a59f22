"""For which waiting classes it is looked whether pods may go, when there are too many for all of them."""

from collections import Counter

import pytest
from deviceshare.model import GroupKey, Now
from deviceshare.preemption import Preemption
from deviceshare.scheduler import preemption_round
from deviceshare.scheduler.preempting import Preempting
from msgspec.structs import replace
from support.builders import node
from support.preemption_scene import NOW, PreemptionScene, cpu

WORK = 1_000
"""What each answer takes in these tests, so that few classes are too many."""
CLASSES = 60
STEP = 0.05


class Watched:
    """A full node and many waiting classes, for none of which a pod goes; the answers that were found, by time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, queues: int) -> None:
        self.scene = PreemptionScene(node("a", cpu=1000))
        for number in range(queues):
            self.scene.queue(f"q{number}")
        (self._running,) = self.scene.job("runs", cpu(1000), on=["a"], queue="q0")
        for number in range(CLASSES):
            self.scene.job(f"waits-{number}", cpu(1001 + number), queue=f"q{number % queues}")
        self.asked: list[tuple[float, str]] = []
        self.now, self._changes = NOW, 0
        found = Preempting.preempt

        def preempt(preempting: Preempting, key: GroupKey, now: Now, *, explain: bool) -> Preemption:
            self.asked.append((now.monotonic, key))
            return replace(found(preempting, key, now, explain=explain), work=WORK)

        monkeypatch.setattr(Preempting, "preempt", preempt)

    def passes(self, seconds: float) -> None:
        """Let a pod change all the time."""
        until = self.now.monotonic + seconds
        while self.now.monotonic < until:
            self.now = Now(self.now.monotonic + STEP, self.now.wall + STEP)
            self._changes += 1
            fact = replace(self._running, revision=str(self._changes))
            self.scene.scheduler.apply(f"pod {fact.uid}", fact, self.now)
            self.scene.scheduler.round(self.now)
            assert self.scene.scheduler.next_preemption(self.now) is None


@pytest.mark.parametrize("queues", [1, 3])
def test_many_classes_are_looked_at_in_turn_as_far_as_the_work_allows(monkeypatch, queues):
    watched = Watched(monkeypatch, queues)
    seconds = 100.0
    watched.passes(seconds)
    allowed = preemption_round.BURST_OF_WORK + seconds * preemption_round.WORK_PER_SECOND
    assert 0.8 * allowed < len(watched.asked) * WORK < 1.2 * allowed
    times = Counter(key for _, key in watched.asked)
    assert len(times) == CLASSES
    assert min(times.values()) >= 2


def test_a_class_that_comes_is_looked_at_before_those_that_were(monkeypatch):
    watched = Watched(monkeypatch, 1)
    watched.passes(30.0)
    watched.scene.job("comes", cpu(900), queue="q0")
    came = watched.now.monotonic
    watched.passes(5.0)
    key = GroupKey("ns/comes")
    others = [each for at, each in watched.asked if at > came]
    assert others.index(key) <= 1


def test_classes_that_come_all_the_time_leave_turns_to_the_others(monkeypatch):
    watched = Watched(monkeypatch, 1)
    watched.passes(30.0)
    came = watched.now.monotonic
    for number in range(200):
        watched.scene.job(f"comes-{number}", cpu(2000 + number), queue="q0")
        watched.passes(0.4)
    others = {key for at, key in watched.asked if at > came and key.startswith("ns/waits-")}
    assert len(others) == CLASSES


def test_a_class_is_not_looked_at_again_while_nothing_changes(monkeypatch):
    watched = Watched(monkeypatch, 1)
    scheduler = watched.scene.scheduler
    for _ in range(1000):
        scheduler.round(watched.now)
        assert scheduler.next_preemption(watched.now) is None
        due = min(scheduler.rounds_due(watched.now), default=None)
        if due is None or due > watched.now.monotonic + 60.0:
            break
        later = max(due, watched.now.monotonic + STEP) - watched.now.monotonic
        watched.now = Now(watched.now.monotonic + later, watched.now.wall + later)
    assert Counter(key for _, key in watched.asked) == {GroupKey(f"ns/waits-{number}"): 1 for number in range(CLASSES)}
