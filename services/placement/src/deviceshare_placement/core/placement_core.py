"""The state machine of placement.

Placement adds a claim to a node's ledger when it decides; from then on the claim holds its devices until it leaves the
ledger (:mod:`.ledgers`). A tick decides every group that may be decided, folds all changes of a node into one ledger,
and the next decision waits until the result of every write is known. A pod that fitted nowhere is decided again when
an event may have made room for it, never by polling.
"""

from collections.abc import Collection
from itertools import islice
from math import inf

from deviceshare.model import REFUSED, NodeLedger, NodeOutcomes, Now, Synced
from deviceshare.scheduler import Scheduler
from deviceshare_bus.cores.core import (
    CaughtUp,
    Command,
    Count,
    Event,
    Log,
    Read,
    ReadBack,
    RecordStep,
    Stopping,
    Tick,
    Unreadable,
    WriteConflict,
    WriteRefused,
    WriteUnknown,
    Written,
)
from deviceshare_bus.cores.division import Division, FenceReceived, LeaseReceived
from deviceshare_bus.messages.codec import PREEMPTION_ATTEMPTS, RECONCILED, WASTED_VICTIMS, Message
from deviceshare_bus.messages.subjects import Stream, address
from deviceshare_bus.messages.subjects import fact as fact_subject
from deviceshare_bus.messages.subjects import ledger as subject_of
from deviceshare_bus.messages.subjects import outcome as outcome_subject

from deviceshare_placement.core import publishing
from deviceshare_placement.core.borrowing import Borrowing
from deviceshare_placement.core.claim_traces import ClaimTraces, count_attempts
from deviceshare_placement.core.contention import Contention
from deviceshare_placement.core.events import FactReceived, LedgerReceived, OutcomesReceived
from deviceshare_placement.core.facts import Facts
from deviceshare_placement.core.ledger_writes import LedgerWrites
from deviceshare_placement.core.ledgers import BOUND_GRACE, Ledgers
from deviceshare_placement.core.nomination_reports import NominationReports
from deviceshare_placement.core.own_work import OwnWork

CLAIM_WITHOUT_POD, CLAIM_NOT_BOUND, CLAIM_WITHOUT_ROOM = "claim without pod", "claim not bound", "claim without room"
"""Differences from the cluster that are repaired and counted: a claim whose pod is unknown, a claim with the outcome
bound whose pod is not bound, and a claim that is not bound yet on a node that others have filled."""

_POD_SUBJECT = fact_subject("pod", "")


