import json

import pytest
from deviceshare.model import FormatError, NodeFact, Taint
from deviceshare.objects import decode_node
from msgspec.structs import replace
from support.builders import ask, cluster, container, devices, take

REGISTER = "volcano.sh/node-vgpu-register"
CARDS = "GPU-a,10,32768,NVIDIA-Tesla V100,true,hami-core:GPU-b,10,32768,NVIDIA-Tesla V100,true,hami-core:"
SHARED = {
    "cpu": "4",
    "memory": "8174332Ki",
    "pods": "110",
    "volcano.sh/gpu-memory": "89424",
    "volcano.sh/gpu-number": "8",
}


def node(spec=None, status=None, **metadata) -> NodeFact:
    return decode_node(json.dumps({"metadata": {"name": "gpu-1"} | metadata, "spec": spec, "status": status}).encode())


def test_a_node_as_the_seed_shows_it():
    fact = node(
        {"taints": [{"key": "gpu", "effect": "NoSchedule"}]},
        {"allocatable": SHARED, "capacity": SHARED | {"cpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]},
        labels={"zone": "a"},
        uid="u",
        resourceVersion="9",
    )
    assert (fact.name, fact.uid, fact.revision, fact.ready, fact.unschedulable) == ("gpu-1", "u", "9", True, False)
    assert fact.labels == {"zone": "a"}
    assert fact.taints == (Taint("gpu", "", "NoSchedule"),)
    assert fact.allocatable == {
        "cpu": 4000, "memory": 8174332 * 1024, "pods": 110, "volcano.sh/gpu-memory": 89424, "volcano.sh/gpu-number": 8,
    }  # fmt: skip
    assert [(card.id, card.memory, card.mode) for card in fact.cards] == [
        (str(i), 11178, "gpu-share") for i in range(8)
    ]
    assert fact.problems == ()


@pytest.mark.parametrize(
    ("conditions", "ready"),
    [
        (None, True),
        ([], True),
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "Ready", "status": "Unknown"}], False),
        ([{"type": "DiskPressure", "status": "False"}], False),
    ],
)
def test_ready_is_what_the_condition_says_and_a_manifest_without_any_is_ready(conditions, ready):
    assert node({}, {"conditions": conditions}).ready is ready


def test_allocatable_falls_back_to_capacity():
    assert node({}, {"capacity": {"cpu": "2"}}).allocatable == {"cpu": 2000}
    assert node({}, {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "1500m"}}).allocatable == {"cpu": 1500}


def test_a_cordoned_node():
    assert node({"unschedulable": True}).unschedulable


def test_registered_cards():
    fact = node({}, {"capacity": {"cpu": "2"}}, annotations={REGISTER: CARDS})
    assert [(card.id, card.index, card.mode) for card in fact.cards] == [
        ("GPU-a", 0, "hami-core"),
        ("GPU-b", 1, "hami-core"),
    ]


@pytest.mark.parametrize("resource", ["volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"])
def test_the_cards_of_a_node_that_offers_0_of_a_vgpu_resource_stay_known_and_are_unhealthy(resource):
    healthy = node({}, {"allocatable": {"cpu": "2"}}, annotations={REGISTER: CARDS}).cards
    assert [card.healthy for card in healthy] == [True, True]
    none = node({}, {"allocatable": {resource: "0"}}, annotations={REGISTER: CARDS})
    assert none.cards == tuple(replace(card, healthy=False) for card in healthy)
    assert none.problems == ()


def test_a_malformed_register_leaves_the_node_without_cards_and_with_its_cpu():
    fact = node({}, {"capacity": {"cpu": "2"}}, annotations={REGISTER: "GPU-a,ten,32768,T4,true,hami-core:"})
    assert fact.cards == ()
    assert fact.allocatable == {"cpu": 2000}
    (problem,) = fact.problems
    assert problem.subject == "Node gpu-1"
    assert REGISTER in problem.field
    assert problem.value == "ten"


def test_an_unknown_mode_is_reported_once_and_the_other_cards_stay():
    register = "".join(f"GPU-{at},10,32768,T4,true,{mode}:" for at, mode in enumerate(["mig", "turbo", "", "turbo"]))
    fact = node({}, {"capacity": {"cpu": "2"}}, annotations={REGISTER: register})
    assert [card.mode for card in fact.cards] == ["mig", "turbo", "hami-core", "turbo"]
    (problem,) = fact.problems
    assert str(problem) == (
        "Node gpu-1: card 1 (GPU-1) of hami-core: mode: 'turbo' is not valid: expected one of hami-core, mig, mps"
    )


