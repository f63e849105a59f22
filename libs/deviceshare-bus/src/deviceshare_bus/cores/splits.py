"""Parts of the work that are divided further, so that all members share in them by a smaller key. Pure.

The owner of a part decides whether it is divided, and announces it in its lease. Another member works on what it owns
of a divided part from the moment it has read its own lease that repeats the announcement, and only while the owner's
last lease announces it. So the owner knows from the leases who may work on the part: it works on all of a part that is
divided no more when its own last lease and those of all others have ceased to name the part.

A member that ceases to work on something says so with the next lease that it writes without writes in flight, as with
the members that it names (:mod:`deviceshare_bus.messages.leases`).
"""

from collections.abc import Callable, Iterable

MAX_SPLIT = 1000
"""Parts that may be divided further at the same time."""


class Splits:
    """The divided parts as one member sees them. ``owns`` returns whether it is the first owner of a part."""

    def __init__(self) -> None:
        self.respected: set[str] = set()
        """Parts on which this member works only by the smaller key, or not at all."""
        self._announced: tuple[str, ...] = ()
        self._since: dict[str, int] = {}
        """The number of the own lease from which on a respected part has been named without a gap."""
        self._last: dict[str, int] = {}
        """The number of the last own lease that named a part."""
        self._received = 0
        """The number of the own lease that was received last."""

    @property
    def announced(self) -> tuple[str, ...]:
        """What the own lease names, sorted."""
        return self._announced

    @property
    def outdated(self) -> bool:
        """Whether the next lease names other parts."""
        return self.respected != set(self._announced)

    def announce(self) -> None:
        """Name the parts from the next lease on, which is written without writes in flight."""
        self._announced = tuple(sorted(self.respected))

    def sent(self, number: int) -> None:
        """Note that the own lease with a number names what is announced."""
        for part in self._announced:
            self._last[part] = number
            if part in self.respected:
                self._since.setdefault(part, number)

    def received(self, number: int) -> bool:
        """Apply the own lease with a number; return whether this may change what this member works on."""
        before, self._received = self._received, max(number, self._received)
        ended = [part for part, last in self._last.items() if last < number and part not in self.respected]
        for part in ended:
            del self._last[part]
        return bool(ended) or any(before < since <= number for since in self._since.values())

    def divide(self, part: str) -> None:
        """Divide a part whose owner this member is."""
        if len(self.respected) < MAX_SPLIT:
            self.respected.add(part)

    def merge(self, part: str) -> None:
        """Divide a part no more whose owner this member is."""
        self.respected.discard(part)
        self._since.pop(part, None)

    def is_divided(self, part: str) -> bool:
        """Return whether the owner of a part, this member, wants it divided."""
        return part in self.respected

    def adopt(self, split: Iterable[str]) -> None:
        """Respect what the leases of others name, for a member that has not joined: it may own some of it soon."""
        for part in split:
            self.divide(part)

    def follow(self, names: Callable[[str], bool | None], others: Iterable[str]) -> None:
        """Do as the owners of the parts do; ``others`` are the parts that other leases name.

        ``names`` returns whether the lease of a part's owner names it, None if this member is the owner.
        """
        for part in {*others, *self.respected}:
            match names(part):
                case True:
                    self.divide(part)
                case False:
                    self.merge(part)

    def works_by_key(self, part: str, *, named: bool | None, by_others: bool) -> bool:
        """Return whether this member works on a part by the smaller key; ``named`` as in :meth:`follow`.

        ``by_others``: whether the lease of any other member names the part.
        """
        if named is None:
            return part in self.respected or by_others or part in self._last
        return named and part in self._since and self._since[part] <= self._received
