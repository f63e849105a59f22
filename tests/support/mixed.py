"""A cluster of all device families at once, eight cards a node, and pods of every kind for it. Plain manifests."""

import json
from collections.abc import Iterator
from typing import Any

import yaml
from support.example_cluster import EXAMPLES

Object = dict[str, Any]

CARDS = 8
DEVICE_CONFIG = EXAMPLES / "configmaps" / "vgpu-and-vnpu-device-config.yaml"
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
      deviceshare.HAMiGPUEnable: true
      deviceshare.AscendMindClusterVNPUEnable: true
      deviceshare.SchedulePolicy: spread
      deviceshare.ScheduleWeight: 10
      deviceshare.KnownGeometriesCMNamespace: kube-system
      deviceshare.KnownGeometriesCMName: vgpu-and-vnpu-device-config
"""
GANG = 4
SCHEDULER = "deviceshare"


def nodes(count: int) -> list[Object]:
    """Return so many nodes, of one family after the other."""
    return [_NODES[number % len(_NODES)](number) for number in range(count)]


def modes(count: int) -> dict[str, str]:
    """Return how the vGPU nodes among so many share their cards, by name."""
    registers = {
        node["metadata"]["name"]: node["metadata"]["annotations"].get("volcano.sh/node-vgpu-register", "")
        for node in nodes(count)
    }
    return {name: register.rstrip(":").rpartition(",")[2] for name, register in registers.items() if register}


def config_maps(count: int) -> list[Object]:
    """Return the configurations of the scheduler and of devices, and what ClusterD says of so many nodes' chips."""
    chips = ",".join(f"Ascend310P-{index}" for index in range(CARDS))
    devices = {"huawei.com/Ascend310P": chips, "huawei.com/Ascend310P-Unhealthy": ""}
    device_infos = {
        f"mindx-dl-deviceinfo-{node['metadata']['name']}": {"DeviceList": devices, "UpdateTime": 1770105600}
        for node in nodes(count)
        if "huawei.com/npu-core" in node["status"]["capacity"]
    }
    name = "cluster-info-device-0"
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"},
            "data": {"volcano-scheduler.conf": CONFIGURATION},
        },
        yaml.safe_load(DEVICE_CONFIG.read_text()),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "mindx-dl", "labels": {"mx-consumer-volcano": "true"}},
            "data": {name: json.dumps(device_infos)},
        },
    ]


