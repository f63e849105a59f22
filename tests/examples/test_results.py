"""What the workloads of the guides get: each line of the tables is a statement, a drawing or a row of a guide."""

import pytest
from support.example_cluster import EXAMPLES, ExampleCluster, PodResult

MAIN, SHARING = "volcano-scheduler", "configurations/gpu-sharing-"
VGPU, NUMBER = "configurations/vgpu-configmap", "configurations/gpu-number"
HAMI, MERGED = "configurations/ascend-hami-configmap", "configurations/vgpu-and-vnpu-configmap"
MINDCLUSTER, NOT_ENABLED = "configurations/ascend-mindcluster-configmap", "refused/deviceshare-not-enabled"
BINPACK, SPREAD, CONFIGMAP = f"{SHARING}binpack", f"{SHARING}spread", f"{SHARING}configmap"


def results(configuration: str, nodes: str, workloads: str) -> list[PodResult]:
    """Place the workloads in turn on nodes, all if none is named; return the results of all pods."""
    cluster = ExampleCluster(f"{configuration}.conf", *nodes.split())
    paths = (name if name.startswith("refused/") else f"workloads/{name}" for name in workloads.split())
    return [*cluster.run(*(f"{path}.yaml" for path in paths)).values()]


def shown(result: PodResult) -> tuple[str, list[int], list[int]]:
    return result.node, result.cards, result.memory


@pytest.mark.parametrize(
    ("configuration", "nodes", "workloads", "expected"),
    [
        # Sharing: node, indexes of cards, MiB of each
        (CONFIGMAP, "volcano-control-plane", "gpu-pod1 gpu-pod2", [("volcano-control-plane", [0], [1024])] * 2),
        (f"{CONFIGMAP}-until-1.8.2", "share-1", "gpu-pod1 gpu-pod2", [("share-1", [0], [1024])] * 2),
        (BINPACK, "share-1 share-2", "gpu-sharing-job", [("share-1", [0], [4096])] * 2),
        (BINPACK, "share-16g", "share-a share-b share-c",
         [("share-16g", [0], [4096]), ("share-16g", [0], [4096]), ("share-16g", [0], [8192])]),
        (BINPACK, "share-1 share-2", "share-a share-b share-c",
         [("share-1", [0], [4096]), ("share-1", [0], [4096]), ("share-1", [1], [8192])]),
        (SPREAD, "share-1 share-2 volcano-control-plane", "share-a share-b share-c",
         [("share-1", [0], [4096]), ("share-2", [0], [4096]), ("volcano-control-plane", [0], [8192])]),
        (f"{BINPACK}-then-spread", "share-1 share-2", "share-a share-b",
         [("share-1", [0], [4096]), ("share-2", [0], [4096])]),
        (f"{SHARING}with-binpack-plugin", "share-1 share-2", "share-a share-b share-c",
         [("share-1", [0], [4096]), ("share-1", [0], [4096]), ("share-1", [1], [8192])]),
        # Whole cards by number and index
        (MAIN, "volcano-control-plane number-1", "gpu-number-pod", [("number-1", [0], [0])]),
        (NUMBER, "number-1", "gpu-index-pod", [("number-1", [0, 2], [0, 0])]),
        # Whole GPUs, which the device plugin chooses: by type, several on one node, a gang over nodes
        (MAIN, "gpu-t4 gpu-v100", "specific-gpu-pod", [("gpu-v100", [], [])]),
        (MAIN, "gpu-a100-1 gpu-a100-2 gpu-no-label gpu-t4 gpu-v100", "specific-gpu-pod", [("gpu-a100-1", [], [])]),
        (MAIN, "gpu-t4 gpu-v100", "gpu-not-t4-pod", [("gpu-v100", [], [])]),
        (MAIN, "gpu-t4 gpu-v100", "specific-gpu-pod multi-gpu-training", [("gpu-v100", [], []), ("gpu-t4", [], [])]),
        (MAIN, "gpu-a100-1 gpu-a100-2", "distributed-gpu-training",
         [("gpu-a100-1", [], [])] * 2 + [("gpu-a100-2", [], [])] * 2),
        # vGPUs: HAMi-core, MIG, MPS
        (VGPU, "vgpu-1080ti", "hami-pod", [("vgpu-1080ti", [0], [3000])]),
        (VGPU, "hami-v100", "vgpu-two-cards-pod", [("hami-v100", [0, 1], [3000, 3000])]),
        ("configurations/vgpu", "hami-v100", "vgpu-training", [("hami-v100", [0], [4096])]),
        (VGPU, "hami-unhealthy", "healthy-l4-pod", [("hami-unhealthy", [1], [4096])]),
        (VGPU, "", "hami-pod mig-pod mps-pod",
         [("vgpu-1080ti", [0], [3000]), ("mig-a100", [0], [5120]), ("mps-t4", [0], [4096])]),
        (VGPU, "mig-a100", "vgpu-any-mode-pod", [("mig-a100", [0], [5120])]),
        (VGPU, "mps-t4", "vgpu-any-mode-pod", [("mps-t4", [0], [3000])]),
        (VGPU, "mig-a30", "mig-a30-pod", [("mig-a30", [0], [6144])]),
        (VGPU, "mig-h100", "mig-h100-pod", [("mig-h100", [0], [20096])]),
        (VGPU, "vgpu-1080ti hami-v100", "vgpu-a100-or-v100-pod", [("hami-v100", [0], [8192])]),
        (VGPU, "vgpu-1080ti hami-a100", "vgpu-a100-or-v100-pod", [("hami-a100", [0], [8192])]),
        (VGPU, "mps-t4 vgpu-1080ti", "vgpu-not-t4-pod", [("vgpu-1080ti", [0], [2048])]),
        ("configurations/vgpu-spread", "hami-a100 hami-v100", "hami-pod vgpu-any-mode-pod",
         [("hami-a100", [0], [3000]), ("hami-v100", [0], [3000])]),
        # Ascend
        (HAMI, "ascend-910b3", "ascend-910b3-pod ascend-910b3-whole-pod",
         [("ascend-910b3", [0], [32768]), ("ascend-910b3", [2, 3], [65536, 65536])]),
        (MERGED, "mig-a100 ascend-310p", "mig-pod ascend-hami-pod",
         [("mig-a100", [0], [5120]), ("ascend-310p", [0], [6144])]),
        (MINDCLUSTER, "npu-310p", "ascend-mindcluster-job", [("npu-310p", [0], [0])]),
    ],
)  # fmt: skip
def test_what_pods_get(configuration, nodes, workloads, expected):
    assert [shown(result) for result in results(configuration, nodes, workloads)] == expected


