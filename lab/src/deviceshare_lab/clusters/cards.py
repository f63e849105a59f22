"""The cards of a node as device plugins publish them: annotations, and amounts of extended resources."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Published(NamedTuple):
    """What the device plugin of a node has written."""

    annotations: Mapping[str, str]
    resources: Mapping[str, str]
    labels: Mapping[str, str] = {}


def vgpu(ids: Sequence[str], model: str, memory: int, slots: int, mode: str, cores: int = 100) -> Published:
    """Return cards of Volcano's vGPU device plugin: MiB and the most pods of each."""
    register = "".join(f"{each},{slots},{memory},{model},true,{mode}:" for each in ids)
    amounts = {"number": slots, "memory": memory, "cores": cores}
    resources = {f"volcano.sh/vgpu-{name}": str(len(ids) * amount) for name, amount in amounts.items()}
    return Published({"volcano.sh/node-vgpu-register": register}, resources)


def gpus(count: int, memory: int = 0) -> Published:
    """Return cards of Volcano's plugin for GPU sharing, with MiB if it shares them."""
    shared = {"volcano.sh/gpu-memory": str(memory * count)} if memory else {}
    return Published({}, {"volcano.sh/gpu-number": str(count), **shared})


def ascend(
    ids: Sequence[str], word: str, resource: str, memory: int, slots: int, cores: int, per_network: int = 4
) -> Published:
    """Return chips of HAMi's Ascend device plugin, which calls their model ``word``."""
    registered = [
        {"id": each, "index": index, "count": slots, "devmem": memory, "devcore": cores, "type": word, "health": True}
        | {"custominfo": {"NetworkID": index // per_network}}
        for index, each in enumerate(ids)
    ]
    text = json.dumps(registered, separators=(",", ":"))
    return Published({f"hami.io/node-register-{word}": text}, {resource: str(slots * len(ids))})


def mindcluster(count: int) -> Published:
    """Return Ascend 310P chips of the MindCluster device plugin."""
    labels = {
        "accelerator": "huawei-Ascend310P",
        "servertype": "Ascend310P-8",
        "node.kubernetes.io/npu.chip.name": "310P3",
    }
    info = {f"Ascend310P-{index}": {"IP": "", "SuperDeviceID": 0} for index in range(count)}
    return Published({"baseDeviceInfos": json.dumps(info)}, {"huawei.com/npu-core": str(8 * count)}, labels)


def cluster_info(nodes: Sequence[str], count: int) -> dict[str, str]:
    """Return what MindCluster's ClusterD says in its ConfigMap of the chips of these nodes."""
    chips = ",".join(f"Ascend310P-{index}" for index in range(count))
    devices = {"huawei.com/Ascend310P": chips, "huawei.com/Ascend310P-Unhealthy": ""}
    infos = {f"mindx-dl-deviceinfo-{name}": {"DeviceList": devices, "UpdateTime": 1770105600} for name in nodes}
    return {"cluster-info-device-0": json.dumps(infos)}