REGISTERED = {"volcano.sh/vgpu-number": "20", "cpu": "2"}
CHIP = (
    '[{"id":"u0","index":0,"count":4,"devmem":21527,"devcore":8,"type":"Ascend310P","numa":0,"mode":"","health":true}]'
)


@pytest.mark.parametrize(
    ("capacity", "annotations", "plugins"),
    [
        (SHARED, {REGISTER: CARDS}, "gpu-share and hami-core"),
        (SHARED, {REGISTER: "malformed"}, "gpu-share and hami-core"),
        (REGISTERED | {"nvidia.com/gpu": "2"}, {REGISTER: CARDS}, "hami-core and nvidia.com/gpu"),
        (SHARED | {"nvidia.com/gpu": "8"}, {}, "gpu-share and nvidia.com/gpu"),
    ],
)
def test_cards_that_two_plugins_register_are_not_used_at_all(capacity, annotations, plugins):
    fact = node({}, {"capacity": capacity}, annotations=annotations)
    assert (fact.cards, fact.contested) == ((), ("NVIDIA GPUs",))
    assert str(fact.problems[-1]) == (
        f"Node gpu-1: device plugins: '{plugins}' is not valid: "
        "expected one of them: the node's NVIDIA GPUs are registered by two device plugins"
    )


@pytest.mark.parametrize(
    ("capacity", "cards"),
    [
        (REGISTERED, 2),
        (REGISTERED | {"nvidia.com/gpu": "0"}, 2),
        # The plugin is gone and its register stayed behind, or it offers its parts under this name.
        ({"cpu": "2", "nvidia.com/gpu": "2"}, 2),
        ({"cpu": "2", "nvidia.com/gpu": "2", "volcano.sh/vgpu-number": "0"}, 0),
    ],
)
def test_cards_of_one_plugin_stay(capacity, cards):
    fact = node({}, {"capacity": capacity}, annotations={REGISTER: CARDS})
    assert (len(fact.cards), fact.contested, fact.problems) == (cards, (), ())


HAMI = {"hami.io/node-nvidia-register": "GPU-a,10,81920,100,A100,0,true,0,hami-core:"}
MOCKED = {"nvidia.com/gpu": 10, "nvidia.com/gpumem": 81920, "nvidia.com/gpucores": 100}
MOCKED["nvidia.com/gpumem-percentage"] = 100


def test_what_hamis_mock_device_plugin_offers_is_of_hamis_plugin():
    allocatable = {"cpu": "2", "pods": "10"} | {name: str(amount) for name, amount in MOCKED.items()}
    fact = node({}, {"allocatable": allocatable}, annotations=HAMI)
    assert (len(fact.cards), fact.contested, fact.problems) == (1, (), ())
    limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}
    allocator = cluster(fact)
    for at in range(10):
        assert devices(take(allocator, ask(container(**limits)), f"p{at}")) == [("GPU-a", 1000, 0)]


def test_a_deleted_registration_of_hami_leaves_the_cards_of_another_plugin():
    deleted = HAMI | {"hami.io/node-handshake": "Deleted_2026.01.02 03:04:05"}
    fact = node({}, {"capacity": REGISTERED}, annotations={REGISTER: CARDS} | deleted)
    assert ([card.mode for card in fact.cards], fact.contested) == (["hami-core", "hami-core"], ())
    (problem,) = fact.problems
    assert "hami.io/node-handshake" in problem.field
    alone = node({}, {"capacity": {"cpu": "2", "nvidia.com/gpu": "8"}}, annotations=deleted)
    assert (alone.cards, alone.allocatable) == ((), {"cpu": 2000})
    both = node({}, {"capacity": REGISTERED}, annotations={REGISTER: CARDS} | HAMI)
    assert (both.cards, both.contested) == ((), ("NVIDIA GPUs",))


JSON = '[{"id":"GPU-a","count":10,"devmem":81920,"devcore":100,"type":"A100","mode":"hami-core","health":true}]'


