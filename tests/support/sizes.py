"""The sizes of all containers that an object holds, for tests of bounds."""

from collections import Counter
from collections.abc import Mapping, Sized
from typing import Any

import msgspec
import numpy as np

_PLAIN = (str, bytes, int, float, bool, type(None), type)


def sizes(root: Any) -> Counter[str]:
    """Return the number of items of every dict, list, set, deque and array below an object, by its path.

    An array has as many items as its longest dimension is long: what grows with pods or nodes is that one.
    Containers in one container count together, by their sum.
    """
    found: Counter[str] = Counter()
    seen: set[int] = set()
    todo: list[tuple[str, Any]] = [(type(root).__name__, root)]
    while todo:
        path, item = todo.pop()
        if isinstance(item, _PLAIN) or id(item) in seen or callable(item):
            continue
        seen.add(id(item))
        if isinstance(item, np.ndarray):
            found[path] += max(item.shape, default=1)
            continue
        if isinstance(item, Sized) and not isinstance(item, msgspec.Struct):
            found[path] += len(item)
        if isinstance(item, Mapping):
            todo += [(f"{path}[]", value) for value in item.values()]
        elif isinstance(item, Sized) and hasattr(item, "__iter__") and not isinstance(item, msgspec.Struct):
            todo += [(f"{path}[]", value) for value in item]
        names = list(getattr(item, "__dict__", ()))
        for kind in type(item).__mro__:
            slots = kind.__dict__.get("__slots__", ())
            names += [slots] if isinstance(slots, str) else slots
        names += getattr(type(item), "__struct_fields__", ())
        for name in dict.fromkeys(names):
            try:
                value = getattr(item, name)
            except AttributeError:
                continue
            todo.append((f"{path}.{name}", value))
    return found
