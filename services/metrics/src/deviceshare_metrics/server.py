"""HTTP: ``/metrics``, the JSON API, the dashboard and the health checks."""

import asyncio
import contextlib
import copy
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

import msgspec
from aiohttp import web
from deviceshare_bus.web import USER, Access, HealthChecks, serve
from prometheus_client import Metric

from deviceshare_metrics import api
from deviceshare_metrics.card_metrics import Detail
from deviceshare_metrics.core import MetricsCore
from deviceshare_metrics.core.visibility import Visibility
from deviceshare_metrics.dashboard import Dashboard
from deviceshare_metrics.exposition import expose
from deviceshare_metrics.listing import LISTINGS, BadQueryError, select
from deviceshare_metrics.login import Login
from deviceshare_metrics.queries import Queries
from deviceshare_metrics.scrapes import Scrapes, gzip_accepted
from deviceshare_metrics.sections import Piece

__all__ = ["Server", "serve"]
MAX_LISTS = 8
"""Lists that are computed at once: each may be as large as the cluster."""


async def _none() -> list[Metric]:
    return []


class Server:
    """The routes.

    Args:
        core: the state; the service goes on applying events to it.
        connected: whether the bus can be reached.
        obstacle: why the service cannot do its work right now, '' if it can; by default only the core is asked.
        own: returns the metrics of the service itself.
        detail: the smallest objects that have series of their own.
        access: decides who may read what; by default a server on a loopback address is assumed, open to this machine.
    """

    def __init__(
        self,
        core: MetricsCore,
        connected: Callable[[], bool],
        own: Callable[[], Awaitable[list[Metric]]] = _none,
        detail: Detail = "card",
        access: Access | None = None,
        obstacle: Callable[[], str] = lambda: "",
    ) -> None:
        self._core = core
        self._checks = HealthChecks(connected, lambda: obstacle() or ("" if core.ready else "still reading the bus"))
        self._own = own
        self._detail = detail
        self._scrapes = Scrapes(self._expose)
        self._queries = Queries(core)
        self._listing = asyncio.Semaphore(MAX_LISTS)
        access = access or Access()
        self.dashboard = Dashboard(core, self._queries, self._visibility_of, logout=not access.anonymous)
        self._login = Login(access, self.dashboard.file)

    def app(self) -> web.Application:
        """Return the routes. All but the health checks, the form of the login and files without data are restricted."""
        public = (*self._checks.handlers, self.dashboard.get_file, *self._login.public)
        app = web.Application(middlewares=[self._login.redirect, self._login.access.middleware(public)])
        app.add_routes(
            [
                web.get("/metrics", self._get_metrics),
                *self._checks.routes(),
                web.get("/api/v1/status", self._get_status),
                web.get(f"/api/v1/{{kind:{'|'.join(LISTINGS)}}}", self._get_items),
                web.get("/api/v1/pods/{namespace}/{name}/explain", self._get_explain),
                *self.dashboard.routes(),
                *self._login.routes(),
            ]
        )
        app.on_shutdown.append(self.dashboard.close)
        return app

    async def _visibility_of(self, request: web.Request) -> Visibility:
        """Return what the sender of a request sees. Raises Refused."""
        user = request[USER]
        if user is None:
            return Visibility()
        return Visibility(await self._login.access.namespaces(user, await self._queries.namespaces()))

    async def _get_metrics(self, request: web.Request) -> web.StreamResponse:
        text = await self._scrapes.get(request.headers.get("Accept", ""))
        headers = {"Content-Type": text.content_type, "Vary": "Accept, Accept-Encoding"}
        if gzip_accepted(request.headers.get("Accept-Encoding", "")):
            return web.Response(body=text.compressed, headers={**headers, "Content-Encoding": "gzip"})
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        with contextlib.suppress(ConnectionError):  # the client has left
            async for part in text.plain():
                await response.write(part)
        return response

    async def _expose(self, accept: str) -> tuple[Iterator[Piece], str]:
        own = await self._own()
        return expose(self._core.store.copy(), copy.deepcopy(self._core.tallies), accept, own, self._detail)

    async def _get_status(self, request: web.Request) -> web.Response:
        return _json(await self._queries.status(await self._visibility_of(request)))

    async def _get_items(self, request: web.Request) -> web.Response:
        kind = request.match_info["kind"]
        visibility = await self._visibility_of(request)
        try:
            async with self._listing:
                items = await self._queries.items(kind, visibility)
                body = await asyncio.to_thread(_encode_selected, kind, items, [*request.query.items()])
        except BadQueryError as error:
            return _json(api.ErrorAnswer(error=str(error)), status=400)
        return web.Response(body=body, content_type="application/json")

    async def _get_explain(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        explanation = await self._queries.explain(namespace, name, await self._visibility_of(request))
        if explanation is None:
            known = "no such pod exists or is remembered" if self._core.ready else "still reading the bus"
            return _json(api.ErrorAnswer(error=f"pod {namespace}/{name} not found: {known}"), status=404)
        return _json(explanation)


def _encode_selected(kind: str, items: Sequence[msgspec.Struct], query: Iterable[tuple[str, str]]) -> bytes:
    """Encode :class:`.api.Items` item by item: one call of the encoder would keep the event loop waiting."""
    items, rest = select(kind, items, query)
    more = b',"continue":%b' % msgspec.json.encode(rest) if rest else b""
    return b'{"items":[%b]%b}' % (b",".join([msgspec.json.encode(item) for item in items]), more)


def _json(answer: msgspec.Struct, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json", status=status)
