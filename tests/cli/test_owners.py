"""What pods request and who owns them, in the JSON of `deviceshare get`, `explain` and `describe`, from a snapshot."""

import json
from pathlib import Path
from typing import Any

import pytest
from deviceshare_cli.main import app
from support.card_objects import node, placed, snapshot, waiting
from typer.testing import CliRunner

WEB = "default/ReplicaSet/web"
OBJECTS = [node("a", 2), placed("web", "a-0", 3000), placed("alone", "a-0", 2000, owner=None), waiting("next", 4000)]


@pytest.fixture
def answer(tmp_path: Path) -> Any:
    file = tmp_path / "snapshot.json"
    file.write_bytes(snapshot(OBJECTS, [each for each in OBJECTS if each["kind"] == "Pod"]))

    def answer(*arguments: str) -> Any:
        done = CliRunner().invoke(app, [*arguments, "-o", "json", "--snapshot", str(file)])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    return answer


def test_pods_have_their_requests_and_owners(answer: Any) -> None:
    pods = {each["name"]: each for each in answer("get", "pods")["items"]}
    assert {name: each["owner"] for name, each in pods.items()} == {"web": "ReplicaSet/web", "alone": "", "next": ""}
    (container,) = pods["web"]["request"]
    assert container["resources"] == {"volcano.sh/vgpu-memory": 3000, "volcano.sh/vgpu-number": 1}
    shown = answer("explain", "pod", "web")["pod"]
    assert (shown["owner"], shown["request"]) == ("ReplicaSet/web", [container])


def test_devices_have_their_model_and_the_owners_of_their_pods(answer: Any) -> None:
    owners = {"a-0": ["default/Pod/alone", WEB], "a-1": []}
    for found in (answer("get", "devices")["items"], answer("explain", "node", "a")["devices"]):
        assert {each["id"]: each["owners"] for each in found} == owners
        assert {each["type"] for each in found} == {"NVIDIA-T4"}
    device = answer("explain", "device", "a/0")["device"]
    assert (device["owners"], device["pods"]) == (owners["a-0"], ["default/alone", "default/web"])


def test_owners_hold_what_their_pods_hold(answer: Any) -> None:
    found = {each["holder"]: (each["pods"], each["memory"]) for each in answer("top", "owners")["owners"]}
    assert found == {WEB: (1, 3000), "default/Pod/alone": (1, 2000)}
