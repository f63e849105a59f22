"""Generated workloads for each family; equal sizes give equal workloads."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from deviceshare.conf import BUILT_IN, default_conf
from deviceshare.families.hami_vnpu.section import VnpuConf
from deviceshare.families.vgpu.section import MigGroup, MigInstance, MigModel, VgpuConf
from deviceshare.model import NodeFact, PodFact, Tenant
from msgspec.structs import replace

from deviceshare_lab.bench.allocator.constraints import INTER_POD_SCORES, NO_CONSTRAINTS, constrained, node_labels
from deviceshare_lab.bench.allocator.forms import CardKind, Form, GpuShare, HamiVnpu, Vgpu
from deviceshare_lab.bench.allocator.workload import Workload, distinct, node_fact, pod_fact
from deviceshare_lab.clusters.facts import ASCEND_910B3

WEIGHT = 10
FAMILIES = ("hami-core", "mig", "vnpu-hami", "gpu-share", "mixed")

A100 = MigModel(
    ("A100-SXM4-40GB",),
    (
        MigGroup("group1", (MigInstance("1g.5gb", 5120, 7),)),
        MigGroup("group2", (MigInstance("2g.10gb", 10240, 3), MigInstance("1g.5gb", 5120, 1))),
        MigGroup("group3", (MigInstance("3g.20gb", 20480, 2),)),
        MigGroup("group4", (MigInstance("7g.40gb", 40960, 1),)),
    ),
)
DEVICES = BUILT_IN.having(VgpuConf(geometries=(A100,)), VnpuConf(chips=(ASCEND_910B3,)))


class Pool(NamedTuple):
    """One family's part of a workload."""

    form: Form
    kind: CardKind
    held: tuple[str, ...]
    """Values of the device annotation of existing pods; ``{}`` stands for the card."""
    requests: tuple[tuple[str, int, int], ...]
    """Resources of a pod: name, minimum and maximum over all pod classes."""
    whole: Mapping[str, str]
    """Resources of a gang's pod: a whole card."""


POOLS = {
    "hami-core": Pool(
        Vgpu("hami-core"),
        CardKind("NVIDIA-NVIDIA A100-SXM4-80GB", 81920, 10, 100),
        ("{},NVIDIA,8192,10:", "{},NVIDIA,16384,30:", "{},NVIDIA,40960,50:"),
        (("volcano.sh/vgpu-memory", 1024, 20480), ("volcano.sh/vgpu-cores", 0, 30)),
        {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-cores": "100"},
    ),
    "mig": Pool(
        Vgpu("mig"),
        CardKind("NVIDIA-NVIDIA A100-SXM4-40GB", 40960, 7, 100),
        ("{}[group1-0],NVIDIA,4000,0:", "{}[group2-0],NVIDIA,8000,0:", "{}[group3-1],NVIDIA,16000,0:"),
        (("volcano.sh/vgpu-memory", 1000, 12000),),
        {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "40960"},
    ),
    "vnpu-hami": Pool(
        HamiVnpu(ASCEND_910B3),
        CardKind("Ascend910B3", 65536, 4, 20),
        ("{},Ascend910B3,16384,0:;", "{},Ascend910B3,32768,0:;"),
        (("huawei.com/Ascend910B3-memory", 1000, 32000),),
        {"huawei.com/Ascend910B3": "1"},
    ),
    "gpu-share": Pool(
        GpuShare(),
        CardKind("", 32768, 1, 100),
        ("{}:4096", "{}:8192"),
        (("volcano.sh/gpu-memory", 1000, 12000),),
        {"volcano.sh/gpu-memory": "32768"},
    ),
}


class Size(NamedTuple):
    """The size of a generated workload."""

    family: str
    nodes: int
    devices: int
    pods: int
    pod_classes: int
    """Number of different requests."""
    policy: str
    prefill: float
    """Share of the cards that are partly allocated, 0 to 1."""
    mig_geometry: str
    gang: int = 0
    """Pods per gang, each of which requests a whole card; 0: single pods."""
    constraints: str = NO_CONSTRAINTS
    """The inter-pod constraints of each request: a name of :data:`~.constraints.CONSTRAINTS`."""


def generate(size: Size) -> Workload:
    """Return a generated workload."""
    pools = list(POOLS.values()) if size.family == "mixed" else [POOLS[size.family]]

    def limits(number: int) -> Mapping[str, str]:
        if size.gang:
            return pools[number // size.gang % len(pools)].whole
        return _limits(pools, number % size.pod_classes, size.pod_classes)

    requests, pods = distinct(
        (f"pod-{number:06d}", pod_fact("pod", limits(number), annotations={}).ask) for number in range(size.pods)
    )
    conf = replace(default_conf(), policy=size.policy, weight=WEIGHT, mig_geometry=size.mig_geometry, devices=DEVICES)
    tenants: Sequence[Tenant] = ()
    if size.constraints != NO_CONSTRAINTS:
        requests, tenants = constrained(requests, size.constraints)
        conf = replace(conf, nodeorder=INTER_POD_SCORES)
    return Workload(size.family, conf, _nodes(pools, size), requests, pods, tenants)


def _nodes(pools: Sequence[Pool], size: Size) -> Iterator[tuple[NodeFact, list[PodFact]]]:
    nodes, devices, prefill = size.nodes, size.devices, size.prefill
    chance = random.Random(nodes)  # noqa: S311 - repeatable, not secret
    for number in range(nodes):
        pool = pools[number % len(pools)]
        name = f"node-{number:05d}"
        ids = [
            str(index) if isinstance(pool.form, GpuShare) else f"GPU-{number:05d}-{index:02d}"
            for index in range(devices)
        ]
        held = []
        for each in ids:
            if chance.random() < prefill:
                annotations, limits = pool.form.existing(chance.choice(pool.held).format(each))
                held.append(pod_fact(f"old-{each}", limits, node=name, annotations=annotations))
        labels = {} if size.constraints == NO_CONSTRAINTS else node_labels(number)
        yield node_fact(name, pool.form.node(pool.kind, ids), labels), held


def _limits(pools: Sequence[Pool], number: int, pod_classes: int) -> dict[str, str]:
    """Return the limits of one pod class, with amounts spread evenly over all pod classes."""
    pool = pools[number % len(pools)]
    limits = {}
    for name, least, greatest in pool.requests:
        amount = least + (greatest - least) * number // max(1, pod_classes)
        if amount:
            limits[name] = str(amount)
    return limits
