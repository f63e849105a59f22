"""GPUs of HAMi nodes: which cards a pod gets, the annotations, and whole GPUs of other nodes."""

import json
from pathlib import Path

import hypothesis.strategies as st
import pytest
from deviceshare.allocation import ClaimCheck
from deviceshare.conf import BUILT_IN, default_conf
from deviceshare.families import BY_NAME, caveats
from deviceshare.families.hami_gpu.section import HamiConf
from deviceshare.families.vgpu.section import VgpuConf
from deviceshare.model import Card, Claim, ContainerGrant, DeviceGrant, Policies, Problem, RequestError, Tenant
from deviceshare.objects.policies import read_policies
from deviceshare.objects.problems import Problems
from deviceshare.queueing.amounts import Counting
from hypothesis import given
from msgspec.structs import replace
from support.builders import ask, chosen, claim_of, cluster, codes, conf, container, devices, node, take

RECORDED = json.loads((Path(__file__).parents[1] / "data/hami/nvidia.json").read_text())
FAMILY = BY_NAME["hami-gpu"]
GPU, MEM, PERCENT, CORES = (f"nvidia.com/gpu{rest}" for rest in ("", "mem", "mem-percentage", "cores"))
FLAG = "deviceshare.HAMiGPUEnable"


def card(index: int, *, mode: str = "hami-gpu", memory: int = 16384, slots: int = 10, **about) -> Card:
    return Card(f"GPU-{index}", index, slots, memory, 100, "NVIDIA-Tesla T4", mode=mode, **about)


def hami_node(name: str = "hami", count: int = 2, **about):
    return node(name, [card(index, **about) for index in range(count)], **{GPU: 10 * count})


def whole_node(name: str = "whole", count: int = 4, **about):
    return node(name, **{GPU: count}, **about)


def gpu(number=1, memory=None, cores=None, percentage=None, annotations=None):
    amounts = {GPU: number, MEM: memory, CORES: cores, PERCENT: percentage}
    return ask(
        container(**{key: value for key, value in amounts.items() if value is not None}), annotations=annotations
    )


def case_id(case) -> str:
    return str(case["name"])


@pytest.mark.parametrize("case", RECORDED["requests"], ids=case_id)
def test_a_request_means_what_it_means_to_hami(case):
    names = HamiConf(**case["conf"])
    configured = replace(default_conf(), devices=BUILT_IN.having(names))
    what = ask(container(**case["limits"]))
    if case.get("ours") == "refused":
        with pytest.raises(RequestError):
            FAMILY.demand(what, configured)
        return
    demand = FAMILY.demand(what, configured)
    want = case["want"]
    if want is None:
        assert demand is None
        return
    (cards,) = demand.cards
    # 101 stands for no percentage, and no memory and no percentage for a whole card.
    percentage = 0 if want["percentage"] == 101 else want["percentage"]
    assert cards.count == want["nums"]
    assert cards.cores == want["cores"]
    if want["mem"]:
        assert (cards.memory, cards.memory_percentage) == (want["mem"], 0)
    else:
        assert (cards.memory, cards.memory_percentage) in ((0, percentage), (0, 0 if percentage == 100 else percentage))


@pytest.mark.parametrize("case", RECORDED["fits"], ids=case_id)
def test_a_request_fits_where_it_fits_for_hami(case):
    found = [
        Card(each["id"], at, each["count"], each["totalmem"], 100, "NVIDIA", each["health"], "hami-gpu")
        for at, each in enumerate(case["devices"])
    ]
    allocator = cluster(node("n1", found, **{GPU: 1000}))
    for at, each in enumerate(case["devices"]):
        for number in range(each["used"]):
            memory, cores = (each["usedmem"], each["usedcores"]) if not number else (0, 0)
            grant = ContainerGrant("c", 0, "hami-gpu", (DeviceGrant(each["id"], at, memory, cores),))
            allocator.hold("n1", f"{at}-{number}", (grant,), (), Tenant())
    asked = case["request"]
    what = gpu(asked["nums"], asked["mem"] or None, asked["cores"], asked["percentage"] or None, case["annotations"])
    if case.get("ours") == "refused":
        assert allocator.why_not(what).problem is not None
    elif case["ids"] is None:
        assert case.get("ours", case["reason"]) in codes(allocator, what)
    else:
        assert [name for name, *_ in devices(allocator.place(what))] == case["ids"]


