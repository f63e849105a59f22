"""The dashboard in a real Chromium."""

import asyncio
import time
from datetime import UTC, datetime
from urllib.parse import quote

from deviceshare.model import Card, Explanation, NearNode, NodeFact, OtherPodFact, Problem, QueueFact, Refusal
from deviceshare_bus.messages.codec import Events, Step
from deviceshare_bus.messages.subjects import explain as explained
from deviceshare_bus.messages.subjects import fact
from deviceshare_metrics.api import StartTime
from deviceshare_metrics.core.events import ExplanationReceived, FactReceived, StepsReceived
from deviceshare_metrics.core.facts import PodSeen
from msgspec.structs import replace
from support.browser import needs_chromium, shown
from support.hostile_texts import TEXT
from support.metrics import NOW, catch_up, read
from support.metrics_messages import claim, grants, ledger, node, pod
from support.small_core import FEW, HEALTHY, small_core

pytestmark = needs_chromium


async def test_the_first_view_shows_models_queues_waiting_pods_and_changes():
    core = small_core()
    async with shown(core) as page:
        await page.open()
        await page.has("Tesla P4")
        await page.has("0 of 2 free", ".tiles")
        await page.has("1 unhealthy", ".tiles")
        await page.has("2 of 2 free", ".tiles")  # cards that are a plain number
        await page.has("research", ".queues")
        await page.has("too little free memory", ".groups")
        await page.has("1 bound · 2 waiting", "#live")
        await page.until("deviceshare.nodes.get('n1').cards[0].memoryUsed === 3000")
        read(ledger(node="n1"), (fact("node", "n9"), NodeFact(name="n9", cards=(HEALTHY,))), into=core)
        await page.until("deviceshare.nodes.get('n1').cards[0].memoryUsed === 0")
        read(pod("a", ended=True, node="n1", queue="research"), into=core)
        await page.has("3 nodes", "#live")
        await page.until("deviceshare.nodes.size === 3")


async def test_tiles_count_as_free_what_a_pod_could_get():
    core = read(node(cards=(HEALTHY,)), ledger(claim("a", grants=grants(memory=1000, cores=100))))
    catch_up(core)
    async with shown(core) as page:
        await page.open()
        await page.has("Tesla P4")
        await page.has("largest 0 MiB frag. 0%", ".tiles")
        read(ledger(claim("a", grants=grants(memory=1178, cores=10))), into=core)
        await page.has("frag. 100%", ".tiles")


async def test_the_header_and_the_badge_count_the_pods_of_the_view_waiting():
    core = small_core()
    other = OtherPodFact(uid="uid-o", namespace="default", name="o", scheduler="x", served=("y",))
    read((fact("otherpod", "uid-o"), other), into=core)
    async with shown(core) as page:
        await page.open()
        await page.has("1 bound · 3 waiting", "#live")
        await page.until("document.querySelector('#nav .count').innerText === '3'")
        await page.open("waiting")
        await page.has("3 pods in 2 groups")


async def test_nominated_and_leaving_pods_are_visible():
    leaving = pod("b", node="n1", held=grants(), terminating=True)
    core = read(node(), pod("a", created=time.time() - 7260, priority=9), leaving, ledger(claim(waits_for=("uid-b",))))
    catch_up(core)
    async with shown(core) as page:
        # Ages are by the clock of the service, not of the browser.
        await page.page.clock.set_fixed_time(datetime.fromtimestamp(NOW.wall, UTC))
        await page.open("pods")
        await page.has("nominated")
        await page.has("terminating")
        await page.has("2 h 1 min")
        await page.open("pods?state=Nominated")
        await page.until("document.querySelectorAll('tbody tr').length === 1")
        await page.open("pods/default/a")
        await page.has("nominated on n1")


