"""The commands of the binder's core to the cluster.

Each is answered by one event of :mod:`.events`: a request for a claim by the event that its docstring names, a write by
``ClusterWritten``; any of them by ``ClusterFailed``.
"""

import msgspec
from deviceshare.model import VolumeBinding
from deviceshare_bus.cores.core import Command
from deviceshare_cluster.interface import EventRecord, StatusValue


class BindPod(Command, frozen=True):
    """Bind a pod with these annotations if it is at this revision; answered by ``BindAnswered``."""

    claim: str
    namespace: str
    name: str
    uid: str
    node: str
    annotations: dict[str, str]
    revision: str


class ReadPod(Command, frozen=True):
    """Read a pod from the cluster; answered by ``PodRead``."""

    claim: str
    namespace: str
    name: str
    uid: str


class FencePod(Command, frozen=True):
    """Let no request to bind a pod for this claim succeed any more, unless it is bound; answered by ``PodRead``."""

    claim: str
    namespace: str
    name: str
    uid: str


class BindVolumes(Command, frozen=True):
    """Bind the volumes of a pod as it was decided; answered by ``VolumesRequested``.

    Each PersistentVolume is reserved for its claim if no other claim has it, then the node is selected for each claim
    for which a volume is made.
    """

    claim: str
    bindings: tuple[VolumeBinding, ...]


class ClaimDevices(msgspec.Struct, frozen=True, array_like=True):
    """A ResourceClaim with its ``status.allocation`` in JSON, '' if it has devices already."""

    key: str
    """``namespace/name``."""
    uid: str
    allocation: str
    untouched: str = ""
    """A revision at which it had no devices and no finalizers, '' if none is known: then it is read before."""


class AllocateClaims(Command, frozen=True):
    """Allocate the ResourceClaims of a pod and reserve them for it; answered by ``ClaimsAllocated``.

    ``name`` and ``uid`` are those of the pod.
    """

    claim: str
    name: str
    uid: str
    claims: tuple[ClaimDevices, ...]


class ReleaseClaims(Command, frozen=True):
    """Take ResourceClaims from a pod, and their devices if they were allocated for it alone; answered by
    ``ClaimsReleased``.
    """

    claim: str
    name: str
    uid: str
    claims: tuple[ClaimDevices, ...]


class LockNode(Command, frozen=True):
    """Write an annotation of a node if its value is ``expected`` (None: absent); answered by ``LockAnswered``."""

    claim: str
    node: str
    annotation: str
    value: str
    expected: str | None


class EvictPod(Command, frozen=True, kw_only=True):
    """Evict a pod with this uid, or with ``dry_run`` only ask whether it may be; answered by ``EvictAnswered``.

    ``claim`` and ``uid`` identify the eviction on ``node``; ``token`` the request.
    """

    node: str
    claim: str
    namespace: str
    name: str
    uid: str
    dry_run: bool
    token: int


class Annotate(Command, frozen=True, kw_only=True):
    """Write annotations of an object (None removes one) if it has this uid ('' for any) and those ``expected``.

    ``unbound``: only of a pod that is on no node.
    """

    kind: str
    namespace: str = ""
    name: str
    uid: str = ""
    annotations: dict[str, str | None]
    expected: dict[str, str | None] = msgspec.field(default_factory=dict)
    unbound: bool = False
    token: int = 0


class SetPodCondition(Command, frozen=True, kw_only=True):
    """Set the condition ``PodScheduled`` of a pod to false; ``at`` in unix seconds."""

    namespace: str
    name: str
    uid: str
    reason: str
    message: str
    at: float
    token: int = 0


class RecordEvent(Command, frozen=True, kw_only=True):
    """Record a Kubernetes Event."""

    record: EventRecord
    token: int = 0


class Nominate(Command, frozen=True, kw_only=True):
    """Write the node for which a pod that is not bound is nominated; ``withdraw``: remove it if it is this one."""

    namespace: str
    name: str
    uid: str
    node: str
    withdraw: bool = False
    token: int = 0


class GroupCondition(msgspec.Struct, frozen=True):
    """A condition of a PodGroup that is true."""

    type: str
    reason: str
    message: str


class SetStatus(Command, frozen=True, kw_only=True):
    """Write these fields of the status of a PodGroup or Queue, and a condition of it; ``at`` in unix seconds."""

    kind: str
    namespace: str = ""
    name: str
    uid: str = ""
    status: tuple[tuple[str, StatusValue], ...]
    condition: GroupCondition | None = None
    at: float = 0.0
    token: int = 0


class CreateQueue(Command, frozen=True):
    """Create a Queue of the system unless it exists."""

    name: str
    reclaimable: bool


ClaimRequest = BindPod | ReadPod | FencePod | LockNode | BindVolumes | AllocateClaims | ReleaseClaims
"""Requests for one claim; the answer decides the next state of its bind task."""
ClusterWrite = Annotate | SetPodCondition | Nominate | RecordEvent | SetStatus | CreateQueue
"""Writes that no claim depends on. ``token`` is the same for all attempts of one write."""
