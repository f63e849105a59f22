"""``deviceshare replay``: prints a core log, and compares its commands with those of a new core."""

import importlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec
from deviceshare.model import ConfigError
from deviceshare_bus.cores import core_log
from deviceshare_bus.cores.core import Core, Event
from deviceshare_bus.cores.core_log import Header, RecordedEntry, read_dump
from deviceshare_bus.runtime.plugins import load_families
from deviceshare_cluster.signing import signing_keys
from rich.cells import set_cell_size

from deviceshare_cli.errors import CommandError
from deviceshare_cli.notices import to_stderr

_CORES = {
    "inventory": "deviceshare_inventory.core",
    "placement": "deviceshare_placement.core",
    "binder": "deviceshare_binder.core",
    "metrics": "deviceshare_metrics.core",
}
"""By service, the module with its ``build_core`` and ``decode_event``."""
_SIGNING = frozenset({"inventory", "binder"})
"""Services whose cores take the signing keys."""

_EVENT = msgspec.msgpack.Decoder(dict[str, Any])
_COMMANDS = msgspec.msgpack.Decoder(list[dict[str, Any]])


class Replayer(NamedTuple):
    """A new core of a service and the decoder of its events."""

    core: Core
    decode: Callable[[msgspec.Raw], Event]


class Shown(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event, the recorded commands and, if they differ, the commands of the new core.

    ``at``: seconds since the first event. ``wall``: unix seconds. ``identical``: None if the event was not replayed.
    ``error``: the exception of the new core.
    """

    at: float
    wall: float
    event: Any
    commands: list[Any]
    identical: bool | None = None
    replayed: list[Any] | None = None
    error: str | None = None


def replay(path: Path, *, as_json: bool) -> int:
    """Print a core log and replay it if it is complete; return the exit status: 1 if commands differ.

    Raises:
        CommandError: the file cannot be read, or this version does not have its arguments or events.
    """
    try:
        with path.open("rb") as file:
            return _replay(path, file, as_json=as_json)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    except (ValueError, ConfigError) as error:
        raise CommandError(f"{path}: {error}") from None


def _replay(path: Path, file: BinaryIO, *, as_json: bool) -> int:
    header, entries = read_dump(file)
    title = f"{header.service} {header.instance}: {header.dropped} entries dropped, arguments {_json(header.arguments)}"
    _print(header, title, as_json=as_json)
    replayer, obstacle = _replayer(header)
    count = differing = 0
    for shown in _replayed(entries, replayer):
        _print(shown, *_lines(shown), as_json=as_json)
        count += 1
        differing += shown.identical is False
    if replayer is None:
        to_stderr(f"{path}: {count} events, not replayed: {obstacle}")
    elif differing:
        to_stderr(f"{path}: {count} events replayed, the commands of {differing} differ")
    else:
        to_stderr(f"{path}: {count} events replayed, all commands are identical")
    return int(differing > 0)


def _replayer(header: Header) -> tuple[Replayer | None, str]:
    """Return a replayer, or None and why the log cannot be replayed."""
    if header.dropped:
        return None, f"{header.dropped} earlier entries were dropped"
    if header.service not in _CORES:
        return None, f"{header.service} is not a service of this version"
    load_families()
    module = importlib.import_module(_CORES[header.service])
    try:
        keys = (signing_keys(),) if header.service in _SIGNING else ()
        return Replayer(module.build_core(header.arguments, *keys), module.decode_event), ""
    except (TypeError, KeyError) as error:
        raise ValueError(f"the arguments are not those of this version: {error}") from error


def _replayed(entries: Iterator[RecordedEntry], replayer: Replayer | None) -> Iterator[Shown]:
    """Yield the entries, replayed up to the first exception of the core: its state is undefined afterwards."""
    start = None
    for entry in entries:
        start = entry.now.monotonic if start is None else start
        shown = _shown(entry, start)
        if replayer is None:
            yield shown
            continue
        try:
            (result,) = core_log.replay(replayer.core, iter([entry]), replayer.decode)
        except msgspec.MsgspecError as error:
            raise ValueError(f"the event at {shown.at} is not one of this version: {error}") from error
        except Exception as error:  # any defect of a core
            traceback.print_exc()
            yield msgspec.structs.replace(shown, identical=False, error=repr(error))
            replayer = None
        else:
            encoded = msgspec.msgpack.encode(result.commands)
            again = None if result.identical else _decoded_commands(encoded)
            yield msgspec.structs.replace(shown, identical=result.identical, replayed=again)


def _shown(entry: RecordedEntry, start: float) -> Shown:
    """Return an entry as it was recorded; ``start``: the time of the first one."""
    try:
        event, commands = _with_text_keys(_EVENT.decode(entry.event)), _decoded_commands(entry.commands)
    except (ValueError, msgspec.MsgspecError) as error:  # ValueError: text that is not UTF-8
        raise ValueError(f"the file is not a core log: {error}") from error
    if "event" not in event or not all("command" in command for command in commands):
        raise ValueError("the file is not a core log: an event or command has no name")
    return Shown(round(entry.now.monotonic - start, 6), entry.now.wall, event, commands)


def _lines(shown: Shown) -> Iterator[str]:
    """Yield the event and its commands: ``>`` marks an equal command, ``-`` a recorded and ``+`` a replayed one."""
    yield f"{shown.at:12.6f} {_item(shown.event, 'event')}"
    if shown.error is not None:
        yield f"{'!':>14} the core raised {shown.error}"
    replayed = shown.commands if shown.replayed is None else shown.replayed
    for before, after in zip_longest(shown.commands, replayed):
        if before == after:
            yield f"{'>':>14} {_item(before, 'command')}"
            continue
        for mark, command in (("-", before), ("+", after)):
            if command is not None:
                yield f"{mark:>14} {_item(command, 'command')}"


def _item(item: dict[str, Any], tag: str) -> str:
    fields = {name: value for name, value in item.items() if name != tag}
    return f"{item[tag]} {_json(fields)}" if fields else str(item[tag])


def _decoded_commands(data: bytes | msgspec.Raw) -> list[dict[str, Any]]:
    return [_with_text_keys(command) for command in _COMMANDS.decode(data)]


def _with_text_keys(value: Any) -> Any:
    """Return a value that JSON can encode: the parts of a key, such as namespace and name, are joined by ``/``."""
    if isinstance(value, dict):
        return {
            "/".join(map(str, key)) if isinstance(key, tuple) else key: _with_text_keys(each)
            for key, each in value.items()
        }
    return [_with_text_keys(each) for each in value] if isinstance(value, list) else value


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _print(value: msgspec.Struct, *lines: str, as_json: bool) -> None:
    """Print a value as JSON, or lines, which are truncated to the width of the terminal."""
    if as_json:
        print(_json(value))
        return
    width = os.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in lines:
        print(line if width is None else set_cell_size(line, width).rstrip())
