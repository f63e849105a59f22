"""Snapshots: all that read commands need, in one file.

The file is JSON, optionally compressed with gzip: the messages of the bus, and the Kubernetes objects that commands
show. The core of the metrics service computes the answers of the JSON API from the messages, as in a running system.
"""

import gzip
import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import msgspec
from deviceshare_cluster.interface import Object
from deviceshare_metrics import api
from msgspec.structs import replace

from deviceshare_cli.errors import CommandError, NotAllowedError, NotFoundError
from deviceshare_cli.notices import to_stderr
from deviceshare_cli.reading.kinds import DEVICE_KINDS, DEVICE_TAINT_RULES, RESOURCES
from deviceshare_cli.reading.reader import ITEMS, Reader, StoredMessage, T, Target, in_order

VERSION = 1
KINDS = (*(resource.kind for resource in RESOURCES if resource.kind), DEVICE_TAINT_RULES.kind, "PriorityClass")
"""The kinds of the objects in a snapshot."""


class SnapshotFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a file; ``at``: when it was written, unix seconds; ``target``: the system."""

    v: int = VERSION
    at: float
    target: str
    schedulers: tuple[str, ...]
    objects: dict[str, tuple[msgspec.Raw, ...]]
    messages: tuple[StoredMessage, ...]


class SnapshotReader:
    """Implements :class:`.reader.Reader`."""

    def __init__(self, content: SnapshotFile) -> None:
        self.target = Target(content.target, content.schedulers)
        self.now = content.at
        self._content = content

    @cached_property
    def _store(self):  # type: ignore[no-untyped-def]
        from deviceshare_cli.reading.state import metrics_store

        return metrics_store(self._content.messages, self.now)

    @cached_property
    def _snapshot(self):  # type: ignore[no-untyped-def]
        from deviceshare_metrics.core import build_snapshot

        return build_snapshot(self._store)

    @cached_property
    def _accounts(self):  # type: ignore[no-untyped-def]
        from deviceshare_metrics.core.accounts import queue_accounts

        return queue_accounts(self._store)

    async def items(self, kind: type[T], state: str = "") -> tuple[T, ...]:
        """Return a list as the JSON API answers."""
        (name,) = (name for name, each in ITEMS.items() if each is kind)
        found: tuple[Any, ...]
        if name == "queues":
            from deviceshare_metrics.lists import queues

            found = tuple(queues(self._accounts, self._snapshot, self._store))
        elif name == "pods":
            from deviceshare_metrics.core.queue_reasons import with_queue_reasons

            found = with_queue_reasons(self._store, self._snapshot.pods, self._accounts)
        else:
            found = getattr(self._snapshot, name)
        if state:
            from deviceshare_metrics.listing import select

            found = tuple(select(name, found, [("state", state)])[0])
        return cast("tuple[T, ...]", found)

    async def explain(self, namespace: str, name: str) -> api.PodExplanation:
        """Return an explanation as the JSON API answers."""
        from deviceshare_metrics.core.explaining import explain
        from deviceshare_metrics.core.queue_position import has_queue_position, queue_positions
        from deviceshare_metrics.core.queue_reasons import with_queue_state
        from deviceshare_metrics.core.start_times import is_waiting, unknown

        found = explain(self._store, self._snapshot, namespace, name)
        if found is None:
            raise NotFoundError(f"pod {namespace}/{name} not found: no such pod exists or is remembered")
        if found.pod is not None and has_queue_position(found.pod):
            positions = queue_positions(self._store, self._accounts)
            found = with_queue_state(self._store, found, self._accounts, positions, self.now)
        if not is_waiting(found):
            return found
        why = unknown(found) or "a snapshot does not say how pods started before"
        return replace(found, start=api.StartTime(no_estimate=why))

    async def objects(self, kind: str) -> list[Object]:
        """Return the objects of a kind."""
        return in_order([msgspec.json.decode(raw) for raw in self._content.objects.get(kind, ())])

    async def object(self, kind: str, namespace: str, name: str) -> Object | None:
        """Return one object."""
        for each in await self.objects(kind):
            metadata = each["metadata"]
            if metadata["name"] == name and metadata.get("namespace", namespace) == namespace:
                return each
        return None

    async def messages(self, streams: Sequence[str]) -> list[StoredMessage]:
        """Return the messages of streams."""
        return [message for message in self._content.messages if message.stream in streams]


def read_snapshot(path: Path) -> SnapshotReader:
    """Read a file, or standard input if it is ``-``. Raises CommandError."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        if data.startswith(b"\x1f\x8b"):
            data = gzip.decompress(data)
        content = msgspec.json.decode(data, type=SnapshotFile)
    except (OSError, EOFError, msgspec.MsgspecError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise CommandError(f"--snapshot {path}: not a snapshot of deviceshare: {reason}") from None
    if content.v != VERSION:
        raise CommandError(f"--snapshot {path}: its version is {content.v}, this program reads {VERSION}")
    return SnapshotReader(content)


async def take_snapshot(reader: Reader) -> SnapshotFile:
    """Return a snapshot of what a reader reads."""
    from deviceshare_bus.messages.subjects import Stream

    messages = tuple(await reader.messages([str(stream) for stream in Stream]))
    objects = {
        kind: tuple(msgspec.Raw(msgspec.json.encode(each)) for each in await _objects(reader, kind)) for kind in KINDS
    }
    name, schedulers = reader.target
    return SnapshotFile(at=reader.now, target=name, schedulers=schedulers, objects=objects, messages=messages)


async def _objects(reader: Reader, kind: str) -> list[Object]:
    """Return the objects of a kind: none, with a warning, of those for DRA that the user may not list.

    A role that was made for a version without these kinds does not permit them.
    """
    try:
        return await reader.objects(kind)
    except NotAllowedError as error:
        names = {each.kind: each.qualified for each in (*DEVICE_KINDS, DEVICE_TAINT_RULES)}
        if kind not in names:
            raise
        to_stderr(f"warning: the snapshot has no {kind}: it needs the permission to list {names[kind]}: {error}")
        return []
