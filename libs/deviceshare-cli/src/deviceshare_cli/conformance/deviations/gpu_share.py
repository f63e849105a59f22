"""gpu-share and gpu-number."""

from deviceshare.formats import gpu_share
from msgspec.structs import replace

from deviceshare_cli.conformance.deviations.base import Deviation
from deviceshare_cli.conformance.scene import Scene

ENDED = ("Succeeded", "Failed")


def _without_policy(scene: Scene) -> Scene:
    pod = scene.asked
    if pod is None or not any(gpu_share.MEMORY in each.limits for each in (*pod.containers, *pod.init_containers)):
        return scene
    return replace(scene, conf=replace(scene.conf, policy=""))


def _ended_counted(scene: Scene) -> Scene:
    standing = {
        ref: replace(pod, phase="Running") if pod.phase in ENDED else pod for ref, pod in scene.standing.items()
    }
    return replace(scene, standing=standing)


GPU_SHARE = (
    Deviation("gpu-share-policy", "the policy chooses the card for gpu-memory", _without_policy),
    Deviation("ended-pods", "a pod that has ended holds no card", _ended_counted, "terminated-pod-in-podmap"),
)
