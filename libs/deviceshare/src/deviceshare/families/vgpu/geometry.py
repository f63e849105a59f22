"""How MIG cards can be cut: the geometries of a model, and which instance of them a container gets.

A *geometry* is one way of cutting a whole card, a ``group`` of ``device-config.yaml``. Its instances are known by their
position, counted over the group in the file's order. A card in use keeps its geometry; an empty one is free to take
any. Sizes are MiB as pods ask them: the file's, divided by ``gpuMemoryFactor``.

Source: Volcano pkg/scheduler/api/devices/nvidia/vgpu/mig.go. Where Volcano is wrong we differ: an instance is never
given twice, and all kinds of instance of a geometry are offered.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from deviceshare.conf.device_model import MOST_INSTANCES, MigModel, VgpuConf

UNUSED, MIXED_UP = 0, -1
"""States of a card that is not cut, and of one whose pods hold what does not go together: nothing is given there."""

Wanted = tuple[tuple[int, int], ...]
"""What is asked beside: MiB, and how often."""


class Geometry(NamedTuple):
    """One way of cutting a card: ``sizes`` are those of its instances, by position."""

    name: str
    sizes: tuple[int, ...]


class Offer(NamedTuple):
    """An instance for a container: ``cut`` is the number of the geometry (from 1), ``size`` MiB are charged.

    ``fresh``: the card is not cut yet. ``reused``: the pod has the instance already, and nothing more is charged.
    """

    cut: int
    position: int
    size: int
    waste: int
    fresh: bool = False
    reused: bool = False


class Geometries:
    """All geometries of a model, in the file's order."""

    def __init__(self, model: MigModel, factor: int) -> None:
        self.all = tuple(
            Geometry(
                group.name,
                tuple(each.memory // factor for each in group.instances for _ in range(each.count))[:MOST_INSTANCES],
            )
            for group in model.groups
        )
        self._kinds = sorted({size for each in self.all for size in each.sizes})
        self.largest = self._kinds[-1] if self._kinds else 0
        self._whole = max((each.sizes[0] for each in self.all if len(each.sizes) == 1), default=None)
        self._numbers = {each.name: number for number, each in reversed(list(enumerate(self.all, 1)))}

    def of(self, cut: int) -> Geometry:
        """Return a geometry by its number."""
        return self.all[cut - 1]

    def find(self, detail: str) -> tuple[int, int] | None:
        """Return number and position for ``group-position``; None for what this model does not have."""
        name, _, digits = detail.rpartition("-")
        cut = self._numbers.get(name)
        if cut is None or not (digits.isascii() and digits.isdecimal() and len(digits) <= len(str(MOST_INSTANCES))):
            return None
        return (cut, int(digits)) if int(digits) < len(self.of(cut).sizes) else None

    def needed(self, asked: int, *, whole: bool) -> int:
        """Return the size that an instance must have.

        Where all of a card is asked that is the instance which is a geometry by itself: MIG keeps a part of the card's
        memory for its own use (A100-80GB: 81920 MiB registered, 80896 in ``7g.79gb``).
        """
        return asked if not whole or self._whole is None else min(asked, self._whole)

    def use(self, wanted: Wanted) -> Mapping[int, int]:
        """Return for each size of instance the MiB asked for which it is the smallest that is large enough."""
        use: Counter[int] = Counter()
        for memory, count in wanted:
            kind = bisect_left(self._kinds, memory)
            if kind < len(self._kinds):
                use[self._kinds[kind]] += memory * count
        return use

    def text(self, cut: int, position: int) -> str:
        """Return the instance as it stands on pods: ``group-position``."""
        return f"{self.of(cut).name}-{position}"


@lru_cache(maxsize=4096)
def geometries_of(vgpu: VgpuConf, card_type: str) -> Geometries | None:
    """Return how cards of a type can be cut: the first model that is a part of the type, as Volcano; None for none."""
    for model in vgpu.geometries:
        if any(name in card_type for name in model.models):
            return Geometries(model, max(vgpu.memory_factor, 1))
    return None


@lru_cache(maxsize=65536)
def offer(
    geometries: Geometries, cut: int, used: int, own: int, needed: int, later: Wanted, first_fit: bool
) -> Offer | None:
    """Return the instance for a container on a card, None where there is none.

    Args:
        geometries: those of the card's model.
        cut: the number of the card's geometry, :data:`UNUSED` or :data:`MIXED_UP`.
        used: which positions are taken, a bit each.
        own: those of them that the same pod has already and this container may use as well.
        needed: the MiB that it must have.
        later: what the pod's other containers may have to find on the card.
        first_fit: on an unused card the first geometry that has a large enough instance (Volcano's rule), not that
            with the least waste.
    """
    if cut == MIXED_UP:
        return None
    if cut != UNUSED:
        sizes = geometries.of(cut).sizes
        found = _smallest(sizes, own, needed)
        reused = found is not None
        if found is None:
            found = _smallest(sizes, ~used, needed)
        if found is None:
            return None
        return Offer(cut, found, sizes[found], 0 if reused else sizes[found] - needed, reused=reused)
    best: Offer | None = None
    most, use = 0, geometries.use(later)
    for number, (_, sizes) in enumerate(geometries.all, 1):
        position = _smallest(sizes, -1, needed)
        if position is None:
            continue
        size = sizes[position]
        if first_fit:
            return Offer(number, position, size, size - needed, fresh=True)
        left = sum(use.get(each, 0) for each in sizes) - use.get(size, 0)
        if best is None or (best.size, -most) > (size, -left):
            best, most = Offer(number, position, size, size - needed, fresh=True), left
    return best


def largest_free(geometries: Geometries, cut: int, used: int) -> int:
    """Return the largest instance that a card could still give, 0 for none."""
    if cut == MIXED_UP:
        return 0
    if cut == UNUSED:
        return geometries.largest
    return max((size for at, size in enumerate(geometries.of(cut).sizes) if not used >> at & 1), default=0)


def recut(geometries: Geometries, cut: int, positions: Iterable[int], wanted: Wanted) -> tuple[int, dict[int, int]]:
    """Return the geometry that an unused card had best be cut by, and which positions stand there for these.

    It has instances of the same sizes, and leaves most of use for what is wanted; of equal ones the given one, then
    the first in the file.
    """
    sizes, use = geometries.of(cut).sizes, geometries.use(wanted)
    best, most, moved = cut, -1, dict[int, int]()
    for number in (cut, *range(1, len(geometries.all) + 1)):
        other = geometries.of(number).sizes
        places, rest = dict[int, int](), list(enumerate(other))
        for position in sorted(positions):
            same = next((each for each in rest if each[1] == sizes[position]), None)
            if same is None:
                break
            rest.remove(same)
            places[position] = same[0]
        else:
            if (left := sum(use.get(size, 0) for _, size in rest)) > most:
                best, most, moved = number, left, places
    return best, moved


def _smallest(sizes: tuple[int, ...], allowed: int, needed: int) -> int | None:
    """Return the position of the smallest instance that is large enough, of those whose bit is set."""
    able = [(size, at) for at, size in enumerate(sizes) if size >= needed and allowed >> at & 1]
    return min(able)[1] if able else None
