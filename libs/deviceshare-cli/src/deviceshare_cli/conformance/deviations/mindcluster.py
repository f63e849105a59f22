"""Ascend 310P, MindCluster's mode."""

from deviceshare.formats.mindcluster import CHIP_CORES, CHIP_NAME, CORES, DVPP, NULL, SERVER_TYPE
from deviceshare.formats.numbers import whole
from msgspec.structs import replace

from deviceshare_cli.conformance.deviations.base import Deviation
from deviceshare_cli.conformance.scene import Scene, answer, stand

_WITHOUT_DVPP = ("1", "2")
_COUNTS = (1, 2, 4)


def _dvpp_ignored(scene: Scene) -> Scene:
    pod = scene.asked
    if pod is None or pod.labels.get(DVPP, NULL) == NULL or _cores(scene) not in _WITHOUT_DVPP:
        return scene
    return replace(scene, asked=replace(pod, labels=pod.labels | {DVPP: NULL}))


def _any_count(scene: Scene) -> Scene:
    pod, cores = scene.asked, whole(_cores(scene))
    if pod is None or not cores or cores in _COUNTS or cores % CHIP_CORES == 0:
        return scene
    chips = tuple(
        replace(each, limits=each.limits | {CORES: str(CHIP_CORES)}) if CORES in each.limits else each
        for each in pod.containers
    )
    return replace(scene, asked=replace(pod, containers=chips))


def _named_chips(scene: Scene) -> Scene:
    labels = scene.node.labels
    if CHIP_NAME in labels:
        return scene
    rest = {name: value for name, value in labels.items() if name != SERVER_TYPE}
    return replace(scene, node=replace(scene.node, labels=rest))


def _one_template(scene: Scene) -> Scene:
    templates = {_template(pod.annotations[CORES]) for pod in scene.standing.values() if CORES in pod.annotations}
    if scene.asked is None or scene.forgetful or not templates:
        return scene
    # Where there is room only for a part with fewer AI CPUs, Volcano looks at the template of that one.
    answers = (answer(each, stand(each)) for each in (scene, replace(scene, standing={})))
    wanted = _template(next((each.annotations.get(CORES, "") for each in answers if each.fits), ""))
    return scene if wanted and templates == {wanted} else replace(scene, closed=True)


def _template(given: str) -> str:
    """Return the template of ``0-vir02``, '' for whole chips."""
    return given.partition("-")[2]


def _cores(scene: Scene) -> str:
    """Return what the first container that asks AI cores asks."""
    containers = scene.asked.containers if scene.asked is not None else ()
    return next((each.limits[CORES] for each in containers if CORES in each.limits), "")


MIND_CLUSTER = (
    Deviation(
        "dvpp-by-the-table", "a vnpu-dvpp that the number of AI cores does not go with is refused", _dvpp_ignored
    ),
    Deviation(
        "cores-by-the-table",
        "a number of AI cores that no template has is refused",
        _any_count,
        "mind-core-not-in-table",
    ),
    Deviation(
        "several-templates",
        "a node has parts of several kinds and whole chips beside them",
        _one_template,
        "mind-one-template-per-node",
    ),
    Deviation("unnamed-chips", "a node need not say the name of its chips' type", _named_chips),
)
