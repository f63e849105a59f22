"""MIG nodes, and the published tables of geometries by which their cards are partitioned."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deviceshare.allocation import Allocator, Placement
from deviceshare.conf import DevicesConf, parse_devices
from deviceshare.conf.model import BEST_FIT
from deviceshare.families import BY_NAME
from deviceshare.model import Card, ContainerGrant, DeviceGrant, Labels, NodeFact, PodRequest
from msgspec.structs import replace
from support.builders import card, claim_of, cluster, node

CONFIGS = Path(__file__).parents[1] / "data" / "golden" / "configs"


def table(name: str) -> DevicesConf:
    """Return a device configuration of the recorded cases."""
    return parse_devices((CONFIGS / f"{name}.yaml").read_text(), name)


DOCS, PLUGIN, IN_GIB = table("vgpu-docs"), table("vgpu-plugin"), table("vgpu-factor1024")
"""As Volcano's guide and the device plugin publish it, and the first with sizes in GiB."""
A30, A100_40, A100_80 = "NVIDIA-NVIDIA A30", "NVIDIA-NVIDIA A100-SXM4-40GB", "NVIDIA-NVIDIA A100-SXM4-80GB"
_MEMORY = {A30: 24576, A100_40: 40960, A100_80: 81920}


def mig_card(index: int, model: str = A100_40, *, slots: int = 10, node: str = "", memory: int = 0) -> Card:
    """Return a MIG card ``GPU-<node><index>``."""
    return card(index, model=model, memory=memory or _MEMORY[model], slots=slots, mode="mig", node=node)


def mig_cluster(
    *nodes: NodeFact, devices: DevicesConf = DOCS, policy: str = "", weight: int = 0, geometry: str = BEST_FIT
) -> Allocator:
    """Return an allocator that knows these nodes."""
    return cluster(*nodes, policy=policy, weight=weight, devices=devices, mig_geometry=geometry)


def instances(placement: Placement | None) -> list[str]:
    """Return the instances of a placement, container after container: ``0:group1-3``."""
    assert placement is not None
    return [f"{device.index}:{device.detail}" for grant in placement.grants for device in grant.devices]


def written(placement: Placement, *containers: str) -> dict[str, str]:
    """Return what the binder would write on the pod."""
    family = BY_NAME[placement.grants[0].family]
    return family.annotations(claim_of(placement), placement.node, containers or ("c0",), 1.0)


def read(annotations: Mapping[str, str], what: PodRequest) -> tuple[ContainerGrant, ...]:
    """Return what the vGPU families read on a pod."""
    return tuple(
        grant for name in ("hami-core", "mps", "mig") for grant in BY_NAME[name].held(annotations, what, "ns/a")
    )


def apart(what: PodRequest, group: str = "", rules: tuple[Labels, ...] = ()) -> PodRequest:
    """Return the ask of a pod that is kept off others' cards."""
    return replace(what, apart_group=group, exclusive=rules)


def one_node(model: str = A100_40, count: int = 1, **what: Any) -> Allocator:
    """Return an allocator that knows a node with some equal cards."""
    return mig_cluster(node("n1", [mig_card(at, model) for at in range(count)]), **what)


def hold(allocator: Allocator, uid: str, *details: str, memory: int = 1000, card: int = 0) -> None:
    """Let a pod stand there as the annotations of a bound pod say it: an instance for each container."""
    grants = tuple(
        ContainerGrant(f"c{at}", at, "mig", (DeviceGrant(f"GPU-{card}", -1, memory, 0, detail),))
        for at, detail in enumerate(details)
    )
    allocator.hold("n1", uid, grants, ())


def lines(allocator: Allocator, what: PodRequest) -> dict[str, str]:
    """Return why no node takes a pod, by code."""
    assert allocator.place(what) is None
    return {refusal.code: refusal.line for refusal in allocator.why_not(what).refusals}
