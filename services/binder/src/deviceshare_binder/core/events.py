"""The events of the binder's core: messages of the bus, and the cluster's answers to its commands."""

from collections.abc import Mapping

import msgspec
from deviceshare.model import Claim, ConfigFact, DeviceFact, Eviction, Explanation, Outcome
from deviceshare_bus.cores.core import CommonEvent, Event
from deviceshare_bus.cores.division import FenceReceived, LeaseReceived
from deviceshare_cluster.eviction import EvictState
from deviceshare_cluster.interface import BindState, PodState

from deviceshare_binder.core.commands import ClaimRequest, ClusterWrite, EvictPod
from deviceshare_binder.core.views import (
    NodeView,
    OtherPodView,
    PodGroupView,
    PodUsage,
    PodView,
    QueueView,
    VolumeClaimView,
    VolumeView,
)


def _size(annotations: Mapping[str, str] | None) -> int:
    return sum(map(len, annotations.values())) if annotations else 0


class PodChanged(Event, frozen=True):
    """A pod's state, None if it is gone; ``usage`` is set if the pod counts in a queue."""

    uid: str
    pod: PodView | None
    usage: PodUsage | None = None


class OtherPodChanged(Event, frozen=True):
    """A waiting pod of another scheduler, None if it does not wait any more."""

    uid: str
    pod: OtherPodView | None


class NodeChanged(Event, frozen=True):
    """A node's state, None if it is gone."""

    name: str
    node: NodeView | None


class PodGroupChanged(Event, frozen=True):
    """The state of a PodGroup (``namespace/name``), None if it is gone."""

    key: str
    group: PodGroupView | None


class QueueChanged(Event, frozen=True):
    """A Queue's state, None if it is gone."""

    name: str
    queue: QueueView | None


class VolumeClaimChanged(Event, frozen=True):
    """The state of a PersistentVolumeClaim (``namespace/name``), None if it is gone."""

    key: str
    claim: VolumeClaimView | None


class VolumeChanged(Event, frozen=True):
    """The state of a PersistentVolume, None if it is gone."""

    name: str
    volume: VolumeView | None


class DeviceObjectChanged(Event, frozen=True):
    """A DeviceClass, ResourceSlice or ResourceClaim, None if it is gone; ``subject`` is that of its fact."""

    subject: str
    fact: DeviceFact | None


class SchedulerConfigured(Event, frozen=True):
    """The text of ``volcano-scheduler.conf``, None if it is gone."""

    config: ConfigFact | None


class DevicesConfigured(Event, frozen=True):
    """The text of ``device-config.yaml``, None if it is gone."""

    config: ConfigFact | None


class LedgerChanged(Event, frozen=True):
    """All claims on a node, and the pods that have to go from it."""

    node: str
    claims: tuple[Claim, ...]
    evictions: tuple[Eviction, ...] = ()

    @property
    def size(self) -> int:
        """Every claim and every eviction counts."""
        return max(1, len(self.claims) + len(self.evictions))


class OutcomesChanged(Event, frozen=True):
    """The message under a node's subject of OUTCOME."""

    node: str
    sequence: int
    outcomes: tuple[Outcome, ...]
    gone: bool = False

    @property
    def size(self) -> int:
        """Every outcome counts."""
        return max(1, len(self.outcomes))


class Explained(Event, frozen=True):
    """Placement explained a decision about a pod or a PodGroup."""

    explanation: Explanation


class BindAnswered(Event, frozen=True):
    """The answer to ``BindPod``: the pod is on ``node`` with these annotations (None: not known).

    ``CHANGED``: it is not bound and has this revision.
    """

    claim: str
    state: BindState
    node: str = ""
    reason: str = ""
    annotations: dict[str, str] | None = None
    revision: str = ""

    @property
    def data_bytes(self) -> int:
        """Those of the annotations."""
        return _size(self.annotations)


class PodRead(Event, frozen=True):
    """The answer to ``ReadPod`` and ``FencePod``: the pod is on ``node``, '' for none, None if the pod is gone.

    Of ``ReadPod`` None also if it has ended: then it holds nothing, and its claim would stay for good.
    """

    claim: str
    node: str | None
    annotations: dict[str, str] | None = None
    revision: str = ""

    @property
    def data_bytes(self) -> int:
        """Those of the annotations."""
        return _size(self.annotations)


class LockAnswered(Event, frozen=True):
    """The answer to ``LockNode``: the annotation's value after the call, None for none."""

    claim: str
    value: str | None


class VolumesRequested(Event, frozen=True):
    """The answer to ``BindVolumes``.

    ``problem``: why it is not possible, '' if all was written; ``revisions``: the revisions of the claims
    (``namespace/name``) and volumes after the call.
    """

    claim: str
    problem: str = ""
    revisions: dict[str, str] = msgspec.field(default_factory=dict)


class ClaimsAllocated(Event, frozen=True):
    """The answer to ``AllocateClaims``; ``problem``: why it is not possible, '' if all was written."""

    claim: str
    problem: str = ""


class ClaimsReleased(Event, frozen=True):
    """The answer to ``ReleaseClaims``."""

    claim: str


class EvictAnswered(Event, frozen=True):
    """The answer to ``EvictPod``; ``reason``: why the pod is not evicted, else ''."""

    command: EvictPod
    state: EvictState
    reason: str = ""


class ClusterWritten(Event, frozen=True):
    """A write to the cluster was done, or was not needed.

    ``pod``: the pod after the write of a condition, None if it is gone, and for other writes.
    """

    command: ClusterWrite
    pod: PodState | None = None

    @property
    def data_bytes(self) -> int:
        """Those of the annotations."""
        return _size(self.pod.annotations if self.pod is not None else None)


class ClusterFailed(Event, frozen=True):
    """The cluster did not execute a command.

    ``final``: it refused, and will refuse the same command again (:class:`deviceshare_cluster.interface.ClusterError`).
    ``jitter`` is random, from 0 to 0.5: the share of its pause by which the next attempt is delayed.
    """

    command: ClaimRequest | EvictPod | ClusterWrite
    message: str
    final: bool = False
    jitter: float = 0.0


decode_event = msgspec.msgpack.Decoder(
    PodChanged
    | OtherPodChanged
    | NodeChanged
    | PodGroupChanged
    | QueueChanged
    | VolumeClaimChanged
    | VolumeChanged
    | DeviceObjectChanged
    | SchedulerConfigured
    | DevicesConfigured
    | LedgerChanged
    | OutcomesChanged
    | Explained
    | BindAnswered
    | PodRead
    | LockAnswered
    | VolumesRequested
    | ClaimsAllocated
    | ClaimsReleased
    | EvictAnswered
    | ClusterWritten
    | ClusterFailed
    | LeaseReceived
    | FenceReceived
    | CommonEvent
).decode