@pytest.mark.parametrize(
    ("configuration", "nodes", "workloads", "parts"),
    [
        (BINPACK, "share-16g", "share-a share-b share-c gpu-pod1",
         ["1 Insufficient volcano.sh/gpu-memory on one card (asked 1024 MiB, at most 0 MiB free, 1024 MiB missing)"]),
        (BINPACK, "share-16g", "share-c share-a gpu-sharing-job",
         ["is not ready, 1 of 2 pods fit", "(asked 4096 MiB, at most 0 MiB free"]),
        (NUMBER, "volcano-control-plane", "gpu-number-pod",
         ["1 node(s) had a device plugin that shares volcano.sh/gpu-memory and does not serve"]),
        (NUMBER, "number-1", "gpu-number-pod gpu-index-pod",
         ["1 Insufficient volcano.sh/gpu-number (asked 2, at most 1 free, 1 missing)"]),
        (CONFIGMAP, "volcano-control-plane", "refused/gpu-index-missing",
         ["0/1 nodes are unavailable: 1 node(s) had cards other than volcano.sh/gpu-index 9."]),
        (MAIN, "gpu-no-label gpu-t4", "specific-gpu-pod",
         ["1 node(s) had GPUs of type Tesla-T4 for nvidia.com/use-gputype A100,V100", "label nvidia.com/gpu.product"]),
        (MAIN, "gpu-t4", "gpu-not-t4-pod", ["1 node(s) had GPUs of type Tesla-T4 for nvidia.com/nouse-gputype T4"]),
        (MAIN, "gpu-t4 gpu-v100", "refused/gpu-type-missing", ["for nvidia.com/use-gputype H200"]),
        (MAIN, "gpu-a100-1", "distributed-gpu-training",
         ["is not ready, 2 of 4 pods fit", "1 Insufficient nvidia.com/gpu (asked 2, at most 0 free, 2 missing)"]),
        (VGPU, "vgpu-1080ti", "vgpu-a100-or-v100-pod",
         ["cards of type NVIDIA-GeForce GTX 1080 Ti for nvidia.com/use-gputype A100,V100"]),
        (VGPU, "mps-t4", "vgpu-not-t4-pod", ["cards of type NVIDIA-Tesla T4 for nvidia.com/nouse-gputype T4"]),
        (VGPU, "", "refused/mode-unknown", ["metadata.annotations[volcano.sh/vgpu-mode]: 'time-slicing'",
                                            "expected one of hami-core, mig, mps"]),
        (VGPU, "mig-a100", "refused/mig-larger-than-any-instance",
         ["asked 90000 MiB, the largest card that the pod may use has 40960 MiB"]),
        (VGPU, "plain share-1", "hami-pod", ["0/2 nodes are unavailable: 2 node(s) had no vGPU cards."]),
        (HAMI, "ascend-910a", "refused/ascend-910a-too-large",
         ["resources.limits[huawei.com/Ascend910A-memory]: '40000'", "at most 32768 MiB"]),
        (MAIN, "", "refused/ascend310p-old-name",
         ["Insufficient huawei.com/ascend310p-vir02, which no node has; did you mean huawei.com/Ascend310P"]),
        (MINDCLUSTER, "ascend-310p plain", "ascend-mindcluster-job",
         ["1 node(s) didn't match Pod's node affinity/selector", "1 node(s) had no Ascend 310P chips of MindCluster"]),
        (MINDCLUSTER, "npu-310p", "refused/npu-dvpp-mismatch", ["metadata.labels[vnpu-dvpp]", "null for 2 AI cores"]),
        (MINDCLUSTER, "npu-310p", "refused/npu-dvpp-unknown", ["metadata.labels[vnpu-dvpp]", "null or yes or no"]),
        (MINDCLUSTER, "npu-310p", "refused/npu-three-cores",
         ["resources.limits[huawei.com/npu-core]", "1, 2, 4 or a multiple of 8"]),
        (MINDCLUSTER, "npu-310p", "refused/npu-without-label",
         ["metadata.labels[ring-controller.atlas]", "ascend-310P"]),
        ("refused/ascend-mindcluster-static", "npu-310p", "mindcluster/npu-row-07", ["presetVirtualDevice"]),
        # The table of frequent questions: a plugin that is not enabled
        (NOT_ENABLED, "share-1", "gpu-pod1", ["set deviceshare.GPUSharingEnable: true in volcano-scheduler.conf"]),
        (NOT_ENABLED, "number-1", "gpu-number-pod", ["set deviceshare.GPUNumberEnable: true in"]),
        (NOT_ENABLED, "hami-v100", "hami-pod", ["set deviceshare.VGPUEnable: true in volcano-scheduler.conf"]),
    ],
)  # fmt: skip
def test_why_pods_wait(configuration, nodes, workloads, parts):
    *_, result = results(configuration, nodes, workloads)
    assert result.node == ""
    assert [part for part in parts if part not in result.message] == [], result.message


