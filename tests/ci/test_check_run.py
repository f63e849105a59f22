"""The check of the main job accepts a recorded result of examples/ and finds each error in it."""

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


@pytest.mark.parametrize("change", [{"node": "plain"}, {"reason": None}, {"reason": "0/28 nodes are unavailable."}])
def test_a_pod_that_should_wait_for_its_reason(pods, change):
    pods["npu-three-cores"] |= change
    assert "default/npu-three-cores should wait for 1, 2, 4 or a multiple of 8" in wrong(pods)


def test_a_pod_on_a_node_of_another_kind(pods):
    pods["mig-pod"]["node"] = "hami-a100"
    assert wrong(pods) == "default/mig-pod is on hami-a100, not on one of mig-a100"


def test_a_pod_that_is_given_another_amount(pods):
    pods["hami-pod"]["devices"][0]["memory"] = 4000
    assert wrong(pods) == "default/hami-pod has [(4000, 50)] MiB and cores, not [(3000, 50)]"


def test_a_card_given_twice(pods):
    for device in pods["gpu-number-pod"]["devices"]:
        device |= {"id": pods["gpu-pod1"]["devices"][0]["id"], "memory": 11000}
    pods["gpu-number-pod"]["node"] = pods["gpu-pod1"]["node"]
    assert "MiB given" in wrong(pods)


def test_a_chip_given_twice(pods):
    pods["mindx-dls-default-test-0"]["devices"] = pods["npu-row-12"]["devices"][:1]
    assert "16 cores given" in wrong(pods)


def test_two_pods_that_do_not_share(pods):
    pods["gpu-pod1"]["devices"][0]["id"] = "7"
    assert "gpu-pod1 and gpu-pod2 should share one card" in wrong(pods)
    assert "default/gpu-pod1: volcano.sh/gpu-index is 0" in wrong(pods)


def test_a_whole_card_that_is_shared(pods):
    pods["gpu-number-pod"] |= {"node": pods["gpu-index-pod"]["node"]}
    pods["gpu-number-pod"]["devices"][0] |= {"id": pods["gpu-index-pod"]["devices"][0]["id"], "cores": 0}
    assert "gpu-number-pod and gpu-index-pod should have their cards for themselves" in wrong(pods)


def test_a_node_that_gives_more_gpus_than_it_has(pods):
    for number in range(4):
        pods[f"distributed-gpu-training-worker-{number}"]["node"] = "gpu-t4"
    assert "gpu-t4: 12 GPUs given" in wrong(pods)


@pytest.mark.parametrize(
    ("pod", "key"),
    [
        ("hami-pod", "volcano.sh/vgpu-ids-new"),
        ("hami-pod", "volcano.sh/bind-phase"),
        ("mig-pod", "volcano.sh/vgpu-time"),
        ("gpu-pod1", "volcano.sh/gpu-assigned"),
        ("ascend-pod", "huawei.com/Ascend310P"),
        ("npu-row-05", "huawei.com/npu-core"),
    ],
)
def test_an_annotation_that_the_device_plugin_misses(pods, pod, key):
    del pods[pod]["annotations"][key]
    assert f"{pod}: {key} is None" in wrong(pods)


def test_a_template_of_another_row(pods):
    pods["npu-row-10"]["annotations"]["huawei.com/npu-core"] = "0-vir04_3c"
    assert "npu-row-10: huawei.com/npu-core is 0-vir04_3c" in wrong(pods)
