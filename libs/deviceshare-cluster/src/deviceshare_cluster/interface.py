"""The interface to the cluster: one protocol for the local cluster and for Kubernetes.

Objects are raw JSON as the API server sends them; :mod:`deviceshare.objects` decodes them into typed facts. The tests
in ``tests/contract`` run on every implementation.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol, Self

from deviceshare.model import trace_id, visible

from deviceshare_cluster.eviction import EvictAnswer

Object = dict[str, Any]
"""A Kubernetes object, decoded from JSON."""

StatusValue = str | int | Mapping[str, str]
"""The value of a field of a status. A mapping replaces the previous one as a whole."""


class ChangeType(Enum):
    """The kind of a change of an object."""

    APPLIED = "applied"
    DELETED = "deleted"


class Change(NamedTuple):
    """An object's current state (``raw`` JSON), or its deletion (``raw`` is its last state or empty)."""

    type: ChangeType
    kind: str
    namespace: str
    name: str
    revision: int
    raw: bytes


class Listed(NamedTuple):
    """All objects that existed at ``revision`` have been delivered."""

    revision: int


class BindState(Enum):
    """The result of a binding."""

    BOUND = "bound"
    """This call bound the pod."""
    ALREADY = "already"
    """The pod was bound before; compare ``node`` and ``annotations`` with the claim."""
    GONE = "gone"
    """The pod does not exist, or has another uid."""
    REFUSED = "refused"
    """The API server refused the binding for ``reason``; it will refuse it again."""
    CHANGED = "changed"
    """The pod is not bound, but has another revision than expected: compare ``annotations``, expect ``revision``."""


class Binding(NamedTuple):
    """The answer to :meth:`Cluster.bind`; ``node``, ``annotations`` and ``revision`` are the pod's current ones.

    ``revision`` is known only if the pod is not bound.
    """

    state: BindState
    node: str = ""
    annotations: Mapping[str, str] = {}
    reason: str = ""
    revision: str = ""


class PodState(NamedTuple):
    """The node of a pod ('': not bound), its annotations and its revision, all of one version of the pod."""

    node: str
    annotations: Mapping[str, str]
    revision: str


class VolumeRequest(NamedTuple):
    """The claim (by its uid) that a PersistentVolume is reserved for, or the node that is selected for a claim.

    ``value`` is '' for nothing; ``revision`` is that of the object after the call; ``terminating``: the
    PersistentVolume is being deleted, and no claim can be bound to it any more.
    """

    value: str
    revision: str
    terminating: bool = False


class DeviceClaimState(NamedTuple):
    """A ResourceClaim after a call that allocates it.

    ``elsewhere``: it has other devices than those that were to be allocated; ``reserved``: for the pod.
    """

    revision: str
    allocated: bool
    elsewhere: bool
    reserved: bool
    terminating: bool


TRACE_ID = "deviceshare.io/trace-id"
"""The annotation of an Event of a pod: the id of the pod's trace, 32 hex digits."""


