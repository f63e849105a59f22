"""Creating the streams: concurrently and repeatedly."""

import asyncio

import pytest
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams import creation
from deviceshare_bus.streams.creation import make_streams
from deviceshare_bus.streams.streamstate import EPOCH
from deviceshare_bus.wire.connection import Connection, connect
from deviceshare_localcluster import LocalCluster


async def test_several_may_set_up_at_once_and_the_streams_stay_as_they_are(nats_url: str) -> None:
    connections = [await connect(nats_url, f"test-{number}") for number in range(8)]
    await asyncio.gather(*map(make_streams, connections))
    epochs = [(await connections[0].jetstream.stream_info(stream)).config.metadata[EPOCH] for stream in Stream]
    await make_streams(connections[1])
    again = [(await connections[0].jetstream.stream_info(stream)).config.metadata[EPOCH] for stream in Stream]
    assert epochs == again
    assert len(set(epochs)) == len(Stream)
    for connection in connections:
        await connection.close()


async def test_each_stream_keeps_what_its_readers_need(connection) -> None:
    found = {stream: (await connection.jetstream.stream_info(stream)).config for stream in Stream}
    assert {stream.value: config.subjects for stream, config in found.items()} == {
        stream.value: [f"{stream.lower()}.>"] for stream in Stream
    }
    for stream, config in found.items():
        assert config.storage == "file"
        assert config.allow_direct
        if stream == Stream.EVENT:
            assert (config.max_msgs_per_subject, config.max_age, config.max_bytes) == (-1, 24 * 3600.0, 256 * 1024**2)
        else:
            assert config.max_msgs_per_subject == 1, "the last message of each subject"
            assert not config.max_age, "neither age nor size removes a claim or a fact"
            assert config.max_bytes == -1


async def test_several_may_set_up_the_local_cluster_at_once(nats_url: str) -> None:
    clusters = [await LocalCluster(nats_url, name=f"test-{number}").__aenter__() for number in range(8)]
    await asyncio.gather(*(cluster.setup() for cluster in clusters))
    assert [queue["metadata"]["name"] for queue in await clusters[0].list("Queue")] == ["default"]
    for cluster in clusters:
        await cluster.__aexit__()


async def test_streams_that_cannot_be_created_are_tried_again_after_growing_pauses(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failing, pauses = [True] * 6 + [False] * 2, list[float]()

    async def make(*_: object) -> None:
        if failing.pop(0):
            raise OSError("no room")

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if not failing:
            raise asyncio.CancelledError

    monkeypatch.setattr(creation, "make_streams", make)
    monkeypatch.setattr(creation.asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await creation.keep_streams(connection, 1, 0.0)
    assert pauses == [1, 2, 4, 8, 10, 10, 1, 1]
    assert len([each for each in caplog.records if each.levelname == "WARNING"]) == 6
