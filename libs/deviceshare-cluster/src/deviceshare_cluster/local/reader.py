"""Reading the last message of a subject, many reads in flight over one connection.

A binder reads each pod once: the server's direct get, without the cost of nats-py's own request.
"""

import asyncio
from typing import NamedTuple

from deviceshare_bus.connection import Connection
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from deviceshare_cluster.interface import ClusterError


class Stored(NamedTuple):
    """What stands under a subject: nothing (revision 0), a tombstone (no data), or an object."""

    revision: int
    data: bytes


NOTHING = Stored(0, b"")


class Reader:
    """Direct gets from one stream."""

    def __init__(self, connection: Connection, stream: str, timeout: float) -> None:
        self._connection = connection
        self._get = f"$JS.API.DIRECT.GET.{stream}."
        self._timeout = timeout
        self._prefix = ""
        self._count = 0
        self._waiting: dict[str, asyncio.Future[Stored]] = {}

    async def start(self) -> None:
        """Listen for answers."""
        self._prefix = self._connection.client.new_inbox() + "."
        await self._connection.subscribe(self._prefix + "*", self._answered)
        self._connection.on_disconnect(self._lost)

    async def last(self, subject: str) -> Stored:
        """Return the last message under a subject. Raises ClusterError where the server cannot be reached."""
        if not self._connection.connected:
            raise ClusterError("the local cluster cannot be reached")
        self._count += 1
        token = f"{self._prefix}{self._count}"
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Stored] = loop.create_future()
        self._waiting[token] = future
        timer = loop.call_later(self._timeout, self._late, future)
        try:
            await self._connection.client.publish(self._get + subject, b"", reply=token)
            return await future
        except (NatsError, OSError) as error:
            raise ClusterError(f"the local cluster cannot be reached: {error!r}") from error
        finally:
            timer.cancel()
            self._waiting.pop(token, None)

    async def _answered(self, message: Msg) -> None:
        future = self._waiting.get(message.subject)
        if future is None or future.done():
            return
        headers = message.headers or {}
        sequence = headers.get("Nats-Sequence")
        if sequence is not None:
            future.set_result(Stored(int(sequence), message.data))
        elif headers.get("Status") == "404":
            future.set_result(NOTHING)
        else:
            future.set_exception(ClusterError(f"the local cluster is not set up: {headers.get('Status')}"))

    def _late(self, future: asyncio.Future[Stored]) -> None:
        if not future.done():
            future.set_exception(ClusterError(f"the local cluster did not answer within {self._timeout} s"))

    def _lost(self) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ClusterError("the connection to the local cluster was lost"))
