"""A claim on its way to an outcome: its states, what the facts say of it, what the core asks to be done. Pure."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple

from deviceshare.model import BOUND, REFUSED, WITHDRAWN, Claim, Outcome

from deviceshare_binder.locks import Lock, Unlock
from deviceshare_binder.nodes import Node
from deviceshare_binder.plugin_handoff import Stuck, keys_of
from deviceshare_binder.views import NodeView, PodView


class Bind(NamedTuple):
    """Bind a pod; answer with :meth:`Core.bind_answered` or :meth:`Core.failed`."""

    claim: str
    namespace: str
    name: str
    uid: str
    node: str
    annotations: Mapping[str, str]


class Read(NamedTuple):
    """Read a pod from the cluster; answer with :meth:`Core.read_answered` or :meth:`Core.failed`."""

    claim: str
    namespace: str
    name: str
    uid: str


class WriteOutcomes(NamedTuple):
    """Publish a node's outcomes, expecting ``sequence``.

    Answer with :meth:`Core.outcomes_written`, :meth:`Core.outcomes_refused` or :meth:`Core.outcomes_unclear`.
    """

    node: str
    outcomes: tuple[Outcome, ...]
    sequence: int


class Finished(NamedTuple):
    """Tell that a claim has its outcome."""

    claim: Claim
    node: str
    state: str
    reason: str


class GiveUp(NamedTuple):
    """Write annotations on a pod that ended before its device plugin served it."""

    namespace: str
    name: str
    uid: str
    annotations: Mapping[str, str]


Instruction = Bind | Read | Lock | Unlock | GiveUp | WriteOutcomes | Finished | Stuck


class State(Enum):
    """Where a claim is on its way.

    Parked: another claim of its pod is in flight; held: another pod is on its way to the device plugin of its node.
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
    """What becomes of a claim; if not ``sure``, only if the pod, read back, is not bound."""

    state: str
    reason: str
    sure: bool


class BindTask:
    """One claim on its way to an outcome."""

    __slots__ = (
        "claim",
        "deadline",
        "dropped",
        "due",
        "keys",
        "lock",
        "node",
        "state",
        "tries",
        "unsure",
        "verdict",
    )

    def __init__(self, claim: Claim, node: Node) -> None:
        self.claim = claim
        self.node = node
        self.state = State.QUEUED
        self.tries = 0
        self.due = 0.0
        """When a claim that waits or backs off is looked at again."""
        self.deadline: float | None = None
        """Until when it waits for facts."""
        self.verdict: Verdict | None = None
        self.dropped = False
        self.keys = keys_of(claim.grants)
        """What its device plugin may take its pod for."""
        self.lock: Lock | None = None
        """The lock of the node that is asked for at present."""
        self.unsure = False
        """Whether a predecessor of this process may have bound the pod, and no fact says so yet."""

    @property
    def in_flight(self) -> bool:
        """Whether the cluster has been asked and has not answered."""
        return self.state in (State.LOCKING, State.BINDING, State.READING)


def judge(claim: Claim, node: str, pod: PodView | None, views: Mapping[str, NodeView | None]) -> Verdict | None:
    """Return what the facts say becomes of a claim, None if nothing (known yet) speaks against it."""
    if pod is not None and pod.node:
        if pod.node == node:
            # By whom is not known: devices that are not the claim's are not given to it.
            return Verdict(BOUND, "", sure=not claim.grants)
        return Verdict(REFUSED, f"the pod is bound to {pod.node}", sure=True)
    if claim.withdraw:
        return Verdict(WITHDRAWN, "", sure=False)
    if pod is None:
        return None
    why = "the pod has ended" if pod.ended else "the pod is being deleted" if pod.terminating else ""
    if pod.gates:
        why = why or f"the pod has scheduling gates: {', '.join(pod.gates)}"
    if node in views:
        view = views[node]
        if view is None:
            why = why or f"node {node} is gone"
        elif not view.ready:
            why = why or f"node {node} is not ready"
        elif view.unschedulable and not pod.tolerates_cordons:
            why = why or f"node {node} is unschedulable"
    return Verdict(REFUSED, why, sure=False) if why else None
