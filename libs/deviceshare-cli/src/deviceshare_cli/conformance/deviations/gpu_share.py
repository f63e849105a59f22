"""gpu-share and gpu-number."""

from collections.abc import Sequence

from deviceshare.families import GpuNumber
from deviceshare.formats import gpu_share
from msgspec.structs import replace

from deviceshare_cli.conformance.cases import Container, Pod
from deviceshare_cli.conformance.deviations.base import Deviation
from deviceshare_cli.conformance.scene import Scene

ENDED = ("Succeeded", "Failed")


def _without_policy(scene: Scene) -> Scene:
    pod = scene.asked
    if pod is None or not any(gpu_share.MEMORY in each.limits for each in (*pod.containers, *pod.init_containers)):
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

    def read(pod: Pod) -> Pod:
        return replace(
            pod, containers=_without_number(pod.containers), init_containers=_without_number(pod.init_containers)
        )

    existing = {ref: read(pod) for ref, pod in scene.existing.items()}
    return replace(scene, existing=existing, asked=read(scene.asked) if scene.asked else None)


def _without_number(containers: Sequence[Container]) -> tuple[Container, ...]:
    return tuple(
        replace(each, limits={name: amount for name, amount in each.limits.items() if name != gpu_share.NUMBER})
        if gpu_share.MEMORY in each.limits
        else each
        for each in containers
    )


def _with_memory(scene: Scene) -> Scene:
    node = scene.node
    if gpu_share.MEMORY in node.capacity:
        return scene
    capacity = {name: amount for name, amount in node.capacity.items() if name != gpu_share.NUMBER}
    return replace(scene, node=replace(node, capacity=capacity))


GPU_SHARE = (
    Deviation("gpu-share-policy", "the policy chooses the card for gpu-memory", _without_policy),
    Deviation("ended-pods", "a pod that has ended holds no card", _ended_counted, "terminated-pod-in-podmap"),
    Deviation("one-gpu-resource", "a pod asks gpu-memory or gpu-number, not both", _memory_alone),
    Deviation("number-only-nodes", "a node that offers gpu-number alone has cards", _with_memory),
)
