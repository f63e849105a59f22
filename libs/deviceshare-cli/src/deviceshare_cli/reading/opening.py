"""Which source a read command uses: ``--snapshot``, ``--run``, or the latest running system."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from deviceshare_cli import runfile
from deviceshare_cli.errors import CommandError
from deviceshare_cli.reading.reader import Reader


class Source(NamedTuple):
    """The options of a read command that name its source."""

    run: str | None
    snapshot: Path | None
    server: str | None = None
    token: str | None = None


@asynccontextmanager
async def opened(source: Source) -> AsyncIterator[Reader]:
    """Open the source of a command. Raises CommandError."""
    if source.snapshot is not None:
        if source.run is not None:
            raise CommandError("--run and --snapshot exclude each other")
        # Not --server: it may come from the environment.
        from deviceshare_cli.reading.snapshot import read_snapshot

        yield read_snapshot(source.snapshot)
        return
    from deviceshare_cli.reading.live import open_live

    async with open_live(await _run_of(source)) as reader:
        yield reader


async def _run_of(source: Source) -> runfile.Run:
    """Return the system of ``--run`` or ``--server``. Raises CommandError."""
    if source.server is None or source.run is not None:
        run = runfile.find(source.run)
        return msgspec.structs.replace(run, token=source.token) if source.token else run
    from deviceshare_cli.reading.installed import installed_run

    return await installed_run(source.server, source.token or "")
