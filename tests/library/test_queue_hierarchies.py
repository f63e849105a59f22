"""Queues in hierarchies: capacity's by ``spec.parent``, drf's by annotations. And what queues without any deserve.

The clusters and what is expected of them are those of Volcano's unit tests (pkg/scheduler/plugins/capacity,
plugins/drf) and of recorded sessions, where nothing else is said.
"""

from collections import Counter

import pytest
from deviceshare.conf import Extensions, default_conf, tiers
from deviceshare.conf.model import Plugin
from deviceshare.model import GroupKey, QueueFact
from deviceshare.queueing import Applicant, EnqueueAction, Group, Job
from deviceshare.queueing.hdrf import Hierarchy
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import pod
from support.queue_hierarchies import CAPACITY, GIB, GPU, HDRF, TREE, cluster, conf, play, queue, what
from support.queue_scene import Scene

CPU = what(1000)


def test_a_queue_that_deserves_nothing_comes_after_those_that_deserve_something():
    queues = queue("q", created=1.0), queue("r", created=2.0, deserved={"cpu": 2000})
    placed = play(CAPACITY, *queues, on=cluster(4, 16), a=("q", 4, CPU), b=("r", 4, CPU))
    assert placed == ["b-0", "b-1", "b-2", "a-0"], "at a share of 1 it still comes after its equals"


def test_what_a_queue_deserves_is_no_more_than_it_may_have():
    queues = (
        queue("q", created=1.0, deserved={"cpu": 4000}, capability={"cpu": 2000}),
        queue("r", created=2.0, deserved={"cpu": 4000}),
    )
    placed = play(CAPACITY, *queues, on=cluster(4, 16), a=("q", 4, CPU), b=("r", 4, CPU))
    assert placed == ["a-0", "b-0", "b-1", "a-1"]


def test_pods_count_in_the_shares_of_jobs():
    only_drf = replace(default_conf(), tiers=tiers("gang", "drf"))
    placed = play(only_drf, on=cluster(16, 32, pods=8), a=("default", 8, what(100)), b=("default", 8, CPU))
    assert placed == ["a-0", "b-0", "a-1", "b-1", "a-2", "b-2", "a-3", "b-3"]


def test_pods_count_in_the_shares_of_queues_and_in_no_bound():
    queues = queue("q", created=1.0, capability={"pods": 1}), queue("r", created=2.0)
    jobs = {"a": ("q", 6, what(100)), "b": ("r", 6, CPU)}
    placed = play(default_conf(), queue("q"), queue("r", created=1.0), on=cluster(64, 256, pods=6), **jobs)
    assert placed == ["a-0", "b-0", "a-1", "b-1", "a-2", "b-2"]
    placed = play(default_conf(), *queues, on=cluster(64, 256, pods=6), a=jobs["a"])
    assert len(placed) == 6


def test_a_queue_of_weight_0_gets_what_is_left_over_and_that_last():
    queues = queue("none", weight=0), queue("some", created=1.0, capability={"cpu": 5000})
    jobs = {"a": ("none", 8, CPU), "b": ("some", 8, CPU)}
    assert play(default_conf(), *queues, **jobs) == [*(f"b-{at}" for at in range(5)), *(f"a-{at}" for at in range(3))]
    alone = replace(default_conf(), extensions=Extensions(borrowing=False))
    assert play(alone, *queues, **jobs) == [f"b-{at}" for at in range(5)]


# What follows are queues with parents.

