"""The state machine of inventory: applies changes of the cluster and answers of the bus, and writes CLUSTER."""

from collections import Counter
from collections.abc import Sequence

from deviceshare.model import REFUSED_RETRY, AnyFact, Backoff, ConfigFact, Synced
from deviceshare_bus.cores.core import (
    CaughtUp,
    Command,
    Count,
    Event,
    Log,
    Now,
    PutLatest,
    ReadBack,
    Stopping,
    Tick,
    Unreadable,
    WriteConflict,
    WriteRefused,
    WriteUnknown,
    Written,
)
from deviceshare_bus.cores.division import Division, FenceReceived, LeaseReceived
from deviceshare_bus.messages.codec import Message
from deviceshare_bus.messages.subjects import FACT_KINDS, SYNCED, Stream, address
from msgspec.structs import replace

from deviceshare_inventory.core import events
from deviceshare_inventory.core.commands import RestartWatch
from deviceshare_inventory.core.comparison import Comparison
from deviceshare_inventory.core.desired_state import WRITES, DesiredState
from deviceshare_inventory.core.fact_builder import FactBuilder
from deviceshare_inventory.core.reports import Reports

RETRY = Backoff(0.1, 5.0)
"""Seconds before a failed watch is started again: doubled with each failure, up to twice as long with jitter."""


