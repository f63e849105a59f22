"""Whole GPUs: chosen by type, several on one node, a gang over nodes."""

import pytest
from support.example_cluster import ExampleCluster, changed, load

CONF = "volcano-scheduler.conf"
SPECIFIC, NOT_T4 = "workloads/specific-gpu-pod.yaml", "workloads/gpu-not-t4-pod.yaml"
WHOLE = ("gpu-a100-1", "gpu-a100-2", "gpu-no-label", "gpu-t4", "gpu-v100")


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [(["gpu-t4", "gpu-v100"], "gpu-v100"), (["gpu-t4", "gpu-a100-1"], "gpu-a100-1"), (WHOLE, "gpu-a100-1")],
)
def test_only_an_a100_or_a_v100(nodes, expected):
    result = ExampleCluster(CONF, *nodes).place(SPECIFIC)
    # The device plugin of whole GPUs chooses the card: there are no annotations.
    assert (result.node, result.annotations) == (expected, {})


def test_a_node_without_the_label_of_its_gpus_is_no_a100():
    message = ExampleCluster(CONF, "gpu-no-label", "gpu-t4").place(SPECIFIC).message
    assert "1 node(s) had GPUs of type Tesla-T4 for nvidia.com/use-gputype A100,V100" in message
    assert "label nvidia.com/gpu.product" in message


def test_no_t4():
    assert ExampleCluster(CONF, "gpu-t4", "gpu-v100").place(NOT_T4).node == "gpu-v100"
    message = ExampleCluster(CONF, "gpu-t4").place(NOT_T4).message
    assert "1 node(s) had GPUs of type Tesla-T4 for nvidia.com/nouse-gputype T4" in message


def test_a_type_that_no_node_has():
    message = ExampleCluster(CONF, "gpu-t4", "gpu-v100").place("refused/gpu-type-missing.yaml").message
    assert "for nvidia.com/use-gputype H200" in message


def test_four_gpus_of_one_node():
    job = "workloads/multi-gpu-training.yaml"
    (result,) = ExampleCluster(CONF, "gpu-v100").run(job).values()
    assert (result.node, dict(result.placement.resources)["nvidia.com/gpu"]) == ("gpu-v100", 4)
    cluster = ExampleCluster(CONF, "gpu-t4", "gpu-v100")
    cluster.place(changed(SPECIFIC, name="one"))
    assert [result.node for result in cluster.run(job).values()] == ["gpu-t4"]
    (refused,) = cluster.run(changed(job, name="other")).values()
    assert "2 Insufficient nvidia.com/gpu (asked 4, at most 3 free, 1 missing)" in refused.message


def test_a_gang_of_four_with_two_gpus_each_over_two_nodes():
    job = "workloads/distributed-gpu-training.yaml"
    results = ExampleCluster(CONF, "gpu-a100-1", "gpu-a100-2").run(job)
    assert [result.node for result in results.values()] == ["gpu-a100-1"] * 2 + ["gpu-a100-2"] * 2


def test_a_gang_that_fits_in_part_waits_as_a_whole():
    results = ExampleCluster(CONF, "gpu-a100-1").run("workloads/distributed-gpu-training.yaml")
    assert {result.node for result in results.values()} == {""}
    for result in results.values():
        assert "is not ready, 2 of 4 pods fit" in result.message
        assert "1 Insufficient nvidia.com/gpu (asked 2, at most 0 free, 2 missing)" in result.message


def test_a_pod_with_a_request_and_no_limit_is_accepted_unchanged():
    assert "limits" not in load(SPECIFIC)["spec"]["containers"][0]["resources"]
    assert dict(ExampleCluster(CONF, "gpu-v100").place(SPECIFIC).placement.resources) == {"nvidia.com/gpu": 1}