Q3 = [
    queue("q3", deserved=(4, 4), capability=(4, 4)),
    queue("q31", "q3", deserved=(2, 2), capability=(4, 4)),
    queue("q32", "q3", deserved=(2, 2), capability=(4, 4)),
    queue("q33", "q3", capability=(4, 4)),
]
Q7 = [
    queue("q7", capability=(6, 4)),
    queue("q71", "q7", capability=(6, 4), guarantee=(4, 3)),
    queue("q72", "q7", capability=(6, 4), guarantee=(4, 3)),
]
CASES = {
    "a queue without children serves": ([queue("q1", capability=(4, 4)), queue("q11", "q1", capability=(1, 1))],
                                        {"a": ("q11", 1, what(1000, 1))}, {"a": 1}),
    "up to its capability": (Q3, {"a": ("q31", 2, what(2000, 2))}, {"a": 2}),
    "a parent's capability bounds it": (
        Q3, {"a": ("q31", 1, what(2000, 2)), "b": ("q32", 1, what(2000, 2)), "c": ("q33", 1, what(3000, 3))},
        {"a": 1, "b": 1},
    ),
    "what is not named is inherited": (
        [queue("q5", capability={"memory": 4 * GIB}), queue("q51", "q5", capability={"memory": 2 * GIB})],
        {"a": ("q51", 1, what(1000))}, {"a": 1},
    ),
    "guarantees beyond the capability": (Q7, {"a": ("q71", 8, CPU), "b": ("q72", 8, CPU)}, {"a": 3, "b": 3}),
    "cards are inherited": (
        [queue("q1"), *(queue(f"q1{at}", "q1", capability={"cpu": 4000, "memory": 4 * GIB, GPU: 4}) for at in (1, 2))],
        {"a": ("q11", 1, what(1000, 1, **{GPU: 4})), "b": ("q12", 1, what(1000, 1, **{GPU: 4}))}, {"a": 1, "b": 1},
    ),
    "a sibling's guarantee is kept back below a capability": (
        [queue("q", capability={"cpu": 4000}), queue("sure", "q", guarantee={"cpu": 3000}), queue("other", "q")],
        {"a": ("other", 4, CPU)}, {"a": 1},
    ),
    "and not below a root without one": (
        [queue("sure", guarantee={"cpu": 3000}), queue("other")], {"a": ("other", 8, CPU)}, {"a": 8},
    ),
    "a root has nothing of what its capability does not name": (
        [queue("root", capability={GPU: 4}), queue("q")], {"a": ("q", 1, CPU)}, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_queues_with_parents(case):
    queues, jobs, expected = CASES[case]
    placed = play(TREE, *queues, on=cluster(8, 8, **{GPU: 8}), **jobs)
    assert Counter(name[0] for name in placed) == expected


def test_a_job_over_the_capability_of_a_parent_gets_a_reason_and_starts_when_there_is_room():
    scene = Scene(cluster(), conf=TREE, queues=Q3)
    scene.single("a", what(3000, 1), queue="q31", created=1.0)
    scene.single("b", what(3000, 1), queue="q32", created=2.0)
    assert scene.decide() == ["a"]
    assert scene.reasons == {"b": "queue 'q3' has a capability of 4 of cpu, 3 used, 3 asked"}
    scene.end("a")
    assert scene.decide() == ["b"]


def test_a_group_gets_in_as_far_as_all_queues_above_hold_it():
    queues = queue("q6", capability=(2, 4)), queue("q61", "q6"), queue("q62", "q6")
    scene = Scene(cluster(), conf=TREE, queues=queues)
    enqueue = EnqueueAction(scene.queues, TREE)
    for created, (name, where) in enumerate((("pg10", "q61"), ("pg11", "q62"))):
        job = Job(queue=where, group=Group(key=GroupKey(f"ns/{name}"), pods=(pod(name),)), created=float(created))
        enqueue.put(Applicant(job, {"cpu": 2000, "memory": 4 * GIB}))
    found = enqueue.decide(0.0)
    assert [each.job.key for each in found.admitted] == ["ns/pg10"]
    assert [str(why) for _, why in found.rejected] == ["queue 'q6' has a capability of 2 of cpu, 2 promised, 2 asked"]


DEPARTMENTS = [
    queue("one", deserved={"cpu": 4000}),
    queue("two", deserved={"cpu": 4000}),
    queue("one-a", "one", created=1.0, deserved={"cpu": 2000}),
    queue("one-b", "one", created=2.0, deserved={"cpu": 2000}),
    queue("two-a", "two", created=3.0, deserved={"cpu": 4000}),
]


@pytest.mark.parametrize(
    ("at_once", "expected"),
    [(True, {"a": 2, "b": 2, "c": 4}), (False, {"a": 4, "b": 4})],
)
def test_queues_are_compared_where_their_ways_part(at_once, expected):
    jobs = {"a": ("one-a", 8, CPU), "b": ("one-b", 8, CPU), "c": ("two-a", 8, CPU)}
    placed = play(conf(Plugin("capacity", hierarchy=True), parent_shares=at_once), *DEPARTMENTS, **jobs)
    assert Counter(name[0] for name in placed) == expected, "in Volcano only the next session sees what 'one' has"


@pytest.mark.parametrize("at_once", [True, False])
def test_the_next_round_sees_what_a_parent_got_in_the_one_before(at_once):
    scene = Scene(cluster(), conf=conf(Plugin("capacity", hierarchy=True), parent_shares=at_once), queues=DEPARTMENTS)
    for number in range(2):
        scene.gang(f"a{number}", 1, CPU, queue="one-a", created=float(number))
    scene.decide()
    scene.gang("b", 8, CPU, minimum=1, queue="one-b", created=2.0)
    scene.gang("c", 8, CPU, minimum=1, queue="two-a", created=3.0)
    scene.decide()
    first = next(iter(scene.turns.placed.values())).placed[0][0]
    assert first.name == "c-0", "department 'one' has a share already, 'two' has none"


MALFORMED = [
    ([queue("q", "nowhere")], "q",
     "Queue q: spec.parent: 'nowhere' is not valid: expected the name of a queue that exists"),
    ([queue("q", "p"), queue("p", "nowhere")], "q",
     "Queue p: spec.parent: 'nowhere' is not valid: expected the name of a queue that exists"),
    ([queue("q", "q")], "q", "Queue q: spec.parent: 'q' is not valid: expected a queue that is not below this one"),
    ([queue("q", "p"), queue("p", "q")], "p",
     "Queue p: spec.parent: 'q' is not valid: expected a queue that is not below this one"),
    ([queue("under", "q"), queue("q", "p"), queue("p", "q")], "under",
     "Queue q: spec.parent: 'p' is not valid: expected a queue that is not below this one"),
    ([queue("q"), queue("c", "q"), queue("b", "q")], "q",
     "queue 'q' is the parent of 'b': only queues without children serve"),
]  # fmt: skip


@pytest.mark.parametrize(("queues", "name", "words"), MALFORMED)
def test_what_is_wrong_in_a_hierarchy_concerns_only_the_queues_below(queues, name, words):
    scene = Scene(cluster(), conf=TREE, queues=[*queues, queue("good"), queue("better", "good")])
    assert scene.queues.obstacle(name) == words
    assert not scene.queues.obstacle("better")
    assert not scene.queues.unready
    scene.single("p", CPU, queue="better")
    assert scene.decide() == ["p"]


@pytest.mark.parametrize(("queues", "name", "words"), MALFORMED)
def test_as_in_volcano_it_concerns_all(queues, name, words):
    strict = conf(Plugin("capacity", hierarchy=True), hierarchy_isolation=False)
    scene = Scene(cluster(), conf=strict, queues=[*queues, queue("root"), queue("good")])
    assert not scene.queues.obstacle(name)
    scene.single("p", CPU, queue=name)
    assert scene.queues.unready
    ready = Scene(cluster(), conf=strict, queues=[queue("root"), queue("good")])
    ready.single("p", CPU, queue="good")
    assert not ready.queues.unready
    ready.queues.remove_queue("root")
    assert ready.queues.unready == "queue 'root' does not exist"


def test_a_queue_may_get_another_parent():
    scene = Scene(cluster(), conf=TREE, queues=[queue("p", capability={"cpu": 2000}), queue("q", "p"), queue("r", "p")])
    scene.single("a", what(2000), queue="q")
    scene.single("b", what(2000), queue="r")
    assert scene.decide() == ["a"]
    scene.queues.set_queue(queue("q"))
    assert scene.decide() == ["b"], "what 'a' has counts in 'p' no more"
    scene.queues.configure(CAPACITY)
    scene.queues.refresh()
    assert not scene.queues.account("p").used


amounts = st.integers(0, 6)


@st.composite
def trees(draw):
    """Queues, each below one that was drawn before it or the root; some with a capability."""
    names = ["root"]
    found = [queue("root", capability=draw(st.sampled_from([{}, {"cpu": 5000, "memory": 64 * GIB}])))]
    for at in range(draw(st.integers(1, 6))):
        capability = draw(st.one_of(st.just({}), amounts.map(lambda most: {"cpu": most * 1000})))
        guarantee = draw(st.one_of(st.just({}), amounts.map(lambda least: {"cpu": least * 500})))
        found.append(queue(f"q{at}", draw(st.sampled_from(names)), capability=capability, guarantee=guarantee))
        names.append(f"q{at}")
    return found


@settings(max_examples=150, deadline=None)
@given(trees(), st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3), st.integers(1, 3)), max_size=8), st.data())
def test_no_queue_above_another_passes_its_capability_at_any_moment(queues, jobs, data):
    scene = Scene(cluster(8, 64), conf=TREE, queues=queues)
    serving = [each.name for each in queues if not scene.queues.obstacle(each.name)]
    parents = {each.name: each.parent for each in queues}
    for at, (where, count, cpu) in enumerate(jobs):
        scene.gang(f"j{at}", count, what(cpu * 1000, 1), queue=serving[where % len(serving)], minimum=min(count, 2))
        scene.decide(most=2)
        if scene.pods and data.draw(st.booleans()):
            scene.end(data.draw(st.sampled_from(sorted(scene.pods))))
        used: Counter[str] = Counter()
        for _, what_runs in scene.pods.values():
            name = scene.queues._pods[what_runs.uid].account.fact.name
            while name:
                used[name] += what_runs.ask.containers[0].get("cpu") or 0
                name = parents[name]
        for each in queues:
            assert used[each.name] <= (each.capability.get("cpu") or used[each.name])
            assert scene.queues.account(each.name).used["cpu"] == used[each.name]


