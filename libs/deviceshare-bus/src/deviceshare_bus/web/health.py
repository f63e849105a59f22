"""The health checks ``/healthz`` and ``/readyz``, and the health port of every service, which also has ``/metrics``."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from aiohttp import web

from deviceshare_bus.web.access import Access, Handler

Expose = Callable[[str], Awaitable[tuple[bytes, str]]]
"""Returns the text of the metrics and its content type, for a header ``Accept``."""


class HealthChecks(NamedTuple):
    """``alive``: whether the bus is reachable. ``obstacle``: why the service is not ready, or ''."""

    alive: Callable[[], bool]
    obstacle: Callable[[], str]

    @property
    def handlers(self) -> tuple[Handler, ...]:
        """The handlers, which everybody may call."""
        return (self._get_healthz, self._get_readyz)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [web.get("/healthz", self._get_healthz), web.get("/readyz", self._get_readyz)]

    async def _get_healthz(self, _: web.Request) -> web.Response:
        alive = self.alive()
        return web.Response(text="ok" if alive else "not connected to the bus", status=200 if alive else 503)

    async def _get_readyz(self, _: web.Request) -> web.Response:
        obstacle = self.obstacle()
        return web.Response(text=obstacle or "ok", status=503 if obstacle else 200)


def health_app(checks: HealthChecks, expose: Expose, access: Access) -> web.Application:
    """Return the routes of the health port; only ``/metrics`` is restricted."""

    async def get_metrics(request: web.Request) -> web.Response:
        body, content_type = await expose(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    app = web.Application(middlewares=[access.middleware(checks.handlers)])
    app.add_routes([*checks.routes(), web.get("/metrics", get_metrics)])
    return app
