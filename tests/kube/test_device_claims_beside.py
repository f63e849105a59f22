"""kube-scheduler and deviceshare allocate the devices of one driver: no bound pod of ours has a device that was taken.

The API server accepts a device in two ResourceClaims. The judge compares the revisions of what both have written, which
are one order of all objects. It ends when both have bound so many pods and a device was in two claims: if none is by
chance, the test allocates one that was just allocated for a pod of ours. The number of pods can be raised by the
environment: DEVICESHARE_BESIDE_PODS=500.
"""

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from math import inf
from pathlib import Path
from typing import Any

import pytest
from deviceshare_cluster.device_claims import FINALIZER
from support import apiserver as kube
from support.beside import beside
from support.device_cluster import (
    CLAIMS_AT,
    NAMESPACE,
    PODS_AT,
    DeviceCluster,
    claiming_pod,
    device_cluster,
    devices_of,
)
from support.devices import DRIVER

LEAST = int(os.environ.get("DEVICESHARE_BESIDE_PODS", "20"))
"""Pods that each scheduler binds, at least."""
NODES = 2
PODS = 12
"""Pods of each scheduler that want a device at a time: together more than there are."""
KEPT = 2
"""Bound pods of each scheduler that stay, fewer than the other leaves devices for; of more some are deleted."""
OURS, OTHER, NONE = "volcano", "default-scheduler", "none"
EVENTS_AT = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
pytestmark = pytest.mark.timeout(600 + 3 * LEAST)


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
        self.allocations: dict[tuple[str, str], list[Allocation]] = {}
        self.claims: dict[str, str] = {}
        """The name of the claim of a pod."""
        self.informed: set[str] = set()
        """The names of the pods with an Event about a conflict."""
        self.open: dict[str, tuple[tuple[str, str], Allocation]] = {}
        """By claim the device that it has."""
        self._changed = asyncio.Condition()

    async def until(self, state: Callable[[], Any]) -> None:
        """Wait until something is so."""
        async with self._changed:
            await self._changed.wait_for(state)

    async def follow(self, path: str, apply: Callable[[str, Any], None]) -> None:
        async for event, obj in self.cluster.api.follow(path):
            if event != "LISTED":
                apply(event, obj)
                async with self._changed:
                    self._changed.notify_all()

    def pod(self, _event: str, pod: Any) -> None:
        uid = pod["metadata"]["uid"]
        self.names[uid], self.schedulers[uid] = pod["metadata"]["name"], pod["spec"]["schedulerName"]
        if pod["spec"].get("nodeName"):
            self.bound.setdefault(uid, int(pod["metadata"]["resourceVersion"]))

    def claim(self, event: str, claim: Any) -> None:
        uid, revision = claim["metadata"]["uid"], int(claim["metadata"]["resourceVersion"])
        (owner,) = claim["metadata"]["ownerReferences"]
        self.claims[owner["uid"]] = claim["metadata"]["name"]
        devices = devices_of(claim) if event != "DELETED" else []
        device, allocation = self.open.get(uid, (None, None))
        if allocation is not None and devices != [device]:
            allocation.end = revision
            del self.open[uid]
        if devices and uid not in self.open:
            allocation = Allocation(owner["uid"], revision)
            self.open[uid] = devices[0], allocation
            self.allocations.setdefault(devices[0], []).append(allocation)

    def event(self, _event: str, event: Any) -> None:
        if event["reason"] == "DeviceConflict":
            self.informed.add(event["regarding"]["name"])

    def numbers_bound(self) -> dict[str, int]:
        """Return how many pods each scheduler has bound."""
        found = Counter(self.schedulers[uid] for uid in self.bound)
        return {scheduler: found[scheduler] for scheduler in (OURS, OTHER)}

    def conflicts(self) -> Iterator[tuple[Allocation, Allocation]]:
        """Yield the allocations of one device at a time, one of ours first, that of another one second."""
        for of_device in self.allocations.values():
            for mine in of_device:
                for other in of_device:
                    ours = [self.schedulers[each.pod] == OURS for each in (mine, other)]
                    if ours == [True, False] and max(mine.begin, other.begin) < min(mine.end, other.end):
                        yield mine, other

    def is_taken(self, mine: Allocation, other: Allocation) -> bool:
        """Whether our pod was bound with a device that another one had written before."""
        bound = self.bound.get(mine.pod, inf)
        return mine.holds(bound) and other.holds(bound)

    def is_enough(self) -> bool:
        """Whether both have bound so many pods, and a device was in two claims."""
        return min(self.numbers_bound().values()) >= LEAST and any(self.conflicts())


