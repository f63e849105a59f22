"""The objects of the local cluster on a nats-server: read, compare-and-set, follow.

What etcd is to the API server: nothing here knows what an object means. Subjects and bytes are those of
:mod:`deviceshare_localcluster.kinds`.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import NamedTuple

from deviceshare_bus.messages.codec import Message
from deviceshare_bus.streams.creation import make_stream
from deviceshare_bus.streams.follower import BusWiped, Follower
from deviceshare_bus.streams.publisher import Conflict, Publisher, PublishError, Refused, Write
from deviceshare_bus.wire.connection import Connection, connect
from deviceshare_bus.wire.framing import Received
from deviceshare_cluster.conflicts import VersionConflict, update_with_retry
from deviceshare_cluster.interface import Change, ChangeType, ClusterError, Listed, Object, Revisions
from deviceshare_cluster.merging import Update, merge
from nats.errors import Error as NatsError
from nats.js.errors import NotFoundError

from deviceshare_localcluster.kinds import (
    ALL_SUBJECTS,
    STREAM,
    Key,
    as_read,
    decode,
    encode,
    is_key,
    key_of,
    key_of_subject,
    subjects_of,
)
from deviceshare_localcluster.warn_once import WarnOnce

TOMBSTONE_SECONDS = 3600.0
"""How long a watcher that was away can still see a deletion."""
LIST_SECONDS = 60.0
CHUNK = 1000
"""Writes in flight at once: the server refuses a stream's writers beyond 10,000."""
BATCHES = 64
"""The most batches of messages that wait for the reader of a watch."""


class _Stored(NamedTuple):
    """The last message of a subject: none (revision 0), a tombstone (no data), or an object."""

    revision: int
    data: bytes


