"""The local cluster when its server is killed, frozen or wiped."""

import asyncio
import json
import shutil
import time
from collections.abc import AsyncIterator
from typing import Any, Protocol

import pytest
from deviceshare_cluster.interface import BindState, Change, ChangeType, ClusterError, Listed
from deviceshare_localcluster import LocalCluster
from support.controlled import controlled
from support.manifest import manifest
from support.waiting import until


class Server(Protocol):
    url: str
    directory: Any

    def kill(self) -> None: ...

    def start(self) -> None: ...

    async def restart(self, pause: float = 0.0) -> None: ...

    def freeze(self) -> None: ...

    def thaw(self) -> None: ...


def pod(name: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def read_until(watch: AsyncIterator[list[Change | Listed]], name: str, seconds: float = 60.0) -> list[Change]:
    """Read changes until one of this name comes."""
    seen = []
    async with asyncio.timeout(seconds):
        async for batch in watch:
            for item in batch:
                if isinstance(item, Change):
                    seen.append(item)
                    if item.name == name:
                        return seen
    raise AssertionError("a watch never ends")


async def patiently(write: Any) -> Any:
    """Call until the cluster answers."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await write()
            except ClusterError:
                await asyncio.sleep(0.05)


async def test_a_watch_goes_on_after_kill_and_restart(nats_server: Server) -> None:
    async with LocalCluster(nats_server.url) as reader, LocalCluster(nats_server.url) as writer:
        await writer.setup()
        await writer.create(pod("a"))
        watch = reader.watch(["Pod"])
        await read_until(watch, "a")
        await nats_server.restart(pause=0.3)
        began = time.monotonic()
        await patiently(lambda: writer.apply(pod("b")))
        seen = await read_until(watch, "b")
        assert time.monotonic() - began < 30, "the watch was blind for too long"
        assert [change.name for change in seen] == ["b"], "what was known is not delivered again"


async def test_a_watch_that_begins_while_the_server_is_away_lists_when_it_is_back(nats_server: Server) -> None:
    async with LocalCluster(nats_server.url) as cluster:
        await cluster.setup()
        await cluster.create(pod("a"))
        nats_server.kill()
        watch = cluster.watch(["Pod", "Node"])
        reading = asyncio.create_task(read_until(watch, "a"))
        await asyncio.sleep(0.3)
        assert not reading.done()
        await asyncio.to_thread(nats_server.start)
        assert [change.name for change in await reading] == ["a"]


async def test_nothing_that_was_answered_is_lost_and_nothing_is_bound_twice(nats_server: Server) -> None:
    """Kill the server in the middle of many bindings: each pod is bound once, to the node of the answer."""
    async with LocalCluster(nats_server.url) as cluster:
        await cluster.setup()
        count = 1500
        await cluster.load([pod(f"p{number}") for number in range(count)])
        pods = await cluster.list("Pod")
        limit = asyncio.Semaphore(64)
        unknown = 0

        async def bind(one: dict[str, Any], number: int) -> tuple[str, str]:
            nonlocal unknown
            metadata = one["metadata"]
            attempt = 0
            async with limit:
                while True:
                    attempt += 1
                    node = f"n{number}-{attempt}"
                    try:
                        answer = await cluster.bind("default", metadata["name"], metadata["uid"], node, {"on": node})
                    except ClusterError:
                        unknown += 1
                        await asyncio.sleep(0.05)
                        continue
                    assert answer.state in (BindState.BOUND, BindState.ALREADY)
                    if answer.state is BindState.BOUND:
                        assert answer.node == node
                    return metadata["name"], answer.node

        async def trouble() -> None:
            for _ in range(2):
                await asyncio.sleep(0.04)
                await nats_server.restart()

        *answered, _ = await asyncio.gather(*(bind(one, number) for number, one in enumerate(pods)), trouble())
        assert unknown, "the server was killed while bindings were open"
        bound = {one["metadata"]["name"]: one for one in await patiently(lambda: cluster.list("Pod"))}
        assert {name: one["spec"]["nodeName"] for name, one in bound.items()} == dict(answered)
        assert all(one["metadata"]["annotations"]["on"] == one["spec"]["nodeName"] for one in bound.values())


async def test_a_silent_server_is_an_error_not_a_hang(nats_server: Server) -> None:
    async with LocalCluster(nats_server.url, timeout=0.5) as cluster:
        await cluster.setup()
        await cluster.create(pod("a"))
        watch = cluster.watch(["Pod"])
        await read_until(watch, "a")
        nats_server.freeze()
        with pytest.raises(ClusterError, match=r"no answer within 0\.5 s"):
            await cluster.get("Pod", "default", "a")
        nats_server.thaw()
        await patiently(lambda: cluster.apply(pod("b")))
        assert [change.name for change in await read_until(watch, "b")] == ["b"]


async def test_after_a_wipe_all_objects_are_listed_again_and_missing_ones_are_deleted(nats_server: Server) -> None:
    async with LocalCluster(nats_server.url) as cluster:
        await cluster.setup()
        await cluster.load([pod("stays"), pod("vanishes")])
        watch = cluster.watch(["Pod"])
        await read_until(watch, "stays")
        nats_server.kill()
        shutil.rmtree(nats_server.directory / "store")
        await asyncio.to_thread(nats_server.start)
        await patiently(cluster.setup)
        await cluster.create(pod("stays"))
        seen: list[Change | Listed] = []
        async with asyncio.timeout(60):
            async for batch in watch:
                seen += batch
                if any(isinstance(item, Listed) and seen.index(item) > 0 for item in batch):
                    break
        last = {item.name: item for item in seen if isinstance(item, Change)}
        assert last["vanishes"].type is ChangeType.DELETED
        assert last["stays"].type is ChangeType.APPLIED
        stored = await cluster.get("Pod", "default", "stays")
        assert json.loads(last["stays"].raw)["metadata"]["uid"] == stored["metadata"]["uid"]


async def test_the_controller_survives_its_server(nats_server: Server) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    job = manifest("Job", {"name": "j"}, spec={"tasks": [{"name": "t", "replicas": 2000, "template": template}]})
    async with LocalCluster(nats_server.url) as cluster:
        await cluster.setup()
        async with controlled(cluster):
            await cluster.create(job)
            await until(lambda: cluster.list("Pod"))
            await nats_server.restart()
            await until(lambda: patiently(lambda: cluster.list("Pod")), lambda pods: len(pods) == 2000)
            uids = {one["metadata"]["uid"] for one in await cluster.list("Pod")}
            assert len(uids) == 2000
