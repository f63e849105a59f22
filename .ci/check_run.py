"""Check what `deviceshare up --json` says of the pods of examples/: who shares, who is whole, who waits and why.

Usage: check_run.py RESULT.json
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

CARD = 11178
"""MiB of a card of the example nodes share-1 and share-2."""
SIZES = {"hami-a100": 40960, "hami-v100": 32768, "share-1": CARD, "share-2": CARD}
WAITING = {
    # pod: what its reason must name
    "default/specific-gpu-pod": "nvidia.com/gpu",
    "default/multi-gpu-training-trainer-0": "nvidia.com/gpu",
    **{f"default/distributed-gpu-training-worker-{index}": "nvidia.com/gpu" for index in range(4)},
    "default/mig-pod": "mode mig",
    "default/ascend-pod": "huawei.com/Ascend310P",
    "vnpu/mindx-dls-default-test-0": "huawei.com/npu-core",
}
PLACED = {
    "default/gpu-pod1",
    "default/gpu-pod2",
    "default/gpu-number-pod",
    "default/gpu-sharing-job-inference-0",
    "default/gpu-sharing-job-inference-1",
    "default/hami-pod",
    "default/vgpu-training-trainer-0",
}

Pod = dict[str, Any]


def check(result: dict[str, Any]) -> list[str]:
    """Return what is wrong, nothing if all is as it should be."""
    pods = {f"{pod['namespace']}/{pod['name']}": pod for pod in result["pods"]}
    wrong = [*_answered(pods), *_cards(pods)]
    if wrong:
        return wrong
    return [*_sharing(pods), *_vgpu(pods["default/hami-pod"])]


def _answered(pods: dict[str, Pod]) -> list[str]:
    wrong = [f"{name} is missing" for name in sorted((PLACED | WAITING.keys()) - pods.keys())]
    wrong += [f"{name} was not expected" for name in sorted(pods.keys() - PLACED - WAITING.keys())]
    for name, pod in pods.items():
        if name in PLACED and not pod["node"]:
            wrong.append(f"{name} is on no node: {pod['reason']}")
        if name in WAITING and (pod["node"] or WAITING[name] not in (pod["reason"] or "")):
            wrong.append(f"{name} should wait for {WAITING[name]}: node {pod['node']}, reason {pod['reason']}")
    return wrong


def _cards(pods: dict[str, Pod]) -> list[str]:
    """No card is given more than it has."""
    memory: Counter[tuple[str, str]] = Counter()
    cores: Counter[tuple[str, str]] = Counter()
    for pod in pods.values():
        for device in pod["devices"]:
            memory[pod["node"], device["id"]] += device["memory"]
            cores[pod["node"], device["id"]] += device["cores"]
    wrong = [f"card {card}: {used} MiB given" for card, used in memory.items() if used > SIZES[card[0]]]
    return wrong + [f"card {card}: {used} percent of cores given" for card, used in cores.items() if used > 100]


def _sharing(pods: dict[str, Pod]) -> list[str]:
    def places(*names: str) -> list[tuple[str, str]]:
        return [(pods[name]["node"], device["id"]) for name in names for device in pods[name]["devices"]]

    wrong = []
    pair = places("default/gpu-pod1", "default/gpu-pod2")
    if len(pair) != 2 or len(set(pair)) != 1:
        wrong.append(f"gpu-pod1 and gpu-pod2 should share one card: {pair}")
    for name in ("default/gpu-pod1", "default/gpu-pod2"):
        index = pods[name]["annotations"].get("volcano.sh/gpu-index")
        if [index] != [device["id"] for device in pods[name]["devices"]]:
            wrong.append(f"{name}: volcano.sh/gpu-index is {index}")
    shared = places(*(name for name in PLACED if "gpu-pod" in name or "gpu-sharing" in name))
    whole = places("default/gpu-number-pod")
    if len(whole) != 1 or whole[0] in shared:
        wrong.append(f"gpu-number-pod should have one card for itself: {whole}")
    return wrong


def _vgpu(pod: Pod) -> list[str]:
    """The vGPU pod has what its device plugin reads: 3000 MiB and half of the cores of one card."""
    annotations = pod["annotations"]
    ids = f"{pod['devices'][0]['id']},NVIDIA,3000,50:"
    expected = {
        "volcano.sh/vgpu-ids-new": ids,
        "volcano.sh/devices-to-allocate": ids,
        "volcano.sh/vgpu-node": pod["node"],
        "volcano.sh/bind-phase": "allocating",
    }
    wrong = [
        f"hami-pod: {key} is {annotations.get(key)}, not {value}"
        for key, value in expected.items()
        if annotations.get(key) != value
    ]
    timed = [key for key in ("volcano.sh/vgpu-time", "volcano.sh/bind-time") if not annotations.get(key, "").isdigit()]
    return wrong + [f"hami-pod: {key} is no time in seconds" for key in timed]


def main() -> None:
    """Check the file that is named on the command line; status 1 where something is wrong."""
    wrong = check(json.loads(Path(sys.argv[1]).read_text()))
    for line in wrong:
        sys.stderr.write(f"wrong: {line}\n")
    if wrong:
        sys.exit(1)
    sys.stdout.write(f"as expected: {len(PLACED)} pods placed, {len(WAITING)} wait with the right reason\n")


if __name__ == "__main__":
    main()
