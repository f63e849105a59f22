"""A simulated cluster without faults in which pods that are evicted come back, as those of Jobs do."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any
from unittest.mock import patch

from deviceshare_bus.streams import follower, stream_watch
from deviceshare_cluster.interface import Object
from deviceshare_lab.chaos.system import System
from deviceshare_lab.clusters import manifests, objects
from deviceshare_lab.world.apiserver import Seen, key_of
from deviceshare_lab.world.virtual_time import run

COMES_BACK = 1.0
"""Seconds until an evicted pod is created again."""
JOB = "job"
"""Label: what a pod is created for, again after each eviction."""
REPLICAS = {"inventory": 1, "placement": 2, "binder": 1, "metrics": 1}
CHECK = 5.0
"""Seconds between two looks of the services at the state of a stream, which cost most of the time of a simulation."""


def conf(*plugins: str, actions: Iterable[str]) -> str:
    """Return a configuration; reservations for pods that wait for long are off, since they evict no pod."""
    return objects.conf({**manifests.ARGUMENTS, "StarvationSeconds": 0}, plugins=plugins, actions=tuple(actions))


def queue(name: str, **spec: Any) -> Object:
    made = objects.queue(name)
    made["spec"] |= spec
    return made


class Settling:
    """The four services in virtual time, and what happens to the pods of jobs of one pod each."""

    def __init__(self, seed: str, configuration: str, cluster: Iterable[Object]) -> None:
        self._system = System(seed, {}, REPLICAS, preempts=True)
        api = self._system.api
        (scheduler, *_) = manifests.configuration(())
        (text,) = scheduler["data"]

        def configure(found: Object) -> bool:
            found["data"] = {text: configuration}
            return True

        api.update(key_of(scheduler), configure, "user")
        for each in cluster:
            api.create(each)
        self.evictions: Counter[str] = Counter()
        """How often a pod of each job was evicted."""
        self.last_eviction = 0.0
        self._made: Counter[str] = Counter()
        api.observers.append(self._seen)

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def start(self) -> None:
        await self._system.set_up()
        for process in self._system.processes:
            process.start()

    def submit(self, job: str, limits: Mapping[str, str], *, queue: str = "default", priority: int = 0) -> None:
        """Create the pod of a job; its CPU requests are its limits."""
        self._made[job] += 1
        pod = objects.pod(
            f"{job}.{self._made[job]}", limits, queue=queue, labels={JOB: job}, priority=priority, **objects.TOLERANT
        )
        pod["spec"]["containers"][0]["resources"]["requests"] = dict(limits)
        self._system.api.create(pod)

    def _seen(self, seen: Seen) -> None:
        if seen.kind != "Pod" or seen.before is None:
            return
        metadata = seen.before["metadata"]
        job = metadata["labels"][JOB]
        if seen.after is not None and "deletionTimestamp" in seen.after["metadata"].keys() - metadata.keys():
            self.evictions[job] += 1
            self.last_eviction = self.now
        elif seen.after is None:
            self._system.begin(self._come_back(seen.before))

    async def _come_back(self, pod: Object) -> None:
        await asyncio.sleep(COMES_BACK)
        self.submit(
            pod["metadata"]["labels"][JOB],
            pod["spec"]["containers"][0]["resources"]["limits"],
            queue=pod["metadata"]["annotations"].get("scheduling.volcano.sh/queue-name", ""),
            priority=pod["spec"]["priority"],
        )

    def running(self) -> set[str]:
        """Return the jobs whose pod is bound and stays."""
        return {
            pod["metadata"]["labels"][JOB]
            for pod in self._system.api.objects("Pod")
            if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]
        }

    async def wait(self, seconds: float = 0.5) -> None:
        """Let some time pass."""
        await asyncio.sleep(seconds)

    async def until_running(self, jobs: Iterable[str], within: float) -> float:
        """Wait until the pods of these jobs are bound; return the seconds that it took."""
        began, wanted = self.now, set(jobs)
        while not wanted <= self.running():
            assert self.now < began + within, f"{sorted(wanted - self.running())} not bound in {within} s"
            await self.wait()
        return self.now - began

    async def until_quiet(self, seconds: float, within: float) -> None:
        """Wait until no pod was evicted for so long."""
        began = self.now
        while self.now < max(began, self.last_eviction) + seconds:
            assert self.now < began + within, f"evictions go on: {self.evictions}"
            await asyncio.sleep(1.0)
        assert self._system.checkers.violation is None, self._system.checkers.violation

    def end(self) -> None:
        self._system.end()


def simulate(seed: str, configuration: str, cluster: Iterable[Object], play: Any) -> Settling:
    """Play in virtual time: ``play`` gets the cluster with all services running."""

    async def main() -> Settling:
        settling = Settling(seed, configuration, cluster)
        try:
            await settling.start()
            await play(settling)
        finally:
            settling.end()
        return settling

    with patch.object(follower, "CHECK", CHECK), patch.object(stream_watch, "CHECK", CHECK):
        return run(main, seed)
