"""The check of the main job's result sees what is wrong; a recorded result of examples/ is the one that is right."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location("check_run", ROOT / ".ci" / "check_run.py")
assert _SPEC is not None
assert _SPEC.loader is not None
check_run = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(check_run)


@pytest.fixture
def pods() -> dict[str, dict]:
    result = json.loads((ROOT / "tests" / "data" / "run-of-examples.json").read_text())
    return {pod["name"]: pod for pod in result["pods"]}


def wrong(pods: dict[str, dict]) -> str:
    return "\n".join(check_run.check({"pods": list(pods.values())}))


def test_the_recorded_result_is_right(pods):
    assert wrong(pods) == ""


def test_a_pod_that_is_missing_or_too_many(pods):
    pods["gpu-pod3"] = pods.pop("gpu-pod2") | {"name": "gpu-pod3"}
    assert wrong(pods) == "default/gpu-pod2 is missing\ndefault/gpu-pod3 was not expected"


def test_half_a_gang(pods):
    pods["gpu-sharing-job-inference-1"] |= {"node": None, "devices": [], "reason": "no room"}
    assert wrong(pods) == "default/gpu-sharing-job-inference-1 is on no node: no room"


@pytest.mark.parametrize("change", [{"node": "plain"}, {"reason": None}, {"reason": "0/5 nodes are unavailable."}])
def test_a_pod_that_should_wait_for_its_reason(pods, change):
    pods["mig-pod"] |= change
    assert "default/mig-pod should wait for mode mig" in wrong(pods)


def test_a_card_given_twice(pods):
    pods["gpu-pod1"]["devices"][0]["memory"] += 1000
    assert wrong(pods) == "card ('share-1', '0'): 11240 MiB given"


def test_two_pods_that_do_not_share(pods):
    pods["gpu-pod1"]["devices"][0]["id"] = "7"
    assert "gpu-pod1 and gpu-pod2 should share one card" in wrong(pods)
    assert "default/gpu-pod1: volcano.sh/gpu-index is 0" in wrong(pods)


def test_a_whole_card_that_is_shared(pods):
    pods["gpu-number-pod"]["devices"][0] |= {"id": "0", "memory": 0}
    assert "gpu-number-pod should have one card for itself" in wrong(pods)


@pytest.mark.parametrize("key", ["volcano.sh/vgpu-ids-new", "volcano.sh/bind-phase", "volcano.sh/vgpu-time"])
def test_an_annotation_that_the_device_plugin_misses(pods, key):
    del pods["hami-pod"]["annotations"][key]
    assert f"hami-pod: {key} is" in wrong(pods)
