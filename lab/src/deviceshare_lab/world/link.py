"""One direction of a connection: what is sent arrives later, in the order in which it was sent."""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any

GRAIN = 0.0005
"""Seconds: what arrives within so long of each other arrives at the same time."""


def resolve(answer: "asyncio.Future[Any]", result: Any, error: Exception | None) -> None:
    """Complete the future of a request with its result or error, unless its client has given up."""
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(result)


class Link:
    """Delivers calls after a random latency of ``least`` to ``most`` seconds, in order.

    ``delay`` is added to the latency of what is sent from now on: a fault sets it.
    """

    def __init__(self, chance: random.Random, least: float, most: float) -> None:
        self._chance = chance
        self._least, self._most = least, most
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[float, Callable[..., None], tuple[Any, ...]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._last = 0.0
        self.delay = 0.0

    @property
    def busy(self) -> bool:
        """Whether anything is under way."""
        return bool(self._queue)

    def send(self, deliver: Callable[..., None], *arguments: Any) -> None:
        """Call ``deliver`` with these arguments later."""
        latency = self._least + (self._most - self._least) * self._chance.random() + self.delay
        self._last = max(self._last, self._loop.time() + latency)
        self._queue.append((self._last, deliver, arguments))
        if self._timer is None:
            self._timer = self._loop.call_at(self._last, self._arrive)

    def cut(self) -> None:
        """Lose everything that is under way."""
        self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arrive(self) -> None:
        self._timer = None
        until = self._loop.time() + GRAIN
        while self._queue and self._queue[0][0] <= until:
            _, deliver, arguments = self._queue.popleft()
            deliver(*arguments)
        if self._queue and self._timer is None:
            self._timer = self._loop.call_at(self._queue[0][0], self._arrive)