class Store:
    """The local cluster's objects. Use after :meth:`start`."""

    def __init__(self, url: str, name: str, timeout: float) -> None:
        self._url = url
        self._name = name
        self._timeout = timeout
        self._connection: Connection
        self._publisher: Publisher
        self._warnings = WarnOnce()

    async def start(self) -> None:
        """Connect; wait for the server without a time limit."""
        self._connection = await connect(self._url, self._name, "--cluster")
        self._publisher = Publisher(self._connection, self._timeout)

    async def stop(self) -> None:
        """Disconnect."""
        await self._connection.close()

    async def setup(self) -> None:
        """Create the stream if it does not exist. Raises ClusterError."""
        try:
            await make_stream(self._connection, STREAM, subjects=[ALL_SUBJECTS], max_msgs_per_subject=1)
        except (NatsError, OSError, TimeoutError) as error:
            raise ClusterError(f"the local cluster cannot be set up: {error!r}") from error

    async def get(self, key: Key) -> Object | None:
        """Return an object with its ``resourceVersion``, or None. Raises ClusterError."""
        stored = await self._read(key)
        return decode(key.kind, stored.data, stored.revision) if stored.data else None

    async def create(self, obj: Object, *, ttl: float | None = None) -> None:
        """Write an object whose subject has no message, not even a tombstone.

        Raises VersionConflict, or ClusterError where the outcome is unknown.
        """
        await _settled(await self._send(obj, 0, ttl))

    async def create_all(self, objects: Sequence[Object]) -> list[bool]:
        """Create many objects, pipelined; return for each whether it is new. Raises ClusterError."""
        created: list[bool] = []
        for start in range(0, len(objects), CHUNK):
            futures = [await self._send(obj, 0) for obj in objects[start : start + CHUNK]]
            for future in futures:
                try:
                    await _settled(future)
                    created.append(True)
                except VersionConflict:
                    created.append(False)
        return created

    async def update(
        self, key: Key, change: Callable[[Object | None], Object | None], *, ttl: float | None = None
    ) -> int:
        """Replace an object (None: there is none) by the result of ``change``, None to write nothing.

        ``change`` may change its argument, and is called again after each conflict. Returns the new revision, 0 if
        nothing was written. Raises ClusterError, also after too many conflicts.
        """
        revision = 0

        def mutate(stored: _Stored) -> Write | None:
            obj = change(decode(key.kind, stored.data, stored.revision) if stored.data else None)
            # Encoded here: while the write is in flight, a large object takes several times the memory.
            return None if obj is None else Write(key_of(obj).subject, encode(obj), stored.revision)

        async def put(write: Write) -> None:
            nonlocal revision
            revision = await _settled(await self._publisher.send(write, ttl=ttl))

        await update_with_retry(str(key), lambda: self._read(key), mutate, put)
        return revision

    async def delete(self, key: Key, may: Callable[[Object], bool] | None = None) -> bool:
        """Replace an object, if it ``may`` be, by its tombstone; return whether it was. Raises ClusterError."""

        def there(stored: _Stored) -> _Stored | None:
            allowed = stored.data and (may is None or may(decode(key.kind, stored.data, stored.revision)))
            return stored if allowed else None

        async def put(stored: _Stored) -> None:
            write = Write(key.subject, b"", stored.revision)
            await _settled(await self._publisher.send(write, ttl=TOMBSTONE_SECONDS))

        return await update_with_retry(str(key), lambda: self._read(key), there, put)

    async def _read(self, key: Key) -> _Stored:
        """Return the message of a key, by a direct get, without the cost of JetStream's JSON API."""
        subject = f"$JS.API.DIRECT.GET.{STREAM}.{key.subject}"
        return await self._connection.requests.get(subject, b"", _stored, _unanswered, self._timeout)

    async def _send(self, obj: Object, expected: int, ttl: float | None = None) -> asyncio.Future[int]:
        return await self._publisher.send(Write(key_of(obj).subject, encode(obj), expected), ttl=ttl)

    async def list_kind(self, kind: str) -> list[Object]:
        """Return all objects of a kind. Raises ClusterError if the cluster is not set up or does not answer."""
        _, messages = await self._messages(kind)
        found = []
        for message in messages:
            try:
                found.append(decode(kind, message.data, message.sequence))
            except ClusterError as error:
                self._warnings.warn(f"{message.subject}: {error}")
        return found

    async def revisions(self, kind: str) -> Revisions:
        """Return the revision of each object of a kind. Raises ClusterError as :meth:`list_kind`."""
        at, messages = await self._messages(kind)
        keys = ((key_of_subject(message.subject), message.sequence) for message in messages)
        return Revisions({(key.namespace, key.name): revision for key, revision in keys}, at)

    async def _messages(self, kind: str) -> tuple[int, list[Message]]:
        """Return a revision, and the message of each object of a kind at this revision or later."""
        try:
            async with asyncio.timeout(LIST_SECONDS):
                info = await self._connection.jetstream.stream_info(STREAM)
                messages = await Follower(self._connection, STREAM, subject=subjects_of(kind)).read_to_end()
        except NotFoundError:
            raise ClusterError("the local cluster is not set up") from None
        except (NatsError, OSError, TimeoutError, BusWiped) as error:
            raise ClusterError(f"the local cluster cannot be listed: {error!r}") from error
        last = {message.subject: message for message in messages if is_key(message.subject)}
        return info.state.last_seq, [message for message in last.values() if message.data]

    async def watch(self, kinds: Sequence[str], window: float = 0.0) -> AsyncIterator[list[Change | Listed]]:
        """List and follow kinds without end.

        If the store was wiped, everything is listed again, and objects that no longer exist are delivered as deleted.
        """
        alive: set[Key] = set()
        while True:
            stale, alive = alive, set()
            sources = [self._updates(kind) for kind in set(kinds)]
            try:
                async with aclosing(merge(sources, min, BATCHES, window)) as batches:
                    async for batch in batches:
                        out: list[Change | Listed] = []
                        for change in batch:
                            if isinstance(change, Change):
                                key = Key(change.kind, change.namespace, change.name)
                                (alive.add if change.type is ChangeType.APPLIED else alive.discard)(key)
                            else:
                                gone = stale - alive
                                out += [Change(ChangeType.DELETED, *key, change.revision, b"") for key in gone]
                                stale = set()
                            out.append(change)
                        yield out
            except BusWiped:
                alive |= stale

    async def _updates(self, kind: str) -> AsyncGenerator[Update, None]:
        """Follow one kind, as a watch of an API server."""
        follower = Follower(self._connection, STREAM, subject=subjects_of(kind))
        async with aclosing(aiter(follower)) as batches:
            async for batch in batches:
                changes = [_change(*message) for message in batch.messages if is_key(message.subject)]
                yield Update(changes, batch.position, batch.caught_up)


def _change(subject: str, revision: int, data: bytes) -> Change:
    kind, namespace, name = key_of_subject(subject)
    if not data:
        return Change(ChangeType.DELETED, kind, namespace, name, revision, b"")
    return Change(ChangeType.APPLIED, kind, namespace, name, revision, as_read(kind, data, revision))


def _stored(message: Received) -> _Stored:
    sequence = message.field(b"Nats-Sequence")
    if sequence:
        return _Stored(int(sequence), message.data)
    if message.status == "404":
        return _Stored(0, b"")
    raise ClusterError(f"the local cluster is not set up: {message.status or None}")


def _unanswered(reason: str) -> ClusterError:
    return ClusterError(f"the local cluster cannot be reached: {reason}")


async def _settled(future: asyncio.Future[int]) -> int:
    try:
        return await future
    except Conflict as conflict:
        raise VersionConflict(str(conflict)) from conflict
    except Refused as error:
        raise ClusterError(f"the local cluster refused the write: {error}", final=True) from error
    except PublishError as error:
        raise ClusterError(f"the outcome of the write is unknown: {error}") from error
