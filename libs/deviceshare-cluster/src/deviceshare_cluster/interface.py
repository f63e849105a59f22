"""The cluster as inventory, binder and the command see it: one protocol for the local cluster and for Kubernetes.

Objects travel as raw JSON, as the API server would send them; whoever needs typed facts decodes them with
:mod:`deviceshare.objects`. The suite ``tests/contract`` runs on every implementation.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol, Self

KINDS = ("Node", "Pod", "ConfigMap", "PodGroup", "Queue", "Job", "PriorityClass", "Event")
"""Kinds that a cluster holds. Job, PodGroup and Queue are Volcano's."""

Object = dict[str, Any]
"""A Kubernetes object as JSON decodes."""


StatusValue = str | int | Mapping[str, str]
"""The value of a field of a status. A mapping replaces the previous one as a whole."""


class ChangeType(Enum):
    """What happened to an object."""

    APPLIED = "applied"
    DELETED = "deleted"


class Change(NamedTuple):
    """One object as it is now (``raw`` JSON), or that it is gone (``raw`` is its last state or empty)."""

    type: ChangeType
    kind: str
    namespace: str
    name: str
    revision: int
    raw: bytes


class Listed(NamedTuple):
    """Marks that everything that existed at ``revision`` has been delivered."""

    revision: int


class BindState(Enum):
    """How a binding ended."""

    BOUND = "bound"
    """It is done, by this call."""
    ALREADY = "already"
    """The pod was bound before: compare ``node`` and ``annotations`` with the claim."""
    GONE = "gone"
    """There is no such pod any more, or one with another uid."""
    REFUSED = "refused"
    """The API server said no; ``reason`` says why."""


class Binding(NamedTuple):
    """The answer to :meth:`Cluster.bind`; ``node`` and ``annotations`` are the pod's as they stand now."""

    state: BindState
    node: str = ""
    annotations: Mapping[str, str] = {}
    reason: str = ""


class EventRecord(NamedTuple):
    """What a Kubernetes Event tells of an object, ``at`` unix seconds.

    With ``once`` the same again is not counted: what happens once may be said again by one that does not know whether
    it was heard.
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


class Revisions(NamedTuple):
    """The revision of each object of a kind, by namespace and name, as they were ``at`` a revision of the cluster."""

    found: Mapping[tuple[str, str], int]
    at: int


class ClusterError(Exception):
    """The cluster cannot be reached or answered with an error that is nobody's input; try again."""


class Cluster(Protocol):
    """A cluster that can be listed, watched and written to. Use as an async context manager."""

    async def __aenter__(self) -> Self:
        """Connect."""
        ...

    async def __aexit__(self, *error: object) -> None:
        """Disconnect."""
        ...

    def watch(self, kinds: Sequence[str]) -> AsyncIterator[list[Change | Listed]]:
        """List all objects of these kinds, say :class:`Listed`, then follow, for ever; batches as they come.

        What vanished while nobody could watch is delivered as deleted before the next :class:`Listed`. Changes of one
        object arrive in order, and those of one kind; intermediate states may be left out.
        """
        ...

    async def list(self, kind: str) -> list[Object]:
        """Return all objects of a kind."""
        ...

    async def revisions(self, kind: str) -> Revisions:
        """Return at which revision each object of a kind is; it may be a moment ago. Costs a server little."""
        ...

    async def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """Return one object, or None."""
        ...

    async def ensure(self, obj: Object) -> None:
        """Create an object, unless there is one of its kind and name: that one stays as it is."""
        ...

    async def bind(self, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]) -> Binding:
        """Bind a pod, if its uid is this one and it is not bound, and merge the annotations into it, in one write."""
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
    ) -> Mapping[str, str] | None:
        """Merge annotations into an object (None removes one), if it has this uid, where one is given, and these stand.

        Returns its annotations as they stand then, changed or not; None where there is no such object.
        """
        ...

    async def set_pod_condition(
        self, namespace: str, name: str, uid: str, *, status: bool, reason: str, message: str, at: float
    ) -> None:
        """Write the condition ``PodScheduled``.

        Nothing happens if the pod is gone or bound, or the condition says so already.
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

        Nothing happens if the object is gone, has another uid ('' for any), or says so already.
        """
        ...

    async def record_event(self, event_record: EventRecord) -> None:
        """Record a Kubernetes Event; the same event again raises its count."""
        ...