async def test_reasons_count_nodes_once_and_events_name_their_service():
    core = small_core()
    found = [
        Refusal(code="NodeAffinityMismatch", text="node(s) didn't match Pod's node affinity/selector", nodes=3),
        Refusal(code="X", text="Insufficient chips", nodes=1, asked=2, free=1, unit="whole chips"),
    ]
    why = Explanation(
        uid="uid-w1", namespace="default", name="w1", at=3.0, decision="pending", nodes=4, message="none",
        first_failing=tuple(found),
    )  # fmt: skip
    core.handle(ExplanationReceived(explained("uid-w1"), why), NOW)
    async with shown(core) as page:
        await page.open("pods/default/w1")
        await page.has("3 node(s) didn't match")
        await page.has("1 node: Insufficient chips")
        await page.has("at most 1 whole chip free of 2 whole chips requested")
        await page.open("events")
        await page.has("inventory")


async def test_the_map_selects_cards_by_pointer_and_by_keys_and_opens_their_node():
    async with shown(small_core()) as page:
        await page.open()
        await page.until("deviceshare.overview.map.list?.length === 2")
        spot = "(() => { const map = deviceshare.overview.map; return map.spot(map.places.get('n1'), 0); })()"
        x, y, size = await page.page.evaluate(spot)
        box = await page.page.locator(".canvas canvas").bounding_box()
        await page.page.mouse.move(box["x"] + x + size / 2, box["y"] + y + size / 2)
        await page.has("n1 · card 0", ".tip")
        await page.has("default/a", ".tip")
        await page.page.mouse.move(5, 5)
        await page.page.focus(".canvas canvas")
        await page.page.keyboard.press("Home")
        first = await page.text(".tip h3")
        for _ in range(4):
            await page.page.keyboard.press("ArrowRight")
        assert await page.text(".tip h3") != first
        spoken = await page.page.text_content("[aria-live=polite]")
        assert "card" in spoken
        await page.page.keyboard.press("Enter")
        await page.until("location.hash.startsWith('#/nodes/')")


async def test_the_map_names_all_models_of_a_node():
    other = replace(HEALTHY, id="GPU-3", index=1, type="Tesla-T4")
    core = read(node("n1", cards=(HEALTHY,)), node("n2", cards=(HEALTHY, other)), node("n3", cards=(other, HEALTHY)))
    catch_up(core)
    async with shown(core) as page:
        await page.open()
        await page.until("deviceshare.overview.map.list?.length === 3")
        groups = await page.page.evaluate(
            "deviceshare.overview.map.plan.groups.map(({ title, nodes }) => [title, nodes.map(({ name }) => name)])"
        )
        assert groups == [
            ["Tesla P4 · hami-core, Tesla T4 · hami-core", ["n2", "n3"]],
            ["Tesla P4 · hami-core", ["n1"]],
        ]


async def test_an_unhealthy_card_is_hatched_and_a_full_card_differs_from_a_free_one():
    async with shown(small_core()) as page:
        await page.open()
        await page.until("deviceshare.overview.map.list?.length === 2")
        colors = await page.page.evaluate(
            """() => { const map = deviceshare.overview.map;
            const of = (name, at) => { const [x, y, size] = map.spot(map.places.get(name), at);
              const data = map.context.getImageData(x, y, size, size).data, found = new Set();
              for (let i = 0; i < data.length; i += 4) found.add(data.slice(i, i + 3).join());
              return [...found]; };
            return [of("n1", 0), of("n1", 1), of("legacy", 0)]; }"""
        )
        used, sick, free = colors
        assert len(used) == len(free) == 1
        assert used != free
        assert len(sick) > 1


async def test_waiting_pods_are_grouped_and_explained_with_the_closest_nodes():
    async with shown(small_core()) as page:
        await page.open("waiting")
        await page.has("2 pods in 1 group")
        await page.has("Closest nodes")
        for part in (
            "default/train",
            "0/2 nodes are unavailable: 1 with too little free memory. (as of",
            "CardInsufficientMemory",
            "n1",
            "512 MiB, 40 cores free",
        ):
            await page.has(part)


