"""A real Chromium for tests of the dashboard, and a served metrics core."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from deviceshare_bus.web import Access
from deviceshare_lab.bench.ui.chromium import VARIABLE, chromium, find_chromium
from deviceshare_metrics.core import MetricsCore
from deviceshare_metrics.server import Server, serve

needs_chromium = pytest.mark.skipif(
    find_chromium() is None, reason=f"no Chromium in PATH or {VARIABLE}: apt-get install chromium"
)


class Shown:
    """A page with the dashboard; ``errors`` are its errors and messages of the console."""

    def __init__(self, page: Any, url: str, server: Server) -> None:
        self.page = page
        self.url = url
        self.server = server
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)

    async def open(self, address: str = "") -> None:
        """Open a view, and wait until the map is read and the page shows something."""
        await self.page.goto(f"{self.url}/#/{address}")
        await self.until("document.querySelector('#live.on') && !document.querySelector('.wait')")

    async def until(self, expression: str, argument: Any = None) -> None:
        """Wait until an expression is true; ``page.wait_for_function`` needs ``eval``, which the page forbids."""
        async with asyncio.timeout(60):
            while not await self.page.evaluate(expression, argument):
                await asyncio.sleep(0.03)

    async def text(self, selector: str = "main") -> str:
        """Return the shown text of an element."""
        return str(await self.page.inner_text(selector))

    async def has(self, text: str, selector: str = "main") -> None:
        """Wait until an element shows a text, whose words may stand in several lines."""
        wanted = (
            "([selector, text]) => document.querySelector(selector)?.innerText.replace(/\\s+/g, ' ').includes(text)"
        )
        try:
            await self.until(wanted, [selector, text])
        except TimeoutError:
            raise AssertionError(f"{text!r} is not in {await self.text(selector)!r}") from None


@asynccontextmanager
async def shown(
    core: MetricsCore, access: Access | None = None, *, refused: str = "no status", **options: Any
) -> AsyncIterator[Shown]:
    """Serve a core and give a page of Chromium, which must have no errors at the end.

    ``refused``: the status of requests that are refused, which the browser itself reports; ``options`` are those of
    the browser's context.
    """
    server = Server(core, lambda: True, access=access)
    runner = await serve(server.app(), "127.0.0.1", 0)
    host, port, *_ = runner.addresses[0]
    try:
        async with chromium() as browser:
            context = await browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **options})
            page = Shown(await context.new_page(), f"http://{host}:{port}", server)
            yield page
            assert [error for error in page.errors if refused not in error] == []
    finally:
        await runner.cleanup()
