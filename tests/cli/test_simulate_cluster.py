"""`deviceshare simulate cluster` on directories: what is placed, how it is counted, and the errors."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deviceshare.model import Synced
from deviceshare.policies import POLICIES
from deviceshare_bus.messages.subjects import SYNCED, ledger
from deviceshare_cli.errors import CommandError
from deviceshare_cli.loading import read
from deviceshare_cli.main import app
from deviceshare_cli.reading.opening import Source
from deviceshare_cli.reading.reader import StoredMessage
from deviceshare_cli.simulate.command import SimulateOptions, policies, simulate_cluster
from deviceshare_cli.simulate.facts import Inventory, messages
from deviceshare_cli.simulate.objects import ObjectMaker, copies
from deviceshare_cli.simulate.player import Player
from deviceshare_cli.whatif.manifests import read_files
from deviceshare_localcluster import parse_manifests
from deviceshare_localcluster.kinds import Key
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.simulated_clusters import GROUP, MEMBER, MEMORY, NOW, STATEFUL, STORAGE, node, placements, pod, runs
from typer.testing import CliRunner, Result


@pytest.fixture
def simulate(tmp_path: Path) -> Callable[..., Result]:
    def simulate(cluster: str, *arguments: str, pods: str = "") -> Result:
        directory = tmp_path / "cluster"
        directory.mkdir(exist_ok=True)
        (directory / "all.yaml").write_text(cluster)
        asked = tmp_path / "pods.yaml"
        asked.write_text(pods)
        more = ["--pods", str(asked)] if pods else []
        return CliRunner().invoke(app, ["simulate", "cluster", f"local:{directory}", *more, *arguments])

    return simulate


def test_pods_of_the_directory_come_before_those_that_are_asked_about(simulate: Callable[..., Result]) -> None:
    own = pod("own", 7000) + "---" + pod("unplaced", 20_000)
    (run,) = runs(simulate(node("a") + "---" + own, "--copies", "3", "--json", pods=pod("asked", 3000)))
    assert run["policy"] == "configured (none)"
    assert run["other_pods"] == {"placed": 1, "waiting": 1}
    assert (run["pods"], run["placed"], run["waiting"]) == (3, 1, 2)
    assert placements(run) == {"asked": "a", "asked-2": None, "asked-3": None}
    assert run["decisions"][0]["devices"] == [{"container": "main", "id": "a-0", "memory": 3000, "cores": 0}]
    assert run["alloc_pct"] == {"before": 70.0, "after": 100.0}
    assert run["models"] == [
        {"model": "NVIDIA-T4", "mode": "hami-core", "cards": 1, "alloc_pct": {"before": 70.0, "after": 100.0}}
    ]
    assert run["nodes_in_use"] == {"before": 1, "after": 1}
    (reason,) = run["reasons"]
    assert reason["pods"] == 2
    assert reason["reason"].startswith("0/1 nodes are unavailable: 1 Insufficient volcano.sh/vgpu-memory")


def test_without_further_pods_those_of_the_directory_are_asked_about(simulate: Callable[..., Result]) -> None:
    (run,) = runs(simulate(node("a") + "---" + pod("own") + "---" + pod("bound", more="nodeName: a"), "--json"))
    assert placements(run) == {"own": "a"}
    result = simulate(node("a"))
    assert isinstance(result.exception, CommandError)
    assert "there are no pods to place" in str(result.exception)


def test_policies_are_compared_side_by_side(simulate: Callable[..., Result], tmp_path: Path) -> None:
    # Spread takes another node for each pod, and no card has room for the large ones.
    cluster = "---".join(node(f"n{at}") for at in range(3))
    small = pod("first", 4000) + "---" + pod("second", 4000) + "---" + pod("third", 1000)
    conf = tmp_path / "volcano-scheduler.conf"
    conf.write_text(
        'actions: "allocate"\ntiers:\n- plugins:\n  - name: deviceshare\n'
        "    arguments: {deviceshare.VGPUEnable: true}\n"
    )
    options = ("--policy", "binpack,spread", "--conf", str(conf))
    packed, spread = runs(simulate(cluster, *options, "--json", pods=small))
    assert (packed["policy"], packed["nodes_in_use"]["after"]) == ("binpack", 1)
    assert (spread["policy"], spread["nodes_in_use"]["after"]) == ("spread", 3)
    text = simulate(cluster, *options, "--plot", str(tmp_path / "plots"), pods=small).stdout
    assert "3 pods on 3 nodes with 3 cards." in text
    assert "binpack   3        0         0 -> 1         0 -> 1         0.0% -> 30.0%" in text
    assert "volcano.sh/vgpu-memory: 4000, volcano.sh/vgpu-number: 1   2      2         2" in text
    assert ET.parse(tmp_path / "plots" / "cluster.svg").getroot().tag.endswith("svg")


def test_a_policy_is_that_of_the_configuration(simulate: Callable[..., Result], tmp_path: Path) -> None:
    cluster = "---".join(node(f"n{at}", 2, 10_000 - 1000 * at) for at in range(5))
    asked = "---".join(pod(f"p{at}", 1500 + 700 * (at % 4)) for at in range(24))
    for policy in POLICIES:
        conf = tmp_path / f"{policy}.conf"
        conf.write_text(
            'actions: "allocate"\ntiers:\n- plugins:\n  - name: deviceshare\n    arguments:\n'
            "      deviceshare.VGPUEnable: true\n      deviceshare.ScheduleWeight: 10\n"
            f"      deviceshare.SchedulePolicy: {policy}\n"
        )
    options = ("--json", "--conf", str(tmp_path / "binpack.conf"), "--policy", "all")
    compared = runs(simulate(cluster, *options, pods=asked))
    assert [each["policy"] for each in compared] == list(POLICIES)
    for each in compared:
        conf = tmp_path / f"{each['policy']}.conf"
        (configured,) = runs(simulate(cluster, "--json", "--conf", str(conf), pods=asked))
        assert configured["policy"] == f"configured ({each['policy']})"
        assert configured["decisions"] == each["decisions"]


def test_a_volume_is_bound_to_one_claim(simulate: Callable[..., Result]) -> None:
    def using(name: str, claim: str) -> str:
        return pod(name, more=f"volumes: [{{name: data, persistentVolumeClaim: {{claimName: {claim}}}}}]")

    (run,) = runs(simulate(node("a") + "---" + STORAGE, "--json", pods=using("p1", "c1") + "---" + using("p2", "c2")))
    assert placements(run) == {"p1": "a", "p2": None}


def test_a_volume_that_is_made_keeps_its_pods_on_one_node(simulate: Callable[..., Result]) -> None:
    storage = STORAGE.replace("kubernetes.io/no-provisioner", "csi.example.com")
    storage = storage.partition("---")[0] + "---" + storage.rpartition("---")[2]
    volume = "volumes: [{name: data, persistentVolumeClaim: {claimName: c2}}]"
    cluster = "---".join((node("a"), node("b"), storage))
    (run,) = runs(simulate(cluster, "--json", pods=pod("p1", 7000, volume) + "---" + pod("p2", 7000, volume)))
    assert run["placed"] == 1


def test_pods_come_with_nodes_of_a_new_model(simulate: Callable[..., Result], tmp_path: Path) -> None:
    new = node("b", 3).replace("NVIDIA-T4", "NVIDIA-L4") + "---" + pod("asked", 5000, "nodeName: b")
    cluster = node("a") + "---" + pod("own", 5000)
    (run,) = runs(simulate(cluster, "--json", pods=new))
    assert run["placed"] == 1
    models = {each["model"]: each["alloc_pct"] for each in run["models"]}
    assert models["NVIDIA-L4"] == {"before": 0.0, "after": 16.67}
    assert run["alloc_pct"] == {"before": 50.0, "after": 25.0}
    result = simulate(cluster, "--plot", str(tmp_path / "plots"), pods=new)
    assert "0.0% -> 16.7%" in result.stdout, result.exception


def test_a_configuration_among_the_pods_does_not_replace_the_policy(simulate: Callable[..., Result]) -> None:
    conf = """
