"""A watch or a list that keeps failing is started again after a bounded pause."""

import asyncio
from contextlib import aclosing

import pytest
from deviceshare_bus.wire.tasks import end
from deviceshare_cluster.interface import ClusterError
from deviceshare_cluster.kube import follow

FAILURES = 1100
"""More than the exponent of a float: a pause that doubles each time cannot be computed."""
sleep = asyncio.sleep


class Unreachable:
    """An API server that never answers: each request fails by ``cause``. ``done`` is set after many of them."""

    def __init__(self, cause: Exception) -> None:
        self._cause = cause
        self.failures = 0
        self.done = asyncio.Event()

    def _fail(self) -> ClusterError:
        self.failures += 1
        if self.failures > FAILURES:
            self.done.set()
        error = ClusterError("no answer")
        error.__cause__ = self._cause
        return error

    def stream(self, *_: object) -> None:
        raise self._fail()

    async def request(self, *_: object) -> bytes:
        await sleep(0)
        raise self._fail()


@pytest.mark.parametrize("cause", [ConnectionError(), TimeoutError()], ids=["unreachable", "silent"])
async def test_a_list_without_an_answer_is_repeated_after_a_pause(
    cause: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a watch that was silent after its list goes on at once."""
    pauses: list[float] = []
    server = Unreachable(cause)

    async def note(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(follow.asyncio, "sleep", note)

    async def read() -> None:
        async with aclosing(follow.ObjectWatch(server, "Pod").updates()) as updates:  # type: ignore[arg-type]
            async for _ in updates:
                raise AssertionError("nothing can be read")

    reading = asyncio.create_task(read())
    async with asyncio.timeout(60):
        await asyncio.wait({reading, asyncio.create_task(server.done.wait())}, return_when=asyncio.FIRST_COMPLETED)
    assert not reading.done()
    assert len(pauses) >= FAILURES
    assert follow.RETRY.most <= max(pauses) <= 2 * follow.RETRY.most
    await end(reading)
