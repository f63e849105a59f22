"""The JSON API of the dashboard, as types: the map of cards, queues, steps, waiting pods, details and history.

==============================================  ==========================
``/api/v1/cards``                               :class:`CardMap`
``/api/v1/changes`` (server-sent events)        :class:`CardChanges`, ``ClusterStatus``, :class:`StreamEnd`
``/api/v1/queues``                              ``Items[Queue]``
``/api/v1/events``                              ``Items[PodEvent]``
``/api/v1/waiting``                             ``Items[WaitingPods]``
``/api/v1/nodes/{name}``                        :class:`NodeDetail`
``/api/v1/history``                             :class:`History`
``/api/v1/history/{at}``                        :class:`CardMap` at that time
==============================================  ==========================

Units as in :mod:`deviceshare_metrics.api`. The structs of the map are arrays: 10,000 cards take some 300 kB.
"""

import msgspec
from deviceshare.model import Resources

from deviceshare_metrics.api import Claim, Device, DriverDevices, Node, NodeState, Pod, PodState


class CardKind(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What equal cards of a node have in common; ``mode`` is ``whole`` for cards that are allocated whole."""

    type: str
    mode: str
    memory: int
    cores: int
    slots: int


class CardCell(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One card: the position of its kind in ``NodeCards.kinds``, and its usage.

    ``slices`` are the sizes of the MIG instances and vNPUs in use, in MiB, or in AI cores if the card has no memory.
    ``largest_free`` as in :class:`deviceshare_metrics.api.Device`. ``cordoned``: by ``deviceshare cordon card``.
    """

    kind: int
    memory_used: int
    cores_used: int
    slots_used: int
    healthy: bool
    slices: tuple[int, ...] = ()
    largest_free: int = 0
    cordoned: bool = False


class NodeCards(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A node and its cards; ``problems`` is a number."""

    name: str
    state: NodeState
    pods: int
    problems: int
    kinds: tuple[CardKind, ...]
    cards: tuple[CardCell, ...]


class CardMap(msgspec.Struct, frozen=True, kw_only=True):
    """All cards at one time (unix seconds); ``position`` is the starting point for ``/api/v1/changes?since=``."""

    position: str
    at: float
    nodes: tuple[NodeCards, ...]


class CardChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The changed nodes with all of their cards, and the names of those that are gone."""

    nodes: tuple[NodeCards, ...]
    gone: tuple[str, ...]


class StreamEnd(msgspec.Struct, frozen=True, kw_only=True):
    """Why the stream of changes ends: the client is too slow, or has to read ``/api/v1/cards`` again."""

    reason: str


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue. ``capability`` names only bounded resources; ``used`` includes the queues below it.

    ``bounds`` is ``capability`` with what the queues above and the guarantees of others leave. ``obstacle`` says why no
    pods of the queue are served.
    """

    name: str
    parent: str
    weight: int
    open: bool
    used: Resources
    requested: Resources
    deserved: dict[str, float]
    capability: Resources
    pods: dict[PodState, int]
    problems: tuple[str, ...]
    bounds: Resources = {}
    obstacle: str = ""


class PodEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a pod. ``number`` grows with the order of arrival."""

    number: int
    time: float
    service: str
    step: str
    namespace: str
    name: str
    uid: str
    node: str
    queue: str
    message: str


class WaitingPods(msgspec.Struct, frozen=True, kw_only=True):
    """The waiting pods of one job with one reason; pods without a PodGroup are grouped by queue and reason.

    ``first``: the names of the first pods. ``since``: the creation of the oldest, in unix seconds; 0 if unknown.
    ``reason_at``: as of when the reason is true for all of them, unix seconds; 0: now. ``fragmented``: as of a pod.
    """

    namespace: str
    group: str
    queue: str
    state: PodState
    reason: str
    pods: int
    first: tuple[str, ...]
    since: float
    reason_at: float = 0.0
    fragmented: str = ""


class NodeDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A node with its cards, pods, and devices that drivers publish in ResourceSlices."""

    node: Node
    devices: tuple[Device, ...]
    pods: tuple[Pod, ...]
    claims: tuple[Claim, ...]
    drivers: tuple[DriverDevices, ...] = ()


class Frame(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A time of which the map can be shown, with the numbers of pending and bound pods."""

    at: float
    pending: int
    bound: int


class Minute(msgspec.Struct, frozen=True, array_like=True):
    """The number of steps of each name in the minute that begins at ``at``."""

    at: float
    steps: dict[str, int]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """The last day: maps that can be shown, and steps by minute; both from the oldest to the latest."""

    frames: tuple[Frame, ...]
    minutes: tuple[Minute, ...]
