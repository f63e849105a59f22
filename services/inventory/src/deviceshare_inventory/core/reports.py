"""Reports of what is wrong with objects: a line in the log, a counter and a Kubernetes Event, once per problem.

Events are recorded a few at a time; if problems are found faster, the oldest Events that wait are dropped and counted.
The log has all problems.
"""

from collections import deque
from collections.abc import Collection, Sequence
from itertools import islice
from typing import NamedTuple, Self

from deviceshare.model import DEVICE_PROBLEMS, Backoff, Problem, StorageFact, VolumeClaimFact
from deviceshare.objects import KINDS, STORAGE_KINDS
from deviceshare_bus.cores.core import Command, Count, Log, Now
from deviceshare_cluster.interface import EventRecord

from deviceshare_inventory.core.commands import RecordEvent
from deviceshare_inventory.core.configs import Remark
from deviceshare_inventory.core.events import EventRecorded, RecordFailed

INVALID_ANNOTATION = "InvalidDeviceAnnotation"
DEVICE_PROBLEM = "DeviceProblem"
"""A pod lost its devices, or has a card that is not healthy."""
INVALID_REQUEST = "InvalidRequest"
INVALID_CONFIGURATION = "InvalidConfiguration"
CONFIGURATION_WARNING = "ConfigurationWarning"
NOT_EVALUATED = "NotEvaluated"
"""A field has no effect."""

RECORDING = 4
"""Events that are being recorded at once."""
WAITING = 1000
"""Events that wait, at most."""
TRIES = 5
RETRY = Backoff(0.1, 5.0)
"""Seconds before an Event is tried again; doubled with each try, up to twice as long with jitter."""


SETTLE = 30.0
"""Seconds for which a problem has to last that is over when a device plugin has registered again."""


class Reference(NamedTuple):
    """The object that a report is about; the uid may be unknown."""

    kind: str
    namespace: str
    name: str
    uid: str = ""

    @classmethod
    def of_storage(cls, fact: StorageFact) -> Self:
        """Return the object of a fact about storage."""
        kind = next(name for name in STORAGE_KINDS if KINDS[name].fact is type(fact))
        if isinstance(fact, VolumeClaimFact):
            namespace, _, name = fact.key.partition("/")
            return cls(kind, namespace, name, fact.uid)
        return cls(kind, "", fact.name)


class _Attempt(NamedTuple):
    """An Event that is being recorded; ``due``: the monotonic time of its next try, None while it is in flight."""

    record: EventRecord
    failures: int = 0
    due: float | None = None


class _Deferred(NamedTuple):
    """A remark that may be over soon; ``due``: the monotonic time at which it is reported, None until the next tick."""

    about: Reference | None
    remark: Remark
    due: float | None = None


