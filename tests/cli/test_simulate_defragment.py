"""`simulate cluster --defragment`: moves are feasible in their order, and place the pods that the plan names."""

import json
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deviceshare.model import PodFact, PodUid
from deviceshare_cli.errors import CommandError
from deviceshare_cli.main import app
from deviceshare_cli.simulate.defragmentation import Defragmentation, PlannedMove
from deviceshare_cli.simulate.plan_report import as_text
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from support.card_objects import MEMORY, SLOTS, node, placed, snapshot, waiting
from typer.testing import CliRunner, Result

Object = dict[str, Any]
SPREAD = [node("a"), node("b"), placed("small-a", "a-0", 4000), placed("small-b", "b-0", 4000)]
"""A small pod on each of two cards, where a whole one would fit on neither."""
LARGE = waiting("large", MEMORY)


def simulate(directory: Path, objects: list[Object], *arguments: str, pods: list[Object] | None = None) -> Result:
    directory.mkdir(exist_ok=True)
    (directory / "all.json").write_text(json.dumps(objects))
    asked = directory.parent / "pods.json"
    asked.write_text(json.dumps(pods or []))
    more = ["--pods", str(asked)] if pods else []
    return CliRunner().invoke(app, ["simulate", "cluster", f"local:{directory}", *more, *arguments])


def planned(directory: Path, objects: list[Object], *arguments: str, pods: list[Object] | None = None) -> Any:
    result = simulate(directory, objects, "--defragment", "--json", *arguments, pods=pods)
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


def decisions(directory: Path, objects: list[Object], *arguments: str) -> dict[str, str | None]:
    result = simulate(directory, objects, "--json", *arguments)
    if "there are no pods to place" in str(result.exception):
        return {}
    (run,) = json.loads(result.stdout)["runs"]
    return {each["name"]: each["devices"][0]["id"] if each["node"] else None for each in run["decisions"]}


def test_a_move_frees_the_card_that_a_waiting_pod_needs(tmp_path: Path) -> None:
    found = planned(tmp_path / "c", [*SPREAD, LARGE])
    (move,) = found["moves"]
    assert (move["namespace"], move["name"], move["gain"]) == ("default", "small-a", 1.0)
    device = {"container": "main", "memory": 4000, "cores": 0}
    assert move["from"] == {"node": "a", "devices": [device | {"id": "a-0"}]}
    assert move["to"] == {"node": "b", "devices": [device | {"id": "b-0"}]}
    assert found["gain"] == 1.0
    assert found["fragmentation"] == {"before": 1.2, "after": 0.2}
    assert (found["pods"], found["restartable"], found["excluded"], found["budget"]) == (2, 2, [], 1)
    assert found["policy"] == "configured (none)"
    assert found["waiting"] == {"without": 1, "with": 0}
    (large,) = found["placed_only_with"]
    assert (large["name"], large["node"], large["devices"][0]["id"]) == ("large", "a", "a-0")
    assert found["placed_only_without"] == []


def test_the_text_has_the_moves_the_pods_and_commands_that_can_be_copied(tmp_path: Path) -> None:
    bare = placed("bare", "b-0", 100, owner=None)
    text = simulate(tmp_path / "c", [*SPREAD, bare, LARGE], "--defragment", "--moves", "3").stdout
    assert text.startswith(
        "Plan of 1 move, at most 3, under the policy configured (none). 2 of 3 placed pods with cards may be restarted."
    )
    assert "NAMESPACE   POD       FROM                TO                  GAIN" in text
    assert "default     small-a   a: a-0 (4000 MiB)   b: b-0 (4000 MiB)   1.00" in text
    assert "Fragmentation, weighted as in docs/policies.md: 1.19 -> 0.19 cards." in text
    assert "Pods that wait: 1 without the plan, 0 with it.\nPlaced only with the plan:" in text
    assert "default     large   a      a-0 (10000 MiB)" in text
    assert "PODS   REASON\n1      no controller that creates it again" in text
    commands = [shlex.split(line)[1:] for line in text.splitlines() if line.startswith("kubectl")]
    assert commands == [["cordon", "a"], ["delete", "pod", "-n", "default", "small-a"], ["uncordon", "a"]]
    assert "they may differ from the plan" in text


