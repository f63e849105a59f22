"""Waiting for a state."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


async def until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Wait until what a condition returns, or what that gives if it is awaited, is true; return it."""
    async with asyncio.timeout(seconds):
        while True:
            found = condition()
            if inspect.isawaitable(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.01)
