"""The fields of facts that the binder uses. Decoding these few is much cheaper than decoding whole facts."""

from collections.abc import Mapping

import msgspec
from deviceshare.allocation import CORDONED, tolerates
from deviceshare.model import (
    DEFAULT_QUEUE,
    Card,
    ContainerGrant,
    NodeTerms,
    PodDeviceClaim,
    PodRequest,
    fence_entry,
    fenced_claims,
    revision_number,
)
from msgspec.structs import replace

_NO_RULES = ((), None, (), (), None, ())


class PodView(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="pod"):
    """The fields of a :class:`deviceshare.model.PodFact` that decide whether and where it may be bound.

    ``revision`` and ``fenced`` may be newer than the rest (:meth:`at`).
    """

    v: int = 1
    uid: str
    revision: str = ""
    namespace: str
    name: str
    node: str = ""
    running: bool = False
    ended: bool = False
    succeeded: bool = False
    terminating: bool = False
    gates: tuple[str, ...] = ()
    fenced: tuple[str, ...] = ()
    group: str = ""
    ask: PodRequest = PodRequest()
    device_claims: tuple[PodDeviceClaim, ...] = ()
    held: tuple[ContainerGrant, ...] = ()
    unserved: tuple[tuple[str, str], ...] = ()
    until_running: tuple[str, ...] = ()
    selectable: tuple[tuple[str, str, str], ...] = ()

    @property
    def counts(self) -> bool:
        """Whether its usage counts in a queue: it belongs to a PodGroup, is bound, and has not ended."""
        grouped = bool(self.group) and not self.group.startswith("pod/")
        return grouped and bool(self.node) and not (self.ended or self.terminating)

    @property
    def selecting(self) -> tuple[str, ...]:
        """The nodes whose device plugins may serve it, beginning with its own, once for each key."""
        return (*(self.node for _ in self.unserved), *(node for node, _, _ in self.selectable))

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

    def without_node_rules(self) -> "PodView":
        """Return the view without what only the choice of a node depends on, which is most of some requests."""
        ask = self.ask
        rules = (ask.node_selector, ask.node_terms, ask.preferences, ask.host_ports, ask.topology, ask.disks)
        if rules == _NO_RULES:
            return self
        ask = replace(ask, node_selector=(), node_terms=None, preferences=(), host_ports=(), topology=None, disks=())
        return replace(self, ask=ask)

    def is_fenced(self, claim: str) -> bool:
        """Return whether the pod must not be bound for a claim (id) any more."""
        return bool(self.fenced) and fence_entry(claim) in self.fenced

    def at(self, revision: str, annotations: Mapping[str, str]) -> "PodView":
        """Return the view with the revision and the fences of a newer version of the pod, not bound as well."""
        if self.node or revision_number(revision) <= revision_number(self.revision):
            return self
        return replace(self, revision=revision, fenced=fenced_claims(annotations))

    def updated(self, view: "PodView") -> "PodView":
        """Return a new view, with our revision and fences if they are newer."""
        if view.node or revision_number(self.revision) <= revision_number(view.revision):
            return view
        return replace(view, revision=self.revision, fenced=self.fenced)


class OtherPodView(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="otherpod"):
    """The fields of a :class:`deviceshare.model.OtherPodFact` by which device plugins may select the waiting pod."""

    v: int = 1
    uid: str
    namespace: str
    name: str
    selectable: tuple[tuple[str, str, str], ...] = ()


class PodUsage(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="pod"):
    """The fields of a :class:`deviceshare.model.PodFact` that determine what a bound pod uses."""

    ask: PodRequest = PodRequest()
    held: tuple[ContainerGrant, ...] = ()


class NodeView(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="node"):
    """The fields of a :class:`deviceshare.model.NodeFact` that decide whether a pod may be bound there."""

    v: int = 1
    name: str
    ready: bool = True
    unschedulable: bool = False
    labels: dict[str, str] = {}
    cards: tuple[Card, ...] = ()
    locks: tuple[tuple[str, str], ...] = ()


class PodGroupView(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="podgroup"):
    """The fields of a :class:`deviceshare.model.PodGroupFact` that its status depends on."""

    v: int = 1
    key: str
    uid: str = ""
    queue: str = DEFAULT_QUEUE
    min_member: int = 1
    phase: str = ""
    admitted: bool = False


class QueueView(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="queue"):
    """The fields of a :class:`deviceshare.model.QueueFact` that its status depends on."""

    v: int = 1
    name: str
    parent: str = ""
    state: str = ""


class VolumeClaimView(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="volumeclaim"):
    """The fields of a :class:`deviceshare.model.VolumeClaimFact` that show how far its binding is."""

    v: int = 1
    revision: str = ""
    key: str
    uid: str = ""
    volume: str = ""
    bound: bool = False
    lost: bool = False
    terminating: bool = False
    selected_node: str = ""


class VolumeView(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="volume"):
    """The fields of a :class:`deviceshare.model.VolumeFact` that show which claim and which nodes may use it."""

    v: int = 1
    revision: str = ""
    name: str
    terminating: bool = False
    claim: str = ""
    claim_uid: str = ""
    node_terms: NodeTerms | None = None


class GoneView(msgspec.Struct, frozen=True, tag_field="kind", tag="gone"):
    """A tombstone: the object was deleted."""

    v: int = 1