def test_the_annotations_that_the_plugin_reads():
    what = gpu(1, 3000, 50)
    placement = cluster(hami_node(count=1)).place(what)
    assert FAMILY.annotations(claim_of(placement), "hami", ["main"], 1700000000.9, ["prepare"]) == {
        "hami.io/vgpu-devices-to-allocate": ";GPU-0,NVIDIA,3000,50:;",
        "hami.io/vgpu-devices-allocated": ";GPU-0,NVIDIA,3000,50:;",
        "hami.io/vgpu-node": "hami",
        "hami.io/vgpu-time": "1700000000",
        "hami.io/bind-phase": "allocating",
        "hami.io/bind-time": "1700000000",
    }


@pytest.mark.parametrize("init", [False, True])
def test_held_is_the_inverse_of_annotations(init):
    mains = (container("web"), container("model", **{GPU: 2, MEM: 100}))
    inits = (container("prepare", **({GPU: 1, MEM: 100} if init else {})),)
    what = ask(*mains, init_containers=inits)
    placement = cluster(hami_node()).place(what)
    written = FAMILY.annotations(claim_of(placement), "hami", ["web", "model"], 1.0, ["prepare"])
    assert written["hami.io/vgpu-devices-allocated"].count(";") == 3
    held = FAMILY.held(written, what, "ns/a")
    assert {(each.container, each.stage, len(each.devices)) for each in held} == {
        ("model", "", 2), *({("prepare", "init", 1)} if init else ()),
    }  # fmt: skip
    assert caveats(placement.grants) == ()  # tests/data/hami/plugin-2.8.3.json: the plugin serves all of them


_LIMITS = st.sampled_from([{}, {GPU: 1, MEM: 100}, {GPU: 2, MEM: 50}])


@given(st.lists(st.tuples(_LIMITS, st.booleans()), max_size=3), st.lists(_LIMITS, min_size=1, max_size=3))
def test_each_container_is_served_by_the_plugins_of_all_versions(inits, mains):
    """The position of a slot is that of the container (GetNextDeviceRequest of HAMi 2.9 and newer); older plugins hand
    out the slots that are not empty in their order (DecodePodDevices)."""
    before = [container(f"i{at}", sidecar=stays, **limits) for at, (limits, stays) in enumerate(inits)]
    after = [container(f"c{at}", **limits) for at, limits in enumerate(mains)]
    what = ask(*after, init_containers=tuple(before))
    placement = cluster(hami_node()).place(what)
    if not placement.grants:
        return
    names = [each.name for each in (*before, *after)]
    got = {each.container: [device.id for device in each.devices] for each in placement.grants}
    written = FAMILY.annotations(claim_of(placement), "hami", names[len(before) :], 1.0, names[: len(before)])
    for key in ("hami.io/vgpu-devices-to-allocate", "hami.io/vgpu-devices-allocated"):
        *slots, end = written[key].split(";")
        assert end == ""
        served = [[each.split(",")[0] for each in slot.split(":") if each] for slot in slots]
        assert dict(zip(names, served, strict=True)) == {name: got.get(name, []) for name in names}
        in_kubelets_order = [got[name] for name in names if name in got]
        assert [ids for ids in served if ids] == in_kubelets_order
    held = FAMILY.held(written, what, "ns/a")
    assert {each.container: [device.id for device in each.devices] for each in held} == got


def test_slots_of_hami_2_8_are_those_of_the_containers_alone():
    what = ask(container("a"), container("b", **{GPU: 1}), init_containers=(container("prepare"),))
    held = FAMILY.held({"hami.io/vgpu-devices-allocated": ";GPU-0,NVIDIA,3000,50:;"}, what, "ns/a")
    assert [(each.container, each.stage) for each in held] == [("b", "")]


def test_ascend_does_not_read_the_devices_of_nvidia():
    annotations = {"hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,3000,50:;"}
    assert BY_NAME["hami-vnpu"].held(annotations, gpu(), "ns/a") == ()


def test_hamis_cards_and_those_of_volcano_do_not_serve_each_other():
    volcano = node("volcano", [card(0, mode="hami-core")], **{"volcano.sh/vgpu-number": 10})
    assert cluster(volcano, hami_node()).place(gpu(1, 100)).node == "hami"
    assert cluster(volcano).place(gpu(1, 100)) is None
    assert cluster(hami_node()).place(ask(container(**{"volcano.sh/vgpu-number": 1}))) is None


