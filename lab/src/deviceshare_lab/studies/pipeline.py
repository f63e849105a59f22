"""A discrete-event simulation of all services and of their bus, in virtual time, with measured costs per step.

Every process is a station that serves one batch at a time: it takes what waits, up to a limit, occupies a core for the
costs of the batch, and passes the results on. Stations of one host compete for its cores. What every replica has to
read of the others is work as well; it is what limits the number of replicas that pay.
"""

import heapq
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

BATCH = 100
"""Pods that a process handles before it passes them on."""
MAX_EVENTS = 5_000_000
"""Batches after which a simulation is given up."""


class Costs(NamedTuple):
    """Microseconds of CPU per pod, and what else limits a system.

    Args:
        inventory: reading the pod and its changes from the cluster, and writing its facts.
        follow: what each replica of placement does for a pod that it does not decide, with its facts and its claim.
        decide: what the deciding replica of placement does in addition.
        node: what a decision costs in addition for each 1,000 nodes.
        bind: the binder, with its requests.
        bind_follow: what each replica of the binder does for a pod that it does not bind.
        metrics: the metrics service.
        bus: nats-server, for the messages of a pod and their first reader.
        bus_copy: nats-server, for the copies of these messages to one further replica.
        cluster: the API server, or the local cluster, for a pod.
        conflict: the share of the pods that are decided again, for each other replica of placement.
        round: milliseconds from sending a round of ledgers until their answer, without queueing.
        replicated: the factor of ``bus`` and of ``round`` for streams with three replicas.
        requests_per_second: what the API server takes from the binder, 0 for no limit.
    """

    inventory: float = 231.0
    follow: float = 175.0
    decide: float = 35.0
    node: float = 0.4
    bind: float = 295.0
    bind_follow: float = 40.0
    metrics: float = 82.0
    bus: float = 135.0
    bus_copy: float = 39.0
    cluster: float = 341.0
    conflict: float = 0.02
    round: float = 3.0
    replicated: float = 2.0
    requests_per_second: float = 0.0


class Layout(NamedTuple):
    """The processes, and the hosts that they share.

    ``cores``: of all services and servers together; 0: each process has a core of its own.
    """

    nodes: int
    placement: int = 1
    binder: int = 1
    replicated: bool = False
    cores: int = 0


class Result(NamedTuple):
    """What a simulation found: ``busy`` is the share of the time for which each kind of process was busy."""

    pods_per_second: float
    cpu_ms_per_pod: float
    conflicts: float
    busy: dict[str, float]

    @property
    def bottleneck(self) -> str:
        """The kind of process that was busy most."""
        return max(self.busy, key=lambda name: self.busy[name])


class _Station:
    """One process. ``cost`` is per pod, in seconds; ``then`` takes the pods of a finished batch.

    After a batch of pods it rests for ``pause`` seconds, without a core: it waits for an answer.
    """

    def __init__(self, kind: str, cost: float, then: Callable[[int], None], *, pause: float = 0.0) -> None:
        self.kind, self.cost, self.then, self.pause = kind, cost, then, pause
        self.waiting = 0
        self.extra = 0.0
        """Seconds of work that is no pod of its own: what it reads of others."""
        self.busy = False
        self.used = 0.0


class _Host:
    """Runs the stations on a number of cores; the event loop of a simulation."""

    def __init__(self, cores: int) -> None:
        self.now = 0.0
        self._free = cores or 1 << 30
        self._ready: deque[_Station] = deque()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def at(self, time: float, action: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (time, self._number, action))

    def add(self, station: _Station, pods: int, extra: float = 0.0) -> None:
        station.waiting += pods
        station.extra += extra
        self._wake(station)

    def _wake(self, station: _Station) -> None:
        if not station.busy and (station.waiting or station.extra):
            station.busy = True
            self._ready.append(station)
            self._start()

    def _start(self) -> None:
        while self._free and self._ready:
            self._free -= 1
            self._begin(self._ready.popleft())

    def _begin(self, station: _Station) -> None:
        pods = min(station.waiting, BATCH)
        seconds = pods * station.cost + station.extra
        station.waiting -= pods
        station.extra = 0.0
        station.used += seconds
        self.at(self.now + seconds, lambda: self._end(station, pods))

    def _end(self, station: _Station, pods: int) -> None:
        self._free += 1
        station.then(pods)
        if pods and station.pause:
            self.at(self.now + station.pause, lambda: self._rested(station))
        else:
            self._rested(station)
        self._start()

    def _rested(self, station: _Station) -> None:
        station.busy = False
        self._wake(station)

    def run(self) -> None:
        for _ in range(MAX_EVENTS):
            if not self._events:
                return
            self.now, _, action = heapq.heappop(self._events)
            action()
        raise RuntimeError("the simulation does not end")


