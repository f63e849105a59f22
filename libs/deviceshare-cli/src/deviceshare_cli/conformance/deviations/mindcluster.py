"""Ascend 310P, MindCluster's mode."""

from collections.abc import Mapping

import msgspec
from deviceshare.families.mindcluster.request import cores_asked
from deviceshare.formats.mindcluster import CHIP_CORES, CHIP_NAME, CORES, DVPP, NULL, SERVER_TYPE
from deviceshare.formats.numbers import whole
from msgspec.structs import replace

from deviceshare_cli.conformance.cases import Pod
from deviceshare_cli.conformance.deviations.base import Deviation
from deviceshare_cli.conformance.scene import Scene, answer, pod_fact, replay_state

_WITHOUT_DVPP = ("1", "2")
_COUNTS = (1, 2, 4)


def _dvpp_ignored(scene: Scene) -> Scene:
    pod = scene.asked
    if pod is None or pod.labels.get(DVPP, NULL) == NULL or _cores(pod) not in _WITHOUT_DVPP:
        return scene
    return replace(scene, asked=replace(pod, labels=pod.labels | {DVPP: NULL}))


def _any_count(scene: Scene) -> Scene:
    pod, cores = scene.asked, whole(_cores(scene.asked))
    if pod is None or cores is None or cores in _COUNTS or (cores and cores % CHIP_CORES == 0):
        return scene
    return replace(scene, asked=_asking(pod, CHIP_CORES))


def _first_container(scene: Scene) -> Scene:
    booked = sum(cores_asked(pod_fact(pod).ask) - (whole(_cores(pod)) or 0) for pod in scene.existing.values())
    node, pod = scene.node, scene.asked
    if booked:
        # The scheduler counts the requests of all containers against the node's amount, whatever chips they have.
        left = (whole(node.allocatable.get(CORES, "")) or 0) - booked
        node = replace(node, allocatable=node.allocatable | {CORES: str(max(left, 0))})
    if pod is not None and (first := _cores(pod)):
        pod = replace(_asking(pod, whole(first) or 0), init_containers=())
    return replace(scene, node=node, asked=pod)


def _asking(pod: Pod, cores: int) -> Pod:
    """Return the pod with one container that asks AI cores."""
    asking = [at for at, each in enumerate(pod.containers) if CORES in each.limits]
    containers = list(pod.containers)
    for at in asking:
        rest = {name: amount for name, amount in containers[at].limits.items() if name != CORES}
        containers[at] = replace(containers[at], limits=rest | {CORES: str(cores)} if at == asking[0] else rest)
    return replace(pod, containers=tuple(containers))


def _named_chips(scene: Scene) -> Scene:
    labels = scene.node.labels
    if CHIP_NAME in labels:
        return scene
    rest = {name: value for name, value in labels.items() if name != SERVER_TYPE}
    return replace(scene, node=replace(scene.node, labels=rest))


def _one_template(scene: Scene) -> Scene:
    templates = {_template(pod.annotations[CORES]) for pod in scene.existing.values() if CORES in pod.annotations}
    if scene.asked is None or scene.forgetful or not templates:
        return scene
    # Where there is room only for a part with fewer AI CPUs, Volcano looks at the template of that one.
    answers = (answer(each, replay_state(each)) for each in (scene, replace(scene, existing={})))
    wanted = _template(next((each.annotations.get(CORES, "") for each in answers if each.fits), ""))
    return scene if wanted and templates == {wanted} else replace(scene, closed=True)


def _cores_of_the_node(scene: Scene) -> Scene:
    state, pod = replay_state(scene), scene.asked
    if pod is None or not scene.filtered or answer(scene, state).fits:
        return scene
    taken = sum(card.cores for card in state.allocator.used_cards(scene.node.name))
    left = max((whole(scene.node.allocatable.get(CORES, "")) or 0) - taken, 0)
    if whole(_cores(pod)) == 0:
        # There is always room for it: as for 1 AI core where that is idle.
        pod, left = replace(_asking(pod, 1), labels=pod.labels | {DVPP: NULL}), max(left, 1)
    node = replace(scene.node, allocatable=scene.node.allocatable | {CORES: str(left)})
    return replace(scene, node=node, existing={}, asked=pod, cluster_cm=_all_healthy(scene.cluster_cm))


class _Info(msgspec.Struct, rename="pascal"):
    """What ClusterD says of a node: its lists of devices."""

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
            node.device_list |= {name: "" for name in node.device_list if name.endswith("-Unhealthy")}
        data[key] = msgspec.json.encode(nodes).decode()
    return data


def _template(given: str) -> str:
    """Return the template of ``0-vir02``, '' for whole chips."""
    return given.partition("-")[2]


def _cores(pod: Pod | None) -> str:
    """Return what the first container that asks AI cores asks: of 0 only where none asks more."""
    amounts = [each.limits[CORES] for each in pod.containers if CORES in each.limits] if pod is not None else []
    return next((amount for amount in amounts if whole(amount)), next(iter(amounts), ""))


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
    Deviation(
        "all-npu-containers",
        "AI cores of all containers and init containers of a pod count",
        _first_container,
    ),
    Deviation(
        "room-on-the-chips",
        "a node passes only where its chips have room for the pod",
        _cores_of_the_node,
        "mind-filter-passes-allocate-fails",
    ),
    Deviation("unnamed-chips", "a node need not say the name of its chips' type", _named_chips),
)
