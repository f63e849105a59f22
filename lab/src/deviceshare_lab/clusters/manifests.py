"""The objects of a simulated cluster: nodes of all device families, pods of every kind for them, configuration."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from deviceshare_cluster.interface import Object

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
CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: deviceshare
    arguments:
      deviceshare.GPUSharingEnable: true
      deviceshare.GPUNumberEnable: true
      deviceshare.VGPUEnable: true
      deviceshare.AscendHAMiVNPUEnable: true
      deviceshare.AscendMindClusterVNPUEnable: true
      deviceshare.SchedulePolicy: binpack
      deviceshare.ScheduleWeight: 10
      deviceshare.KnownGeometriesCMNamespace: kube-system
      deviceshare.KnownGeometriesCMName: device-config
"""


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


def node(name: str, family: str, number: int) -> Object:
    """Return a node with the cards of a family; ``number`` makes the ids of its cards unique."""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    match family:
        case "hami-core":
            annotations, devices = _vgpu_cards(number, "NVIDIA A100-SXM4-80GB", 81920, 10, family)
        case "mig":
            annotations, devices = _vgpu_cards(number, "NVIDIA A100-SXM4-40GB", 40960, 7, family)
        case "mps":
            annotations, devices = _vgpu_cards(number, "NVIDIA L40S", 46068, 10, family)
        case "gpu-share":
            devices = {"volcano.sh/gpu-number": str(CARDS), "volcano.sh/gpu-memory": str(24576 * CARDS)}
        case "gpu-number":
            devices = {"volcano.sh/gpu-number": str(CARDS)}
        case "hami-vnpu":
            registered = [
                {"id": f"{number:08X}-{index:08X}", "index": index, "count": 4, "devmem": 65536, "devcore": 20}
                | {"type": "Ascend910B3", "health": True, "custominfo": {"NetworkID": index // 4}}
                for index in range(CARDS)
            ]
            annotations = {"hami.io/node-register-Ascend910B3": json.dumps(registered, separators=(",", ":"))}
            devices = {"huawei.com/Ascend910B3": str(4 * CARDS)}
        case _:
            labels = {
                "accelerator": "huawei-Ascend310P",
                "servertype": "Ascend310P-8",
                "node.kubernetes.io/npu.chip.name": "310P3",
            }
            info = {f"Ascend310P-{index}": {"IP": "", "SuperDeviceID": 0} for index in range(CARDS)}
            annotations = {"baseDeviceInfos": json.dumps(info)}
            devices = {"huawei.com/npu-core": str(8 * CARDS)}
    resources = {"cpu": "64", "memory": "512Gi", "pods": "110", **devices}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {},
        "status": {
            "allocatable": resources,
            "capacity": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _vgpu_cards(number: int, model: str, memory: int, slots: int, mode: str) -> tuple[dict[str, str], dict[str, str]]:
    cards = [f"GPU-{number:04d}-{index},{slots},{memory},{model},true,{mode}:" for index in range(CARDS)]
    devices = {"number": slots * CARDS, "memory": memory * CARDS, "cores": 100 * CARDS}
    offered = {f"volcano.sh/vgpu-{resource}": str(amount) for resource, amount in devices.items()}
    return {"volcano.sh/node-vgpu-register": "".join(cards)}, offered


def pod(name: str, kind: PodKind, *, group: str = "", queue: str = "", seconds: float = 0.0) -> Object:
    """Return a pod; with ``seconds`` it succeeds after it has run for so long."""
    annotations = dict(kind.annotations)
    if group:
        annotations["scheduling.k8s.io/group-name"] = group
    if queue:
        annotations["scheduling.volcano.sh/queue-name"] = queue
    if seconds:
        annotations["simulation/seconds"] = f"{seconds:g}"
    requests = {key: value for key, value in kind.limits.items() if key == "huawei.com/npu-core"}
    resources = {"limits": dict(kind.limits), **({"requests": requests} if requests else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "annotations": annotations,
            "labels": dict(kind.labels),
        },
        "spec": {
            "schedulerName": SCHEDULER,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "busybox", "resources": resources}],
        },
    }


def pod_group(name: str, minimum: int, queue: str) -> Object:
    """Return a PodGroup."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"minMember": minimum, "queue": queue},
        "status": {"phase": "Pending"},
    }


def queue(name: str, capability: Mapping[str, str] | None = None) -> Object:
    """Return a Queue, with a limit for each resource of ``capability``."""
    spec = {"weight": 1, "reclaimable": True, **({"capability": dict(capability)} if capability else {})}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"state": "Open"},
    }


def configuration(nodes: Sequence[Object]) -> list[Object]:
    """Return the ConfigMaps of the scheduler, of devices, and of ClusterD about the chips of these nodes."""
    chips = ",".join(f"Ascend310P-{index}" for index in range(CARDS))
    devices = {"huawei.com/Ascend310P": chips, "huawei.com/Ascend310P-Unhealthy": ""}
    infos = {
        f"mindx-dl-deviceinfo-{each['metadata']['name']}": {"DeviceList": devices, "UpdateTime": 1770105600}
        for each in nodes
        if "huawei.com/npu-core" in each["status"]["capacity"]
    }
    info = "cluster-info-device-0"
    return [
        _config_map("volcano-scheduler-configmap", "volcano-system", {"volcano-scheduler.conf": CONFIGURATION}),
        _config_map("device-config", "kube-system", {"device-config.yaml": DEVICE_CONFIG}),
        _config_map(info, "mindx-dl", {info: json.dumps(infos)}, {"mx-consumer-volcano": "true"}),
    ]


def _config_map(name: str, namespace: str, data: Mapping[str, str], labels: Mapping[str, str] | None = None) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": dict(labels or {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}