@pytest.mark.parametrize("register", [HAMI["hami.io/node-nvidia-register"], JSON])
@pytest.mark.parametrize("handshake", ["Requesting_2026-01-02 03:04:05", "Deleted_2026-01-02 03:04:05"])
def test_what_hami_left_behind_does_not_contest_the_cards_of_the_plugin_that_serves_the_node(register, handshake):
    annotations = {REGISTER: CARDS, "hami.io/node-nvidia-register": register, "hami.io/node-handshake": handshake}
    gone = {"nvidia.com/gpu": "10"} | REGISTERED, {"nvidia.com/gpu": "0"} | REGISTERED
    fact = node({}, {"capacity": gone[0], "allocatable": gone[1]}, annotations=annotations)
    assert ([card.mode for card in fact.cards], fact.contested) == (["hami-core", "hami-core"], ())
    (problem,) = fact.problems
    assert "hami.io/" in problem.field
    # The plugin is back: the cards have two names again.
    back = node({}, {"capacity": gone[0]}, annotations=annotations)
    assert (back.cards, back.contested) == ((), ("NVIDIA GPUs",))


@pytest.mark.parametrize(
    ("memory", "number", "vgpus", "modes"),
    [
        # The vGPU plugin was removed, and then the GPU plugin changed from its strategy share to number.
        ("0", "4", "0", ["gpu-share"] * 4),
        # The vGPU plugin replaced one with the strategy share, whose number stays in the status.
        ("0", "4", "20", ["hami-core"] * 2),
        ("44712", "4", "0", ["gpu-share"] * 4),
    ],
)
def test_what_a_removed_plugin_left_behind_yields_to_the_plugin_that_offers_cards(memory, number, vgpus, modes):
    offered = {"volcano.sh/gpu-memory": memory, "volcano.sh/gpu-number": number, "volcano.sh/vgpu-number": vgpus}
    fact = node({}, {"capacity": offered}, annotations={REGISTER: CARDS})
    assert ([card.mode for card in fact.cards], fact.contested) == (modes, ())


def test_a_plugin_of_whole_cards_that_is_gone_yields_before_kubelet_forgets_its_resource():
    # Recorded from kubelet 1.34.4, seconds after Volcano's GPU plugin with the strategy number.
    capacity = {"volcano.sh/gpu-number": "4"} | REGISTERED
    fact = node(
        {},
        {"capacity": capacity, "allocatable": capacity | {"volcano.sh/gpu-number": "0"}},
        annotations={REGISTER: CARDS},
    )
    assert ([card.mode for card in fact.cards], fact.contested) == (["hami-core"] * 2, ())
    both = node({}, {"capacity": capacity}, annotations={REGISTER: CARDS})
    assert (both.cards, both.contested) == ((), ("NVIDIA GPUs",))


def test_the_cards_of_hami_stay_known_while_its_plugin_is_gone_and_no_other_one_registers_them():
    capacity = {"cpu": "2", "nvidia.com/gpu": "0"}
    fact = node({}, {"capacity": capacity}, annotations={"hami.io/node-nvidia-register": JSON})
    assert ([card.id for card in fact.cards], fact.contested, fact.problems) == (["GPU-a"], (), ())


def test_chips_that_both_ascend_plugins_register_are_not_used():
    labels = {"accelerator": "huawei-Ascend310P", "servertype": "Ascend310P-8"}
    labels["node.kubernetes.io/npu.chip.name"] = "310P3"
    annotations = {"baseDeviceInfos": '{"Ascend310P-0":{}}', "hami.io/node-register-Ascend310P": CHIP}
    fact = node({}, {"capacity": {"cpu": "2", "huawei.com/npu-core": "8"}}, labels=labels, annotations=annotations)
    assert (fact.cards, fact.contested) == ((), ("Ascend NPUs",))
    assert fact.problems[-1].value == "mindcluster and hami-vnpu"


def test_cards_of_two_vendors_are_two_things():
    annotations = {REGISTER: CARDS, "hami.io/node-register-Ascend310P": CHIP}
    fact = node({}, {"capacity": REGISTERED}, annotations=annotations)
    assert [card.mode for card in fact.cards[:2]] == ["hami-core", "hami-core"]
    assert len(fact.cards) == 3
    assert (fact.contested, fact.problems) == ((), ())


