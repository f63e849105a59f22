"""The events of inventory's core, besides the common ones of :mod:`deviceshare_bus.cores.core`."""

import msgspec
from deviceshare.model import AnyFact
from deviceshare_bus.cores.core import CommonEvent, Event
from deviceshare_bus.cores.division import FenceReceived, LeaseReceived
from deviceshare_cluster.interface import Change, Revisions


class FactReceived(Event, frozen=True):
    """A message of CLUSTER: the fact under ``subject``."""

    subject: str
    sequence: int
    fact: AnyFact


class WatchStarted(Event, frozen=True):
    """A watch of the cluster begins: all objects will be delivered, then ``listed`` of :class:`ObjectsChanged`."""


class ObjectsChanged(Event, frozen=True):
    """The watch delivered changes, in order.

    ``listed``: after these changes everything that existed at this revision has been delivered; None: not yet, or
    reported before.
    """

    changes: tuple[Change, ...]
    listed: int | None = None

    @property
    def size(self) -> int:
        """The changes carry whole objects."""
        return max(1, len(self.changes))

    @property
    def data_bytes(self) -> int:
        """Those of the objects."""
        return sum(len(change.raw) for change in self.changes)


class WatchFailed(Event, frozen=True):
    """The watch ended with an error; ``final`` as in ``ClusterError``."""

    error: str
    final: bool


class RevisionsCompared(Event, frozen=True):
    """The answer to a :class:`.commands.CompareRevisions`: the cluster's revisions of all objects of the kind."""

    comparison: int
    kind: str
    revisions: Revisions

    @property
    def size(self) -> int:
        """A revision takes a small part of the memory of an object."""
        return 1 + len(self.revisions.found) // 50


class ComparisonFailed(Event, frozen=True):
    """A :class:`.commands.CompareRevisions` failed; ``final`` as in ``ClusterError``."""

    comparison: int
    kind: str
    error: str
    final: bool


class EventRecorded(Event, frozen=True):
    """The Kubernetes Event of a :class:`.commands.RecordEvent` was recorded."""

    token: int


class RecordFailed(Event, frozen=True):
    """The Kubernetes Event of a :class:`.commands.RecordEvent` was not recorded; ``final`` as in ``ClusterError``."""

    token: int
    error: str
    final: bool


decode_event = msgspec.msgpack.Decoder(
    FactReceived
    | WatchStarted
    | ObjectsChanged
    | WatchFailed
    | RevisionsCompared
    | ComparisonFailed
    | EventRecorded
    | RecordFailed
    | LeaseReceived
    | FenceReceived
    | CommonEvent
).decode
"""Decode an event of a core log."""