apiVersion: v1
kind: ConfigMap
metadata: {name: volcano-scheduler-configmap, namespace: volcano-system}
data:
  volcano-scheduler.conf: |
    actions: "allocate"
    tiers:
    - plugins:
      - name: deviceshare
        arguments: {deviceshare.VGPUEnable: true, deviceshare.SchedulePolicy: spread, deviceshare.ScheduleWeight: 10}
"""
    cluster = "---".join(node(f"n{at}") for at in range(3))
    asked = "---".join((conf, *(pod(f"p{at}", 3000) for at in range(3))))
    configured, packed = runs(simulate(cluster, "--policy", "configured,binpack", "--json", pods=asked))
    assert configured["nodes_in_use"]["after"] == 3
    assert packed["nodes_in_use"]["after"] == 1


def test_gangs_queues_and_priorities_hold(simulate: Callable[..., Result]) -> None:
    queue = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: small}
spec: {weight: 1, capability: {volcano.sh/vgpu-memory: "5000"}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 1000
"""
    limited = ", annotations: {scheduling.volcano.sh/queue-name: small}"
    asked = "---".join(
        [
            GROUP,
            pod("gang-0", 6000, metadata=MEMBER),
            pod("gang-1", 6000, metadata=MEMBER),
            pod("limited-0", 3000, metadata=limited),
            pod("limited-1", 3000, metadata=limited),
            pod("urgent", 10_000, more="priorityClassName: urgent"),
        ]
    )
    (run,) = runs(simulate("---".join([queue, *(node(f"n{at}") for at in range(3))]), "--json", pods=asked))
    found = placements(run)
    assert found["urgent"]
    assert found["gang-0"]
    assert found["gang-1"]
    assert sorted(bool(found[name]) for name in ("limited-0", "limited-1")) == [False, True]
    assert any("queue 'small' has a capability of 5000 MiB" in each["reason"] for each in run["reasons"])
    # With one node less the urgent pod leaves room for one pod of the gang alone, and neither starts.
    (run,) = runs(simulate("---".join([queue, node("n0"), node("n1")]), "--json", pods=asked))
    found = placements(run)
    assert (bool(found["urgent"]), found["gang-0"], found["gang-1"]) == (True, None, None)
    assert any(each["reason"].startswith("pod group is not ready, 1 of 2 pods fit") for each in run["reasons"])


