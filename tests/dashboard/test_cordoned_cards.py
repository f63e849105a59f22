"""Cordoned cards on the dashboard, in a real Chromium."""

from deviceshare.model import Card, CardCordon
from msgspec.structs import replace
from support.browser import needs_chromium, shown
from support.metrics import catch_up, read
from support.metrics_messages import node

pytestmark = needs_chromium

HEALTHY = Card("GPU-1", 0, 10, 11178, 100, "Tesla-P4", True, "hami-core")


async def test_a_cordoned_card_is_marked_with_who_and_why():
    cordon = CardCordon("GPU-1", "alice", "fan <b>is</b> broken", "2026-01-02T03:04:05Z")
    cards = (replace(HEALTHY, cordoned=True), replace(HEALTHY, id="GPU-3", index=2))
    core = read(node(cards=cards, cordons=(cordon,)))
    catch_up(core)
    text = "cordoned by alice since 2026-01-02T03:04:05Z: fan <b>is</b> broken"
    painted = """() => { const map = deviceshare.overview.map;
        const [x, y, size] = map.spot(map.places.get("n1"), 0), data = map.context.getImageData(x, y, size, size).data;
        const found = new Set();
        for (let i = 0; i < data.length; i += 4) found.add(data.slice(i, i + 3).join());
        return found.size; }"""
    async with shown(core) as page:
        await page.open()
        await page.until("deviceshare.overview.map.list?.length === 1")
        await page.until(f"({painted})() > 1")
        await page.has("1 of 2 free", ".tiles")  # a cordoned card is not free
        await page.has("1 cordoned", ".tiles")
        await page.page.focus(".canvas canvas")
        await page.page.keyboard.press("Home")
        await page.has("cordoned", ".tip .badge")
        await page.has(text, ".tip")
        await page.page.keyboard.press("ArrowRight")
        await page.has("card 1", ".tip")
        assert "cordoned" not in await page.text(".tip")
        await page.open("nodes/n1")
        await page.has(text, ".card.cordoned")
        assert await page.page.locator(".card.cordoned").count() == 1
        read(node(cards=(HEALTHY, cards[1])), into=core)
        await page.open()
        await page.until("deviceshare.nodes.get('n1').cards[0].cordoned === false")
        await page.has("2 of 2 free", ".tiles")
        await page.until("deviceshare.overview.map.list?.length === 1")
        await page.until(f"({painted})() === 1")
