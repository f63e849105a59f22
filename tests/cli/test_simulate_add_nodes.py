"""`simulate cluster --add-nodes N --like NODE`: which waiting pods further nodes would take."""

from pathlib import Path
from typing import Any

import pytest
from support.card_objects import MEMORY, node, placed, waiting
from support.simulate_command import run_of, simulate_cluster
from typer.testing import Result

CLUSTER = [
    node("a", 2),
    placed("small", "a-0", 3000),
    waiting("fits", MEMORY),
    *(waiting(f"waits-{at}", MEMORY) for at in range(5)),
    waiting("too-large", 2 * MEMORY),
]


def simulate(tmp_path: Path, *arguments: str, live: bool, objects: list[dict[str, Any]] = CLUSTER) -> Result:
    return simulate_cluster(tmp_path, objects, *arguments, live=live)


@pytest.mark.parametrize("live", [False, True])
def test_further_nodes_take_what_a_cluster_that_has_them_takes(tmp_path: Path, live: bool) -> None:
    found = run_of(simulate(tmp_path, "--add-nodes", "2", "--like", "a", "--json", live=live))
    assert found["added"] == {"nodes": 2, "like": "a"}
    assert {each["name"] for each in found["decisions"]} == {*(f"waits-{at}" for at in range(5)), "too-large"}
    assert (found["placed"], found["waiting"], found["nodes"], found["cards"]) == (4, 2, 3, 6)
    assert {each["node"] for each in found["decisions"]} == {"a-added-1", "a-added-2", None}
    has_them = [*CLUSTER, node("b", 2), node("c", 2)]
    plain = run_of(simulate(tmp_path, "--json", live=False, objects=has_them))
    assert plain["waiting"] == found["waiting"]


def test_a_sick_and_cordoned_node_is_replaced_by_a_sound_one(tmp_path: Path) -> None:
    objects = [node("a", unschedulable=True), waiting("waits", MEMORY)]
    arguments = ("--without", "a", "--add-nodes", "1", "--like", "a")
    found = run_of(simulate(tmp_path, *arguments, "--json", live=True, objects=objects))
    assert [(each["name"], each["node"]) for each in found["decisions"]] == [("waits", "a-added-1")]
    text = simulate(tmp_path, *arguments, live=True, objects=objects).stdout
    assert "With 1 more node like a, for the pods that wait without them." in text
    assert "default     waits   a-added-1" in text


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--add-nodes", "1", "--like", "z"], '--like z: nodes "z" not found: the cluster has a'),
        (["--add-nodes", "1"], "--add-nodes goes with --like"),
        (["--like", "a"], "--add-nodes goes with --like"),
        (["--add-nodes", "1", "--like", "a", "--defragment"], "--defragment excludes --add-nodes"),
    ],
)
def test_errors_name_the_option(tmp_path: Path, arguments: list[str], error: str) -> None:
    done = simulate(tmp_path, *arguments, live=True)
    assert done.exit_code in (1, 2)
    assert error in " ".join(f"{done.stderr} {done.exception}".split())
