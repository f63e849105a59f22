"""The usage of cards is what placement counts under the configuration on the bus."""

from pathlib import Path

import hypothesis.strategies as st
import pytest
from deviceshare.allocation import Allocator
from deviceshare.conf import default_conf, parse_devices
from deviceshare.model import Claim, ConfigFact, ContainerGrant, DeviceGrant, Gone, NodeFact, NodeLedger, PodRequest
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.codec import encode
from deviceshare_cli.tables import devices_table
from deviceshare_metrics.core import MetricsCore
from hypothesis import given
from msgspec.structs import replace
from support.builders import ask, card, container, node, pod, share, share_cards, vgpu
from support.metrics import exposed, receive, snapshot_of

PUBLISHED = Path(__file__).parents[1] / "data" / "device-configs" / "volcano-vgpu-device-plugin.yaml"
DEVICES = ConfigFact(name="devices", text=PUBLISHED.read_text(), source="ConfigMap kube-system/x")
A100 = card(0, memory=40960, slots=7, model="NVIDIA-NVIDIA A100-SXM4-40GB", mode="mig")
CONF = replace(default_conf(), devices=parse_devices(DEVICES.text, "x"))


def read(*facts: object) -> MetricsCore:
    core = MetricsCore()
    for fact in facts:
        match fact:
            case NodeFact():
                subject = subjects.fact("node", fact.name)
            case ConfigFact():
                subject = subjects.fact("config", fact.name)
            case NodeLedger():
                subject = subjects.ledger(fact.node)
            case _:
                subject = subjects.fact("pod", fact.uid)  # type: ignore[attr-defined]
        receive(core, subject, encode(fact))
    return core


def instance(detail: str, memory: int, asked: int) -> tuple[ContainerGrant, ...]:
    return (ContainerGrant("main", 0, "mig", (DeviceGrant("GPU-0", 0, memory, 0, detail, asked),)),)


def claimed(*grants: ContainerGrant) -> NodeLedger:
    return NodeLedger(node="n1", claims=(Claim(id="c", uid="uid-a", namespace="ns", name="a", grants=grants),))


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param([pod("a", vgpu(1, 6000)), claimed(*instance("group2-0", 10240, 6000))], id="claimed"),
        pytest.param([pod("a", vgpu(1, 6000), node="n1", held=instance("group2-0", 6000, 6000))], id="bound"),
    ],
)
def test_a_mig_instance_takes_its_own_memory_not_what_was_asked(facts):
    core = read(node("n1", [A100]), DEVICES, *facts)
    snapshot = snapshot_of(core)
    (shown,) = snapshot.devices
    assert (shown.memory_used, shown.slots_used, shown.pods) == (10240, 1, ("ns/a",))
    assert [(each.id, each.memory) for each in snapshot.pods[0].devices] == [("GPU-0[group2-0]", 10240)]
    assert [(each.container, each.memory) for each in snapshot.shares] == [("main", 10240)]
    text = exposed(core)
    assert (
        'volcano_vgpu_device_memory_allocation_for_a_certain_pod{NodeName="n1",devID="GPU-0",podName="a"} 10240' in text
    )


def test_a_mig_card_has_no_cores_and_its_largest_free_instance():
    held = pod("a", vgpu(1, 6000), node="n1", held=instance("group2-0", 6000, 6000))
    core = read(node("n1", [A100]), DEVICES, held)
    (shown,) = snapshot_of(core).devices
    assert shown.cores_total == 0
    assert 0 < shown.largest_free < shown.memory_total - shown.memory_used
    assert 'deviceshare_cluster_card_cores{mode="mig",type="NVIDIA-NVIDIA A100-SXM4-40GB"} 0' in exposed(core)
    assert [row[6] for row in devices_table(snapshot_of(core).devices, False)[1]] == ["<none>"]


def test_whole_gpus_count_in_the_sums_of_cards():
    labels = {"nvidia.com/gpu.product": "V100"}
    core = read(NodeFact(name="n1", allocatable={"nvidia.com/gpu": 3}, labels=labels))
    text = exposed(core)
    assert 'deviceshare_cluster_cards{mode="whole",type="V100"} 3' in text
    assert 'deviceshare_node_cards{mode="whole",node="n1",type="V100"} 3' in text
    assert "deviceshare_card_memory_bytes{" not in text