# Whole GPUs


def test_what_nvidia_com_gpu_means_follows_from_the_node():
    allocator = cluster(hami_node(), whole_node())
    shared = take(allocator, gpu(1), "a")
    if shared.node == "whole":
        assert shared.grants == ()
        allocator.remove_node("whole")
        shared = take(allocator, gpu(1), "b")
    assert devices(shared) == [("GPU-1", 16384, 0)]
    allocator = cluster(whole_node())
    placement = take(allocator, gpu(4), "a")
    assert (placement.grants, dict(placement.resources)[GPU]) == ((), 4)
    assert codes(allocator, gpu(1)) == {"InsufficientResource"}, "a node without registered cards offers whole ones"


def test_memory_is_only_on_nodes_that_hami_registers():
    allocator = cluster(hami_node(), whole_node())
    assert allocator.place(gpu(1, 1000)).node == "hami"
    assert allocator.place(gpu(1, percentage=10)).node == "hami"
    assert allocator.place(gpu(1, annotations={"nvidia.com/use-gpuuuid": "GPU-1"})).node == "hami"
    allocator.remove_node("hami")
    assert codes(allocator, gpu(1, 1000)) == {"CardNotFound"}


def test_a_full_hami_node_serves_no_whole_gpus():
    allocator = cluster(hami_node(count=1))
    take(allocator, gpu(1, 100), "a")
    assert codes(allocator, gpu(1)) == {"CardInsufficientMemory"}
    allocator.set_node(whole_node())
    assert allocator.place(gpu(1)).node == "whole"
    assert allocator.place(gpu(1)).grants == ()


def test_the_answers_are_the_same_whether_hami_nodes_came_first_or_last():
    before = cluster(whole_node())
    assert before.place(gpu(1)).node == "whole"
    before.set_node(hami_node())
    take(before, gpu(4), "a")
    assert before.place(gpu(4)) is None
    assert devices(before.place(gpu(1)))[0][1] == 16384


def test_cards_in_other_modes_get_no_pods_not_even_whole():
    allocator = cluster(hami_node(mode="hami-gpu-mig"))
    for what in (gpu(1), gpu(1, 100)):
        assert allocator.place(what) is None
        (refusal,) = allocator.why_not(what).refusals
        assert (refusal.code, refusal.nodes) == ("ModeNotFit", 1)
        assert "a mode other than hami-core" in refusal.text


def test_without_the_flag_gpus_are_whole_and_memory_names_the_flag():
    off = default_conf().families - {FLAG}
    allocator = cluster(whole_node(), families=off)
    assert allocator.place(gpu(1)).node == "whole"
    (refusal,) = allocator.why_not(gpu(1, 100)).refusals
    assert (refusal.code, FLAG in refusal.text) == ("FamilyDisabled", True)


def test_names_of_hami_under_nvidia_belong_to_volcanos_plugin():
    names = VgpuConf(number=GPU, memory=MEM, percentage=PERCENT, cores=CORES)
    configured = replace(default_conf(), devices=BUILT_IN.having(names))
    assert FAMILY.demand(gpu(1, 100), configured) is None
    assert FAMILY.resources(configured) == frozenset()
    allocator = cluster(node("v", [card(0, mode="hami-core")]), devices=configured.devices)
    assert devices(allocator.place(gpu(1, 100))) == [("GPU-0", 100, 0)]


def test_under_another_name_it_is_never_a_whole_gpu():
    """A node whose registration cannot be read still offers the renamed resource, and has no cards."""
    renamed = BUILT_IN.having(HamiConf(number="nvidia.com/vgpu"))
    what = ask(container(**{"nvidia.com/vgpu": 1}))
    allocator = cluster(node("unread", **{"nvidia.com/vgpu": 10}), devices=renamed)
    assert allocator.place(what) is None
    allocator.set_node(node("hami", [card(0)], **{"nvidia.com/vgpu": 10}))
    assert devices(allocator.place(what)) == [("GPU-0", 16384, 0)]


