"""One service at work in this process, on a real bus."""

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from deviceshare_bus.connection import connect
from deviceshare_bus.eventlog import EventLog
from deviceshare_bus.publisher import Publisher
from deviceshare_bus.service import Context, Main
from deviceshare_bus.setup import make_streams
from deviceshare_bus.tracing import Tracing


@asynccontextmanager
async def at_work(service: str, main: Main, url: str, **options: Any) -> AsyncIterator[Context]:
    """Run a service on the bus at ``url``, whose streams are made where they are missing; gives its context."""
    connection = await connect(url, service)
    await make_streams(connection)
    publisher = Publisher(connection)
    events = EventLog(publisher, Tracing(service, "1", {}), service, "1")
    context = Context(service, "1", argparse.Namespace(**options), connection, publisher, events)
    task = asyncio.ensure_future(main(context))
    try:
        yield context
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await connection.close()
