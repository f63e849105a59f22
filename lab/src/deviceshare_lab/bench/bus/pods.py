"""The pods of a run: creates them, all at once or at a given rate, and watches until they are bound."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

from deviceshare_cli.backing import LocalBacking
from deviceshare_cli.errors import CommandError
from deviceshare_cli.pods import read_pod
from deviceshare_cli.system import System
from deviceshare_cluster.interface import Change, ClusterError, Listed, Object
from deviceshare_localcluster import Applied

from deviceshare_lab.bench.bus.stages import Arrivals, Moments

CHUNK = 250
"""Pods per batch without a rate; a batch is created when the previous batch has been acknowledged."""
PAUSE = 0.005
"""Seconds between two creations at a rate, at least: the pods that are due meanwhile are created together."""


def local(system: System) -> LocalBacking:
    """Return the local cluster of a system."""
    assert isinstance(system.backing, LocalBacking)
    return system.backing


class Pods:
    """The pods by name, with the times of their creation and binding."""

    def __init__(self) -> None:
        self.listed = asyncio.Event()
        self.changed = asyncio.Event()
        self.moments: dict[str, Moments] = {}
        self.bound: set[str] = set()
        self.reasons: dict[str, str] = {}
        """Why pods are pending."""

    async def watch(self, system: System) -> None:
        """Observe the cluster's pods until cancelled; there are none yet."""
        with local(system).observed(self._take):
            self.listed.set()
            await asyncio.Event().wait()

    def _take(self, batch: list[Change | Listed]) -> None:
        at = time.time()
        self.changed.set()
        for change in batch:
            if not isinstance(change, Change) or change.kind != "Pod" or not change.raw:
                continue
            if change.name in self.moments and change.name not in self.bound:
                pod = read_pod(change.raw)
                if pod.node:
                    self.moments[pod.name].bound = at
                    self.bound.add(pod.name)
                    self.reasons.pop(pod.name, None)
                elif pod.reason:
                    self.reasons[pod.name] = pod.reason

    async def create(self, system: System, pods: Sequence[Object]) -> None:
        """Create pods as fast as the cluster accepts them."""
        for start in range(0, len(pods), CHUNK):
            await self._create(system, pods[start : start + CHUNK], [time.time()] * CHUNK)

    async def create_at(self, system: System, pods: Sequence[Object], rate: float) -> Arrivals:
        """Create ``rate`` pods a second, whatever the system does with them.

        A pod's creation is the moment when it is due, also if the request is sent later.
        """
        due = list(zip(pods, schedule(time.time(), len(pods), rate), strict=True))
        late = 0.0
        async with asyncio.TaskGroup() as group:
            async for part in _as_due(due):
                late = max(late, time.time() - part[0][1])
                group.create_task(self._create(system, [obj for obj, _ in part], [at for _, at in part]))
            still_open = len(pods) - len(self.bound)
        return Arrivals(rate, still_open, late)

    async def _create(self, system: System, objects: Sequence[Object], times: Iterable[float]) -> None:
        for obj, at in zip(objects, times, strict=False):
            self.moments[obj["metadata"]["name"]] = Moments(at)
        for one in await _made(system, objects):
            if one.problem is not None:
                raise CommandError(f"a generated pod was refused: {one.problem}")

    async def finished(self, count: int, settled: Callable[[], Awaitable[None]], timeout: float) -> None:
        """Wait until every pod is bound or has a reason why it is pending, and then for ``settled``.

        Raises CommandError after ``timeout`` seconds.
        """
        try:
            async with asyncio.timeout(timeout):
                while len(self.bound) + len(self.reasons) < count:
                    self.changed.clear()
                    await self.changed.wait()
                if self.reasons:  # a pending pod may still be placed
                    await settled()
        except TimeoutError:
            raise CommandError(
                f"after {timeout:g} s {len(self.bound)} of {count} pods are bound, {len(self.reasons)} have a reason"
            ) from None


def schedule(begin: float, count: int, rate: float) -> list[float]:
    """Return when each pod is created at a rate."""
    return [begin + number / rate for number in range(count)]


async def _as_due(due: Sequence[tuple[Object, float]]) -> AsyncIterator[Sequence[tuple[Object, float]]]:
    """Yield the objects as they get due, those of :data:`PAUSE` together."""
    start = 0
    while start < len(due):
        now, end = time.time(), start
        while end < len(due) and due[end][1] <= now:
            end += 1
        if end > start:
            yield due[start:end]
            start = end
        if start < len(due):
            await asyncio.sleep(max(PAUSE, due[start][1] - time.time()))


async def _made(system: System, objects: Sequence[Object]) -> Sequence[Applied]:
    """Create objects; retry if the result is unknown because the server became unreachable."""
    while True:
        try:
            return await local(system).local.make(list(objects))
        except ClusterError as error:
            system.notices.report(f"bench: {error}, retrying")
            await asyncio.sleep(0.2)
