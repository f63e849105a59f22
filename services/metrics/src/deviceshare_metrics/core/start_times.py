"""When waiting pods start, by what the service has read: from equal pods, those of one namespace and kind."""

from math import inf

from deviceshare.allocation import lasts
from deviceshare.model import PENDING, Explanation
from deviceshare_bus.cores.core import Now
from deviceshare_bus.messages.subjects import fact

from deviceshare_metrics import api
from deviceshare_metrics.core.equal_pods import decisive, kind_of, sources_of
from deviceshare_metrics.core.facts import PodSeen
from deviceshare_metrics.core.snapshot import is_refused
from deviceshare_metrics.core.start_estimates import StartEstimates
from deviceshare_metrics.core.state_store import StateStore

INTERVAL = 10.0
"""Seconds between two searches for kinds of pods to probe."""


class StartTimes:
    """Follows the pods that placement has decided to be pending, while the service runs: what was before is unknown."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._estimates = StartEstimates()
        self._next = -inf
        self._pods_of: dict[str, dict[str, None]] = {}
        """The subjects of pods that wait, by those of their PodGroup and ResourceClaims."""

    @property
    def due(self) -> float:
        """Monotonic time of the next probes; infinite while no pod waits."""
        return self._next if self._estimates.followed else inf

    def changed(self, subject: str, before: object, after: object, now: Now) -> None:
        """Take that the store has another value of a fact, None for none; what decides on no start has no effect."""
        if isinstance(before, PodSeen):
            self._forget(subject, before)
        if isinstance(after, PodSeen):
            self._follow(subject, after, now)
        elif isinstance(before, PodSeen):
            self._estimates.end(before.uid, now.monotonic, started=False)
        elif decisive(before) != decisive(after):
            for of_pod in self._pods_of.get(subject, ()):
                self._follow(of_pod, self._store.pods[of_pod], now)

    def decided(self, explanation: Explanation, now: Now) -> None:
        """Take a decision that the store has."""
        subject = fact("pod", explanation.uid)
        if (pod := self._store.pods.get(subject)) is not None:
            self._follow(subject, pod, now, changed=False)

    def _follow(self, subject: str, pod: PodSeen, now: Now, *, changed: bool = True) -> None:
        """Follow a pod while it waits; ``changed``: what decides on its kind, which takes time to compute, may have."""
        history = self._store.histories.get(pod.uid)
        explanation = history.explanation if history is not None else None
        if pod.node or pod.ended or pod.terminating or pod.gates or is_refused(self._store, pod):
            self._estimates.end(pod.uid, now.monotonic, started=bool(pod.node))
        elif explanation is None or explanation.decision != PENDING:
            return
        elif _fits_no_node(explanation):
            # It waits for a change of the cluster, not for pods to end: it would take the place of another kind.
            self._estimates.end(pod.uid, now.monotonic, started=False)
        elif changed or pod.uid not in self._estimates:
            for source in sources_of(pod):
                self._pods_of.setdefault(source, {})[subject] = None
            since = now.monotonic - max(0.0, now.wall - pod.created) if pod.created else now.monotonic
            self._estimates.wait(pod.uid, pod.namespace, kind_of(self._store, pod), now.monotonic, since)

    def _forget(self, subject: str, pod: PodSeen) -> None:
        for source in sources_of(pod):
            if (of_source := self._pods_of.get(source)) is not None:
                of_source.pop(subject, None)
                if not of_source:
                    del self._pods_of[source]

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
    if _fits_no_node(explanation):
        return "it fits no node, whichever pods end"
    if explanation.kept_for:
        return "nodes are kept free for another job"
    return "jobs of a higher priority are before it" if position.higher_before else ""


def _fits_no_node(explanation: Explanation) -> bool:
    """Return whether a pending pod fits no node, whichever pods end."""
    of_pod = any(not each.nodes and lasts(each) for each in explanation.refusals)
    first = explanation.first_failing
    return of_pod or (bool(first) and all(map(lasts, first)))
