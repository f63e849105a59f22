"""Clusters of all device families: their nodes, pods of every kind for them, configuration."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from deviceshare_cluster.interface import Object

from deviceshare_lab.clusters import objects
from deviceshare_lab.clusters.cards import ascend, cluster_info, gpus, mindcluster, vgpu
from deviceshare_lab.clusters.objects import TOLERANT, config_map

SCHEDULER = "deviceshare"
NAMESPACE = "default"
FORGED = "simulation/forged"
"""Label of pods with forged annotations: they hold nothing."""
CARDS = 2
"""Cards of a node."""
DEVICE_CONFIG = """
nvidia:
  deviceSplitCount: 10
  gpuMemoryFactor: 1
  knownMigGeometries:
  - models: ["A100-SXM4-40GB"]
    allowedGeometries:
    - group: group1
      geometries:
      - {name: 1g.5gb, memory: 5120, count: 7}
    - group: group2
      geometries:
      - {name: 2g.10gb, memory: 10240, count: 3}
      - {name: 1g.5gb, memory: 5120, count: 1}
    - group: group3
      geometries:
      - {name: 3g.20gb, memory: 20480, count: 2}
vnpus:
  hamiVnpuCore: false
  configs:
  - chipName: 910B3
    commonWord: Ascend910B3
    resourceName: huawei.com/Ascend910B3
    resourceMemoryName: huawei.com/Ascend910B3-memory
    memoryAllocatable: 65536
    memoryCapacity: 65536
    aiCore: 20
    aiCPU: 7
    templates:
    - {name: vir05_1c_16g, memory: 16384, aiCore: 5, aiCPU: 1}
    - {name: vir10_3c_32g, memory: 32768, aiCore: 10, aiCPU: 3}
"""
PLUGINS = ("priority", "gang", "predicates")
ARGUMENTS: dict[str, str | int] = {
    "GPUSharingEnable": "true",
    "GPUNumberEnable": "true",
    "VGPUEnable": "true",
    "AscendHAMiVNPUEnable": "true",
    "AscendMindClusterVNPUEnable": "true",
    "SchedulePolicy": "binpack",
    "ScheduleWeight": 10,
    "KnownGeometriesCMNamespace": "kube-system",
    "KnownGeometriesCMName": "device-config",
}


class PodKind(NamedTuple):
    """What a kind of pods requests: limits, annotations, labels."""

    limits: Mapping[str, str]
    annotations: Mapping[str, str] = {}
    labels: Mapping[str, str] = {}


def _vgpu(number: int, memory: int, cores: int, mode: str) -> PodKind:
    requested = {"number": number, "memory": memory, "cores": cores}
    limits = {f"volcano.sh/vgpu-{name}": str(amount) for name, amount in requested.items()}
    return PodKind(limits, {"volcano.sh/vgpu-mode": mode})


def _cores(amount: int) -> PodKind:
    labels = {"ring-controller.atlas": "ascend-310P", "vnpu-dvpp": "null", "vnpu-level": "low"}
    return PodKind({"huawei.com/npu-core": str(amount)}, {}, labels)


def _ascend(memory: int) -> PodKind:
    return PodKind({"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": str(memory)})


FAMILIES: dict[str, tuple[PodKind, ...]] = {
    "hami-core": (
        _vgpu(1, 8192, 10, "hami-core"),
        _vgpu(2, 10240, 15, "hami-core"),
        _vgpu(1, 30000, 50, "hami-core"),
    ),
    "mig": (_vgpu(1, 4500, 0, "mig"), _vgpu(1, 9000, 0, "mig"), _vgpu(1, 20000, 0, "mig")),
    "mps": (_vgpu(1, 6000, 20, "mps"), _vgpu(2, 3000, 5, "mps")),
    "gpu-share": (PodKind({"volcano.sh/gpu-memory": "3000"}), PodKind({"volcano.sh/gpu-memory": "5000"})),
    "gpu-number": (PodKind({"volcano.sh/gpu-number": "1"}),),
    "hami-vnpu": (_ascend(16000), _ascend(30000)),
    "mindcluster": (_cores(1), _cores(2), _cores(4)),
}
"""The kinds of pods of each family, which is the key of a kind of node, too."""


def node(name: str, family: str, number: int, cards: int = CARDS) -> Object:
    """Return a node with the cards of a family; ``number`` makes the ids of its cards unique."""
    ids = [f"GPU-{number:04d}-{index}" for index in range(cards)]
    match family:
        case "hami-core":
            published = vgpu(ids, "NVIDIA-NVIDIA A100-SXM4-80GB", 81920, 10, family)
        case "mig":
            published = vgpu(ids, "NVIDIA-NVIDIA A100-SXM4-40GB", 40960, 7, family)
        case "mps":
            published = vgpu(ids, "NVIDIA-NVIDIA L40S", 46068, 10, family)
        case "gpu-share":
            published = gpus(cards, 24576)
        case "gpu-number":
            published = gpus(cards)
        case "hami-vnpu":
            chips = [f"{number:08X}-{index:08X}" for index in range(cards)]
            published = ascend(chips, "Ascend910B3", "huawei.com/Ascend910B3", 65536, slots=4, cores=20)
        case _:
            published = mindcluster(cards)
    return objects.node(name, published.resources, published.annotations, published.labels)


def pod(name: str, kind: PodKind, *, group: str = "", queue: str = "", seconds: float = 0.0) -> Object:
    """Return a pod; with ``seconds`` it succeeds after it has run for so long."""
    annotations = {**kind.annotations, **({"simulation/seconds": f"{seconds:g}"} if seconds else {})}
    return objects.pod(
        name, kind.limits, annotations=annotations, labels=kind.labels, group=group, queue=queue, **TOLERANT
    )


def configuration(
    nodes: Sequence[Object], cards: int = CARDS, actions: tuple[str, ...] = ("enqueue", "allocate", "backfill")
) -> list[Object]:
    """Return the ConfigMaps of the scheduler, of devices, and of ClusterD about the chips of these nodes."""
    conf = objects.conf(ARGUMENTS, plugins=PLUGINS, actions=actions)
    return [
        config_map("volcano-scheduler-configmap", "volcano-system", {"volcano-scheduler.conf": conf}),
        config_map("device-config", "kube-system", {"device-config.yaml": DEVICE_CONFIG}),
        chips_of(nodes, cards),
    ]


def broken(config: Object) -> Object:
    """Return a ConfigMap with texts that cannot be used."""
    return config | {"data": dict.fromkeys(config["data"], "{nothing: [that, parses")}


def chips_of(nodes: Sequence[Object], cards: int) -> Object:
    """Return the ConfigMap of MindCluster's ClusterD about the chips of these nodes."""
    names = [each["metadata"]["name"] for each in nodes if "huawei.com/npu-core" in each["status"]["capacity"]]
    labels = {"mx-consumer-volcano": "true"}
    return config_map("cluster-info-device-0", "mindx-dl", cluster_info(names, cards), labels)
