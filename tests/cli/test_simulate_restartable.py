"""`simulate cluster --defragment` moves only pods that may be restarted, and counts the others by the reason."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deviceshare_cli import recreation
from deviceshare_cli.main import app
from deviceshare_cli.simulate import restartable
from support.card_objects import REPLICA_SET, node, placed, snapshot, waiting
from typer.testing import CliRunner

DOCS = Path(__file__).parents[2] / "docs"
Change = Callable[[dict[str, Any]], object]


def simulated(directory: Path, *objects: dict[str, Any]) -> dict[str, Any]:
    """Return the plan for a cluster in which ``small`` should move, if it may."""
    others = [node("a"), node("b"), placed("other", "b-0", 4000, owner=None), waiting("large", 10_000)]
    (directory / "all.json").write_text(json.dumps([*others, *objects]))
    result = CliRunner().invoke(app, ["simulate", "cluster", f"local:{directory}", "--defragment", "--json"])
    assert result.exit_code == 0, (result.output, result.exception)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def moved(found: dict[str, Any]) -> list[str]:
    return [move["name"] for move in found["moves"]]


def excluded(found: dict[str, Any]) -> dict[str, int]:
    return {each["reason"]: each["pods"] for each in found["excluded"]}


def annotated(name: str, value: str) -> Change:
    return lambda pod: pod["metadata"]["annotations"].update({name: value})


def owned(**changes: Any) -> Change:
    return lambda pod: pod["metadata"].update(ownerReferences=[REPLICA_SET | changes])


def spec(**changes: Any) -> Change:
    return lambda pod: pod["spec"].update(changes)


def volumes(*sources: dict[str, Any]) -> Change:
    return spec(volumes=[{"name": f"v{at}", **each} for at, each in enumerate(sources)])


def both(*changes: Change) -> Change:
    return lambda pod: [change(pod) for change in changes]


EMPTY_DIR: dict[str, Any] = {"emptyDir": {}}
HOST_PATH: dict[str, Any] = {"hostPath": {"path": "/models"}}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (spec(), None),
        (owned(kind="StatefulSet"), None),
        (owned(kind="Job"), None),
        (owned(controller=False), recreation.NO_CONTROLLER),
        (lambda pod: pod["metadata"].pop("ownerReferences"), recreation.NO_CONTROLLER),
        (owned(kind="DaemonSet"), recreation.DAEMON_SET),
        (owned(kind="Node"), recreation.NO_CONTROLLER),
        (annotated("kubernetes.io/config.mirror", "1"), recreation.STATIC),
        (spec(restartPolicy="OnFailure"), None),
        (spec(restartPolicy="Never"), restartable.NEVER),
        (annotated(restartable.SAFE_TO_EVICT, "false"), f"annotation {restartable.SAFE_TO_EVICT}"),
        (annotated(restartable.SAFE_TO_EVICT, "true"), None),
        (annotated(restartable.PREFER_NO_EVICTION, ""), f"annotation {restartable.PREFER_NO_EVICTION}"),
        (annotated(restartable.DO_NOT_DISRUPT, "true"), f"annotation {restartable.DO_NOT_DISRUPT}"),
        (annotated(restartable.DO_NOT_DISRUPT, "false"), None),
        (lambda pod: pod["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"), recreation.TERMINATING),
        (spec(priorityClassName="system-cluster-critical"), restartable.CRITICAL),
        (volumes(EMPTY_DIR), restartable.LOCAL_VOLUME),
        (volumes(HOST_PATH), restartable.LOCAL_VOLUME),
        (volumes({"emptyDir": {"medium": "Memory"}}, {"configMap": {"name": "c"}}), None),
        (both(volumes(EMPTY_DIR), annotated(restartable.SAFE_TO_EVICT, "true")), None),
        (both(volumes(HOST_PATH), annotated(restartable.EVICT, "")), None),
        (both(volumes(EMPTY_DIR, HOST_PATH), annotated(restartable.SAFE_VOLUMES, "v0, v1")), None),
        (both(volumes(EMPTY_DIR, HOST_PATH), annotated(restartable.SAFE_VOLUMES, "v0")), restartable.LOCAL_VOLUME),
        (spec(schedulerName="default-scheduler"), recreation.OTHER_SCHEDULER),
        (spec(schedulerName="deviceshare"), None),
        (annotated("deviceshare.io/node-scheduler-policy", "none-such"), restartable.INVALID),
    ],
)
def test_only_pods_that_may_be_restarted_are_moved(tmp_path: Path, change: Change, reason: str | None) -> None:
    pod = placed("small", "a-0", 4000)
    change(pod)
    found = simulated(tmp_path, pod)
    assert found["pods"] == 2
    assert moved(found) == ([] if reason else ["small"])
    assert found["restartable"] == len(moved(found))
    expected = {recreation.NO_CONTROLLER: 1}  # the other pod
    if reason:
        expected[reason] = expected.get(reason, 0) + 1
    assert excluded(found) == expected


@pytest.mark.parametrize(
    ("minimum", "reason"), [(1, None), (2, restartable.GANG), (None, restartable.NO_POD_GROUP)], ids=str
)
def test_members_of_gangs_stay(tmp_path: Path, minimum: int | None, reason: str | None) -> None:
    pods = [placed("small", "a-0", 4000), placed("second", "b-0", 100, owner=None)]
    for pod in pods:
        pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "group"
    group: dict[str, Any] = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    group |= {"metadata": {"name": "group"}, "spec": {"minMember": minimum}, "status": {"phase": "Running"}}
    found = simulated(tmp_path, *pods, *([group] if minimum else []))
    assert moved(found) == ([] if reason else ["small"])
    assert excluded(found) == {recreation.NO_CONTROLLER: 2, **({reason: 1} if reason else {})}


@pytest.mark.parametrize("state", ["Open", "Closed"])
def test_pods_of_a_queue_that_takes_none_stay(tmp_path: Path, state: str) -> None:
    queue: dict[str, Any] = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    queue |= {"metadata": {"name": "q"}, "spec": {"weight": 1}, "status": {"state": state}}
    pod = placed("small", "a-0", 4000)
    pod["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = "q"
    found = simulated(tmp_path, pod, queue)
    assert moved(found) == (["small"] if state == "Open" else [])
    assert excluded(found).get(restartable.QUEUE, 0) == (state == "Closed")


def test_pods_with_a_number_of_cards_stay_and_pods_without_cards_do_not_count(tmp_path: Path) -> None:
    numbered = node("c")
    numbered["metadata"]["annotations"] = {}
    numbered["status"]["allocatable"]["nvidia.com/gpu"] = "2"
    pods = [placed("whole", "c-0", 4000), placed("none", "c-0", 4000)]
    for pod, limits in zip(pods, ({"nvidia.com/gpu": 1}, {"cpu": 1}), strict=True):
        pod["metadata"]["annotations"] = {}
        pod["spec"]["containers"][0]["resources"]["limits"] = limits
    found = simulated(tmp_path, numbered, *pods, placed("third", "a-0", 100, owner=None))
    assert found["pods"] == 3
    assert excluded(found) == {recreation.NO_CONTROLLER: 2, restartable.UNKNOWN_CARDS: 1}


@pytest.mark.parametrize("objects", ["all", "none", "invalid"])
def test_pods_whose_objects_a_snapshot_does_not_have_stay(tmp_path: Path, objects: str) -> None:
    pods = [placed("small", "a-0", 4000), placed("other", "b-0", 4000, owner=None), waiting("large", 10_000)]
    stored = {"all": pods, "none": [], "invalid": [pods[0] | {"spec": None}]}[objects]
    (tmp_path / "state.json").write_bytes(snapshot([node("a"), node("b"), *pods], stored))
    arguments = ["simulate", "cluster", "--snapshot", str(tmp_path / "state.json"), "--defragment", "--json"]
    found = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert moved(found) == (["small"] if objects == "all" else [])
    assert excluded(found) == ({recreation.NO_CONTROLLER: 1} if objects == "all" else {recreation.UNREAD: 2})


def test_the_page_lists_the_reasons() -> None:
    section = re.split(r"^## ", (DOCS / "commands.md").read_text(), flags=re.MULTILINE)
    (page,) = (each for each in section if each.startswith("Which pods to move"))
    rows = {row.split("|")[1].strip().strip("`") for row in page.splitlines() if row.startswith("| ")}
    reasons = {
        value
        for name, value in (vars(restartable) | vars(recreation)).items()
        if name.isupper() and isinstance(value, str) and "/" not in value
    }
    assert len(reasons) > 10
    assert reasons | {"annotation …"} <= rows