class InventoryCore:
    """The state of inventory.

    The bus is read first; when it is caught up, a watch of the cluster starts. The watch delivers all objects, then
    changes. ``cluster.synced`` is written when all facts of a list are acknowledged.

    Args:
        schedulers: the values of ``spec.schedulerName`` that deviceshare serves.
        file: the scheduler's configuration given at start, None to read a ConfigMap.
        keys: the signing keys of :mod:`deviceshare.model.signatures`.
        limit: writes in flight, at most.
        jitter: lengthens pauses; a fraction from 0 to 1, different in each process.
        division: whether this replica writes CLUSTER, or stands by; None: it is the only one.
    """

    def __init__(
        self,
        schedulers: frozenset[str],
        file: ConfigFact | None = None,
        *,
        keys: Sequence[bytes] = (),
        limit: int = WRITES,
        jitter: float = 0.0,
        division: Division | None = None,
    ) -> None:
        self._division = division or Division(Stream.CLUSTER, "inventory", "", "")
        self._jitter = jitter
        self._watches_devices = False
        self._desired = DesiredState(limit)
        self._reports = Reports(jitter)
        self._comparison = Comparison(jitter)
        self._builder = FactBuilder(schedulers, keys, file, self._desired, self._reports)
        self._caught_up = False
        self._watch_failures = Counter[bool]()
        """Failures of the watch since it last delivered something, by whether they were refusals (``final``)."""
        self._watch_due: float | None = None
        """Monotonic time at which a failed watch is started again."""
        self._listed = 0
        """The revision of the last list."""
        self._delivered = 0
        """The newest revision that the watch delivered."""
        self._published = 0
        """The value of ``revision`` when the current list began."""
        self._synced_after: int | None = None
        """``cluster.synced`` is due when no subject that was opened up to this ticket is open."""
        self._synced: Synced | None = None
        """The last ``cluster.synced`` of this instance."""

    @property
    def open_work(self) -> int:
        """How many facts are not on CLUSTER yet and Events not recorded; an incomplete list counts as one."""
        own = self._unpublished + self._reports.open if self._writes else 0
        return own + (self._builder.listing or not self._division.steady)

    @property
    def _unpublished(self) -> int:
        return len(self._desired.open) + (self._synced_after is not None)

    @property
    def _takes_part(self) -> bool:
        """Whether it can write CLUSTER. As long as another replica can, it lists the cluster first."""
        return self._caught_up and (self._listed > 0 or not self._division.others)

    @property
    def _active(self) -> bool:
        """Whether there is something to write or to report."""
        return bool(self._unpublished or self._reports.open or self._desired.retry_due is not None)

    @property
    def _writes(self) -> bool:
        """Whether this replica writes CLUSTER; others follow the cluster and the bus, and are ready to."""
        return self._division.owns("cluster")

    @property
    def revision(self) -> int:
        """The cluster's revision up to which everything that the watch delivered is on CLUSTER and acknowledged."""
        if self._builder.listing:
            return self._published
        return min([self._delivered, *(opened.since - 1 for opened in self._desired.open.values())])

    @property
    def obstacle(self) -> str:
        """Why another replica keeps this one from its work, '' if none does."""
        return self._division.obstacle

    @property
    def detail(self) -> dict[str, int]:
        """Numbers for the service's status."""
        return {"unpublished": len(self._desired.open), "reports": self._reports.open}

    def knows(self, message: Message) -> bool:
        """Return whether this or a later message of its subject has been handled, or is being written."""
        subject = message.subject
        return self._desired.knows(subject, message.sequence) or self._desired.writes(subject, message.data)

    def next_due(self, now: Now) -> float | None:
        """Return the monotonic time of the next tick that is needed without events."""
        times = [self._watch_due, self._comparison.due]
        if self._takes_part:
            times.append(self._division.due(active=self._active))
        if self._writes and self._division.may_work(now.monotonic):
            times += (self._reports.due, self._desired.retry_due)
        return min((due for due in times if due is not None), default=None)

    def handle(self, event: Event, now: Now) -> list[Command]:
        """Apply an event and return the commands that follow from it."""
        match event:
            case Tick():
                return self._act(now)
            case events.ObjectsChanged():
                return self._apply(event, now)
            case events.FactReceived(subject=subject, sequence=sequence, fact=fact):
                self._load(subject, sequence, fact)
            case Unreadable():
                return self._load_unreadable(event)
            case CaughtUp():
                self._caught_up = True
                return [self._restart_watch()]
            case events.WatchStarted():
                self._begin_list()
            case events.WatchFailed():
                return self._schedule_restart(event, now)
            case events.RevisionsCompared() | events.ComparisonFailed():
                return self._comparison.handle(event, now)
            case Written() | WriteConflict() | WriteUnknown() | WriteRefused():
                return self._desired.handle(event, now.monotonic)
            case ReadBack(subject=subject, sequence=sequence):
                self._desired.read_back(subject, sequence)
            case events.EventRecorded() | events.RecordFailed():
                return self._reports.handle(event, now)
            case LeaseReceived() | FenceReceived() | Stopping():
                return self._division.handle(event, now)
            case _:
                raise TypeError(f"inventory has no event {type(event).__name__}")
        return []

    def _act(self, now: Now) -> list[Command]:
        commands: list[Command] = []
        if self._watch_due is not None and self._watch_due <= now.monotonic:
            self._watch_due = None
            commands.append(self._restart_watch())
        if self._builder.uses_devices and not self._watches_devices:
            commands += [Log("info", "a pod uses a ResourceClaim: devices are watched"), self._restart_watch()]
        self._comparison.storage = self._builder.uses_storage
        commands += self._comparison.act(now)
        if self._takes_part:
            # The owner of CLUSTER names newcomers while it writes: a busy one may always have writes in flight.
            idle = self._writes or not self._desired.in_flight
            commands += self._division.tick(now, idle=idle, active=self._active)
        self._division.changed = False
        if not (self._writes and self._division.may_work(now.monotonic)):
            if self._division.others and not self._writes:
                # The replica that writes records and reports the same.
                self._builder.take_steps()
                self._reports.discard(now)
            return commands
        if self._synced_after is not None and self._is_complete(self._synced_after):
            self._synced_after = None
            self._synced = Synced(revision=str(self._listed), at=now.wall, objects=self._desired.objects())
            commands.append(PutLatest(SYNCED, self._synced))
        self._desired.retry(now.monotonic)
        commands += self._desired.take_writes()
        commands += [replace(step, at=now.wall) for step in self._builder.take_steps()]
        return commands + self._reports.act(now)

    def _is_complete(self, ticket: int) -> bool:
        """Return whether CLUSTER holds all objects of a list, which opened subjects up to ``ticket``.

        Facts that the bus refuses are waited for as well: placement would take a bound pod for gone, and give away what
        it has. No user can cause it, since facts are bounded far below the least ``max_payload``.
        """
        return not self._desired.open_before(ticket) and not self._desired.lacking

    def _restart_watch(self) -> RestartWatch:
        self._watches_devices = self._comparison.devices = self._builder.uses_devices
        return RestartWatch(self._watches_devices)

    def _load(self, subject: str, sequence: int, fact: AnyFact) -> None:
        if self._desired.knows(subject, sequence):
            return
        self._desired.load(subject, sequence, fact, foreign=self._caught_up)
        if not self._caught_up:
            self._builder.load(fact)

    def _load_unreadable(self, event: Unreadable) -> list[Command]:
        """Write the fact anew under an invalid message; leave a later version, and subjects that it does not write."""
        where = address(event.subject)
        if event.subject == SYNCED and self._synced is not None and not event.newer and self._writes:
            return [PutLatest(SYNCED, self._synced)]
        if where is None or where.kind not in FACT_KINDS or self._desired.knows(event.subject, event.sequence):
            return []
        if event.newer:
            self._desired.leave(event.subject, event.sequence)
        else:
            self._desired.load(event.subject, event.sequence, None, foreign=self._caught_up)
        return []

    def _begin_list(self) -> None:
        self._published = self.revision
        self._delivered = 0
        self._watch_due = None
        self._builder.begin_list()
        self._comparison.begin_list()

    def _apply(self, event: events.ObjectsChanged, now: Now) -> list[Command]:
        if event.listed is not None and not self._builder.listing:
            # Only a new watch reports when its list is complete.
            return [Log("info", "the cluster was listed again: the watch is restarted"), self._restart_watch()]
        self._watch_failures.clear()
        for change in event.changes:
            self._comparison.apply(change)
            self._builder.apply(change)
            self._delivered = max(self._delivered, change.revision)
        if event.listed is not None:
            self._listed = event.listed
            self._delivered = max(self._delivered, event.listed)
            self._builder.end_list(event.listed)
            if self._builder.ambiguous:
                return [Log("warning", "pods have the same uid: the cluster is listed again"), self._restart_watch()]
            self._comparison.schedule(now)
            self._synced_after = self._desired.ticket
        return []

    def _schedule_restart(self, failed: events.WatchFailed, now: Now) -> list[Command]:
        # Counted apart: a refusal after a failed connection is the first one, and often passes at once.
        failures = self._watch_failures[failed.final]
        pause = (REFUSED_RETRY if failed.final else RETRY).delay(failures, self._jitter)
        self._watch_failures[failed.final] += 1
        self._comparison.stop()
        self._watch_due = now.monotonic + pause
        return [Log("warning", f"the cluster cannot be watched: {failed.error}"), Count("cluster_errors")]
