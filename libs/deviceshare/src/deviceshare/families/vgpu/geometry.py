"""MIG geometries: the partitions of a card model, and the instance of a geometry that a container gets.

A *geometry* is one partition of a whole card, a ``group`` of ``device-config.yaml``. Its instances are numbered by
their position in the group, in the file's order. A card in use keeps its geometry; an unused card can take any. Sizes
are MiB in the unit of requests: the sizes of the file, divided by ``gpuMemoryFactor``.

Source: Volcano pkg/scheduler/api/devices/nvidia/vgpu/mig.go. Deviations from Volcano: an instance is
never allocated twice, and all instances of a geometry are offered.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from deviceshare.families.vgpu.section import MAX_INSTANCES, MigModel, VgpuConf

UNUSED, MIXED_UP = 0, -1
"""The states of an unpartitioned card, and of a card whose pods hold inconsistent instances: it is not used."""

Wanted = tuple[tuple[int, int], ...]
"""Requests for instances: MiB, and the number of cards."""


class Geometry(NamedTuple):
    """One partition of a card: by position the MiB of its instances, and the instances as in pod annotations."""

    sizes: tuple[int, ...]
    texts: tuple[str, ...]
    """``group-position``."""


class Cut(NamedTuple):
    """An instance of an unused card: ``cut`` is the number of the geometry (from 1), ``size`` MiB are charged."""

    cut: int
    position: int
    size: int


class Geometries:
    """All geometries of a model, in the file's order."""

    def __init__(self, model: MigModel, factor: int) -> None:
        self.all = tuple(
            Geometry(sizes, tuple(f"{group.name}-{position}" for position in range(len(sizes))))
            for group in model.groups
            for sizes in [
                tuple(each.memory // factor for each in group.instances for _ in range(each.count))[:MAX_INSTANCES]
            ]
        )
        self._kinds = sorted({size for each in self.all for size in each.sizes})
        self.largest = self._kinds[-1] if self._kinds else 0
        self._whole = max((each.sizes[0] for each in self.all if len(each.sizes) == 1), default=None)
        self._instances = {
            text: (number, position)
            for number, each in reversed(list(enumerate(self.all, 1)))
            for position, text in enumerate(each.texts)
        }

    def of(self, cut: int) -> Geometry:
        """Return a geometry by its number."""
        return self.all[cut - 1]

    def largest_free(self, cut: int, used: int) -> int:
        """Return the MiB of the largest free instance of a card, 0 for none; ``used`` has a bit for each position."""
        if cut == UNUSED:
            return self.largest
        if cut == MIXED_UP:
            return 0
        return max((size for at, size in enumerate(self.of(cut).sizes) if not used >> at & 1), default=0)

    def find(self, detail: str) -> tuple[int, int] | None:
        """Return number and position for ``group-position``; None where the model has no such instance."""
        found = self._instances.get(detail)
        if found is not None:
            return found
        name, _, digits = detail.rpartition("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= len(str(MAX_INSTANCES))):
            return None
        return self._instances.get(f"{name}-{int(digits)}")

    def needed(self, asked: int, *, whole: bool) -> int:
        """Return the MiB that an instance must have.

        A request for the ``whole`` card gets the instance that is a geometry by itself, since MIG reserves a part of
        the card's memory (A100-80GB: 81920 MiB registered, 80896 MiB in ``7g.79gb``).
        """
        return asked if not whole or self._whole is None else min(asked, self._whole)

    def use(self, wanted: Wanted) -> Mapping[int, int]:
        """Return for each size of instance the requested MiB for which it is the smallest sufficient size."""
        use: Counter[int] = Counter()
        for memory, count in wanted:
            kind = bisect_left(self._kinds, memory)
            if kind < len(self._kinds):
                use[self._kinds[kind]] += memory * count
        return use


@lru_cache(maxsize=4096)
def geometries_of(vgpu: VgpuConf, card_type: str) -> Geometries | None:
    """Return the geometries of the first model whose name is part of the card type, as in Volcano, or None."""
    for model in vgpu.geometries:
        if any(name in card_type for name in model.models):
            return Geometries(model, max(vgpu.memory_factor, 1))
    return None


@lru_cache(maxsize=4096)
def rounded_up(vgpu: VgpuConf, memory: int) -> int:
    """Return the size of the smallest instance of any model with at least ``memory`` MiB; ``memory`` without one.

    Requests with the same result get the same instances on every model. 0 is not rounded.
    """
    if not memory:
        return 0
    every = (Geometries(model, max(vgpu.memory_factor, 1)) for model in vgpu.geometries)
    sizes = {size for geometries in every for each in geometries.all for size in each.sizes if size >= memory}
    return min(sizes, default=memory)


@lru_cache(maxsize=4096)
def first_cut(geometries: Geometries, needed: int, later: Wanted, first_fit: bool) -> Cut | None:
    """Return how to partition an unused card for a container, None if no geometry has an instance for it.

    Args:
        geometries: the geometries of the card's model.
        needed: the MiB that the instance must have.
        later: the requests of the pod's later containers, which may need instances of the same card.
        first_fit: choose the first geometry with a sufficient instance (Volcano's rule) instead of the least waste.
    """
    best: Cut | None = None
    most, use = 0, geometries.use(later)
    for number, (sizes, _) in enumerate(geometries.all, 1):
        able = [(size, at) for at, size in enumerate(sizes) if size >= needed]
        if not able:
            continue
        size, position = min(able)
        if first_fit:
            return Cut(number, position, size)
        left = sum(use.get(each, 0) for each in sizes) - use.get(size, 0)
        if best is None or (best.size, -most) > (size, -left):
            best, most = Cut(number, position, size), left
    return best


@lru_cache(maxsize=4096)
def recut(geometries: Geometries, cut: int, positions: frozenset[int], wanted: Wanted) -> tuple[int, Mapping[int, int]]:
    """Return the best geometry for an unused card, and its positions by the equivalent ``positions`` of ``cut``.

    The geometry has instances of the same sizes, and its other instances serve the most MiB of ``wanted``. Ties break
    by the given geometry, then by the order of the file.
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
