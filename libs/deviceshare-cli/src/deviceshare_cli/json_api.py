"""Requests to the JSON API of the metrics service.

With the HTTP client of the standard library: importing aiohttp takes longer than the request.
"""

import asyncio
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from deviceshare.model import describe_error
from deviceshare_metrics import api

from deviceshare_cli.endpoint import Endpoint
from deviceshare_cli.errors import CommandError, NotFoundError

T = TypeVar("T")
_HINT = " (give one with --token or DEVICESHARE_TOKEN: `kubectl create token ACCOUNT`, or the shared secret)"
SECONDS = 30.0
"""Timeout of a request: the first snapshot of a large cluster takes seconds."""


async def fetch(metrics: Endpoint, path: str, answer: type[T], parameters: Sequence[tuple[str, str]] = ()) -> T:
    """Return the answer to ``/api/v1/<path>``, with query ``parameters``.

    Raises NotFoundError for an unknown object, CommandError.
    """
    where = f"/api/v1/{quote(path)}"
    try:
        status, body = await asyncio.to_thread(get, metrics, where, parameters)
    except (HTTPException, OSError) as error:
        raise CommandError(f"the metrics service at {metrics.url} does not answer: {describe_error(error)}") from None
    try:
        if status == 200:
            return msgspec.json.decode(body, type=answer)
        problem = msgspec.json.decode(body, type=api.ErrorAnswer).error
    except msgspec.MsgspecError:
        unexpected = f"{metrics.url}{where} answered with status {status} and an unexpected body"
        raise CommandError(unexpected) from None
    if status in (401, 403, 421, 503):
        problem = f"the metrics service at {metrics.url} refuses: {problem}{_HINT if status == 401 else ''}"
    raise NotFoundError(problem) if status == 404 else CommandError(problem)


def get(server: Endpoint, path: str, parameters: Sequence[tuple[str, str]] = ()) -> tuple[int, bytes]:
    """Return status and body of a request. Raises HTTPException, OSError."""
    url = urlsplit(server.url)
    path += f"?{urlencode(parameters)}" if parameters else ""
    kind = HTTPSConnection if url.scheme == "https" else HTTPConnection
    connection = kind(url.hostname or "", url.port, timeout=SECONDS)
    try:
        connection.request("GET", url.path.rstrip("/") + path, headers={"Accept": "application/json"} | server.headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
