"""The guides to GPU sharing: each manifest, drawing and sentence about what happens."""

import json

import pytest
from deviceshare.model import PodFact
from deviceshare.objects import decode_pod
from support.example_cluster import ExampleCluster, Fate, admitted, changed, load

BINPACK, SPREAD = "configurations/gpu-sharing-binpack.conf", "configurations/gpu-sharing-spread.conf"
CONFIGMAP = "configurations/gpu-sharing-configmap.conf"
UNTIL_182 = "configurations/gpu-sharing-configmap-until-1.8.2.conf"
SHARE = [f"workloads/share-{letter}.yaml" for letter in "abc"]
NODE = "volcano-control-plane"
NUMBER = "number-1"


def bound(fate: Fate) -> PodFact:
    """Return the pod as the cluster shows it when it has been bound."""
    stored = admitted(load(f"workloads/{fate.pod.name}.yaml"))
    stored["metadata"]["annotations"] = {**stored["metadata"].get("annotations", {}), **fate.annotations}
    stored["spec"]["nodeName"] = fate.node
    return decode_pod(json.dumps(stored).encode())


def test_the_node_has_eight_cards_of_an_eighth_of_the_memory():
    node = ExampleCluster(CONFIGMAP, NODE).nodes[NODE]
    assert [card.memory for card in node.cards] == [11178] * 8


@pytest.mark.parametrize("configuration", [CONFIGMAP, UNTIL_182])
def test_two_pods_that_ask_1024_mb_share_a_card(configuration):
    fates = ExampleCluster(configuration, NODE).run("workloads/gpu-pod1.yaml", "workloads/gpu-pod2.yaml")
    assert {name: (fate.node, fate.cards, fate.memory) for name, fate in fates.items()} == {
        "gpu-pod1": (NODE, [0], [1024]),
        "gpu-pod2": (NODE, [0], [1024]),
    }


@pytest.mark.parametrize("name", ["gpu-pod1", "gpu-pod2"])
def test_the_environment_that_the_guide_shows(name):
    fate = ExampleCluster(CONFIGMAP, NODE).place(f"workloads/{name}.yaml")
    assert fate.environment == {
        "VOLCANO_GPU_MEMORY_TOTAL": "11178",
        "VOLCANO_GPU_ALLOCATED": "1024",
        "NVIDIA_VISIBLE_DEVICES": "0",
    }


def test_the_annotations_that_the_guide_shows():
    fate = ExampleCluster(CONFIGMAP, NODE).place("workloads/gpu-pod1.yaml")
    assert fate.annotations == {"volcano.sh/gpu-index": "0", "volcano.sh/predicate-time": "1770105600000000000"}


def test_a_bound_pod_holds_what_its_annotations_say():
    cluster = ExampleCluster(CONFIGMAP, NODE)
    (grant,) = bound(cluster.place("workloads/gpu-pod1.yaml")).held
    assert [(device.index, device.memory) for device in grant.devices] == [(0, 1024)]


def test_a_job_of_two_shares_a_card():
    fates = ExampleCluster(BINPACK, "share-1", "share-2").run("workloads/gpu-sharing-job.yaml")
    assert [(fate.node, fate.cards, fate.memory) for fate in fates.values()] == [("share-1", [0], [4096])] * 2


def test_a_job_of_two_waits_as_a_whole_where_one_has_no_room():
    cluster = ExampleCluster(BINPACK, "share-16g")
    cluster.place("workloads/share-c.yaml")
    cluster.place(changed("workloads/share-a.yaml", name="another"))
    fates = cluster.run("workloads/gpu-sharing-job.yaml")
    assert {fate.node for fate in fates.values()} == {""}
    for fate in fates.values():
        assert "is not ready, 1 of 2 pods fit" in fate.message
        assert "1 Insufficient volcano.sh/gpu-memory on one card (asked 4096 MiB, at most 0 MiB free" in fate.message


def test_pods_of_4_4_and_8_gb_fill_a_card_of_16():
    cluster = ExampleCluster(BINPACK, "share-16g")
    assert [(fate.cards, fate.memory) for fate in cluster.run(*SHARE).values()] == [
        ([0], [4096]), ([0], [4096]), ([0], [8192]),
    ]  # fmt: skip
    assert "asked 1024 MiB, at most 0 MiB free, 1024 MiB missing" in cluster.place("workloads/gpu-pod1.yaml").message


def test_binpack_as_drawn():
    fates = ExampleCluster(BINPACK, "share-1", "share-2").run(*SHARE)
    assert [(fate.node, fate.cards) for fate in fates.values()] == [
        ("share-1", [0]),
        ("share-1", [0]),
        ("share-1", [1]),
    ]


