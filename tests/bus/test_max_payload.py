"""Messages above the server's ``max_payload``: the server is checked at the start, and nothing too large is sent."""

import asyncio
from contextlib import aclosing

import pytest
from deviceshare.model import ConfigError
from deviceshare_bus.cores.core import RecordStep
from deviceshare_bus.messages.codec import decode_events
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.runtime.eventlog import EventLog
from deviceshare_bus.streams.follower import Follower
from deviceshare_bus.streams.latest import LatestWriter
from deviceshare_bus.streams.publisher import Refused, Write
from deviceshare_bus.wire.connection import MAX_PAYLOAD, connect
from deviceshare_bus.wire.tasks import end
from support.natsserver import NatsServer
from support.waiting import until

HEADERS = len("NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 0\r\n\r\n")


async def test_a_server_with_a_lower_limit_is_a_configuration_error(tmp_path) -> None:
    server = NatsServer(tmp_path, options="max_payload: 1MB\n")
    server.start()
    try:
        with pytest.raises(ConfigError, match=r"max_payload.*8388608"):
            await connect(server.url, "test")
    finally:
        server.kill()


@pytest.mark.parametrize("batch", [False, True])
async def test_a_message_that_is_too_large_is_refused_and_the_connection_stays(connection, publisher, batch) -> None:
    async def write(data: bytes) -> int:
        writes = [Write("ledger.1.a", data, 0)]
        if batch:
            writes = [Write("ledger.1.b", b"small", 0), *writes]
            return await (await publisher.send_atomic(writes))
        return await (await publisher.send(writes[0]))

    with pytest.raises(Refused, match=rf"ledger\.1\.a: \d+ bytes .*{MAX_PAYLOAD}"):
        await write(b"x" * MAX_PAYLOAD)
    assert connection.losses == 0
    assert (await connection.jetstream.stream_info(Stream.LEDGER)).state.messages == 0
    if not batch:
        assert await write(b"x" * (MAX_PAYLOAD - HEADERS)) == 1
        assert connection.losses == 0


async def test_the_newest_message_of_a_subject_that_is_too_large_does_not_hold_up_others(connection, publisher) -> None:
    latest = LatestWriter(publisher)
    running = asyncio.create_task(latest.run())
    latest.put("explain.large", b"x" * (MAX_PAYLOAD + 1))
    latest.put("explain.small", b"x")
    await until(lambda: not latest.open)
    assert (await connection.jetstream.get_last_msg(Stream.EXPLAIN, "explain.small")).data == b"x"
    await end(running)


async def test_steps_that_do_not_fit_into_one_message_are_split(connection, publisher) -> None:
    events = EventLog(publisher, "test", "1")
    for number in range(40):
        events.step(RecordStep(str(number), "default/a", "pending", message="x" * 1_000_000))
    events.step(RecordStep("large", "default/b", "pending", message="y" * (MAX_PAYLOAD + 1)))
    events.count("counted", 3)
    await events.flush()
    found = []
    async with asyncio.timeout(60), aclosing(aiter(Follower(connection, Stream.EVENT, history=True))) as batches:
        async for batch in batches:
            found += [decode_events(message.data) for message in batch.messages]
            if any(step.uid == "large" for each in found for step in each.steps):
                break
    assert [step.uid for each in found for step in each.steps] == [*map(str, range(40)), "large"]
    assert found[-1].steps[-1].message.startswith("yyyy")
    assert sum(each.counters.get("counted", 0) for each in found) == 3
    assert connection.losses == 0
