"""All cards of all nodes as arrays, node × card, for all families alike.

A row is a node, a column a card in the order of registration. Cards that a node does not have are empty columns with
mode 0. Rows grow by doubling, columns to the widest node, so that a question is asked of every card of the cluster at
once.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from deviceshare.facts import Card
from deviceshare.holdings import Holding, Usage

_T = TypeVar("_T")
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_FIELDS = (
    "mode", "type", "memory", "memory_used", "cores", "cores_used", "slots", "slots_used", "healthy", "network",
)  # fmt: skip


class Interner:
    """Numbers for strings: equal strings get equal numbers, the empty string is 0."""

    def __init__(self) -> None:
        self.names: list[str] = [""]
        self._codes: dict[str, int] = {"": 0}

    def code(self, name: str) -> int:
        """Return the number of a string, a new one if it was never seen."""
        code = self._codes.get(name)
        if code is None:
            code = self._codes[name] = len(self.names)
            self.names.append(name)
        return code

    def find(self, name: str) -> int:
        """Return the number of a string, -1 if it was never seen."""
        return self._codes.get(name, -1)


class CardView:
    """Some rows of the table, copied: R nodes × D cards. A family charges tentatively here, never in the table.

    All arrays are [R, D]: ``mode`` and ``type`` codes (0: no card), ``memory`` and ``memory_used`` MiB, ``cores`` and
    ``cores_used`` percent or AI cores, ``slots`` and ``slots_used`` counts, ``network`` as in
    :class:`~deviceshare.facts.Card` (int64), ``healthy`` (bool).
    """

    mode: Ints
    type: Ints
    memory: Ints
    memory_used: Ints
    cores: Ints
    cores_used: Ints
    slots: Ints
    slots_used: Ints
    healthy: Bools
    network: Ints

    def __init__(
        self,
        modes: Interner,
        type_names: list[str],
        cards: Sequence[tuple[Card, ...]],
        fields: Sequence[str],
        block: Ints,
        allocatable: Callable[[str], Ints],
        holdings: Sequence[Collection[Holding]],
    ) -> None:
        self.modes = modes
        self.type_names = type_names
        """The names of the codes in ``type``, '' for those of which the cluster has no card."""
        self.cards = cards
        """The cards of each row, as registered."""
        self.allocatable = allocatable
        """Returns int64[R]: how much of a resource each node has."""
        self.holdings = holdings
        """What the pods on each row hold."""
        self.preferred: Bools | None = None
        """bool[R, D]: cards that are taken before all others where they can be; None: no card."""
        self._fields = fields
        self.block = block
        """int64[F, R, D]: all fields together, so that all of them are one copy."""
        self.mode, self.type, self.memory, self.memory_used, self.cores, self.cores_used = block[:6]
        self.slots, self.slots_used = block[6:8]
        self.healthy, self.network = block[8] != 0, block[9]
        self.state: dict[str, Ints] = dict(zip(fields[len(_FIELDS) :], block[len(_FIELDS) :], strict=True))
        """int64[R, D] for each name in ``state`` of a family: what it counts of a card beside the amounts."""

    def copy(self) -> "CardView":
        """Return a view of the same nodes that is charged by itself."""
        return CardView(
            self.modes, self.type_names, self.cards, self._fields, self.block.copy(), self.allocatable, self.holdings
        )

    def part(self, rows: Ints) -> "CardView":
        """Return some of the nodes (int64, numbers of rows) as a view that is charged by itself."""
        if len(rows) == len(self.mode):
            return self.copy()
        return CardView(
            self.modes,
            self.type_names,
            _Rows(self.cards.__getitem__, rows),
            self._fields,
            self.block[:, rows],
            lambda name: self.allocatable(name)[rows],
            _Rows(self.holdings.__getitem__, rows),
        )

    def of_mode(self, mode: str) -> Bools:
        """Return bool[R, D]: which cards are cut in this way."""
        found: Bools = self.mode == self.modes.find(mode)
        return found

    def of_modes(self, modes: Iterable[str]) -> Bools:
        """Return bool[R, D]: which cards are cut in any of these ways."""
        found = np.zeros(self.mode.shape, dtype=np.bool_)
        for mode in modes:
            found |= self.of_mode(mode)
        return found

    def with_ids(self, ids: Sequence[str]) -> Bools:
        """Return bool[R, D]: which cards have one of these ids."""
        found = np.zeros(self.mode.shape, dtype=np.bool_)
        wanted = frozenset(ids)
        for row, cards in enumerate(self.cards):
            for column, card in enumerate(cards):
                found[row, column] = card.id in wanted
        return found


class CardTable:
    """The cards of the whole cluster and what is taken of them.

    ``state`` names what families count of a card beside the amounts (:attr:`Family.state`).
    """

    def __init__(self, state: Iterable[str] = ()) -> None:
        self.modes = Interner()
        self.types = Interner()
        self.cards: list[tuple[Card, ...]] = []
        self._columns: list[dict[str, int]] = []
        self._type_names: list[str] = [""]
        self._of_type: Counter[str] = Counter()
        self.types_version = 0
        """How often a type of card came that the cluster did not have, or the last card of a type went."""
        self._models: Ints = np.zeros(0, dtype=np.int64)
        """For each row the type of the cards that are no columns: whole devices, which kubelet gives."""
        self._fields = (*_FIELDS, *state)
        # At least one column, so that the first or best card of a row can be looked for where no node has any.
        self._block: Ints = np.zeros((len(self._fields), 0, 1), dtype=np.int64)
        """All fields together, so that some rows of all of them are one copy."""
        self._arrays = dict(zip(self._fields, self._block, strict=True))

    def set_cards(self, row: int, cards: tuple[Card, ...]) -> None:
        """Put these cards into a row, with nothing taken."""
        while len(self.cards) <= row:
            self.cards.append(())
            self._columns.append({})
        self._reserve(row + 1, len(cards))
        self._count_types((card.type for card in self.cards[row]), (card.type for card in cards))
        self.cards[row] = cards
        self._columns[row] = {card.id: column for column, card in enumerate(cards)}
        self._block[:, row] = 0
        for column, card in enumerate(cards):
            a = self._arrays
            a["mode"][row, column] = self.modes.code(card.mode)
            a["type"][row, column] = self.types.code(card.type)
            a["memory"][row, column] = card.memory
            a["cores"][row, column] = card.cores
            a["slots"][row, column] = card.slots
            a["healthy"][row, column] = card.healthy
            a["network"][row, column] = card.network

    def set_model(self, row: int, model: str) -> None:
        """Say of what type a node's whole devices are, '' where nobody tells or it has none."""
        self._reserve(row + 1, 1)
        self._count_types((self.types.names[self._models[row]],), (model,))
        self._models[row] = self.types.code(model)

    def models(self, rows: Ints) -> Ints:
        """Return int64[R]: the codes of the types of these nodes' whole devices, 0 where nobody tells."""
        found: Ints = self._models[rows]
        return found

    @property
    def type_names(self) -> list[str]:
        """The names of the codes of types, '' for those of which the cluster has no card and no whole device."""
        return self._type_names

    def _count_types(self, before: Iterable[str], after: Iterable[str]) -> None:
        self._of_type.subtract(before)
        for name in after:
            self.types.code(name)
            self._of_type[name] += 1
        names = [name if self._of_type[name] > 0 else "" for name in self.types.names]
        if names != self._type_names:
            self._type_names = names
            self.types_version += 1

    def column(self, row: int, card: str) -> int | None:
        """Return the column of a card in a row, None where the row does not have it."""
        return self._columns[row].get(card)

    def add(self, row: int, column: int, usage: Usage, sign: int) -> None:
        """Take (``sign`` 1) or give back (-1) memory, cores and slots of a card."""
        a = self._arrays
        a["memory_used"][row, column] += sign * usage.memory
        a["cores_used"][row, column] += sign * usage.cores
        a["slots_used"][row, column] += sign * usage.slots

    def put(self, row: int, column: int, usage: Usage, state: Mapping[str, int]) -> None:
        """Write what is taken of a card, whatever was written before."""
        a = self._arrays
        a["memory_used"][row, column] = usage.memory
        a["cores_used"][row, column] = usage.cores
        a["slots_used"][row, column] = usage.slots
        for name, value in state.items():
            a[name][row, column] = value

    def used(self, row: int) -> list[Usage]:
        """Return what is taken of each card of a row."""
        a = self._arrays
        taken = np.stack([a["memory_used"][row], a["cores_used"][row], a["slots_used"][row]], axis=1)
        return [Usage(*each) for each in taken[: len(self.cards[row])].tolist()]

    def state(self, row: int, name: str) -> list[int]:
        """Return what a family counts of each card of a row."""
        values: list[int] = self._arrays[name][row, : len(self.cards[row])].tolist()
        return values

    def view(
        self, rows: Ints, allocatable: Callable[[str], Ints], holdings: Callable[[int], Collection[Holding]]
    ) -> CardView:
        """Return a copy of some rows."""
        return CardView(
            self.modes,
            self._type_names,
            _Rows(self.cards.__getitem__, rows),
            self._fields,
            self._block[:, rows],
            allocatable,
            _Rows(holdings, rows),
        )

    def _reserve(self, rows: int, columns: int) -> None:
        _, has_rows, has_columns = self._block.shape
        if rows <= has_rows and columns <= has_columns:
            return
        room = (max(rows, 2 * has_rows, 16) if rows > has_rows else has_rows, max(columns, has_columns))
        block = np.zeros((len(self._fields), *room), dtype=np.int64)
        block[:, :has_rows, :has_columns] = self._block
        self._block = block
        self._arrays = dict(zip(self._fields, block, strict=True))
        self._models = np.pad(self._models, (0, room[0] - len(self._models)))


class _Rows(Sequence[_T]):
    """Something of each of some rows, looked up when it is asked for."""

    def __init__(self, look_up: Callable[[int], _T], rows: Ints) -> None:
        self._look_up = look_up
        self._rows = rows

    def __getitem__(self, index: Any) -> Any:
        return self._look_up(int(self._rows[index]))

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[_T]:
        return (self._look_up(row) for row in self._rows.tolist())