class PlacementCore:
    """Decides which node and which devices each pod gets. One instance lives as long as an epoch of the bus.

    Args:
        instance: the name of the process, the ``decided_by`` of claims and explanations.
        claim_prefix: begins the id of each claim. No other core, of whatever process and epoch, has the same one: an
            outcome that survives the loss of LEDGER must not answer for another claim. It is also the id under which
            this replica holds its lease.
        divided: whether replicas divide the work; else this one does all of it.
    """

    def __init__(self, instance: str, claim_prefix: str, *, divided: bool = False) -> None:
        self.scheduler = Scheduler(instance)
        self._division = Division(Stream.LEDGER, "placement", instance, claim_prefix if divided else "")
        self._work = OwnWork(self.scheduler, self._division)
        self._unread = {Stream.CLUSTER, Stream.LEDGER, Stream.OUTCOME}
        """Streams that have not been read to their end: nothing is decided before."""
        self._synced = False
        """Whether the whole cluster has been on the bus once: nothing is decided before."""
        self._traces = ClaimTraces(instance)
        self._ledgers = Ledgers(self.scheduler, self._traces, self._work.owns_node)
        self._nomination_reports = NominationReports(self.scheduler, self._ledgers.nominations)
        self._borrowing = Borrowing(self.scheduler, self._work.owns_queue)
        self._contention = Contention(self._work.level)
        self._facts = Facts(self.scheduler, self._ledgers, self._work)
        self._writes = LedgerWrites(
            self.scheduler, self._ledgers, self._work, self._contention, self._division, self._facts.readable,
            instance, claim_prefix,
        )  # fmt: skip
        self._explanations_expire = False
        """Whether the explanations of deleted pods were made to expire after the start."""
        self._undecided = True
        """Whether an event since the last round of decisions may change what is decided. Renewals of leases do not."""
        self._facts_read: dict[str, int] = {}
        """The sequences of facts that were read before the reader of CLUSTER delivered them; bounded by the pods."""

    def handle(self, event: Event, now: Now) -> list[Command]:
        """Apply an event and return the commands that follow from it."""
        self._undecided = self._undecided or not isinstance(event, Tick | LeaseReceived)
        match event:
            case FactReceived(subject=subject, fact=fact, sequence=sequence):
                if isinstance(fact, Synced):
                    self._synced = True
                    self._ledgers.synced(now.monotonic)
                self._facts_read.pop(subject, None)
                if subject.removeprefix(_POD_SUBJECT) not in self._ledgers.asked:
                    self._division.read(sequence)  # else it may have been read ahead of the facts before it
                return self._facts.apply(subject, fact, sequence, now)
            case LedgerReceived(node=node, sequence=sequence, ledger=ledger):
                return self._receive_ledger(node, sequence, ledger, now)
            case LeaseReceived() | FenceReceived():
                return self._division.handle(event, now)
            case OutcomesReceived(node=node, outcomes=outcomes):
                return self._receive_outcomes(node, outcomes, now)
            case Tick():
                return self._tick(now)
            case Written() | WriteConflict() | WriteUnknown() | WriteRefused():
                return self._writes.complete(event, now)
            case ReadBack(subject=subject, sequence=sequence):
                return self._read_back(subject, sequence, now)
            case Unreadable(subject=subject, sequence=sequence):
                if event.stream == Stream.LEDGER:
                    self._writes.seen(subject, sequence)
                self._facts.invalid(event)
            case CaughtUp(stream=stream):
                self._catch_up(stream)
            case Stopping():
                return [*self._traces.take(), *self._division.leave()]
        return []

    def knows_ledger(self, message: Message) -> bool:
        """Return whether this ledger of a node, or a later one, has been applied."""
        return self._writes.knows(message.subject, message.sequence)

    def knows_fact(self, message: Message) -> bool:
        """Return whether this fact, or a later one of its subject, has been read before its delivery."""
        return message.sequence <= self._facts_read.get(message.subject, 0)

    # Readiness

    @property
    def _knows_all(self) -> bool:
        """Whether the inputs of a decision are known: the content of the bus, and the result of each write."""
        return not self._unread and self._synced and not self._writes.open

    def _may_decide(self, now: float) -> bool:
        return self._knows_all and now >= self._writes.resume_at and self._division.may_work(now)

    @property
    def open_work(self) -> int:
        """How much is pending or could be done now: decisions, writes, retries, unpublished explanations,
        nominations, which end when their pods have gone or are late.

        At least 1 before the cluster is known.
        """
        return (
            (bool(self._unread) or not self._synced or not self._division.steady)
            + self._writes.open
            + sum(map(self._work.owns_node, self._ledgers.due))
            + len(self._ledgers.orphans)
            + len(self._ledgers.nominations.own())
            + self.scheduler.open_work
        )

    @property
    def owns_expiry(self) -> bool:
        """Whether this replica removes explanations of deleted objects."""
        return self._work.owns_expiry

    @property
    def obstacle(self) -> str:
        """Why another replica keeps this one from its work, '' if none does."""
        return self._division.obstacle

    def next_due(self, now: Now) -> float | None:
        """Return the monotonic time at which a tick has something to do without further events, None for never."""
        times = self.scheduler.reports_due()
        if self._unread or not self._synced:
            return min(times, default=None)
        work = self._work_due(now)
        if (renewal := self._division.due(active=self._active(work, now.monotonic))) is not None:
            times.append(renewal)
        if self._knows_all and now.monotonic < self._writes.resume_at:
            times.append(self._writes.resume_at)
        elif self._knows_all:
            # What was due while this replica may not work waits for its lease, which is an event.
            may_work = self._division.may_work(now.monotonic)
            times += (due for due in work if may_work or due > now.monotonic)
        return min(times) if times else None

    def _work_due(self, now: Now) -> list[float]:
        """Return the monotonic times at which decisions or repairs are due without further events."""
        return [
            *self.scheduler.rounds_due(now),
            *self._borrowing.due(),
            *self._ledgers.orphans_due(),
            *self._ledgers.nominations.due(self._facts.readable),
            *(since + BOUND_GRACE for _, since in islice(self._ledgers.unconfirmed.values(), 1)),
            *(
                due
                for node in self._ledgers.due
                if self._work.owns_node(node) and (due := self.scheduler.ledger(node).retry_at)
            ),
        ]

    def _active(self, work: Collection[float], now: float) -> bool:
        """Return whether there is work that needs a lease; ``work``: see :meth:`_work_due`."""
        return min(work, default=inf) <= now or self.open_work > 0

    def _catch_up(self, stream: str) -> None:
        """Begin to decide when all streams have been read."""
        self._unread.discard(Stream(stream))
        if self._unread:
            return
        self._work.caught_up()
        self.scheduler.begin()
        self._traces.start()

    # Ledgers and outcomes

    def _receive_ledger(self, node: str, sequence: int, ledger: NodeLedger, now: Now) -> list[Command]:
        subject = subject_of(node)
        if not self._writes.seen(subject, sequence):
            return []
        if why := self._ledgers.contradiction(node, ledger.claims):
            self._facts.invalid(Unreadable(Stream.LEDGER, subject, sequence, why))
            return [Log("error", f"the ledger of {node} is not valid: {why}", {"node": node}), Count("ledgers_invalid")]
        self._ledgers.enter(ledger, now)
        self._facts.valid(subject)
        if self._division.others:
            self._contention.used(node, now.monotonic)
        if ledger.gone:
            self._writes.forget(node)
        return []

    def _read_back(self, subject: str, sequence: int, now: Now) -> list[Command]:
        where = address(subject)
        if where is None or where.kind != "ledger":
            if sequence:
                self._facts_read[subject] = sequence
            else:
                self._facts.valid(subject)  # it was deleted
            if where is None or where.kind != "pod":
                return []
            self._ledgers.pod_read(where.key, now.monotonic, exists=bool(sequence))
            node = self._ledgers.orphan_read(where.key, now.monotonic, exists=bool(sequence))
            return [Count(f"{RECONCILED}{CLAIM_WITHOUT_POD}")] if node and self._work.owns_node(node) else []
        if not sequence and not self._facts.readable(where.key):
            self._ledgers.enter(NodeLedger(node=where.key), now)
            self._facts.valid(subject)
        return self._writes.read_back(where.key, sequence, now)

    def _receive_outcomes(self, node: str, outcomes: NodeOutcomes, now: Now) -> list[Command]:
        self._facts.valid(outcome_subject(node))
        commands: list[Command] = []
        for outcome in self._ledgers.outcomes(node, outcomes, now.monotonic):
            record = self.scheduler.pods.get(outcome.uid)
            if record is None:
                continue
            self.scheduler.refuse(outcome.uid, outcome.reason if outcome.state == REFUSED else "", now.monotonic)
            if not self._work.owns(self.scheduler.group(record.fact.group)):
                continue
            commands += count_attempts("error", outcome.state == REFUSED)
            step = f"claim {outcome.state}"
            commands.append(RecordStep(outcome.uid, record.fact.ref, step, node, outcome.reason))
        return commands

    # Deciding

    def _tick(self, now: Now) -> list[Command]:
        """Repair, decide, write the new claims, and report why the other pods wait."""
        if self._unread or not self._synced:
            return []
        work = self._work_due(now)
        active = self._active(work, now.monotonic)
        commands = [*self._traces.take(), *self._division.tick(now, idle=not self._writes.open, active=active)]
        if self._division.changed:
            self._shards_changed()
            commands += self._facts.take_ended()
        if self._may_decide(now.monotonic):
            self._work.split_large(now.monotonic)
            if self._undecided or min(work, default=inf) <= now.monotonic:
                commands += self._decide(now)
        return commands + self._report_waiting(now.monotonic)

    def _decide(self, now: Now) -> list[Command]:
        """Repair, decide, and write the new claims."""
        commands: list[Command] = []
        if not self._explanations_expire and self._work.owns_expiry:
            self._explanations_expire = True
            commands.append(publishing.expire_others(self.scheduler))
        commands += self._reconcile(now.monotonic)
        nominations = self._ledgers.nominations.changes(now.monotonic, self._writes.may_write(now.monotonic))
        commands += (Read(Stream.CLUSTER, fact_subject("pod", uid)) for uid in self._ledgers.take_unread(now.monotonic))
        commands += self._nomination_reports.take(now)
        self._borrowing.update(now.monotonic, shared=self._work.others > 0)
        decided = self.scheduler.round(now, self._work, self._contention.paused(now.monotonic))
        preemption = self.scheduler.next_preemption(now, self._work)
        if attempts := self.scheduler.preemption_attempts:
            commands.append(Count(PREEMPTION_ATTEMPTS, attempts))
        if wasted := self._ledgers.nominations.take_wasted():
            commands.append(Count(WASTED_VICTIMS, wasted))
        commands += self._writes.write(decided, now, preemption, nominations)
        commands += count_attempts("unschedulable", decided.unplaced)
        commands += self._writes.expire(now.monotonic)
        commands += map(publishing.publish, decided.of_groups)
        self._undecided = bool(decided.order) or preemption is not None  # there may be more to place
        return commands

    def _shards_changed(self) -> None:
        """Decide what belongs to this replica now, and nothing else."""
        self._division.changed = False
        self._undecided = True
        self._work.prefer_nodes()
        self.scheduler.decide_all()
        for group in self.scheduler.groups.values():
            if not self._work.owns(group):
                self.scheduler.leave(group, self._work)
        if self._division.took_over:
            # The member that has ended may not have let explanations of deleted objects expire.
            self._division.took_over = self._explanations_expire = False

    def _reconcile(self, now: float) -> list[Command]:
        """Repair and count what differs between the ledgers and the cluster."""
        reads = [Read(Stream.CLUSTER, fact_subject("pod", uid)) for uid in self._ledgers.take_orphans(now)]
        repaired = [CLAIM_NOT_BOUND] * self._ledgers.withdraw_unconfirmed(now, self._work.owns_node)
        for node, claim in self.scheduler.take_overcommitted():
            self._ledgers.withdraw(node, claim.id)
            repaired += [CLAIM_WITHOUT_ROOM] * self._work.owns_node(node)
        return [*reads, *(Count(f"{RECONCILED}{what}") for what in repaired)]

    # Explanations

    def _report_waiting(self, now: float) -> list[Command]:
        commands: list[Command] = []
        for each in self.scheduler.reports(now):
            ref = self.scheduler.pods[each.uid].fact.ref
            commands += (publishing.publish(each), RecordStep(each.uid, ref, "pending", message=each.message))
        return commands
