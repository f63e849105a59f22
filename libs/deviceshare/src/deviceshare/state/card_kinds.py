"""Kinds of cards: two cards are of one kind if all is equal that no pod changes. A cluster has few kinds.

What a demand means for an unused card is therefore computed once for each kind, not once for each card.
"""

import numpy as np
from numpy.typing import NDArray

from deviceshare.model import Card

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


class Interner:
    """Numbers for strings: equal strings get equal numbers, the empty string is 0."""

    def __init__(self) -> None:
        self.names: list[str] = [""]
        self._codes: dict[str, int] = {"": 0}

    def code(self, name: str) -> int:
        """Return the number of a string, a new one for a new string."""
        code = self._codes.get(name)
        if code is None:
            code = self._codes[name] = len(self.names)
            self.names.append(name)
        return code

    def find(self, name: str) -> int:
        """Return the number of a string, -1 for a new string."""
        return self._codes.get(name, -1)


class CardKinds:
    """All kinds that the cluster has had, by number; 0 is no card.

    ``mode`` and ``type`` are codes, ``memory`` MiB, ``cores`` percent or AI cores, ``slots`` counts, ``healthy`` and
    ``cordoned`` 0 or 1, ``network`` as in :class:`~deviceshare.model.Card`: int64[kinds] each.
    """

    def __init__(self) -> None:
        self.modes = Interner()
        self.types = Interner()
        self._known: dict[tuple[str, str, int, int, int, bool, int, bool], int] = {}
        self._enter(np.zeros((8, 1), dtype=np.int64))

    def code(self, card: Card) -> int:
        """Return the number of a card's kind, a new one for a new kind."""
        key = (
            card.mode, card.type, card.memory, card.cores, card.slots, card.healthy, card.network, card.cordoned,
        )  # fmt: skip
        code = self._known.get(key)
        if code is None:
            codes = (self.modes.code(card.mode), self.types.code(card.type), *key[2:])
            self._enter(np.column_stack([self._all, np.array(codes, dtype=np.int64)]))
            code = self._known[key] = len(self._known) + 1
        return code

    def __len__(self) -> int:
        return len(self._known) + 1

    def of_mode(self, mode: str) -> Bools:
        """Return bool[kinds]: the kinds with this mode."""
        found: Bools = self.mode == self.modes.find(mode)
        return found

    def _enter(self, every: Ints) -> None:
        self._all = every
        self.mode, self.type, self.memory, self.cores, self.slots, self.healthy, self.network, self.cordoned = every
        self.usable: Bools = (self.healthy != 0) & (self.cordoned == 0)
        """bool[kinds]: the kinds of cards that may get pods: healthy, and not cordoned."""


class Codes:
    """The meaning of the numbers in a table of cards; ``fields`` are the names of the fields of a card."""

    def __init__(self, kinds: CardKinds, type_names: list[str], fields: tuple[str, ...]) -> None:
        self.kinds = kinds
        self.type_names = type_names
        """The names of the codes of types, '' for those of which the cluster has no card and no whole device."""
        self._fields = fields

    def field(self, name: str) -> int:
        """Return the index of a name of a family's ``state`` among the fields of a card."""
        return self._fields.index(name)
