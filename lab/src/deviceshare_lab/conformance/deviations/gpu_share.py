"""Deviations of gpu-share and gpu-number."""

from deviceshare.families import GpuNumber
from deviceshare.families.volcano_gpu import wire
from msgspec.structs import replace

from deviceshare_lab.conformance.cases import Container, Pod
from deviceshare_lab.conformance.deviations.base import Deviation, without
from deviceshare_lab.conformance.scene import Scene

ENDED = ("Succeeded", "Failed")


def _without_policy(scene: Scene) -> Scene:
    pod = scene.pod
    if pod is None or not any(wire.MEMORY in each.limits for each in (*pod.containers, *pod.init_containers)):
        return scene
    return replace(scene, conf=replace(scene.conf, policy=""))


def _ended_counted(scene: Scene) -> Scene:
    existing = {
        ref: replace(pod, phase="Running") if pod.phase in ENDED else pod for ref, pod in scene.existing.items()
    }
    return replace(scene, existing=existing)


def _memory_alone(scene: Scene) -> Scene:
    if GpuNumber.flag in scene.conf.families:
        return scene

    def read(container: Container) -> Container:
        limits = container.limits
        return replace(container, limits=without(limits, wire.NUMBER)) if wire.MEMORY in limits else container

    def read_pod(pod: Pod) -> Pod:
        containers, init_containers = (tuple(map(read, each)) for each in (pod.containers, pod.init_containers))
        return replace(pod, containers=containers, init_containers=init_containers)

    existing = {ref: read_pod(pod) for ref, pod in scene.existing.items()}
    return replace(scene, existing=existing, pod=read_pod(scene.pod) if scene.pod else None)


def _with_memory(scene: Scene) -> Scene:
    node = scene.node
    if wire.MEMORY in node.capacity:
        return scene
    return replace(scene, node=replace(node, capacity=without(node.capacity, wire.NUMBER)))


GPU_SHARE = (
    Deviation("gpu-share-policy", "the policy chooses the card for gpu-memory", _without_policy),
    Deviation("ended-pods", "a pod that has ended holds no card", _ended_counted, "terminated-pod-in-podmap"),
    Deviation("one-gpu-resource", "a pod requests gpu-memory or gpu-number, not both", _memory_alone),
    Deviation("number-only-nodes", "a node that offers gpu-number alone has cards", _with_memory),
)
