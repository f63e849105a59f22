"""What the guides show of a placed pod, annotations and environment, and their mistakes with the remedies."""

import pytest
from deviceshare_localcluster.manifests import parse_manifests
from support.example_cluster import EXAMPLES, ExampleCluster, changed, example_conf, kind, load

SHARING, VGPU = "configurations/gpu-sharing-configmap.conf", "configurations/vgpu-configmap.conf"
HAMI, MERGED = "configurations/ascend-hami-configmap.conf", "configurations/vgpu-and-vnpu-configmap.conf"
MINDCLUSTER = "configurations/ascend-mindcluster-configmap.conf"
HAMI_POD = "workloads/hami-pod.yaml"
UUID = "GPU-a0187b4d-5120-9e8f-3327-26d0356a4152"


@pytest.mark.parametrize("name", ["gpu-pod1", "gpu-pod2"])
def test_a_share_of_a_card(name):
    result = ExampleCluster(SHARING, "volcano-control-plane").place(f"workloads/{name}.yaml")
    assert result.annotations == {"volcano.sh/gpu-index": "0", "volcano.sh/predicate-time": "1770105600000000000"}
    assert result.environment == {
        "VOLCANO_GPU_MEMORY_TOTAL": "11178",
        "VOLCANO_GPU_ALLOCATED": "1024",
        "NVIDIA_VISIBLE_DEVICES": "0",
    }


def test_a_whole_card():
    result = ExampleCluster("configurations/gpu-number.conf", "number-1").place("workloads/gpu-index-pod.yaml")
    assert result.annotations["volcano.sh/gpu-index"] == "0,2"
    assert result.environment == {"NVIDIA_VISIBLE_DEVICES": "0,2"}


