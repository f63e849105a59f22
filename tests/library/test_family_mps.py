"""MPS: a mode of its own, with hami-core's arithmetic."""

from deviceshare.families import BY_NAME
from support.builders import card, cluster, codes, devices, node, take, vgpu
from support.mig import read, written

MODE = "volcano.sh/vgpu-mode"


def one(**what):
    return cluster(node("n1", [card(0, mode="mps", **what)]))


def test_a_pod_gets_an_mps_card_by_its_mode_and_without_one() -> None:
    # Volcano takes the node for hami-core, and refuses the pod that asks for mps.
    for annotations in ({MODE: "mps"}, {}):
        placement = one().place(vgpu(1, 3000, 20, annotations=annotations))
        assert devices(placement) == [("GPU-0", 3000, 20)]
        assert placement.grants[0].family == "mps"
    assert codes(one(), vgpu(1, 3000, annotations={MODE: "hami-core"})) == {"ModeNotFit"}


def test_a_restart_restores_the_charge_although_the_annotation_lacks_the_mode() -> None:
    before, after, what = one(), one(), vgpu(1, 3000, 20)
    placement = take(before, what, "p")
    after.hold("n1", "p", read(written(placement), what), ())
    assert after.used_cards("n1") == before.used_cards("n1") == [(3000, 20, 1)]
    after.release("n1", "p")
    assert after.used_cards("n1") == [(0, 0, 0)]


def test_the_environment_is_hami_cores() -> None:
    (grant,) = one().place(vgpu(1, 3000, 20)).grants
    assert BY_NAME["mps"].environment(grant, ()) == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-0",
        "CUDA_DEVICE_MEMORY_LIMIT_0": "3000m",
        "CUDA_DEVICE_SM_LIMIT": "20",
    }