async def test_a_waiting_pod_shows_when_it_starts_or_why_there_is_no_estimate(monkeypatch):
    core = small_core()
    async with shown(core) as page:
        await page.page.clock.set_fixed_time(datetime.fromtimestamp(NOW.wall + 3600, UTC))  # another clock
        await page.open("pods/default/w1")
        await page.has("No estimate of when it starts: too few equal pods have waited and started in its queue.")
        known = StartTime(at=NOW.wall, earliest=NOW.wall + 1260, latest=NOW.wall + 8 * 3600)
        monkeypatch.setattr(core.start_times, "of", lambda *_: known)
        await page.open("pods/default/w2")
        await page.has("Starts in 21 min 0 s to 8 h 0 min: some 80% of such ranges are right.")
        why = replace(core.store.histories["uid-w1"].explanation, kept_for=("default/large",))
        core.handle(ExplanationReceived(explained("uid-w1"), why), NOW)
        await page.open("pods/default/w1")
        for part in ("Position 1 of 1 in its queue", "Nodes are kept free for default/large, which waited too long."):
            await page.has(part)


async def test_pods_that_wait_only_for_fragmentation_are_marked():
    core = small_core()
    for name in ("w1", "w2"):
        why = replace(
            core.store.histories[f"uid-{name}"].explanation,
            first_failing=(replace(FEW, needed=1, free_by_model=(("Tesla-P4", 9500),)),),
        )
        core.handle(ExplanationReceived(explained(f"uid-{name}"), why), NOW)
    async with shown(core) as page:
        await page.open("waiting")
        await page.has("only fragmentation")
        await page.has("It waits only for fragmentation: enough of Tesla-P4 is free in sum")


ASKED = "main: cpu 0.5, volcano.sh/vgpu-memory 2.9 GiB"


async def test_the_pages_of_a_pod_a_node_and_a_queue():
    async with shown(small_core(), refused="404") as page:
        await page.open("pods/default/a")
        for part in ("Life cycle", "Handed over", "+800 ms", "Bound", "GPU-1", "research", "ReplicaSet/web", ASKED):
            await page.has(part)
        await page.until("document.querySelectorAll('.life .done').length === 6")
        await page.open("pods/default/w1")
        for part in ("Why it waits", " h ago)", "Created", "Priority"):
            await page.has(part)
        await page.until("document.querySelectorAll('.life .current').length === 1")
        await page.open("nodes/n1")
        for part in ("Cards (2)", "unhealthy", "default/a", "Pods (1)"):
            await page.has(part)
        await page.open("nodes/legacy")
        await page.has("Cards (2)")
        await page.open("queues/research")
        for part in ("Account", "default/w1", "Weight"):
            await page.has(part)
        await page.open("nodes/absent")
        await page.has("node absent not found")


async def test_filters_are_in_the_address():
    async with shown(small_core()) as page:
        await page.open("pods?state=Bound")
        await page.has("default/a")
        assert "default/w1" not in await page.text()
        await page.page.select_option("select[aria-label=state]", "Pending")
        await page.has("default/w1")
        assert "state=Pending" in page.page.url
        assert "default/a\n" not in await page.text()
        await page.page.keyboard.press("Escape")
        await page.open("?node=legacy")
        await page.until("deviceshare.overview.map.list?.length === 1")
        await page.page.keyboard.press("g")
        await page.page.keyboard.press("w")
        await page.until("location.hash === '#/waiting'")


async def test_the_timeline_shows_a_map_of_the_past():
    core = small_core()
    async with shown(core) as page:
        history = page.server.dashboard._history
        body = (await page.server.dashboard._rows.all()).replace(b",3000,", b",9000,")
        await page.page.clock.install()
        now = await page.page.evaluate("Date.now() / 1000")
        await history.record(now - 1800.0, body, 5, 7)
        await page.open()
        await page.until("!document.querySelector('.scrub').disabled")
        await page.page.evaluate(
            """(at) => { const slider = document.querySelector('.scrub'); slider.value = at;
            slider.dispatchEvent(new Event('input')); }""",
            now - 1000.0,
        )
        await page.page.clock.run_for(200)
        await page.has("back to now", ".map")
        await page.has("7 bound, 5 pending", ".timeline")
        await page.until("deviceshare.overview.nodes[1].cards[0].memoryUsed === 9000")
        await page.page.click(".past button")
        await page.page.clock.run_for(200)
        await page.until("deviceshare.overview.past === null")


