"""The binder's core: it binds the pods of claims, writes their outcomes, and reports them to users."""

from collections.abc import Sequence, Set

from deviceshare.conf import DEVICES, SCHEDULER, EffectiveConfiguration
from deviceshare.model import ADMITTED, PENDING, REJECTED, ConfigFact, Explanation
from deviceshare_bus.cores.core import (
    CaughtUp,
    Command,
    Count,
    Event,
    Log,
    Now,
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
from deviceshare_bus.messages.subjects import Stream
from deviceshare_cluster.interface import BindState

from deviceshare_binder.core import events
from deviceshare_binder.core.bind_answers import ANSWERED, Answer
from deviceshare_binder.core.claims import ClaimBinder
from deviceshare_binder.core.cluster_writes import ClusterWrites
from deviceshare_binder.core.commands import Annotate, ClaimRequest, CreateQueue, EvictPod, Nominate, SetPodCondition
from deviceshare_binder.core.groups import Groups
from deviceshare_binder.core.plugin_handoff import PATIENCE
from deviceshare_binder.core.queues import Charges
from deviceshare_binder.core.reporting import Reporting
from deviceshare_binder.core.reports import Reports
from deviceshare_binder.core.step_records import StepRecords
from deviceshare_binder.core.system_queues import SystemQueues

REQUESTS = 64
"""Bindings, reads and locks that may be in flight."""
REPORTS_PER_SECOND = 200.0


class BinderCore:
    """The state machine of the binder (:class:`deviceshare_bus.cores.core.Core`).

    Args:
        limit: how many bindings, reads and locks may be in flight.
        keys: signing keys (:mod:`deviceshare.model.signatures`).
        patience: the seconds that a device plugin has to serve a pod.
        reports_per_second: how many reports about pods are written per second, and as many statuses.
        division: which nodes this replica binds pods to, and which one reports; None for all.
        check: whether claims are compared with their pods' requests and their nodes.
        dry_run: whether pods are left to another scheduler, whose choices are compared with the claims.
    """

    def __init__(
        self,
        limit: int = REQUESTS,
        keys: Sequence[bytes] = (),
        patience: float = PATIENCE,
        reports_per_second: float = REPORTS_PER_SECOND,
        *,
        division: Division | None = None,
        check: bool = True,
        dry_run: bool = False,
    ) -> None:
        self._division = division or Division(Stream.OUTCOME, "binder", "", "")
        self._claims = ClaimBinder(
            limit, keys, patience, self._owns_partition, self._claimed, check=check, dry_run=dry_run
        )
        self._reports = Reports(self._claims.facts.pods)
        self._groups = Groups(keys)
        self._records = StepRecords(self._claims, self._reports, self._groups)
        self._charges = Charges()
        self._conf = EffectiveConfiguration()
        self._writes = ClusterWrites()
        self._reporting = Reporting(self._reports, self._groups, self._writes, reports_per_second)
        self._system_queues = SystemQueues()
        self._unread: set[str] = {Stream.LEDGER, Stream.OUTCOME, Stream.CLUSTER, Stream.EXPLAIN}
        """Streams that have not been read to their end yet."""
        self._reported = self._owns_reports
        """Whether this replica wrote the reports about waiting pods and the statuses at the last tick."""
        self._refused: set[type[Command]] = set()
        """Kinds of commands of which the cluster refused the last one for good."""

    @property
    def open_work(self) -> int:
        """Claims without an outcome, outcomes that are not written, reports that are not written."""
        reports = self._reports.waiting + self._groups.waiting if self._owns_reports else 0
        return self._claims.open_work + reports + self._writes.open + (not self._division.steady)

    @property
    def obstacle(self) -> str:
        """Why another replica keeps this one from its work, '' if none does."""
        return self._division.obstacle

    @property
    def detail(self) -> dict[str, int]:
        """Numbers for the service's status."""
        return {
            "in_flight": self._claims.in_flight,
            "reports": self._reports.waiting,
            "stuck": self._claims.handoffs.stuck,
        }

    def knows_outcomes(self, message: Message) -> bool:
        """Return whether a message of OUTCOME, or a newer one of its subject, has been applied."""
        return self._claims.outcomes.knows(message.subject, message.sequence)

    def next_due(self, now: Now) -> float | None:
        """Return the monotonic time of the next tick that is needed without further events, None for never."""
        due = (
            self._division.due(active=self._claims.active) if self._claims.started else None,
            self._claims.next_due(),
            self._claims.outcomes.next_due(),
            self._reporting.next_due(owned=self._owns_reports),
            self._writes.next_due(),
            self._system_queues.next_due(self._missing_queues()),
        )
        return min((at for at in due if at is not None), default=None)

    def handle(self, event: Event, now: Now) -> list[Command]:
        """Apply an event and return the commands that follow from it."""
        self._claims.now = now
        match event:
            case Tick():
                return self._tick(now)
            case events.SchedulerConfigured(config=config):
                return self._configure(SCHEDULER, config)
            case events.DevicesConfigured(config=config):
                return self._configure(DEVICES, config)
            case events.OtherPodChanged(uid=uid, pod=pod):
                self._claims.other_pod(uid, pod)
                return []
            case events.ClusterWritten():
                return self._written(event, now)
            case events.ClusterFailed():
                return self._failed(event, now)
            case events.EvictAnswered(command=command, state=state, reason=reason):
                self._claims.evictions.answered(command, state, reason, now)
                return []
            case Stopping():
                return self._stop(now)
            case LeaseReceived() | FenceReceived():
                return self._division.handle(event, now)
            case Written() | WriteConflict() | WriteUnknown() | WriteRefused():
                return self._claims.outcomes.answered(event, now.monotonic)
        return self._apply(event, now)

    def _apply(self, event: Event, now: Now) -> list[Command]:
        """Apply an event whose commands follow with the next tick; except for counters, and bindings in a chain."""
        match event:
            case events.PodChanged():
                self._pod(event)
            case events.NodeChanged(name=name, node=node):
                self._claims.node(name, node)
            case events.PodGroupChanged(key=key, group=group):
                self._groups.group(key, group)
            case events.QueueChanged(name=name, queue=queue):
                self._groups.queue(name, queue)
            case events.LedgerChanged(node=name, claims=claims, evictions=evictions):
                self._claims.ledger(name, claims, evictions)
            case events.OutcomesChanged():
                self._claims.outcomes_changed(event)
            case events.Explained(explanation=explanation):
                self._explained(explanation)
            case events.VolumeClaimChanged() | events.VolumeChanged() | events.DeviceObjectChanged():
                self._used(event)
            case ReadBack(subject=subject, sequence=sequence):
                self._claims.read_back(subject, sequence)
            case Unreadable():
                self._claims.invalid(event)
            case CaughtUp(stream=stream):
                self._caught_up(stream)
            case (
                events.BindAnswered()
                | events.PodRead()
                | events.LockAnswered()
                | events.VolumesRequested()
                | events.ClaimsAllocated()
                | events.ClaimsReleased()
            ):
                return self._answered(event, now)
        return []

    def _used(self, event: events.VolumeClaimChanged | events.VolumeChanged | events.DeviceObjectChanged) -> None:
        match event:
            case events.VolumeClaimChanged(key=key, claim=claim):
                self._claims.volume_claim(key, claim)
            case events.VolumeChanged(name=name, volume=volume):
                self._claims.volume(name, volume)
            case events.DeviceObjectChanged(subject=subject, fact=fact):
                self._claims.device_object(subject, fact)

    def _answered(self, event: Answer, now: Now) -> list[Command]:
        """Apply the answer to a request for a claim; continue at once with the claims that waited for this binding.

        Nodes that have come from another replica are taken over first, with the next tick.
        """
        self._refused -= ANSWERED[type(event)]
        self._claims.answered(event)
        if not isinstance(event, events.BindAnswered):
            return []
        conflicts = [Count("bind_conflicts")] if event.state is BindState.CHANGED else []
        may_begin = not self._division.changed and self._division.may_work(now.monotonic)
        return [*conflicts, *(self._claims.chain() if may_begin else ())]

    # Messages of the bus

    def _caught_up(self, stream: str) -> None:
        needed = self._unread - {Stream.EXPLAIN}
        self._unread.discard(stream)
        if needed == {stream}:
            self._claims.start()

    def _pod(self, event: events.PodChanged) -> None:
        uid, pod, before = event.uid, event.pod, self._claims.facts.pods.get(event.uid)
        if before is not None and pod is not None and (before.namespace, before.name) != (pod.namespace, pod.name):
            self._pod(events.PodChanged(uid, None))  # another pod has its uid now
        self._claims.pod(uid, pod)
        self._reports.pod(uid, pod)
        self._groups.pod(uid, pod)
        if event.usage is None:
            self._charges.drop(uid)
            self._groups.charge(uid, ())
        else:
            self._groups.charge(uid, self._charges.put(uid, event.usage))

    def _configure(self, name: str, config: ConfigFact | None) -> list[Command]:
        if config is not None:
            self._conf.take(config)
        else:
            self._conf.drop(name)
        self._claims.facts.configure(self._conf.conf)
        self._claims.locks.every_family = self._conf.conf.node_lock
        for uid, amounts in self._charges.configure(self._conf.conf).items():
            self._groups.charge(uid, amounts)
        return [Log("warning", str(problem))] if (problem := self._conf.problems.get(name)) else []

    def _explained(self, explanation: Explanation) -> None:
        if explanation.decision in (ADMITTED, REJECTED):
            self._groups.decided(explanation)
            return
        self._reports.explained(explanation, event=Stream.EXPLAIN not in self._unread)
        if explanation.decision == PENDING:
            self._groups.explained(explanation)

    def _claimed(self, before: Set[str], after: Set[str]) -> None:
        self._reports.claimed(before, after)

    def _missing_queues(self) -> list[str]:
        """Return the missing Queues of the system, none before the cluster's facts have been read."""
        return [] if Stream.CLUSTER in self._unread or not self._owns_reports else self._groups.missing_queues

    # Replicas

    def _owns_partition(self, number: int) -> bool:
        """Return whether this replica binds pods to the nodes of a partition."""
        return self._division.owns(f"partition {number}")

    @property
    def _owns_reports(self) -> bool:
        """Whether this replica writes statuses of PodGroups and Queues, missing Queues, and why pods wait."""
        return self._division.owns("reports")

    def _divide(self, now: Now) -> list[Command]:
        """Renew the lease; begin with the nodes that others have left, and stop with those that others own."""
        if not self._claims.started:
            return []
        idle = not self._division.outdated or self._claims.completed_others
        out = self._division.tick(now, idle=idle, active=self._claims.active)
        if self._division.changed:
            self._division.changed = False
            self._claims.shards_changed()
            self._owner_of_reports_changed()
        return out

    def _owner_of_reports_changed(self) -> None:
        """Leave the reports about waiting pods and the statuses to another replica, or take them over."""
        if self._reported == self._owns_reports:
            return
        self._reported = self._owns_reports
        if self._reported:
            self._reports.take_over()
            self._groups.forget_reported()
        else:
            self._reports.hand_over()

    # Time

    def _tick(self, now: Now) -> list[Command]:
        """Begin what is due: requests for claims, writes of outcomes, reports."""
        out = self._divide(now)
        requests, after = self._steps(now, may_begin=self._division.may_work(now.monotonic))
        self._reporting.tick(now, busy=self._claims.in_flight > 0, owned=self._owns_reports)
        if dropped := self._reports.take_dropped():
            after.append(Count("cluster_writes_dropped", dropped))
        return [
            *out,
            *requests,
            *self._claims.outcomes.writes(now.monotonic),
            *self._writes.take(now.monotonic),
            *self._system_queues.tick(self._missing_queues(), now.monotonic),
            *after,
        ]

    def _steps(self, now: Now, *, may_begin: bool) -> tuple[list[Command], list[Command]]:
        """Return the requests of claims that are due, and the records of what has happened to claims."""
        requests: list[Command] = []
        records: list[Command] = []
        for step in self._claims.tick(may_begin=may_begin):
            match step:
                case Annotate() | Nominate():
                    self._writes.add(step)
                case _ if isinstance(step, ClaimRequest | EvictPod):
                    requests.append(step)
                case _:
                    records += self._records.of(step, now)
        return requests, records

    def _stop(self, now: Now) -> list[Command]:
        """Return the last commands: what this replica has done is known to it alone. Nothing is begun."""
        _, records = self._steps(now, may_begin=False)
        outcomes, lease = self._claims.outcomes.flush(now.monotonic), self._division.handle(Stopping(), now)
        return [*outcomes, *lease, *records, *self._reporting.last(now)]

    # Answers of the cluster

    def _written(self, event: events.ClusterWritten, now: Now) -> list[Command]:
        self._refused.discard(type(event.command))
        if isinstance(event.command, CreateQueue):
            return self._system_queues.created(event.command.name, now.monotonic)
        if isinstance(event.command, SetPodCondition) and event.pod is not None and not event.pod.node:
            self._claims.facts.read(event.command.uid, event.pod.revision, event.pod.annotations)
        self._writes.written(event.command)
        self._reporting.answered(event.command.token, now)
        return []

    def _failed(self, event: events.ClusterFailed, now: Now) -> list[Command]:
        """A command failed: it is tried again later, or given up. What the cluster refuses for good is reported."""
        command, final = event.command, event.final
        out: list[Command] = [Count("cluster_errors")]
        if isinstance(command, CreateQueue):
            return out + self._system_queues.failed(command.name, event.message, now.monotonic)
        out.append(Log("warning" if final and type(command) not in self._refused else "debug", event.message))
        if final:
            self._refused.add(type(command))
        if isinstance(command, EvictPod):
            self._claims.evictions.failed(command, event.message, now, event.jitter, final=final)
            return out
        if isinstance(command, ClaimRequest):
            refused = self._claims.failed(command.claim, event.jitter, final=final)
            if refused is not None:
                self._reports.refused(refused, event.message)
            return out
        given_up = self._writes.failed(command, now.monotonic, event.jitter, final=final)
        self._reporting.answered(command.token, now)
        for each in given_up:
            self._reporting.given_up(each)
            out.append(Count("cluster_writes_dropped"))
            if not final:
                out.append(Log("warning", f"dropped a write after too many failures: {event.message}"))
        return out
