"""The claims that are being worked on: in whose turn they are, which wait for a moment, which are in flight. Pure."""

import heapq
from collections import deque
from collections.abc import Iterator

from deviceshare.model import Claim

from deviceshare_binder.bind_task import BindTask, State
from deviceshare_binder.nodes import Node

TURN = 16
"""Claims of one node that are begun together: they end together, and their outcomes fold into one message."""


class BindQueue:
    """All of them, by the claim's id; ``limit`` is how many may be in flight."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._all: dict[str, BindTask] = {}
        self._of_pod: dict[str, set[str]] = {}
        """Claims by the pod's uid."""
        self._busy: set[str] = set()
        """Pods of which a claim is in flight."""
        self._turns: deque[Node] = deque()
        """Nodes with something in their queue, each once: none starves another."""
        self._timers: list[tuple[float, str]] = []
        self.in_flight = 0
        """How many claims the cluster has been asked about and has not answered."""

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._all)

    def get(self, claim: str) -> BindTask | None:
        """Return the work on a claim, None where there is none."""
        return self._all.get(claim)

    def of_pod(self, uid: str) -> list[BindTask]:
        """Return the work on a pod's claims."""
        return [self._all[claim] for claim in self._of_pod.get(uid, ())]

    def on_node(self, node: Node) -> list[BindTask]:
        """Return the work on a node's claims."""
        return [self._all[claim] for claim in node.work]

    def is_busy(self, uid: str) -> bool:
        """Return whether a claim of a pod is in flight: its others have to wait."""
        return uid in self._busy

    def add(self, claim: Claim, node: Node) -> None:
        """Begin to work on a claim: it is queued."""
        work = self._all[claim.id] = BindTask(claim, node)
        node.work.add(claim.id)
        self._of_pod.setdefault(claim.uid, set()).add(claim.id)
        self.enqueue(work)

    def remove(self, work: BindTask) -> None:
        """Work on a claim no more."""
        claim = work.claim
        del self._all[claim.id]
        work.node.work.discard(claim.id)
        others = self._of_pod[claim.uid]
        others.discard(claim.id)
        if not others:
            del self._of_pod[claim.uid]

    # -- turns --------------------------------------------------------------------------------------------------------

    @property
    def may_begin(self) -> bool:
        """Whether something is queued, and there is room for it in flight."""
        return bool(self._turns) and self.in_flight < self._limit

    def enqueue(self, work: BindTask) -> None:
        """Queue a claim, after the others of its node."""
        work.state = State.QUEUED
        work.node.queue.append(work.claim.id)
        self._have_turn(work.node)

    def enqueue_first(self, node: Node, claims: list[str]) -> None:
        """Queue claims of a node, in this order and before all others; those that nobody works on are left out."""
        found = [claim for claim in claims if claim in self._all]
        for claim in found:
            self._all[claim].state = State.QUEUED
        node.queue.extendleft(reversed(found))
        if found:
            self._have_turn(node)

    def next_turn(self) -> Iterator[BindTask]:
        """Yield the first claims of the node whose turn it is, while there is room."""
        node = self._turns.popleft()
        for _ in range(TURN):
            if not node.queue or self.in_flight >= self._limit:
                break
            work = self._all.get(node.queue.popleft())
            if work is not None and work.state is State.QUEUED:
                yield work
        node.in_turn = False
        if node.queue:
            self._have_turn(node)

    def _have_turn(self, node: Node) -> None:
        if not node.in_turn:
            node.in_turn = True
            self._turns.append(node)

    # -- waiting and flying -------------------------------------------------------------------------------------------

    def sleep(self, work: BindTask, state: State, until: float) -> None:
        """Look at a claim again at a moment (unix seconds)."""
        work.state, work.due = state, until
        heapq.heappush(self._timers, (until, work.claim.id))

    def next_due(self) -> float | None:
        """Return the moment at which the next one is due."""
        return self._timers[0][0] if self._timers else None

    def due(self, now: float) -> Iterator[BindTask]:
        """Yield the claims whose moment has come."""
        while self._timers and self._timers[0][0] <= now:
            until, claim = heapq.heappop(self._timers)
            work = self._all.get(claim)
            if work is not None and work.due == until:
                yield work

    def fly(self, work: BindTask, state: State) -> None:
        """The cluster is asked."""
        work.state = state
        self._busy.add(work.claim.uid)
        self.in_flight += 1

    def land(self, claim: str) -> BindTask:
        """An answer came: the pod's other claims may go on."""
        work = self._all[claim]
        assert work.in_flight
        work.state = State.PARKED
        self.in_flight -= 1
        self._busy.discard(work.claim.uid)
        for other in self.of_pod(work.claim.uid):
            if other is not work and other.state is State.PARKED:
                self.enqueue(other)
        if work.dropped:
            work.dropped = work.claim.id not in work.node.ledger
        return work
