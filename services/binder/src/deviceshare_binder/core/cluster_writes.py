"""Annotations, conditions, Events and statuses on their way to the cluster: how many are in flight, when to retry."""

import heapq
from collections import OrderedDict, deque
from typing import NamedTuple

import msgspec
from deviceshare.model import REFUSED_RETRY, Backoff
from msgspec.structs import replace

from deviceshare_binder.core.commands import Annotate, Nominate, RecordEvent, SetPodCondition, SetStatus

IN_FLIGHT = 100
"""Writes that may be in flight."""
MAX_WAITING = 10_000
"""Failed writes that wait for their next attempt; beyond this number the oldest are dropped."""
RetriedWrite = Annotate | SetPodCondition | Nominate | RecordEvent | SetStatus
Target = tuple[str, ...]
"""Kind, namespace and name of the object whose condition or status is written; of a nomination its node as well."""


class Retries(NamedTuple):
    """How a write is retried; attempts that may fail (None: any number) or be refused before it is dropped."""

    backoff: Backoff
    failures: int | None
    refusals: int


_STATE = Retries(Backoff(0.1, 5.0), None, 15)
_RETRIES: dict[type[RetriedWrite], Retries] = {
    Annotate: _STATE,
    # Nothing repeats the condition of a pod for which no decision changes.
    SetPodCondition: _STATE,
    Nominate: _STATE,
    RecordEvent: Retries(Backoff(0.1, 1.6), 5, 5),
    SetStatus: Retries(Backoff(0.5, 30.0), None, 15),
}


class _Pending(msgspec.Struct, eq=False):
    """A write that is not done."""

    command: RetriedWrite
    failures: int = 0
    refusals: int = 0


class ClusterWrites:
    """The writes that are queued, in flight, or wait for their next attempt."""

    def __init__(self) -> None:
        self._tokens = 0
        self._pending: dict[int, _Pending] = {}
        self._queue: deque[int] = deque()
        self._in_flight: set[int] = set()
        self._waiting: dict[int, None] = OrderedDict()
        """Writes that wait for their next attempt, in order."""
        self._timers: list[tuple[float, int]] = []
        self._latest: dict[Target, int] = {}
        """The latest write of each condition and status."""
        self._busy: dict[Target, int | None] = {}
        """Conditions and statuses with a write in flight, and the write that follows it."""

    @property
    def open(self) -> int:
        """The number of writes that are not done, except those that the cluster refused for good."""
        return sum(not pending.refusals for pending in self._pending.values())

    def add(self, command: RetriedWrite) -> int:
        """Queue a write and return its token. A condition or status supersedes the previous one of its object."""
        self._tokens += 1
        token = self._tokens
        self._pending[token] = _Pending(replace(command, token=token))
        self._queue.append(token)
        if (target := _target(command)) is not None:
            superseded = self._latest.get(target)
            if superseded is not None and superseded not in self._in_flight:
                self._drop(superseded)
            self._latest[target] = token
        return token

    def pending(self, token: int) -> bool:
        """Return whether a write is neither done nor dropped nor superseded."""
        return token in self._pending

    def next_due(self) -> float | None:
        """Return the monotonic time of the next attempt of a failed write."""
        return self._timers[0][0] if self._timers else None

    def take(self, now: float) -> list[RetriedWrite]:
        """Return the writes that begin at a monotonic time."""
        while self._timers and self._timers[0][0] <= now:
            _, token = heapq.heappop(self._timers)
            if token in self._waiting:
                del self._waiting[token]
                self._queue.append(token)
        out: list[RetriedWrite] = []
        while self._queue and len(self._in_flight) < IN_FLIGHT:
            token = self._queue.popleft()
            if token in self._pending and self._may_begin(token):
                self._in_flight.add(token)
                out.append(self._pending[token].command)
        return out

    def take_events(self) -> list[RecordEvent]:
        """Return all Events that are queued or wait for their next attempt, without a limit of those in flight."""
        found = {
            token: pending.command
            for token, pending in self._pending.items()
            if isinstance(pending.command, RecordEvent) and token not in self._in_flight
        }
        self._in_flight.update(found)
        self._queue = deque(token for token in self._queue if token not in found)
        for token in found:
            self._waiting.pop(token, None)
        return list(found.values())

    def written(self, command: RetriedWrite) -> None:
        """A write was done."""
        self._answered(command)
        self._drop(command.token)

    def failed(self, command: RetriedWrite, now: float, jitter: float, *, final: bool) -> list[RetriedWrite]:
        """A write failed: it waits for its next attempt. Returns the writes that are given up."""
        self._answered(command)
        token, target = command.token, _target(command)
        pending, retries = self._pending[token], _RETRIES[type(command)]
        pending.failures += 1
        pending.refusals += final
        if target is not None and self._latest[target] != token:
            self._drop(token)
            return []
        if pending.refusals >= retries.refusals or pending.failures == retries.failures:
            return [self._drop(token)]
        pause = (
            REFUSED_RETRY.delay(pending.refusals - 1, jitter)
            if final
            else retries.backoff.delay(pending.failures - 1, jitter)
        )
        heapq.heappush(self._timers, (now + pause, token))
        self._waiting[token] = None
        return [self._drop(next(iter(self._waiting)))] if len(self._waiting) > MAX_WAITING else []

    def _may_begin(self, token: int) -> bool:
        """Return whether no other write of the same condition or status is in flight; else the write follows it."""
        target = _target(self._pending[token].command)
        if target is None:
            return True
        free = target not in self._busy
        self._busy[target] = None if free else token
        return free

    def _answered(self, command: RetriedWrite) -> None:
        self._in_flight.discard(command.token)
        if (target := _target(command)) is not None and (follows := self._busy.pop(target)) is not None:
            self._queue.append(follows)

    def _drop(self, token: int) -> RetriedWrite:
        command = self._pending.pop(token).command
        self._waiting.pop(token, None)
        if (target := _target(command)) is not None and self._latest[target] == token:
            del self._latest[target]
        return command


def _target(command: RetriedWrite) -> Target | None:
    match command:
        case SetStatus(kind=kind, namespace=namespace, name=name):
            return kind, namespace, name
        case SetPodCondition(namespace=namespace, name=name):
            return "Pod", namespace, name
        case Nominate(namespace=namespace, name=name, node=node):
            return "Pod", namespace, name, node
    return None
