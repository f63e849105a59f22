"""The status of Queues: the usage of their pods, and the state of a new one.

Source: Volcano pkg/scheduler/framework/session.go (updateQueueStatus), pkg/controllers/queue (a new queue is opened).
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction

from deviceshare.conf import SchedulerConf, default_conf
from deviceshare.model import PodRequest, ResourceAmounts, format_quantity
from deviceshare.queueing import ROOT, Counting

from deviceshare_binder.core.views import PodUsage, QueueView

OPEN = "Open"


class Charges:
    """What each bound pod of a PodGroup counts in its queue, under one configuration."""

    def __init__(self) -> None:
        self._counting = Counting(default_conf())
        self._pods: dict[str, PodUsage] = {}
        self._requests: dict[PodRequest, PodRequest] = {}
        """Equal requests are one object: many pods have the same request, which is evaluated once."""

    def put(self, uid: str, usage: PodUsage) -> ResourceAmounts:
        """Return what a bound pod counts after it changed."""
        if len(self._requests) > 2 * len(self._pods) + 100:
            self._requests = {each.ask: each.ask for each in self._pods.values()}
        self._pods[uid] = usage = PodUsage(ask=self._requests.setdefault(usage.ask, usage.ask), held=usage.held)
        return self._counting.held(usage.ask, usage.held)

    def drop(self, uid: str) -> None:
        """Forget a pod."""
        self._pods.pop(uid, None)

    def configure(self, conf: SchedulerConf) -> dict[str, ResourceAmounts]:
        """Apply a configuration; return what each pod counts under it."""
        self._counting = Counting(conf)
        return {uid: self._counting.held(usage.ask, usage.held) for uid, usage in self._pods.items()}


def with_parents(name: str, queues: Mapping[str, QueueView]) -> Iterator[str]:
    """Yield a queue and its ancestors up to the root; a queue without a parent is a child of the root."""
    seen: set[str] = set()
    while name not in seen:
        seen.add(name)
        yield name
        view = queues.get(name)
        name = (view.parent if view is not None and name != ROOT else "") or ROOT


def as_quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return amounts as Volcano writes them into ``status.allocated``: CPU and memory even if they are 0."""
    found = {"cpu": 0, "memory": 0} | {name: amount for name, amount in amounts.items() if amount}
    return {
        name: format_quantity(Fraction(amount, 1000 if name == "cpu" else 1), binary=name == "memory")
        for name, amount in sorted(found.items())
    }
