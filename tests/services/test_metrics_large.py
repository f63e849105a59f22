"""A large cluster: requests must not keep the event loop from following the streams."""

import asyncio
import gc
import socket
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress

import msgspec
import pytest
from deviceshare.model import Card, Claim, ContainerGrant, DeviceGrant, NodeFact, NodeLedger
from deviceshare_bus.cores.core import Now
from deviceshare_bus.messages import subjects
from deviceshare_bus.runtime.garbage import rarely_collect
from deviceshare_metrics import api
from deviceshare_metrics.core import MetricsCore
from deviceshare_metrics.core.events import FactReceived, LedgerReceived
from deviceshare_metrics.core.facts import PodSeen
from deviceshare_metrics.server import Server, serve
from support.garbage import exempt_all
from support.metrics import NOW, catch_up

NODES, CARDS, PODS = 5_000, 8, 20_000
STALL = 0.2
"""Seconds of CPU that the process may use between two turns of the event loop; without threads it is more than 0.4.

CPU time, since a busy machine may suspend the process at any moment for longer.
"""
ABSENT = "/api/v1/pods/default/absent/explain"


def pod(number: int) -> PodSeen:
    return PodSeen(uid=f"uid-{number}", namespace="default", name=f"pod-{number}")


def claim(number: int) -> Claim:
    card = DeviceGrant(f"GPU-{number % CARDS}", number % CARDS, 1024, 10)
    grants = (ContainerGrant("main", 0, "hami-core", (card,)),)
    return Claim(id=f"c-{number}", uid=f"uid-{number}", namespace="default", name=f"pod-{number}", grants=grants)


def large_core() -> MetricsCore:
    core = MetricsCore()
    cards = tuple(Card(f"GPU-{at}", at, 10, 11178, 100, "Tesla-P4", True, "hami-core") for at in range(CARDS))
    for number in range(NODES):
        name = f"node-{number}"
        core.handle(FactReceived(subjects.fact("node", name), NodeFact(name=name, cards=cards)), NOW)
        claims = tuple(claim(at) for at in range(number, PODS, NODES))
        core.handle(LedgerReceived(subjects.ledger(name), NodeLedger(node=name, claims=claims)), NOW)
    for number in range(PODS):
        core.handle(FactReceived(subjects.fact("pod", f"uid-{number}"), pod(number)), NOW)
    catch_up(core)
    return core


class Loop:
    """Changes the state every millisecond, as a follower does, and measures the CPU time until each of its turns."""

    def __init__(self, core: MetricsCore) -> None:
        self._core = core
        self.longest = 0.0
        self.turns = 0

    async def run(self) -> None:
        while True:
            before = time.process_time()
            await asyncio.sleep(0.001)
            self.longest = max(self.longest, time.process_time() - before)
            self.turns += 1
            number = PODS + self.turns
            event = FactReceived(subjects.fact("pod", f"uid-{number}"), pod(number))
            self._core.handle(event, Now(float(self.turns), 0.0))


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=100) as answer:
        return answer.read()


@pytest.fixture
def garbage_collection_of_a_service() -> Iterator[None]:
    """Look for garbage as a service does: of all objects of a test run that takes longer than any request."""
    thresholds = gc.get_threshold()
    gc.collect()
    rarely_collect()
    yield
    gc.set_threshold(*thresholds)
    exempt_all()


@pytest.mark.usefixtures("garbage_collection_of_a_service")
async def test_requests_of_a_large_cluster_do_not_block_the_event_loop():
    core = large_core()
    server = Server(core, connected=lambda: True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    runner = await serve(server.app(), "127.0.0.1", port)
    loop = Loop(core)
    following = asyncio.create_task(loop.run())
    used = {}
    try:
        for path in ("/api/v1/status", "/api/v1/pods", "/", "/metrics", "/api/v1/cards", "/api/v1/waiting", ABSENT):
            loop.longest, before = 0.0, loop.turns
            with suppress(urllib.error.HTTPError):
                body = await asyncio.to_thread(get, f"http://127.0.0.1:{port}{path}")
                if path == "/api/v1/pods":
                    assert len(msgspec.json.decode(body, type=api.Items[api.Pod]).items) >= PODS
            used[path] = round(loop.longest, 3)
            assert loop.turns > before
    finally:
        following.cancel()
        await runner.cleanup()
    assert max(used.values()) < STALL, used
