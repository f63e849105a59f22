"""The measurement: the page in Chromium, on a synthetic cluster, before and under changes."""

import asyncio
import itertools
import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from deviceshare_lab.bench.ui.chromium import chromium
from deviceshare_lab.bench.ui.served import Served, keep_changing, served
from deviceshare_lab.bench.ui.synthetic import SyntheticCluster

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

CATEGORIES = ["devtools.timeline", "disabled-by-default-devtools.timeline.frame", "blink.user_timing"]
VIEWPORT = (1920, 1080)
WARM_UP = 2.0
"""Seconds of changes before frames are counted."""
AFTER = 1.0
"""Seconds after the first map in which data is still counted."""
DATA, PAINTED, DRAWN = "deviceshare-data", "deviceshare-painted", "DrawFrame"
"""The page's marks, and the browser's event for a frame that was drawn."""


class Load(NamedTuple):
    """What is measured."""

    nodes: int
    cards: int
    changes_per_second: float
    seconds: float


class _Event(msgspec.Struct):
    name: str
    ts: float = 0.0


class _Trace(msgspec.Struct):
    events: list[_Event] = msgspec.field(name="traceEvents")

    def times(self, name: str) -> list[float]:
        """Return the times of the events of a name, in seconds."""
        return sorted(event.ts / 1e6 for event in self.events if event.name == name)


class _Received:
    """Counts the bytes that a page receives."""

    def __init__(self) -> None:
        self.size = 0

    async def follow(self, page: "Page") -> None:
        session = await page.context.new_cdp_session(page)
        await session.send("Network.enable")
        session.on("Network.dataReceived", self._count)
        session.on("Network.responseReceived", self._count_head)

    def _count(self, event: dict[str, Any]) -> None:
        self.size += event["encodedDataLength"] or event["dataLength"]

    def _count_head(self, event: dict[str, Any]) -> None:
        self.size += event["response"]["encodedDataLength"]


async def measure(load: Load) -> dict[str, Any]:
    """Return the measurements."""
    cluster = SyntheticCluster(load.nodes, load.cards, 1, time.time())
    before = os.getloadavg()[0]
    async with served(cluster) as running, chromium() as browser:
        shown = await _measure_page(running, browser, load)
        shown["chromium"] = browser.version
    return {
        "nodes": load.nodes,
        "cards": load.nodes * load.cards,
        "changes_per_second": load.changes_per_second,
        "seconds": load.seconds,
        **shown,
        "load_average": {"before": round(before, 2), "after": round(os.getloadavg()[0], 2)},
    }


async def _measure_page(running: Served, browser: "Browser", load: Load) -> dict[str, Any]:
    width, height = VIEWPORT
    page = await browser.new_page(viewport={"width": width, "height": height})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    received = _Received()
    await received.follow(page)
    await browser.start_tracing(page=page, categories=CATEGORIES)
    await page.goto(running.url)
    await page.wait_for_selector(".tile")
    await asyncio.sleep(AFTER)
    trace = msgspec.json.decode(await browser.stop_tracing(), type=_Trace)
    transferred = received.size
    arrived = trace.times(DATA)[0]
    painted = next(at for at in trace.times(PAINTED) if at >= arrived)
    drawn = next(at for at in trace.times(DRAWN) if at >= painted)

    changing = asyncio.create_task(keep_changing(running.cluster, load.changes_per_second))
    try:
        await asyncio.sleep(WARM_UP)
        position, size, started = running.cluster.core.changed_nodes.position, received.size, time.monotonic()
        await browser.start_tracing(page=page, categories=CATEGORIES)
        await asyncio.sleep(load.seconds)
        trace = msgspec.json.decode(await browser.stop_tracing(), type=_Trace)
        passed = time.monotonic() - started
        changes = running.cluster.core.changed_nodes.position - position
    finally:
        changing.cancel()
    frames = trace.times(DRAWN)
    gaps = sorted(later - earlier for earlier, later in itertools.pairwise(frames))
    return {
        "first_paint_seconds": round(drawn - arrived, 3),
        "transferred_bytes": transferred,
        "frames_per_second": round((len(frames) - 1) / (frames[-1] - frames[0]), 1) if len(frames) > 1 else 0.0,
        "frame_p99_seconds": round(gaps[int(len(gaps) * 0.99)], 3) if gaps else None,
        "node_changes_per_second": round(changes / passed, 1),
        "stream_bytes_per_second": round((received.size - size) / passed),
        "errors": errors,
    }
