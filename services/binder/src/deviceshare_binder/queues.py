"""The status of Queues: what their pods have, and the state of a new one. Pure.

Source: Volcano pkg/scheduler/framework/session.go (updateQueueStatus), pkg/controllers/queue (a new queue is opened).
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction

import msgspec
from deviceshare.conf import SchedulerConf, default_conf
from deviceshare.model import ContainerGrant, PodRequest, ResourceAmounts, format_quantity
from deviceshare.queueing import ROOT, Counting

OPEN = "Open"


class QueueView(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="queue"):
    """The fields of a :class:`deviceshare.model.QueueFact` that its status depends on."""

    name: str
    parent: str = ""
    state: str = ""


class Charge(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="pod"):
    """The fields of a :class:`deviceshare.model.PodFact` that say what a bound pod has."""

    ask: PodRequest = PodRequest()
    held: tuple[ContainerGrant, ...] = ()


class Charges:
    """What each bound pod of a PodGroup counts in its queue, under one configuration."""

    def __init__(self) -> None:
        self._counting = Counting(default_conf())
        self._pods: dict[str, Charge] = {}
        self._asks: dict[PodRequest, PodRequest] = {}
        """Equal asks are one object: many pods ask the same, and it is worked out once."""

    def put(self, uid: str, charge: Charge) -> ResourceAmounts:
        """Return what a pod counts that is bound now, or of which something changed."""
        if len(self._asks) > 2 * len(self._pods) + 100:
            self._asks = {each.ask: each.ask for each in self._pods.values()}
        self._pods[uid] = charge = Charge(ask=self._asks.setdefault(charge.ask, charge.ask), held=charge.held)
        return self._counting.held(charge.ask, charge.held)

    def drop(self, uid: str) -> None:
        """Forget a pod."""
        self._pods.pop(uid, None)

    def configure(self, conf: SchedulerConf) -> dict[str, ResourceAmounts]:
        """Count by another configuration from now on; returns what each pod counts."""
        self._counting = Counting(conf)
        return {uid: self._counting.held(charge.ask, charge.held) for uid, charge in self._pods.items()}


def with_parents(name: str, queues: Mapping[str, QueueView]) -> Iterator[str]:
    """Yield a queue and those above it, up to the root; a queue without a parent is one of the root's."""
    seen: set[str] = set()
    while name not in seen:
        seen.add(name)
        yield name
        view = queues.get(name)
        name = (view.parent if view is not None and name != ROOT else "") or ROOT


def as_quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return amounts as Volcano writes them into ``status.allocated``: CPU and memory even where there is none."""
    found = {"cpu": 0, "memory": 0} | {name: amount for name, amount in amounts.items() if amount}
    return {
        name: format_quantity(Fraction(amount, 1000 if name == "cpu" else 1), binary=name == "memory")
        for name, amount in sorted(found.items())
    }
