"""The devices of ResourceClaims on the page, in a real Chromium."""

from deviceshare.model import PodDeviceClaim
from deviceshare_bus.messages.subjects import subject_of
from support import devices
from support.browser import needs_chromium, shown
from support.metrics import catch_up, read
from support.metrics_messages import grants, node, pod

pytestmark = needs_chromium


async def test_a_node_and_a_pod_show_the_devices_of_claims() -> None:
    claim = devices.allocated(devices.claim("gpus", 2), [("n1", "gpu-0"), ("n1", "gpu-3")], "uid-a")
    facts = [devices.gpus("n1", 4), devices.gpu_class(), claim]
    user = pod("a", node="n1", device_claims=(PodDeviceClaim("g", "ns/gpus"),))
    mixed = pod("mixed", node="n1", held=grants(), device_claims=(PodDeviceClaim("g", "ns/gpus"),))
    core = read(node("n1"), node("n2"), user, mixed, *((subject_of(each), each) for each in facts))
    catch_up(core)
    async with shown(core) as page:
        await page.open("nodes/n1")
        await page.has(f"{devices.DRIVER} 2 / 4 gpu: 2 default/a", "section[aria-label='Devices of ResourceClaims']")
        await page.page.click("section[aria-label='Devices of ResourceClaims'] a")
        await page.has(f"gpus {devices.DRIVER}/n1/gpu-3")
        await page.open("pods")
        await page.has("2 of ResourceClaims", "table")
        await page.open("nodes/n2")
        await page.has("Events")
        assert "Devices of ResourceClaims" not in await page.text()
