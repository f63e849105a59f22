"""`simulate cluster --without NODE`: the pods of the node go where they would be placed again, or wait."""

import json
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from deviceshare_cli.errors import CommandError
from deviceshare_cli.simulate import command
from support.card_objects import MEMORY, REPLICA_SET, node, placed, waiting
from support.simulate_command import run_of, simulate_cluster
from typer.testing import Result

DAEMON_SET = REPLICA_SET | {"kind": "DaemonSet", "name": "agent", "uid": "agent"}
CLUSTER = [
    node("a", 2),
    node("b"),
    placed("small", "a-0", 3000),
    placed("whole", "a-1", MEMORY),
    placed("agent", "a-0", 100, owner=DAEMON_SET),
    placed("bare", "a-0", 200, owner=None),
    placed("stays", "b-0", 4000),
]


@pytest.fixture
def simulate(tmp_path: Path):
    def simulate(*arguments: str, objects: list[dict[str, Any]] = CLUSTER, live: bool = False) -> Result:
        return simulate_cluster(tmp_path, objects, *arguments, live=live)

    return simulate


@pytest.mark.parametrize("live", [False, True])
def test_pods_that_a_controller_creates_again_are_placed_on_the_rest(simulate, live: bool) -> None:
    found = run_of(simulate("--without", "a", "--json", live=live))
    assert found["without"] == {
        "nodes": ["a"],
        "pods": 2,
        "excluded": [
            {"reason": "pod of a DaemonSet", "pods": 1},
            {"reason": "no controller that creates it again", "pods": 1},
        ],
    }
    decided = {each["name"]: each for each in found["decisions"]}
    assert set(decided) == {"small", "whole"}
    assert decided["small"]["devices"] == [{"container": "main", "id": "b-0", "memory": 3000, "cores": 0}]
    assert decided["whole"]["node"] is None
    assert decided["whole"]["reason"].startswith("0/1 nodes are unavailable: 1 Insufficient volcano.sh/vgpu-memory")
    assert (found["nodes"], found["cards"]) == (1, 1)
    assert found["alloc_pct"] == {"before": 40.0, "after": 70.0}


def test_the_text_names_the_pods_that_are_placed_and_those_that_wait(simulate) -> None:
    text = simulate("--without", "a").stdout
    assert "Without node a: 2 pods to be placed again." in text
    assert "PODS   REASON\n1      pod of a DaemonSet\n1      no controller that creates it again" in text
    assert "default     small   b      b-0 (3000 MiB)" in text
    (line,) = (line for line in text.splitlines() if line.startswith("default     whole"))
    assert "1 Insufficient volcano.sh/vgpu-memory" in line


def test_waiting_pods_of_the_cluster_come_first_and_several_nodes_go(simulate) -> None:
    # The pod that waits gets card c-0 before node a is gone.
    objects = [*CLUSTER, node("c"), waiting("pending", MEMORY)]
    found = run_of(simulate("--without", "a", "--json", objects=objects))
    assert {each["name"]: each["node"] for each in found["decisions"]} == {"small": "b", "whole": None}
    both = run_of(simulate("--without", "a", "--without", "b", "--json", objects=objects))
    assert both["without"]["nodes"] == ["a", "b"]
    assert {each["name"]: each["node"] for each in both["decisions"]} == dict.fromkeys(("small", "whole", "stays"))


@pytest.mark.parametrize("owner", [None, REPLICA_SET])
def test_waiting_pods_of_a_running_system_are_not_placed_on_the_node_first(simulate, owner) -> None:
    pending = waiting("pending", 8000)
    pending["metadata"]["ownerReferences"] = [owner] if owner else []
    objects = [node("a"), node("b"), placed("small", "a-0", 2000), placed("stays", "b-0", 1000), pending]
    found = run_of(simulate("--without", "a", "--json", objects=objects, live=True))
    assert found["without"] == {"nodes": ["a"], "pods": 1, "excluded": []}
    # It gets the rest of b-0, and the pod of the node comes after it.
    assert {each["name"]: each["node"] for each in found["decisions"]} == {"small": None}
    full = [node("a"), node("b"), placed("whole", "b-0", MEMORY), pending]
    found = run_of(simulate("--without", "a", "--json", objects=full, live=True))
    assert (found["without"]["pods"], found["without"]["excluded"], found["decisions"]) == (0, [], [])


def test_the_progress_bar_counts_the_pods_of_the_node(simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[int, str]] = []

    @contextmanager
    def progress_bar(total: int, description: str):
        shown.append((total, description))
        yield lambda done, _: shown.append((done, "placed"))

    monkeypatch.setattr(command, "progress_bar", progress_bar)
    simulate("--without", "a", "--policy", "binpack,spread", live=True)
    assert shown == [(2, "binpack"), (1, "placed"), (2, "spread"), (1, "placed")]


def test_pods_that_are_added_come_with_those_of_the_node(simulate, tmp_path: Path) -> None:
    (tmp_path / "more.json").write_text(json.dumps(waiting("more", 2500)))
    found = run_of(simulate("--without", "a", "--pods", str(tmp_path / "more.json"), "--json"))
    assert {each["name"]: each["node"] for each in found["decisions"]} == {"small": "b", "whole": None, "more": "b"}


def test_a_gang_with_a_member_elsewhere_gets_its_pod_again(simulate) -> None:
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": "default"},
        "spec": {"minMember": 2, "queue": "default"},
        "status": {"phase": "Running"},
    }
    members = [placed("g-0", "a-0", 3000), placed("g-1", "b-0", 3000)]
    for each in members:
        each["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "gang"
    found = run_of(simulate("--without", "a", "--json", objects=[node("a"), node("b"), group, *members]))
    assert {each["name"]: each["node"] for each in found["decisions"]} == {"g-0": "b"}


def test_a_node_without_pods_leaves_nothing_to_place(simulate) -> None:
    found = run_of(simulate("--without", "d", "--json", objects=[*CLUSTER, node("d")]))
    assert (found["pods"], found["without"]["pods"], found["decisions"]) == (0, 0, [])
    assert (
        "Without node d: 0 pods to be placed again." in simulate("--without", "d", objects=[*CLUSTER, node("d")]).stdout
    )


def test_an_unknown_node_is_named(simulate) -> None:
    with pytest.raises(CommandError, match=r'^--without x: nodes "x" not found: the cluster has a, b$'):
        raise simulate("--without", "a", "--without", "x").exception
    excluded = simulate("--without", "a", "--defragment")
    assert excluded.exit_code == 2
    assert "--defragment excludes --without" in " ".join(excluded.output.replace("│", " ").split())