@pytest.mark.parametrize(
    ("listed", "sick", "strange"),
    [
        ("1", [1], []),
        ("GPU-b", [1], []),
        ("GPU-a , 1,,", [0, 1], []),
        ("GPU-b,GPU-xxxx-1234", [1], ["GPU-xxxx-1234"]),
        ("7,-1", [], ["7", "-1"]),
    ],
)
def test_unhealthy_vgpu_cards_are_named_by_index_or_uuid(listed, sick, strange):
    unhealthy = {REGISTER: CARDS, "volcano.sh/gpu-unhealthy-ids": listed}
    fact = node({}, {"capacity": {"cpu": "2"}}, annotations=unhealthy)
    assert [card.index for card in fact.cards if not card.healthy] == sick
    assert [problem.value for problem in fact.problems] == strange
    assert {problem.expected for problem in fact.problems} <= {"the index or id of one of its 2 NVIDIA GPUs"}


def test_a_card_is_unhealthy_where_its_register_or_the_list_says_so():
    register = "GPU-a,10,32768,T4,false,hami-core:GPU-b,10,32768,T4,true,hami-core:GPU-c,10,32768,T4,true,hami-core:"
    fact = node({}, {}, annotations={REGISTER: register, "volcano.sh/gpu-unhealthy-ids": "1"})
    assert [card.healthy for card in fact.cards] == [False, False, True]


def test_the_seeds_uuid_says_nothing_of_cards_that_have_only_an_index():
    fact = node({}, {"capacity": SHARED}, annotations={"volcano.sh/gpu-unhealthy-ids": "1,GPU-xxxx-1234"})
    assert [card.index for card in fact.cards if not card.healthy] == [1]
    assert str(fact.problems[0]) == (
        "Node gpu-1: metadata.annotations[volcano.sh/gpu-unhealthy-ids]: 'GPU-xxxx-1234' is not valid: "
        "expected the index of one of its 8 NVIDIA GPUs"
    )


def test_a_list_on_a_node_without_cards_is_no_problem():
    assert node({}, {}, annotations={"volcano.sh/gpu-unhealthy-ids": "GPU-a"}).problems == ()


def test_the_model_of_gpu_share_cards_is_the_nodes_label():
    fact = node({}, {"capacity": SHARED}, labels={"nvidia.com/gpu.product": "Tesla-V100"})
    assert {card.type for card in fact.cards} == {"Tesla-V100"}


def test_a_bad_quantity_and_a_wrong_type_are_problems_and_the_rest_is_kept():
    fact = node(
        {"taints": "none"}, {"capacity": {"cpu": "2", "memory": "lots", "pods": None}}, labels={"a": "x", "b": 1}
    )
    assert fact.allocatable == {"cpu": 2000}
    assert fact.labels == {"a": "x"}
    assert {(problem.field, problem.value) for problem in fact.problems} == {
        ("spec.taints", "none"),
        ("status.capacity[memory]", "lots"),
        ("status.capacity[pods]", "null"),
        ("metadata.labels[b]", "1"),
    }


def test_a_node_without_a_name_is_an_error():
    with pytest.raises(FormatError, match=r"metadata\.name"):
        decode_node(b'{"metadata": {}}')


def taints(conditions, *set_already):
    status = {"conditions": [{"type": "Ready", "status": "True"}, *conditions]}
    return node({"taints": list(set_already)}, status).taints


def test_a_condition_keeps_pods_away_before_the_node_controller_has_set_its_taint():
    kinds = {
        "MemoryPressure": "memory-pressure", "DiskPressure": "disk-pressure", "PIDPressure": "pid-pressure",
        "NetworkUnavailable": "network-unavailable",
    }  # fmt: skip
    conditions = [{"type": kind, "status": "True"} for kind in kinds]
    assert taints(conditions) == tuple(Taint(f"node.kubernetes.io/{key}", "", "NoSchedule") for key in kinds.values())
    assert taints([{"type": kind, "status": status} for kind in kinds for status in ("False", "Unknown")]) == ()


def test_a_condition_whose_taint_is_set_adds_none():
    pressure = {"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}
    assert taints([{"type": "MemoryPressure", "status": "True"}], pressure) == (
        Taint(pressure["key"], "", "NoSchedule"),
    )
