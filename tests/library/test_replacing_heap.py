"""A heap whose items can be replaced and removed, against a list that is sorted anew."""

import weakref

from deviceshare.queueing.replacing_heap import ReplacingHeap
from hypothesis import given
from hypothesis import strategies as st

NAMES = st.integers(0, 5)
ACTIONS = st.lists(st.tuples(NAMES, st.none() | st.tuples(st.floats(0, 2), st.text(max_size=1))), max_size=200)


@given(ACTIONS)
def test_the_first_item_is_that_of_a_sorted_list(actions: list[tuple[int, tuple[float, str] | None]]) -> None:
    heap: ReplacingHeap[tuple[float, str], int] = ReplacingHeap()
    items: dict[int, tuple[tuple[float, str], int]] = {}
    for number, (name, key) in enumerate(actions):
        if key is None:
            assert heap.discard(name) == (items.pop(name, None) is not None)
        else:
            items[name] = (key, number)
            heap.put(name, key, number)
        assert len(heap) == len(items)
        assert heap.first() == min(items.values(), default=None)


class Item:
    """An item that can be referred to weakly."""


def test_items_that_come_and_go_behind_the_first_leave_nothing_behind() -> None:
    heap: ReplacingHeap[int, Item] = ReplacingHeap()
    alive: weakref.WeakSet[Item] = weakref.WeakSet()
    heap.put("first", 0, Item())
    for number in range(1, 1000):
        alive.add(item := Item())
        heap.put(number, number, item)
        heap.discard(number)
    del item
    assert len(alive) <= 2 + 64
