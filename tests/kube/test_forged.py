"""Without an admission policy, users who create pods can forge annotations: the effect on the ledger.

Inventory and placement at work on a real API server.
"""

import json
from typing import Any

import pytest
from support import deploy, mixed
from support.apiserver import ApiServer
from support.kube_scene import Scene, node, pod

FORGED = {
    "hami-core": {"volcano.sh/vgpu-ids-new": "".join(f"GPU-0000-{at},NVIDIA,81920,100:" for at in range(8))},
    "mig": {"volcano.sh/vgpu-ids-new": "".join(f"GPU-0001-{at}[group4-0],NVIDIA,40960,100:" for at in range(8))},
    "gpu-share": {"volcano.sh/gpu-index": "0,1,2,3,4,5,6,7", "volcano.sh/predicate-time": "1"},
    "hami-vnpu": {
        "hami.io/Ascend910B3-devices-allocated": "".join(f"00000003-{at:08X},Ascend910B3,65536,0:" for at in range(8)),
        "huawei.com/Ascend910B3": json.dumps([{"UUID": f"00000003-{at:08X}", "temp": ""} for at in range(8)]),
    },
    "mindcluster": {"huawei.com/npu-core": "0,1,2,3,4,5,6,7", "predicate-time": "1"},
}
"""All cards of the mixed node that has the family's place."""
PART = {
    "hami-core": {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "1000"},
    "mig": {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "4000"},
    "gpu-share": {"volcano.sh/gpu-memory": "1000"},
    "hami-vnpu": {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "16000"},
    "mindcluster": {"huawei.com/npu-core": "8"},
}
"""What asks one card, or a part of it."""
ALL = {
    "hami-core": {"volcano.sh/vgpu-number": "8", "volcano.sh/vgpu-memory": "81920"},
    "mig": {"volcano.sh/vgpu-number": "8", "volcano.sh/vgpu-memory": "30000"},
    "gpu-share": {"volcano.sh/gpu-memory": "24576"},
    "hami-vnpu": {"huawei.com/Ascend910B3": "8", "huawei.com/Ascend910B3-memory": "65536"},
    "mindcluster": {"huawei.com/npu-core": "64"},
}
"""What asks all cards of the node, or all of one where a pod has one."""
NODES = {name: f"node-{number:04d}" for number, name in enumerate(FORGED)}
SYSTEM = "volcano-system"


@pytest.fixture(autouse=True)
def namespaces(apiserver: ApiServer) -> None:
    deploy.apply(apiserver, *deploy.namespaces(SYSTEM, "mindx-dl"))


async def create_mixed(scene: Scene) -> None:
    """Create a node of each family, and the configuration that they need."""
    for obj in (*mixed.config_maps(len(NODES)), *mixed.nodes(len(NODES))):
        await scene.cluster.create(obj)


def asking(name: str, family: str, limits: dict[str, str], node: str = "", **annotations: str) -> dict[str, Any]:
    """Return a pod that asks for devices of a family; bound by its maker where a node is named."""
    mode = {"volcano.sh/vgpu-mode": family} if family in ("hami-core", "mig") else {}
    made = mixed.pod(name, "default", limits, mode | annotations, "another" if node else "volcano")
    if family == "mindcluster":
        made["metadata"]["labels"] = mixed.TASK
        made["spec"]["containers"][0]["resources"]["requests"] = limits
    if node:
        made["spec"]["nodeName"] = node
    return made


@pytest.mark.parametrize("family", FORGED)
async def test_a_pod_bound_by_its_owner_holds_its_request_and_not_the_devices_that_it_names(
    scene: Scene, family: str
) -> None:
    await create_mixed(scene)
    node = NODES[family]
    await scene.cluster.create(asking("greedy", family, {"cpu": "1"}, node, **FORGED[family]))
    await scene.settled()
    assert await scene.held("greedy") == []
    await scene.cluster.create(asking("all", family, ALL[family]))
    await scene.until(lambda: scene.claimed(node), lambda claimed: "all" in claimed)
    await scene.cluster.create(asking("asks", family, PART[family], node, **FORGED[family]))
    await scene.settled()
    found = await scene.held("asks")
    # What names other AI cores than the pod requests can be read in no way.
    assert len(found) == (family != "mindcluster")
    whole = {"hami-core": 81920, "mig": 40960, "gpu-share": 24576, "hami-vnpu": 65536}
    assert all(memory < whole[family] for _, memory, _ in found)


async def test_forged_annotations_have_no_effect_beyond_what_the_pod_requests(scene: Scene) -> None:
    """This server has no policy, so users who create pods can write their annotations."""
    everything = {
        "volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,32000,100:GPU-1,NVIDIA,32000,100:",
        "volcano.sh/gpu-index": "0",
    }
    await scene.cluster.create(node())
    await scene.cluster.create(pod("waits", "other", **everything))  # before it is bound
    await scene.bound("greedy", asks={"cpu": "1"}, **everything)  # it asks no devices
    await scene.settled()
    assert (await scene.held("waits"), await scene.held("greedy")) == ([], [])
    await scene.cluster.create(pod("b"))
    await scene.until(scene.claimed, lambda claimed: "b" in claimed)
    await scene.bind("waits")  # by another scheduler, as it is
    await scene.settled()
    assert await scene.held("waits") == [("GPU-0", 3000, 0)]
    await scene.patch("Pod", "waits", {"metadata": {"annotations": {"volcano.sh/vgpu-ids-new": "GPU-9,NVIDIA,1,0:"}}})
    await scene.settled()
    assert await scene.held("waits") == [("GPU-0", 3000, 0)]
    reasons = [(one["reason"], one["involvedObject"]["name"]) for one in await scene.cluster.list("Event")]
    assert ("InvalidDeviceAnnotation", "greedy") in reasons