def test_half_of_the_cores_and_3000_mb_of_a_card():
    result = ExampleCluster(VGPU, "hami-v100").place(HAMI_POD)
    ids = f"{UUID},NVIDIA,3000,50:"
    assert result.annotations == {
        "volcano.sh/vgpu-node": "hami-v100",
        "volcano.sh/vgpu-time": "1770105600",
        "volcano.sh/vgpu-ids-new": ids,
        "volcano.sh/devices-to-allocate": ids,
        "volcano.sh/bind-phase": "allocating",
        "volcano.sh/bind-time": "1770105600",
    }
    assert result.environment["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3000m"
    assert result.environment["CUDA_DEVICE_SM_LIMIT"] == "50"


def test_a_request_for_3_gb_gets_the_mig_instance_of_5_gb():
    cluster = ExampleCluster(VGPU, "mig-a100")
    result = cluster.place("workloads/mig-pod.yaml")
    assert (result.families, result.memory, result.details) == ({"mig"}, [5120], ["group1-0"])
    uuid = cluster.nodes["mig-a100"].cards[0].id
    assert result.annotations["volcano.sh/vgpu-ids-new"] == f"{uuid}[group1-0],NVIDIA,3000,0:"


CHIPS = {
    # word: (node, workload, requested memory, template, charged memory)
    "Ascend910A": ("ascend-910a", "workloads/ascend-910a-pod.yaml", 4096, "vir04", 4369),
    "Ascend910B2": ("ascend-910b2", "workloads/ascend-910b2-pod.yaml", 8000, "vir03_1c_8g", 8192),
    "Ascend910B3": ("ascend-910b3", "workloads/ascend-910b3-pod.yaml", 20000, "vir10_3c_32g", 32768),
    "Ascend910B4": ("ascend-910b4", "workloads/ascend-910b4-pod.yaml", 8192, "vir05_1c_8g", 8192),
    "Ascend910B4-1": ("ascend-910b4-1", "workloads/ascend-910b4-1-pod.yaml", 10000, "vir05_1c_16g", 16384),
    "Ascend310P": ("ascend-310p", "workloads/ascend-hami-pod.yaml", 4096, "vir02", 6144),
}


@pytest.mark.parametrize("word", CHIPS)
@pytest.mark.parametrize("configuration", [HAMI, MERGED])
def test_each_ascend_chip_of_the_table(word, configuration):
    node, workload, asked, template, charged = CHIPS[word]
    cluster = ExampleCluster(configuration)
    result = cluster.place(workload)
    (ask,) = result.pod.ask.containers
    assert (ask.get(f"huawei.com/{word}"), ask.get(f"huawei.com/{word}-memory")) == (1, asked)
    assert (result.node, result.cards, result.memory) == (node, [0], [charged])
    uuid = cluster.nodes[node].cards[0].id
    devices = f"{uuid},{word},{charged},0:;"
    assert result.annotations == {
        f"hami.io/{word}-devices-to-allocate": devices,
        f"hami.io/{word}-devices-allocated": devices,
        f"huawei.com/{word}": f'[{{"UUID":"{uuid}","temp":"{template}"}}]',
        "hami.io/vgpu-node": node,
        "hami.io/vgpu-time": "1770105600",
        "hami.io/bind-time": "1770105600",
        "hami.io/bind-phase": "allocating",
        "predicate-time": "1770105600",
    }


def test_the_nodes_of_ascend_chips_have_the_label_of_the_guide():
    labelled = {node["metadata"]["name"] for node in kind("Node") if node["metadata"]["labels"].get("ascend") == "on"}
    assert labelled == {chip[0] for chip in CHIPS.values()}


def test_the_job_of_mindcluster_gets_a_whole_chip():
    cluster = ExampleCluster(MINDCLUSTER, "npu-310p")
    (result,) = cluster.run("workloads/ascend-mindcluster-job.yaml").values()
    assert result.pod.ref == "vnpu/mindx-dls-default-test-0"
    assert result.annotations == {"huawei.com/npu-core": "0", "predicate-time": "1770105600000000000"}


def test_device_plugin_and_scheduler_have_the_same_setting():
    excerpt = (EXAMPLES / "excerpts" / "ascend-device-plugin-args.txt").read_text()
    assert '"-presetVirtualDevice=false"' in excerpt
    assert example_conf(MINDCLUSTER).configurations["init-params"]["presetVirtualDevice"] == "false"


@pytest.mark.parametrize(
    ("resource", "value", "family"),
    [
        ("volcano.sh/gpu-memory", "4096", "gpu-share"),
        ("volcano.sh/gpu-number", "1", "gpu-number"),
        ("volcano.sh/vgpu-number", "1", "hami-core"),
        ("volcano.sh/vgpu-memory", "4096", "hami-core"),
    ],
)
def test_resources_that_the_guide_lists_as_annotations(resource, value, family):
    """As limits they are requests; as annotations they have no effect, neither here nor in Volcano."""
    pod = changed("workloads/gpu-pod1.yaml")
    pod["spec"]["containers"][0]["resources"]["limits"] = {resource: value}
    cluster = ExampleCluster("volcano-scheduler.conf", "share-1", "number-1", "hami-v100")
    assert cluster.place(pod).families == {family}
    pod["spec"]["containers"][0]["resources"] = {}
    pod["metadata"]["annotations"] = {resource: value}
    assert cluster.place(pod).families == set()


@pytest.mark.parametrize("name", ["hami-pod", "mig-pod"])
def test_a_pod_without_indentation_is_no_object(name):
    text = (EXAMPLES / "excerpts" / f"{name}-without-indentation.txt").read_text()
    read = parse_manifests(text, "pod.yaml")
    assert read.manifests == []
    (problem,) = read.problems
    assert str(problem) == (
        "File pod.yaml, line 1, column 1: kind: 'nothing' is not valid: expected an object with apiVersion and kind"
    )


def test_vgpus_are_not_allocated_because_hami_has_another_version():
    cluster = ExampleCluster(VGPU, "vgpu-register-of-another-version")
    (problem,) = cluster.problems
    assert problem.subject == "Node vgpu-register-of-another-version"
    assert problem.field == "metadata.annotations[volcano.sh/node-vgpu-register] card 0"
    assert "six fields, UUID,count,devmem,type,health,mode:" in problem.expected
    assert "1 node(s) had no vGPU cards" in cluster.place(HAMI_POD).message
    register = load("refused/vgpu-register-of-another-version.yaml")["metadata"]["annotations"]
    remedied = {key: value.replace("true:", "true,hami-core:") for key, value in register.items()}
    node = changed("refused/vgpu-register-of-another-version.yaml", annotations=remedied)
    assert ExampleCluster(VGPU, node).place(HAMI_POD).node == "vgpu-register-of-another-version"


def test_a_type_is_not_found_because_the_node_has_no_label():
    labelled = changed("nodes/gpu-no-label.yaml", labels={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"})
    for node, place in (("gpu-no-label", ""), (labelled, "gpu-no-label")):
        assert ExampleCluster("volcano-scheduler.conf", node).place("workloads/specific-gpu-pod.yaml").node == place
