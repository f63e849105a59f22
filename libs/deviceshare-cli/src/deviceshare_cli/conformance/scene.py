"""What the device code looks at before it is asked, and our answer to it.

A :class:`Scene` is made of raw objects as Volcano saw them, so that a deviation can say what they would have to be for
us to answer as Volcano does.
"""

from collections.abc import Mapping, Sequence

import msgspec
from deviceshare.allocation import Allocator
from deviceshare.conf import SchedulerConf
from deviceshare.families import BY_NAME
from deviceshare.model import Claim, ContainerGrant, NodeFact, PodFact
from deviceshare.objects import decode_device_info, decode_node, decode_pod
from msgspec.structs import replace

from deviceshare_cli.conformance.cases import Container, Cut, Node, Pod

NOW = 1_700_000_000.0
"""The moment of every binding, in unix seconds."""


class Scene(msgspec.Struct, frozen=True):
    """A node, the pods on it, and the pod that is asked about; None where only the state is looked at.

    ``existing`` is by ``namespace/name``, in the order in which the pods came; ``counted`` are those of them whose
    devices are known from their annotations alone. Where ``locked`` holds, an earlier pod's lock is on the node.
    """

    conf: SchedulerConf
    node: Node
    existing: dict[str, Pod]
    counted: frozenset[str] = frozenset()
    asked: Pod | None = None
    cluster_cm: dict[str, str] = {}
    locked: bool = False
    closed: bool = False
    """The node takes nobody now. Only a deviation sets it."""
    forgetful: bool = False
    """MindCluster: Volcano was made to forget which templates are used on the node."""
    filtered: bool = False
    """MindCluster: Volcano only filtered the node, and chose no chip on it."""
    mig: Sequence[Cut] = ()
    """How MIG cards are cut, as recorded before the question (``mig`` of a step)."""


class Answer(msgspec.Struct, frozen=True):
    """Whether a pod gets devices of the node, how good the node is, and what is written on the pod."""

    fits: bool
    score: float = 0.0
    annotations: Mapping[str, str] = {}
    grants: tuple[ContainerGrant, ...] = ()


class ReplayState(msgspec.Struct, frozen=True):
    """A node and what stands on it, by ``namespace/name``, as the library has counted it."""

    allocator: Allocator
    node: NodeFact
    pods: Mapping[str, PodFact]


def replay_state(scene: Scene, allocator: Allocator | None = None) -> ReplayState:
    """Count what stands on the node from nothing but the annotations of the pods, in an allocator or a new one."""
    node = node_fact(scene.node, scene.cluster_cm)
    state = ReplayState(allocator or Allocator(scene.conf), node, {})
    state.allocator.set_node(node)
    for ref, pod in scene.existing.items():
        state = with_pod(state, pod, decided=ref not in scene.counted)
    return state


def with_pod(state: ReplayState, pod: Pod, *, decided: bool = False) -> ReplayState:
    """Count one more pod by its annotations; of one that is only decided no device plugin knows yet."""
    fact = pod_fact(pod, state.node.name)
    grants = fact.held
    if decided:
        grants = tuple(
            replace(grant, devices=tuple(replace(device, made="") for device in grant.devices)) for grant in grants
        )
    return _with(state, pod.ref, fact, grants)


def with_grants(state: ReplayState, pod: Pod, grants: tuple[ContainerGrant, ...]) -> ReplayState:
    """Count one more pod by what was decided for it."""
    return _with(state, pod.ref, pod_fact(pod, state.node.name), grants)


def _with(state: ReplayState, ref: str, fact: PodFact, grants: tuple[ContainerGrant, ...]) -> ReplayState:
    allocator = state.allocator
    if not fact.ended:
        # Volcano's device code counts devices alone, not what pods take of a node beside them.
        allocator.hold(state.node.name, fact.uid, grants, (), fact.tenant)
    return ReplayState(allocator, state.node, {**state.pods, ref: fact})


def without_pod(state: ReplayState, ref: str) -> ReplayState:
    """Give back what a pod has."""
    state.allocator.release(state.node.name, state.pods[ref].uid)
    return ReplayState(state.allocator, state.node, {other: fact for other, fact in state.pods.items() if other != ref})


def answer(scene: Scene, state: ReplayState) -> Answer:
    """Return our answer for the pod that is asked about; charges nothing."""
    assert scene.asked is not None
    fact = pod_fact(scene.asked)
    placement = None if fact.problems or scene.closed else state.allocator.place(fact.ask)
    if placement is None:
        return Answer(fits=False)
    return Answer(True, placement.score, _written(fact, placement.node, placement.grants), placement.grants)


def _written(pod: PodFact, node: str, grants: tuple[ContainerGrant, ...]) -> dict[str, str]:
    claim = Claim(id="1", uid=pod.uid, namespace=pod.namespace, name=pod.name, grants=grants)
    containers = [each.name for each in pod.ask.containers]
    annotations: dict[str, str] = {}
    for family in dict.fromkeys(grant.family for grant in grants):
        annotations |= BY_NAME[family].annotations(claim, node, containers, NOW)
    return annotations


def node_fact(node: Node, cluster_cm: Mapping[str, str]) -> NodeFact:
    """Return the fact of a recorded node; ``cluster_cm`` is what ClusterD says of the devices of nodes."""
    metadata = {"name": node.name, "labels": node.labels, "annotations": node.annotations}
    status = {"allocatable": node.allocatable, "capacity": node.capacity}
    raw = msgspec.json.encode({"metadata": metadata, "status": status})
    return decode_node(raw, _device_info(cluster_cm).get) if cluster_cm else decode_node(raw)


def _device_info(cluster_cm: Mapping[str, str]) -> Mapping[str, Mapping[str, str]]:
    metadata = {"namespace": "mindx-dl", "name": "cluster-info-device-0", "labels": {"mx-consumer-volcano": "true"}}
    return decode_device_info(msgspec.json.encode({"metadata": metadata, "data": cluster_cm})).devices


def pod_fact(pod: Pod, node: str = "") -> PodFact:
    """Return the fact of a recorded pod; ``node`` is where it is bound."""
    metadata = {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "labels": pod.labels,
        "annotations": pod.annotations,
    }
    spec = {
        "nodeName": node,
        "containers": [_container(each) for each in pod.containers],
        "initContainers": [_container(each) for each in pod.init_containers],
    }
    return decode_pod(msgspec.json.encode({"metadata": metadata, "spec": spec, "status": {"phase": pod.phase}}))


def _container(container: Container) -> dict[str, object]:
    return {"name": container.name, "resources": {"limits": container.limits}}
