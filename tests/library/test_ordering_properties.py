"""What holds of every round, whatever pods, queues and nodes there are.

Compared with a search that tries everything, on clusters so small that it can.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import permutations, product

from deviceshare.allocation import Allocator
from deviceshare.conf import default_conf
from deviceshare.model import GroupKey, NodeFact, PodFact, QueueFact
from deviceshare.queueing import Dispatcher, Group, Job, Queues
from deviceshare.queueing.proportion import Claimant, deserved
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import MEMORY, ask, card, container, node, pod, vgpu

QUEUES = ("a", "b", "c")
SIZES = st.sampled_from([10, 25, 40, 60, 100])


class Round:
    """One round of decisions over jobs of pods that ask MiB of one card each."""

    def __init__(
        self,
        nodes: Sequence[int],
        capabilities: Sequence[int | None],
        weights: Sequence[int] = (1, 1, 1),
        pods: int = 110,
    ) -> None:
        conf = replace(default_conf(), policy="binpack")
        self.nodes = [
            node(f"n{at}", [card(index, memory=100, node=f"{at}-") for index in range(count)], pods=pods)
            for at, count in enumerate(nodes)
        ]
        self.weights = dict(zip(QUEUES, weights, strict=True))
        self.capabilities = dict(zip(QUEUES, capabilities, strict=True))
        self.queues = Queues(conf)
        self.allocator = Allocator(conf)
        self.dispatcher = Dispatcher(self.allocator, self.queues, conf)
        for each in self.nodes:
            self.allocator.set_node(each)
            self.queues.set_node(each)
        for name, weight in zip(QUEUES, weights, strict=True):
            most = self.capabilities[name]
            self.queues.set_queue(QueueFact(name=name, weight=weight, capability=_bound(most)))
        self.jobs: dict[GroupKey, Job] = {}
        self.placed: dict[str, tuple[PodFact, str]] = {}
        self.queue_of: dict[str, str] = {}
        self.ended: set[str] = set()

    def put(self, sizes: Sequence[int], queue: str, minimum: int, priority: int) -> None:
        number = len(self.jobs)
        gang = "" if len(sizes) == 1 else f"g{number}"
        pods = tuple(
            pod(f"p{number}-{at}", vgpu(1, size) if size else ask(container()), gang=gang)
            for at, size in enumerate(sizes)
        )
        for each in pods:
            self.queues.put(each, queue, each.group)
            self.queue_of[each.uid] = queue
        group = Group(key=pods[0].group, pods=pods, minimum=minimum)
        self.jobs[group.key] = Job(queue=queue, group=group, priority=priority, created=float(number))
        self.dispatcher.put(self.jobs[group.key])

    def decide(self) -> None:
        for decision in self.dispatcher.decide(1000).placed.values():
            for each, placement in decision.placed:
                self.placed[each.uid] = each, placement.node

    def end(self, uid: str) -> None:
        _, where = self.placed.pop(uid)
        self.ended.add(uid)
        self.allocator.release(where, uid)
        self.queues.drop(uid)
        self.dispatcher.made_room()

    # What holds

    def free(self) -> list[int]:
        """Return what is left of each card."""
        return [
            100 - used.memory for each in self.nodes for used in self.allocator.used_cards(each.name)
        ]  # fmt: skip

    def left(self, queue: str) -> float:
        """Return how much more a queue may have."""
        most = self.capabilities[queue]
        return float("inf") if most is None else most - self.has(queue)

    def could_be_placed(self, pods: Sequence[PodFact], queue: str) -> bool:
        """Try every card for every pod."""
        sizes = [_size(each) for each in pods]
        if sum(sizes) > self.left(queue):
            return False
        cards = self.free()
        return any(
            all(
                sum(size for size, at in zip(sizes, chosen, strict=True) if at == card_at) <= free
                for card_at, free in enumerate(cards)
            )
            for chosen in product(range(len(cards)), repeat=len(sizes))
        )

    def fair(self) -> dict[str, float]:
        """Return what each queue deserves."""
        asks = Counter[str]()
        for each in (each for pods in self.all_pods.values() for each in pods):
            if each.uid not in self.ended:
                asks[self.queue_of[each.uid]] += _size(each)
        total = {MEMORY: sum(100 for each in self.nodes for _ in each.cards)}
        claimants = [
            Claimant(self.weights[queue], {MEMORY: asks[queue]}, _bound(self.capabilities[queue])) for queue in QUEUES
        ]
        return {name: each[MEMORY] for name, each in zip(QUEUES, deserved(total, claimants), strict=True)}

    def has(self, queue: str) -> int:
        return sum(_size(each) for each, _ in self.placed.values() if self.queue_of[each.uid] == queue)

    def leaves_it_to_others(self, pods: Sequence[PodFact], queue: str) -> bool:
        """Whether the queue would pass what it deserves while another one waits for room within what it deserves."""
        fair = self.fair()
        within = [
            job.queue
            for key, job in self.jobs.items()
            for waiting in [[each for each in self.all_pods[key] if each.uid not in self.placed]]
            if waiting and self.has(job.queue) + min(map(_size, waiting)) <= fair[job.queue] + 1e-6
        ]
        passes = self.has(queue) + sum(map(_size, pods)) > fair[queue]
        return passes and any(other != queue for other in within)

    def check(self, *, equal_gangs: bool) -> None:
        assert min(self.free(), default=0) >= 0
        placed = Counter(each.group for each, _ in self.placed.values())
        for queue in QUEUES:
            assert self.left(queue) >= 0, "a capability is passed"
        for key, job in self.jobs.items():
            minimum = max(1, job.group.minimum)
            waiting = [each for each in self.all_pods[key] if each.uid not in self.placed]
            assert placed[key] == 0 or placed[key] >= minimum, "a gang is whole or not there"
            missing = max(0, minimum - placed[key])
            if not waiting:
                continue
            together = waiting[: max(1, missing)]
            if equal_gangs or len(together) == 1:
                choices = [together] if missing > 1 else [[each] for each in waiting]
                could = [each for each in choices if self.could_be_placed(each, job.queue)]
                assert all(self.leaves_it_to_others(each, job.queue) for each in could), f"{key} waits for nothing"

    def run(self, jobs) -> None:
        for sizes, queue, minimum, priority in jobs:
            self.put(sizes, queue, min(minimum, len(sizes)), priority)
        self.all_pods = {key: job.group.pods for key, job in self.jobs.items()}
        self.decide()


def _bound(most: int | None) -> dict[str, int]:
    return {} if most is None else {MEMORY: most}


def _size(each: PodFact) -> int:
    return dict(each.ask.containers[0].resources).get(MEMORY, 0)


CLUSTERS = st.lists(st.integers(1, 2), min_size=1, max_size=2)
CAPABILITIES = st.tuples(*(st.none() | st.integers(0, 250) for _ in QUEUES))
WEIGHTS = st.tuples(*(st.integers(1, 4) for _ in QUEUES))
SINGLES = st.lists(SIZES, min_size=1, max_size=1)
EQUAL = st.tuples(SIZES, st.integers(1, 4)).map(lambda found: [found[0]] * found[1])


def _jobs(sizes):
    return st.lists(
        st.tuples(sizes, st.sampled_from(QUEUES), st.integers(1, 4), st.integers(0, 1)), min_size=1, max_size=8
    )


@given(CLUSTERS, CAPABILITIES, WEIGHTS, _jobs(SINGLES | EQUAL), st.lists(st.integers(0, 50), max_size=4))
@settings(max_examples=300, deadline=None)
def test_no_job_waits_while_an_allowed_place_exists(nodes, capabilities, weights, jobs, ends):
    played = Round(nodes, capabilities, weights)
    played.run(jobs)
    played.check(equal_gangs=True)
    for at in ends:
        if played.placed:
            uid = sorted(played.placed)[at % len(played.placed)]
            each, _ = played.placed[uid]
            # Who ended is no member any more, and what is left of its gang need not be whole.
            played.jobs.pop(each.group, None)
            played.dispatcher.discard(each.group)
            played.end(uid)
            played.decide()
            played.check(equal_gangs=True)


@example(  # The queue a waits for room within what it deserves, then gets so much that it is not within it any more.
    nodes=[1, 2],
    capabilities=(None, None, None),
    weights=(4, 3, 2),
    jobs=[([10], "a", 1, 0), ([10, 60, 60], "a", 1, 1), ([60], "c", 1, 0), ([10, 60, 40], "b", 1, 0)],
)
@given(CLUSTERS, CAPABILITIES, WEIGHTS, _jobs(st.lists(SIZES, min_size=1, max_size=3)))
@settings(max_examples=150, deadline=None)
def test_gangs_of_different_pods_are_whole_and_within_all_bounds(nodes, capabilities, weights, jobs):
    played = Round(nodes, capabilities, weights)
    played.run(jobs)
    played.check(equal_gangs=False)


@given(
    CLUSTERS,
    CAPABILITIES,
    _jobs(st.lists(SIZES | st.just(0), min_size=1, max_size=4)),
    st.integers(1, 6),
    st.integers(1, 12),
)
@settings(max_examples=300, deadline=None)
def test_gangs_with_best_effort_pods_are_whole_and_fill_no_node(nodes, capabilities, jobs, most, pods):
    played = Round(nodes, capabilities, pods=pods)
    for sizes, queue, minimum, priority in jobs:
        played.put(sizes, queue, min(minimum, len(sizes)), priority)
    minimums = {key: job.group.minimum for key, job in played.jobs.items()}
    placed: Counter[GroupKey] = Counter()
    for _ in range(sum(len(sizes) for sizes, *_ in jobs) + 1):
        turns = played.dispatcher.decide(most)
        found = [each.uid for decision in turns.placed.values() for each, _ in decision.placed]
        assert sorted(turns.order) == sorted(found)
        for key, decision in turns.placed.items():
            placed[key] += len(decision.placed)
            assert placed[key] >= minimums[key], "a gang is whole or not there"
    assert not played.dispatcher.decide(100).placed, "no job that fits is left"
    on_nodes = Counter(
        each.name for each in played.nodes for uid in played.queue_of if played.allocator.holding(each.name, uid)
    )
    assert on_nodes.total() == placed.total()
    assert max(on_nodes.values(), default=0) <= pods


def test_a_gang_of_different_pods_may_wait_though_another_assignment_exists():
    """The bound that is stated: pods are placed one after the other, without going back."""
    found = []
    for sizes in permutations((40, 60, 25, 75)):
        played = Round([2], (None, None, None))
        played.run([(list(sizes), "a", 4, 0)])
        assert played.could_be_placed(played.all_pods[next(iter(played.jobs))], "a") or played.placed
        found.append(bool(played.placed))
    assert any(found)
    assert not all(found)


@given(CLUSTERS, _jobs(SINGLES | EQUAL), st.permutations(range(8)))
@settings(max_examples=60, deadline=None)
def test_who_came_into_line_first_makes_no_difference(nodes, jobs, order):
    """Only what is known of a job says where it stands."""
    results = []
    for turn in (range(len(jobs)), [at for at in order if at < len(jobs)]):
        played = Round(nodes, (None, None, None))
        for at in range(len(jobs)):
            sizes, queue, minimum, priority = jobs[at]
            played.put(sizes, queue, min(minimum, len(sizes)), priority)
        listed = list(played.jobs.values())
        for key in list(played.jobs):
            played.dispatcher.discard(key)
        for at in turn:
            played.dispatcher.put(listed[at])
        played.decide()
        results.append({uid: where for uid, (_, where) in played.placed.items()})
    assert results[0] == results[1]


def test_the_clusters_are_small_enough_to_try_everything():
    assert isinstance(Round([2, 2], (None, None, None)).nodes[0], NodeFact)
