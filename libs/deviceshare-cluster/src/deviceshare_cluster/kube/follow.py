"""List and watch one kind of object without end, as a reflector of client-go does.

A watch-list delivers all objects, then their changes; a server that does not support it is listed in pages, and a watch
continues from the revision of the list. A watch that ends, is silent for too long or fails is started again from its
last revision; if the server no longer knows this revision (410), everything is listed again. After a failure it pauses,
longer each time, with jitter so that clients do not return all at once; not after a silence, which was pause enough.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator
from typing import NamedTuple

import aiohttp
import msgspec
from deviceshare.model import Backoff

from deviceshare_cluster.interface import Change, ChangeType, ClusterError
from deviceshare_cluster.kube.client import ApiRefusal, KubeClient, Query, decoding
from deviceshare_cluster.kube.kinds import KINDS
from deviceshare_cluster.merging import Update

log = logging.getLogger("deviceshare.kube")

PAGE = 500
WATCH_SECONDS = 290
"""How long the server keeps a watch open; random seconds are added, so that watches do not end together."""
SHORT_WATCH = 1.0
"""Seconds; a watch that ended sooner without delivering anything has failed."""
RETRY = Backoff(0.2, 20.0)
"""Seconds before a watch that failed is started again, plus up to the same at random."""
FORBIDDEN_TRIES = 4
"""Refusals that count as a missing permission; a server that has just started refuses for a moment."""
EXPIRED = 410
"""The status of a revision, or of the next page of a list, that the server no longer knows."""
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
SILENCE = 120.0
"""Seconds; an idle server sends a bookmark about every minute."""


class Patience(NamedTuple):
    """Seconds that a follower waits."""

    silence: float = SILENCE
    """Without a byte, not even a bookmark, until a watch is started again."""
    absent: float = 30.0
    """Between two tries of a kind that the server does not have, or of a namespace that must not be read."""


PATIENCE = Patience()


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = "0"


class _Object(msgspec.Struct):
    metadata: _Metadata


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = "0"
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct):
    """A page of a list of objects."""

    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _BookmarkMetadata(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMetadata


class _Error(msgspec.Struct):
    code: int = 0
    message: str = ""


decode_object = msgspec.json.Decoder(_Object).decode
decode_page = msgspec.json.Decoder(Page).decode
_decode_line = msgspec.json.Decoder(_Line).decode
_decode_bookmark = msgspec.json.Decoder(_Bookmark).decode
_decode_error = msgspec.json.Decoder(_Error).decode


async def pages(api: KubeClient, path: str, query: Query = ()) -> AsyncIterator[Page]:
    """Yield all objects of a collection, in pages of one snapshot. Raises ApiRefusal, ClusterError."""
    token = ""
    while True:
        continued = [("continue", token)] if token else []
        raw = await api.request("GET", path, [*query, ("limit", str(PAGE)), *continued])
        with decoding(path):
            page = decode_page(raw)
        yield page
        token = page.metadata.continue_
        if not token:
            return


class ObjectWatch:
    """Follows the objects of one kind that the selectors match, in one namespace or ('') all.

    ``spared``: if permission to read is missing, there are no objects; it says what gives the permission, for the log.
    None: the objects are needed.
    """

    def __init__(
        self,
        api: KubeClient,
        kind: str,
        namespace: str = "",
        selectors: Query = (),
        patience: Patience = PATIENCE,
        *,
        spared: str | None = None,
    ) -> None:
        self._api = api
        self._kind = kind
        self._where = KINDS[kind]
        self._paths = [each.collection(namespace) for each in self._where.served]
        """Those in other versions follow the one that is tried."""
        self._absences = 0
        """Of how many versions the server has none, one after the other."""
        self._selectors = tuple(selectors)
        self._patience = patience
        self._spared = spared
        self._logged = False
        """Whether it was logged that the permission is missing."""
        self._known: dict[tuple[str, str], int] = {}
        self._revision: int | None = None
        """The revision from which to watch, None to list first."""
        self._read_once = False
        self._has_watch_list = True
        self._list_next = False
        """The last watch-list failed: the server may not support it now."""
        self._failures = 0

    @property
    def _path(self) -> str:
        return self._paths[0]

    async def updates(self) -> AsyncGenerator[Update, None]:
        """List, then follow without end. Objects that vanished before a new list are delivered as deleted."""
        clock = asyncio.get_running_loop().time
        while True:
            try:
                if self._revision is None and (self._list_next or not self._has_watch_list):
                    yield await self._list()
                began, delivered = clock(), False
                async for update in self._watch():
                    self._failures, delivered = 0, True
                    yield update
                if not delivered and clock() - began < SHORT_WATCH:
                    await self._pause()
            except ApiRefusal as refusal:
                if refusal.status == EXPIRED:
                    self._revision = None
                    await self._pause()
                elif refusal.status in (400, 422) and self._revision is None and self._has_watch_list:
                    log.info("no watch-list of %s: %s", self._path, refusal)
                    self._has_watch_list = False
                elif self._is_absent(refusal) and self._has_other_version(refusal):
                    self._revision = None
                elif self._is_absent(refusal):
                    self._log_once(refusal)
                    yield self._vanished({})
                    self._revision = None
                    await asyncio.sleep(self._patience.absent)
                else:
                    log.warning("cannot follow %s: %s", self._path, refusal)
                    await self._pause()
            except ClusterError as error:
                self._list_next = self._revision is None
                log.info("the watch of %s failed: %s", self._path, error)
                if self._revision is None or not isinstance(error.__cause__, TimeoutError):
                    await self._pause()

    def _is_absent(self, refusal: ApiRefusal) -> bool:
        if refusal.status == 403:
            return self._spared is not None and not self._read_once and self._failures >= FORBIDDEN_TRIES
        return refusal.status == 404 and self._where.optional

    def _has_other_version(self, refusal: ApiRefusal) -> bool:
        """Turn to the next version, if it was not tried since the server had the kind, or all were."""
        if refusal.status != 404:  # a permission is one for all versions
            return False
        self._paths.append(self._paths.pop(0))
        self._absences = (self._absences + 1) % len(self._paths)
        return self._absences > 0

    def _log_once(self, refusal: ApiRefusal) -> None:
        """Log once that permission is missing, where something gives it."""
        if refusal.status == 403 and self._spared and not self._logged:
            self._logged = True
            log.warning("no permission to read %s, which counts as empty: %s; %s", self._path, refusal, self._spared)

    async def _pause(self) -> None:
        pause = RETRY.delay(self._failures, random.random())  # noqa: S311 - jitter
        self._failures += 1
        await asyncio.sleep(pause)

    async def _list(self) -> Update:
        found: dict[tuple[str, str], Change] = {}
        revision = 0
        async for page in pages(self._api, self._path, self._selectors):
            with decoding(self._path):
                for raw in page.items or ():
                    change = self._applied(bytes(raw))
                    found[change.namespace, change.name] = change
                revision = int(page.metadata.resource_version or 0)
        self._list_next = False
        return self._all(found, revision)

    def _all(self, found: dict[tuple[str, str], Change], revision: int) -> Update:
        """Return the difference to ``found``, which is all that exists at ``revision``."""
        self._revision = revision
        self._read_once = True
        vanished = self._vanished(found).changes
        changed = [change for key, change in found.items() if self._known.get(key) != change.revision]
        self._known = {key: change.revision for key, change in found.items()}
        return Update(vanished + changed, revision, listed=True)

    def _vanished(self, found: dict[tuple[str, str], Change]) -> Update:
        gone = [
            Change(ChangeType.DELETED, self._kind, *key, revision, b"")
            for key, revision in self._known.items()
            if key not in found
        ]
        self._known = {key: revision for key, revision in self._known.items() if key in found}
        return Update(gone, self._revision or 0, listed=True)

    async def _watch(self) -> AsyncIterator[Update]:
        """Watch from the last revision; without one, start with all objects, delivered as one update."""
        query = [
            *self._selectors,
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(WATCH_SECONDS + random.randrange(60))),  # noqa: S311 - jitter
        ]
        found: dict[tuple[str, str], Change] | None = None
        if self._revision is None:
            found = {}
            query += [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
        else:
            query.append(("resourceVersion", str(self._revision)))
        async with self._api.stream(self._path, query, self._patience.silence) as stream:
            self._absences = 0
            async for lines in _lines(stream):
                changes = []
                read, error = self._read_all(lines)
                for event, change in read:
                    key = change.namespace, change.name
                    if found is None:
                        self._revision = change.revision
                        if event != "BOOKMARK":
                            self._note(change)
                            changes.append(change)
                    elif event == "BOOKMARK":
                        with decoding(self._path):
                            ended = _ends_initial_events(change.raw)
                        if ended:
                            yield self._all(found, change.revision)
                            found = None
                    elif event == "DELETED":
                        found.pop(key, None)
                    else:
                        found[key] = change
                if changes:
                    yield Update(changes, self._revision or 0)
                if error is not None:
                    raise error

    def _note(self, change: Change) -> None:
        if change.type is ChangeType.DELETED:
            self._known.pop((change.namespace, change.name), None)
        else:
            self._known[change.namespace, change.name] = change.revision

    def _read_all(self, lines: list[bytes]) -> tuple[list[tuple[str, Change]], Exception | None]:
        """Return the events before the first that is an error, and that error: those before it are delivered."""
        read: list[tuple[str, Change]] = []
        try:
            read.extend(map(self._read, lines))
        except (ApiRefusal, ClusterError) as error:
            return read, error
        return read, None

    def _read(self, raw: bytes) -> tuple[str, Change]:
        """Return the type of a watch event, and its object. Raises ApiRefusal, ClusterError: it is an error."""
        with decoding(self._path):
            line = _decode_line(raw)
            if line.type != "ERROR":
                change = self._applied(bytes(line.object))
                return line.type, change._replace(type=ChangeType.DELETED) if line.type == "DELETED" else change
            error = _decode_error(line.object)
        if error.code == EXPIRED:
            raise ApiRefusal(EXPIRED, "Expired", error.message)
        raise ClusterError(f"the watch of {self._path} ended: {error.code} {error.message}")

    def _applied(self, raw: bytes) -> Change:
        metadata = decode_object(raw).metadata
        return Change(
            ChangeType.APPLIED, self._kind, metadata.namespace, metadata.name, int(metadata.resource_version), raw
        )


def _ends_initial_events(bookmark: bytes) -> bool:
    return (_decode_bookmark(bookmark).metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[list[bytes]]:
    """Yield complete lines in batches as they arrive. A line may be longer than any buffer."""
    rest = b""
    while chunk := await stream.readany():
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield [line for line in lines if line]
