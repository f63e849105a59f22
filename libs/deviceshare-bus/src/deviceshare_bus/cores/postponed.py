"""Writes that the server refused, for instance by their size, and when each is tried again. Pure.

An operator may raise the limits of a server while services run.
"""

from deviceshare.model import REFUSED_RETRY


class Postponed:
    """The keys whose last write was refused: those in it wait. The caller bounds the number of keys."""

    def __init__(self) -> None:
        self._refusals: dict[str, int] = {}
        """How often each key was refused since it was last written."""
        self._until: dict[str, float] = {}
        """When each key that waits is due, in monotonic time."""

    def __contains__(self, key: str) -> bool:
        """Return whether a key must not be written yet."""
        return key in self._until

    @property
    def due(self) -> float | None:
        """The monotonic time at which the first key is due, None if no key waits."""
        return min(self._until.values(), default=None)

    def add(self, key: str, now: float) -> None:
        """Let a key wait that was refused at a monotonic time."""
        refusals = self._refusals.get(key, 0)
        self._refusals[key] = refusals + 1
        self._until[key] = now + REFUSED_RETRY.delay(refusals)

    def take(self, now: float) -> list[str]:
        """Return the keys that are due, and let them wait no longer."""
        due = [key for key, until in self._until.items() if until <= now]
        for key in due:
            del self._until[key]
        return due

    def forget(self, key: str) -> None:
        """Drop a key that was written, or that is to be written anew."""
        self._refusals.pop(key, None)
        self._until.pop(key, None)
