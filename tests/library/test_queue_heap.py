"""Heaps of queues whose keys change while the queues are served."""

import pytest
from deviceshare.queueing.queue_heap import CurrentQueueHeap, VolcanoQueueHeap
from hypothesis import given
from hypothesis import strategies as st

QUEUES = "abcdefgh"


class GoHeap:
    """Go's container/heap over a slice, as Volcano's priority queue uses it: transcribed from go1.22."""

    def __init__(self, less) -> None:
        self.less, self.items = less, []

    def push(self, item) -> None:
        self.items.append(item)
        self.up(len(self.items) - 1)

    def pop(self):
        n = len(self.items) - 1
        self.swap(0, n)
        self.down(0, n)
        return self.items.pop()

    def up(self, j: int) -> None:
        while True:
            i = int((j - 1) / 2)  # Go divides towards zero
            if i == j or not self.less(self.items[j], self.items[i]):
                break
            self.swap(i, j)
            j = i

    def down(self, i0: int, n: int) -> None:
        i = i0
        while True:
            j1 = 2 * i + 1
            if j1 >= n or j1 < 0:
                break
            j = j1
            if (j2 := j1 + 1) < n and self.less(self.items[j2], self.items[j1]):
                j = j2
            if not self.less(self.items[j], self.items[i]):
                break
            self.swap(i, j)
            i = j

    def swap(self, i: int, j: int) -> None:
        self.items[i], self.items[j] = self.items[j], self.items[i]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("pop"), st.just(""), st.just(0)),
        st.tuples(st.just("push"), st.sampled_from(QUEUES), st.just(0)),
        st.tuples(st.just("key"), st.sampled_from(QUEUES), st.integers(0, 5)),
    ),
    max_size=40,
)


@given(st.permutations(QUEUES), st.dictionaries(st.sampled_from(QUEUES), st.integers(0, 5)), steps)
def test_a_changed_key_takes_effect_when_volcanos_heap_compares_it(names, known, changes) -> None:
    keys = dict.fromkeys(QUEUES, 0) | known
    heap = VolcanoQueueHeap(names, lambda queue: (keys[queue],))
    model = GoHeap(lambda one, other: keys[one] < keys[other])
    for name in sorted(names):
        model.push(name)
    for action, name, key in changes:
        if action == "key":
            keys[name] = key
        elif action == "push":
            heap.push(name)
            model.push(name)
        elif model.items:
            assert heap.pop() == model.pop()
        assert bool(heap) == bool(model.items)
    assert [heap.pop() for _ in list(model.items)] == [model.pop() for _ in list(model.items)]
    assert not heap


@given(st.permutations(QUEUES), st.dictionaries(st.sampled_from(QUEUES), st.integers(0, 5)), steps)
def test_the_first_queue_is_that_of_the_current_keys_if_keys_only_grow(names, known, changes) -> None:
    keys = dict.fromkeys(QUEUES, 0) | known
    heap, waiting = CurrentQueueHeap(names, lambda queue: (keys[queue], queue)), set(names)
    for action, name, more in changes:
        if action == "key":
            keys[name] += more
        elif action == "push" and name not in waiting:
            heap.push(name)
            waiting.add(name)
        elif action == "pop" and waiting:
            first = heap.pop()
            assert first == min(waiting, key=lambda queue: (keys[queue], queue))
            waiting.remove(first)
        assert bool(heap) == bool(waiting)


class Circular:
    """A key that comes before its successor: no order, as when paths of hierarchies are compared where they part."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __lt__(self, other: "Circular") -> bool:
        return (other.number - self.number) % 3 == 1

    def __le__(self, other: "Circular") -> bool:
        return self < other or self.number == other.number


@pytest.mark.timeout(100)
def test_a_queue_is_returned_though_their_order_is_circular() -> None:
    shift = iter(range(1000))
    heap = CurrentQueueHeap("abc", lambda queue: (Circular("abc".index(queue) + next(shift)),))
    assert {heap.pop() for _ in "abc"} == set("abc")
    assert not heap
