"""The judge of a run: runs all checks, collects violations, and waits until the system has converged."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from deviceshare_bus.wire.connection import Connection
from deviceshare_bus.wire.tasks import end
from deviceshare_cluster.interface import ClusterError
from deviceshare_localcluster import LocalCluster

from deviceshare_lab.chaos.real.read_evictions import ReadEvictions
from deviceshare_lab.chaos.real.stream_reader import StreamReader
from deviceshare_lab.chaos.real.watched import Watched
from deviceshare_lab.checker import Violation
from deviceshare_lab.checker.at_rest import Objects, missing, without_members
from deviceshare_lab.checker.cards import Parts
from deviceshare_lab.checker.claims import Claims

INTERVAL = 0.2
"""Seconds between two looks at the cluster."""
QUIET = 1.0
"""Seconds in which nothing may be missing and no pod may be bound until the system counts as converged."""
MOST = 20
"""Violations that are kept."""
LIVENESS = "everything converges"


class Expected(NamedTuple):
    """What the judge has to know of the workload: whose pods are judged, and which of them may wait."""

    schedulers: Sequence[str]
    may_wait: str
    device_config: str


class Judge:
    """Checks a running system. :meth:`start` and :meth:`stop` it."""

    def __init__(self, bus: Connection, cluster: LocalCluster, expected: Expected) -> None:
        self._cluster, self._expected = cluster, expected
        parts = Parts(expected.device_config)
        self.violations: list[Violation] = []
        self.watched = Watched(cluster, self.report, parts)
        self.claims = claims = Claims(self.report, self.watched.nodes.get, parts)
        self.evictions = ReadEvictions(self.report, claims)
        self.watched.seen = self.evictions.pod
        self._readers = {
            "LEDGER": StreamReader(bus, "LEDGER", self._ledger, self._begin_ledgers),
            "OUTCOME": StreamReader(bus, "OUTCOME", claims.outcome, claims.outcomes.clear),
            "EXPLAIN": StreamReader(bus, "EXPLAIN", claims.explanation, claims.explained.clear),
        }
        self._compared: set[tuple[str, str]] = set()
        """Pods whose binding was compared with a claim."""
        self._lossy = False
        self._missed = 0
        """Messages of LEDGER that were superseded before they were read, until the last comparison."""
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin."""
        self._tasks = [asyncio.create_task(self.watched.run())]
        self._tasks += [asyncio.create_task(reader.run()) for reader in self._readers.values()]

    async def stop(self) -> None:
        """End."""
        await end(*self._tasks)

    def _ledger(self, subject: str, data: bytes) -> None:
        self.claims.ledger(subject, data)
        self.evictions.ledger(subject, data)

    def _begin_ledgers(self) -> None:
        self.claims.now.clear()
        self.evictions.clear()

    def report(self, rule: str, text: str) -> None:
        """Note a violation."""
        if len(self.violations) < MOST and all((rule, text) != (each.rule, each.text) for each in self.violations):
            self.violations.append(Violation(rule, text, time.time()))

    def damaged(self) -> None:
        """Hear that a fault removed messages of the bus: read the streams anew."""
        self._lossy = True
        for reader in self._readers.values():
            reader.restart()

    def evidence(self) -> str:
        """Return how much was read and checked so far."""
        read = ", ".join(
            f"{reader.count} of {stream} ({reader.missed} were superseded before)"
            for stream, reader in self._readers.items()
        )
        evictions = f"; {self.evictions.summary}" if self.evictions.summary else ""
        return f"read {self.watched.changes} changes of nodes and pods, and messages: {read}{evictions}"

    async def converged(self, since: float, patience: float, tidy: Callable[[], Awaitable[None]]) -> float:
        """Wait until nothing is missing; return the seconds from ``since`` (monotonic time) until then.

        A system that has not converged ``patience`` seconds after ``since`` is a violation. ``tidy`` is called
        meanwhile: the controllers of the cluster that are part of the workload.
        """
        quiet_since, before = time.monotonic(), self.watched.bound.count
        while not self.violations:
            found = await self._missing(tidy)
            now = time.monotonic()
            if found or self.watched.bound.count != before:
                quiet_since, before = now, self.watched.bound.count
            elif now - quiet_since >= QUIET:
                break
            if now - since > patience:
                found = found or ["pods are still being bound"]
                for text in found[:MOST]:
                    self.report(LIVENESS, f"after {patience:g} s: {text}")
                break
            await asyncio.sleep(INTERVAL)
        if not self.violations:
            self._compare_bindings()
        self._lossy = False
        return quiet_since - since

    async def _missing(self, tidy: Callable[[], Awaitable[None]]) -> list[str]:
        for failed in (task for task in self._tasks if task.done()):
            failed.result()
        try:
            await tidy()
            lists = [await self._cluster.list(kind) for kind in ("Node", "Pod", "PodGroup", "Event")]
        except ClusterError as error:
            return [f"the cluster does not answer: {error}"]
        nodes, pods, groups, events = lists
        foreign = [pod for pod in pods if pod["metadata"]["uid"] in self.watched.bound.exempt]
        pods = [pod for pod in pods if pod["metadata"]["uid"] not in self.watched.bound.exempt]
        behind = [text for reader in self._readers.values() if (text := await reader.behind())]
        expected = self._expected
        objects = Objects(nodes, pods, without_members(groups, foreign), events)
        return (
            behind
            + self.evictions.left()
            + missing(objects, self.claims, expected.schedulers, expected.may_wait, expected.device_config)
        )

    def _compare_bindings(self) -> None:
        """Compare the bindings since the last comparison with claims."""
        bound = self.watched.bound
        self._compared &= bound.bound.keys()
        missed = self._readers["LEDGER"].missed
        unread = self._lossy or missed > self._missed
        self._missed = missed
        self.evictions.check(complete=not unread)
        for uid, name in sorted(bound.bound.keys() - self._compared):
            node, devices = bound.bound[uid, name]
            self._compared.add((uid, name))
            claims = [claim for claim in self.claims.of_pod(uid) if claim.node == node]
            # A fault may have removed the claim, or a later message replaced it, before it was read.
            if uid not in bound.exempt and (claims or not unread):
                self.claims.check_binding(f"{name} ({uid}) on {node}", devices, claims)
