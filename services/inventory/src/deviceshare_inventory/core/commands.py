"""The commands of inventory's core, besides the common ones of :mod:`deviceshare_bus.cores.core`."""

from deviceshare_bus.cores.core import Command
from deviceshare_cluster.interface import EventRecord


class RestartWatch(Command, frozen=True):
    """End the watch of the cluster, if one runs, and start a new one; answered by ``WatchStarted``.

    ``devices``: whether the kinds of :data:`deviceshare.objects.DEVICE_KINDS` are watched, too.
    """

    devices: bool = False


class CompareRevisions(Command, frozen=True):
    """Ask the cluster for the revision of each object of a kind.

    Answered by ``RevisionsCompared`` or ``ComparisonFailed`` with the same number.
    """

    comparison: int
    kind: str


class RecordEvent(Command, frozen=True):
    """Record a Kubernetes Event; answered by ``EventRecorded`` or ``RecordFailed`` with the same token."""

    token: int
    record: EventRecord