class EventRecord(NamedTuple):
    """A Kubernetes Event about an object, ``at`` unix seconds. Clusters write the ``message`` as its ``note``.

    Recording is idempotent with ``once``: a repeated event does not increment its count.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    warning: bool
    reason: str
    message: str
    at: float
    once: bool = False

    @property
    def note(self) -> str:
        """The message without characters that could change the terminal of a reader."""
        return visible(self.message)

    @property
    def metadata(self) -> dict[str, Any]:
        """The namespace of the Event, and for a pod the annotation that names its trace."""
        found: dict[str, Any] = {"namespace": self.namespace or "default"}
        if self.kind == "Pod" and self.uid:
            found["annotations"] = {TRACE_ID: trace_id(self.uid)}
        return found


class Revisions(NamedTuple):
    """The revision of each object of a kind, by namespace and name, ``at`` a revision of the cluster."""

    found: Mapping[tuple[str, str], int]
    at: int


class ClusterError(Exception):
    """A call to the cluster failed.

    Args:
        message: what was requested and why it failed.
        final: True: the cluster understood the request and refused it, and will refuse the same request again until
            something else changes (permissions, a webhook, a quota, the object). Report it; give up, or try again
            after minutes. False (transient): the cluster was not reachable, was overloaded, gave an answer that
            cannot be decoded, or the object kept changing. Try again with a back-off. The write may have succeeded;
            every write of :class:`Cluster` can be repeated.
    """

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class Cluster(Protocol):
    """A cluster that can be listed, watched and written to. Use as an async context manager.

    Its kinds are those of :data:`deviceshare.objects.KINDS`, Event, and Volcano's Job.

    Every call raises :class:`ClusterError` and no other error of the connection; its docstring names the final errors.
    Any call can raise a transient error: no connection, no answer within the time limit (30 s for Kubernetes, 5 s for
    the local cluster), HTTP 5xx, 401, 408 and 429, and an answer that is not the expected JSON. Apart from
    :meth:`watch`, a call sends each request once; it repeats only a write whose object changed since it was read, a
    few times, then raises a transient error. The API server's other answers 4xx are final unless documented otherwise
    for a call; the local cluster has few final errors.
    """

    async def __aenter__(self) -> Self:
        """Connect. A local cluster waits for its server without a time limit.

        Raises:
            ClusterError: final: there is no usable kubeconfig or service account.
        """
        ...

    async def __aexit__(self, *error: object) -> None:
        """Disconnect."""
        ...

    def watch(self, kinds: Sequence[str], window: float = 0.0) -> AsyncIterator[list[Change | Listed]]:
        """List all objects of these kinds, yield :class:`Listed`, then follow changes without end, in batches.

        Objects that vanished while the watch was interrupted are delivered as deleted before the next
        :class:`Listed`. Changes of one kind, and therefore of one object, arrive in order; intermediate states may be
        omitted: of each kind changes are collected for ``window`` seconds after the last ones, if these are less than
        that ago, and come at once after a pause.

        The watch retries with a back-off and a log message after lost connections, refused requests (permissions can
        be granted later) and a revision that the server no longer knows (which starts with a new list). A kind that the
        cluster does not have counts as empty until it appears. An iterator that raises nevertheless has ended; start a
        new one.
        """
        ...

    async def list(self, kind: str) -> list[Object]:
        """Return all objects of a kind, none for a kind that the cluster does not have.

        Raises:
            ClusterError: final: not allowed.
        """
        ...

    async def revisions(self, kind: str) -> Revisions:
        """Return the revision of each object of a kind, possibly from a slightly old cache. Cheap for the server.

        Raises:
            ClusterError: final: not allowed.
        """
        ...

    async def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """Return one object, None if it or its kind does not exist.

        Raises:
            ClusterError: final: not allowed.
        """
        ...

    async def ensure(self, obj: Object) -> None:
        """Create an object unless one of its kind and name exists.

        Raises:
            ClusterError: final: invalid, refused by an admission webhook, not allowed, or the cluster does not have
                the kind or the namespace.
        """
        ...

    async def bind(
        self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str], *, revision: str = ""
    ) -> Binding:
        """Bind a pod if it has this uid and revision ('' for any) and is not bound, and merge the annotations into it.

        All in one write: a request that arrives after the pod has changed does nothing and gives
        ``BindState.CHANGED``. A refusal of the API server is no error: it gives ``BindState.REFUSED``, which is final.
        After a transient error the pod may be bound, or be bound by the same request later, as long as its revision
        stays; bind again, which answers ``BindState.ALREADY`` then, or :meth:`fence` the claim.

        Raises:
            ClusterError: final: the binding was refused and reading the pod back is not allowed.
        """
        ...

    async def fence(self, namespace: str, name: str, uid: str, claim: str) -> PodState | None:
        """Add a claim to :data:`deviceshare.model.FENCE` of a pod that is not bound, unless it is there.

        Returns the pod after the call, None if it is gone or has another uid. If it is not bound, no request to bind
        it that was sent before with a revision can succeed any more.

        Raises:
            ClusterError: final: not allowed, or refused by an admission webhook or validation. The fence may stand
                after a transient error.
        """
        ...

    async def evict(
        self, namespace: str, name: str, uid: str, *, dry_run: bool = False, grace: int | None = None
    ) -> EvictAnswer:
        """Request that a pod is deleted if it has this uid and PodDisruptionBudgets allow it.

        ``grace``: its grace period in seconds, None for its own. ``dry_run``: nothing is written; the answer is
        :attr:`EvictState.MAY_GO` in place of :attr:`EvictState.DONE`.
        A refusal of the API server is no error. After a transient error the pod may be evicted; evict again, which
        answers ``EvictState.DONE`` or ``EvictState.GONE`` then.

        Raises:
            ClusterError: final: the eviction was refused and reading the pod back is not allowed.
        """
        ...

    async def nominate(self, namespace: str, name: str, uid: str, node: str, *, withdraw: bool = False) -> None:
        """Write ``status.nominatedNodeName`` of a pod that is not bound; ``withdraw``: remove it if it is this node.

        Nothing is written if the pod is gone, has another uid or is bound, or nothing changes.

        Raises:
            ClusterError: final: not allowed, or refused by an admission webhook or validation.
        """
        ...

    async def annotate(
        self,
        kind: str,
        namespace: str,
        name: str,
        annotations: Mapping[str, str | None],
        *,
        uid: str = "",
        expected: Mapping[str, str | None] = {},
        unbound: bool = False,
    ) -> Mapping[str, str] | None:
        """Merge annotations into an object (None removes one) if it has this uid ('' for any) and those ``expected``.

        ``unbound``: only into a pod that is on no node.
        Returns the object's annotations after the call, changed or not; None if there is no such object.

        Raises:
            ClusterError: final: not allowed, or refused by an admission webhook or validation.
        """
        ...

    async def reserve_volume(self, name: str, namespace: str, claim: str, uid: str) -> VolumeRequest | None:
        """Reserve a PersistentVolume for a claim with this uid (``spec.claimRef``), unless another claim has it or it
        is being deleted.

        Returns the uid of the claim ``namespace/claim`` that has it after the call ('': it does not have it), None if
        there is no such volume.

        Raises:
            ClusterError: final: not allowed, or refused by an admission webhook or validation.
        """
        ...

    async def allocate_claim(
        self, namespace: str, name: str, uid: str, allocation: Object | None, pod: tuple[str, str], untouched: str = ""
    ) -> DeviceClaimState | None:
        """Allocate a ResourceClaim with this uid, unless it has devices, and reserve it for a pod (name and uid).

        ``allocation``: its ``status.allocation``, None: it has devices, and is only to be reserved. Of a claim that is
        being deleted or has other devices nothing is written. ``untouched``: a revision at which it had no devices and
        no finalizers, and was not being deleted; if it still has this revision, it need not be read.
        Returns its state after the call, None if there is no such claim.

        Raises:
            ClusterError: final: not allowed, or refused by validation. After a transient error it may be allocated.
        """
        ...

    async def release_claim(
        self, namespace: str, name: str, uid: str, allocation: Object | None, pod: tuple[str, str]
    ) -> None:
        """Take a ResourceClaim from a pod (name and uid).

        If no other pod uses it and it has the devices of ``allocation``, it has none any more, and may be deleted.

        Raises:
            ClusterError: final: not allowed.
        """
        ...

    async def select_node(self, namespace: str, claim: str, uid: str, node: str) -> VolumeRequest | None:
        """Request that a volume for a PersistentVolumeClaim is made on a node, unless another node is selected.

        Writes the annotation :data:`deviceshare.objects.SELECTED_NODE`; nothing if the claim has a volume. Returns the
        node that is selected after the call, None if there is no claim with this uid.

        Raises:
            ClusterError: final: not allowed, or refused by an admission webhook or validation.
        """
        ...

    async def set_pod_condition(
        self, namespace: str, name: str, uid: str, *, status: bool, reason: str, message: str, at: float
    ) -> PodState | None:
        """Write the condition ``PodScheduled``; ``at`` is the time of its transition in unix seconds.

        Nothing is written if the pod is gone or bound, or already has this condition. Returns the pod after the call,
        None if it is gone or has another uid.

        Raises:
            ClusterError: final: not allowed, or refused by an admission webhook or validation.
        """
        ...

    async def set_status(
        self,
        kind: str,
        namespace: str,
        name: str,
        uid: str,
        fields: Mapping[str, StatusValue],
        *,
        condition: Mapping[str, str] | None,
        at: float,
    ) -> None:
        """Write fields of an object's status, and a condition (type, reason, message) that is true.

        Nothing is written if the object is gone, has another uid ('' for any), or already has this status.

        Raises:
            ClusterError: final: not allowed, or refused by an admission webhook or validation.
        """
        ...

    async def record_event(self, event_record: EventRecord) -> None:
        """Record a Kubernetes Event; recording the same event again increments its count, unless it is ``once``.

        Raises:
            ClusterError: final: invalid, not allowed, or the namespace does not exist or is being deleted.
        """
        ...
