"""Volcano's controllers make pods of Jobs, which run on shared GPUs: Jobs of Volcano's guides, on a real kubelet."""

from collections.abc import Iterator

import pytest
import yaml
from support import node_plugins
from support.node import ROOT, Object, RealNode
from support.node_plugins import PLUGINS, Plugins
from support.node_scenes import GTX, T4, Scene, example, has_gpus_of, has_software_vgpus

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def controllers(installed_plugins: Plugins) -> Iterator[RealNode]:
    """Give the cluster with Volcano's controllers, which may do everything, Volcano's definitions and a queue."""
    cluster = installed_plugins.cluster
    definitions = [str(path) for path in sorted((PLUGINS / "volcano-crds").glob("*.yaml"))]
    files = [part for path in definitions for part in ("-f", path)]
    cluster.kubectl("apply", "--server-side", "--force-conflicts", *files)
    cluster.create_namespace("volcano-system")
    cluster.kubectl("create", "serviceaccount", "volcano-controllers", "--namespace", "volcano-system")
    role = ("--clusterrole=cluster-admin", "--serviceaccount=volcano-system:volcano-controllers")
    cluster.kubectl("create", "clusterrolebinding", "volcano-controllers", *role)
    kubeconfig = node_plugins.kubeconfig_of(cluster, "volcano-system", "volcano-controllers")
    arguments = (f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--logtostderr")
    cluster.run("volcano-controllers", *arguments, program=PLUGINS / "volcano-controllers")
    cluster.apply(yaml.safe_load((ROOT / "examples" / "queues" / "training.yaml").read_text()))
    yield cluster
    cluster.end("volcano-controllers")


def running(scene: Scene) -> list[Object]:
    return [pod for pod in scene.pods() if pod["status"].get("phase") == "Running"]


def run_job(plugins: Plugins, name: str, count: int) -> Scene:
    """Run a Job of examples/ and wait until its pods run."""
    scene = Scene(plugins, f"job-{name}")
    scene.apply(example(name))
    try:
        scene.cluster.wait(f"{count} pods of the Job run", lambda: len(running(scene)) == count, 120)
    except TimeoutError:
        raise AssertionError(scene.not_running()) from None
    assert {owner["kind"] for pod in scene.pods() for owner in pod["metadata"]["ownerReferences"]} == {"Job"}
    return scene


def end_job(scene: Scene) -> None:
    scene.cluster.kubectl("delete", "jobs.batch.volcano.sh", "--all", "--namespace", scene.namespace)
    scene.cluster.wait("the pods of the Job are gone", lambda: not scene.pods(), 120)


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


def test_a_gang_shares_gpus_by_memory(plugins: Plugins, controllers: RealNode) -> None:
    plugins.run_gpu("share", GTX)
    scene = run_job(plugins, "gpu-sharing-job", 2)
    scene.check(has_gpus_of("volcano.sh/gpu-memory"), 2)
    end_job(scene)
