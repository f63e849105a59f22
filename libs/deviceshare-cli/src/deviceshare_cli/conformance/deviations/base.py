"""The type of a deviation."""

from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace

from deviceshare_cli.conformance.cases import Pod
from deviceshare_cli.conformance.scene import Scene


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


def with_annotation(pod: Pod, key: str, value: str) -> Pod:
    """Return the pod with an annotation, or without the annotation if ``value`` is ''."""
    annotations = {name: text for name, text in pod.annotations.items() if name != key}
    return replace(pod, annotations=annotations | {key: value} if value else annotations)
