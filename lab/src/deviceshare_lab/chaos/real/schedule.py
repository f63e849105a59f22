"""Which faults a run injects, and when: groups of faults, drawn from a seed."""

import math
import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

SHORT_GROUP = 8.0
"""Seconds in which the faults of a group without lasting ones begin, at most."""
LASTING = 3, 6
"""Lasting faults of a group that has any: the least and the most that are drawn."""
MOST = 16
"""Faults of a group, at most."""
SETTLING = 4.0
"""Seconds between two groups, about: the system settles."""


class Kind(NamedTuple):
    """What the schedule has to know about a kind of fault."""

    weight: int
    """How often it occurs in a cycle of the deck."""
    lasts: bool
    """Whether it has a duration."""
    server: str = ""
    """The server that it takes away for its duration; a group has one such fault for each server."""


class Planned(NamedTuple):
    """A fault of a group."""

    kind: str
    after: float
    """Seconds after the start of the group."""
    seconds: float
    """How long it lasts, 0 unless its kind lasts."""
    seed: float
    """Chooses what it hits."""


class Deck:
    """Kinds of faults, drawn without replacement.

    A cycle has each kind ``weight`` times. The first begins with each kind once: all are among the first ``len(kinds)``
    faults.
    """

    def __init__(self, kinds: Mapping[str, Kind], chance: random.Random) -> None:
        self._kinds, self._chance = kinds, chance
        self._parts: list[list[str]] = []
        self._first = True

    def draw(self, count: int, lasting: int) -> list[str]:
        """Draw so many faults, with at most ``lasting`` lasting ones; fewer if the deck has only lasting ones left."""
        drawn: list[str] = []
        while len(drawn) < count:
            if not self._parts:
                once = sorted(self._kinds)
                others = [name for name in once for _ in range(self._kinds[name].weight - 1)]
                self._chance.shuffle(once)
                self._chance.shuffle(others)
                parts = [once, others] if self._first else [once + others]
                self._parts, self._first = [part for part in parts if part], False
            part = self._parts[0]
            taken = next((name for name in part if self._fits(name, drawn, lasting)), None)
            if taken is None:
                break
            part.remove(taken)
            drawn.append(taken)
            if not part:
                self._parts.pop(0)
        return drawn

    def put_back(self, kind: str) -> None:
        """Return a fault that had no effect: it is drawn again before all others."""
        self._parts.insert(0, [kind])

    def _fits(self, name: str, drawn: Sequence[str], lasting: int) -> bool:
        kind = self._kinds[name]
        if not kind.lasts:
            return True
        others = [other for other in drawn if self._kinds[other].lasts]
        return len(others) < lasting and not (kind.server and any(self._kinds[o].server == kind.server for o in others))


class Schedule:
    """Draws the groups of a run.

    Half of the groups have lasting faults, which overlap, and others meanwhile; the others have none, so that the
    system has to recover from each of them. ``pace``: seconds between two faults, on average.
    """

    def __init__(self, kinds: Mapping[str, Kind], longest: float, pace: float, chance: random.Random) -> None:
        self._kinds, self._longest, self._pace, self._chance = kinds, longest, pace, chance
        self.deck = Deck(kinds, random.Random(chance.random()))

    def group(self, elapsed: float, count: int, most: int) -> list[Planned]:
        """Draw a group of at most ``most`` faults, when ``count`` faults have been injected in ``elapsed`` seconds."""
        chance = self._chance
        lasting = chance.randint(*LASTING) if chance.random() < 0.5 else 0
        expected = self._longest if lasting else SHORT_GROUP / 2
        due = math.ceil((elapsed + expected + SETTLING) / self._pace) - count
        size = min(most, MOST, max(due, chance.randint(1, 4)))
        drawn = self.deck.draw(size, lasting) or self.deck.draw(size, LASTING[1])
        lengths = [
            chance.uniform(self._longest / 6, self._longest) if self._kinds[name].lasts else 0.0 for name in drawn
        ]
        whole = max(lengths) or chance.uniform(0.0, min(SHORT_GROUP, self._longest))
        return [
            Planned(name, chance.uniform(0.0, whole - seconds), seconds, chance.random())
            for name, seconds in zip(drawn, lengths, strict=True)
        ]
