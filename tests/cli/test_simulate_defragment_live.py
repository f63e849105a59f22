"""`simulate cluster --defragment` on a running system: its commands place the waiting pod that the plan names."""

import json
import shlex
import time
from pathlib import Path
from typing import Any

import pytest
from support.card_objects import MEMORY, node, waiting
from support.up_commands import UpSystem, running_up

CONF = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: deviceshare
    arguments: {deviceshare.VGPUEnable: true, deviceshare.SchedulePolicy: spread, deviceshare.ScheduleWeight: 10}
"""
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": waiting("", 4000)["spec"]},
    },
}
PLAN = ("simulate", "cluster", "--defragment")
SECONDS, MAX_PLANS = 60, 20


Pods = dict[str, dict[str, Any]]
"""Pods by uid."""


def cards(pods: Pods) -> list[str]:
    """Return the cards of pods that have one each."""
    return sorted(each["devices"][0]["id"] for each in pods.values())


def wait_until_placed(system: UpSystem, prefix: str, pods: int, *, without: str = "") -> Pods:
    """Return the pods whose names begin with a prefix, once so many are placed; not that with the uid ``without``."""
    until = time.monotonic() + SECONDS
    while True:
        found = {each["uid"]: each for each in json.loads(system.out("get", "pods", "-o", "json"))["items"]}
        placed = {uid: each for uid, each in found.items() if each["name"].startswith(prefix) and each["node"]}
        if len(placed) == pods and without not in placed:
            return placed
        assert time.monotonic() < until, found
        time.sleep(0.1)


@pytest.mark.system
def test_the_commands_of_a_plan_place_the_waiting_pod_that_it_names(tmp_path: Path) -> None:
    system = UpSystem(tmp_path)
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "all.json").write_text(json.dumps([node("a"), node("b"), DEPLOYMENT]))
    (tmp_path / "spread.conf").write_text(CONF)
    options = ("--cluster", f"local:{tmp_path / 'manifests'}", "--conf", str(tmp_path / "spread.conf"))
    with running_up(system, *options):
        web = wait_until_placed(system, "web-", 2)
        assert cards(web) == ["a-0", "b-0"]
        large = waiting("large", MEMORY)
        assert system.command("apply", "-f", "-", stdin=json.dumps(large)).returncode == 0
        found = json.loads(system.out(*PLAN, "--json"))
        assert found["waiting"] == {"without": 1, "with": 0}
        assert wait_until_placed(system, "web-", 2) == web, "a plan changes nothing"
        snapshot = tmp_path / "snapshot.json"
        snapshot.write_text(system.out("snapshot"))
        assert json.loads(system.out(*PLAN, "--json", "--snapshot", str(snapshot))) == found
        # The nodes of a local cluster cannot be cordoned: the new pod returns to the card of the old one if it is
        # decided before that is free. Then the user makes the next plan.
        assert any(carried_out(system) for _ in range(MAX_PLANS)), f"the pod returned {MAX_PLANS} times"


def carried_out(system: UpSystem) -> bool:
    """Run the command of a plan; return whether the pod moved, and then the large one is where the plan has it."""
    found = json.loads(system.out(*PLAN, "--json"))
    ((move,), (placed,)) = found["moves"], found["placed_only_with"]
    before = wait_until_placed(system, "web-", 2)
    (moved,) = (uid for uid, each in before.items() if each["name"] == move["name"])
    (command,) = (line for line in system.out(*PLAN).splitlines() if line.startswith("kubectl delete"))
    assert system.command(*shlex.split(command)[1:]).returncode == 0
    if cards(wait_until_placed(system, "web-", 2, without=moved)) == ["a-0", "b-0"]:
        return False
    assert cards(wait_until_placed(system, "large", 1)) == [placed["devices"][0]["id"]]
    return True
