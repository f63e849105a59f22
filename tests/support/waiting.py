"""Waiting for a state."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


async def until(value: Callable[[], Any], holds: Callable[[Any], bool] = bool, seconds: float = 60.0) -> Any:
    """Wait until something holds of a value, by default that it is true; return the value.

    ``value`` returns it, or what gives it when it is awaited.
    """
    async with asyncio.timeout(seconds):
        while True:
            found = value()
            if inspect.isawaitable(found):
                found = await found
            if holds(found):
                return found
            await asyncio.sleep(0.01)
