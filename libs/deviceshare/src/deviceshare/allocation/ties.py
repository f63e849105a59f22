"""Which of equal nodes takes a pod. The same rule gives the same node to all who ask, in whatever order nodes came."""

from hashlib import blake2b

import msgspec

from deviceshare.model import ConfigError


class Ties(msgspec.Struct, frozen=True):
    """The node with the lowest name, or, with a ``seed``, the first in an order of nodes that it makes up.

    That order tells nodes apart by seed and name alone: one that comes or goes does not move the others.
    """

    seed: int | None = None

    def key(self, name: str) -> tuple[bytes, str]:
        """Return what a node is ordered by."""
        return (b"" if self.seed is None else blake2b(f"{self.seed} {name}".encode(), digest_size=8).digest(), name)


LOWEST = Ties()


def parse_ties(text: str) -> Ties:
    """Read ``lowest`` or ``seed:N``.

    Raises:
        ConfigError: it is neither.
    """
    if text == "lowest":
        return LOWEST
    word, _, number = text.partition(":")
    if word != "seed" or not (number.isascii() and number.isdecimal()):
        raise ConfigError("Ties", "--ties", text, "lowest, or seed:N with a whole number")
    return Ties(int(number))