class Reports:
    """The problems that were reported, by subject, and the Events to record. ``jitter`` is a fraction from 0 to 1."""

    def __init__(self, jitter: float) -> None:
        self._jitter = jitter
        self._reported: dict[str, frozenset[str]] = {}
        self._commands: list[Command] = []
        self._waiting: deque[EventRecord] = deque()
        self._recording: dict[int, _Attempt] = {}
        """By token."""
        self._deferred: dict[str, dict[str, _Deferred]] = {}
        """Remarks of ``_reported`` that are reported later if they still hold, by subject and text."""
        self._fresh: dict[str, None] = {}
        """Subjects of ``_deferred`` that have remarks without a time."""
        self._timers: deque[tuple[float, str]] = deque()
        """When remarks of a subject may be due, the earliest first; the subject may have none any more."""
        self._tokens = 0

    @property
    def open(self) -> int:
        """How many Events are waiting or being recorded."""
        return len(self._waiting) + len(self._recording)

    @property
    def due(self) -> float | None:
        """The monotonic time of the next try, or of the next report that was deferred."""
        tries = [attempt.due for attempt in self._recording.values() if attempt.due is not None]
        return min((*tries, *(at for at, _ in islice(self._timers, 1))), default=None)

    def report(
        self, subject: str, about: Reference | None, remarks: Sequence[Remark], passing: Collection[Remark] = ()
    ) -> None:
        """Report the remarks about a subject that have not been reported yet; these are all that hold now.

        Without an object that they are ``about`` no Event is recorded. Those that are ``passing`` are reported only
        once they have lasted for ``SETTLE``.
        """
        before = self._deferred.pop(subject, {})
        known = self._reported.get(subject, frozenset()) - before.keys()
        deferred = {
            str(remark): before.get(str(remark), _Deferred(about, remark))
            for remark in remarks
            if remark in passing and str(remark) not in known
        }
        if deferred:
            self._deferred[subject] = deferred
            self._fresh[subject] = None
        if remarks:
            self._reported[subject] = frozenset(map(str, remarks))
        else:
            self._reported.pop(subject, None)
        for remark in remarks:
            if str(remark) not in known and str(remark) not in deferred:
                self._report(about, remark)

    def report_defect(self, subject: str, about: Reference, problem: Problem, stack: str) -> None:
        """Report a problem that a defect of deviceshare caused, and log the ``stack`` of its exception once."""
        if str(problem) not in self._reported.get(subject, ()):
            self._commands.append(Log("error", f"{problem}\n{stack}"))
        self.report(subject, about, (problem,))

    def forget(self, subject: str) -> None:
        """Forget a subject: its problems will be reported again."""
        self._reported.pop(subject, None)
        self._deferred.pop(subject, None)

    def keep(self, prefix: str, subjects: Collection[str]) -> None:
        """Forget the subjects with this prefix, except these."""
        for subject in [each for each in self._reported if each.startswith(prefix) and each not in subjects]:
            self.forget(subject)

    def discard(self, now: Now) -> None:
        """Forget what would be reported by now: another replica reports it.

        What may be over soon stays, since the other replica may end before it has reported it.
        """
        self._report_deferred(now.monotonic)
        self._commands.clear()
        self._waiting.clear()

    def act(self, now: Now) -> list[Command]:
        """Return what is to be logged, counted and recorded now."""
        self._report_deferred(now.monotonic)
        commands, self._commands = self._commands, []
        for token, attempt in self._recording.items():
            if attempt.due is not None and attempt.due <= now.monotonic:
                self._recording[token] = attempt._replace(due=None)
                commands.append(RecordEvent(token, attempt.record))
        while self._waiting and len(self._recording) < RECORDING:
            record = self._waiting.popleft()._replace(at=now.wall)
            self._tokens += 1
            self._recording[self._tokens] = _Attempt(record)
            commands.append(RecordEvent(self._tokens, record))
        return commands

    def handle(self, answer: EventRecorded | RecordFailed, now: Now) -> list[Command]:
        """Apply the answer to a :class:`.commands.RecordEvent`."""
        attempt = self._recording.pop(answer.token)
        if isinstance(answer, EventRecorded):
            return []
        record, failures = attempt.record, attempt.failures + 1
        commands: list[Command] = [Count("cluster_errors")]
        if answer.final or failures >= TRIES:
            message = f"no Event could be recorded about {record.kind} {record.namespace}/{record.name}: {answer.error}"
            return [*commands, Log("warning", message), Count("unrecorded_events")]
        due = now.monotonic + RETRY.delay(failures - 1, self._jitter)
        self._recording[answer.token] = _Attempt(record, failures, due)
        return commands

    def _report_deferred(self, now: float) -> None:
        for subject in self._fresh:
            remarks = self._deferred.get(subject, {})
            for text, deferred in remarks.items():
                if deferred.due is None:
                    remarks[text] = deferred._replace(due=now + SETTLE)
                    self._timers.append((now + SETTLE, subject))
        self._fresh.clear()
        while self._timers and self._timers[0][0] <= now:
            _, subject = self._timers.popleft()
            remarks = self._deferred.get(subject, {})
            for text in [
                text for text, deferred in remarks.items() if deferred.due is not None and deferred.due <= now
            ]:
                deferred = remarks.pop(text)
                self._report(deferred.about, deferred.remark)
            if not remarks:
                self._deferred.pop(subject, None)

    def _report(self, about: Reference | None, remark: Remark) -> None:
        details = {"subject": "" if about is None else f"{about.kind} {about.namespace}/{about.name}"}
        if isinstance(remark, Problem):
            details = {"subject": remark.subject, "field": remark.field, "value": remark.value}
        reason = _reason(about, remark)
        self._commands.append(Log("warning", str(remark), {**details, "reason": reason}))
        if reason != DEVICE_PROBLEM:
            self._commands.append(Count("input_problems"))
        if about is None:
            return
        if len(self._waiting) >= WAITING:
            self._waiting.popleft()
            self._commands.append(Count("unrecorded_events"))
        self._waiting.append(EventRecord(*about, True, reason, str(remark), 0.0))


def _reason(about: Reference | None, remark: Remark) -> str:
    if isinstance(remark, str):
        return CONFIGURATION_WARNING if about is None or about.kind == "ConfigMap" else NOT_EVALUATED
    if about is None or about.kind == "ConfigMap":
        return INVALID_CONFIGURATION
    if remark.field in DEVICE_PROBLEMS:
        return DEVICE_PROBLEM
    device = about.kind == "Node" or remark.field.startswith("metadata.annotations")
    return INVALID_ANNOTATION if device else INVALID_REQUEST