def workloads(first: int, count: int, namespace: str) -> Iterator[Object]:
    """Yield so many pods, numbered from ``first``, of one kind after the other; every third gang comes as a PodGroup.

    A PodGroup comes before its pods, all of which are of one kind.
    """
    number = first
    while number < first + count:
        kind = _KINDS[number // GANG * 5 % len(_KINDS)]
        if number // GANG % 3 == 0 and number % GANG == 0 and number + GANG <= first + count:
            group = f"gang-{number}"
            yield {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": group, "namespace": namespace},
                "spec": {"minMember": GANG, "queue": "default"},
            }
            for member in range(number, number + GANG):
                yield _pod(member, namespace, kind, group)
            number += GANG
        else:
            yield _pod(number, namespace, _KINDS[number % len(_KINDS)], None)
            number += 1


def pod(name: str, namespace: str, limits: dict[str, str], annotations: dict[str, str], scheduler: str) -> Object:
    """Return a pod of one container."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": {
            "schedulerName": scheduler,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "busybox", "resources": {"limits": limits}}],
        },
    }


def _node(number: int, labels: dict[str, str], annotations: dict[str, str], devices: dict[str, str]) -> Object:
    resources = {"cpu": "128", "memory": "1Ti", "pods": "110", **devices}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number:04d}", "labels": labels, "annotations": annotations},
        "status": {"allocatable": resources, "capacity": resources},
    }


def _vgpu_node(number: int, model: str, memory: int, slots: int, mode: str) -> Object:
    register = "".join(
        f"GPU-{number:04d}-{index},{slots},{memory},NVIDIA-{model},true,{mode}:" for index in range(CARDS)
    )
    devices = {"number": slots * CARDS, "memory": memory * CARDS, "cores": 100 * CARDS}
    offered = {f"volcano.sh/vgpu-{name}": str(amount) for name, amount in devices.items()}
    return _node(number, {}, {"volcano.sh/node-vgpu-register": register}, offered)


def _hami_core_node(number: int) -> Object:
    return _vgpu_node(number, "NVIDIA A100-SXM4-80GB", 81920, 10, "hami-core")


def _mps_node(number: int) -> Object:
    return _vgpu_node(number, "NVIDIA L40S", 46068, 10, "mps")


def _mig_node(number: int) -> Object:
    return _vgpu_node(number, "NVIDIA A100-SXM4-40GB", 40960, 7, "mig")


def _gpu_node(number: int) -> Object:
    cards = {"volcano.sh/gpu-number": str(CARDS)}
    if number // len(_NODES) % 3:  # a plugin whose strategy is number
        return _node(number, {}, {}, cards)
    return _node(number, {}, {}, {**cards, "volcano.sh/gpu-memory": str(24576 * CARDS)})


def _ascend_node(number: int) -> Object:
    registered = [
        {"id": f"{number:08X}-{index:08X}", "index": index, "count": 4, "devmem": 65536, "devcore": 20}
        | {"type": "Ascend910B3", "health": True, "custominfo": {"NetworkID": index // 4}}
        for index in range(CARDS)
    ]
    said = {"hami.io/node-register-Ascend910B3": json.dumps(registered, separators=(",", ":"))}
    return _node(number, {}, said, {"huawei.com/Ascend910B3": str(4 * CARDS)})


def _mindcluster_node(number: int) -> Object:
    labels = {
        "accelerator": "huawei-Ascend310P",
        "servertype": "Ascend310P-8",
        "node.kubernetes.io/npu.chip.name": "310P3",
    }
    info = {f"Ascend310P-{index}": {"IP": "", "SuperDeviceID": 0} for index in range(CARDS)}
    return _node(number, labels, {"baseDeviceInfos": json.dumps(info)}, {"huawei.com/npu-core": str(8 * CARDS)})


_NODES = (_hami_core_node, _mig_node, _gpu_node, _ascend_node, _mindcluster_node, _mps_node)

_MODE = "volcano.sh/vgpu-mode"
TASK = {"ring-controller.atlas": "ascend-310P", "vnpu-dvpp": "null", "vnpu-level": "low"}
"""Labels of pods that ask AI cores."""


def _vgpu(number: int, memory: int, cores: int) -> dict[str, str]:
    asked = {"number": number, "memory": memory, "cores": cores}
    return {f"volcano.sh/vgpu-{name}": str(amount) for name, amount in asked.items()}


_KINDS: tuple[tuple[dict[str, str], dict[str, str], dict[str, str]], ...] = (
    (_vgpu(1, 8192, 10), {_MODE: "hami-core"}, {}),
    (_vgpu(1, 4500, 0), {_MODE: "mig"}, {}),
    ({"volcano.sh/gpu-memory": "3000"}, {}, {}),
    ({"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "16000"}, {}, {}),
    ({"huawei.com/npu-core": "2"}, {}, TASK),
    (_vgpu(1, 6000, 20), {_MODE: "mps"}, {}),
    (_vgpu(2, 10240, 15), {_MODE: "hami-core"}, {}),
    (_vgpu(1, 9000, 0), {_MODE: "mig"}, {}),
    ({"volcano.sh/gpu-number": "1"}, {}, {}),
    ({"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "30000"}, {}, {}),
    ({"huawei.com/npu-core": "4"}, {}, TASK),
    (_vgpu(2, 3000, 5), {_MODE: "mps"}, {}),
    ({"volcano.sh/gpu-memory": "5000"}, {}, {}),
    ({"huawei.com/npu-core": "1"}, {}, TASK),
)
"""Limits, annotations, labels."""


def _pod(
    number: int, namespace: str, kind: tuple[dict[str, str], dict[str, str], dict[str, str]], group: str | None
) -> Object:
    limits, annotations, labels = kind
    in_gang = {"scheduling.k8s.io/group-name": group} if group else {}
    made = pod(f"pod-{number:05d}", namespace, limits, annotations | in_gang, SCHEDULER)
    made["metadata"]["labels"] = labels
    container = made["spec"]["containers"][0]
    if limits.get("huawei.com/npu-core"):
        container["resources"]["requests"] = {"huawei.com/npu-core": limits["huawei.com/npu-core"]}
    if number % 10 == 7:  # the slot of a container is its position
        made["spec"]["containers"].insert(0, {"name": "beside", "image": "busybox"})
    return made