# What follows are queues with paths.


def on_path(name: str, path: str, weights: str, created: float = 0.0) -> QueueFact:
    levels = zip(path.split("/"), map(float, weights.split("/")), strict=True)
    return QueueFact(name=name, hierarchy=tuple(levels), created=created)


RESCALING = (
    [on_path("sci", "sci", "50"), on_path("dev", "eng/dev", "50/50"), on_path("prod", "eng/prod", "50/50")],
    cluster(10, 10, pods=50),
    {"a": ("sci", 10, what(1000, 1)), "b": ("dev", 10, what(1000)), "c": ("prod", 10, what(0, 1))},
    {"a": 5, "b": 5, "c": 5},
)
BLOCKING = (
    [
        on_path("pg1", "pg1", "25"), on_path("pg2", "pg2", "25"), on_path("pg31", "pg3/pg31", "25/50"),
        on_path("pg32", "pg3/pg32", "25/50"), on_path("pg4", "pg4", "25"),
    ],
    cluster(30, 30, pods=500),
    {"a": ("pg1", 30, CPU), "b": ("pg2", 30, CPU), "c": ("pg31", 30, CPU), "d": ("pg31", 30, what(0, 1)),
     "e": ("pg4", 30, what(0, 1))},
    {"a": 10, "b": 10, "c": 10, "d": 15, "e": 15},
)  # fmt: skip
WEIGHTS = (
    [on_path("one", "one", "1"), on_path("two", "two", "2")],
    cluster(9, 9, pods=500),
    {"a": ("one", 9, CPU), "b": ("two", 9, CPU)},
    {"a": 3, "b": 6},
)
UNNAMED = (
    [queue("q"), on_path("one", "one", "1", 1.0)],
    cluster(4),
    {"a": ("q", 3, CPU), "b": ("one", 3, CPU)},
    {"a": 3, "b": 1},
)
"""A queue without a path is compared by age."""