async def churn(history: History, scheduler: str) -> None:
    """Let pods of a scheduler come and go until there is enough to judge.

    They go when the other scheduler has bound nearly as many: kube-scheduler's client writes 50 times a second, and
    with more pods its allocations would be written seconds after it has decided.
    """
    numbers, cluster, rng, there = count(), history.cluster, random.Random(scheduler), set[str]()

    def leaving() -> list[str]:
        numbers_bound = history.numbers_bound()
        if numbers_bound[scheduler] > min(numbers_bound.values()) + PODS:
            return []
        bound = sorted(name for uid, name in history.names.items() if name in there and uid in history.bound)
        return rng.sample(bound, max(0, len(bound) - KEPT))

    while not history.is_enough():
        while len(there) < PODS:
            name = f"{'ours' if scheduler == OURS else 'other'}-{next(numbers)}"
            there.add(name)
            await cluster.create(claiming_pod(name, scheduler=scheduler))
        for name in leaving():
            there.remove(name)
            await cluster.delete_pod(name)
        await history.until(lambda: leaving() or history.is_enough())


async def take_a_device(history: History) -> None:
    """Allocate a device as soon as it was allocated for a pod of ours, until that is a conflict.

    Others have allocated before: the binder knows that there are others, and binds the pod a second later.
    """
    cluster, name = history.cluster, "taker"
    await cluster.create(claiming_pod(name, scheduler=NONE))
    await history.until(lambda: any(history.names.get(uid) == name for uid in history.claims))
    (pod,) = (uid for uid, each in history.names.items() if each == name)
    claim = f"{CLAIMS_AT}/{history.claims[pod]}"
    await cluster.api.patch(claim, {"metadata": {"finalizers": [FINALIZER]}})
    await history.until(lambda: history.numbers_bound()[OTHER] > 0)
    before: list[Allocation] = []

    def ours() -> list[tuple[str, str]]:
        new = (each for each in history.open.values() if each[1] not in before)
        return [device for device, each in new if history.schedulers[each.pod] == OURS]

    def has_device() -> bool:
        return any(each.pod == pod for _, each in history.open.values())

    while not any(history.conflicts()):
        before = [each for _, each in history.open.values()]
        await history.until(lambda: ours() or any(history.conflicts()))
        for pool, device in ours()[:1]:
            result = {"request": "r", "driver": DRIVER, "pool": pool, "device": device}
            user = {"resource": "pods", "name": name, "uid": pod}
            status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
            await cluster.api.patch(f"{claim}/status", {"status": status})
            await history.until(has_device)
            if not any(history.conflicts()):
                await cluster.api.patch(f"{claim}/status", {"status": {"allocation": None, "reservedFor": None}})
                await history.until(lambda: not has_device())


@asynccontextmanager
async def followed(directory: Path) -> AsyncIterator[History]:
    async with device_cluster(directory, NODES) as cluster:
        history = History(cluster)
        subjects = (PODS_AT, history.pod), (CLAIMS_AT, history.claim), (EVENTS_AT, history.event)
        async with beside(*(history.follow(*each) for each in subjects)):
            yield history


async def test_no_pod_is_bound_with_a_device_that_others_have_taken(tmp_path: Path) -> None:
    program = kube.program("kube-scheduler")
    async with followed(tmp_path) as history:
        history.cluster.server.run_scheduler(program)
        await asyncio.gather(churn(history, OURS), churn(history, OTHER), take_a_device(history))
        found = list(history.conflicts())
        late = [mine for mine, other in found if mine.holds(history.bound.get(mine.pod, inf))]
        print(f"bound {history.numbers_bound()}, conflicts {len(found)}, of which {len(late)} after our Binding")  # noqa: T201
        assert [history.names[mine.pod] for mine, other in found if history.is_taken(mine, other)] == []
        of_conflicts = {history.names[each.pod] for pair in found for each in pair}
        await history.until(lambda: of_conflicts <= history.informed)


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
