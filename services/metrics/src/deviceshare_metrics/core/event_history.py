"""The latest steps of all pods in the order of arrival, and the number of steps in each minute of the last day."""

from collections import Counter, deque
from collections.abc import Iterable
from itertools import islice

from deviceshare_bus.messages.codec import Step

MAX_EVENTS = 50_000
"""Steps that are kept: some 20 MB."""
MINUTES = 24 * 60
"""Minutes whose steps are counted."""
MAX_NAMES = 32
"""Names of steps that are counted in a minute; the services use a dozen."""


class EventHistory:
    """Steps as they arrive; ``number`` is that of the latest, from 1."""

    def __init__(self, most: int = MAX_EVENTS) -> None:
        self.number = 0
        self._steps: deque[tuple[int, str, Step]] = deque(maxlen=most)
        self._minutes: dict[int, Counter[str]] = {}

    def add(self, service: str, steps: Iterable[Step]) -> None:
        """Add the steps of a message of a service."""
        for step in steps:
            self.number += 1
            self._steps.append((self.number, service, step))
            minute = int(step.at // 60)
            counts = self._minutes.get(minute)
            if counts is None:
                counts = self._minutes[minute] = Counter()
                if len(self._minutes) > MINUTES:
                    del self._minutes[min(self._minutes)]
            if step.name in counts or len(counts) < MAX_NAMES:
                counts[step.name] += 1

    def latest(self, before: int = 0) -> list[tuple[int, str, Step]]:
        """Return the kept steps with a number below ``before`` (0: all), the latest first."""
        skipped = max(0, self.number - before + 1) if before else 0
        return list(islice(reversed(self._steps), skipped, None))

    def minutes(self) -> dict[int, dict[str, int]]:
        """Return the numbers of steps by minute (unix seconds divided by 60) and name, from the oldest minute."""
        return {minute: dict(self._minutes[minute]) for minute in sorted(self._minutes)}
