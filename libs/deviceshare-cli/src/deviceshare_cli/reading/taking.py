"""``deviceshare snapshot``."""

import sys

import msgspec
from deviceshare.model import visible

from deviceshare_cli.errors import CommandError
from deviceshare_cli.reading.opening import Source, opened
from deviceshare_cli.reading.snapshot import take_snapshot


async def write_snapshot(source: Source) -> int:
    """Write a snapshot to standard output, and return the exit status. Raises CommandError on a terminal."""
    if sys.stdout.isatty():
        raise CommandError("a snapshot is large: redirect it, `deviceshare snapshot > FILE`")
    async with opened(source) as reader:
        content = await take_snapshot(reader)
    sys.stdout.buffer.write(visible(msgspec.json.encode(content).decode()).encode() + b"\n")
    sys.stdout.buffer.flush()
    return 0