@pytest.mark.parametrize("case", [RESCALING, BLOCKING, WEIGHTS, UNNAMED])
def test_queues_with_paths(case):
    queues, on, jobs, expected = case
    placed = play(HDRF, *queues, on=on, **jobs)
    assert Counter(name[0] for name in placed) == expected


def test_in_volcano_a_queue_that_waits_in_the_heap_stays_where_it_was():
    """A recorded session: when 'sci' has something its other queue still comes before 'eng'."""
    queues = (
        on_path("q0", "sci/q0", "5/1", 0.0), on_path("q1", "sci/q1", "5/8", 1.0), on_path("q2", "eng/q2", "5/2", 2.0),
        on_path("q3", "eng/q3", "5/4", 3.0), on_path("q4", "q4", "2", 4.0),
    )  # fmt: skip
    jobs = {"a": ("q0", 6, what(100)), "b": ("q1", 5, what(2000, 2)), "c": ("q2", 5, what(1000, 4))}
    late = conf(Plugin("drf", hierarchy=True), parent_shares=False)
    for conf_of, expected in ((late, "abc"), (HDRF, "acb")):
        placed = play(conf_of, *queues, on=cluster(16, 48, pods=122), minimum=5, **jobs)
        assert "".join(dict.fromkeys(name[0] for name in placed)) == expected


