"""The objects of the local cluster on a nats-server: read, compare-and-set, follow.

The counterpart of etcd, independent of the kinds' meaning. Subjects and bytes are those of
:mod:`deviceshare_cluster.local.kinds`.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

from deviceshare_bus.connection import Connection, connect
from deviceshare_bus.follower import Batch, BusWiped, Follower, Message
from deviceshare_bus.publisher import Conflict, Publisher, PublishError, Refused, Write
from deviceshare_bus.setup import make_stream
from deviceshare_bus.tasks import end
from nats.errors import Error as NatsError
from nats.js.errors import NotFoundError

from deviceshare_cluster.conflicts import VersionConflict
from deviceshare_cluster.interface import Change, ChangeType, ClusterError, Listed, Object, Revisions
from deviceshare_cluster.local.kinds import (
    ALL_SUBJECTS,
    STREAM,
    Key,
    as_read,
    decode,
    encode,
    key_of,
    key_of_subject,
    subjects_of,
)
from deviceshare_cluster.local.reader import Reader, Stored

TOMBSTONE_SECONDS = 3600.0
"""Seconds in which a watcher that was disconnected can still see a deletion."""
LIST_SECONDS = 60.0
CHUNK = 1000
"""The most writes in flight: the server refuses more than 10,000 per stream."""


class Store:
    """The local cluster's objects. Use after :meth:`start`."""

    def __init__(self, url: str, name: str, timeout: float) -> None:
        self._url = url
        self._name = name
        self._timeout = timeout
        self._connection: Connection
        self._publisher: Publisher
        self._reader: Reader

    async def start(self) -> None:
        """Connect; wait for the server without a time limit."""
        self._connection = await connect(self._url, self._name, "--cluster")
        self._publisher = Publisher(self._connection, self._timeout)
        self._reader = Reader(self._connection, STREAM, self._timeout)

    async def stop(self) -> None:
        """Disconnect."""
        await self._connection.close()

    async def setup(self) -> None:
        """Create the stream if it does not exist. Raises ClusterError."""
        try:
            await make_stream(self._connection, STREAM, subjects=[ALL_SUBJECTS], max_msgs_per_subject=1)
        except (NatsError, OSError, TimeoutError) as error:
            raise ClusterError(f"the local cluster cannot be set up: {error!r}") from error

    async def read(self, key: Key) -> Stored:
        """Return the message of a key. Raises ClusterError."""
        return await self._reader.last(key.subject)

    async def get(self, key: Key) -> Object | None:
        """Return an object with its ``resourceVersion``, or None. Raises ClusterError."""
        stored = await self.read(key)
        return decode(key.kind, stored.data, stored.revision) if stored.data else None

    async def write(self, obj: Object, expected: int, *, ttl: float | None = None) -> int:
        """Write an object if its subject is at revision ``expected`` (0: none) and return the new revision.

        Raises VersionConflict, or ClusterError if the outcome is unknown.
        """
        return await _settled(await self._send(obj, expected, ttl=ttl))

    async def _send(self, obj: Object, expected: int, *, ttl: float | None = None) -> asyncio.Future[int]:
        return await self._publisher.send(Write(key_of(obj).subject, encode(obj), expected), ttl=ttl)

    async def write_all(self, objects: Sequence[Object]) -> list[int | VersionConflict]:
        """Create many objects, pipelined; a conflict is returned in its object's place. Raises ClusterError."""
        results: list[int | VersionConflict] = []
        for start in range(0, len(objects), CHUNK):
            futures = [await self._send(obj, 0) for obj in objects[start : start + CHUNK]]
            for future in futures:
                try:
                    results.append(await _settled(future))
                except VersionConflict as conflict:
                    results.append(conflict)
        return results

    async def bury(self, key: Key, expected: int) -> int:
        """Replace an object at revision ``expected`` by its tombstone. Raises VersionConflict, ClusterError."""
        write = Write(key.subject, b"", expected)
        return await _settled(await self._publisher.send(write, ttl=TOMBSTONE_SECONDS))

    async def list_kind(self, kind: str) -> list[Object]:
        """Return all objects of a kind. Raises ClusterError if the cluster is not set up or does not answer."""
        _, standing = await self._standing(kind)
        return [decode(kind, message.data, message.sequence) for message in standing.values()]

    async def revisions(self, kind: str) -> Revisions:
        """Return the revision of each object of a kind. Raises ClusterError as :meth:`list_kind`."""
        at, standing = await self._standing(kind)
        keys = ((key_of_subject(subject), message.sequence) for subject, message in standing.items())
        return Revisions({(key.namespace, key.name): revision for key, revision in keys}, at)

    async def _standing(self, kind: str) -> tuple[int, dict[str, Message]]:
        """Return a revision, and the message of each subject of a kind at this revision or later."""
        try:
            async with asyncio.timeout(LIST_SECONDS):
                info = await self._connection.jetstream.stream_info(STREAM)
                messages = await self._follower(kind).standing()
        except NotFoundError:
            raise ClusterError("the local cluster is not set up") from None
        except (NatsError, OSError, TimeoutError, BusWiped) as error:
            raise ClusterError(f"the local cluster cannot be listed: {error!r}") from error
        standing: dict[str, Message] = {}
        for message in messages:
            if message.data:
                standing[message.subject] = message
            else:
                standing.pop(message.subject, None)
        return info.state.last_seq, standing

    async def watch(self, kinds: Sequence[str]) -> AsyncIterator[list[Change | Listed]]:
        """List and follow kinds without end.

        If the store was wiped, all objects are listed again, and missing objects are delivered as deleted.
        """
        alive: set[Key] = set()
        while True:
            stale, alive = alive, set()
            try:
                async with aclosing(self._watch(kinds)) as batches:
                    async for batch in batches:
                        for change in batch:
                            if isinstance(change, Change):
                                key = Key(change.kind, change.namespace, change.name)
                                (alive.add if change.type is ChangeType.APPLIED else alive.discard)(key)
                        if stale and isinstance(batch[-1], Listed):
                            gone = [Change(ChangeType.DELETED, *key, batch[-1].revision, b"") for key in stale - alive]
                            batch[-1:] = [*gone, batch[-1]]
                            stale = set()
                        yield batch
            except BusWiped:
                alive |= stale

    async def _watch(self, kinds: Sequence[str]) -> AsyncGenerator[list[Change | Listed], None]:
        """Follow each kind separately, as with an API server: only changes of one kind are in order."""
        queue: asyncio.Queue[tuple[Follower, Batch] | Exception] = asyncio.Queue(maxsize=64)

        async def follow(follower: Follower) -> None:
            try:
                async with aclosing(aiter(follower)) as batches:
                    async for batch in batches:
                        await queue.put((follower, batch))
            except Exception as error:  # raised again by the reader below
                await queue.put(error)

        waiting = {self._follower(kind) for kind in set(kinds)}
        revision = -1
        tasks = [asyncio.create_task(follow(follower)) for follower in waiting]
        try:
            while True:
                item = await queue.get()
                if isinstance(item, Exception):
                    raise item
                follower, batch = item
                out: list[Change | Listed] = [_change(*message) for message in batch.messages]
                if batch.caught_up and follower in waiting:
                    waiting.remove(follower)
                    revision = batch.position if revision < 0 else min(revision, batch.position)
                    if not waiting:
                        out.append(Listed(revision))
                if out:
                    yield out
        finally:
            await end(*tasks)

    def _follower(self, kind: str) -> Follower:
        return Follower(self._connection, STREAM, subject=subjects_of(kind))


def _change(subject: str, revision: int, data: bytes) -> Change:
    kind, namespace, name = key_of_subject(subject)
    if not data:
        return Change(ChangeType.DELETED, kind, namespace, name, revision, b"")
    return Change(ChangeType.APPLIED, kind, namespace, name, revision, as_read(kind, data, revision))


async def _settled(future: asyncio.Future[int]) -> int:
    try:
        return await future
    except Conflict as conflict:
        raise VersionConflict(str(conflict)) from conflict
    except Refused as error:
        raise ClusterError(f"the local cluster refused the write: {error}", final=True) from error
    except PublishError as error:
        raise ClusterError(f"the outcome of the write is unknown: {error}") from error