@pytest.mark.parametrize(("after", "waste"), [(1.25, -0.25), (1.0, None)])
def test_the_text_has_the_part_of_the_gain_that_is_less_waste_of_instances(after: float, waste: float | None) -> None:
    fact = PodFact(uid=PodUid("u"), namespace="ns", name="p")
    move = PlannedMove(fact, "a", (), "b", (), gain=1.0)
    text = as_text(Defragmentation("binpack", 1, 1, [], [move], (2.0, after), (0, 0), [], []))
    line = f"Capacity of devices beyond the requests of their pods: {waste} cards."
    assert (line in text) == (waste is not None)
    assert ("Capacity of devices" in text) == (waste is not None)


def test_a_plan_for_further_pods(tmp_path: Path) -> None:
    assert planned(tmp_path / "c", SPREAD)["waiting"] == {"without": 0, "with": 0}
    found = planned(tmp_path / "c", SPREAD, "--copies", "2", pods=[LARGE])
    assert found["waiting"] == {"without": 2, "with": 1}
    assert [each["name"] for each in found["placed_only_with"]] == ["large"]
    waits = planned(tmp_path / "c", [*SPREAD, LARGE], pods=[waiting("first", 6000)])
    assert [each["name"] for each in waits["placed_only_with"]] == ["large"], "pods of the cluster come first"
    assert [each["name"] for each in waits["placed_only_without"]] == ["first"]
    assert waits["waiting"] == {"without": 1, "with": 1}
    text = simulate(tmp_path / "c", [*SPREAD, LARGE], "--defragment", pods=[waiting("first", 6000)]).stdout
    assert "Placed only without the plan:\nNAMESPACE   NAME    NODE   DEVICES\ndefault     first   a" in text


@pytest.mark.parametrize("size", [2000, MEMORY])
def test_more_of_the_pods_of_the_cluster_are_expected_under_each_policy(tmp_path: Path, size: int) -> None:
    # All that is free is of use to pods of 2,000 MiB, and of none to pods with whole cards.
    pods = [placed(f"p{at:02}", f"{'ab'[at % 2]}-0", 2000) for at in range(4)]
    on_card = MEMORY // size
    pods += [placed(f"full-{at:02}", f"full-{at // on_card}", size, owner=None) for at in range(12 * on_card)]
    objects = [node("a"), node("b"), node("full", 12), *pods]
    found = planned(tmp_path / "c", objects, "--policy", "binpack", "--moves", "2")
    assert bool(found["moves"]) == (size == MEMORY)


def local_volume(on: str) -> list[Object]:
    """Return a volume on a node, and the claim ``data`` that is bound to it."""
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}]}]
    common = {"storageClassName": "disks", "accessModes": ["ReadWriteOnce"]}
    volume: Object = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}}
    affinity = {"required": {"nodeSelectorTerms": terms}}
    claim_of = {"namespace": "default", "name": "data"}
    volume["spec"] = {**common, "capacity": {"storage": "1Gi"}, "local": {"path": "/d"}, "nodeAffinity": affinity}
    volume["spec"]["claimRef"] = claim_of
    claim: Object = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": claim_of}
    claim["spec"] = {**common, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "disk"}
    return [volume, claim]


@pytest.mark.parametrize(("on", "moves"), [("a", ["small-b"]), ("b", ["small-a"])])
def test_a_pod_stays_where_its_volume_is(tmp_path: Path, on: str, moves: list[str]) -> None:
    nodes = [node("a"), node("b")]
    for each in nodes:
        each["metadata"]["labels"] = {"kubernetes.io/hostname": each["metadata"]["name"]}
    pods = [placed("small-a", "a-0", 4000), placed("small-b", "b-0", 4000)]
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    pods["ab".index(on)]["spec"]["volumes"] = volumes
    found = planned(tmp_path / "c", [*nodes, *local_volume(on), *pods, LARGE])
    assert [move["name"] for move in found["moves"]] == moves
    assert found["restartable"] == 2