def test_a_node_has_the_weight_that_the_oldest_queue_gives_it():
    tree = Hierarchy({"cpu": 10})
    facts = [on_path("new", "eng/a", "2/1", 2.0), on_path("old", "eng/b", "5/1", 1.0), on_path("none", "sci", "1")]
    tree.set_queues(facts)
    tree.add_request("j", "new", [("cpu", 10)], 1)
    tree.charge("j", [("cpu", 5)], 1)
    assert tree.levels("old")[0] == (False, 0.1)
    assert tree.levels("none") == ((True, 0.0),)


paths = st.lists(st.sampled_from("abc"), max_size=3).map(lambda parts: tuple((part, 1.0) for part in parts))


@settings(deadline=None)
@given(
    st.lists(paths, min_size=1, max_size=4),
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 4), st.integers(0, 4), st.booleans()),
        max_size=25,
    ),
)
def test_shares_that_follow_changes_are_those_of_a_new_tree(where, steps):
    facts = [QueueFact(name=f"q{at}", hierarchy=path) for at, path in enumerate(where)]
    total = {"cpu": 10, "memory": 12, "pods": 9}

    def tree() -> Hierarchy:
        found = Hierarchy(total)
        found.set_queues(facts)
        return found

    follows, held = tree(), []
    for group, at, cpu, memory, leaves in steps:
        if leaves and held:
            name, of, amounts = held.pop(0)
            follows.charge(name, amounts, -1)
            follows.add_request(name, of, amounts, -1)
        else:
            name, of = f"g{group}-{at % len(facts)}", f"q{at % len(facts)}"
            amounts = [("cpu", cpu), ("memory", memory), ("pods", 1)]
            held.append((name, of, amounts))
            follows.add_request(name, of, amounts, 1)
            follows.charge(name, amounts, 1)
        new = tree()
        for name, of, amounts in held:
            new.add_request(name, of, amounts, 1)
            new.charge(name, amounts, 1)
        for fact in facts:
            assert follows.levels(fact.name) == new.levels(fact.name)
