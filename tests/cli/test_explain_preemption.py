"""`deviceshare explain pod NAME --preempt`: the victims are those of the search, and nothing changes."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from deviceshare.model import Claim, ConfigFact, Eviction, PodUid
from deviceshare_cli.errors import CommandError
from deviceshare_cli.main import app
from deviceshare_cli.whatif.preemption import preemption_report
from deviceshare_lab.clusters import objects
from support.builders import node as make_node
from support.card_objects import node, placed, snapshot, waiting
from support.preemption_scene import NOW, USUAL, PreemptionScene, conf, cpu, nominate
from support.up_commands import UpSystem, running_up
from support.whole_state import whole_state
from typer.testing import CliRunner, Result

PLUGINS = ("priority", "gang", "conformance")


def with_priority(pod: dict[str, Any], priority: int) -> dict[str, Any]:
    return {**pod, "spec": {**pod["spec"], "priority": priority}}


# A card of 10000 MiB each: two pods on a-0, one on b-0.
CLUSTER = [
    node("a"),
    node("b"),
    with_priority(placed("a1", "a-0", 5000), 1),
    with_priority(placed("a2", "a-0", 5000), 1),
    with_priority(placed("b1", "b-0", 9000), 7),
    with_priority(waiting("new", 8000), 100),
    with_priority(waiting("low", 8000), 0),
    with_priority(waiting("small", 1000), 0),
]


@pytest.fixture
def explain(tmp_path: Path):
    def explain(pod: str, *arguments: str, actions: tuple[str, ...] = ()) -> Result:
        text = objects.conf({"VGPUEnable": "true"}, plugins=PLUGINS, actions=("allocate", *actions))
        file = tmp_path / "snapshot.json"
        pods = [each for each in CLUSTER if each["kind"] == "Pod"]
        file.write_bytes(snapshot(CLUSTER, pods, ConfigFact(name="scheduler", text=text, source="conf")))
        return CliRunner().invoke(app, ["explain", "pod", pod, "--preempt", "--snapshot", str(file), *arguments])

    return explain


def test_the_victims_are_listed_with_their_number_and_priorities(explain) -> None:
    result = explain("new", actions=("preempt",))
    assert result.exit_code == 0, (result.output, result.exception)
    assert result.stdout.splitlines() == [
        "Pod default/new, priority 100, queue default",
        "  By the action preempt 1 pod would be evicted, the sum of their priorities is 7, the highest is 7.",
        "",
        "Evicted:",
        "  NAMESPACE   POD   NODE   PRIORITY   QUEUE",
        "  default     b1    b      7          default",
        "",
        "Placed then:",
        "  NAMESPACE   POD   NODE   DEVICES",
        "  default     new   b      b-0 (8000 MiB)",
    ]


def test_without_the_action_it_says_what_would_be(explain) -> None:
    found = json.loads(explain("new", "-o", "json").stdout)
    assert (found["action"], found["configured"], found["count"], found["sum"], found["highest"]) == (
        "preempt",
        False,
        1,
        7,
        7,
    )
    assert found["victims"] == [{"namespace": "default", "name": "b1", "node": "b", "priority": 7, "queue": "default"}]
    assert "What if: the configuration does not have the action preempt" in found["message"]
    assert found == yaml.safe_load(explain("new", "-o", "yaml").stdout)
    configured = json.loads(explain("new", "-o", "json", actions=("preempt",)).stdout)
    assert configured == found | {"configured": True, "message": configured["message"]}
    assert "What if" not in configured["message"]


def test_it_says_why_no_pod_is_evicted(explain) -> None:
    low = explain("low", actions=("preempt",)).stdout
    assert "No pod is evicted: 0/2 nodes are available: 2 hold no pod of lower priority" in low
    assert "Evicted:" not in low
    fits = json.loads(explain("small", "-o", "json", actions=("preempt",)).stdout)
    assert (fits["victims"], fits["placed"][0]["node"]) == ([], "b")
    assert fits["message"] == "No pod is evicted: it fits now."


def test_the_priority_of_a_pod_group_is_that_of_its_class() -> None:
    scene = PreemptionScene(make_node("a", cpu=1000), conf=USUAL)
    scene.job("old", cpu(1000), on=["a"], level="")
    (waits,) = scene.job("new", cpu(1000), level="mid", priority=5)
    report = preemption_report(scene.scheduler, scene.scheduler.pods[waits.uid], NOW)
    assert report.lines[0] == "Pod ns/new-0, priority 5, PodGroup ns/new of priority 100, queue default"
    assert (report.data["priority"], report.data["group_priority"]) == (5, 100)


def test_whose_nominated_room_is_taken_is_said() -> None:
    scene = PreemptionScene(make_node("a", cpu=1000), conf=USUAL)
    scene.job("old", cpu(1000), on=["a"], level="")
    scene.job("mid", cpu(1000), level="mid")
    assert nominate(scene, "mid") == ["uid-old-0"]
    (high,) = scene.job("high", cpu(1000), level="high")
    report = preemption_report(scene.scheduler, scene.scheduler.pods[high.uid], NOW)
    assert report.data["message"] == "No other pod is evicted: it takes the room of nominated pods of lower priority."
    assert (report.data["taken"], report.data["waits_for"], report.data["victims"]) == (["ns/mid-0"], ["ns/old-0"], [])


def test_a_pod_that_does_not_wait_or_exist_is_an_error(explain) -> None:
    with pytest.raises(CommandError, match=r"^pod default/a1 does not wait: it is on node a$"):
        raise explain("a1").exception
    missing = explain("absent")
    assert (missing.exit_code, missing.stderr) == (1, 'Error from server (NotFound): pods "absent" not found\n')
    with pytest.raises(CommandError, match='the server doesn\'t have a resource type "node"'):
        raise CliRunner().invoke(app, ["explain", "node", "a", "--preempt"]).exception


def admitted(obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object with a PriorityClass, from which admission copies the priority."""
    if obj["kind"] != "Pod":
        return obj
    spec = {name: value for name, value in obj["spec"].items() if name != "priority"}
    return {**obj, "spec": spec | {"priorityClassName": f"class-{obj['spec']['priority']}"}}


