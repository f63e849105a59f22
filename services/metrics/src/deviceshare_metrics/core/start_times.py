"""When waiting pods start, by what the service has read: equal pods are those of one namespace with one request in one
queue, with one priority and size of gang.
"""

from math import inf

from deviceshare.model import PENDING, Explanation, Fact, Gone
from deviceshare_bus.cores.core import Now
from deviceshare_bus.messages.subjects import fact

from deviceshare_metrics import api
from deviceshare_metrics.core.facts import PodSeen
from deviceshare_metrics.core.snapshot import is_refused
from deviceshare_metrics.core.start_estimates import StartEstimates
from deviceshare_metrics.core.state_store import StateStore

INTERVAL = 10.0
"""Seconds between two searches for kinds of pods to probe."""
_OF_NO_POD = frozenset(
    (
        *("NodeAffinityMismatch", "NodeTypeMismatch", "TaintNotTolerated", "NodeUnschedulable", "ResourceUnknown"),
        *("NoMatchingDevice", "DeviceTooSmall", "CardNotFound", "ModeNotFit", "CardTypeMismatch", "CardUuidMismatch"),
    )
)
"""Codes of refusals that hold whichever pods end."""


class StartTimes:
    """Follows the pods that placement has decided to be pending, while the service runs: what was before is unknown."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._estimates = StartEstimates()
        self._next = -inf

    @property
    def due(self) -> float:
        """Monotonic time of the next probes; infinite while no pod waits."""
        return self._next if self._estimates.followed else inf

    def pod_changes(self, subject: str, changed: Fact, now: Now) -> None:
        """Take the new fact of a pod before the store has it; others have no effect."""
        if isinstance(changed, Gone):
            if (before := self._store.pods.get(subject)) is not None:
                self._estimates.end(before.uid, now.monotonic, started=False)
        elif isinstance(changed, PodSeen):
            history = self._store.histories.get(changed.uid)
            self._follow(changed, history.explanation if history is not None else None, now)

    def decided(self, explanation: Explanation, now: Now) -> None:
        """Take a decision."""
        if (pod := self._store.pods.get(fact("pod", explanation.uid))) is not None:
            self._follow(pod, explanation, now)

    def _follow(self, pod: PodSeen, explanation: Explanation | None, now: Now) -> None:
        if pod.node or pod.ended or pod.terminating or pod.gates or is_refused(self._store, pod):
            self._estimates.end(pod.uid, now.monotonic, started=bool(pod.node))
        elif pod.uid not in self._estimates and explanation is not None and explanation.decision == PENDING:
            group = self._store.groups.get(fact("podgroup", pod.group))
            of_group = (group.queue, group.priority_class, group.min_member) if group is not None else ()
            kind = (bytes(pod.ask), pod.queue, pod.priority, of_group)
            since = now.monotonic - max(0.0, now.wall - pod.created) if pod.created else now.monotonic
            self._estimates.wait(pod.uid, pod.namespace, kind, since)

    def probe(self, now: Now) -> None:
        """Probe waiting pods, if it is time."""
        if now.monotonic >= self.due:
            self._next = now.monotonic + INTERVAL
            self._estimates.probe(now.monotonic)

    def of(self, answer: api.PodExplanation, now: Now) -> api.StartTime | None:
        """Return when the pod of an answer, which has its position, starts, or why this is not known.

        None if it does not wait.
        """
        if not is_waiting(answer):
            return None
        assert answer.pod is not None
        if why := unknown(answer):
            return api.StartTime(no_estimate=why)
        found = self._estimates.expected(answer.pod.uid, answer.pod.namespace, now.monotonic)
        if isinstance(found, str):
            return api.StartTime(no_estimate=found)
        return api.StartTime(at=now.wall, earliest=now.wall + found.earliest, latest=now.wall + found.latest)


def is_waiting(answer: api.PodExplanation) -> bool:
    """Return whether the pod of an answer waits."""
    return answer.pod is not None and answer.pod.state == "Pending" and not answer.pod.terminating


def unknown(answer: api.PodExplanation) -> str:
    """Return why it is not known when the pod of an answer starts, however equal pods did, '' if it may be known."""
    pod, explanation, position = answer.pod, answer.explanation, answer.position
    assert pod is not None
    if pod.refused:
        return "its request is refused"
    if pod.nominated_node:
        return "it starts when the pods that go for it have ended"
    if explanation is None or position is None:
        return "it is not decided yet"
    if explanation.first_failing and all(each.code in _OF_NO_POD for each in explanation.first_failing):
        return "it fits no node, whichever pods end"
    if explanation.kept_for:
        return "nodes are kept free for another job"
    return "jobs of a higher priority are before it" if position.higher_before else ""
