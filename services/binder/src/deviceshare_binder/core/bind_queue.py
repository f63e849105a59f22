"""The queue of bind tasks: which node's tasks begin next, which wait for a time, which are in flight."""

from collections import deque
from collections.abc import Iterable, Iterator

from deviceshare.families import FamilyError
from deviceshare.model import Claim
from deviceshare.queueing.replacing_heap import ReplacingHeap

from deviceshare_binder.core.bind_task import IN_FLIGHT, QUEUE, TIMED, BindTask, Move, State
from deviceshare_binder.core.outcomes import NodeClaims
from deviceshare_binder.core.plugin_handoff import keys_of

TURN = 16
"""Requests of one node that begin together; claims that have to wait for a handoff do not count."""

_QUEUED, _ENDED = State.QUEUED, State.ENDED  # the member of an enumeration is slow to look up before Python 3.12


class BindQueue:
    """All bind tasks, by the claim's id; ``limit`` is how many may be in flight."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._tasks: dict[str, BindTask] = {}
        self._of_pod: dict[str, dict[str, None]] = {}
        """Claims by the pod's uid."""
        self._busy: set[str] = set()
        """Pods with a task in flight."""
        self._turns: deque[NodeClaims] = deque()
        """Nodes with queued tasks, each once: no node starves another."""
        self._resumed: deque[str] = deque()
        """Claims that waited for a handoff and begin before all others: the work on their nodes ends soon, and its
        outcomes are one message."""
        self._timers = ReplacingHeap[float, str]()
        """The claims that wait for a time; before it has come, facts may have one judged again many times."""
        self.in_flight = 0
        """Tasks whose request to the cluster is unanswered."""

    def __len__(self) -> int:
        """Return the number of tasks."""
        return len(self._tasks)

    def get(self, claim: str) -> BindTask | None:
        """Return the task of a claim, None if there is none."""
        return self._tasks.get(claim)

    def task(self, claim: str) -> BindTask:
        """Return the task of a claim that has one."""
        return self._tasks[claim]

    def all(self) -> Iterable[BindTask]:
        """Return all tasks."""
        return self._tasks.values()

    def of_pod(self, uid: str) -> list[BindTask]:
        """Return the tasks of a pod's claims."""
        return [self._tasks[claim] for claim in self._of_pod.get(uid, ())]

    def on_node(self, node: NodeClaims) -> list[BindTask]:
        """Return the tasks of a node's claims."""
        return [self._tasks[claim] for claim in node.tasks]

    def is_busy(self, uid: str) -> bool:
        """Return whether a task of a pod is in flight: the pod's other tasks have to wait."""
        return uid in self._busy

    def add(self, claim: Claim, node: NodeClaims, now: float) -> None:
        """Create the task of a claim and queue it; ``now`` in unix seconds."""
        task = self._tasks[claim.id] = BindTask(claim, node, received_at=now)
        try:
            task.keys = keys_of(claim.grants)
        except FamilyError as error:
            task.bug = str(error)
        node.tasks[claim.id] = None
        self._of_pod.setdefault(claim.uid, {})[claim.id] = None
        self.move(task, QUEUE)

    def move(self, task: BindTask, move: Move) -> None:
        """Change the state of a task, as :func:`.bind_transitions.advance` demands: nothing else does."""
        before, state = task.state, move.state
        task.state = state
        if before in IN_FLIGHT:
            self.in_flight -= 1
            self._busy.discard(task.claim.uid)
        elif before in TIMED:
            self._timers.discard(task.claim.id)
        if state in IN_FLIGHT:
            self.in_flight += 1
            self._busy.add(task.claim.uid)
        elif state in TIMED:
            self._timers.put(task.claim.id, move.until, task.claim.id)
        elif move.first:
            self._resumed.append(task.claim.id)
        elif state is _QUEUED:
            task.node.queue.append(task.claim.id)
            self._have_turn(task.node)
        elif state is _ENDED:
            self._remove(task)

    def _remove(self, task: BindTask) -> None:
        claim = task.claim
        del self._tasks[claim.id]
        task.node.tasks.pop(claim.id, None)
        others = self._of_pod[claim.uid]
        others.pop(claim.id, None)
        if not others:
            del self._of_pod[claim.uid]

    # Turns

    @property
    def may_begin(self) -> bool:
        """Whether a task is queued and the limit allows it to begin."""
        return bool(self._turns or self._resumed) and self.in_flight < self._limit

    def next_turn(self) -> Iterator[BindTask]:
        """Yield the resumed tasks, else the first ones of the node whose turn it is, while the limit allows it."""
        if self._resumed:
            while self._resumed and self.in_flight < self._limit:
                task = self._tasks.get(self._resumed.popleft())
                if task is not None and task.state is _QUEUED:
                    yield task
            return
        node = self._turns.popleft()
        requests = 0
        while node.queue and requests < TURN and self.in_flight < self._limit:
            task = self._tasks.get(node.queue.popleft())
            if task is not None and task.state is _QUEUED:
                yield task
                requests += task.in_flight
        node.in_turn = False
        if node.queue:
            self._have_turn(node)

    def _have_turn(self, node: NodeClaims) -> None:
        if not node.in_turn:
            node.in_turn = True
            self._turns.append(node)

    # Timers

    def next_due(self) -> float | None:
        """Return the monotonic time of the next timer."""
        first = self._timers.first()
        return None if first is None else first[0]

    def due(self, now: float) -> Iterator[BindTask]:
        """Yield the tasks whose timers have expired."""
        while (first := self._timers.first()) is not None and first[0] <= now:
            self._timers.discard(first[1])
            yield self._tasks[first[1]]
