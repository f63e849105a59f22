"""Asking the JSON API of the metrics service."""

from typing import TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
from deviceshare_metrics import api

from deviceshare_cli.errors import CommandError

T = TypeVar("T")
SECONDS = 30.0
"""How long an answer may take: of a large cluster the first one is drawn for seconds."""


class NotFound(CommandError):
    """The API does not know what was asked for."""


async def ask(metrics: str, path: str, answer: type[T]) -> T:
    """Return the answer to ``/api/v1/<path>``. Raises CommandError where there is none."""
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
        said = msgspec.json.decode(body, type=api.ErrorAnswer).error
    except msgspec.MsgspecError:
        said = f"{url} answers with status {response.status} and something that is not understood"
    raise NotFound(said) if response.status == 404 else CommandError(said)
