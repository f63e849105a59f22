"""kube-scheduler, for comparison: it binds as many pods on the same API server."""

import asyncio
from pathlib import Path
from typing import Any

from deviceshare_cli.errors import CommandError

from deviceshare_lab.bench.bus.measure import process_seconds
from deviceshare_lab.bench.kube.apiserver import ApiServer, client_options
from deviceshare_lab.bench.kube.watched import Watched

NAME = "default-scheduler"


async def by_kube_scheduler(program: Path, server: ApiServer, names: list[str]) -> dict[str, Any]:
    """Return the bindings per second, and the CPU of each process, of pods that exist when kube-scheduler starts.

    Raises CommandError: it ended.
    """
    watched = Watched(names, None)
    async with watched.watching():
        with (server.directory / "kube-scheduler.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(program, *client_options(server), stdout=log, stderr=log)
        pids = {**server.pids, "kube-scheduler": process.pid}
        ended = asyncio.create_task(process.wait())
        try:
            await _until(watched, 1, ended)
            before = process_seconds(pids)
            await _until(watched, len(names), ended)
            after = process_seconds(pids)
        finally:
            if not ended.done():
                process.kill()
            await ended
    return {
        "bindings_per_second": round(len(names) / watched.seconds, 1),
        "seconds": round(watched.seconds, 3),
        "cpu_milliseconds_per_pod": {name: round(1000 * (after[name] - before[name]) / len(names), 2) for name in pids},
    }


async def _until(watched: Watched, count: int, ended: asyncio.Task[int]) -> None:
    """Wait until ``count`` pods are bound."""
    bound = asyncio.create_task(watched.until(count))
    await asyncio.wait((bound, ended), return_when=asyncio.FIRST_COMPLETED)
    if not bound.done():
        bound.cancel()
        raise CommandError(f"kube-scheduler ended with status {ended.result()}")
