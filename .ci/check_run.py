"""Check the output of `deviceshare up --json` for examples/: nodes, shared cards, pending pods and reasons.

Usage: check_run.py RESULT.json
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

SHARE = ("share-1", "share-2", "share-16g", "volcano-control-plane")
NUMBER = ("number-1", "number-2")
VGPU = ("hami-a100", "hami-v100", "hami-unhealthy", "vgpu-1080ti")
WHOLE = ("gpu-a100-1", "gpu-a100-2", "gpu-no-label", "gpu-t4", "gpu-v100")
A100_OR_V100 = ("gpu-a100-1", "gpu-a100-2", "gpu-v100")
CARDS = {
    # node: MiB and cores of each card
    **dict.fromkeys(SHARE, (11178, 100)), "share-16g": (16384, 100), **dict.fromkeys(NUMBER, (0, 100)),
    "hami-a100": (40960, 100), "hami-v100": (32768, 100), "vgpu-1080ti": (11178, 100), "hami-unhealthy": (23034, 100),
    "hami-t4": (15360, 100),
    "mig-a100": (40960, 100), "mig-a30": (24576, 100), "mig-h100": (81559, 100), "mps-t4": (15360, 100),
    "ascend-310p": (21527, 8), "ascend-910a": (32768, 30), "ascend-910b2": (65536, 24), "ascend-910b3": (65536, 20),
    "ascend-910b4": (32768, 20), "ascend-910b4-1": (65536, 20),
    "npu-310p": (0, 8), "npu-row-04": (0, 8), "npu-row-11": (0, 8),
}  # fmt: skip
PLACED = {
    # pod: its feasible nodes (none: not checked), MiB and cores of each of its devices (None: not checked)
    **{f"default/gpu-pod{number}": (SHARE, [(1024, 0)]) for number in (1, 2)},
    **{f"default/gpu-sharing-job-inference-{number}": (SHARE, [(4096, 0)]) for number in (0, 1)},
    **{f"default/share-{letter}": (SHARE, [(size, 0)]) for letter, size in (("a", 4096), ("b", 4096), ("c", 8192))},
    "default/gpu-number-pod": (NUMBER, None),
    "default/gpu-index-pod": (NUMBER, [(0, 100), (0, 100)]),
    **{f"default/distributed-gpu-training-worker-{index}": (WHOLE, []) for index in range(4)},
    "default/multi-gpu-training-trainer-0": (WHOLE, []),
    "default/specific-gpu-pod": (A100_OR_V100, []),
    "default/gpu-not-t4-pod": ((*A100_OR_V100, "gpu-no-label"), []),
    "default/hami-pod": (VGPU, [(3000, 50)]),
    "default/hami-gpu-pod": (("hami-t4",), [(3000, 30)]),
    "default/hami-gpu-whole-pod": (("hami-t4",), [(15360, 0)]),
    "default/vgpu-training-trainer-0": (VGPU, [(4096, 0)]),
    "default/vgpu-two-cards-pod": (VGPU, [(3000, 50), (3000, 50)]),
    "default/vgpu-policies-pod": (VGPU, [(1500, 0)]),
    "default/vgpu-fragmentation-pod": (VGPU, [(2500, 0)]),
    "default/vgpu-a100-or-v100-pod": (("hami-a100", "hami-v100"), [(8192, 0)]),
    "default/vgpu-not-t4-pod": ((*VGPU, "mig-a100"), None),
    "default/vgpu-any-mode-pod": ((*VGPU, "mig-a100", "mps-t4"), None),
    "default/healthy-l4-pod": (("hami-unhealthy",), [(4096, 0)]),
    "default/mig-pod": (("mig-a100",), [(5120, 0)]),
    "default/mig-a30-pod": (("mig-a30",), [(6144, 0)]),
    "default/mig-h100-pod": (("mig-h100",), [(20096, 0)]),
    "default/mps-pod": (("mps-t4",), [(4096, 0)]),
    "default/ascend-pod": (("ascend-310p",), [(6144, 0)]),
    "default/ascend-910a-pod": (("ascend-910a",), [(4369, 0)]),
    "default/ascend-910b2-pod": (("ascend-910b2",), [(8192, 0)]),
    "default/ascend-910b3-pod": (("ascend-910b3",), [(32768, 0)]),
    "default/ascend-910b3-whole-pod": (("ascend-910b3",), [(65536, 0), (65536, 0)]),
    "default/ascend-910b4-pod": (("ascend-910b4",), [(8192, 0)]),
    "default/ascend-910b4-1-pod": (("ascend-910b4-1",), [(16384, 0)]),
    "vnpu/mindx-dls-default-test-0": (("npu-310p",), [(0, 8)]),
    **{
        f"default/npu-row-{row:02}": (("npu-310p",), [(0, cores)])
        for row, cores in ((1, 1), (2, 2), (3, 2), (5, 4), (6, 4), (7, 4), (8, 4), (9, 4), (10, 4))
    },
    "default/npu-row-04": (("npu-row-04",), [(0, 2)]),
    "default/npu-row-04-a": (("npu-row-04",), [(0, 4)]),
    "default/npu-row-04-b": (("npu-row-04",), [(0, 2)]),
    "default/npu-row-11": (("npu-row-11",), [(0, 4)]),
    "default/npu-row-11-a": (("npu-row-11",), [(0, 4)]),
    "default/npu-row-12": (("npu-310p",), [(0, 8), (0, 8)]),
    "default/dataset-reader": (("gpu-v100",), []),
    "default/cache-reader": (("gpu-a100-1",), []),
    "default/scratch-writer": ((), []),
    **{
        f"default/{name}": (VGPU, [(amount, 0)])
        for amount, names in (
            (
                1000,
                (
                    "serve-8597c8686d-578hc",
                    "serve-8597c8686d-lw4c8",
                    "sweep-lzgbg-0-hdjrz",
                    "sweep-lzgbg-1-ts2xm",
                    "tune-gpu-worker-nntbm",
                    "llm-0",
                    "llm-0-1",
                ),
            ),
            (2000, ("finetune-master-0", "finetune-worker-0", "finetune-worker-1")),
        )
        for name in names
    },
    **{f"default/{name}": ((), []) for name in ("store-0", "store-1", "tune-head")},
    **{f"default/{name}": ((), []) for name in ("apart-0", "apart-1", "beside", "spread-0", "spread-1")},
}
WAITING = {
    # pod: text in its reason
    "default/affinity-without-pod": "node(s) didn't match pod affinity rules",
    "default/ascend-910a-too-large": "at most 32768 MiB",
    "default/ascend310p-old-name": "did you mean huawei.com/Ascend310P",
    "default/claim-too-large": "node(s) didn't find available persistent volumes to bind",
    "default/claim-missing": 'persistentvolumeclaim "nowhere" not found',
    "default/gpu-index-missing": "volcano.sh/gpu-index 9",
    "default/gpu-type-missing": "nvidia.com/use-gputype H200",
    "default/mig-larger-than-any-instance": "asked 90000 MiB, the largest card that the pod may use has 40960 MiB",
    "default/mode-unknown": "one of hami-core, mig, mps",
    "default/npu-dvpp-mismatch": "null for 2 AI cores",
    "default/npu-dvpp-unknown": "metadata.labels[vnpu-dvpp]: 'maybe'",
    "default/npu-three-cores": "1, 2, 4 or a multiple of 8",
    "default/npu-without-label": "metadata.labels[ring-controller.atlas]",
    "default/vgpu-type-missing": "nvidia.com/use-gputype H200",
}
TEMPLATES = {
    # row of the table of vNPU templates: the template
    1: "vir01", 2: "vir02_1c", 3: "vir02", 4: "vir02_1c", 5: "vir04_4c_dvpp", 6: "vir04_3c_ndvpp", 7: "vir04_3c",
    8: "vir04_4c_dvpp", 9: "vir04_3c_ndvpp", 10: "vir04", 11: "vir04_3c",
}  # fmt: skip

Pod = dict[str, Any]


def check(result: dict[str, Any]) -> list[str]:
    """Return all problems."""
    pods = {f"{pod['namespace']}/{pod['name']}": pod for pod in result["pods"]}
    wrong = [*_answered(pods), *_cards(pods)]
    if wrong:
        return wrong
    return [*_sharing(pods), *_spanning(pods), *_inter_pod(pods), *_handed_over(pods)]


def _answered(pods: dict[str, Pod]) -> list[str]:
    wrong = [f"{name} is missing" for name in sorted((PLACED.keys() | WAITING.keys()) - pods.keys())]
    wrong += [f"{name} was not expected" for name in sorted(pods.keys() - PLACED.keys() - WAITING.keys())]
    for name, pod in pods.items():
        if name in PLACED:
            nodes, amounts = PLACED[name]
            given = [(device["memory"], device["cores"]) for device in pod["devices"]]
            if not pod["node"]:
                wrong.append(f"{name} is on no node: {pod['reason']}")
            elif nodes and pod["node"] not in nodes:
                wrong.append(f"{name} is on {pod['node']}, not on one of {', '.join(nodes)}")
            elif amounts is not None and given != amounts:
                wrong.append(f"{name} has {given} MiB and cores, not {amounts}")
        if name in WAITING and (pod["node"] or WAITING[name] not in (pod["reason"] or "")):
            wrong.append(f"{name} should wait for {WAITING[name]}: node {pod['node']}, reason {pod['reason']}")
    return wrong


def _cards(pods: dict[str, Pod]) -> list[str]:
    """Return cards that are overcommitted."""
    memory: Counter[tuple[str, str]] = Counter()
    cores: Counter[tuple[str, str]] = Counter()
    for pod in pods.values():
        for device in pod["devices"]:
            memory[pod["node"], device["id"]] += device["memory"]
            cores[pod["node"], device["id"]] += device["cores"]
    none = (0, 0)
    wrong = [f"card {card}: {used} MiB given" for card, used in memory.items() if used > CARDS.get(card[0], none)[0]]
    return wrong + [
        f"card {card}: {used} cores given" for card, used in cores.items() if used > CARDS.get(card[0], none)[1]
    ]


def _sharing(pods: dict[str, Pod]) -> list[str]:
    """Check that the pods of the guide share a card, and that exclusive cards are not shared."""

    def places(*names: str) -> list[tuple[str, str]]:
        return [(pods[name]["node"], device["id"]) for name in names for device in pods[name]["devices"]]

    wrong = []
    pair = places("default/gpu-pod1", "default/gpu-pod2")
    if len(set(pair)) != 1:
        wrong.append(f"gpu-pod1 and gpu-pod2 should share one card: {pair}")
    for name in ("default/gpu-pod1", "default/gpu-pod2", "default/gpu-index-pod"):
        index = pods[name]["annotations"].get("volcano.sh/gpu-index")
        if index != ",".join(device["id"] for device in pods[name]["devices"]):
            wrong.append(f"{name}: volcano.sh/gpu-index is {index}")
    whole = places("default/gpu-number-pod", "default/gpu-index-pod")
    shared = places(*(name for name in PLACED if "gpu-pod" in name or "gpu-sharing" in name or "/share-" in name))
    if len(set(whole)) != 3 or set(whole) & set(shared):
        wrong.append(f"gpu-number-pod and gpu-index-pod should have their cards for themselves: {whole}")
    return wrong


def _spanning(pods: dict[str, Pod]) -> list[str]:
    """Check that no node gives more than its four whole GPUs."""
    given = Counter(
        {
            "default/multi-gpu-training-trainer-0": 4,
            **{f"default/distributed-gpu-training-worker-{index}": 2 for index in range(4)},
            "default/specific-gpu-pod": 1,
            "default/gpu-not-t4-pod": 1,
        }
    )
    used: Counter[str] = Counter()
    for name, count in given.items():
        used[pods[name]["node"]] += count
    return [f"{node}: {count} GPUs given" for node, count in used.items() if count > 4]


def _inter_pod(pods: dict[str, Pod]) -> list[str]:
    """Check anti-affinity, affinity and topology spread."""
    nodes = {name: pods[f"default/{name}"]["node"] for name in ("apart-0", "apart-1", "beside", "spread-0", "spread-1")}
    wrong = [
        f"{each}-0 and {each}-1 are on one node"
        for each in ("apart", "spread")
        if nodes[f"{each}-0"] == nodes[f"{each}-1"]
    ]
    if nodes["beside"] not in (nodes["apart-0"], nodes["apart-1"]):
        wrong.append(f"beside is on {nodes['beside']}, without a pod of app apart")
    return wrong


def _handed_over(pods: dict[str, Pod]) -> list[str]:
    """Check the annotations that each device plugin reads and writes: on a local cluster pods are served at once."""
    wrong = []
    for name, key, pattern in _annotations(pods):
        value = pods[f"default/{name}"]["annotations"].get(key)
        if value is None or not re.fullmatch(pattern, value):
            wrong.append(f"{name}: {key} is {value}, not {pattern}")
    return wrong


def _annotations(pods: dict[str, Pod]) -> list[tuple[str, str, str]]:
    def device(name: str) -> tuple[str, str]:
        pod = pods[f"default/{name}"]
        return pod["node"], re.escape(pod["devices"][0]["id"])  # the id that its plugin uses

    seconds = r"\d{10}"
    expected = []
    for name, ids in (("hami-pod", "{},NVIDIA,3000,50:"), ("mig-pod", "{},NVIDIA,3000,0:")):
        node, card = device(name)
        value = ids.format(card)
        expected += [
            (name, "volcano.sh/vgpu-ids-new", value),
            (name, "volcano.sh/devices-to-allocate", value),
            (name, "volcano.sh/vgpu-node", node),
            (name, "volcano.sh/bind-phase", "allocating"),
            (name, "volcano.sh/vgpu-time", seconds),
            (name, "volcano.sh/bind-time", seconds),
        ]
    node, chip = device("ascend-pod")
    expected += [
        ("ascend-pod", "hami.io/Ascend310P-devices-to-allocate", f"{chip},Ascend310P,6144,0:;"),
        ("ascend-pod", "hami.io/Ascend310P-devices-allocated", f"{chip},Ascend310P,6144,0:;"),
        ("ascend-pod", "huawei.com/Ascend310P", rf'\[{{"UUID":"{chip}","temp":"vir02"}}\]'),
        ("ascend-pod", "hami.io/vgpu-node", node),
        ("ascend-pod", "hami.io/bind-phase", "allocating"),
    ]
    for row, template in TEMPLATES.items():
        name = f"npu-row-{row:02}"
        chip = device(name)[1].rpartition("-")[2]
        expected.append((name, "huawei.com/npu-core", f"{chip}-{template}"))
    return [
        *expected,
        ("npu-row-12", "huawei.com/npu-core", r"\d+,\d+"),
        ("npu-row-01", "predicate-time", r"\d{19}"),
        ("npu-row-01", "huawei.com/AscendReal", r"Ascend310P-1c\.1cpu-\d+-\d+_\d+"),
        ("gpu-pod1", "volcano.sh/predicate-time", r"\d{19}"),
        ("gpu-pod1", "volcano.sh/gpu-assigned", "true"),
    ]


def main() -> None:
    """Check the file on the command line; status 1 if there are problems."""
    wrong = check(json.loads(Path(sys.argv[1]).read_text()))
    for line in wrong:
        sys.stderr.write(f"wrong: {line}\n")
    if wrong:
        sys.exit(1)
    sys.stdout.write(f"as expected: {len(PLACED)} pods placed, {len(WAITING)} wait with the right reason\n")


if __name__ == "__main__":
    main()
