"""The set-up step as a command: streams are created once and not changed later."""

import subprocess
import sys

from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.streams.streamstate import EPOCH
from deviceshare_bus.wire.connection import connect


def run_setup(url: str) -> None:
    command = [sys.executable, "-m", "deviceshare_bus.runtime.setup", "--bus", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr


async def epochs(url: str) -> dict[str, str]:
    connection = await connect(url, "test")
    infos = {stream: await connection.jetstream.stream_info(stream) for stream in Stream}
    await connection.close()
    return {stream: (info.config.metadata or {})[EPOCH] for stream, info in infos.items()}


async def test_streams_are_made_once(nats_url):
    run_setup(nats_url)
    made = await epochs(nats_url)
    assert set(made) == set(Stream)
    run_setup(nats_url)
    assert await epochs(nats_url) == made