def test_spread_as_drawn():
    fates = ExampleCluster(SPREAD, "share-1", "share-2", NODE).run(*SHARE)
    assert [(fate.node, fate.cards) for fate in fates.values()] == [("share-1", [0]), ("share-2", [0]), (NODE, [0])]


def test_binpack_then_spread_in_one_configuration_spreads():
    fates = ExampleCluster("configurations/gpu-sharing-binpack-then-spread.conf", "share-1", "share-2").run(*SHARE[:2])
    assert [fate.node for fate in fates.values()] == ["share-1", "share-2"]


def test_beside_the_plugin_binpack_gpu_sharing_packs_as_well():
    fates = ExampleCluster("configurations/gpu-sharing-with-binpack-plugin.conf", "share-1", "share-2").run(*SHARE)
    assert [(fate.node, fate.cards) for fate in fates.values()] == [
        ("share-1", [0]),
        ("share-1", [0]),
        ("share-1", [1]),
    ]


def test_gpu_number_gives_a_card_that_nobody_else_uses():
    cluster = ExampleCluster("volcano-scheduler.conf", NODE, NUMBER)
    fates = cluster.run("workloads/gpu-pod1.yaml", "workloads/gpu-number-pod.yaml", "workloads/gpu-index-pod.yaml")
    assert {name: (fate.node, fate.cards) for name, fate in fates.items()} == {
        "gpu-pod1": (NODE, [0]), "gpu-number-pod": (NUMBER, [0]), "gpu-index-pod": ("", []),
    }  # fmt: skip
    assert fates["gpu-number-pod"].environment == {"NVIDIA_VISIBLE_DEVICES": "0"}


def test_gpu_number_waits_where_the_device_plugin_shares_memory():
    message = ExampleCluster("configurations/gpu-number.conf", NODE).place("workloads/gpu-number-pod.yaml").message
    assert "1 node(s) had a device plugin that shares volcano.sh/gpu-memory and does not serve" in message


def test_gpu_number_needs_its_own_argument_only():
    assert ExampleCluster("configurations/gpu-number.conf", NUMBER).place("workloads/gpu-number-pod.yaml").cards == [0]


def test_gpu_index_chooses_the_cards():
    fate = ExampleCluster("configurations/gpu-number.conf", NUMBER).place("workloads/gpu-index-pod.yaml")
    assert (fate.cards, fate.annotations["volcano.sh/gpu-index"]) == ([0, 2], "0,2")


def test_gpu_index_waits_for_its_cards():
    cluster = ExampleCluster("configurations/gpu-number.conf", NUMBER)
    cluster.place("workloads/gpu-number-pod.yaml")
    message = cluster.place("workloads/gpu-index-pod.yaml").message
    assert "1 Insufficient volcano.sh/gpu-number (asked 2, at most 1 free, 1 missing)" in message


def test_an_index_that_no_node_has():
    message = ExampleCluster(CONFIGMAP, NODE).place("refused/gpu-index-nobody-has.yaml").message
    assert message == "0/1 nodes are unavailable: 1 node(s) had cards other than volcano.sh/gpu-index 9."


@pytest.mark.parametrize("unhealthy", ["0,3", "GPU-xxxx-1234, 0"])
def test_unhealthy_cards_are_passed_over(unhealthy):
    node = changed(f"nodes/{NODE}.yaml", annotations={"volcano.sh/gpu-unhealthy-ids": unhealthy})
    assert ExampleCluster(CONFIGMAP, node).place("workloads/gpu-pod1.yaml").cards == [1]


@pytest.mark.parametrize(
    ("resource", "value", "family"),
    [
        ("volcano.sh/gpu-memory", "4096", "gpu-share"),
        ("volcano.sh/gpu-number", "1", "gpu-number"),
        ("volcano.sh/vgpu-number", "1", "hami-core"),
        ("volcano.sh/vgpu-memory", "4096", "hami-core"),
    ],
)
def test_what_the_guide_lists_as_annotations_and_are_resources(resource, value, family):
    """As limits they are what a pod asks; as annotations nobody reads them, neither here nor in Volcano."""
    pod = changed("workloads/gpu-pod1.yaml")
    pod["spec"]["containers"][0]["resources"]["limits"] = {resource: value}
    cluster = ExampleCluster("volcano-scheduler.conf", "share-1", NUMBER, "hami-v100")
    assert cluster.place(pod).families == {family}
    pod["spec"]["containers"][0]["resources"] = {}
    pod["metadata"]["annotations"] = {resource: value}
    assert cluster.place(pod).families == set()