def test_a_pod_is_not_moved_to_pods_that_exclude_it(tmp_path: Path) -> None:
    small = placed("small-a", "a-0", 4000)
    small["metadata"]["labels"] = {"app": "small"}
    terms = [{"labelSelector": {"matchLabels": {"app": "small"}}, "topologyKey": "kubernetes.io/hostname"}]
    other = placed("other", "b-0", 4000, owner=None)
    nodes = [node("a"), node("b")]
    for each in nodes:
        each["metadata"]["labels"] = {"kubernetes.io/hostname": each["metadata"]["name"]}
    assert planned(tmp_path / "c", [*nodes, small, other])["moves"]
    other["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    assert not planned(tmp_path / "c", [*nodes, small, other])["moves"]


@pytest.mark.parametrize(("created", "target"), [(None, "a"), ("2020-01-01T00:00:00Z", "c")], ids=["new", "overdue"])
def test_no_pod_is_moved_to_a_node_that_is_reserved_for_one_that_waits_too_long(
    tmp_path: Path, created: str | None, target: str
) -> None:
    large = waiting("large", MEMORY)
    if created:
        large["metadata"]["creationTimestamp"] = created  # node a is reserved for it
    bare = placed("bare", "a-0", 4000, owner=None)
    objects = [node("a"), node("b"), node("c"), bare, placed("small-b", "b-0", 4000), placed("small-c", "c-0", 2500)]
    (move,) = planned(tmp_path / "c", [*objects, large], "--moves", "3")["moves"]
    assert (move["name"], move["to"]["node"]) == ("small-b", target)


def test_pods_of_a_workload_are_placed_and_then_moved(tmp_path: Path) -> None:
    # Spread places a pod on each node.
    web: Object = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": waiting("", 4000)["spec"]}
    web["spec"] = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    found = planned(tmp_path / "c", [node("a"), node("b"), web], "--policy", "spread", pods=[LARGE])
    assert found["policy"] == "spread"
    assert len(found["moves"]) == 1
    assert found["waiting"] == {"without": 1, "with": 0}
    assert found["placed_only_with"][0]["node"] == found["moves"][0]["from"]["node"]


def test_a_snapshot_gives_the_plan_of_its_cluster(tmp_path: Path) -> None:
    objects = [*SPREAD, LARGE]
    expected = planned(tmp_path / "c", objects)
    assert expected["moves"]
    (tmp_path / "state.json").write_bytes(snapshot(objects, [each for each in objects if each["kind"] == "Pod"]))
    arguments = ["simulate", "cluster", "--snapshot", str(tmp_path / "state.json"), "--defragment", "--json"]
    result = CliRunner().invoke(app, arguments)
    assert json.loads(result.stdout) == expected


@pytest.mark.parametrize("pods", [1, 100, 101])
def test_one_percent_of_the_pods_is_moved_by_default(tmp_path: Path, pods: int) -> None:
    nodes = [node(f"n{at:02}") for at in range(-(-pods // SLOTS))]
    objects = [*nodes, *(placed(f"p{at:03}", f"n{at // SLOTS:02}-0", 100) for at in range(pods))]
    assert planned(tmp_path / "c", objects)["budget"] == (2 if pods > 100 else 1)


def test_no_more_than_the_moves_that_are_permitted(tmp_path: Path) -> None:
    objects = [node(name) for name in "abcd"] + [placed(f"small-{name}", f"{name}-0", 2000) for name in "abcd"]
    for most, expected in ((1, 1), (2, 2), (3, 3), (9, 3)):
        found = planned(tmp_path / "c", objects, "--moves", str(most), "--policy", "fragmentation")
        assert (found["budget"], len(found["moves"])) == (most, expected)


@pytest.mark.parametrize(
    ("objects", "line"),
    [
        (
            [node("a"), node("b"), placed("whole", "a-0", MEMORY)],
            "Nothing to move: no plan of at most 1 move gains more than 0.1 cards for each moved pod. "
            "1 of 1 placed pod with cards may be restarted.",
        ),
        (
            [node("a"), placed("bare", "a-0", 4000, owner=None)],
            "Nothing to move: 0 of 1 placed pod with cards may be restarted (no controller that creates it again: 1).",
        ),
        ([node("a")], "Nothing to move: no pod with cards is placed."),
    ],
)
def test_one_line_says_that_there_is_nothing_to_move(tmp_path: Path, objects: list[Object], line: str) -> None:
    result = simulate(tmp_path / "c", objects, "--defragment")
    assert result.exit_code == 0
    assert result.stdout == f"{line}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--defragment", "--moves", "0"], "Invalid value for '--moves': 0 is not in the range 1<=x<=100000"),
        (["--defragment", "--moves", "few"], "Invalid value for '--moves': 'few' is not a valid int"),
        (["--moves", "3"], "--moves goes with --defragment"),
        (["--defragment", "--plot", "x"], "--defragment excludes --plot"),
        (["--defragment", "--policy", "binpack,spread"], "--policy binpack,spread: --defragment plans for one policy"),
        (["--defragment", "--policy", "all"], "--policy all: --defragment plans for one policy"),
    ],
)
def test_wrong_usage(tmp_path: Path, arguments: list[str], message: str) -> None:
    result = simulate(tmp_path / "c", SPREAD, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def test_errors_and_statuses_are_those_of_the_command(tmp_path: Path) -> None:
    result = simulate(tmp_path / "c", SPREAD, "--defragment", "--policy", "binpak")
    assert isinstance(result.exception, CommandError)
    assert "--policy: 'binpak': must be one of" in str(result.exception)
    result = simulate(tmp_path / "c", [*SPREAD, waiting("wrong", -1)], "--defragment", "--json")
    assert result.exit_code == 3, result.output
    assert json.loads(result.stdout)["moves"]


CARDS = ("a-0", "a-1", "b-0", "b-1", "c-0")


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Object], list[Object]]:
    """Return the nodes with their pods, no card overcommitted, and the pods that wait."""
    free = dict.fromkeys(CARDS, MEMORY)
    pods = []
    for at in range(draw(st.integers(1, 12))):
        card, memory = draw(st.sampled_from(CARDS)), draw(st.sampled_from((1000, 2500, 4000, 6000)))
        if memory <= free[card]:
            free[card] -= memory
            owner = {} if draw(st.integers(0, 4)) else {"owner": None}
            pods.append(placed(f"p{at:02}", card, memory, **owner))
    sizes = draw(st.lists(st.sampled_from((3000, 6000, 8000, MEMORY)), max_size=6))
    unplaced = [waiting(f"w{at}", memory) for at, memory in enumerate(sizes)]
    return [node("a", 2), node("b", 2), node("c"), *pods], unplaced


