"""The page is readable: contrast, names of controls, phones and the theme."""

import pytest
from support.browser import needs_chromium, shown
from support.small_core import small_core

pytestmark = needs_chromium


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("address", ["", "waiting", "pods", "pods/default/w1", "nodes", "nodes/n1", "queues", "events"])
async def test_text_has_contrast_and_controls_have_names(scheme, address):
    async with shown(small_core(), color_scheme=scheme) as page:
        await page.open(address)
        await page.page.wait_for_timeout(300)
        faults = await page.page.evaluate(CHECK)
        assert faults == []


CHECK = """() => {
  const faults = [], canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; };
  const over = (top, under) => top.slice(0, 3).map((value, at) => value * top[3] + under[at] * (1 - top[3]));
  const back = (element) => { const layers = [];
    for (let each = element; each; each = each.parentElement) {
      const color = rgba(getComputedStyle(each).backgroundColor);
      if (color[3]) layers.push(color); if (color[3] === 1) break; }
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]); };
  const light = (color) => { const [r, g, b] = color.map((value) => { const part = value / 255;
    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) { const found = walker.currentNode;
    const text = found.textContent.trim(), element = found.parentElement;
    if (!text || !element.checkVisibility() || element.closest(".hidden, .skip, option")) continue;
    const under = back(element), color = over(rgba(getComputedStyle(element).color), under);
    const [a, b] = [light(color), light(under)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) faults.push(`${text}: contrast ${ratio.toFixed(2)}`); }
  for (const each of document.querySelectorAll("button, a, input, select, canvas[tabindex], [role=meter]")) {
    if (!each.checkVisibility()) continue;
    const name = each.getAttribute("aria-label") || each.textContent.trim() || each.labels?.[0]?.textContent;
    if (!name) faults.push(`${each.outerHTML.slice(0, 80)}: no name`); }
  return faults; }"""


async def test_a_phone_shows_every_view_without_scrolling_sideways():
    async with shown(small_core(), viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True) as page:
        for address in ("", "waiting", "pods", "pods/default/w1", "nodes", "nodes/n1", "queues", "events"):
            await page.open(address)
            await page.page.wait_for_timeout(200)
            width = await page.page.evaluate("document.documentElement.scrollWidth")
            assert width <= 360, address


@pytest.mark.parametrize("width", [320, 360, 412])
async def test_the_header_fits_a_phone(width):
    """Also with the numbers of a large cluster: nothing is cut off, or hidden until the header is moved sideways."""
    async with shown(small_core(), viewport={"width": width, "height": 740}, is_mobile=True, has_touch=True) as page:
        await page.open()
        await page.has("2 waiting", "#live")
        await page.page.evaluate(
            """() => deviceshare.counted({ nodes: { ready: 1000 }, pods: { Bound: 13791, Pending: 11209 }, problems: 12,
            undecodable: 3 })"""
        )
        await page.has("13,791 bound", "#live")
        cut = await page.page.evaluate(
            """(width) => [...document.querySelectorAll("header *")].filter((each) => each.checkVisibility()).filter(
            (each) => { const box = each.getBoundingClientRect();
              return box.right > width || box.left < 0 || each.scrollWidth > each.clientWidth + 1 && each.clientWidth; }
            ).map((each) => each.outerHTML.slice(0, 80))""",
            width,
        )
        assert cut == []
        assert await page.page.evaluate("document.querySelector('header').offsetHeight") <= 140


async def test_the_theme_follows_the_system_and_can_be_switched():
    async with shown(small_core(), color_scheme="light") as page:
        await page.open()
        theme = "document.documentElement.dataset.theme"
        assert await page.page.evaluate(theme) == "light"
        await page.page.click("#theme")
        assert await page.page.evaluate(theme) == "dark"
        await page.page.reload()
        assert await page.page.evaluate(theme) == "dark"