def test_workloads_are_replaced_by_their_pods(simulate: Callable[..., Result]) -> None:
    (run,) = runs(simulate(node("a", 2), "--json", pods=STATEFUL))
    assert set(placements(run)) == {"db-0", "db-1"}
    # Its claims exist, as the controller makes them, and are not provisioned.
    assert all("persistentvolumeclaim" in each["reason"].lower() for each in run["reasons"])
    without = STATEFUL.partition("  volumeClaimTemplates")[0]
    (run,) = runs(simulate(node("a", 2), "--json", "--copies", "2", pods=without))
    assert placements(run) == dict.fromkeys(("db-0", "db-1", "db-2-0", "db-2-1"), "a")


def test_candidates_of_fit_are_the_pods_alone(tmp_path: Path) -> None:
    (tmp_path / "set.yaml").write_text(STATEFUL)
    found = read_files([str(tmp_path / "set.yaml")], [], ("volcano",)).candidates
    assert [pod.name for each in found for pod in each.pods] == ["db-0", "db-1"]


def test_pods_that_are_not_placed_are_named(simulate: Callable[..., Result]) -> None:
    asked = pod("bound", more="nodeName: b") + "---" + pod("other", scheduler="default-scheduler")
    result = simulate("---".join([node("a"), node("b")]), "--json", "--copies", "2", pods=asked)
    (run,) = runs(result)
    assert placements(run) == {"bound": "b", "bound-2": "b"}
    assert len(result.stderr.splitlines()) == 2, "the warnings of copies are printed once"
    assert "spec.nodeName is b" in result.stderr
    assert "default-scheduler" in result.stderr


