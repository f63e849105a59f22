"""Deviations of Ascend 310P, MindCluster mode."""

from collections.abc import Mapping

import msgspec
from deviceshare.families.mindcluster.request import cores_asked
from deviceshare.families.mindcluster.wire import CHIP_CORES, CHIP_NAME, CORES, DVPP, NULL, SERVER_TYPE
from deviceshare.families.numbers import whole
from msgspec.structs import replace

from deviceshare_lab.conformance.cases import Pod
from deviceshare_lab.conformance.deviations.base import Deviation, of_pod, without
from deviceshare_lab.conformance.scene import ReplayState, Scene, answer, pod_fact

_WITHOUT_DVPP = ("1", "2")
_COUNTS = (1, 2, 4)


@of_pod
def _dvpp_ignored(_: Scene, pod: Pod) -> Pod:
    if pod.labels.get(DVPP, NULL) == NULL or _cores(pod) not in _WITHOUT_DVPP:
        return pod
    return replace(pod, labels=pod.labels | {DVPP: NULL})


@of_pod
def _any_count(_: Scene, pod: Pod) -> Pod:
    cores = whole(_cores(pod))
    if cores is None or cores in _COUNTS or (cores and cores % CHIP_CORES == 0):
        return pod
    return _requesting(pod, CHIP_CORES)


def _first_container(scene: Scene) -> Scene:
    difference = sum(cores_asked(pod_fact(pod).ask) - (whole(_cores(pod)) or 0) for pod in scene.existing.values())
    node, pod = scene.node, scene.pod
    if difference:
        # Volcano charges the requests of all containers to the node's amount, regardless of their chips.
        left = (whole(node.allocatable.get(CORES, "")) or 0) - difference
        node = replace(node, allocatable=node.allocatable | {CORES: str(max(left, 0))})
    if pod is not None and (first := _cores(pod)):
        pod = replace(_requesting(pod, whole(first) or 0), init_containers=())
    return replace(scene, node=node, pod=pod)


def _requesting(pod: Pod, cores: int) -> Pod:
    """Return the pod with one container that requests AI cores."""
    requesting = [at for at, each in enumerate(pod.containers) if CORES in each.limits]
    containers = list(pod.containers)
    for at in requesting:
        rest = without(containers[at].limits, CORES)
        containers[at] = replace(containers[at], limits=rest | {CORES: str(cores)} if at == requesting[0] else rest)
    return replace(pod, containers=tuple(containers))


def _named_chips(scene: Scene) -> Scene:
    node = scene.node
    return (
        scene
        if CHIP_NAME in node.labels
        else replace(scene, node=replace(node, labels=without(node.labels, SERVER_TYPE)))
    )


def _one_template(scene: Scene) -> Scene:
    templates = {_template(pod.annotations[CORES]) for pod in scene.existing.values() if CORES in pod.annotations}
    if scene.pod is None or scene.forgetful or not templates:
        return scene
    # If only a part with fewer AI CPUs fits, Volcano checks the template of that part.
    answers = (answer(each, ReplayState(each)) for each in (scene, replace(scene, existing={})))
    wanted = _template(next((each.annotations.get(CORES, "") for each in answers if each.fits), ""))
    return scene if wanted and templates == {wanted} else replace(scene, closed=True)


def _cores_of_the_node(scene: Scene) -> Scene:
    state, pod = ReplayState(scene), scene.pod
    if pod is None or not scene.filtered or answer(scene, state).fits:
        return scene
    taken = sum(card.cores for card in state.allocator.used_cards(scene.node.name))
    left = max((whole(scene.node.allocatable.get(CORES, "")) or 0) - taken, 0)
    if whole(_cores(pod)) == 0:
        # 0 AI cores always fit: they are replaced by 1 AI core on a node where 1 is idle.
        pod, left = replace(_requesting(pod, 1), labels=pod.labels | {DVPP: NULL}), max(left, 1)
    node = replace(scene.node, allocatable=scene.node.allocatable | {CORES: str(left)})
    return replace(scene, node=node, existing={}, pod=pod, cluster_cm=_all_healthy(scene.cluster_cm))


class _Info(msgspec.Struct, rename="pascal"):
    """ClusterD's device lists of a node."""

    device_list: dict[str, str]


def _all_healthy(cluster_cm: Mapping[str, str]) -> dict[str, str]:
    """Return the ConfigMap of nodes whose chips are all healthy."""
    data = dict(cluster_cm)
    for key, text in cluster_cm.items():
        try:
            nodes = msgspec.json.decode(text, type=dict[str, _Info])
        except (msgspec.MsgspecError, RecursionError):
            continue
        for node in nodes.values():
            node.device_list |= dict.fromkeys((name for name in node.device_list if name.endswith("-Unhealthy")), "")
        data[key] = msgspec.json.encode(nodes).decode()
    return data


def _template(given: str) -> str:
    """Return the template of ``0-vir02``, '' for whole chips."""
    return given.partition("-")[2]


def _cores(pod: Pod) -> str:
    """Return the request of the first container with AI cores, '0' only if no container requests more."""
    amounts = [each.limits[CORES] for each in pod.containers if CORES in each.limits]
    return next((amount for amount in amounts if whole(amount)), next(iter(amounts), ""))


MIND_CLUSTER = (
    Deviation("dvpp-by-the-table", "a vnpu-dvpp that does not match the number of AI cores is refused", _dvpp_ignored),
    Deviation(
        "cores-by-the-table",
        "a number of AI cores without a template is refused",
        _any_count,
        "mind-core-not-in-table",
    ),
    Deviation(
        "several-templates",
        "a node has parts of several templates, and whole chips",
        _one_template,
        "mind-one-template-per-node",
    ),
    Deviation(
        "all-npu-containers",
        "AI cores of all containers and init containers of a pod count",
        _first_container,
    ),
    Deviation(
        "room-on-the-chips",
        "a node passes only if its chips have room for the pod",
        _cores_of_the_node,
        "mind-filter-passes-allocate-fails",
    ),
    Deviation("unnamed-chips", "the label with the name of the chips' type is optional", _named_chips),
)
