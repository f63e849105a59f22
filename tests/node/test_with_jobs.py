"""Volcano's controllers make pods of Jobs: Jobs of Volcano's guides, on a real kubelet.

The file runs before test_with_plugins.py: HAMi's and MindCluster's plugins must not both register the chips of a node.
"""

from collections.abc import Iterator

import pytest
import yaml
from support import node_plugins, node_scenes
from support.node import NAME, ROOT, RealNode
from support.node_plugins import Plugins
from support.node_scenes import MINDCLUSTER, T4, end_job, has_software_vgpus, run_job, running

pytestmark = pytest.mark.timeout(900)

GPUS, AI_CORES = "nvidia.com/gpu", "huawei.com/npu-core"
CHIPS = 16


def test_a_job_replaces_its_pod_on_a_vgpu(plugins: Plugins, controllers: RealNode) -> None:
    plugins.run_vgpu("hami-core", T4)
    scene = run_job(plugins, "vgpu-training", 1)
    scene.check(has_software_vgpus, 1)
    # A pod that goes is made again by the controller, and gets a vGPU again.
    (pod,) = scene.pods()
    controllers.kubectl("delete", "pod", pod["metadata"]["name"], "--namespace", scene.namespace, "--now")
    uid = pod["metadata"]["uid"]
    controllers.wait("another pod runs", lambda: [one for one in running(scene) if one["metadata"]["uid"] != uid], 120)
    scene.check(has_software_vgpus, 1)
    end_job(scene)


@pytest.fixture
def offered(plugins: Plugins) -> Iterator[None]:
    """Let the node offer whole GPUs and AI cores without their plugins: kubelet starts such pods without a device."""
    plugins.cluster.offer({GPUS: 8, AI_CORES: 8 * CHIPS})
    yield
    node_scenes.delete_pods(plugins.cluster)
    plugins.cluster.offer({GPUS: 0, AI_CORES: 0})


@pytest.mark.usefixtures("offered", "controllers")
@pytest.mark.parametrize(("name", "count"), [("multi-gpu-training", 1), ("distributed-gpu-training", 4)])
def test_a_gang_has_whole_gpus(plugins: Plugins, name: str, count: int) -> None:
    scene = run_job(plugins, name, count)
    if count > 1:
        # By Volcano's plugins env, svc and ssh, as the manifest says.
        seen = node_plugins.inside(scene.pods()).values()
        assert sorted(one.environment["VC_TASK_INDEX"] for one in seen) == ["0", "1", "2", "3"]
        assert all({"/etc/volcano", "/root/.ssh"} <= one.mounts.keys() for one in seen)
    end_job(scene)


@pytest.mark.usefixtures("offered")
def test_a_job_has_a_chip_of_mindcluster(plugins: Plugins, controllers: RealNode) -> None:
    """MindCluster's plugin is missing: what it reports of the node is that of the examples, and it serves no pod."""
    directory = ROOT / "examples"
    (reported,) = yaml.safe_load_all((directory / "nodes" / "npu-310p.yaml").read_text())
    own = reported["metadata"]
    labels = {name: value for name, value in own["labels"].items() if not name.startswith("kubernetes.io/")}
    controllers.kubectl("label", "node", NAME, "--overwrite", *(f"{name}={value}" for name, value in labels.items()))
    controllers.kubectl("annotate", "node", NAME, *(f"{name}={value}" for name, value in own["annotations"].items()))
    health = yaml.safe_load((directory / "configmaps" / "cluster-info-device-0.yaml").read_text())
    assert health["metadata"]["namespace"] == MINDCLUSTER
    health["data"] = {name: text.replace("-npu-310p", f"-{NAME}") for name, text in health["data"].items()}
    controllers.apply(health)
    # The namespace is the manifest's own.
    scene = run_job(plugins, "ascend-mindcluster-job", 1, "vnpu")
    (pod,) = scene.pods()
    given = pod["metadata"]["annotations"]
    assert given[AI_CORES] in {str(number) for number in range(CHIPS)}
    assert int(given["predicate-time"]) > 0
    (seen,) = node_plugins.inside([pod]).values()
    assert seen.environment["VC_TASK_INDEX"] == "0"
    end_job(scene)
