"""A watch that keeps failing is restarted after a bounded pause."""

import asyncio
from contextlib import aclosing

import pytest
from deviceshare_cluster.interface import ClusterError
from deviceshare_cluster.kube import follow


class Unreachable:
    """An API server that never answers."""

    def stream(self, *_: object) -> None:
        raise ClusterError("no answer")

    async def request(self, *_: object) -> bytes:
        raise ClusterError("no answer")


async def test_a_watch_survives_any_number_of_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    done = asyncio.Event()
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) > 1100:
            done.set()
        await sleep(0)

    monkeypatch.setattr(follow.asyncio, "sleep", note)

    async def read() -> None:
        async with aclosing(follow.ObjectWatch(Unreachable(), "Pod").updates()) as updates:  # type: ignore[arg-type]
            async for _ in updates:
                raise AssertionError("nothing can be read")

    reading = asyncio.create_task(read())
    async with asyncio.timeout(60):
        await asyncio.wait({reading, asyncio.create_task(done.wait())}, return_when=asyncio.FIRST_COMPLETED)
    assert not reading.done()
    assert follow.RETRY.most <= max(pauses) <= 2 * follow.RETRY.most
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
