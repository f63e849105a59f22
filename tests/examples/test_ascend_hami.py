"""Ascend in HAMi mode: the six chips of the guide's table, each with its node, its pod and its published templates."""

import json

import pytest
from msgspec.structs import replace
from support.example_cluster import ExampleCluster, changed, example_conf, kind

CONF, MERGED = "configurations/ascend-hami-configmap.conf", "configurations/vgpu-and-vnpu-configmap.conf"

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
@pytest.mark.parametrize("configuration", [CONF, MERGED])
def test_each_chip_of_the_table(word, configuration):
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


def test_the_nodes_have_the_label_of_the_guide():
    labelled = {node["metadata"]["name"] for node in kind("Node") if node["metadata"]["labels"].get("ascend") == "on"}
    assert labelled == {chip[0] for chip in CHIPS.values()}


def test_two_whole_chips_are_on_one_network():
    cluster = ExampleCluster(CONF, "ascend-910b3")
    cluster.place(CHIPS["Ascend910B3"][1])
    result = cluster.place("workloads/ascend-910b3-whole-pod.yaml")
    assert (result.cards, result.memory) == ([2, 3], [65536, 65536])
    assert json.loads(result.annotations["huawei.com/Ascend910B3"]) == [
        {"UUID": cluster.nodes["ascend-910b3"].cards[index].id} for index in (2, 3)
    ]


def test_parts_of_a_chip_until_it_is_full():
    """A 310P with 21527 MiB and 7 AI CPUs has room for three templates of 6144 MiB and 2 AI CPUs."""
    cluster = ExampleCluster(CONF, "ascend-310p")
    results = [cluster.place(changed("workloads/ascend-hami-pod.yaml", name=f"pod-{number}")) for number in range(4)]
    assert [result.cards for result in results] == [[0], [0], [0], [1]]


def test_more_memory_than_the_chip_has_is_refused():
    message = ExampleCluster(CONF, "ascend-910a").place("refused/ascend-910a-too-large.yaml").message
    assert "resources.limits[huawei.com/Ascend910A-memory]: '40000'" in message
    assert "at most 32768 MiB" in message


def test_vgpus_and_vnpus_in_one_cluster_by_one_configmap():
    cluster = ExampleCluster(MERGED, "mig-a100", "ascend-310p")
    assert cluster.place("workloads/mig-pod.yaml").memory == [5120]
    assert cluster.place("workloads/ascend-hami-pod.yaml").memory == [6144]
    assert cluster.conf.devices.vgpu.geometries
    assert len(cluster.conf.devices.chips) == len(CHIPS)


def test_without_the_argument_the_reason_names_it():
    conf = replace(example_conf(CONF), families=frozenset({"deviceshare.VGPUEnable"}))
    message = ExampleCluster(conf, "ascend-310p").place("workloads/ascend-hami-pod.yaml").message
    assert "set deviceshare.AscendHAMiVNPUEnable: true in volcano-scheduler.conf" in message


def test_the_reason_for_the_old_name_suggests_a_new_one():
    message = ExampleCluster("volcano-scheduler.conf").place("refused/ascend310p-old-name.yaml").message
    assert "Insufficient huawei.com/ascend310p-vir02, which no node has; did you mean huawei.com/Ascend310P" in message
