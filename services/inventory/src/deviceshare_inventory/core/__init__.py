"""The core of inventory: pure, deterministic, driven by events alone.

Reading order: :mod:`.events` and :mod:`.commands`; :mod:`.inventory_core` (the state machine); :mod:`.fact_builder`
(objects into facts), which uses :mod:`.configs` (the configuration in effect), :mod:`.node_devices` (devices that
ConfigMaps describe), :mod:`.adoption` (the devices of bound pods) and :mod:`.storage` (claims and volumes of pods);
:mod:`.desired_state` (the writes to CLUSTER);
:mod:`.reports` (problems of objects); :mod:`.comparison` and :mod:`.seen_revisions` (changes that a watch lost).
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from deviceshare.model import ConfigFact
from deviceshare_bus.cores.division import Division
from deviceshare_bus.messages.subjects import Stream

from deviceshare_inventory.core.commands import (
    CompareRevisions as CompareRevisions,
    RecordEvent as RecordEvent,
    RestartWatch as RestartWatch,
)
from deviceshare_inventory.core.events import (
    ComparisonFailed as ComparisonFailed,
    EventRecorded as EventRecorded,
    FactReceived as FactReceived,
    ObjectsChanged as ObjectsChanged,
    RecordFailed as RecordFailed,
    RevisionsCompared as RevisionsCompared,
    WatchFailed as WatchFailed,
    WatchStarted as WatchStarted,
    decode_event as decode_event,
)
from deviceshare_inventory.core.inventory_core import InventoryCore as InventoryCore


def core_arguments(schedulers: Sequence[str], file: ConfigFact | None, jitter: float) -> dict[str, Any]:
    """Return the arguments of :func:`build_core` as plain data, for the core log."""
    return {"schedulers": sorted(schedulers), "file": msgspec.to_builtins(file), "jitter": jitter}


def build_core(arguments: dict[str, Any], keys: Sequence[bytes] = ()) -> InventoryCore:
    """Return a new core.

    Args:
        arguments: the result of :func:`core_arguments`; for replicas also ``instance`` and ``member``
            (:class:`deviceshare_bus.cores.division.Division`).
        keys: the signing keys, which are not part of a core log.
    """
    file = msgspec.convert(arguments["file"], ConfigFact | None)
    return InventoryCore(
        frozenset(arguments["schedulers"]),
        file,
        keys=keys,
        jitter=arguments["jitter"],
        division=Division(Stream.CLUSTER, "inventory", arguments.get("instance", ""), arguments.get("member", "")),
    )
