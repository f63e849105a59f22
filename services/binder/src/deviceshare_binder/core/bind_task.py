"""The task to bind one claim's pod: its states, and what the facts imply for it.

How it gets from one state to the next: :mod:`.bind_transitions`.

A request to bind a pod expects the revision of the pod that the task was judged by. If the pod has another one, the
request does nothing, and the task is judged again by the new revision and its fences.
"""

from collections.abc import Mapping
from enum import StrEnum
from math import inf
from typing import NamedTuple

import msgspec
from deviceshare.model import BOUND, PHASES, REFUSED, WITHDRAWN, Backoff, Claim
from deviceshare_bus.cores.core import RecordTrace

from deviceshare_binder.core.commands import ClaimRequest, LockNode
from deviceshare_binder.core.outcomes import NodeClaims
from deviceshare_binder.core.plugin_handoff import Keys
from deviceshare_binder.core.views import NodeView, PodView

GRACE = 10.0
"""Seconds that a claim waits for facts: of its pod and its node, or facts that justify it."""
RECHECK = 0.25
"""Seconds after which a claim to which the facts object is checked again."""
UNANSWERED = 120.0
"""Seconds for which a request without an answer may still be executed: kube-apiserver ends requests after 60 s
(``--request-timeout``)."""
LEFT = 60.0
"""Seconds for which a pod is left to another scheduler, which does not report that it cannot place it."""
RETRY = Backoff(0.1, 5.0)
"""Seconds between two attempts while the cluster does not answer."""


class Finished(NamedTuple):
    """A claim has its outcome."""

    claim: Claim
    node: str
    state: str
    reason: str


class Rejected(NamedTuple):
    """A claim is not for its pod, or does not fit its node."""

    claim: Claim
    node: str
    reason: str


class Paused(NamedTuple):
    """A claim waits until the messages about its node are valid again."""

    claim: Claim
    node: str
    reason: str


class ConditionsPending(NamedTuple):
    """A claim waits until devices of its pod have their binding conditions; ``text``: the first that is missing."""

    claim: Claim
    node: str
    text: str


class State(StrEnum):
    """The state of a bind task."""

    QUEUED = "queued"
    PARKED = "parked"
    """Another claim of its pod is in flight, or its node is paused."""
    WAITING = "waiting"
    """Its pod or node is not known yet or objects to it, its volumes are not bound, its devices cannot be used yet, or
    others hold the node's lock."""
    HELD = "held"
    """Another pod is being handed over to the device plugin of its node (:mod:`.plugin_handoff`)."""
    BACKING_OFF = "backing off"
    """The cluster did not execute its request."""
    BINDING_VOLUMES = "binding volumes"
    ALLOCATING_DEVICES = "allocating devices"
    RELEASING_DEVICES = "releasing devices"
    """Its outcome is known; what was written to the pod's ResourceClaims is taken back before."""
    LOCKING = "locking"
    BINDING = "binding"
    READING = "reading"
    """The pod is read back: it may be bound already."""
    FENCING = "fencing"
    """Before it is refused or withdrawn: an earlier request to bind the pod, perhaps of another process, may have
    succeeded or still arrive."""
    ENDED = "ended"
    """Its claim has its outcome, has left the ledger, or is another replica's."""


IN_FLIGHT = frozenset(
    {
        State.BINDING_VOLUMES,
        State.ALLOCATING_DEVICES,
        State.RELEASING_DEVICES,
        State.LOCKING,
        State.BINDING,
        State.READING,
        State.FENCING,
    }
)
"""The states in which a request to the cluster is unanswered."""
TIMED = frozenset({State.WAITING, State.BACKING_OFF})
"""The states with a timer."""


class Move(NamedTuple):
    """The next state of a bind task, and what belongs to it."""

    state: State
    request: ClaimRequest | None = None
    """The request to the cluster of a task in flight."""
    until: float = inf
    """The monotonic time at which a task that waits or backs off is queued again."""
    first: bool = False
    """Whether it is queued before all others."""


QUEUE = Move(State.QUEUED)
END = Move(State.ENDED)


class Verdict(NamedTuple):
    """The outcome that the facts imply; if not ``sure``, only if the pod, fenced, is not bound."""

    state: str
    reason: str
    sure: bool


