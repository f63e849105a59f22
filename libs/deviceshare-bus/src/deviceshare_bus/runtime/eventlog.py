"""Publishing the steps in the life of pods on EVENT.

One message contains the steps of many pods, since a publish costs more than a step.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable

from msgspec.structs import replace

from deviceshare_bus.cores.core import RecordStep
from deviceshare_bus.messages.codec import Events, Message, Step, Undecodable, encode
from deviceshare_bus.messages.subjects import event
from deviceshare_bus.runtime.service_metrics import ServiceMetrics
from deviceshare_bus.streams.publisher import Publisher, Write
from deviceshare_bus.wire.tasks import Alarm

log = logging.getLogger("deviceshare.events")

INTERVAL = 0.1
"""The least seconds between two messages."""
QUARANTINED_BYTES = 1 << 20
"""Bytes of quarantined messages in one message, at most; of further ones only the subject and the error are kept."""
MAX_QUARANTINED = 1000
"""Quarantined messages in one message, at most; further ones are in the log."""
FULL = 2000
"""The number of steps that makes a message due immediately."""
LARGEST = 4 * 1024 * 1024
"""The bytes of one message, at most: half of the least ``max_payload``."""
SHORTENED = 100_000
"""Characters or bytes that remain of a part that does not fit into a message."""


class EventLog:
    """Collects the steps and counters of a service and publishes them in batches. A lost message loses no state."""

    def __init__(
        self, publisher: Publisher, service: str, instance: str, metrics: ServiceMetrics | None = None
    ) -> None:
        self._publisher = publisher
        self._metrics = metrics or ServiceMetrics(service, instance)
        self._service = service
        self._instance = instance
        self._steps: list[Step] = []
        self._undecodable: list[Undecodable] = []
        self._counters: Counter[str] = Counter()
        self._some = Alarm()
        self._full = Alarm()
        self.keep: Callable[[Events], None] | None = None
        """Takes what would be published, for a service that writes nothing on the bus: metrics."""

    def step(self, step: RecordStep) -> None:
        """Record a step of a pod."""
        at = step.at or time.time()
        self._steps.append(Step(step.uid, step.pod, step.name, at, step.node, step.message))
        self._some.set()
        if len(self._steps) >= FULL:
            self._full.set()

    def count(self, name: str, amount: int = 1) -> None:
        """Add to a counter, which the metrics service sums as ``deviceshare_<name>_total``."""
        self._counters[name] += amount
        self._metrics.counts[name] += amount
        self._some.set()

    def quarantine(self, stream: str, message: Message, error: Exception) -> None:
        """Quarantine an invalid message: count it, log it and keep it on EVENT."""
        log.error(
            "quarantined an invalid message: %s: %s",
            message.subject, error, extra={"stream": stream, "sequence": message.sequence},
        )  # fmt: skip
        self._metrics.quarantined[stream] += 1
        if len(self._undecodable) < MAX_QUARANTINED:
            room = QUARANTINED_BYTES - sum(len(each.data) for each in self._undecodable)
            data = message.data if len(message.data) <= room else b""
            self._undecodable.append(Undecodable(stream, message.subject, message.sequence, str(error)[:1000], data))
        self.count("undecodable_messages")

    async def run(self) -> None:
        """Publish without end."""
        while True:
            await self._some.wait()
            await self._full.wait(INTERVAL)
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
        if self.keep is not None:
            self.keep(message)
            return
        for data in portions(message):
            await self._publisher.send(Write(event(self._service), data))


def portions(message: Events) -> list[bytes]:
    """Return messages with the content of one, none of them larger than :data:`LARGEST`.

    A step, or the bytes of a quarantined message, that is larger alone is shortened.
    """
    data = encode(message)
    if len(data) <= LARGEST:
        return [data]
    steps, undecodable = message.steps, message.undecodable
    if len(steps) + len(undecodable) > 1:
        middle = (len(steps) + 1) // 2
        cut = len(undecodable) // 2 if steps else (len(undecodable) + 1) // 2
        first = replace(message, steps=steps[:middle], undecodable=undecodable[:cut])
        rest = replace(message, steps=steps[middle:], undecodable=undecodable[cut:], counters={})
        return portions(first) + portions(rest)
    shortened = replace(
        message,
        steps=tuple(replace(step, message=step.message[:SHORTENED]) for step in steps),
        undecodable=tuple(
            replace(each, data=each.data[:SHORTENED], error=each.error[:SHORTENED]) for each in undecodable
        ),
    )
    return [encode(shortened)]