def test_rejected_manifests_of_the_directory_are_reported(simulate: Callable[..., Result]) -> None:
    result = simulate(node("a") + "---" + pod("wrong", -1) + "---" + pod("right"), "--json")
    assert result.exit_code == 3, result.output
    assert "rejected: File all.yaml, line" in result.stderr
    assert "'-1' is not valid" in result.stderr
    assert placements(json.loads(result.stdout)["runs"][0]) == {"right": "a"}


@pytest.mark.parametrize(
    ("arguments", "pods", "message"),
    [
        (["--policy", "binpak"], pod("a"), "--policy: 'binpak': must be one of configured, binpack, spread"),
        (["--conf", "{directory}/none"], pod("a"), "none: cannot be read: No such file"),
        ([], pod("a", -1), "pods.yaml, line 11, column .*'-1' is not valid"),
        ([], "kind: [", "pods.yaml.*is not valid"),
        (["--pods", "{directory}/nowhere.yaml"], pod("a"), "nowhere.yaml: no such file"),
    ],
)
def test_invalid_input_is_an_error(
    simulate: Callable[..., Result], tmp_path: Path, arguments: list[str], pods: str, message: str
) -> None:
    result = simulate(node("n"), *(each.format(directory=tmp_path) for each in arguments), pods=pods)
    assert isinstance(result.exception, CommandError)
    with pytest.raises(CommandError, match=message):
        raise result.exception


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give local:DIR, or --pods"),
        (["local:.", "--copies", "2"], "--copies goes with --pods"),
        (["local:.", "--snapshot", "x"], "local:DIR excludes --run and --snapshot"),
        (["kube"], "expected local:DIR"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["simulate", "cluster", *arguments])
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


async def test_a_directory_that_does_not_exist_and_a_snapshot_that_is_none(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["simulate", "cluster", "local:/nowhere"])
    assert str(result.exception) == "local:/nowhere: /nowhere is not a directory of manifests"
    (tmp_path / "none.json").write_text("{}")
    options = SimulateOptions(None, Source(None, tmp_path / "none.json"), ("x",))
    with pytest.raises(CommandError, match="not a snapshot of deviceshare"):
        await simulate_cluster(options, json=False, plot=None)


def test_names_of_policies() -> None:
    assert policies("all") == POLICIES
    assert policies("spread,configured") == ("spread", "configured")


def test_copies_have_names_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "pods.yaml").write_text("---".join([GROUP, pod("a", metadata=MEMBER), STATEFUL, node("n")]))
    manifests = read([str(tmp_path)])
    made = ObjectMaker(NOW, makes_queues=True)
    taken = [Key("Pod", "default", "a-2"), Key("Pod", "other", "a-3")]
    for copy in copies(manifests, 3, taken):
        made.make(copy)
    assert not made.rejected
    names = {(key.kind, key.name) for key in made.objects}
    groups = {name for kind, name in names if kind == "PodGroup"}
    assert {name for name in groups if name.startswith("gang")} == {"gang", "gang-3", "gang-4"}
    assert len(groups) == 6, "each copy of the StatefulSet has one, too"
    pods = {obj["metadata"]["name"]: obj for key, obj in made.objects.items() if key.kind == "Pod"}
    assert set(pods) == {"a", "a-3", "a-4", *(f"db{copy}-{at}" for copy in ("", "-3", "-4") for at in range(2))}
    annotation = "scheduling.k8s.io/group-name"
    assert {pods[name]["metadata"]["annotations"][annotation] for name in ("a", "a-3", "a-4")} == {
        "gang",
        "gang-3",
        "gang-4",
    }
    assert [key.name for key in made.objects if key.kind == "Node"] == ["n"]
    assert len({obj["metadata"]["uid"] for obj in made.objects.values()}) == len(made.objects)


