"""All cards of all nodes as arrays, node × card, for all families alike.

A row is a node, a column a card in the order of registration. Cards that a node does not have are empty columns of
kind 0. Rows grow by a quarter, columns to the widest node.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from deviceshare.kernels import CORES_USED, FIELDS, KIND, MEMORY_USED, SLOTS_USED, CardCharges, CardOrder
from deviceshare.model import Card
from deviceshare.state.card_kinds import Bools, CardKinds, Codes, Ints
from deviceshare.state.holdings import Holding, Usage

_T = TypeVar("_T")


class CardView(Codes):
    """A copy of some rows of the table: R nodes × D cards. A family charges here tentatively, never in the table.

    All arrays are [R, D]: ``kind`` the number of each card's kind (0: no card), ``memory_used`` MiB, ``cores_used``
    percent or AI cores, ``slots_used`` the number of containers (int64), and the properties of the kind.
    """

    kind: Ints
    memory_used: Ints
    cores_used: Ints
    slots_used: Ints

    def __init__(
        self,
        codes: Codes,
        cards: Sequence[tuple[Card, ...]],
        block: Ints,
        allocatable: Callable[[str], Ints],
        holdings: Sequence[Collection[Holding]],
    ) -> None:
        super().__init__(codes.kinds, codes.type_names, codes._fields)
        self.cards = cards
        """The cards of each row, as registered."""
        self.allocatable = allocatable
        """Returns int64[R]: how much of a resource is allocatable on each node."""
        self.holdings = holdings
        """What the pods on each row hold."""
        self.preferred: Bools | None = None
        """bool[R, D]: feasible cards that are picked before all others; None: no card."""
        self.block = block
        """int64[R, F, D]: all fields that change, as the kernels read them."""
        self.kind, self.memory_used, self.cores_used, self.slots_used = block[:, : len(FIELDS)].transpose(1, 0, 2)
        self.state: dict[str, Ints] = {name: block[:, at] for at, name in enumerate(self._fields) if at >= len(FIELDS)}
        """int64[R, D] for each name in ``state`` of a family: what the family counts besides the amounts."""

    @cached_property
    def mode(self) -> Ints:
        """Codes, 0: no card."""
        return np.take(self.kinds.mode, self.kind)

    @cached_property
    def type(self) -> Ints:
        """Codes."""
        return np.take(self.kinds.type, self.kind)

    @cached_property
    def memory(self) -> Ints:
        """MiB."""
        return np.take(self.kinds.memory, self.kind)

    @cached_property
    def cores(self) -> Ints:
        """Percent or AI cores."""
        return np.take(self.kinds.cores, self.kind)

    @cached_property
    def slots(self) -> Ints:
        """The number of containers that may share a card."""
        return np.take(self.kinds.slots, self.kind)

    @cached_property
    def network(self) -> Ints:
        """As in :class:`~deviceshare.model.Card`."""
        return np.take(self.kinds.network, self.kind)

    @cached_property
    def healthy(self) -> Bools:
        """Whether the device plugin reports the card as healthy."""
        return np.take(self.kinds.healthy != 0, self.kind)

    @cached_property
    def usable(self) -> Bools:
        """Whether a card may get pods: healthy, and not cordoned."""
        return np.take(self.kinds.usable, self.kind)

    def copy(self) -> "CardView":
        """Return an independent copy of the view."""
        return CardView(self, self.cards, self.block.copy(), self.allocatable, self.holdings)

    def part(self, rows: Ints) -> "CardView":
        """Return an independent copy of some rows (int64, their numbers)."""
        if len(rows) == len(self.block):
            return self.copy()
        return CardView(
            self,
            _Rows(self.cards.__getitem__, rows),
            self.block[rows],
            lambda name: self.allocatable(name)[rows],
            _Rows(self.holdings.__getitem__, rows),
        )

    def of_mode(self, mode: str) -> Bools:
        """Return bool[R, D]: the cards with this mode."""
        return np.take(self.kinds.of_mode(mode), self.kind)

    def of_modes(self, modes: Iterable[str]) -> Bools:
        """Return bool[R, D]: the cards with one of these modes."""
        wanted = np.zeros(len(self.kinds), dtype=np.bool_)
        for mode in modes:
            wanted |= self.kinds.of_mode(mode)
        return np.take(wanted, self.kind)

    def with_ids(self, ids: Sequence[str]) -> Bools:
        """Return bool[R, D]: the cards with one of these ids."""
        found = np.zeros(self.kind.shape, dtype=np.bool_)
        wanted = frozenset(ids)
        for row, cards in enumerate(self.cards):
            for column, card in enumerate(cards):
                found[row, column] = card.id in wanted
        return found


class CardTable(Codes):
    """The cards of the whole cluster and their usage.

    ``state`` names what families count of a card besides the amounts (:attr:`Family.state`).
    """

    def __init__(self, state: Iterable[str] = ()) -> None:
        super().__init__(CardKinds(), [""], (*FIELDS, *state))
        self.cards: list[tuple[Card, ...]] = []
        self._of_type: Counter[str] = Counter()
        self.version = 0
        """Grows whenever a code is added or a type comes or goes."""
        self.types_version = 0
        """The number of times that the first card of a type was added, or the last card of a type removed."""
        self.models: Ints = np.zeros(0, dtype=np.int64)
        """For each row the code of the model of the node's whole devices, which kubelet allocates and which have no
        columns; 0 where it is not known."""
        # At least one column, so that kernels can look for the first card of a row although no node has cards.
        self.block: Ints = np.zeros((0, len(self._fields), 1), dtype=np.int64)
        """int64[rows, fields, columns]: the fields of a row are contiguous, as a kernel reads them."""
        self.charges = CardCharges(self.block)
        self.charges.models = self.models
        self._orders: dict[tuple[int, int, int], CardOrder] = {}
        """By policy, as in :class:`~deviceshare.kernels.card_order.CardOrder`."""

    def order(self, by_memory: int, by_shares: int, by_column: int) -> CardOrder:
        """Return the cards of each row in the order of a policy."""
        key = (by_memory, by_shares, by_column)
        if key not in self._orders:
            self._orders[key] = CardOrder(self.charges, *key)
        return self._orders[key]

    @property
    def rows(self) -> int:
        """The number of rows that are allocated."""
        return len(self.block)

    def set_cards(self, row: int, cards: tuple[Card, ...]) -> None:
        """Set the cards of a row, with nothing in use."""
        while len(self.cards) <= row:
            self.cards.append(())
        self._reserve(row + 1, len(cards))
        self._count_types((card.type for card in self.cards[row]), (card.type for card in cards))
        self.cards[row] = cards
        self.block[row] = 0
        kinds = len(self.kinds)
        self.block[row, KIND, : len(cards)] = [self.kinds.code(card) for card in cards]
        self.version += len(self.kinds) - kinds

    def set_model(self, row: int, model: str) -> None:
        """Set the model of a node's whole devices, '' where it is not known or the node has none."""
        self._reserve(row + 1, 1)
        self._count_types((self.kinds.types.names[self.models[row]],), (model,))
        self.models[row] = self.kinds.types.code(model)

    def _count_types(self, before: Iterable[str], after: Iterable[str]) -> None:
        self._of_type.subtract(before)
        for name in after:
            self.kinds.types.code(name)
            self._of_type[name] += 1
        names = [name if self._of_type[name] > 0 else "" for name in self.kinds.types.names]
        if names != self.type_names:
            self.type_names = names
            self.types_version += 1
            self.version += 1

    def column(self, row: int, name: str, index: int) -> int:
        """Return the column of a card by its id, -1 where the row does not have it. Looks at ``index`` first."""
        cards = self.cards[row]
        if 0 <= index < len(cards) and cards[index].id == name:
            return index
        for column, card in enumerate(cards):
            if card.id == name:
                return column
        return -1

    def put(self, row: int, column: int, usage: Usage, state: Mapping[str, int]) -> None:
        """Overwrite usage and state of a card."""
        self.charges.set_usage(row, column, *usage)
        for name, value in state.items():
            self.charges.put(row, self._fields.index(name), column, value)

    def used(self, row: int) -> list[Usage]:
        """Return the usage of each card of a row."""
        taken = self.block[row][[MEMORY_USED, CORES_USED, SLOTS_USED], : len(self.cards[row])]
        return [Usage(*each) for each in taken.T.tolist()]

    def state(self, row: int, name: str) -> list[int]:
        """Return a value of a family's ``state`` for each card of a row."""
        values: list[int] = self.block[row, self._fields.index(name), : len(self.cards[row])].tolist()
        return values

    def view(
        self, rows: Ints, allocatable: Callable[[str], Ints], holdings: Callable[[int], Collection[Holding]]
    ) -> CardView:
        """Return a copy of some rows, with what is allocatable and held there."""
        cards = _Rows(self.cards.__getitem__, rows)
        return CardView(self, cards, self.block[rows], allocatable, _Rows(holdings, rows))

    def _reserve(self, rows: int, columns: int) -> None:
        has_rows, _, has_columns = self.block.shape
        if rows <= has_rows and columns <= has_columns:
            return
        room = max(rows, has_rows + has_rows // 4, 16) if rows > has_rows else has_rows
        block = np.zeros((room, len(self._fields), max(columns, has_columns)), dtype=np.int64)
        block[:has_rows, :, :has_columns] = self.block
        self.block = self.charges.block = block
        self.models = self.charges.models = np.pad(self.models, (0, room - len(self.models)))


class _Rows(Sequence[_T]):
    """A value for each of some rows, looked up lazily."""

    def __init__(self, look_up: Callable[[int], _T], rows: Ints) -> None:
        self._look_up = look_up
        self._rows = rows

    def __getitem__(self, index: Any) -> Any:
        return self._look_up(int(self._rows[index]))

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[_T]:
        return (self._look_up(row) for row in self._rows.tolist())
