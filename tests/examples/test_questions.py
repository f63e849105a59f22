"""The table of frequent questions: each mistake gives the message of the table, and the solution works."""

import pytest
from support.example_cluster import ExampleCluster, changed, load

SHARING, BINPACK = "configurations/gpu-sharing-configmap.conf", "configurations/gpu-sharing-binpack.conf"
VGPU = "configurations/vgpu-configmap.conf"


@pytest.mark.parametrize(
    ("pod", "node", "flag", "remedy"),
    [
        ("workloads/gpu-pod1.yaml", "share-1", "GPUSharingEnable", SHARING),
        ("workloads/gpu-number-pod.yaml", "number-1", "GPUNumberEnable", "configurations/gpu-number.conf"),
        ("workloads/hami-pod.yaml", "hami-v100", "VGPUEnable", VGPU),
    ],
)
def test_a_request_is_not_scheduled_because_the_plugin_is_not_enabled(pod, node, flag, remedy):
    message = ExampleCluster("refused/deviceshare-not-enabled.conf", node).place(pod).message
    assert f"set deviceshare.{flag}: true in volcano-scheduler.conf" in message
    assert ExampleCluster(remedy, node).place(pod).node == node


def test_vgpus_are_not_allocated_because_hami_is_not_deployed():
    message = ExampleCluster(VGPU, "plain", "share-1").place("workloads/hami-pod.yaml").message
    assert message == "0/2 nodes are unavailable: 2 node(s) had no vGPU cards."
    assert ExampleCluster(VGPU, "plain", "hami-v100").place("workloads/hami-pod.yaml").node == "hami-v100"


def test_vgpus_are_not_allocated_because_hami_has_another_version():
    cluster = ExampleCluster(VGPU, "vgpu-register-of-another-version")
    (problem,) = cluster.problems
    assert problem.subject == "Node vgpu-register-of-another-version"
    assert problem.field == "metadata.annotations[volcano.sh/node-vgpu-register] card 0"
    assert "six fields, UUID,count,devmem,type,health,mode:" in problem.expected
    assert "1 node(s) had no vGPU cards" in cluster.place("workloads/hami-pod.yaml").message
    register = load("refused/vgpu-register-of-another-version.yaml")["metadata"]["annotations"]
    remedied = {key: value.replace("true:", "true,hami-core:") for key, value in register.items()}
    node = changed("refused/vgpu-register-of-another-version.yaml", annotations=remedied)
    assert ExampleCluster(VGPU, node).place("workloads/hami-pod.yaml").node == "vgpu-register-of-another-version"


def test_gpus_are_underused_because_each_pod_has_a_whole_card():
    exclusive = ExampleCluster("configurations/gpu-number.conf", "number-1")
    results = [exclusive.place(changed("workloads/gpu-number-pod.yaml", name=f"pod-{number}")) for number in range(2)]
    assert [result.cards for result in results] == [[0], [1]]
    shared = ExampleCluster(SHARING, "share-1").run("workloads/gpu-pod1.yaml", "workloads/gpu-pod2.yaml")
    assert [result.cards for result in shared.values()] == [[0], [0]]


def test_nodes_are_used_unevenly_because_spread_is_not_set():
    pods = ["workloads/gpu-pod1.yaml", "workloads/gpu-pod2.yaml"]
    packed = ExampleCluster(BINPACK, "share-1", "share-2").run(*pods)
    assert {result.node for result in packed.values()} == {"share-1"}
    spread = ExampleCluster("configurations/gpu-sharing-spread.conf", "share-1", "share-2").run(*pods)
    assert {result.node for result in spread.values()} == {"share-1", "share-2"}


def test_a_type_is_not_found_because_the_node_has_no_label():
    conf, pod = "volcano-scheduler.conf", "workloads/specific-gpu-pod.yaml"
    message = ExampleCluster(conf, "gpu-no-label").place(pod).message
    assert "nvidia.com/gpu.product" in message
    assert "nvidia.com/use-gputype A100,V100" in message
    labelled = changed("nodes/gpu-no-label.yaml", labels={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"})
    assert ExampleCluster(conf, labelled).place(pod).node == "gpu-no-label"
