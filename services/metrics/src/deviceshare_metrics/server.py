"""HTTP: ``/metrics``, the JSON API, the dashboard and the health checks."""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import chain

import msgspec
from aiohttp import web
from deviceshare.model import ConfigError
from prometheus_client import Metric

from deviceshare_metrics import api
from deviceshare_metrics.card_metrics import Detail
from deviceshare_metrics.core import MetricsCore
from deviceshare_metrics.dashboard import Dashboard
from deviceshare_metrics.exposition import expose
from deviceshare_metrics.listing import LISTINGS, BadQueryError, select
from deviceshare_metrics.queries import Queries
from deviceshare_metrics.scrapes import Scrapes, gzip_accepted
from deviceshare_metrics.volcano_metrics import volcano


async def _none() -> list[Metric]:
    return []


class Server:
    """The routes.

    Args:
        core: the state; the service goes on applying events to it.
        connected: whether the bus can be reached.
        own: returns the metrics of the service itself.
        detail: the smallest objects that have series of their own.
    """

    def __init__(
        self,
        core: MetricsCore,
        connected: Callable[[], bool],
        own: Callable[[], Awaitable[list[Metric]]] = _none,
        detail: Detail = "card",
    ) -> None:
        self._core = core
        self._connected = connected
        self._own = own
        self._detail = detail
        self._scrapes = Scrapes(self._expose)
        self._queries = Queries(core)
        self.dashboard = Dashboard(core, self._queries)

    def app(self) -> web.Application:
        """Return the routes."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/metrics", self._get_metrics),
                web.get("/healthz", self._get_healthz),
                web.get("/readyz", self._get_readyz),
                web.get("/api/v1/status", self._get_status),
                web.get(f"/api/v1/{{kind:{'|'.join(LISTINGS)}}}", self._get_items),
                web.get("/api/v1/pods/{namespace}/{name}/explain", self._get_explain),
                *self.dashboard.routes(),
            ]
        )
        app.on_shutdown.append(self.dashboard.close)
        return app

    async def _get_metrics(self, request: web.Request) -> web.StreamResponse:
        text = await self._scrapes.get(request.headers.get("Accept", ""))
        headers = {"Content-Type": text.content_type, "Vary": "Accept, Accept-Encoding"}
        if gzip_accepted(request.headers.get("Accept-Encoding", "")):
            return web.Response(body=text.compressed, headers={**headers, "Content-Encoding": "gzip"})
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        async for part in text.plain():
            await response.write(part)
        return response

    async def _expose(self, accept: str) -> tuple[Iterator[bytes], str]:
        snapshot, tallies = await self._queries.snapshot(), copy.deepcopy(self._core.tallies)
        accounts, own = await self._queries.accounts(), await self._own()
        more = chain(volcano(snapshot, accounts, tallies, self._detail), own)
        return expose(snapshot, tallies, accept, more, self._detail)

    async def _get_healthz(self, _: web.Request) -> web.Response:
        alive = self._connected()
        return web.Response(text="ok" if alive else "not connected to the bus", status=200 if alive else 503)

    async def _get_readyz(self, _: web.Request) -> web.Response:
        ready = self._core.ready
        return web.Response(text="ok" if ready else "still reading the bus", status=200 if ready else 503)

    async def _get_status(self, _: web.Request) -> web.Response:
        return _json(await self._queries.status())

    async def _get_items(self, request: web.Request) -> web.Response:
        kind = request.match_info["kind"]
        items = await self._queries.items(kind)
        try:
            body = await asyncio.to_thread(_encode_selected, kind, items, [*request.query.items()])
        except BadQueryError as error:
            return _json(api.ErrorAnswer(error=str(error)), status=400)
        return web.Response(body=body, content_type="application/json")

    async def _get_explain(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        explanation = await self._queries.explain(namespace, name)
        if explanation is None:
            known = "no such pod exists or is remembered" if self._core.ready else "still reading the bus"
            return _json(api.ErrorAnswer(error=f"pod {namespace}/{name} not found: {known}"), status=404)
        return _json(explanation)


async def serve(app: web.Application, address: str, port: int) -> web.AppRunner:
    """Serve until the runner is cleaned up.

    Raises:
        ConfigError: the address is in use or not available.
    """
    runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, address, port).start()
    except OSError as error:
        await runner.cleanup()
        raise ConfigError(
            "metrics", "--metrics-port", f"{address}:{port}", f"an address that can be listened on ({error.strerror})"
        ) from error
    return runner


def _encode_selected(kind: str, items: Sequence[msgspec.Struct], query: Iterable[tuple[str, str]]) -> bytes:
    """Encode :class:`.api.Items` item by item: one call of the encoder would keep the event loop waiting."""
    items, rest = select(kind, items, query)
    more = b',"continue":%b' % msgspec.json.encode(rest) if rest else b""
    return b'{"items":[%b]%b}' % (b",".join([msgspec.json.encode(item) for item in items]), more)


def _json(answer: msgspec.Struct, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json", status=status)
