"""`simulate cluster --defragment` on a running system: its commands place the waiting pod that the plan names."""

import json
import shlex
import time
from pathlib import Path

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
SECONDS = 60


def cards(system: UpSystem) -> dict[str, str | None]:
    """Return the card of each pod, None of one that waits."""
    items = json.loads(system.out("get", "pods", "-o", "json"))["items"]
    return {each["name"]: each["devices"][0]["id"] if each["node"] else None for each in items}


def wait_until_placed(system: UpSystem, pods: int) -> dict[str, str | None]:
    until = time.monotonic() + SECONDS
    found = cards(system)
    while sum(card is not None for card in found.values()) < pods:
        assert time.monotonic() < until, found
        time.sleep(0.1)
        found = cards(system)
    return found


@pytest.mark.system
def test_the_commands_of_a_plan_place_the_waiting_pod_that_it_names(tmp_path: Path) -> None:
    system = UpSystem(tmp_path)
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "all.json").write_text(json.dumps([node("a"), node("b"), DEPLOYMENT]))
    (tmp_path / "spread.conf").write_text(CONF)
    options = ("--cluster", f"local:{tmp_path / 'manifests'}", "--conf", str(tmp_path / "spread.conf"))
    with running_up(system, *options):
        assert set(wait_until_placed(system, 2).values()) == {"a-0", "b-0"}
        large = waiting("large", MEMORY)
        assert system.command("apply", "-f", "-", stdin=json.dumps(large)).returncode == 0
        before = cards(system)
        plan = ("simulate", "cluster", "--defragment")
        found = json.loads(system.out(*plan, "--json"))
        assert found["waiting"] == {"without": 1, "with": 0}
        assert cards(system) == before, "a plan changes nothing"
        snapshot = tmp_path / "snapshot.json"
        snapshot.write_text(system.out("snapshot"))
        assert json.loads(system.out(*plan, "--json", "--snapshot", str(snapshot))) == found
        (command,) = (line for line in system.out(*plan).splitlines() if line.startswith("kubectl delete"))
        assert system.command(*shlex.split(command)[1:]).returncode == 0
        (placed,) = found["placed_only_with"]
        assert wait_until_placed(system, 3)["large"] == placed["devices"][0]["id"]