HOSTILE = (
    "\"><img src=x onerror=alert(1)><script>alert(2)</script>' onload=alert(3) {{x}} javascript:alert(4)//../#?%2F"
)


def hostile_core(name):
    """Return a core with this text in every field."""
    problem = Problem(f"Node {name}", "field", name, name)
    fields = {"namespace": name, "name": name, "problems": (problem,)}
    refusal = Refusal(code=name, text=name, nodes=1, nearest=name)
    why = Explanation(
        uid="uid-x", namespace=name, name=name, at=1.0, decision="pending", message=name, gang=name, why=(name,),
        caveats=(name,), refusals=(Refusal(code=name, text=name, nodes=0),), closest=(NearNode(node=name),),
        first_failing=(refusal,),
    )  # fmt: skip
    cards = (Card(name, 0, 10, 100, 100, name, True, name),)
    other = OtherPodFact(uid="uid-o", namespace=name, name="o", scheduler=name, served=(name,))
    step = Step("uid-x", f"{name}/{name}", name, 1.0, name, name)
    core = read()
    for event in (
        FactReceived(fact("node", name), NodeFact(name=name, cards=cards, problems=(problem,))),
        FactReceived(fact("pod", "uid-x"), PodSeen(uid="uid-x", queue=name, **fields)),
        FactReceived(fact("otherpod", "uid-o"), other),
        FactReceived(fact("queue", name), QueueFact(name=name, parent=name, problems=(problem,))),
        ExplanationReceived(explained("uid-x"), why),
        StepsReceived(Events(service=name, instance="i", at=1.0, steps=(step,))),
    ):
        core.handle(event, NOW)
    catch_up(core)
    return core


def addresses(name):
    """Return the addresses of all views, and of the objects with this name."""
    part = quote(name, safe="")
    views = ("", "waiting", "pods", "nodes", "queues", "events")
    return (*views, f"nodes/{part}", f"pods/{part}/{part}", f"queues/{part}")


async def test_hostile_names_stay_text():
    name = HOSTILE
    async with shown(hostile_core(name), refused="404") as page:
        dialogs = []
        page.page.on("dialog", lambda dialog: dialogs.append(dialog.message) or asyncio.ensure_future(dialog.dismiss()))
        for address in addresses(name):
            await page.open(address)
            await page.page.wait_for_timeout(300)
            counted = "document.querySelectorAll('main img, main script, main iframe, [onerror], [onload]').length"
            assert await page.page.evaluate(counted) == 0, address
            links = await page.page.eval_on_selector_all("a", "all => all.map((each) => each.getAttribute('href'))")
            assert all(link.startswith("#") for link in links), links
        await page.open("waiting")
        await page.has(name)
        assert dialogs == []


async def test_characters_that_hide_or_reorder_text_are_visible():
    async with shown(hostile_core(TEXT), refused="404") as page:
        texts = """() => [document.body.innerText, ...[...document.querySelectorAll("*")].flatMap((each) =>
            [...each.attributes].map((one) => one.value))]"""
        for address in addresses(TEXT):
            await page.open(address)
            await page.until("document.querySelector('main').innerText.length > 0")
            for text in await page.page.evaluate(texts):
                assert {each for each in text if not each.isprintable()} <= {"\n", "\t"}, address
        await page.open("waiting")
        await page.has("\\u202eevil")


async def test_the_page_goes_on_after_the_loss_of_the_stream():
    core = small_core()
    async with shown(core) as page:
        await page.open()
        await page.server.dashboard.stream.close()
        read(node("later"), into=core)
        await page.until("deviceshare.nodes.has('later')")
        await page.page.wait_for_selector("#live.on")


async def test_memory_is_shown_in_the_largest_unit_that_has_at_least_one():
    async with shown(small_core()) as page:
        await page.open()
        written = "async (mib) => (await import('/ui/dom.js')).memory(mib)"
        for mib, text in ((0, "0 MiB"), (1023, "1,023 MiB"), (1024, "1 GiB"), (11178, "10.9 GiB"), (3 << 20, "3 TiB")):
            assert await page.page.evaluate(written, mib) == text