def test_the_snapshot_follows_the_configuration():
    held = pod("a", vgpu(1, 6000), node="n1", held=instance("group2-0", 6000, 6000))
    core = read(node("n1", [A100]), held)
    assert snapshot_of(core).devices[0].memory_used == 6000  # no geometry is known yet
    receive(core, "cluster.config.devices", encode(DEVICES))
    assert snapshot_of(core).devices[0].memory_used == 10240
    broken = ConfigFact(name="devices", text="nvidia: 5")
    receive(core, "cluster.config.devices", encode(broken))
    assert snapshot_of(core).devices[0].memory_used == 10240
    receive(core, "cluster.config.devices", encode(Gone()))
    assert snapshot_of(core).devices[0].memory_used == 6000


def test_what_is_a_device_depends_on_the_configuration():
    renamed = ConfigFact(name="devices", text="nvidia: {resourceCountName: acme.io/gpus}")
    bound = pod("a", PodRequest(containers=(container(**{"acme.io/gpus": 1, "cpu": 500}),)), node="n1")
    assert snapshot_of(read(node("n1"), bound)).nodes[0].used == {"acme.io/gpus": 1, "cpu": 500, "pods": 1}
    assert snapshot_of(read(node("n1"), bound, renamed)).nodes[0].used == {"cpu": 500, "pods": 1}


def test_memory_is_shown_in_mebibytes_whatever_the_unit_of_the_device_plugin():
    unit = ConfigFact(name="devices", text="nvidia: {gpuMemoryFactor: 1024}")
    grant = ContainerGrant("main", 0, "hami-core", (DeviceGrant("GPU-0", 0, 8, 50),))
    cards = [card(0, memory=32)]
    (shown,) = snapshot_of(read(node("n1", cards), unit, pod("a"), claimed(grant))).devices
    assert (shown.memory_total, shown.memory_used) == (32768, 8192)
    # Other device plugins know nothing of that unit.
    assert snapshot_of(read(node("n1", share_cards(1)), unit)).devices[0].memory_total == 11178


def test_an_init_container_and_the_others_take_a_card_in_turn():
    grants = (
        ContainerGrant("main", 0, "hami-core", (DeviceGrant("GPU-0", 0, 1000, 20),)),
        ContainerGrant("first", 0, "hami-core", (DeviceGrant("GPU-0", 0, 3000, 10),), "init"),
    )
    core = read(node("n1", [card(0)]), pod("a"), claimed(*grants))
    snapshot = snapshot_of(core)
    (shown,) = snapshot.devices
    assert (shown.memory_used, shown.cores_used, shown.slots_used) == (3000, 20, 1)
    assert [(each.container, each.memory) for each in snapshot.shares] == [("main", 1000), ("first", 3000)]
    text = exposed(core)
    assert (
        'volcano_vgpu_device_memory_allocation_for_a_certain_pod{NodeName="n1",devID="GPU-0",podName="a"} 3000' in text
    )


NODES = (
    node("gpu", [card(at) for at in range(2)]),
    node("mig", [replace(A100, id=f"GPU-m{at}", index=at) for at in range(2)]),
    node("share", share_cards(2)),
)
ASKS = st.one_of(
    st.builds(
        vgpu, st.integers(1, 2), st.sampled_from([500, 3000, 9000]), st.sampled_from([0, 30]),
        containers=st.integers(1, 2),
    ),
    st.builds(share, st.sampled_from([500, 4000])),
    st.just(ask(container(), annotations={})),
)  # fmt: skip


@given(st.lists(ASKS, max_size=8))
def test_placement_and_the_snapshot_count_alike(asks):
    allocator = Allocator(CONF)
    for each in NODES:
        allocator.set_node(each)
    claims: dict[str, list[Claim]] = {each.name: [] for each in NODES}
    for number, what in enumerate(asks):
        if (placement := allocator.place(what)) is not None:
            allocator.hold(placement.node, f"u{number}", placement.grants, placement.resources)
            claims[placement.node].append(
                Claim(id=f"c{number}", uid=f"u{number}", namespace="ns", name=f"p{number}", grants=placement.grants)
            )
    ledgers = [NodeLedger(node=name, claims=tuple(here)) for name, here in claims.items()]
    shown = snapshot_of(read(DEVICES, *NODES, *ledgers)).devices
    assert [(each.memory_used, each.cores_used, each.slots_used) for each in shown] == [
        tuple(used) for each in NODES for used in allocator.used_cards(each.name)
    ]