def test_models_restrict_whole_nodes_by_label_and_hami_nodes_by_card():
    label = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}
    allocator = cluster(hami_node(), whole_node(labels=label))
    wish = {"nvidia.com/use-gputype": "A100"}
    assert allocator.place(gpu(1, annotations=wish)).node == "whole"
    assert allocator.place(gpu(1, 100, annotations=wish)) is None
    wish = {"nvidia.com/nouse-gputype": "A100"}
    assert allocator.place(gpu(1, annotations=wish)).node == "hami"


@pytest.mark.parametrize(
    ("annotations", "field"),
    [
        ({"nvidia.com/vgpu-mode": "mig"}, "nvidia.com/vgpu-mode"),
        ({"nvidia.com/vgpu-mode": "mps"}, "nvidia.com/vgpu-mode"),
        ({"nvidia.com/numa-bind": "true"}, "nvidia.com/numa-bind"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(annotations, field):
    found = cluster(hami_node()).why_not(gpu(1, 100, annotations=annotations)).problem
    assert field in found.field
    accepted = {"nvidia.com/vgpu-mode": "hami-core", "nvidia.com/numa-bind": "false"}
    assert cluster(hami_node()).place(gpu(1, 100, annotations=accepted)) is not None


def test_policies_of_hami_choose_nodes_and_cards():
    wishes = {"hami.io/node-scheduler-policy": "spread", "hami.io/gpu-scheduler-policy": "binpack"}
    found: list[Problem] = []
    assert read_policies(wishes, Problems("Pod a", found)) == Policies("spread", "binpack")
    ours = {"deviceshare.io/card-scheduler-policy": "spread"}
    assert read_policies(wishes | ours, Problems("Pod a", found)) == Policies("spread", "spread")
    assert found == []


def test_the_policy_of_hami_decides_which_card_a_pod_gets():
    for policy, card_of_second in (("binpack", 0), ("spread", 1)):
        allocator = cluster(hami_node(), policy="binpack")
        assert chosen(take(allocator, gpu(1, 100), "a")) == [0]
        what = replace(gpu(1, 100), policies=Policies("", policy))
        assert chosen(allocator.place(what)) == [card_of_second]


@pytest.mark.parametrize("amounts", [{MEM: 100}, {GPU: 0, MEM: 100}, {GPU: 1, CORES: 101}, {GPU: 129}])
def test_invalid_amounts_are_refused(amounts):
    assert cluster(hami_node()).why_not(ask(container(**amounts))).problem is not None


def test_the_priority_is_no_resource_of_a_node():
    what = ask(container(**{GPU: 1, MEM: 100, "nvidia.com/priority": 1}))
    assert cluster(hami_node()).place(what) is not None


# Claims and queues


def test_a_claim_without_cards_is_one_for_a_node_of_whole_gpus():
    check = ClaimCheck(conf())
    known = {each.id: each for each in hami_node().cards}
    empty = Claim(id="1", uid="u", namespace="ns", name="a")
    assert check.against_request(empty, gpu(1), {}) == ""
    assert "hami-gpu" in check.against_request(empty, gpu(1), known)
    assert "hami-gpu" in check.against_request(empty, gpu(1, 100), {})
    with_cards = claim_of(cluster(hami_node()).place(gpu(1)))
    assert check.against_request(with_cards, gpu(1), known) == ""


def test_a_pod_with_a_whole_gpu_counts_no_memory():
    counting = Counting(conf(), [hami_node(), whole_node()])
    assert counting.total[MEM] == 2 * 16384
    assert dict(counting.asked(gpu(1)))[MEM] == 16384
    assert MEM not in dict(counting.held(gpu(1), ()))
    shared = cluster(hami_node()).place(gpu(1))
    assert dict(counting.held(gpu(1), shared.grants))[MEM] == 16384


# Maintenance


def test_a_cordoned_card_gets_no_pods_and_is_named():
    allocator = cluster(node("hami", [card(0), card(1, cordoned=True)], **{GPU: 20}))
    assert chosen(take(allocator, gpu(1), "a")) == [0]
    assert codes(allocator, gpu(1)) == {"CardInsufficientMemory", "CardCordoned"}


def test_a_claim_for_a_cordoned_card_is_refused():
    cards = {each.id: replace(each, cordoned=True) for each in hami_node().cards}
    assert "cordoned" in ClaimCheck(conf()).against_cards(claim_of(cluster(hami_node()).place(gpu(1))), cards, {})
