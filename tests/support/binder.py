"""Drives the binder's core in tests: facts, ledgers and answers as events; commands as the result of ticks."""

from collections.abc import Iterable, Mapping
from typing import Any

from deviceshare.model import PENDING, Claim, Eviction, Explanation, NodeOutcomes, Outcome
from deviceshare_binder.core import BinderCore
from deviceshare_binder.core.commands import (
    Annotate,
    BindPod,
    BindVolumes,
    ClaimRequest,
    ClusterWrite,
    CreateQueue,
    EvictPod,
    FencePod,
    LockNode,
    Nominate,
    ReadPod,
    RecordEvent,
    SetPodCondition,
    SetStatus,
)
from deviceshare_binder.core.events import (
    BindAnswered,
    ClusterFailed,
    ClusterWritten,
    EvictAnswered,
    Explained,
    LedgerChanged,
    LockAnswered,
    NodeChanged,
    OutcomesChanged,
    PodChanged,
    PodRead,
    QueueChanged,
)
from deviceshare_binder.core.views import NodeView, PodView, QueueView
from deviceshare_bus.cores.core import (
    CaughtUp,
    Command,
    Count,
    Event,
    Log,
    Now,
    Read,
    ReadBack,
    Tick,
    Write,
    WriteConflict,
    WriteRefused,
    WriteUnknown,
    Written,
)
from deviceshare_bus.messages.codec import Message
from deviceshare_bus.messages.subjects import Stream, outcome
from deviceshare_cluster.eviction import EvictState
from deviceshare_cluster.interface import BindState
from msgspec.structs import replace

REPORTS = SetPodCondition | Nominate | RecordEvent | SetStatus | CreateQueue
NOTES = Count | Log


