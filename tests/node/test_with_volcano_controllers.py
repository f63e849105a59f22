"""Volcano's controllers make pods of Jobs, which run on vGPUs: a Job of Volcano's guides, on a real kubelet."""

from collections.abc import Iterator

import pytest
import yaml
from support import node_plugins
from support.node import ROOT, Object, RealNode
from support.node_plugins import PLUGINS, Plugins
from support.node_scenes import T4, Scene, example, has_software_vgpus

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def controllers(plugins: Plugins) -> Iterator[RealNode]:
    """Give the cluster with Volcano's controllers, which may do everything, and Volcano's definitions."""
    cluster = plugins.cluster
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
    yield cluster
    cluster.end("volcano-controllers")


def test_job_of_volcanos_guide(plugins: Plugins, controllers: RealNode) -> None:
    plugins.run_vgpu("hami-core", T4)
    controllers.apply(yaml.safe_load((ROOT / "examples" / "queues" / "training.yaml").read_text()))
    scene = Scene(plugins, "jobs")
    job = example("vgpu-training")
    scene.apply(job)

    def running() -> list[Object]:
        return [pod for pod in scene.pods() if pod["status"].get("phase") == "Running"]

    controllers.wait("the pod of the Job runs", running, 120)
    (pod,) = scene.pods()
    assert [owner["kind"] for owner in pod["metadata"]["ownerReferences"]] == ["Job"]
    scene.check(has_software_vgpus, 1)
    # A pod that goes is made again by the controller, and gets a vGPU again.
    controllers.kubectl("delete", "pod", pod["metadata"]["name"], "--namespace", scene.namespace, "--now")
    uid = pod["metadata"]["uid"]
    controllers.wait("another pod runs", lambda: [one for one in running() if one["metadata"]["uid"] != uid], 120)
    scene.check(has_software_vgpus, 1)
    controllers.kubectl("delete", "jobs.batch.volcano.sh", "--all", "--namespace", scene.namespace)
    controllers.wait("the pods of the Job are gone", lambda: not scene.pods(), 120)
