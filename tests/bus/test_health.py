"""The health endpoint of a service: whether the bus is reachable, and whether all streams have been read."""

import asyncio
from http import HTTPStatus

import aiohttp
from deviceshare_bus.messages.codec import decode_status
from deviceshare_bus.messages.subjects import Stream, status
from deviceshare_bus.runtime.service import Context, _run, parser
from deviceshare_bus.streams.creation import make_streams
from deviceshare_bus.wire.connection import connect
from deviceshare_bus.wire.tasks import end
from deviceshare_cli.ports import free_port


class Health:
    """The health endpoint of a service."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    async def get(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(f"{self._url}/{path}") as answer:
            return answer.status, await answer.text()

    async def until(self, path: str, status: HTTPStatus) -> str:
        """Wait until the endpoint answers with this status; return the text."""
        async with asyncio.timeout(60):
            while True:
                try:
                    found, text = await self.get(path)
                except aiohttp.ClientConnectionError:
                    found, text = 0, ""
                if found == status:
                    return text
                await asyncio.sleep(0.05)


async def check_answers(url: str) -> None:
    """A status is sent to inboxes alone: with any other subject, the service would write to a stream for a stranger."""
    client = await connect(url, "client")
    for reply in ("explain.x", "ledger.1.n", "_INBOXES.a", ""):
        client.client.send(status("test"), b"", reply)
    found = await client.requests.request(status("test"), b"", 5.0)
    assert decode_status(found.data).instance == "test-1"
    for stream in (Stream.EXPLAIN, Stream.LEDGER):
        assert (await client.jetstream.stream_info(stream)).state.messages == 0
    await client.close()


async def test_a_service_is_unhealthy_while_the_bus_is_down_and_ready_after_it_has_read_its_streams(
    nats_server, monkeypatch
) -> None:
    # Signals of the test runner are not the service's.
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(type(loop), "add_signal_handler", lambda *_: None)
    setup = await connect(nats_server.url, "setup")
    await make_streams(setup)
    await setup.close()
    may_read = asyncio.Event()

    async def main(context: Context) -> None:
        follower = context.follow(Stream.CLUSTER)
        await may_read.wait()
        async for _ in follower:
            pass

    port = free_port()
    given = {"bus": nats_server.url, "bus-hold": "0", "health-port": str(port)}
    options = parser("test").parse_args([f"--{name}={value}" for name, value in given.items()])
    running = asyncio.create_task(_run("test", "test-1", main, options, None))
    health = Health(port)
    try:
        assert await health.until("healthz", HTTPStatus.OK) == "ok"
        assert (await health.get("readyz"))[0] == HTTPStatus.SERVICE_UNAVAILABLE
        may_read.set()
        await health.until("readyz", HTTPStatus.OK)
        await check_answers(nats_server.url)
        nats_server.kill()
        assert "bus" in await health.until("healthz", HTTPStatus.SERVICE_UNAVAILABLE)
        nats_server.start()
        await health.until("healthz", HTTPStatus.OK)
        await health.until("readyz", HTTPStatus.OK)
    finally:
        await end(running)
