"""The type of a deviation."""

from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from deviceshare_lab.conformance.cases import Pod
from deviceshare_lab.conformance.scene import Scene


class Deviation(msgspec.Struct, frozen=True):
    """One rule that differs from Volcano's.

    ``as_volcano`` returns the scene for which we answer as Volcano does for a given scene, an equal scene if the rule
    makes no difference. ``code``: the known defect of Volcano that the rule avoids, '' if Volcano's rule is no defect.
    """

    name: str
    rule: str
    as_volcano: Callable[[Scene], Scene]
    code: str = ""


def as_volcano(scene: Scene, deviations: Iterable[Deviation]) -> Scene:
    """Return the scene for which we answer as Volcano does, with respect to these deviations."""
    for deviation in deviations:
        scene = deviation.as_volcano(scene)
    return scene


def of_pod(read: Callable[[Scene, Pod], Pod]) -> Callable[[Scene], Scene]:
    """Return the function of a scene that replaces the pod to place, if there is one, by what Volcano reads."""
    return lambda scene: scene if scene.pod is None else replace(scene, pod=read(scene, scene.pod))


def without(values: Mapping[str, str], *names: str) -> dict[str, str]:
    """Return annotations, labels or amounts without some of them."""
    return {name: value for name, value in values.items() if name not in names}


def without_annotations(pod: Pod, *keys: str) -> Pod:
    """Return the pod without annotations."""
    return replace(pod, annotations=without(pod.annotations, *keys))


def with_limits(pod: Pod, read: Callable[[dict[str, str]], dict[str, str]]) -> Pod:
    """Return the pod with other limits of its containers; init containers are unchanged."""
    return replace(pod, containers=tuple(replace(each, limits=read(each.limits)) for each in pod.containers))
