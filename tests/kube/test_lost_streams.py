"""A stream is lost while a request to bind a pod is on its way to a real API server: its place is not given away.

``DEVICESHARE_CHAOS=1`` tries all streams.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from deviceshare_binder import service as binder
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.runtime.service import ServiceState
from deviceshare_bus.wire.connection import Connection, connect
from deviceshare_cluster.kube import KubeCluster
from deviceshare_inventory import service as inventory
from deviceshare_placement import service as placement
from nats.errors import Error as NatsError
from support.apiserver import ApiServer
from support.kube_cluster import CleanCluster
from support.kube_proxy import KubeProxy
from support.kube_scene import node, pod
from support.service import INVENTORY, lasting
from support.waiting import until

HOLD = 6.0
DELAY = 2.0
"""Seconds from the loss until the delayed request arrives: within the hold."""
ALL = [(stream, how) for stream in Stream for how in ("deleted", "emptied")]
SOME = [
    (Stream.LEDGER, "deleted"),
    (Stream.LEDGER, "emptied"),
    (Stream.CLUSTER, "deleted"),
    (Stream.OUTCOME, "deleted"),
]
BINDER = {"plugin_patience": 60.0, "reports_per_second": 200.0, "dry_run": False}


@pytest.fixture
async def cluster(apiserver: ApiServer) -> AsyncIterator[CleanCluster]:
    async with CleanCluster(apiserver) as cluster:
        yield cluster


async def node_of(cluster: CleanCluster, name: str) -> str:
    found = await cluster.get("Pod", "default", name)
    return str(found["spec"].get("nodeName", ""))


async def until_bound(cluster: CleanCluster, name: str, seconds: float = 60.0) -> None:
    await until(lambda: node_of(cluster, name), seconds=seconds)


def is_ready(*states: ServiceState) -> bool:
    return all(state.context is not None and state.context.ready for state in states)


@pytest.mark.parametrize(("stream", "how"), ALL if os.environ.get("DEVICESHARE_CHAOS") else SOME)
async def test_a_stream_is_lost_while_a_binding_is_in_flight(
    cluster: CleanCluster,
    apiserver: ApiServer,
    nats_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stream: Stream,
    how: str,
) -> None:
    direct = str(apiserver.kubeconfig())
    monkeypatch.setattr(inventory, "open_cluster", lambda _, silence: KubeCluster(kubeconfig=direct))
    monkeypatch.setattr(binder, "open_cluster", lambda kubeconfig, *names: KubeCluster(kubeconfig=kubeconfig))
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(KubeProxy(apiserver))
        proxy.holds = lambda method, path: path.endswith("late/binding")
        way = proxy.kubeconfig(tmp_path)
        states = [
            await stack.enter_async_context(lasting("inventory", inventory.main, nats_url, HOLD, **INVENTORY)),
            await stack.enter_async_context(lasting("placement", placement.main, nats_url, HOLD)),
            await stack.enter_async_context(lasting("binder", binder.main, nats_url, HOLD, cluster=way, **BINDER)),
        ]
        await cluster.create(node())
        await cluster.create(pod("late"))
        await until(lambda: proxy.held)
        bus = await connect(nats_url, "test")
        stack.push_async_callback(bus.close)
        if how == "deleted":
            await bus.jetstream.delete_stream(stream)
        else:
            await bus.jetstream.purge_stream(stream)
        urgent = pod("next")
        urgent["spec"]["priorityClassName"] = "system-node-critical"
        await cluster.create(urgent)
        await asyncio.sleep(DELAY)
        proxy.holds = lambda method, path: False
        assert await proxy.release(proxy.held[0]) == 201
        await until_bound(cluster, "late")
        await until(lambda: is_ready(*states), seconds=HOLD + 30.0)
        assert await exists(bus)
        await asyncio.sleep(1.0)
        assert not await node_of(cluster, "next"), "the card has one slot"
        await cluster.delete("Pod", "default", "late")
        await until_bound(cluster, "next")


async def exists(bus: Connection) -> bool:
    """Return whether all streams exist."""
    try:
        for stream in Stream:
            await bus.jetstream.stream_info(stream)
    except NatsError:
        return False
    return True