ROWS = {
    1: ["vir01"], 2: ["vir02_1c"], 3: ["vir02"], 4: ["vir02_1c"], 5: ["vir04_4c_dvpp"], 6: ["vir04_3c_ndvpp"],
    7: ["vir04_3c"], 8: ["vir04_4c_dvpp"], 9: ["vir04_3c_ndvpp"], 10: ["vir04"], 11: ["vir04_3c"], 12: ["", ""],
}  # fmt: skip
"""The table of MindCluster's templates; in row 12 two whole chips."""
BEFORE = {4: "ab", 11: "a"}
"""In these rows other pods leave too few AI CPUs for the larger template."""


def test_every_row_of_the_table_of_templates_is_a_file():
    files = {path.stem for path in (EXAMPLES / "workloads" / "mindcluster").glob("npu-row-??.yaml")}
    assert files == {f"npu-row-{number:02}" for number in ROWS}


@pytest.mark.parametrize("number", ROWS)
def test_a_row_of_the_table_of_templates(number):
    name = f"npu-row-{number:02}"
    node = name if number in BEFORE else "npu-310p"
    workloads = [*(f"mindcluster/{name}-{letter}" for letter in BEFORE.get(number, "")), f"mindcluster/{name}"]
    *_, result = results(MINDCLUSTER, node, " ".join(workloads))
    assert (result.node, result.details) == (node, ROWS[number])
