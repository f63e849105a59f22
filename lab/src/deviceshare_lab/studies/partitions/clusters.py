"""The clusters of ``lab study partitions``: their nodes, and the profiles that pods request.

Geometries and templates are those of the device plugins' ConfigMaps (Project-HAMi volcano-vgpu-device-plugin and
ascend-device-plugin); the H100 has the geometries of the A100 with 80 GB.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

from deviceshare.conf import BUILT_IN, DevicesConf
from deviceshare.families.hami_vnpu.section import VnpuConf
from deviceshare.families.vgpu.section import MigGroup, MigInstance, MigModel, VgpuConf
from deviceshare.model import NodeFact, PodRequest

from deviceshare_lab.clusters.facts import ASCEND_910B3, make_cards, make_request

GIB = 1024
_CPU = 1000
"""The CPU of a pod in millicores; nodes have enough for all that fit on their cards."""
_MAX_PODS = 1000


class Profile(NamedTuple):
    """What pods request: ``memory`` MiB under the resource ``resource``, one device of it."""

    name: str
    resource: str
    memory: int

    def request(self) -> PodRequest:
        """Return the request of a pod."""
        return make_request({"cpu": _CPU, self.resource: self.memory})


class Hardware(NamedTuple):
    """``nodes`` nodes with ``cards`` cards each of a model (``type``), of ``memory`` MiB."""

    nodes: int
    cards: int
    type: str
    memory: int
    mode: str
    slots: int
    cores: int
    resource: str = ""
    """The resource of the number of devices, if kubelet counts it."""


class Cluster(NamedTuple):
    """A cluster, the profiles of its pods from the smallest to the largest of each kind, and its configuration.

    ``openb``: the weight of each profile in the distribution of the same name.
    """

    name: str
    hardware: tuple[Hardware, ...]
    profiles: tuple[Profile, ...]
    openb: tuple[float, ...]
    devices: DevicesConf

    @property
    def memory(self) -> int:
        """The MiB of all cards."""
        return sum(each.nodes * each.cards * each.memory for each in self.hardware)

    def nodes(self, seed: int) -> list[NodeFact]:
        """Return the nodes; their order by name is drawn from the seed."""
        every = [each for each in self.hardware for _ in range(each.nodes)]
        random.Random(f"nodes {seed}").shuffle(every)  # noqa: S311 - repeatable, not secret
        return [_node(at, each) for at, each in enumerate(every)]


def _node(at: int, hardware: Hardware) -> NodeFact:
    name = f"node-{at:04}"
    _, count, model, memory, mode, slots, cores, _ = hardware
    cards = make_cards(name, count, model, memory, slots, cores, mode)
    allocatable = {"cpu": _MAX_PODS * _CPU, "memory": 2**40, "pods": _MAX_PODS}
    if hardware.resource:
        allocatable[hardware.resource] = hardware.cards * hardware.slots
    return NodeFact(name=name, cards=cards, allocatable=allocatable)


def _groups(*sizes: Sequence[tuple[int, int]]) -> tuple[MigGroup, ...]:
    """Return groups of instances; each size is GiB and number."""
    return tuple(
        MigGroup(
            f"group{number}",
            tuple(MigInstance(f"{gib}gb", gib * GIB, count) for gib, count in each),
        )
        for number, each in enumerate(sizes, 1)
    )


_GEOMETRIES = (
    MigModel(("A30",), _groups([(6, 4)], [(12, 2)], [(24, 1)])),
    MigModel(("A100-SXM4-40GB",), _groups([(5, 7)], [(10, 3), (5, 1)], [(20, 2)], [(40, 1)])),
    MigModel(("H100 80GB HBM3",), _groups([(10, 7)], [(20, 3), (10, 1)], [(40, 2)], [(80, 1)])),
)
_MEMORY = "volcano.sh/vgpu-memory"

OPENB_SHARES = (31, 277, 1292, 5464)
"""Pods of the trace openb, workload default, that request up to 1/8, 1/4, 1/2 and 1 of a card (7,064 in all; each
of a pod with several whole cards counts once, as one card)."""


def _openb(profiles: Sequence[Profile], whole: Sequence[int]) -> tuple[float, ...]:
    """Return the weights of profiles if 1/8, 1/4, 1/2 and all of a card are the profiles ``whole``."""
    weights = [0.0] * len(profiles)
    for at, pods in zip(whole, OPENB_SHARES, strict=True):
        weights[at] += pods
    return tuple(weights)


_MIG_PROFILES = tuple(Profile(f"{gib} GiB", _MEMORY, gib * GIB) for gib in (5, 6, 10, 12, 20, 24, 40, 80))
MIG = Cluster(
    "mig",
    (
        Hardware(8, 8, "NVIDIA-NVIDIA A100-SXM4-40GB", 40 * GIB, "mig", 7, 100),
        Hardware(8, 4, "NVIDIA-NVIDIA A30", 24 * GIB, "mig", 7, 100),
        Hardware(4, 8, "NVIDIA-NVIDIA H100 80GB HBM3", 80 * GIB, "mig", 7, 100),
    ),
    _MIG_PROFILES,
    _openb(_MIG_PROFILES, (0, 2, 4, 6)),
    BUILT_IN.having(VgpuConf(geometries=_GEOMETRIES)),
)

_P3, _B3 = BUILT_IN.section(VnpuConf).chips[0], ASCEND_910B3
_VNPU_PROFILES = tuple(
    Profile(f"{chip.name} {name}", chip.memory_resource, memory)
    for chip in (_P3, _B3)
    for name, memory in (*((each.name, each.memory) for each in chip.templates), ("whole", chip.memory_allocatable))
)
VNPU = Cluster(
    "vnpu",
    (
        Hardware(8, 8, _P3.word, _P3.memory_allocatable, "vnpu", 7, _P3.ai_cores, _P3.resource),
        Hardware(8, 8, _B3.word, _B3.memory_allocatable, "vnpu", 7, _B3.ai_cores, _B3.resource),
    ),
    _VNPU_PROFILES,
    tuple(
        sum(pair)
        for pair in zip(_openb(_VNPU_PROFILES, (0, 1, 2, 3)), _openb(_VNPU_PROFILES, (4, 4, 5, 6)), strict=True)
    ),
    BUILT_IN.having(VnpuConf(chips=(_P3, _B3))),
)
CLUSTERS = {each.name: each for each in (MIG, VNPU)}
