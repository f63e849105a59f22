"""The newest message of each subject reaches the bus despite failures of the bus."""

import asyncio

from deviceshare_bus.connection import connect
from deviceshare_bus.latest import LatestWriter
from deviceshare_bus.publisher import Publisher
from deviceshare_bus.setup import make_streams
from deviceshare_bus.subjects import Stream, explain


async def test_all_that_a_dying_bus_left_unanswered_is_written_soon_after_its_return(nats_server):
    connection = await connect(nats_server.url, "test")
    await make_streams(connection)
    publisher = Publisher(connection)
    writer = LatestWriter(publisher)
    running = asyncio.create_task(writer.run())
    try:
        nats_server.freeze()
        for number in range(200):
            writer.put(explain(f"uid-{number}"), b"first")
        await asyncio.sleep(0.1)  # all of them are on their way
        writer.put(explain("uid-7"), b"last")
        nats_server.thaw()
        await nats_server.restart()
        async with asyncio.timeout(10):
            while writer.open:
                await asyncio.sleep(0.01)
        info = await connection.jetstream.stream_info(Stream.EXPLAIN)
        assert info.state.messages == 200
        assert (await connection.jetstream.get_last_msg(Stream.EXPLAIN, explain("uid-7"))).data == b"last"
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await connection.close()
