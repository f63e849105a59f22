"""The routes of the dashboard: its files, the map of cards, the stream of changes, the history and a node's details.

The files need no build step and load nothing from other hosts. The Content-Security-Policy permits neither inline
scripts nor inline styles: text from the cluster cannot become either.
"""

import asyncio
import gzip
from collections.abc import Callable
from importlib import resources
from pathlib import PurePosixPath

import msgspec
from aiohttp import web

from deviceshare_metrics import api
from deviceshare_metrics.card_map import FRAME_SECONDS, CardRows, MapHistory
from deviceshare_metrics.change_stream import ChangeStream, VisibilityOf
from deviceshare_metrics.core import MetricsCore
from deviceshare_metrics.queries import Queries
from deviceshare_metrics.scrapes import gzip_accepted

PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-cache",
    # With no-referrer browsers send forms with "Origin: null".
    "Referrer-Policy": "same-origin",
}
"""Headers of the files of the page; those of all answers are :data:`deviceshare_bus.web.serving.HEADERS`."""
_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


def files() -> dict[str, bytes]:
    """Return the files of the page by name."""
    return {
        each.name: each.read_bytes()
        for each in resources.files("deviceshare_metrics").joinpath("static").iterdir()
        if PurePosixPath(each.name).suffix in _TYPES
    }


class Dashboard:
    """What the page needs beside the lists of the JSON API. ``logout``: whether it shows a button to log out."""

    def __init__(self, core: MetricsCore, queries: Queries, visibility_of: VisibilityOf, *, logout: bool) -> None:
        self._core = core
        self._queries = queries
        self._visibility_of = visibility_of
        self._files = files()
        if logout:
            self._files["index.html"] = self._files["index.html"].replace(
                b'action="/logout" hidden', b'action="/logout"'
            )
        self._rows = CardRows(core)
        self._history = MapHistory()
        self.stream = ChangeStream(self._rows, queries.status, visibility_of)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [
            web.get("/", self._get_page),
            web.get("/ui/{name}", self.get_file),
            web.get("/api/v1/cards", self._get_cards),
            web.get("/api/v1/changes", self.stream.answer),
            web.get("/api/v1/nodes/{name}", self._get_node),
            web.get("/api/v1/history", self._get_history),
            web.get(r"/api/v1/history/{at:\d+(?:\.\d+)?}", self._get_frame),
        ]

    async def record(self, clock: Callable[[], float]) -> None:
        """Add a map to the history every minute, until cancelled."""
        while True:
            if self._core.ready:
                status, body = await self._queries.status(), await self._rows.all()
                await self._history.record(clock(), body, status.pods["Pending"], status.pods["Bound"])
            await asyncio.sleep(FRAME_SECONDS if self._core.ready else 1.0)

    async def close(self, _: web.Application) -> None:
        """End the streams of changes."""
        await self.stream.close()

    async def _get_page(self, _: web.Request) -> web.Response:
        return self.file("index.html")

    async def get_file(self, request: web.Request) -> web.Response:
        """Return a file of the page, which has no data."""
        return self.file(request.match_info["name"])

    def file(self, name: str) -> web.Response:
        """Return a file of the page. Raises HTTPNotFound."""
        if (body := self._files.get(name)) is None:
            raise web.HTTPNotFound
        kind = _TYPES[PurePosixPath(name).suffix]
        return web.Response(body=body, content_type=kind, charset="utf-8", headers=PAGE_HEADERS)

    async def _get_cards(self, request: web.Request) -> web.Response:
        await self._visibility_of(request)
        response = web.Response(body=await self._rows.all(), content_type="application/json")
        response.enable_compression()
        return response

    async def _get_node(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        found = await self._queries.node(name, await self._visibility_of(request))
        if found is None:
            error = api.ErrorAnswer(error=f"node {name} not found")
            return web.Response(body=msgspec.json.encode(error), status=404, content_type="application/json")
        return web.Response(body=msgspec.json.encode(found), content_type="application/json")

    async def _get_history(self, request: web.Request) -> web.Response:
        await self._visibility_of(request)
        contents = self._history.contents(self._core.events.minutes())
        return web.Response(body=msgspec.json.encode(contents), content_type="application/json")

    async def _get_frame(self, request: web.Request) -> web.Response:
        await self._visibility_of(request)
        body = self._history.find(float(request.match_info["at"]))
        if body is None:
            error = api.ErrorAnswer(error="no map is recorded yet: one is recorded every minute")
            return web.Response(body=msgspec.json.encode(error), status=404, content_type="application/json")
        headers = {"Vary": "Accept-Encoding"}
        if gzip_accepted(request.headers.get("Accept-Encoding", "")):
            headers["Content-Encoding"] = "gzip"
        else:
            body = await asyncio.to_thread(gzip.decompress, body)
        return web.Response(body=body, content_type="application/json", headers=headers)
