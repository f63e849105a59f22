"""A proxy between a client and the API server, like a load balancer, that fails on request."""

import asyncio
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Self

import aiohttp
from aiohttp import web
from support.apiserver import ApiServer

Query = dict[str, str]
Meddle = Callable[[str, Query], int | bytes | None]
"""Gets the path and the query, which it may change; may answer in the server's place: an error status, or a body."""


class KubeProxy:
    """Passes requests on; ``asked`` is what watches and lists have asked, path and query.

    ``gone`` is how often the server has answered 410, Gone.
    """

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self.asked: list[tuple[str, Query]] = []
        self.gone = 0
        self.meddle: Meddle = lambda path, query: None
        self._open: set[asyncio.Event] = set()

    async def __aenter__(self) -> Self:
        authority = self._server.directory / "certs" / "apiserver.crt"
        tls = ssl.create_default_context(cafile=str(authority))
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls, limit=0, force_close=True))
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._pass_on)
        self._runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._runner.cleanup()
        await self._session.close()
        await asyncio.sleep(0.2)  # connections with TLS are closed a little later

    def kubeconfig(self, directory: Path, user: str = "admin", token: str | None = None) -> str:
        """Write a kubeconfig that leads here, and return its path."""
        config = json.loads(self._server.kubeconfig(user, token).read_text())
        config["clusters"][0]["cluster"] = {"server": self.url}
        path = directory / "proxy.kubeconfig"
        path.write_text(json.dumps(config))
        return str(path)

    def silence(self) -> None:
        """Let nothing more through on the connections that are open: they stay open."""
        for silent in self._open:
            silent.set()

    def of(self, plural: str) -> list[Query]:
        """Return what was asked about all objects of a kind."""
        return [query for path, query in self.asked if path.endswith(f"/{plural}")]

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        if request.method == "GET":
            self.asked.append((request.path, dict(query)))
        answer = self.meddle(request.path, query)
        if isinstance(answer, bytes):
            return web.Response(body=answer)
        if answer is not None:
            return web.json_response({"kind": "Status", "code": answer, "message": "meddled with"}, status=answer)
        silent = asyncio.Event()
        self._open.add(silent)
        try:
            headers = {"Authorization": request.headers["Authorization"], "Content-Type": request.content_type}
            body = await request.read()
            url = f"{self._server.url}{request.path}"
            async with self._session.request(
                request.method, url, params=query, headers=headers, data=body or None
            ) as found:
                response = web.StreamResponse(status=found.status, headers={"Content-Type": found.content_type})
                await response.prepare(request)
                self.gone += found.status == 410
                async for chunk in found.content.iter_any():
                    self.gone += b'"type":"ERROR"' in chunk and b'"code":410' in chunk
                    if silent.is_set():
                        await asyncio.Event().wait()
                    await response.write(chunk)
                return response
        except aiohttp.ClientPayloadError:  # the server went away in the middle: so do we
            if request.transport is not None:
                request.transport.abort()
            return response
        except aiohttp.ClientConnectionError:
            return web.json_response({"kind": "Status", "message": "no connection"}, status=502)
        finally:
            self._open.discard(silent)
