"""Evictions: pods that have to go for a nominated claim.

The binder first only asks whether a pod may go (a dry run), and writes the outcome: ``may go``, ``blocked``, or
``forbidden`` if the cluster does not permit it. Placement
lets it ``go`` when all pods of the decision may; from then on the binder evicts it, until a fact shows that it is
terminating, has ended, or is gone. Each request names the uid of the pod, so that no other pod of its name is evicted.
What this process forgets when it ends follows from the ledger, the outcomes and the facts: its successor asks or evicts
again the pods that are not terminating, which the cluster answers in the same way.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import msgspec
from deviceshare.model import BLOCKED, FORBIDDEN, MAY_GO, Backoff, Eviction, Outcome
from deviceshare_bus.cores.core import Now
from deviceshare_cluster.eviction import EvictState

from deviceshare_binder.core.commands import EvictPod
from deviceshare_binder.core.facts import Facts
from deviceshare_binder.core.outcomes import NodeClaims, Outcomes

IN_FLIGHT = 32
"""Requests that may be in flight."""
RETRY = Backoff(0.1, 5.0)
"""Seconds between two attempts while the cluster does not answer."""
BUDGET_RETRY = Backoff(1.0, 15.0)
"""Seconds between two attempts while a PodDisruptionBudget does not allow an eviction."""
AGAIN = 60.0
"""Seconds after which a blocked eviction is requested again, as long as it is in the ledger."""

Key = tuple[str, str]
"""The node, and the key of the eviction on it."""


class EvictedPod(NamedTuple):
    """A pod was evicted."""

    eviction: Eviction
    node: str


class Blocked(NamedTuple):
    """A pod cannot be evicted for ``reason``.

    ``refused``: the cluster does not permit it; else a PodDisruptionBudget does not allow it.
    """

    eviction: Eviction
    node: str
    reason: str
    refused: bool


class EvictionTask(msgspec.Struct, eq=False):
    """One eviction of a ledger, until it leaves the ledger."""

    eviction: Eviction
    node: NodeClaims
    key: str
    request: int = 0
    """The token of the request that is in flight, 0 if none is."""
    queued: bool = False
    due: float = math.inf
    """The monotonic time of the next attempt."""
    tries: int = 0
    """Attempts since the last answer that has changed something."""
    since: float | None = None
    """The monotonic time of the first request to evict the pod."""
    accepted: bool = False
    """Whether the cluster has evicted the pod, or does not know it: facts will show it."""
    reported: bool = False
    """Whether users know that it is blocked."""


class EvictionTasks:
    """The evictions on the nodes of this replica.

    Args:
        facts: the known pods.
        outcomes: the evictions and outcomes by node.
        owns: whether this replica works for a node.
    """

    def __init__(self, facts: Facts, outcomes: Outcomes, owns: Callable[[str], bool]) -> None:
        self._facts = facts
        self._outcomes = outcomes
        self._owns = owns
        self._tasks: dict[Key, EvictionTask] = {}
        self._of_pod: dict[str, dict[Key, None]] = {}
        """Evictions by the uid of the pod."""
        self._of_node: dict[str, dict[Key, None]] = {}
        self._queue: deque[Key] = deque()
        self._timers: list[tuple[float, Key]] = []
        self._tokens = 0
        self._in_flight: dict[int, EvictionTask] = {}
        """Requests that are not answered, by token; also of evictions that have left the ledger."""
        self._happened: list[EvictedPod | Blocked] = []

    @property
    def active(self) -> bool:
        """Whether there are evictions."""
        return bool(self._tasks)

    @property
    def open_work(self) -> int:
        """The number of evictions for which something is to be done before a fact or the ledger changes.

        Blocked ones do not count.
        """
        return sum(
            bool(task.request) or task.queued or (task.due < math.inf and not _is_blocked(task))
            for task in self._tasks.values()
        )

    # What changes

    def reconcile(self, node: NodeClaims) -> None:
        """Keep tasks for the evictions of a node, if it is this replica's, and for no others.

        An eviction that goes on for another claim is not begun again.
        """
        wanted = node.evictions if self._owns(node.name) else {}
        removed: dict[str, EvictionTask] = {}
        for key in list(self._of_node.get(node.name, ())):
            if key[1] not in wanted:
                gone = self._remove(key)
                removed[gone.eviction.uid] = gone
        for name, eviction in wanted.items():
            key = (node.name, name)
            task = self._tasks.get(key)
            if task is None:
                task = self._tasks[key] = EvictionTask(eviction, node, name)
                self._of_pod.setdefault(eviction.uid, {})[key] = None
                self._of_node.setdefault(node.name, {})[key] = None
                if (before := removed.get(eviction.uid)) is not None and before.eviction.go and eviction.go:
                    self._go_on(task, before)
            elif task.eviction.go != eviction.go:
                task.tries, task.due, task.since, task.accepted, task.reported = 0, math.inf, None, False, False
            task.eviction = eviction
            self._enqueue(key, task)

    def _go_on(self, task: EvictionTask, before: EvictionTask) -> None:
        """Let a task go on where the one of the same pod for another claim was: its request is not sent again."""
        task.since, task.accepted, task.reported = before.since, before.accepted, before.reported
        task.request, task.tries = before.request, before.tries
        if task.request:
            self._in_flight[task.request] = task
        elif before.due < math.inf:
            self._wait(task, before.due)

    def pod(self, uid: str) -> None:
        """Apply that the fact of a pod changed."""
        for key in self._of_pod.get(uid, ()):
            self._enqueue(key, self._tasks[key])

    def _remove(self, key: Key) -> EvictionTask:
        task = self._tasks.pop(key)
        for index, name in ((self._of_pod, task.eviction.uid), (self._of_node, key[0])):
            index[name].pop(key, None)
            if not index[name]:
                del index[name]
        return task

    def _enqueue(self, key: Key, task: EvictionTask) -> None:
        if not task.queued:
            task.queued = True
            self._queue.append(key)

    # Time

    def next_due(self) -> float | None:
        """Return the monotonic time of the next attempt, None if there is none."""
        return self._timers[0][0] if self._timers else None

    def tick(self, now: Now) -> list[EvictPod]:
        """Return the requests that begin now."""
        while self._timers and self._timers[0][0] <= now.monotonic:
            due, key = heapq.heappop(self._timers)
            task = self._tasks.get(key)
            if task is not None and task.due == due:
                self._enqueue(key, task)
        requests = []
        while self._queue and len(self._in_flight) < IN_FLIGHT:
            key = self._queue.popleft()
            task = self._tasks.get(key)
            if task is None or not task.queued:
                continue  # it has left the ledger, or another one of its name has come
            task.queued = False
            if (request := self._next(task, now)) is not None:
                requests.append(request)
        return requests

    def _next(self, task: EvictionTask, now: Now) -> EvictPod | None:
        """Return the request for an eviction whose turn it is, None if there is none to send now."""
        if task.request:
            return None  # its answer continues
        if task.node.invalid:
            self._wait(task, now.monotonic + RETRY.most)
            return None
        eviction, known = task.eviction, task.node.eviction_outcome(task.key)
        if self._is_going(eviction.uid):
            self._finish(task, MAY_GO, "", now)
            return None
        waits = now.monotonic < task.due < math.inf
        if eviction.go:
            if task.accepted or waits:
                return None
            task.since = now.monotonic if task.since is None else task.since
        elif known is not None and known.state == MAY_GO:
            return None
        elif known is not None and not waits and task.due == math.inf:
            self._wait(task, now.monotonic + AGAIN)  # a predecessor found that it is blocked
            return None
        elif waits:
            return None
        self._tokens += 1
        task.request, task.due = self._tokens, math.inf
        self._in_flight[task.request] = task
        return EvictPod(
            node=task.node.name,
            claim=eviction.claim,
            namespace=eviction.namespace,
            name=eviction.name,
            uid=eviction.uid,
            dry_run=not eviction.go,
            token=task.request,
        )

    def _is_going(self, uid: str) -> bool:
        """Return whether a fact shows that a pod is terminating or has ended."""
        pod = self._facts.pods.get(uid)
        return pod is not None and (pod.terminating or pod.ended)

    # Answers

    def answered(self, command: EvictPod, state: EvictState, reason: str, now: Now) -> None:
        """Apply the answer to a request."""
        asked = self._in_flight[command.token]
        if state is EvictState.DONE:
            # Also if the eviction has left the ledger, or a fact has shown before the answer that the pod terminates.
            self._happened.append(EvictedPod(asked.eviction, asked.node.name))
        task = self._answered(command)
        match state:
            case _ if task is None:
                return
            case _ if task.eviction.go and command.dry_run:
                return  # queued: now it is evicted
            case EvictState.MAY_GO | EvictState.DONE | EvictState.GONE:
                task.tries, task.accepted = 0, not command.dry_run
                self._finish(task, MAY_GO, "", now)
            case EvictState.BLOCKED:
                self._blocked(task, reason, now)
            case EvictState.REFUSED:
                self._block(task, reason, now, refused=True)
            case EvictState.FORBIDDEN:
                self._block(task, reason, now, refused=True, state=FORBIDDEN)

    def failed(self, command: EvictPod, message: str, now: Now, jitter: float, *, final: bool) -> None:
        """The cluster did not execute a request; ``final``: and will not execute the same request."""
        task = self._answered(command)
        if task is None:
            return
        if final:
            self._block(task, message, now, refused=True)
        else:
            task.tries += 1
            self._wait(task, now.monotonic + RETRY.delay(task.tries - 1, jitter))

    def take(self) -> list[EvictedPod | Blocked]:
        """Return what has happened since the last call."""
        happened, self._happened = self._happened, []
        return happened

    def _answered(self, command: EvictPod) -> EvictionTask | None:
        """Return the task of an answered request, queued; None if its eviction has left the ledger."""
        task = self._in_flight.pop(command.token)
        task.request = 0
        key = (task.node.name, task.key)
        if self._tasks.get(key) is not task:
            return None
        self._enqueue(key, task)
        return task

    def _blocked(self, task: EvictionTask, reason: str, now: Now) -> None:
        """A budget does not allow an eviction: one that has begun is tried again for some time."""
        patient = task.since is not None and now.monotonic < task.since + self._facts.preemption_timeout
        if not task.eviction.go or not patient:
            self._block(task, reason, now, refused=False)
            return
        task.tries += 1
        self._report(task, reason, refused=False)
        self._wait(task, now.monotonic + BUDGET_RETRY.delay(task.tries - 1))

    def _block(self, task: EvictionTask, reason: str, now: Now, *, refused: bool, state: str = BLOCKED) -> None:
        self._report(task, reason, refused=refused)
        self._finish(task, state, reason, now)
        self._wait(task, now.monotonic + AGAIN)

    def _report(self, task: EvictionTask, reason: str, *, refused: bool) -> None:
        if not task.reported:
            task.reported = True
            self._happened.append(Blocked(task.eviction, task.node.name, reason, refused))

    def _finish(self, task: EvictionTask, state: str, reason: str, now: Now) -> None:
        """Write the outcome of an eviction, if it is not known."""
        known, eviction = task.node.eviction_outcome(task.key), task.eviction
        task.due = math.inf
        if known is None or (known.state, known.reason) != (state, reason):
            found = Outcome(eviction.claim, eviction.uid, state, reason, now.wall)
            self._outcomes.finish(task.node, found, now.monotonic)

    def _wait(self, task: EvictionTask, until: float) -> None:
        task.due = until
        heapq.heappush(self._timers, (until, (task.node.name, task.key)))


def _is_blocked(task: EvictionTask) -> bool:
    known = task.node.eviction_outcome(task.key)
    return known is not None and known.state in (BLOCKED, FORBIDDEN)
