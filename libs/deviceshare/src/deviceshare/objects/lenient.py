"""Decoding of objects into views: fields of a wrong type are omitted and reported, the others are kept."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from deviceshare.model import Field, FormatError, Problem, Source
from deviceshare.model.conversion import SOME_ENTRY, Path, follow, location
from deviceshare.objects.bounds import SMALL_BYTES, cut_texts
from deviceshare.objects.problems import Problems
from deviceshare.objects.views import ConfigMapObject, NodeObject, Object

V = TypeVar("V", bound=Object)

MAX_REPAIRS = 32
"""With this many fields of a wrong type, only the identity of an object is kept."""

_DECODED_AGAIN = 256 * SMALL_BYTES
"""Bytes that are decoded again to keep the valid entries of a mapping; a larger one is omitted as a whole."""
_LONGEST_VALUE = 256
_MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode_view(raw: bytes, decoder: msgspec.json.Decoder[V], kind: str) -> tuple[V, list[Problem]]:
    """Return the view of an object, and a problem for each field that was omitted for its type.

    Raises:
        FormatError: the text is not a JSON object with a name.
    """
    problems: list[Problem] = []
    try:
        view = decoder.decode(raw)
    except msgspec.ValidationError:
        view = _decode_repaired(raw, decoder.type, kind, problems)
    except _MALFORMED as error:
        raise _not_json(kind, raw, error) from error
    if len(raw) > SMALL_BYTES and not isinstance(view, ConfigMapObject | NodeObject):
        identity = "/".join(filter(None, (view.metadata.namespace, view.metadata.name)))
        cut_texts(view, Problems(f"{kind} {identity[:_LONGEST_VALUE]}".rstrip(), problems))
    if not view.metadata.name:
        raise FormatError(kind, "metadata.name", "", "a name")
    return view, problems


def _not_json(kind: str, raw: bytes, error: Exception) -> FormatError:
    return FormatError(kind, "$", raw[:_LONGEST_VALUE].decode(errors="replace"), f"a JSON object ({error})")


def _decode_repaired(raw: bytes, view_type: type[V], kind: str, problems: list[Problem]) -> V:
    try:
        tree: Any = msgspec.json.decode(raw)
    except _MALFORMED as error:
        raise _not_json(kind, raw, error) from error
    return repair(tree, view_type, kind, problems, len(raw))


def repair(tree: Any, view_type: type[V], kind: str, problems: list[Problem], size: int) -> V:
    """Remove the fields of a wrong type from a parsed object, in place; return its view.

    With too many of them the view has only the identity of the object, and the object stays as it is.

    Args:
        tree: the object.
        view_type: the fields that are read, and their types.
        kind: the kind of the object, for messages.
        problems: receives a problem for each field.
        size: the bytes of the object.

    Raises:
        FormatError: it is no object with metadata.
    """
    root = Field(Source(_subject(kind, tree), FormatError, absent="null"), tree)
    for _ in range(MAX_REPAIRS):
        try:
            return msgspec.convert(tree, view_type)
        except msgspec.ValidationError as error:
            path, expected = location(error)
            if path in ([], ["metadata"], ["metadata", "name"]):
                raise follow(root, path).error(expected) from error
            problems.extend(_cut(root, path, expected, view_type, _DECODED_AGAIN // max(size, 1)))
    problems.append(root.holding("…").error(f"fewer than {MAX_REPAIRS} fields of a wrong type").problem)
    return msgspec.convert({"metadata": _identity(tree)}, view_type)


def _identity(tree: Any) -> dict[str, str]:
    metadata = tree.get("metadata") if isinstance(tree, dict) else None
    entries = metadata if isinstance(metadata, dict) else {}
    return {key: value for key in ("namespace", "name", "uid") if isinstance(value := entries.get(key), str)}


def _subject(kind: str, tree: Any) -> str:
    identity = _identity(tree)
    identity.pop("uid", None)
    return " ".join((kind, "/".join(identity.values()))).rstrip()


def _cut(root: Field, path: Path, expected: str, view_type: type[Object], most_entries: int) -> list[Problem]:
    """Remove the value at a path; return its problems. The valid entries of a mapping stay, if it has few."""
    if path[-1] == SOME_ENTRY:
        path = path[:-1]
        if len(follow(root, path).value) <= most_entries:
            return _cut_entries(root, path, expected, view_type)
    holder, last = follow(root, path[:-1]).value, path[-1]
    problem = follow(root, path).error(expected).problem
    if isinstance(holder, list) and expected.startswith("object"):
        holder[int(last)] = {}  # later items keep their position
    else:
        del holder[last]
    return [problem]


def _cut_entries(root: Field, path: Path, expected: str, view_type: type[Object]) -> list[Problem]:
    """Decode the entries of a mapping one by one and keep those of the right type."""
    mapping = follow(root, path)
    entries, problems = dict(mapping.value), []
    for key, value in list(entries.items()):
        mapping.value.clear()
        mapping.value[key] = value
        try:
            msgspec.convert(root.value, view_type)
        except msgspec.ValidationError as error:
            if location(error)[0] == [*path, SOME_ENTRY]:
                problems.append(mapping.entry(key).error(expected).problem)
                del entries[key]
    mapping.value.clear()
    mapping.value.update(entries)
    return problems


def seconds(timestamp: str | None, field: str, problems: Problems) -> float:
    """Return an RFC 3339 time as unix seconds, 0 if absent; a malformed time is a problem and 0."""
    if not timestamp:
        return 0.0
    try:
        return _unix(timestamp)
    except (ValueError, OverflowError):
        problems.add(field, timestamp, "a time such as 2026-02-03T04:05:06Z")
        return 0.0


@lru_cache(256)
def _unix(timestamp: str) -> float:
    """Return a time as unix seconds; pods that are created together have the same one. Raises as ``datetime``."""
    moment = datetime.fromisoformat(timestamp)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
