"""The guides to vGPU: HAMi-core, MIG and MPS, the result of each manifest and statement."""

import pytest
from deviceshare.conf import parse_devices
from deviceshare_localcluster.manifests import parse_manifests
from support.example_cluster import EXAMPLES, ExampleCluster, changed, load

VGPU = "configurations/vgpu-configmap.conf"
HAMI_POD, MIG_POD = "workloads/hami-pod.yaml", "workloads/mig-pod.yaml"
UUID = "GPU-a0187b4d-5120-9e8f-3327-26d0356a4152"


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


def test_two_halves_of_the_cores_are_a_card():
    cluster = ExampleCluster(VGPU, "hami-v100")
    results = [cluster.place(changed(HAMI_POD, name=f"hami-pod-{number}")) for number in range(3)]
    assert [result.cards for result in results] == [[0], [0], [1]]


@pytest.mark.parametrize("left_out", ["volcano.sh/vgpu-cores", "volcano.sh/vgpu-memory"])
def test_cores_and_memory_are_optional(left_out):
    pod = changed(HAMI_POD)
    del pod["spec"]["containers"][0]["resources"]["limits"][left_out]
    result = ExampleCluster(VGPU, "hami-v100").place(pod)
    asked = {"volcano.sh/vgpu-cores": ("3000", "0"), "volcano.sh/vgpu-memory": ("32768", "50")}[left_out]
    assert result.annotations["volcano.sh/vgpu-ids-new"] == f"{UUID},NVIDIA,{asked[0]},{asked[1]}:"


def test_two_vgpus_of_a_container_are_two_cards():
    result = ExampleCluster(VGPU, "hami-v100").place("workloads/vgpu-two-cards-pod.yaml")
    assert (result.cards, result.memory) == ([0, 1], [3000, 3000])


def test_the_job_requests_one_vgpu_of_4096_mb():
    (result,) = ExampleCluster("configurations/vgpu.conf", "hami-v100").run("workloads/vgpu-training.yaml").values()
    assert (result.pod.name, result.cards, result.memory) == ("vgpu-training-trainer-0", [0], [4096])


def test_the_allocatable_resources_of_the_guides_are_enough():
    allocatable = load("nodes/vgpu-1080ti.yaml")["status"]["allocatable"]
    assert {name: allocatable[name] for name in allocatable if name.startswith("volcano.sh/")} == {
        "volcano.sh/vgpu-memory": "89424",
        "volcano.sh/vgpu-number": "8",
    }
    assert ExampleCluster(VGPU, "vgpu-1080ti").place(HAMI_POD).node == "vgpu-1080ti"


def test_a_request_for_3_gb_gets_the_mig_instance_of_5_gb():
    cluster = ExampleCluster(VGPU, "mig-a100")
    result = cluster.place(MIG_POD)
    assert (result.families, result.memory, result.details) == ({"mig"}, [5120], ["group1-0"])
    uuid = cluster.nodes["mig-a100"].cards[0].id
    assert result.annotations["volcano.sh/vgpu-ids-new"] == f"{uuid}[group1-0],NVIDIA,3000,0:"


def test_seven_instances_of_5_gb_are_a_card():
    cluster = ExampleCluster(VGPU, "mig-a100")
    results = [cluster.place(changed(MIG_POD, name=f"mig-pod-{number}")) for number in range(8)]
    assert [result.cards for result in results] == [[0]] * 7 + [[1]]
    assert len({(result.cards[0], result.details[0]) for result in results}) == 8


@pytest.mark.parametrize(
    ("node", "pod", "memory"),
    [
        ("mig-a100", MIG_POD, 5120),
        ("mig-a30", "workloads/mig-a30-pod.yaml", 6144),
        ("mig-h100", "workloads/mig-h100-pod.yaml", 20096),
    ],
)
def test_mig_on_each_model_of_the_table(node, pod, memory):
    result = ExampleCluster(VGPU, node).place(pod)
    assert (result.node, result.memory) == (node, [memory])


@pytest.mark.parametrize(
    ("pod", "node", "family"),
    [
        ("workloads/vgpu-any-mode-pod.yaml", "hami-v100", "hami-core"),
        ("workloads/vgpu-any-mode-pod.yaml", "mig-a100", "mig"),
        ("workloads/vgpu-any-mode-pod.yaml", "mps-t4", "mps"),
        (HAMI_POD, "hami-v100", "hami-core"),
        (MIG_POD, "mig-a100", "mig"),
        ("workloads/mps-pod.yaml", "mps-t4", "mps"),
    ],
)
def test_the_mode_is_that_of_the_annotation_or_of_the_node(pod, node, family):
    assert ExampleCluster(VGPU, node).place(pod).families == {family}


