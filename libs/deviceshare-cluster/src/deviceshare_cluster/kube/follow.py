"""List and watch one kind of object, for ever: what a client's reflector is.

Lists in pages, then watches with bookmarks from there. The watch is begun anew, from where it was, when it ends, is
silent for too long or fails; the list is, when the server no longer knows that point (410). After a failure it waits,
longer each time, with jitter, so that not everybody comes back at once.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator

import aiohttp
import msgspec

from deviceshare_cluster.interface import Change, ChangeType, ClusterError
from deviceshare_cluster.kube.client import ApiRefusal, KubeClient, Query
from deviceshare_cluster.kube.kinds import KINDS

log = logging.getLogger("deviceshare.kube")

PAGE = 500
WATCH_SECONDS = 290
"""How long the server keeps a watch open; a little longer at random, so that not all end together."""
SILENCE = 120.0
"""Seconds without a byte, not even a bookmark, after which a watch is begun anew."""
ABSENT_PAUSE = 30.0
"""Seconds between two looks for a CRD that is not there."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 20.0


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = "0"


class _Object(msgspec.Struct):
    metadata: _Metadata


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = "0"
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Error(msgspec.Struct):
    code: int = 0
    message: str = ""


_decode_object = msgspec.json.Decoder(_Object).decode
_decode_page = msgspec.json.Decoder(_Page).decode
_decode_line = msgspec.json.Decoder(_Line).decode
_decode_error = msgspec.json.Decoder(_Error).decode


class Update:
    """What came together: changes, and whether everything that existed at ``revision`` has now been delivered."""

    __slots__ = ("changes", "listed", "revision")

    def __init__(self, changes: list[Change], revision: int, *, listed: bool = False) -> None:
        self.changes = changes
        self.revision = revision
        self.listed = listed


class _Expired(Exception):
    """The server no longer knows the point from which to watch."""


class Follower:
    """Follows one kind, in one namespace where one is given, of what the selectors let through."""

    def __init__(self, api: KubeClient, kind: str, namespace: str = "", selectors: Query = ()) -> None:
        self._api = api
        self._kind = kind
        self._where = KINDS[kind]
        self._path = self._where.collection(namespace)
        self._selectors = tuple(selectors)
        self._known: dict[tuple[str, str], int] = {}
        self._revision: int | None = None
        self._failures = 0

    async def updates(self) -> AsyncGenerator[Update, None]:
        """List, then follow, for ever. What vanished while nobody looked is delivered as deleted with the list."""
        while True:
            try:
                if self._revision is None:
                    yield await self._list()
                async for update in self._watch():
                    self._failures = 0
                    yield update
            except _Expired:
                self._revision = None
            except ApiRefusal as refusal:
                if self._where.optional and refusal.status == 404:
                    yield self._vanished({})
                    self._revision = None
                    await asyncio.sleep(ABSENT_PAUSE)
                else:
                    log.warning("cannot follow %s: %s", self._path, refusal)
                    await self._pause()
            except ClusterError as error:
                log.info("lost sight of %s: %s", self._path, error)
                await self._pause()

    async def _pause(self) -> None:
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2**self._failures)
        self._failures += 1
        await asyncio.sleep(pause * (1 + random.random()))  # noqa: S311 - jitter

    async def _list(self) -> Update:
        """Read everything, in pages of one snapshot."""
        found: dict[tuple[str, str], Change] = {}
        page_token = ""
        while True:
            query = [*self._selectors, ("limit", str(PAGE))]
            if page_token:
                query.append(("continue", page_token))
            try:
                page = _decode_page(await self._api.request("GET", self._path, query))
            except ApiRefusal as refusal:
                if refusal.status == 410:  # the snapshot is too old for its own next page
                    raise _Expired from refusal
                raise
            for raw in page.items or ():
                change = self._applied(bytes(raw))
                found[change.namespace, change.name] = change
            page_token = page.metadata.continue_
            if not page_token:
                break
        self._revision = int(page.metadata.resource_version or 0)
        update = self._vanished(found)
        update.changes += [change for key, change in found.items() if self._known.get(key) != change.revision]
        update.revision = self._revision
        self._known = {key: change.revision for key, change in found.items()}
        return update

    def _vanished(self, found: dict[tuple[str, str], Change]) -> Update:
        gone = [
            Change(ChangeType.DELETED, self._kind, *key, revision, b"")
            for key, revision in self._known.items()
            if key not in found
        ]
        self._known = {key: revision for key, revision in self._known.items() if key in found}
        return Update(gone, self._revision or 0, listed=True)

    async def _watch(self) -> AsyncIterator[Update]:
        query = [
            *self._selectors,
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", str(self._revision)),
            ("timeoutSeconds", str(WATCH_SECONDS + random.randrange(60))),  # noqa: S311 - jitter
        ]
        try:
            async with self._api.stream(self._path, query, SILENCE) as stream:
                async for lines in _lines(stream):
                    changes = [change for line in lines if (change := self._read(line)) is not None]
                    if changes:
                        yield Update(changes, self._revision or 0)
        except ApiRefusal as refusal:
            if refusal.status == 410:
                raise _Expired from refusal
            raise

    def _read(self, raw: bytes) -> Change | None:
        try:
            line = _decode_line(raw)
        except msgspec.MsgspecError as error:
            raise ClusterError(f"the watch of {self._path} brought what is no event: {error}") from error
        if line.type == "ERROR":
            said = _decode_error(line.object)
            if said.code == 410:
                raise _Expired
            raise ClusterError(f"the watch of {self._path} ended: {said.code} {said.message}")
        change = self._applied(bytes(line.object))
        self._revision = change.revision
        if line.type == "BOOKMARK":
            return None
        if line.type == "DELETED":
            self._known.pop((change.namespace, change.name), None)
            return change._replace(type=ChangeType.DELETED)
        self._known[change.namespace, change.name] = change.revision
        return change

    def _applied(self, raw: bytes) -> Change:
        metadata = _decode_object(raw).metadata
        return Change(
            ChangeType.APPLIED, self._kind, metadata.namespace, metadata.name, int(metadata.resource_version), raw
        )


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[list[bytes]]:
    """Yield whole lines, those that came together together. A line may be longer than any buffer."""
    rest = b""
    async for chunk in stream.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield [line for line in lines if line]
