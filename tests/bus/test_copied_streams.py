"""A stream that copies messages to subjects whose writers have not written them is not read."""

import asyncio

import pytest
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams.follower import Follower
from deviceshare_bus.streams.streamstate import CopiedStream, stream_state
from deviceshare_bus.wire.connection import Connection
from deviceshare_bus.wire.tasks import end
from nats.js.api import RePublish, StreamSource, SubjectTransform
from support.waiting import until

SETTINGS = {
    "mirror": {"mirror": StreamSource(name="OUTCOME"), "subjects": None},
    "sources": {"sources": [StreamSource(name="OUTCOME")]},
    "subject_transform": {"subject_transform": SubjectTransform(src="ledger.>", dest="ledger.1.>")},
    "republish": {"republish": RePublish(src="ledger.>", dest="copy.>")},
}


@pytest.mark.parametrize("setting", SETTINGS)
async def test_a_stream_with_the_setting_is_not_read(connection: Connection, setting: str) -> None:
    """The set-up step may create streams that are missing, with any settings."""
    await connection.jetstream.delete_stream(Stream.LEDGER)
    await connection.jetstream.add_stream(name="LEDGER", **{"subjects": ["ledger.>"], **SETTINGS[setting]})
    with pytest.raises(CopiedStream, match=f"stream LEDGER has {setting}: its messages can be forged"):
        await stream_state(connection, Stream.LEDGER)
    with pytest.raises(CopiedStream):
        await Follower(connection, Stream.LEDGER)._begin()


async def test_reading_ends_while_a_stream_has_the_setting(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    follower = Follower(connection, Stream.LEDGER)
    received: list[bytes] = []

    async def read() -> None:
        async for batch in follower:
            received.extend(message.data for message in batch.messages)

    reading = asyncio.create_task(read())
    config = (await connection.jetstream.stream_info(Stream.LEDGER)).config
    await connection.jetstream.publish("ledger.1.a", b"one")
    await until(lambda: received == [b"one"])
    await connection.jetstream.update_stream(config, republish=RePublish(src="ledger.>", dest="copy.>"))
    await until(lambda: "republish: its messages can be forged" in caplog.text)
    assert follower.obstacle == "stream LEDGER has republish: its messages can be forged; delete it"
    await connection.jetstream.publish("ledger.1.a", b"two")
    assert received == [b"one"]
    await connection.jetstream.update_stream(config)
    await until(lambda: received == [b"one", b"two"])
    assert follower.obstacle == ""
    await end(reading)