class BinderDriver:
    """A core whose two clocks show the same time, and a cluster that accepts annotations and reports at once.

    Without ``accept`` the cluster does not answer them; see :meth:`report_failed`.
    ``now`` is the time of events without a time of their own. ``reports`` and ``notes`` collect the reports to the
    cluster, and the counters and log lines. Further arguments are those of :class:`BinderCore`.
    """

    def __init__(self, now: float = 0.0, *, accept: bool = True, check: bool = False, **arguments: Any) -> None:
        self.core = BinderCore(check=check, **arguments)
        self.now = now
        self.accept = accept
        self.reports: list[REPORTS] = []
        self.notes: list[NOTES] = []
        self._requests: dict[str, ClaimRequest] = {}
        self._tokens: dict[str, int] = {}
        self._chained: list[Command] = []
        """Requests that followed from answers to bindings."""
        for name in ("root", "default"):
            self.handle(QueueChanged(name, QueueView(name=name, state="Open")))

    @property
    def open_work(self) -> int:
        """The core's open work."""
        return self.core.open_work

    @property
    def detail(self) -> dict[str, int]:
        """The core's numbers for the service's status."""
        return self.core.detail

    def next_due(self) -> float | None:
        """Return the time of the core's next timer."""
        return self.core.next_due(Now(self.now, self.now))

    def handle(self, event: Event, now: float | None = None) -> list[Command]:
        """Pass an event to the core and return its commands except reports and notes."""
        self.now = self.now if now is None else now
        commands = self.core.handle(event, Now(self.now, self.now))
        self.reports += [each for each in commands if isinstance(each, REPORTS)]
        self.notes += [each for each in commands if isinstance(each, NOTES)]
        for command in commands:
            match command:
                case BindPod() | ReadPod() | FencePod() | LockNode() | BindVolumes():
                    self._requests[command.claim] = command
                case Write(token=token, writes=(write,)):
                    self._tokens[write.subject] = token
                case Annotate() | SetPodCondition() | Nominate() | RecordEvent() | SetStatus() | CreateQueue() if (
                    self.accept
                ):
                    self.handle(ClusterWritten(command))
        return [each for each in commands if not isinstance(each, REPORTS | NOTES)]

    def take(self, now: float) -> list[Command]:
        """Return the commands of a tick, after the requests that followed from answers since the last one."""
        chained, self._chained = self._chained, []
        return [*chained, *self.handle(Tick(), now)]

    def written_reports(self) -> list[REPORTS]:
        """Let time pass until nothing remains to be reported; return all reports since the last call."""
        while self.core.detail["reports"]:
            self.take(self.now + 0.05)
        reports, self.reports = self.reports, []
        return reports

    # Messages of the bus

    def start(self) -> None:
        """Report that all streams have been read."""
        for stream in (Stream.CLUSTER, Stream.LEDGER, Stream.OUTCOME, Stream.EXPLAIN):
            self.handle(CaughtUp(stream))

    def pod(self, uid: str, view: PodView | None, now: float | None = None) -> None:
        """Deliver a pod's fact, at revision 1 if it has none."""
        view = replace(view, revision="1") if view is not None and not view.revision else view
        self.handle(PodChanged(uid, view), now)

    def node(self, name: str, view: NodeView | None) -> None:
        """Deliver a node's fact."""
        self.handle(NodeChanged(name, view))

    def ledger(self, name: str, claims: Iterable[Claim], evictions: Iterable[Eviction] = ()) -> None:
        """Deliver a node's claims and evictions."""
        self.handle(LedgerChanged(name, tuple(claims), tuple(evictions)))

    def outcomes(self, name: str, sequence: int, outcomes: Mapping[str, Outcome]) -> None:
        """Deliver a node's outcomes, unless there are none."""
        if sequence and not self.core.knows_outcomes(Message(outcome(name), sequence, b"")):
            self.handle(OutcomesChanged(name, sequence, tuple(outcomes.values())))

    def explain(self, uid: str, message: str, decision: str = PENDING) -> None:
        """Deliver the explanation of a decision about a pod."""
        self.handle(
            Explained(Explanation(uid=uid, namespace="default", name=uid, at=0.0, decision=decision, message=message))
        )

    # Answers of the bus

    def outcomes_written(self, name: str, sequence: int) -> None:
        """Acknowledge the write of a node's outcomes."""
        self.handle(Written(self._tokens.pop(outcome(name)), sequence))

    def outcomes_refused(self, name: str, reason: str) -> None:
        """Refuse the write of a node's outcomes."""
        self.handle(WriteRefused(self._tokens.pop(outcome(name)), reason))

    def outcomes_unclear(self, name: str, *, conflict: bool = False) -> bool:
        """Answer a write with a conflict, or not at all; return whether the core reads the outcomes back."""
        token = self._tokens.pop(outcome(name))
        commands = self.handle(WriteConflict(token) if conflict else WriteUnknown(token))
        return any(isinstance(each, Read) for each in commands)

    def outcomes_read(self, name: str, sequence: int, outcomes: Mapping[str, Outcome]) -> None:
        """Deliver what was read back; sequence 0: nothing."""
        self.outcomes(name, sequence, outcomes)
        self.handle(ReadBack(outcome(name), sequence))

    # Answers of the cluster

    def bind_answered(
        self,
        claim: str,
        state: BindState,
        node: str,
        reason: str,
        now: float,
        annotations: dict[str, str] | None = None,
        revision: str = "",
    ) -> None:
        """Answer a binding."""
        self._chained += self.handle(BindAnswered(claim, state, node, reason, annotations, revision), now)

    def read_answered(
        self, claim: str, node: str | None, now: float, annotations: dict[str, str] | None = None, revision: str = "1"
    ) -> None:
        """Answer a read or a fence."""
        self.handle(PodRead(claim, node, annotations, revision), now)

    def lock_answered(self, claim: str, value: str | None, now: float) -> None:
        """Answer a request for a lock."""
        self.handle(LockAnswered(claim, value), now)

    def failed(self, claim: str, now: float, jitter: float, *, final: bool = False) -> None:
        """Let the request for a claim fail."""
        self.handle(ClusterFailed(self._requests[claim], "forbidden" if final else "no answer", final, jitter), now)

    def evict_answered(self, request: EvictPod, state: EvictState, now: float, reason: str = "") -> None:
        """Answer the request to evict a pod."""
        self.handle(EvictAnswered(request, state, reason), now)

    def evict_failed(self, request: EvictPod, now: float, *, final: bool = False) -> None:
        """Let the request to evict a pod fail."""
        self.handle(ClusterFailed(request, "forbidden" if final else "no answer", final), now)

    def report_failed(self, command: ClusterWrite, *, final: bool = False) -> None:
        """Let an annotation or report fail."""
        self.handle(ClusterFailed(command, "forbidden" if final else "no answer", final))


def messages(commands: Iterable[Command]) -> list[NodeOutcomes]:
    """Return the outcomes that these commands write."""
    return [each.message for write in commands if isinstance(write, Write) for each in write.writes]


def expected(write: Command) -> int | None:
    """Return the sequence that a write of outcomes expects."""
    assert isinstance(write, Write)
    return write.writes[0].expected