class BindTask(msgspec.Struct, eq=False):
    """The task to bring one claim to its outcome."""

    claim: Claim
    node: NodeClaims
    keys: Keys = frozenset()
    """The handoff keys of its pod."""
    bug: str = ""
    """The bug of a device family because of which the keys are not known: the claim is refused."""
    received_at: float = 0.0
    """When the claim was received, unix seconds."""
    requested_at: float = 0.0
    """When the first binding was requested, unix seconds; 0: none was."""
    began_at: float = 0.0
    """When it was last its turn, unix seconds."""
    state: State = State.QUEUED
    tries: int = 0
    deadline: float | None = None
    """The monotonic time until which it waits for facts."""
    verdict: Verdict | None = None
    """For what the pod is read back or fenced."""
    lock: LockNode | None = None
    """The lock of the node that is being requested."""
    unsure: bool = False
    """Whether a predecessor of this process may have bound the pod without a fact that shows it yet."""
    changes: int = 0
    """Bindings that met another revision of the pod."""
    refusals: int = 0
    """Requests that the cluster refused for good; users are informed of the first."""
    refused: bool = False
    """Whether the cluster refused the last request for good while no earlier one could still bind the pod."""
    volumes_bound: bool = False
    """Whether all volumes of the pod are bound, or were when it was decided."""
    volumes_until: float | None = None
    """The monotonic time until which it waits for its volumes."""
    left_until: float | None = None
    """The monotonic time until which its pod is left to another scheduler."""
    volume_revisions: dict[str, str] | None = None
    """The revisions of claims and volumes after they were requested; None: they were not."""
    devices_until: float | None = None
    """The monotonic time until which it waits for the devices of its ResourceClaims."""
    devices_written: bool = False
    """Whether its devices are allocated; facts do not show it yet."""
    devices_seen: float | None = None
    """The monotonic time at which facts first showed that it has its devices."""
    concluded: Verdict | None = None
    """Its outcome, which is recorded when its devices are released."""
    open_until: float = float("-inf")
    """The monotonic time until which a request to bind the pod that was not answered may succeed."""

    def grace(self, now: float, pause: float) -> float | None:
        """Return the monotonic time until which it waits for facts, at most ``pause`` seconds; None: no longer."""
        if self.deadline is None:
            self.deadline = now + GRACE
        return min(self.deadline, now + pause) if now < self.deadline else None

    def trace(self, now: float) -> RecordTrace | None:
        """Return the trace of the pod, bound ``now`` (unix seconds); None if placement exports no traces."""
        claim, requested_at = self.claim, self.requested_at or self.began_at
        if not claim.sent_at:
            return None
        times = (claim.seen_at, claim.decided_at, claim.sent_at, self.received_at, requested_at, now)
        return RecordTrace(
            claim.uid, claim.namespace, claim.name, times, first=PHASES.index("claiming"), root=True,
            node=self.node.name, queue=claim.queue, result=BOUND, decided_by=claim.decided_by,
        )  # fmt: skip

    @property
    def dropped(self) -> bool:
        """Whether its claim has left the ledger: it ends with the answer to its request."""
        return not self.node.holds(self.claim)

    @property
    def is_refused(self) -> bool:
        """Whether it waits after a request that the cluster refused for good, and no request can bind the pod."""
        return self.state is State.BACKING_OFF and self.refused

    @property
    def in_flight(self) -> bool:
        """Whether a request to the cluster is unanswered."""
        return self.state in IN_FLIGHT


def judge(
    claim: Claim, node: str, pod: PodView | None, nodes: Mapping[str, NodeView | None], *, cordons: bool = True
) -> Verdict | None:
    """Return the outcome that the facts imply for a claim, None if no known fact prevents the binding.

    ``cordons``: whether cordoned nodes take no pods (:attr:`deviceshare.conf.Predicates.unschedulable`).
    """
    if pod is not None and pod.node:
        if pod.node == node:
            # The fact does not say for which claim: the pod may have other devices.
            return Verdict(BOUND, "", sure=not claim.grants)
        return Verdict(REFUSED, f"the pod is bound to {pod.node}", sure=True)
    if claim.withdraw:
        return Verdict(WITHDRAWN, "", sure=False)
    if pod is None:
        return None
    why = "the pod has ended" if pod.ended else "the pod is being deleted" if pod.terminating else ""
    if pod.is_fenced(claim.id):
        why = why or "an earlier request to bind the pod was withdrawn"
    if pod.gates:
        why = why or f"the pod has scheduling gates: {', '.join(pod.gates)}"
    if node in nodes:
        view = nodes[node]
        if view is None:
            why = why or f"node {node} is gone"
        elif not view.ready:
            why = why or f"node {node} is not ready"
        elif cordons and view.unschedulable and not pod.tolerates_cordons:
            why = why or f"node {node} is unschedulable"
    return Verdict(REFUSED, why, sure=False) if why else None
