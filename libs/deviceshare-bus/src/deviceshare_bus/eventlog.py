"""Publishing the steps in the life of pods on EVENT.

One message contains the steps of many pods, since a publish costs more than a step.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter

from deviceshare_bus.core import RecordStep
from deviceshare_bus.follower import Message
from deviceshare_bus.messages import Events, Step, Undecodable, encode
from deviceshare_bus.publisher import Publisher, Write
from deviceshare_bus.subjects import event
from deviceshare_bus.tracing import Tracing

log = logging.getLogger("deviceshare.events")

INTERVAL = 0.1
"""The least seconds between two messages."""
FULL = 2000
"""The number of steps that makes a message due immediately."""


class EventLog:
    """Collects the steps and counters of a service and publishes them in batches. A lost message loses no state."""

    def __init__(self, publisher: Publisher, tracing: Tracing, service: str, instance: str) -> None:
        self._publisher = publisher
        self._tracing = tracing
        self._service = service
        self._instance = instance
        self._steps: list[Step] = []
        self._undecodable: list[Undecodable] = []
        self._counters: Counter[str] = Counter()
        self._some = asyncio.Event()
        self._full = asyncio.Event()

    def step(self, step: RecordStep) -> None:
        """Record a step of a pod."""
        at = step.at or time.time()
        self._steps.append(Step(step.uid, step.pod, step.name, at, step.node, step.message))
        if self._tracing.enabled:
            attributes = {"k8s.pod.name": step.pod, **({"k8s.node.name": step.node} if step.node else {})}
            self._tracing.step(step.uid, f"{self._service} {step.name}", step.since or at, at, attributes)
        self._some.set()
        if len(self._steps) >= FULL:
            self._full.set()

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter, which the metrics service sums as ``deviceshare_<name>_total``."""
        self._counters[name] += amount
        self._some.set()

    def quarantine(self, stream: str, message: Message, error: Exception) -> None:
        """Quarantine a message that cannot be decoded: count it, log it and keep it on EVENT."""
        log.error(
            "quarantined a message that cannot be decoded: %s: %s",
            message.subject, error, extra={"stream": stream, "sequence": message.sequence},
        )  # fmt: skip
        self._undecodable.append(Undecodable(stream, message.subject, message.sequence, str(error), message.data))
        self.count("undecodable_messages")

    async def run(self) -> None:
        """Publish without end."""
        while True:
            await self._some.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL):
                    await self._full.wait()
            self._some.clear()
            self._full.clear()
            await self.flush()

    async def flush(self) -> None:
        """Publish the steps and counters collected so far."""
        if not (self._steps or self._undecodable or self._counters):
            return
        steps, self._steps = self._steps, []
        undecodable, self._undecodable = self._undecodable, []
        counters, self._counters = self._counters, Counter()
        message = Events(
            service=self._service,
            instance=self._instance,
            at=time.time(),
            steps=tuple(steps),
            undecodable=tuple(undecodable),
            counters=dict(counters),
        )
        await self._publisher.send(Write(event(self._service), encode(message)))
