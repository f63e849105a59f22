"""The screenshots of the documentation, taken of the synthetic cluster."""

import asyncio
import time
from pathlib import Path

from deviceshare_lab.bench.ui.chromium import chromium
from deviceshare_lab.bench.ui.served import keep_changing, served
from deviceshare_lab.bench.ui.synthetic import SyntheticCluster

LARGE, MEDIUM, PHONE = (1280, 840), (1280, 860), (390, 844)
VIEWS = {
    "dashboard-map.png": ("", LARGE, "dark"),
    "dashboard-pod.png": ("pods/training/gpt-large-0-worker-1", MEDIUM, "light"),
    "dashboard-waiting.png": ("waiting", MEDIUM, "dark"),
    "dashboard-phone.png": ("", PHONE, "dark"),
}
_HOVER = """() => { const map = deviceshare.overview.map, { x, y } = map.canvas.getBoundingClientRect();
  const place = map.list.find((each) => each.x > 300 && each.group.y > 80 && each.node.cards[2].slotsUsed > 2);
  const [left, top, size] = map.spot(place, 2); return [x + left + size / 2, y + top + size / 2]; }"""


async def take(directory: Path, nodes: int, cards: int) -> int:
    """Write the screenshots to an existing directory, and return the exit status."""
    cluster = SyntheticCluster(nodes, cards, 1, time.time(), past=True)
    async with served(cluster) as running, chromium() as browser:
        changing = asyncio.create_task(keep_changing(cluster, 10.0))
        for name, (address, (width, height), scheme) in VIEWS.items():
            page = await browser.new_page(
                viewport={"width": width, "height": height},
                color_scheme="light" if scheme == "light" else "dark",
                device_scale_factor=2 if width < 600 else 1,
            )
            await page.goto(f"{running.url}/#/{address}")
            await page.wait_for_selector("#live.on")
            await page.wait_for_selector(".group" if not address else ".panel", timeout=60_000)
            await page.wait_for_timeout(1500)
            if name == "dashboard-map.png":
                x, y = await page.evaluate(_HOVER)
                await page.mouse.move(x, y)
                await page.wait_for_selector(".tip li", timeout=60_000)
            await page.screenshot(path=directory / name)
            await page.close()
            print(directory / name)
        changing.cancel()
    return 0