class Pipeline:
    """The stations of one layout, connected: cluster, inventory, bus, placement, bus, binder, cluster."""

    def __init__(self, layout: Layout, costs: Costs) -> None:
        self._layout, self._costs = layout, costs
        self._host = _Host(layout.cores)
        micro = 1e-6
        copies = layout.placement - 1 + layout.binder - 1
        bus = (costs.bus * (costs.replicated if layout.replicated else 1.0) + costs.bus_copy * copies) * micro
        decide = (costs.follow + costs.decide + costs.node * layout.nodes / 1000) * micro
        pause = costs.round * (costs.replicated if layout.replicated else 1.0) / 1000
        self._cluster = _Station("cluster", costs.cluster / 2 * micro, self._created)
        self._inventory = _Station("inventory", costs.inventory * micro, self._seen)
        self._bus = _Station("bus", bus / 2, self._delivered)
        self._claims = _Station("bus", bus / 2, self._claimed)
        self._placements = [_Station("placement", decide, self._decided, pause=pause) for _ in range(layout.placement)]
        bind = (costs.bind + costs.bind_follow) * micro
        self._binders = [_Station("binder", bind, self._sent) for _ in range(layout.binder)]
        self._bindings = _Station("cluster", costs.cluster / 2 * micro, self._bound)
        self._limit = _Station(
            "API server", 1 / costs.requests_per_second if costs.requests_per_second else 0.0, self._accepted
        )
        self._metrics = _Station("metrics", costs.metrics * micro, lambda _: None)
        self._share = min(0.9, costs.conflict * (layout.placement - 1))
        self._debt = 0.0
        self.conflicts = 0
        self._turn = self._binder_turn = 0
        self.done = 0

    def run(self, pods: int) -> Result:
        """Create pods at once and simulate until all are bound."""
        self._host.add(self._cluster, pods)
        self._host.run()
        stations = [
            self._cluster, self._inventory, self._bus, self._claims, *self._placements, *self._binders, self._bindings,
            self._metrics,
        ]  # fmt: skip
        busy: dict[str, float] = {}
        for kind, members in _by_kind([*stations, self._limit]).items():
            # nats-server and the API server store different streams, or kinds, concurrently.
            busy[kind] = sum(each.used for each in members) / len(members) / self._host.now
        cpu = sum(each.used for each in stations)
        return Result(pods / self._host.now, cpu * 1000 / pods, self.conflicts / pods, busy)

    def _created(self, pods: int) -> None:
        self._host.add(self._inventory, pods)

    def _seen(self, pods: int) -> None:
        self._host.add(self._bus, pods)

    def _delivered(self, pods: int) -> None:
        """Each pod has a queue, and each queue one replica; the others read its fact."""
        self._spread(pods)
        self._host.add(self._metrics, pods)

    def _spread(self, pods: int) -> None:
        each, rest = divmod(pods, len(self._placements))
        for number, station in enumerate(self._placements):
            own = each + ((number - self._turn) % len(self._placements) < rest)
            self._host.add(station, own, (pods - own) * self._costs.follow * 1e-6)
        self._turn += rest

    def _decided(self, pods: int) -> None:
        self._debt += pods * self._share
        again = min(pods, int(self._debt))
        self._debt -= again
        self.conflicts += again
        if again:
            station = self._placements[self._turn % len(self._placements)]
            self._turn += 1
            self._host.add(station, again)
        self._host.add(self._claims, pods - again)

    def _claimed(self, pods: int) -> None:
        each, rest = divmod(pods, len(self._binders))
        for number, station in enumerate(self._binders):
            own = each + ((number - self._binder_turn) % len(self._binders) < rest)
            self._host.add(station, own, (pods - own) * self._costs.bind_follow * 1e-6)
        self._binder_turn += rest

    def _sent(self, pods: int) -> None:
        self._host.add(self._limit if self._costs.requests_per_second else self._bindings, pods)

    def _accepted(self, pods: int) -> None:
        self._host.add(self._bindings, pods)

    def _bound(self, pods: int) -> None:
        self.done += pods


def _by_kind(stations: list[_Station]) -> dict[str, list[_Station]]:
    found: dict[str, list[_Station]] = {}
    for station in stations:
        found.setdefault(station.kind, []).append(station)
    return found


def simulate(layout: Layout, costs: Costs, pods: int = 20_000) -> Result:
    """Simulate a burst of pods."""
    return Pipeline(layout, costs).run(pods)
