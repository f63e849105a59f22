"""kubelet, the device plugin and the node restart under running pods: no container has what its pod does not hold."""

import pytest
from support import node, node_plugins
from support.node import Object
from support.node_plugins import Plugins
from support.node_scenes import T4, Scene, has_software_vgpus, limits, mixed

pytestmark = pytest.mark.timeout(900)
SOME = 6


@pytest.fixture
def scene(plugins: Plugins, request: pytest.FixtureRequest) -> Scene:
    """Give a namespace with pods that run on vGPUs."""
    plugins.run_vgpu("hami-core", T4)
    made = Scene(plugins, request.node.name.removeprefix("test_").replace("_", "-"))
    made.start(*vgpu_pods("before"))
    return made


def vgpu_pods(prefix: str) -> list[Object]:
    requests = limits(vgpu_number=1, vgpu_memory=1000), limits(vgpu_number=2, vgpu_memory=800, vgpu_cores=5)
    return mixed(SOME, *requests, prefix=prefix)


def start_more(scene: Scene) -> None:
    """Start pods with vGPUs, and one that kube-scheduler places."""
    plain = node.pod("plain", scene.namespace)
    scene.start(plain, *vgpu_pods("after"))
    scene.cluster.kubectl("delete", "pod", "plain", "--namespace", scene.namespace, "--now")


def containers(scene: Scene) -> set[str]:
    return {one["containerID"] for pod in scene.pods() for one in pod["status"]["containerStatuses"]}


def test_restart_of_kubelet(scene: Scene) -> None:
    before = containers(scene)
    scene.cluster.end("kubelet")
    scene.check(has_software_vgpus, SOME)
    scene.cluster.run_kubelet()
    scene.plugins.wait_for_vgpus(T4)
    start_more(scene)
    scene.check(has_software_vgpus, 2 * SOME)
    assert before < containers(scene)


def test_restart_of_the_device_plugin(scene: Scene) -> None:
    before = containers(scene)
    scene.cluster.end("vgpu-plugin")
    scene.cluster.wait("kubelet offers no vGPUs", lambda: not scene.plugins.offered("volcano.sh/vgpu-number"), 60)
    scene.plugins.start_vgpu()
    scene.plugins.wait_for_vgpus(T4)
    start_more(scene)
    scene.check(has_software_vgpus, 2 * SOME)
    assert before < containers(scene)


def test_reboot_of_the_node(scene: Scene) -> None:
    # The services and their bus are on the node as well.
    scene.cluster.end("vgpu-plugin")
    scene.cluster.reboot()
    scene.plugins.start_vgpu()
    scene.plugins.wait_for_vgpus(T4)
    # kubelet rejects pods whose devices it does not know yet; those that it starts again have their own.
    scene.cluster.wait("all pods run again or have failed", lambda: run_again(scene), 180)
    rejected = scene.delete_failed()
    assert rejected < SOME
    scene.check(has_software_vgpus, SOME - rejected)
    start_more(scene)
    scene.check(has_software_vgpus, 2 * SOME - rejected)


def run_again(scene: Scene) -> bool:
    """Return whether all containers have processes; after the reboot those are new ones."""
    pods = [pod for pod in scene.pods() if pod["status"]["phase"] != "Failed"]
    return len(node_plugins.inside(pods)) == sum(len(pod["spec"]["containers"]) for pod in pods)
