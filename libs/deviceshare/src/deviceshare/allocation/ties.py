"""The tie order of nodes with equal scores. It does not depend on the order in which nodes were added."""

from hashlib import blake2b

import msgspec

from deviceshare.model import ConfigError


class Ties(msgspec.Struct, frozen=True):
    """The lowest node name is first, or, with a ``seed``, the first node of a pseudo-random order.

    This order depends only on the seed and the names: added or removed nodes do not reorder the others.
    """

    seed: int | None = None

    def key(self, name: str) -> tuple[bytes, str]:
        """Return the sort key of a node."""
        return (b"" if self.seed is None else blake2b(f"{self.seed} {name}".encode(), digest_size=8).digest(), name)


LOWEST = Ties()


def parse_ties(text: str) -> Ties:
    """Read ``lowest`` or ``seed:N``.

    Raises:
        ConfigError: the text is neither.
    """
    if text == "lowest":
        return LOWEST
    word, _, number = text.partition(":")
    if word != "seed" or not (number.isascii() and number.isdecimal()):
        raise ConfigError("Ties", "--ties", text, "lowest, or seed:N with a whole number")
    return Ties(int(number))
