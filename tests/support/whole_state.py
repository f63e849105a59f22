"""The whole state of an object as plain values, so that two moments can be compared bit for bit."""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Set
from enum import Enum
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec
import numpy as np
from deviceshare.kernels import Changes
from deviceshare.state import UndoLog
from deviceshare.volumes.matching import LastUnbound
from deviceshare.volumes.node_labels import NodeLabels

_NOTICES = {
    "work", "_done", "_shrunk", "changed", "assumed_version", "_dirty", "_new_room", "_types_seen", "version",
}  # fmt: skip
"""Attributes that tell others that something may have changed, count the work done, or ask for a computation."""
_CACHES = {
    "_rankings", "_orders", "_pod_classes", "pod_class", "_scan", "_expected_pods", "_order", "_ordered",
    "_domains", "_eligible", "_uses", "by_domain", "classes", "_preempting", "moved",
}  # fmt: skip
"""Attributes that follow from others and the notices, or that kernels keep."""
_SKIPPED = _NOTICES | _CACHES
_DERIVED = (Changes, LastUnbound, NodeLabels, UndoLog)


def whole_state(value: Any) -> dict[str, Any]:
    """Return the values of an object by their paths, equal to those of another moment if nothing has changed.

    Amounts of 0 in a Counter are left out: they are equal to missing ones. A Counter is equal to a dict of the same
    amounts, which pods share until one of them changes. Of maps only that of holdings has an order.
    """
    return dict(_values("", value, {}))


def _values(path: str, value: Any, seen: dict[int, str]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, np.ndarray):
        yield path, (value.dtype.str, value.shape, value.tobytes())
    elif isinstance(value, Counter):
        yield path, {repr(key): amount for key, amount in value.items() if amount}
    elif isinstance(value, dict) and value and all(type(each) is int for each in value.values()):
        yield path, {repr(key): amount for key, amount in value.items()}
    elif isinstance(value, Mapping | WeakValueDictionary | WeakKeyDictionary):
        yield path, sorted(map(repr, value))
        for key, each in value.items():
            yield from _values(f"{path}[{key!r}]", each, seen)
    elif isinstance(value, Set):
        yield path, sorted(map(repr, value))
    elif isinstance(value, list | tuple | deque):
        yield path, len(value)
        for number, each in enumerate(value):
            yield from _values(f"{path}[{number}]", each, seen)
    elif isinstance(value, msgspec.Struct) and value.__struct_config__.frozen:
        for name in value.__struct_fields__:
            yield from _values(f"{path}.{name}", getattr(value, name), seen)
    elif isinstance(value, bool | int | float | str | bytes | Enum | None):
        yield path, value
    elif not (callable(value) or isinstance(value, _DERIVED)):
        yield from _attributes(path, value, seen)


def _attributes(path: str, value: object, seen: dict[int, str]) -> Iterator[tuple[str, Any]]:
    if id(value) in seen:
        yield path, seen[id(value)]
        return
    seen[id(value)] = path
    slots = (vars(kind).get("__slots__", ()) for kind in type(value).__mro__)
    fields = getattr(value, "__struct_fields__", ())
    names = [*getattr(value, "__dict__", ()), *(name for each in slots for name in each), *fields]
    for name in names:
        if name not in _SKIPPED:
            yield from _values(f"{path}.{name}", getattr(value, name, None), seen)
    if (holdings := getattr(value, "_holdings", None)) is not None:
        yield f"{path}: order of holdings", {node: list(held) for node, held in holdings.items()}