@pytest.mark.system
def test_a_running_system_with_the_action_does_what_was_said_without_it(tmp_path: Path) -> None:
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    classes = [objects.priority_class(f"class-{value}", value) for value in (0, 1, 7, 100)]
    (manifests / "all.json").write_text(json.dumps([*classes, *map(admitted, CLUSTER)]))

    def system(name: str, *actions: str) -> tuple[UpSystem, tuple[str, ...]]:
        (tmp_path / name).mkdir()
        conf = tmp_path / name / "conf"
        conf.write_text(objects.conf({"VGPUEnable": "true"}, plugins=PLUGINS, actions=("allocate", *actions)))
        return UpSystem(tmp_path / name), ("--cluster", f"local:{manifests}", "--conf", str(conf))

    without, options = system("without")
    with running_up(without, *options):
        said = json.loads(without.out("explain", "pod", "new", "--preempt", "-o", "json"))
    assert (said["configured"], said["count"]) == (False, 1)
    preempting, options = system("with", "preempt")
    with running_up(preempting, *options):
        until = time.monotonic() + 60
        while True:
            pods = {each["name"]: each for each in json.loads(preempting.out("get", "pods", "-o", "json"))["items"]}
            if pods["new"]["node"] and pods["new"]["state"] == "Bound":
                break
            assert time.monotonic() < until, pods
        assert {each["name"] for each in said["victims"]} == {"a1", "a2", "b1"} - pods.keys()
        (placed_then,) = said["placed"]
        assert (pods["new"]["node"], pods["new"]["devices"]) == (placed_then["node"], placed_then["devices"])


@pytest.mark.parametrize("actions", ["allocate", "allocate, preempt"])
def test_nothing_changes(actions: str) -> None:
    scene = PreemptionScene(make_node("a", cpu=2000), conf=conf("priority", actions=actions))
    victims = scene.job("low", cpu(1000), on=["a", "a"])
    (waits,) = scene.job("high", cpu(2000), level="high")
    scene.scheduler.cluster.accounts.refresh()
    before = whole_state(scene.scheduler)
    data = preemption_report(scene.scheduler, scene.scheduler.pods[waits.uid], NOW).data
    assert [each["name"] for each in data["victims"]] == [each.name for each in victims]
    assert data["configured"] == ("preempt" in actions)
    assert whole_state(scene.scheduler) == before


def test_of_a_nominated_pod_it_says_whom_it_waits_for() -> None:
    scene = PreemptionScene(make_node("a", cpu=1000))
    (victim,) = scene.job("low", cpu(1000), on=["a"])
    (waits,) = scene.job("high", cpu(1000), level="high")
    claim = Claim(id="c", uid=waits.uid, namespace="ns", name=waits.name, group=waits.group, waits_for=(victim.uid,))
    scene.scheduler.claim("a", [claim])
    eviction = Eviction(
        uid=victim.uid, namespace="ns", name=victim.name, claim="c", preemptor=waits.ref, action="preempt"
    )
    scene.scheduler.claim("a", scene.scheduler.ledger("a").claims.values(), [eviction])
    report = preemption_report(scene.scheduler, scene.scheduler.pods[PodUid(waits.uid)], NOW)
    assert report.data["nominated"] == "a"
    assert report.data["action"] == "preempt"
    assert [each["name"] for each in report.data["victims"]] == ["low-0"]
    assert report.lines[1] == "Nominated on node a: it waits for pods that are evicted for it and its group."
