"""Keys that are compared in part: in hierarchies of queues the other key decides what is compared."""

from functools import total_ordering
from typing import Any


@total_ordering
class PartialKey:
    """A key that compares only the parts that :meth:`compared` returns."""

    __slots__ = ()

    def compared(self, other: Any) -> tuple[Any, Any]:
        """Return the parts to compare of this key and of another key of the same class."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        mine, theirs = self.compared(other)
        return bool(mine == theirs)

    def __lt__(self, other: "PartialKey") -> bool:
        mine, theirs = self.compared(other)
        return bool(mine < theirs)

    __hash__ = None  # type: ignore[assignment]
