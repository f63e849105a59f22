"""kube-scheduler and deviceshare allocate the devices of one driver: no bound pod of ours has a device that was taken.

The API server accepts a device in two ResourceClaims. The judge compares the revisions of what both have written, which
are one order of all objects. The time can be raised by the environment: DEVICESHARE_BESIDE_SECONDS=600.
"""

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from math import inf
from pathlib import Path

import pytest
from support import apiserver as kube
from support.device_cluster import (
    CLAIMS_AT,
    NAMESPACE,
    PODS_AT,
    DeviceCluster,
    claiming_pod,
    device_cluster,
    devices_of,
)

SECONDS = float(os.environ.get("DEVICESHARE_BESIDE_SECONDS", "20"))
NODES = 2
PODS = 12
"""Pods of each scheduler that want a device at a time: together more than there are."""
LEAST = 10
"""Pods that each scheduler binds, at least."""
LIFE = 1.0, 4.0
"""Seconds for which a bound pod stays, at least and at most."""
OURS, OTHER = "volcano", "default-scheduler"
pytestmark = pytest.mark.timeout(600 + 3 * SECONDS)


class Allocation:
    """A device of a claim of a pod, from one revision to another."""

    def __init__(self, pod: str, begin: int) -> None:
        self.pod, self.begin, self.end = pod, begin, inf

    def holds(self, revision: float) -> bool:
        return self.begin <= revision < self.end


class History:
    """What was written of claims and pods; pods by their uid."""

    def __init__(self, cluster: DeviceCluster) -> None:
        self.cluster = cluster
        self.names: dict[str, str] = {}
        self.schedulers: dict[str, str] = {}
        self.bound: dict[str, int] = {}
        self.there: dict[str, float] = {}
        """By the uid of a pod that is not deleted when it was bound, or infinity."""
        self.allocations: dict[tuple[str, str], list[Allocation]] = {}
        self._open: dict[str, tuple[tuple[str, str], Allocation]] = {}

    async def follow_pods(self) -> None:
        async for event, pod in self.cluster.api.follow(PODS_AT):
            if event == "LISTED":
                continue
            uid = pod["metadata"]["uid"]
            self.names[uid], self.schedulers[uid] = pod["metadata"]["name"], pod["spec"]["schedulerName"]
            self.there.setdefault(uid, inf)
            if pod["spec"].get("nodeName") and uid not in self.bound:
                self.bound[uid], self.there[uid] = int(pod["metadata"]["resourceVersion"]), time.monotonic()
            if event == "DELETED":
                del self.there[uid]

    async def follow_claims(self) -> None:
        async for event, claim in self.cluster.api.follow(CLAIMS_AT):
            if event == "LISTED":
                continue
            uid, revision = claim["metadata"]["uid"], int(claim["metadata"]["resourceVersion"])
            devices = devices_of(claim) if event != "DELETED" else []
            device, allocation = self._open.get(uid, (None, None))
            if allocation is not None and devices != [device]:
                allocation.end = revision
                del self._open[uid]
            if devices and uid not in self._open:
                (owner,) = claim["metadata"]["ownerReferences"]
                allocation = Allocation(owner["uid"], revision)
                self._open[uid] = devices[0], allocation
                self.allocations.setdefault(devices[0], []).append(allocation)

    def numbers_bound(self) -> dict[str, int]:
        """Return how many pods each scheduler has bound."""
        found = Counter(self.schedulers[uid] for uid in self.bound)
        return {scheduler: found[scheduler] for scheduler in (OURS, OTHER)}

    def conflicts(self) -> Iterator[tuple[Allocation, Allocation]]:
        """Yield the allocations of one device at a time, one of ours first, that of the other scheduler second."""
        for of_device in self.allocations.values():
            for mine in of_device:
                for other in of_device:
                    both = self.schedulers[mine.pod], self.schedulers[other.pod]
                    if both == (OURS, OTHER) and max(mine.begin, other.begin) < min(mine.end, other.end):
                        yield mine, other

    def is_taken(self, mine: Allocation, other: Allocation) -> bool:
        """Whether our pod was bound with a device that the other scheduler had written before."""
        bound = self.bound.get(mine.pod, inf)
        return mine.holds(bound) and other.holds(bound)


async def churn(history: History, scheduler: str, until: float) -> None:
    """Let pods of a scheduler come and go until a time, and until both have bound enough."""
    numbers, cluster, lives = count(), history.cluster, dict[str, float]()
    rng = random.Random(scheduler)
    wanted = Counter[str]()
    while time.monotonic() < until or min(history.numbers_bound().values()) < LEAST:
        while len(wanted) < PODS:
            name = f"{'ours' if scheduler == OURS else 'other'}-{next(numbers)}"
            await cluster.create(claiming_pod(name, scheduler=scheduler))
            wanted[name] += 1
        for uid, since in list(history.there.items()):
            if (name := history.names[uid]) in wanted:
                life = lives.setdefault(uid, rng.uniform(*LIFE))
                if time.monotonic() > since + life:
                    await cluster.delete_pod(name)
                    del wanted[name]
        await asyncio.sleep(0.02)


@asynccontextmanager
async def followed(directory: Path) -> AsyncIterator[History]:
    async with device_cluster(directory, NODES) as cluster:
        history = History(cluster)
        tasks = [asyncio.create_task(each()) for each in (history.follow_pods, history.follow_claims)]
        try:
            yield history
        finally:
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


async def test_no_pod_is_bound_with_a_device_that_kube_scheduler_has_taken(tmp_path: Path) -> None:
    program = kube.program("kube-scheduler")
    async with followed(tmp_path) as history:
        history.cluster.server.run_scheduler(program)
        end = time.monotonic() + SECONDS
        await asyncio.gather(*(churn(history, scheduler, end) for scheduler in (OURS, OTHER)))
        found = list(history.conflicts())
        late = [mine for mine, other in found if mine.holds(history.bound.get(mine.pod, inf))]
        print(f"bound {history.numbers_bound()}, conflicts {len(found)}, of which {len(late)} after our Binding")  # noqa: T201
        assert [history.names[mine.pod] for mine, other in found if history.is_taken(mine, other)] == []
        left = {history.names[each.pod] for pair in found for each in pair}
        patience = time.monotonic() + 60
        while left and time.monotonic() < patience:
            events = await history.cluster.items(f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events")
            left -= {each["regarding"]["name"] for each in events if each["reason"] == "DeviceConflict"}
            await asyncio.sleep(0.1)
        assert not left


def test_the_judge_sees_what_it_looks_for() -> None:
    """Allocations of one device, in the order of revisions."""
    judge = History.__new__(History)
    judge.schedulers, judge.bound = {"a": OURS, "b": OTHER}, {"a": 5}
    mine, other = Allocation("a", 1), Allocation("b", 3)
    judge.allocations = {("n0", "gpu-0"): [mine, other]}
    assert list(judge.conflicts()) == [(mine, other)]
    assert judge.is_taken(mine, other)
    other.begin = 6
    assert not judge.is_taken(mine, other)
    mine.end = 6
    assert list(judge.conflicts()) == []
