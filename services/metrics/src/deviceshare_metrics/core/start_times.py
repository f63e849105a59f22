"""When waiting pods start, as the facts show it: kinds of pods are those that request the same devices in one queue."""

import msgspec
from deviceshare.families import device_resources
from deviceshare.model import Fact, Gone, PodRequest
from deviceshare.queueing.start_estimates import StartEstimates
from deviceshare.state import sums
from deviceshare_bus.messages.subjects import fact
from deviceshare_bus.messages.validation import UNDECODABLE

from deviceshare_metrics import api
from deviceshare_metrics.core.facts import PodSeen
from deviceshare_metrics.core.state_store import StateStore

_decode_request = msgspec.msgpack.Decoder(PodRequest).decode


class StartTimes:
    """Follows pods while the service runs: what came before it is not known. Times are unix seconds."""

    def __init__(self) -> None:
        self._estimates = StartEstimates()

    def follow(self, subject: str, changed: Fact, store: StateStore, now: float) -> None:
        """Apply a fact before it is in the store."""
        if isinstance(changed, Gone):
            if (before := store.pods.get(subject)) is not None:
                self._estimates.end(before.uid, now, started=False)
        elif isinstance(changed, PodSeen):
            if changed.node or changed.ended or changed.terminating or changed.gates or changed.problems:
                self._estimates.end(changed.uid, now, started=bool(changed.node))
            elif changed.uid not in self._estimates and (kind := _kind(changed, store)) is not None:
                self._estimates.wait(changed.uid, kind, min(changed.created or now, now))

    def advance(self, now: float) -> None:
        """Let time pass."""
        self._estimates.probe(now)

    def expected(self, uid: str, now: float) -> api.StartTime | None:
        """Return when a waiting pod starts, None if too few pods of its kind have started meanwhile."""
        if (found := self._estimates.expected(uid, now)) is None:
            return None
        latest = None if found.latest == float("inf") else now + found.latest
        return api.StartTime(earliest=now + found.earliest, latest=latest)


def _kind(pod: PodSeen, store: StateStore) -> tuple[str, tuple[tuple[str, int], ...]] | None:
    """Return the queue of a pod and the devices that it requests, None if it requests none or is not valid."""
    try:
        asked = sums(_decode_request(pod.ask))
    except UNDECODABLE:
        return None
    names = device_resources(store.conf)
    devices = tuple(sorted((name, amount) for name, amount in asked.items() if name in names or api.is_whole(name)))
    group = store.groups.get(fact("podgroup", pod.group))
    return ((group.queue if group is not None else "") or pod.queue or "default", devices) if devices else None
