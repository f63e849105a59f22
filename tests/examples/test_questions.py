"""The table of frequent questions: what a user does wrong, what they read then, and that the remedy helps."""

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
def test_a_request_that_is_not_scheduled_since_the_plugin_is_not_enabled(pod, node, flag, remedy):
    message = ExampleCluster("refused/deviceshare-not-enabled.conf", node).place(pod).message
    assert f"set deviceshare.{flag}: true in volcano-scheduler.conf" in message
    assert ExampleCluster(remedy, node).place(pod).node == node


def test_vgpus_that_cannot_be_given_since_hami_is_not_deployed():
    message = ExampleCluster(VGPU, "plain", "share-1").place("workloads/hami-pod.yaml").message
    assert message == "0/2 nodes are unavailable: 2 node(s) had no vGPU cards."
    assert ExampleCluster(VGPU, "plain", "hami-v100").place("workloads/hami-pod.yaml").node == "hami-v100"


def test_vgpus_that_cannot_be_given_since_hami_is_of_another_version():
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


def test_a_low_use_of_gpus_since_each_pod_has_a_whole_one():
    exclusive = ExampleCluster("configurations/gpu-number.conf", "number-1")
    fates = [exclusive.place(changed("workloads/gpu-number-pod.yaml", name=f"pod-{number}")) for number in range(2)]
    assert [fate.cards for fate in fates] == [[0], [1]]
    shared = ExampleCluster(SHARING, "share-1").run("workloads/gpu-pod1.yaml", "workloads/gpu-pod2.yaml")
    assert [fate.cards for fate in shared.values()] == [[0], [0]]


def test_nodes_used_unequally_since_spread_is_not_set():
    pods = ["workloads/gpu-pod1.yaml", "workloads/gpu-pod2.yaml"]
    packed = ExampleCluster(BINPACK, "share-1", "share-2").run(*pods)
    assert {fate.node for fate in packed.values()} == {"share-1"}
    spread = ExampleCluster("configurations/gpu-sharing-spread.conf", "share-1", "share-2").run(*pods)
    assert {fate.node for fate in spread.values()} == {"share-1", "share-2"}


def test_a_type_that_is_not_found_since_the_node_is_not_labelled():
    conf, pod = "volcano-scheduler.conf", "workloads/specific-gpu-pod.yaml"
    message = ExampleCluster(conf, "gpu-no-label").place(pod).message
    assert "nvidia.com/gpu.product" in message
    assert "nvidia.com/use-gputype A100,V100" in message
    labelled = changed("nodes/gpu-no-label.yaml", labels={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"})
    assert ExampleCluster(conf, labelled).place(pod).node == "gpu-no-label"
