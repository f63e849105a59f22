"""The best row for a pod class whose feasible rows and scores depend on pods in domains, kept up to date row by row.

Rows for which all constraints count the same pods form a *cell*: they are in the same domains that have several rows
(a *group*), and the same numbers of pods count for each of them alone (a *level*). Constraints exclude a cell as a
whole, or add the same to each of its scores. So the rows of a cell are ranked by their scores alone, and a change
concerns the row that changed; what domains count is read when the best row is looked for.
"""

from math import log

import numpy as np
from numpy.typing import NDArray

from deviceshare.kernels.arrays import Floats, Ints, Mask
from deviceshare.kernels.best import Best
from deviceshare.kernels.changes import Changes
from deviceshare.kernels.constants import NEVER, UNLABELLED
from deviceshare.kernels.topology_term import TopologyTerm

_BITS = 6
"""A block has up to 64 rows of one group."""
MAX_LEVELS = 32


class TopologyIndex:
    """The rows of a ranking by group, and the best row of each block and level.

    Args:
        best: the scores of the ranking, and how ties break.
        of_row: int64[rows], the group of each row.
        groups: the number of groups.
        levels: how many levels are allocated, at most :data:`MAX_LEVELS`.
        filters: the terms that make rows infeasible.
        nearby: the terms of the score of inter-pod affinity; ``nearby_weight`` is its weight.
        spread: likewise of topology spread.
    """

    def __init__(
        self,
        best: Best,
        of_row: Ints,
        groups: int,
        levels: int,
        filters: list[TopologyTerm],
        nearby: list[TopologyTerm],
        spread: list[TopologyTerm],
        nearby_weight: float,
        spread_weight: float,
    ) -> None:
        rows = len(of_row)
        self.best = best
        self.seen = -1
        """The number of the change as of which it knows the rows."""
        self.groups = groups
        self.levels = levels
        self.used = 0
        """The number of levels in use."""
        self.overflow = False
        """Whether more levels would have been necessary: the index is of no use."""
        self.filters, self.nearby, self.spread = filters, nearby, spread
        self.nearby_weight, self.spread_weight = nearby_weight, spread_weight
        self.by_row = [term for term in (*filters, *nearby, *spread) if term.by_row]
        for slot, term in enumerate(self.by_row):
            term.slot = slot
        self.counted: Ints = np.zeros((levels + 1, len(self.by_row)), dtype=np.int64)
        """int64[levels + 1, terms]: the number of pods for each term by row; the last row is scratch."""
        self.group_of: Ints = of_row
        sizes = np.bincount(of_row, minlength=groups)
        blocks = np.zeros(groups + 1, dtype=np.int64)
        blocks[1:] = np.cumsum((sizes + (1 << _BITS) - 1) >> _BITS)
        self.first: Ints = blocks
        """int64[groups + 1]: the first block of each group."""
        count = int(blocks[groups])
        places = count << _BITS
        order = np.argsort(of_row, kind="stable")
        place = np.zeros(rows, dtype=np.int64)
        in_order = of_row[order]
        place[order] = (blocks[in_order] << _BITS) + np.arange(rows) - (np.cumsum(sizes) - sizes)[in_order]
        self.place: Ints = place
        """int64[rows]: the place of each row, counted in rows of blocks."""
        row_at = np.zeros(places, dtype=np.int32)
        row_at[place] = np.arange(rows)
        self.row_at: NDArray[np.int32] = row_at
        """int32[places]: the row in each place."""
        self.keys: Floats = np.full(places, NEVER)
        self.level_of: Mask = np.zeros(places, dtype=np.uint8)
        self.stale: Mask = np.ones(count, dtype=np.uint8)
        """uint8[blocks]: where the following are out of date."""
        self.tops: Floats = np.full((count, levels), NEVER)
        """float64[blocks, levels]: the highest score of the block's rows of a level."""
        self.nexts: Floats = np.full((count, levels), NEVER)
        """No score of these rows that is below the highest one is above this."""
        self.winners: NDArray[np.int32] = np.zeros((count, levels), dtype=np.int32)
        """int32[blocks, levels]: the best of these rows."""
        self.able: Ints = np.zeros((groups, levels), dtype=np.int64)
        """int64[groups, levels]: the number of rows that the ranking finds feasible."""
        self.feasible = 0
        """The number of feasible rows, as of the last call of :meth:`find`."""
        self.total = NEVER
        """The total score of the row that it returned."""
        self.open: Mask = np.zeros((groups, levels), dtype=np.uint8)
        self.near: Floats = np.zeros((groups, levels))
        self.far: Floats = np.zeros((groups, levels))
        """[groups, levels], scratch: whether a cell is feasible (2: and topology spread scores it), and its scores."""

    def refresh(self, changes: Changes) -> None:
        """Bring the rows up to date that changed."""
        count = changes.since(self.seen)
        self.seen = changes.now
        for at in range(count):
            self.put(changes.found[at])

    def level(self, row: int) -> int:
        """Return the level of a row."""
        terms = len(self.by_row)
        if terms == 0:
            self.used = 1
            return 0
        for at in range(terms):
            term = self.by_row[at]
            self.counted[self.levels, at] = term.of(row)
        for level in range(self.used):
            same = True
            for at in range(terms):
                if self.counted[level, at] != self.counted[self.levels, at]:
                    same = False
                    break
            if same:
                return level
        if self.used == self.levels:
            self.overflow = True
            return 0
        for at in range(terms):
            self.counted[self.used, at] = self.counted[self.levels, at]
        self.used += 1
        return self.used - 1

    def put(self, row: int) -> None:
        """Read the score and the level of a row."""
        place = self.place[row]
        block, group = place >> _BITS, self.group_of[row]
        before, key = self.keys[place], self.best.keys[row]
        if before == NEVER and key == NEVER:
            return
        was = self.level_of[place]
        level = self.level(row) if key != NEVER else was
        if before != NEVER:
            self.able[group, was] -= 1
        if key != NEVER:
            self.able[group, level] += 1
        self.keys[place] = key
        self.level_of[place] = level
        if self.stale[block]:
            return
        if before != NEVER and self.winners[block, was] == row and before == self.tops[block, was]:
            if level != was or key < before or self.best.wasteful:
                self.stale[block] = 1
                return
            if key > before:
                self.nexts[block, level] = before
                self.tops[block, level] = key
            return
        if key == NEVER:
            return
        top = self.tops[block, level]
        if key > top:
            self.nexts[block, level] = top
            self.tops[block, level] = key
            self.winners[block, level] = row
        elif key == top:
            if self.best.precedes(row, self.winners[block, level]):
                self.winners[block, level] = row
        elif key > self.nexts[block, level]:
            self.nexts[block, level] = key

    def compare(self, block: int) -> None:
        """Find the best rows of a block."""
        for level in range(self.used):
            self.tops[block, level] = NEVER
            self.nexts[block, level] = NEVER
        for place in range(block << _BITS, (block + 1) << _BITS):
            key = self.keys[place]
            if key == NEVER:
                continue
            level = self.level_of[place]
            top = self.tops[block, level]
            if key > top:
                self.nexts[block, level] = top
                self.tops[block, level] = key
                self.winners[block, level] = self.row_at[place]
            elif key == top:
                if self.best.precedes(self.row_at[place], self.winners[block, level]):
                    self.winners[block, level] = self.row_at[place]
            elif key > self.nexts[block, level]:
                self.nexts[block, level] = key
        self.stale[block] = 0

    def pods(self, term: TopologyTerm, group: int, level: int) -> int:
        """Return the number of pods that a term counts for the rows of a cell."""
        return self.counted[level, term.slot] if term.by_row else term.of_groups(group)

    def find(self) -> int:
        """Return the row with the highest total, -1 where none is feasible; ties break as in the ranking."""
        self.open_cells()
        if len(self.nearby):
            self.score_nearby()
        if len(self.spread):
            self.score_spread()
        best = -1
        most = NEVER
        for group in range(self.groups):
            for level in range(self.used):
                if not self.open[group, level]:
                    continue
                near, far = self.near[group, level], self.far[group, level]
                for block in range(self.first[group], self.first[group + 1]):
                    if self.stale[block]:
                        self.compare(block)
                    top = self.tops[block, level]
                    if top == NEVER:
                        continue
                    total = (top + near) + far
                    if total < most:
                        continue
                    row = self.winners[block, level]
                    # Different scores may have equal totals, as the sum is rounded.
                    if self.nexts[block, level] != NEVER and (self.nexts[block, level] + near) + far == total:
                        row = self.first_of(block, level, total)
                    if total > most or self.best.precedes(row, best):
                        best = row
                        most = total
        self.total = most
        return best

    def first_of(self, block: int, level: int, wanted: float) -> int:
        """Return of the rows of a block and level that have a total score the first one."""
        best: int = self.winners[block, level]
        group = self.group_of[best]
        near, far = self.near[group, level], self.far[group, level]
        for place in range(block << _BITS, (block + 1) << _BITS):
            if self.keys[place] == NEVER or self.level_of[place] != level:
                continue
            if (self.keys[place] + near) + far == wanted and self.best.precedes(self.row_at[place], best):
                best = self.row_at[place]
        return best

    def open_cells(self) -> None:
        """Find the feasible cells, and set their scores to 0."""
        self.feasible = 0
        for group in range(self.groups):
            for level in range(self.used):
                self.open[group, level] = 0
                self.near[group, level] = 0.0
                self.far[group, level] = 0.0
                if self.able[group, level] == 0:
                    continue
                excluded = False
                for at in range(len(self.filters)):
                    term = self.filters[at]
                    if term.excludes(self.pods(term, group, level)):
                        excluded = True
                        break
                if not excluded:
                    self.open[group, level] = 1
                    self.feasible += self.able[group, level]

    def score_nearby(self) -> None:
        """Score inter-pod affinity: 100 for the highest raw score, 0 for the lowest. Raw scores are whole numbers."""
        least = most = 0.0
        first = True
        for group in range(self.groups):
            for level in range(self.used):
                if not self.open[group, level]:
                    continue
                raw = 0.0
                for at in range(len(self.nearby)):
                    term = self.nearby[at]
                    pods = self.pods(term, group, level)
                    if pods > 0:
                        raw += pods * term.points
                self.near[group, level] = raw
                if first or raw < least:
                    least = raw
                if first or raw > most:
                    most = raw
                first = False
        for group in range(self.groups):
            for level in range(self.used):
                if not self.open[group, level]:
                    continue
                points = 0
                if most > least:
                    points = int(100.0 * ((self.near[group, level] - least) / (most - least)))
                self.near[group, level] = self.nearby_weight * points

    def measure_spread(self) -> None:
        """Find the feasible cells that topology spread scores, those with a domain of each term, and its weights."""
        rows = 0
        for at in range(len(self.spread)):
            term = self.spread[at]
            for domain in range(len(term.marks)):
                term.marks[domain] = 0
        for group in range(self.groups):
            for level in range(self.used):
                if not self.open[group, level] or not self.labelled(group, level):
                    continue
                self.open[group, level] = 2
                rows += self.able[group, level]
                for at in range(len(self.spread)):
                    term = self.spread[at]
                    if not term.by_row:
                        term.marks[term.of_group[group]] = 1
        for at in range(len(self.spread)):
            term = self.spread[at]
            size = rows
            if not term.by_row:
                size = 0
                for domain in range(len(term.marks)):
                    size += term.marks[domain]
            term.points = log(size + 2)

    def labelled(self, group: int, level: int) -> bool:
        """Return whether the rows of a cell have a domain of each term of topology spread."""
        for at in range(len(self.spread)):
            term = self.spread[at]
            if self.pods(term, group, level) == UNLABELLED:
                return False
        return True

    def score_spread(self) -> None:
        """Score topology spread: the lower the rounded raw score, the more, at most 100."""
        self.measure_spread()
        least = most = 0.0
        first = True
        for group in range(self.groups):
            for level in range(self.used):
                if self.open[group, level] != 2:
                    continue
                raw = 0.0
                for at in range(len(self.spread)):
                    term = self.spread[at]
                    raw += self.pods(term, group, level) * term.points + term.more
                # Half away from zero, as Go rounds: no value is negative.
                points = int(raw + 0.5)
                raw = points
                self.far[group, level] = raw
                if first or raw < least:
                    least = raw
                if raw > most:
                    most = raw
                first = False
        for group in range(self.groups):
            for level in range(self.used):
                if self.open[group, level] != 2:
                    continue
                points = 100
                if most > 0.0:
                    points = int(100.0 * (most + least - self.far[group, level]) / most)
                self.far[group, level] = self.spread_weight * points
