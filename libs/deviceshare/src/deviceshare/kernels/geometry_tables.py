"""The geometries by which cards may be partitioned, in one table.

A *cut* is the number of a geometry of the card's model, from 1 on; 0 is a card that is not partitioned, -1 a card that
gives nothing. ``used`` has a bit for each position of the geometry that is in use.
"""

from deviceshare.kernels.arrays import Ints


class GeometryTables:
    """The geometries of all kinds of cards in one table; its rows are ``base`` int64[kinds] of the kind + cut.

    ``sizes`` int64[cuts, positions] are MiB, ``ranked`` the ``counts`` int64[cuts] positions by size, the smallest
    first. ``largest`` int64[kinds] is the largest instance of any geometry, in MiB.
    """

    def __init__(self, base: Ints, largest: Ints, sizes: Ints, ranked: Ints, counts: Ints) -> None:
        self.base: Ints = base
        self.largest: Ints = largest
        self.sizes: Ints = sizes
        self.ranked: Ints = ranked
        self.counts: Ints = counts

    def smallest(self, number: int, allowed: int, needed: int) -> int:
        """Return the position of the smallest instance with ``needed`` MiB whose bit is set in ``allowed``, or -1."""
        for at in range(self.counts[number]):
            position: int = self.ranked[number, at]
            if self.sizes[number, position] >= needed and (allowed >> position) & 1:
                return position
        return -1

    def free(self, kind: int, cut: int, used: int) -> int:
        """Return the MiB of the largest free instance of a card, 0 for none."""
        if cut < 0:
            return 0
        if cut == 0:
            return int(self.largest[kind])
        number = self.base[kind] + cut
        for at in range(self.counts[number] - 1, -1, -1):
            position = self.ranked[number, at]
            if not (used >> position) & 1:
                return int(self.sizes[number, position])
        return 0
