"""What a deviation is."""

from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace

from deviceshare_cli.conformance.cases import Pod
from deviceshare_cli.conformance.scene import Scene


class Deviation(msgspec.Struct, frozen=True):
    """One rule of ours: its name, the rule, and the scene in which we would answer as Volcano does in a given one.

    ``as_volcano`` returns an equal scene where the rule makes no difference. ``code`` is that of the known defect of
    Volcano that the rule avoids, '' where Volcano means it.
    """

    name: str
    rule: str
    as_volcano: Callable[[Scene], Scene]
    code: str = ""


def as_volcano(scene: Scene, deviations: Iterable[Deviation]) -> Scene:
    """Return the scene in which we would answer as Volcano does, as far as these rules go."""
    for deviation in deviations:
        scene = deviation.as_volcano(scene)
    return scene


def with_annotation(pod: Pod, key: str, value: str) -> Pod:
    """Return the pod with an annotation, without it for ''."""
    annotations = {name: text for name, text in pod.annotations.items() if name != key}
    return replace(pod, annotations=annotations | {key: value} if value else annotations)
