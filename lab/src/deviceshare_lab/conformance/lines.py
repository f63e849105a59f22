"""Files of recorded answers: one JSON object per line, optionally compressed."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from deviceshare_cli.errors import CommandError

T = TypeVar("T")


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the non-empty lines of a file (``.jsonl`` or ``.jsonl.gz``) with their numbers.

    Raises:
        CommandError: for a file that cannot be read or holds nothing.
    """
    try:
        raw = path.read_bytes()
        data = gzip.decompress(raw) if path.suffix == ".gz" else raw
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise CommandError(f"{path}: {reason}") from None
    if not data.strip():
        raise CommandError(f"{path}: the file is empty: expected one JSON object per line")
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            yield number, line


def decode_line(line: bytes, decoder: msgspec.json.Decoder[T], where: str) -> T:
    """Return the object of a line.

    Raises:
        CommandError: the line is not JSON or has another form; ``where`` names the line.
    """
    try:
        return decoder.decode(line)
    except msgspec.ValidationError as error:
        what, _, field = str(error).partition(" - at ")
        # msgspec gives no path if the whole line is wrong.
        raise CommandError(f"{where}: {_path(field)}: {what}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CommandError(f"{where}: not JSON: {error}") from None


def decoded(path: Path, decoder: msgspec.json.Decoder[T]) -> Iterator[tuple[int, str, T]]:
    """Yield the object of each line of a file, with its number and what names the line in errors.

    Raises:
        CommandError: the file cannot be read or holds nothing, or a line has another form.
    """
    for number, line in read_lines(path):
        where = f"{path}: line {number}"
        yield number, where, decode_line(line, decoder, where)


def keys_of_first(path: Path) -> frozenset[str]:
    """Return the keys of the object on the first line of a file, none if the line is not an object.

    Raises:
        CommandError: for a file that cannot be read or holds nothing.
    """
    _, line = next(read_lines(path))
    try:
        first: Any = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return frozenset()
    return frozenset(first) if isinstance(first, dict) else frozenset()


def _path(field: str) -> str:
    return field.strip("`").removeprefix("$").removeprefix(".") or "the line"
