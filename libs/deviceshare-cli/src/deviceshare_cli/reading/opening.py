"""Which source a read command uses: ``--snapshot``, ``--run``, or the latest running system."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from deviceshare_cli import runfile
from deviceshare_cli.errors import CommandError
from deviceshare_cli.reading.reader import Reader


class Source(NamedTuple):
    """The options of a read command that name its source."""

    run: str | None
    snapshot: Path | None


@asynccontextmanager
async def opened(source: Source) -> AsyncIterator[Reader]:
    """Open the source of a command. Raises CommandError."""
    if source.snapshot is not None:
        if source.run is not None:
            raise CommandError("--run and --snapshot exclude each other")
        from deviceshare_cli.reading.snapshot import read_snapshot

        yield read_snapshot(source.snapshot)
        return
    from deviceshare_cli.reading.live import open_live

    async with open_live(runfile.find(source.run)) as reader:
        yield reader
