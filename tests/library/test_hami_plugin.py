"""What HAMi's own NVIDIA device plugin wrote on a node and on pods, and gave to their containers."""

import json
from pathlib import Path

import pytest
from deviceshare.families import BY_NAME
from deviceshare.families.hami_vnpu import wire as hami_vnpu_wire
from deviceshare.model import Claim, ContainerGrant, DeviceGrant, to_amount
from deviceshare.objects import decode_node
from support.builders import ask, container

RECORDED = json.loads((Path(__file__).parents[1] / "data/hami/plugin-2.8.3.json").read_text())
FAMILY = BY_NAME["hami-gpu"]


def request(pod):
    def containers(of):
        return [
            container(name, **{key: to_amount(key, value, "Pod p", "limits") for key, value in limits.items()})
            for name, limits in of.items()
        ]

    return ask(*containers(pod["limits"]), init_containers=tuple(containers(pod["init_limits"])))


def grants(pod):
    found: dict[str, list[DeviceGrant]] = {}
    for each in pod["claim"]:
        found.setdefault(each["container"], []).append(DeviceGrant(each["id"], -1, each["memory"], each["cores"]))
    order = [(name, at, stage) for stage, part in (("init", "init_limits"), ("", "limits"))
             for at, name in enumerate(pod[part])]  # fmt: skip
    return tuple(
        ContainerGrant(name, at, FAMILY.name, tuple(found[name]), stage) for name, at, stage in order if name in found
    )


def case_id(pod) -> str:
    return str(pod["name"])


@pytest.mark.parametrize("handshake", [None, "Deleted_2026-01-02 03:04:05"])
def test_the_node_has_the_cards_that_the_plugin_registers(handshake):
    annotations = RECORDED["node"]["annotations"] | ({"hami.io/node-handshake": handshake} if handshake else {})
    raw = {"metadata": {"name": "n", "annotations": annotations}, "status": {"capacity": RECORDED["node"]["capacity"]}}
    fact = decode_node(json.dumps(raw).encode())
    assert [(card.index, card.memory, card.mode) for card in fact.cards] == [(i, 15360, "hami-gpu") for i in range(3)]
    # The plugin offers all slots of all cards.
    assert fact.allocatable["nvidia.com/gpu"] == sum(card.slots for card in fact.cards)
    assert (fact.contested, fact.problems) == ((), ())


@pytest.mark.parametrize("pod", RECORDED["pods"], ids=case_id)
def test_the_devices_of_a_served_pod_are_those_of_its_claim(pod):
    assert FAMILY.held(pod["annotations"], request(pod), "ns/p") == grants(pod)
    assert FAMILY.plugin.served(pod["annotations"])


@pytest.mark.parametrize("pod", RECORDED["pods"], ids=case_id)
def test_containers_have_what_the_claim_says(pod):
    assert set(pod["got"]) == {grant.container for grant in grants(pod)}
    for grant in grants(pod):
        limits = {f"CUDA_DEVICE_MEMORY_LIMIT_{at}": f"{device.memory}m" for at, device in enumerate(grant.devices)}
        assert pod["got"][grant.container] == limits | {
            "NVIDIA_VISIBLE_DEVICES": ",".join(device.id for device in grant.devices),
            "CUDA_DEVICE_SM_LIMIT": str(grant.devices[0].cores),
        }


@pytest.mark.parametrize("pod", RECORDED["pods"], ids=case_id)
def test_the_annotations_that_the_plugin_read_are_written_today(pod):
    claim = Claim(id="1", uid="u", namespace="ns", name="p", grants=grants(pod))
    noted = pod["annotations"]
    written = FAMILY.annotations(
        claim,
        noted["hami.io/vgpu-node"],
        list(pod["limits"]),
        float(noted["hami.io/vgpu-time"]),
        list(pod["init_limits"]),
    )
    # The plugin has erased the devices to allocate, and marked the pod as served.
    left = {"hami.io/vgpu-devices-to-allocate": ";", hami_vnpu_wire.BIND_PHASE: hami_vnpu_wire.SUCCESS}
    assert written | left == noted
    assert written["hami.io/vgpu-devices-to-allocate"] == noted["hami.io/vgpu-devices-allocated"]
