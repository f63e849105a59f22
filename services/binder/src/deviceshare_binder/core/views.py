"""The fields of facts that the binder uses. Decoding these few is much cheaper than decoding whole facts."""

import msgspec
from deviceshare.allocation import CORDONED, tolerates
from deviceshare.model import DEFAULT_QUEUE, ContainerGrant, PodRequest, Toleration


class _Container(msgspec.Struct, frozen=True, array_like=True, gc=False):
    name: str


class _Request(msgspec.Struct, frozen=True, gc=False):
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


class PodView(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="pod"):
    """The fields of a :class:`deviceshare.model.PodFact` that decide whether and where it may be bound."""

    uid: str
    namespace: str
    name: str
    node: str = ""
    running: bool = False
    ended: bool = False
    succeeded: bool = False
    terminating: bool = False
    gates: tuple[str, ...] = ()
    group: str = ""
    ask: _Request = _Request()
    unserved: tuple[tuple[str, str], ...] = ()
    until_running: tuple[str, ...] = ()

    @property
    def counts(self) -> bool:
        """Whether its usage counts in a queue: it belongs to a PodGroup, is bound, and has not ended."""
        grouped = bool(self.group) and not self.group.startswith("pod/")
        return grouped and bool(self.node) and not (self.ended or self.terminating)

    @property
    def containers(self) -> tuple[str, ...]:
        """The names in ``spec.containers``."""
        return tuple(container.name for container in self.ask.containers)

    @property
    def init_containers(self) -> tuple[str, ...]:
        """The names in ``spec.initContainers``."""
        return tuple(container.name for container in self.ask.init_containers)

    @property
    def tolerates_cordons(self) -> bool:
        """Whether it may be bound to a cordoned node, as a pod of a DaemonSet may."""
        return tolerates(self.ask.tolerations, CORDONED)


class PodUsage(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="pod"):
    """The fields of a :class:`deviceshare.model.PodFact` that determine what a bound pod uses."""

    ask: PodRequest = PodRequest()
    held: tuple[ContainerGrant, ...] = ()


class NodeView(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="node"):
    """The fields of a :class:`deviceshare.model.NodeFact` that decide whether a pod may be bound there."""

    name: str
    ready: bool = True
    unschedulable: bool = False
    locks: tuple[tuple[str, str], ...] = ()


class PodGroupView(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="podgroup"):
    """The fields of a :class:`deviceshare.model.PodGroupFact` that its status depends on."""

    key: str
    uid: str = ""
    queue: str = DEFAULT_QUEUE
    min_member: int = 1
    phase: str = ""


class QueueView(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="queue"):
    """The fields of a :class:`deviceshare.model.QueueFact` that its status depends on."""

    name: str
    parent: str = ""
    state: str = ""


class GoneView(msgspec.Struct, frozen=True, tag_field="kind", tag="gone"):
    """A tombstone: the object was deleted."""