def memory_of(pod: Object) -> int:
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    return int(limits["volcano.sh/vgpu-memory"])


class Cards:
    """What is free on each card, by the pods on it alone."""

    def __init__(self, pods: list[Object]) -> None:
        self.where = {}
        self.size = {pod["metadata"]["name"]: memory_of(pod) for pod in pods}
        for pod in pods:
            if ids := pod["metadata"].get("annotations"):
                self.where[pod["metadata"]["name"]] = ids["volcano.sh/vgpu-ids-new"].partition(",")[0]

    def put(self, name: str, card: str) -> None:
        """Place a pod; fails if the card has no room."""
        assert card in CARDS
        self.where[name] = card
        used = sum(self.size[each] for each, on in self.where.items() if on == card)
        assert used <= MEMORY, (name, card)
        assert Counter(self.where.values())[card] <= SLOTS

    def objects(self, pods: list[Object]) -> list[Object]:
        """Return the pods, those with a card as placed ones."""
        return [
            placed(name, self.where[name], self.size[name]) if (name := pod["metadata"]["name"]) in self.where else pod
            for pod in pods
        ]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(clusters(), st.sampled_from(["configured", "binpack", "spread", "fragmentation"]), st.integers(1, 4))
def test_moves_are_feasible_one_after_the_other_and_place_the_pods_that_are_named(
    tmp_path: Path, cluster: tuple[list[Object], list[Object]], policy: str, budget: int
) -> None:
    objects, unplaced = cluster
    pods = [each for each in objects if each["kind"] == "Pod"] + unplaced
    nodes = [each for each in objects if each["kind"] == "Node"]
    found = planned(tmp_path / "c", objects + unplaced, "--policy", policy, "--moves", str(budget))
    assume(found["moves"])
    assert len(found["moves"]) <= budget
    cards = Cards(pods)
    # Pods that fit are placed before a plan is made.
    for name, card in decisions(tmp_path / "c", objects + unplaced, "--policy", policy).items():
        if card is not None:
            cards.put(name, card)
    assert found["waiting"]["without"] == len(pods) - len(cards.where)
    before = set(cards.where)
    for move in found["moves"]:
        name, (source,), (target,) = move["name"], move["from"]["devices"], move["to"]["devices"]
        owned = next(pod for pod in pods if pod["metadata"]["name"] == name)["metadata"].get("ownerReferences")
        assert owned, name
        assert cards.where.pop(name) == source["id"]
        assert source["memory"] == target["memory"] == cards.size[name]
        assert move["to"]["node"] == target["id"][0] != move["from"]["node"]
        cards.put(name, target["id"])
        assert move["gain"] >= 0.1
    # A cluster in which the pods are where the plan puts them gives the same result.
    after = decisions(tmp_path / "after", nodes + cards.objects(pods), "--policy", policy)
    assert {each["name"]: each["devices"][0]["id"] for each in found["placed_only_with"]} == {
        name: card for name, card in after.items() if card is not None
    }
    for name, card in after.items():
        if card is not None:
            cards.put(name, card)
    assert found["waiting"]["with"] == len(pods) - len(cards.where)
    assert found["placed_only_without"] == []
    assert before <= set(cards.where)
