"""The guides to GPU sharing: the result of each manifest, drawing and statement."""

import json

import pytest
from deviceshare.model import PodFact
from deviceshare.objects import decode_pod
from support.example_cluster import ExampleCluster, PodResult, admitted, changed, load

BINPACK, SPREAD = "configurations/gpu-sharing-binpack.conf", "configurations/gpu-sharing-spread.conf"
CONFIGMAP = "configurations/gpu-sharing-configmap.conf"
UNTIL_182 = "configurations/gpu-sharing-configmap-until-1.8.2.conf"
SHARE = [f"workloads/share-{letter}.yaml" for letter in "abc"]
NODE = "volcano-control-plane"
NUMBER = "number-1"


def bound(result: PodResult) -> PodFact:
    """Return the pod as the cluster shows it when it has been bound."""
    stored = admitted(load(f"workloads/{result.pod.name}.yaml"))
    stored["metadata"]["annotations"] = {**stored["metadata"].get("annotations", {}), **result.annotations}
    stored["spec"]["nodeName"] = result.node
    return decode_pod(json.dumps(stored).encode())


def test_the_node_has_eight_cards_of_an_eighth_of_the_memory():
    node = ExampleCluster(CONFIGMAP, NODE).nodes[NODE]
    assert [card.memory for card in node.cards] == [11178] * 8


@pytest.mark.parametrize("configuration", [CONFIGMAP, UNTIL_182])
def test_two_pods_that_request_1024_mb_share_a_card(configuration):
    results = ExampleCluster(configuration, NODE).run("workloads/gpu-pod1.yaml", "workloads/gpu-pod2.yaml")
    assert {name: (result.node, result.cards, result.memory) for name, result in results.items()} == {
        "gpu-pod1": (NODE, [0], [1024]),
        "gpu-pod2": (NODE, [0], [1024]),
    }


@pytest.mark.parametrize("name", ["gpu-pod1", "gpu-pod2"])
def test_the_environment_that_the_guide_shows(name):
    result = ExampleCluster(CONFIGMAP, NODE).place(f"workloads/{name}.yaml")
    assert result.environment == {
        "VOLCANO_GPU_MEMORY_TOTAL": "11178",
        "VOLCANO_GPU_ALLOCATED": "1024",
        "NVIDIA_VISIBLE_DEVICES": "0",
    }


def test_the_annotations_that_the_guide_shows():
    result = ExampleCluster(CONFIGMAP, NODE).place("workloads/gpu-pod1.yaml")
    assert result.annotations == {"volcano.sh/gpu-index": "0", "volcano.sh/predicate-time": "1770105600000000000"}


def test_a_bound_pod_holds_the_devices_of_its_annotations():
    cluster = ExampleCluster(CONFIGMAP, NODE)
    (grant,) = bound(cluster.place("workloads/gpu-pod1.yaml")).held
    assert [(device.index, device.memory) for device in grant.devices] == [(0, 1024)]


def test_a_job_of_two_shares_a_card():
    results = ExampleCluster(BINPACK, "share-1", "share-2").run("workloads/gpu-sharing-job.yaml")
    assert [(result.node, result.cards, result.memory) for result in results.values()] == [("share-1", [0], [4096])] * 2


def test_a_job_of_two_waits_as_a_whole_where_one_has_no_room():
    cluster = ExampleCluster(BINPACK, "share-16g")
    cluster.place("workloads/share-c.yaml")
    cluster.place(changed("workloads/share-a.yaml", name="another"))
    results = cluster.run("workloads/gpu-sharing-job.yaml")
    assert {result.node for result in results.values()} == {""}
    for result in results.values():
        assert "is not ready, 1 of 2 pods fit" in result.message
        assert "1 Insufficient volcano.sh/gpu-memory on one card (asked 4096 MiB, at most 0 MiB free" in result.message


def test_pods_of_4_4_and_8_gb_fill_a_card_of_16():
    cluster = ExampleCluster(BINPACK, "share-16g")
    assert [(result.cards, result.memory) for result in cluster.run(*SHARE).values()] == [
        ([0], [4096]), ([0], [4096]), ([0], [8192]),
    ]  # fmt: skip
    assert "asked 1024 MiB, at most 0 MiB free, 1024 MiB missing" in cluster.place("workloads/gpu-pod1.yaml").message


