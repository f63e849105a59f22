"""The task to bind one claim's pod: its states, and what the facts imply for it."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple

import msgspec
from deviceshare.model import BOUND, REFUSED, WITHDRAWN, Claim

from deviceshare_binder.core.commands import LockNode
from deviceshare_binder.core.outcomes import NodeClaims
from deviceshare_binder.core.plugin_handoff import Keys
from deviceshare_binder.core.views import NodeView, PodView


class Finished(NamedTuple):
    """A claim has its outcome."""

    claim: Claim
    node: str
    state: str
    reason: str


class State(Enum):
    """The state of a bind task.

    Parked: another claim of its pod is in flight. Held: another pod is being handed over to the device plugin of its
    node.
    """

    QUEUED = auto()
    PARKED = auto()
    WAITING = auto()
    HELD = auto()
    LOCKING = auto()
    BINDING = auto()
    READING = auto()
    BACKING_OFF = auto()


class Verdict(NamedTuple):
    """The outcome that the facts imply; if not ``sure``, only if the pod, read back, is not bound."""

    state: str
    reason: str
    sure: bool


class BindTask(msgspec.Struct, eq=False):
    """The task to bring one claim to its outcome."""

    claim: Claim
    node: NodeClaims
    keys: Keys
    """The handoff keys of its pod."""
    state: State = State.QUEUED
    tries: int = 0
    due: float = 0.0
    """The monotonic time at which a task that waits or backs off is re-evaluated."""
    deadline: float | None = None
    """The monotonic time until which it waits for facts."""
    verdict: Verdict | None = None
    dropped: bool = False
    lock: LockNode | None = None
    """The lock of the node that is being requested."""
    unsure: bool = False
    """Whether a predecessor of this process may have bound the pod without a fact that shows it yet."""
    refusals: int = 0
    """Requests that the cluster refused for good; users are informed of the first."""

    @property
    def in_flight(self) -> bool:
        """Whether a request to the cluster is unanswered."""
        return self.state in (State.LOCKING, State.BINDING, State.READING)


def judge(claim: Claim, node: str, pod: PodView | None, nodes: Mapping[str, NodeView | None]) -> Verdict | None:
    """Return the outcome that the facts imply for a claim, None if no known fact prevents the binding."""
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
    if pod.gates:
        why = why or f"the pod has scheduling gates: {', '.join(pod.gates)}"
    if node in nodes:
        view = nodes[node]
        if view is None:
            why = why or f"node {node} is gone"
        elif not view.ready:
            why = why or f"node {node} is not ready"
        elif view.unschedulable and not pod.tolerates_cordons:
            why = why or f"node {node} is unschedulable"
    return Verdict(REFUSED, why, sure=False) if why else None