@pytest.mark.parametrize(
    ("pod", "node", "mode"),
    [
        (HAMI_POD, "mig-a100", "hami-core"),
        (HAMI_POD, "mps-t4", "hami-core"),
        (MIG_POD, "hami-v100", "mig"),
        ("workloads/mps-pod.yaml", "hami-v100", "mps"),
    ],
)
def test_a_node_of_another_mode_is_refused(pod, node, mode):
    message = ExampleCluster(VGPU, node).place(pod).message
    assert message == f"0/1 nodes are unavailable: 1 node(s) had cards that are not in mode {mode}."


def test_a_cluster_may_have_nodes_of_every_mode():
    cluster = ExampleCluster(VGPU)
    placed = {pod: cluster.place(pod).node for pod in (HAMI_POD, MIG_POD, "workloads/mps-pod.yaml")}
    assert placed == {HAMI_POD: "vgpu-1080ti", MIG_POD: "mig-a100", "workloads/mps-pod.yaml": "mps-t4"}


def test_binpack_prefers_the_node_in_use():
    cluster = ExampleCluster(VGPU, "hami-a100", "hami-v100")
    results = [cluster.place(changed(HAMI_POD, name=f"pod-{number}")) for number in range(2)]
    assert [(result.node, result.cards) for result in results] == [("hami-v100", [0]), ("hami-v100", [0])]


def test_spread_prefers_the_node_that_is_not_in_use():
    cluster = ExampleCluster("configurations/vgpu-spread.conf", "hami-a100", "hami-v100")
    results = [cluster.place(changed(HAMI_POD, name=f"pod-{number}")) for number in range(3)]
    assert [(result.node, result.cards) for result in results] == [
        ("hami-a100", [0]),
        ("hami-v100", [0]),
        ("hami-a100", [1]),
    ]


def test_a_card_that_is_marked_unhealthy_by_its_id_is_not_allocated():
    cluster = ExampleCluster(VGPU, "hami-unhealthy")
    assert [card.healthy for card in cluster.nodes["hami-unhealthy"].cards] == [False, True]
    assert cluster.place("workloads/healthy-l4-pod.yaml").cards == [1]


@pytest.mark.parametrize(
    ("pod", "nodes", "expected"),
    [
        ("workloads/vgpu-a100-or-v100-pod.yaml", ["vgpu-1080ti", "hami-v100"], "hami-v100"),
        ("workloads/vgpu-a100-or-v100-pod.yaml", ["vgpu-1080ti", "hami-a100"], "hami-a100"),
        ("workloads/vgpu-not-t4-pod.yaml", ["mps-t4", "vgpu-1080ti"], "vgpu-1080ti"),
    ],
)
def test_the_annotations_select_the_type_of_card(pod, nodes, expected):
    assert ExampleCluster(VGPU, *nodes).place(pod).node == expected


def test_no_other_type_is_allocated():
    message = ExampleCluster(VGPU, "vgpu-1080ti").place("workloads/vgpu-a100-or-v100-pod.yaml").message
    assert "cards of type NVIDIA-GeForce GTX 1080 Ti for nvidia.com/use-gputype A100,V100" in message
    message = ExampleCluster(VGPU, "mps-t4").place("workloads/vgpu-not-t4-pod.yaml").message
    assert "cards of type NVIDIA-Tesla T4 for nvidia.com/nouse-gputype T4" in message


def test_an_unknown_mode_is_refused_with_the_existing_modes():
    message = ExampleCluster(VGPU).place("refused/mode-unknown.yaml").message
    assert "metadata.annotations[volcano.sh/vgpu-mode]: 'time-slicing'" in message
    assert "expected one of hami-core, mig, mps" in message


def test_more_memory_than_any_mig_instance_has():
    message = ExampleCluster(VGPU, "mig-a100").place("refused/mig-larger-than-any-instance.yaml").message
    assert "asked 90000 MiB, at most 40960 MiB free, 49040 MiB missing" in message


def test_the_published_geometries():
    models = parse_devices(
        (EXAMPLES / "configmaps" / "volcano-vgpu-device-config.yaml").read_text(), "f"
    ).vgpu.geometries
    assert [(model.models[0], len(model.groups)) for model in models] == [
        ("A30", 3),
        ("A100-SXM4-40GB", 4),
        ("A100-SXM4-80GB", 4),
        ("H100 80GB HBM3", 4),
    ]


@pytest.mark.parametrize("name", ["hami-pod", "mig-pod"])
def test_a_pod_without_indentation_is_no_object(name):
    text = (EXAMPLES / "excerpts" / f"{name}-without-indentation.txt").read_text()
    read = parse_manifests(text, "pod.yaml")
    assert read.manifests == []
    (problem,) = read.problems
    assert str(problem) == (
        "File pod.yaml, line 1, column 1: kind: 'nothing' is not valid: expected an object with apiVersion and kind"
    )
