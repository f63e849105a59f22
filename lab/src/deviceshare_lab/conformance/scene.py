"""The input of the device code, and our answer to it.

A :class:`Scene` consists of raw objects as Volcano read them: a deviation replaces objects to get Volcano's answer.
"""

from collections.abc import Mapping, Sequence

import msgspec
from deviceshare.allocation import Allocator
from deviceshare.conf import SchedulerConf
from deviceshare.families import BY_NAME
from deviceshare.model import Card, Claim, ContainerGrant, DeviceGrant, NodeFact, PodFact
from deviceshare.objects import decode_device_info, decode_node, decode_pod
from deviceshare.state import Usage
from msgspec.structs import replace

from deviceshare_lab.conformance.cases import Container, Cut, Node, Pod

NOW = 1_700_000_000.0
"""The time of every binding, in unix seconds."""


class Scene(msgspec.Struct, frozen=True):
    """A node, the pods on it, and the pod to place; None if only the state is compared.

    ``existing``: by ``namespace/name``, in the order of arrival. ``counted``: the existing pods whose devices are
    known from their annotations alone. ``locked``: an earlier pod's lock is on the node.
    """

    conf: SchedulerConf
    node: Node
    existing: dict[str, Pod]
    counted: frozenset[str] = frozenset()
    pod: Pod | None = None
    cluster_cm: dict[str, str] = {}
    locked: bool = False
    closed: bool = False
    """The node accepts no pod. Only a deviation sets it."""
    forgetful: bool = False
    """MindCluster: Volcano's cache of the templates used on the node was cleared."""
    filtered: bool = False
    """MindCluster: Volcano only filtered the node and chose no chip."""
    mig: Sequence[Cut] = ()
    """The partitioning of MIG cards before the step (``mig`` of a recorded step)."""


class Answer(msgspec.Struct, frozen=True):
    """Whether the pod fits on the node, the node's score, and the annotations of the pod."""

    fits: bool
    score: float = 0.0
    annotations: Mapping[str, str] = {}
    grants: tuple[ContainerGrant, ...] = ()


class ReplayState:
    """The library's state of a node, with its pods by ``namespace/name``."""

    def __init__(self, scene: Scene, allocator: Allocator | None = None) -> None:
        """Charge the pods on the node by their annotations, in ``allocator`` or a new one."""
        self.allocator = allocator or Allocator(scene.conf)
        self.node = node_fact(scene.node, scene.cluster_cm)
        self.pods: dict[str, PodFact] = {}
        self.allocator.set_node(self.node)
        for ref, pod in scene.existing.items():
            self.hold(pod, decided=ref not in scene.counted)

    def hold(self, pod: Pod, grants: tuple[ContainerGrant, ...] | None = None, *, decided: bool = False) -> None:
        """Charge a pod by its grants, else by its annotations; ``decided``: no device plugin has served the pod yet."""
        fact = self.pods[pod.ref] = pod_fact(pod, self.node.name)
        grants = fact.held if grants is None else grants
        if decided:
            grants = tuple(
                replace(grant, devices=tuple(replace(device, made="") for device in grant.devices)) for grant in grants
            )
        if not fact.ended:
            # Volcano's device code counts only devices, not the other resources of pods.
            self.allocator.hold(self.node.name, fact.uid, grants, (), fact.tenant)

    def release(self, ref: str) -> None:
        """Release the devices of a pod."""
        self.allocator.release(self.node.name, self.pods.pop(ref).uid)

    def cards(self) -> list[tuple[Card, Usage]]:
        """Return the node's cards with their usage."""
        return list(zip(self.node.cards, self.allocator.used_cards(self.node.name), strict=True))

    def devices(self) -> list[list[DeviceGrant]]:
        """Return the devices of each pod that holds any."""
        holdings = (self.allocator.holding(self.node.name, pod.uid) for pod in self.pods.values())
        return [[device for grant in held.grants for device in grant.devices] for held in holdings if held is not None]


def answer(scene: Scene, state: ReplayState) -> Answer:
    """Return our answer for the pod to place, without charging it."""
    assert scene.pod is not None
    fact = pod_fact(scene.pod)
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
    """Return the fact of a recorded node; ``cluster_cm``: ClusterD's ConfigMap of the nodes' devices."""
    fields = {"name": node.name, "labels": node.labels, "annotations": node.annotations}
    status = {"allocatable": node.allocatable, "capacity": node.capacity}
    raw = msgspec.json.encode({"metadata": fields, "status": status})
    if not cluster_cm:
        return decode_node(raw)
    metadata = {"namespace": "mindx-dl", "name": "cluster-info-device-0", "labels": {"mx-consumer-volcano": "true"}}
    info = decode_device_info(msgspec.json.encode({"metadata": metadata, "data": cluster_cm}))
    return decode_node(raw, info.devices.get)


def pod_fact(pod: Pod, node: str = "") -> PodFact:
    """Return the fact of a recorded pod; ``node``: the node of its binding."""
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