def test_binpack_as_drawn():
    results = ExampleCluster(BINPACK, "share-1", "share-2").run(*SHARE)
    assert [(result.node, result.cards) for result in results.values()] == [
        ("share-1", [0]),
        ("share-1", [0]),
        ("share-1", [1]),
    ]


def test_spread_as_drawn():
    results = ExampleCluster(SPREAD, "share-1", "share-2", NODE).run(*SHARE)
    assert [(result.node, result.cards) for result in results.values()] == [
        ("share-1", [0]),
        ("share-2", [0]),
        (NODE, [0]),
    ]


def test_binpack_then_spread_in_one_configuration_spreads():
    results = ExampleCluster("configurations/gpu-sharing-binpack-then-spread.conf", "share-1", "share-2").run(
        *SHARE[:2]
    )
    assert [result.node for result in results.values()] == ["share-1", "share-2"]


def test_gpu_sharing_also_packs_with_the_plugin_binpack():
    results = ExampleCluster("configurations/gpu-sharing-with-binpack-plugin.conf", "share-1", "share-2").run(*SHARE)
    assert [(result.node, result.cards) for result in results.values()] == [
        ("share-1", [0]),
        ("share-1", [0]),
        ("share-1", [1]),
    ]


def test_gpu_number_gives_an_exclusive_card():
    cluster = ExampleCluster("volcano-scheduler.conf", NODE, NUMBER)
    results = cluster.run("workloads/gpu-pod1.yaml", "workloads/gpu-number-pod.yaml", "workloads/gpu-index-pod.yaml")
    assert {name: (result.node, result.cards) for name, result in results.items()} == {
        "gpu-pod1": (NODE, [0]), "gpu-number-pod": (NUMBER, [0]), "gpu-index-pod": ("", []),
    }  # fmt: skip
    assert results["gpu-number-pod"].environment == {"NVIDIA_VISIBLE_DEVICES": "0"}


def test_gpu_number_waits_where_the_device_plugin_shares_memory():
    message = ExampleCluster("configurations/gpu-number.conf", NODE).place("workloads/gpu-number-pod.yaml").message
    assert "1 node(s) had a device plugin that shares volcano.sh/gpu-memory and does not serve" in message


def test_gpu_number_needs_its_own_argument_only():
    assert ExampleCluster("configurations/gpu-number.conf", NUMBER).place("workloads/gpu-number-pod.yaml").cards == [0]


def test_gpu_index_chooses_the_cards():
    result = ExampleCluster("configurations/gpu-number.conf", NUMBER).place("workloads/gpu-index-pod.yaml")
    assert (result.cards, result.annotations["volcano.sh/gpu-index"]) == ([0, 2], "0,2")


def test_gpu_index_waits_for_its_cards():
    cluster = ExampleCluster("configurations/gpu-number.conf", NUMBER)
    cluster.place("workloads/gpu-number-pod.yaml")
    message = cluster.place("workloads/gpu-index-pod.yaml").message
    assert "1 Insufficient volcano.sh/gpu-number (asked 2, at most 1 free, 1 missing)" in message


def test_an_index_that_no_node_has():
    message = ExampleCluster(CONFIGMAP, NODE).place("refused/gpu-index-missing.yaml").message
    assert message == "0/1 nodes are unavailable: 1 node(s) had cards other than volcano.sh/gpu-index 9."


@pytest.mark.parametrize("unhealthy", ["0,3", "GPU-xxxx-1234, 0"])
def test_unhealthy_cards_are_not_allocated(unhealthy):
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
def test_resources_that_the_guide_lists_as_annotations(resource, value, family):
    """As limits they are requests; as annotations they have no effect, neither here nor in Volcano."""
    pod = changed("workloads/gpu-pod1.yaml")
    pod["spec"]["containers"][0]["resources"]["limits"] = {resource: value}
    cluster = ExampleCluster("volcano-scheduler.conf", "share-1", NUMBER, "hami-v100")
    assert cluster.place(pod).families == {family}
    pod["spec"]["containers"][0]["resources"] = {}
    pod["metadata"]["annotations"] = {resource: value}
    assert cluster.place(pod).families == set()
