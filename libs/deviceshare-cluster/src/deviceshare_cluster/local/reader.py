"""Reading the last message of a subject, with many reads in flight over one connection.

Reads use direct gets, which cost less than JetStream's JSON API, since a binder reads each pod once.
"""

from typing import NamedTuple

from deviceshare_bus.connection import Connection
from nats.aio.msg import Msg

from deviceshare_cluster.interface import ClusterError


class Stored(NamedTuple):
    """The content of a subject: nothing (revision 0), a tombstone (no data), or an object."""

    revision: int
    data: bytes


NOTHING = Stored(0, b"")


class Reader:
    """Direct gets from one stream, each answered within ``timeout`` seconds."""

    def __init__(self, connection: Connection, stream: str, timeout: float) -> None:
        self._requests = connection.requests
        self._get = f"$JS.API.DIRECT.GET.{stream}."
        self._timeout = timeout

    async def last(self, subject: str) -> Stored:
        """Return the last message under a subject. Raises ClusterError if there is no answer."""
        reply, future = self._requests.expect(_stored, _unanswered, self._timeout)
        if not future.done():
            await self._requests.publish(self._get + subject, b"", reply)
        return await future


def _stored(message: Msg) -> Stored:
    headers = message.headers or {}
    sequence = headers.get("Nats-Sequence")
    if sequence is not None:
        return Stored(int(sequence), message.data)
    if headers.get("Status") == "404":
        return NOTHING
    raise ClusterError(f"the local cluster is not set up: {headers.get('Status')}")


def _unanswered(reason: str) -> ClusterError:
    return ClusterError(f"the local cluster cannot be reached: {reason}")
