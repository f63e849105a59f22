"""The columns of resources: names that nothing uses any more do not widen the arrays."""

import numpy as np
from deviceshare.allocation import Allocator
from deviceshare.conf import default_conf
from deviceshare.state import ResourceTable
from support.builders import ask, container, node

ROWS = np.arange(3)


def width(table: ResourceTable) -> int:
    return int(np.asarray(table.amounts.used).shape[1])


def test_columns_that_nothing_uses_are_given_to_other_resources() -> None:
    table = ResourceTable()
    table.set_node(0, {"cpu": 100, "pods": 5})
    table.reserve("configured")
    column = table.column("cpu")
    for number in range(1000):
        table.charge(1, [(f"example.com/{number}", 7), ("cpu", 1)], 1)
        assert table.used_amount(1, f"example.com/{number}") == 7
        if number:
            table.charge(1, [(f"example.com/{number - 1}", 7), ("cpu", 1)], -1)
    assert width(table) <= 8
    assert (table.column("cpu"), table.used_amount(1, "cpu")) == (column, 1)
    assert table.column("configured") >= 0
    assert table.column("example.com/0") == -1
    assert table.free(ROWS[:2], "cpu").tolist() == [100, -1]
    assert {name: amount for name, amount in table.used(1).items() if amount} == {
        "cpu": 1, "example.com/999": 7
    }  # fmt: skip


def test_a_node_of_many_new_resources_has_all_of_them() -> None:
    table = ResourceTable()
    for number in range(50):
        names = {f"example.com/{number}-{each}": each + 1 for each in range(9)}
        table.set_node(0, names)
        assert [table.allocatable(ROWS[:1], name).item() for name in names] == list(names.values())
        assert len({table.column(name) for name in names}) == len(names)
    assert width(table) <= 32
    assert sorted(table.names()) == sorted(names)


def test_columns_that_moved_are_noticed_by_decisions() -> None:
    allocator = Allocator(default_conf())
    allocator.set_node(node("a", first=2))
    request = ask(container(first=1))
    assert allocator.place(request) is not None
    for number in range(40):
        allocator.set_node(node("a", **{f"name-{number}": 2}))
        assert allocator.place(request) is None
        assert allocator.place(ask(container(**{f"name-{number}": 1}))) is not None
        assert allocator.place(ask(container(**{f"name-{number}": 3}))) is None
    allocator.set_node(node("a", first=1))
    assert allocator.place(request) is not None


def test_resources_that_no_node_has_take_no_column_until_a_node_has_them() -> None:
    table = ResourceTable()
    table.set_node(0, {"cpu": 100})
    for number in range(10_000):
        table.charge(0, [(f"example.com/{number}", 7)], 1)
    assert width(table) == 4
    assert (table.used_amount(0, "example.com/5"), table.used(0)["example.com/9999"]) == (7, 7)
    table.set_node(0, {"cpu": 100, "example.com/5": 10})
    assert table.free(ROWS[:1], "example.com/5").tolist() == [3]
    table.charge(0, [("example.com/5", 7), ("example.com/6", 7)], -1)
    assert table.free(ROWS[:1], "example.com/5").tolist() == [10]
    assert table.used_amount(0, "example.com/6") == 0