def test_a_message_that_cannot_be_read_leaves_its_node_alone() -> None:
    made = ObjectMaker(NOW, makes_queues=True)
    text = "---".join([node("a"), node("b"), pod("p", 4000), pod("q", 4000)])
    made.make(parse_manifests(text, "text"))
    stored = messages({**Inventory(("volcano",)).exist(made.objects.values()), SYNCED: Synced()})
    player = Player([*stored, StoredMessage("LEDGER", ledger("a"), 7, b"not a ledger")], 1e9)
    player.settle()
    assert {each.pod.name: each.node for each in player.placed.values()} == {"p": "b", "q": "b"}
    assert not player.waiting


def test_a_live_cluster_is_read_as_its_manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, pods = tmp_path / "cluster" / "nodes.yaml", tmp_path / "pods.yaml"
    nodes.parent.mkdir()
    nodes.write_text("---".join([node("a"), node("b", 2)]))
    pods.write_text("---".join(pod(f"p{at}", 6000) for at in range(4)))
    made = ObjectMaker(NOW, makes_queues=True)
    made.make(read([str(nodes)]))

    class Kube:
        def __init__(self, kubeconfig: str = "", context: str = "", **_: str) -> None:
            assert context == "staging"

        async def __aenter__(self) -> "Kube":
            return self

        async def __aexit__(self, *error: object) -> None:
            pass

        async def list(self, kind: str) -> list[Any]:
            return [obj for key, obj in made.objects.items() if key.kind == kind]

    monkeypatch.setattr("deviceshare_cluster.kube.KubeCluster", Kube)
    asked = ["simulate", "cluster", "--pods", str(pods), "--json"]
    live = CliRunner().invoke(app, [*asked, "--cluster", "kube:staging"])
    directory = CliRunner().invoke(app, [*asked, f"local:{nodes.parent}"])
    assert live.exit_code == 0, live.output
    assert json.loads(live.stdout) == json.loads(directory.stdout)
    assert '"placed": 3' in live.stdout
    for wrong in (["--cluster", "local:x"], ["--cluster", "kube", "--run", "1"], ["--cluster", "kube", "local:x"]):
        assert CliRunner().invoke(app, [*asked, *wrong]).exit_code == 2


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cards=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    requests=st.lists(st.integers(1000, 11_000), min_size=1, max_size=12),
    policy=st.sampled_from(["configured", "binpack", "spread", "fragmentation"]),
)
def test_no_card_is_overcommitted_and_what_waits_has_no_room(
    tmp_path: Path, cards: list[int], requests: list[int], policy: str
) -> None:
    directory = tmp_path / "random"
    directory.mkdir(exist_ok=True)
    (directory / "all.yaml").write_text(
        "---".join(
            [node(f"n{at}", count) for at, count in enumerate(cards)]
            + [pod(f"p{at}", memory) for at, memory in enumerate(requests)]
        )
    )
    result = CliRunner().invoke(app, ["simulate", "cluster", f"local:{directory}", "--json", "--policy", policy])
    (run,) = runs(result)
    assert sorted(placements(run)) == sorted(f"p{at}" for at in range(len(requests)))
    free = {f"n{at}-{card}": MEMORY for at, count in enumerate(cards) for card in range(count)}
    for each in run["decisions"]:
        for device in each["devices"]:
            assert device["memory"] == requests[int(each["name"][1:])]
            free[device["id"]] -= device["memory"]
    assert min(free.values()) >= 0
    waiting = [requests[int(each["name"][1:])] for each in run["decisions"] if not each["node"]]
    assert all(memory > max(free.values()) for memory in waiting)
    allocated = 100 * (1 - sum(free.values()) / (MEMORY * len(free)))
    assert run["alloc_pct"]["after"] == pytest.approx(allocated, abs=0.01)
    assert run["placed"] + run["waiting"] == len(requests)
