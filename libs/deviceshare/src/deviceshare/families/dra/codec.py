"""DeviceClasses, DeviceTaintRules, ResourceSlices and ResourceClaims from the JSON of the API.

An object is read as a whole or not at all: without one of its selectors a claim would get other devices, without a
device mode All would give fewer. Nulls are absent, as in Kubernetes; unknown fields are skipped.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from deviceshare.families.dra.validation import Checks, check_claim, check_class, check_slice, check_taint_rule
from deviceshare.model import Field, FormatError, Source
from deviceshare.model.conversion import follow, location
from deviceshare.model.device_objects import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice

T = TypeVar("T", DeviceClass, ResourceSlice, ResourceClaim, DeviceTaintRule)

_MISSING = "Object missing required field "
_VERBATIM = "parameters"
"""The field of opaque parameters, which are the driver's: nulls stay."""
_LONGEST_VALUE = 256
_LONGEST_NAME = 253
_DEEPEST = 64
"""Levels of an object; Kubernetes' own have at most 15 outside of parameters."""


def decode_class(raw: bytes) -> DeviceClass:
    """Decode a DeviceClass in JSON. Raises FormatError: a part of it is invalid."""
    return _decode(raw, "DeviceClass", DeviceClass, check_class)


def decode_slice(raw: bytes) -> ResourceSlice:
    """Decode a ResourceSlice in JSON. Raises FormatError: a part of it is invalid."""
    return _decode(raw, "ResourceSlice", ResourceSlice, check_slice)


def decode_taint_rule(raw: bytes) -> DeviceTaintRule:
    """Decode a DeviceTaintRule in JSON. Raises FormatError: a part of it is invalid."""
    return _decode(raw, "DeviceTaintRule", DeviceTaintRule, check_taint_rule)


def decode_claim(raw: bytes) -> ResourceClaim:
    """Decode a ResourceClaim in JSON. Raises FormatError: a part of it is invalid."""
    return _decode(raw, "ResourceClaim", ResourceClaim, check_claim)


def _decode(raw: bytes, kind: str, view: type[T], check: Callable[[T, Checks], None]) -> T:
    try:
        tree = without_nulls(msgspec.json.decode(raw))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        shown = raw[:_LONGEST_VALUE].decode(errors="replace")
        raise FormatError(kind, "$", shown, f"a JSON object ({error})") from error
    subject = _subject(kind, tree)
    try:
        found = msgspec.convert(tree, view)
    except msgspec.ValidationError as error:
        path, expected = location(error)
        place = follow(Field(Source(subject, FormatError, absent="null"), tree), path)
        if expected.startswith(_MISSING):
            raise place[expected.removeprefix(_MISSING)].error("a value") from error
        raise place.error(expected) from error
    check(found, Checks(subject))
    return found


def _subject(kind: str, tree: Any) -> str:
    metadata = tree.get("metadata") if isinstance(tree, dict) else None
    entries = metadata if isinstance(metadata, dict) else {}
    names = [value[:_LONGEST_NAME] for key in ("namespace", "name") if isinstance(value := entries.get(key), str)]
    return " ".join((kind, "/".join(filter(None, names)))).rstrip()


def without_nulls(value: Any, levels: int = _DEEPEST) -> Any:
    """Return a parsed object without null fields. Raises RecursionError: it has more levels."""
    if not levels:
        raise RecursionError(f"at most {_DEEPEST} levels")
    if isinstance(value, dict):
        return {
            key: each if key == _VERBATIM else without_nulls(each, levels - 1)
            for key, each in value.items()
            if each is not None
        }
    return [without_nulls(each, levels - 1) for each in value] if isinstance(value, list) else value
