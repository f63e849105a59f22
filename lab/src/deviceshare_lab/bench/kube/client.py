"""A bare client of an API server, without decisions."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
from deviceshare_cli.errors import CommandError
from deviceshare_cluster.interface import Object
from deviceshare_cluster.kube.client import MERGE

from deviceshare_lab.bench.kube.apiserver import ApiServer


class Client:
    """Sends requests, at most ``in_flight`` at a time."""

    def __init__(self, session: aiohttp.ClientSession, url: str, in_flight: int) -> None:
        self._session = session
        self._url = url
        self._limit = asyncio.Semaphore(in_flight)

    async def request(self, method: str, path: str, body: Any, content: str = "application/json") -> None:
        """Send a request. Raises CommandError if it is rejected."""
        async with (
            self._limit,
            self._session.request(
                method, f"{self._url}{path}", data=msgspec.json.encode(body), headers={"Content-Type": content}
            ) as answer,
        ):
            raw = await answer.read()
            if answer.status >= 400:
                raise CommandError(f"{method} {path}: {answer.status} {raw[:300].decode(errors='replace')}")

    async def create(self, path: str, objects: Iterable[Object]) -> None:
        """Create objects of one kind."""
        await asyncio.gather(*(self.request("POST", path, each) for each in objects))

    async def create_node(self, node: Object) -> None:
        """Create a node, then its status, which the API server ignores at creation."""
        await self.request("POST", "/api/v1/nodes", node)
        path = f"/api/v1/nodes/{node['metadata']['name']}/status"
        await self.request("PATCH", path, {"status": node["status"]}, MERGE)


@asynccontextmanager
async def bare_client(server: ApiServer, in_flight: int) -> AsyncIterator[Client]:
    """Connect as ``admin``."""
    connector = aiohttp.TCPConnector(ssl=server.tls(), limit=0)
    headers = {"Authorization": f"Bearer {server.token}"}
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        yield Client(session, server.url, in_flight)
