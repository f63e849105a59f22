"""Requests to the JSON API of the metrics service."""

from typing import TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
from deviceshare_metrics import api

from deviceshare_cli.errors import CommandError

T = TypeVar("T")
SECONDS = 30.0
"""Timeout of a request: the first snapshot of a large cluster takes seconds."""


async def fetch(metrics: str, path: str, answer: type[T]) -> T:
    """Return the answer to ``/api/v1/<path>``. Raises CommandError if the request fails."""
    url = f"{metrics}/api/v1/{quote(path)}"
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(SECONDS)) as session,
            session.get(url) as response,
        ):
            body = await response.read()
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise CommandError(
            f"the metrics service at {metrics} does not answer: {error or type(error).__name__}"
        ) from None
    try:
        if response.status == 200:
            return msgspec.json.decode(body, type=answer)
        problem = msgspec.json.decode(body, type=api.ErrorAnswer).error
    except msgspec.MsgspecError:
        problem = f"{url} answered with status {response.status} and an unexpected body"
    raise CommandError(problem)
