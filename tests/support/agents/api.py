"""Plain requests to an API server, which are retried until it answers: an agent survives a restart of the server."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

import aiohttp
import msgspec

Object = dict[str, Any]

MERGE = "application/merge-patch+json"
PAUSE = 0.1


class Refused(Exception):
    """The API server said no."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status} {message}")
        self.status = status


class Api:
    """A connection to the API server that a kubeconfig names. Use as an async context manager."""

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self._url = cluster["server"]
        self._authority = cluster["certificate-authority"]
        self._headers = {"Authorization": f"Bearer {config['users'][0]['user']['token']}"}

    async def __aenter__(self) -> Self:
        tls = ssl.create_default_context(cafile=self._authority)
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls, limit=64), headers=self._headers)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._session.close()
        await asyncio.sleep(0.2)  # connections with TLS are closed a little later

    async def request(
        self, method: str, path: str, body: Any = None, content: str = "application/json", user: str = ""
    ) -> Object:
        """Return the answer, asking as often as it takes, as another user where one is named.

        Raises Refused, also where a lost answer had been a yes.
        """
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": content}
        if user:
            headers |= {"Impersonate-User": user, "Impersonate-Group": "system:masters"}
        while True:
            try:
                async with self._session.request(
                    method,
                    f"{self._url}{path}",
                    data=data,
                    headers=headers,
                    timeout=aiohttp.ClientTimeout(30),
                ) as answer:
                    raw = await answer.read()
                    if answer.status < 400:
                        found: Object = msgspec.json.decode(raw)
                        return found
                    # A server that is starting refuses all for a moment.
                    if answer.status < 500 and answer.status not in (401, 403, 429):
                        raise Refused(answer.status, raw.decode())
            except (aiohttp.ClientError, OSError, TimeoutError):
                pass
            await asyncio.sleep(PAUSE)

    async def get(self, path: str) -> Object | None:
        """Return an object, None if it is not there."""
        try:
            return await self.request("GET", path)
        except Refused as refusal:
            if refusal.status == 404:
                return None
            raise

    async def patch(self, path: str, body: Any, user: str = "") -> Object | None:
        """Merge something into an object; None if it is not there."""
        try:
            return await self.request("PATCH", path, body, MERGE, user)
        except Refused as refusal:
            if refusal.status in (404, 409):
                return None
            raise

    async def follow(self, path: str) -> AsyncIterator[tuple[str, Object]]:
        """List objects and follow them, for ever: ``("LISTED", the list)`` and then (type, object).

        A watch that ends is begun again from where it was; where the server does not know that any more, all again.
        """
        while True:
            listed = await self.request("GET", path)
            yield "LISTED", listed
            for item in listed["items"]:
                yield "ADDED", item
            revision = listed["metadata"]["resourceVersion"]
            while revision:
                try:
                    query = f"{path}?watch=1&allowWatchBookmarks=true&resourceVersion={revision}"
                    async with self._session.get(
                        f"{self._url}{query}", timeout=aiohttp.ClientTimeout(None), read_bufsize=2**22
                    ) as answer:
                        if answer.status == 410:
                            revision = ""
                        elif answer.status == 200:
                            async for line in answer.content:
                                event = msgspec.json.decode(line)
                                if event["type"] == "ERROR":
                                    revision = ""
                                    break
                                revision = event["object"]["metadata"]["resourceVersion"]
                                if event["type"] != "BOOKMARK":
                                    yield event["type"], event["object"]
                except (aiohttp.ClientError, OSError, TimeoutError):
                    pass
                await asyncio.sleep(PAUSE)
