"""The index of inter-pod constraints, kept up to date row by row, against the pass over all rows and plain formulas."""

from math import log

import numpy as np
from deviceshare.kernels import NEVER, Best, Changes, RowScan, TieOrder, TopologyIndex, TopologyTerm
from hypothesis import given
from hypothesis import strategies as st

ROWS = 150
"""More than two blocks."""
ZONES = 4
LEVELS = 32


class Cluster:
    """Rows with scores, zones and pods, and the index of two filters and two scores."""

    def __init__(self, seed: int, kinds: str) -> None:
        self.chance = np.random.default_rng(seed)
        self.changes = Changes()
        self.changes.grow(ROWS)
        order = TieOrder()
        order.ranks = self.chance.permutation(ROWS)
        self.best = Best(order)
        self.best.grow(ROWS)
        self.zone = self.chance.integers(0, ZONES, ROWS)
        self.host = np.where(self.chance.random(ROWS) < 0.1, 0, np.arange(1, ROWS + 1))
        self.in_zone = np.zeros(ZONES, dtype=np.int64)
        self.on_host = np.zeros(ROWS + 1, dtype=np.int64)
        self.on_row = np.zeros(ROWS, dtype=np.int64)
        self.kinds = kinds
        apart = TopologyTerm(self.on_host, self.host, by_row=True)
        apart.cap = 1
        skewed = TopologyTerm(self.in_zone, self.zone, by_row=False)
        skewed.least, skewed.most = 0, 3
        self.skewed = skewed
        nearby = [self.by_zone(), TopologyTerm(self.on_host, self.host, by_row=True)]
        nearby[0].points, nearby[1].points = 7.0, -3.0
        spread = [self.by_zone(), TopologyTerm(self.on_row, self.host, by_row=True, of_rows=True)]
        spread[0].marks = np.zeros(ZONES, dtype=np.uint8)
        spread[1].more = 2.0
        filters = [term for kind, term in (("a", apart), ("s", skewed)) if kind in kinds]
        grouped = [term for term in (*filters, *nearby, *spread) if not term.by_row]
        for term in grouped:
            term.of_group = np.arange(ZONES)
        args = (filters, nearby if "n" in kinds else [], spread if "p" in kinds else [], 2.0, 3.0)
        self.index = TopologyIndex(self.best, self.zone.copy(), ZONES, LEVELS, *args)
        for row in range(ROWS):
            self.set_key(row)

    def by_zone(self) -> TopologyTerm:
        return TopologyTerm(self.in_zone, self.zone, by_row=False)

    def set_key(self, row: int) -> None:
        # Scores one step of the last bit apart have equal sums with others.
        base = float(self.chance.integers(0, 3))
        key = NEVER if self.chance.random() < 0.2 else float(np.nextafter(base, base + self.chance.integers(0, 2)))
        self.best.put(row, key, float(self.chance.integers(0, 2)) if "w" in self.kinds else 0.0)
        self.changes.touch(row)

    def add_pods(self, row: int, pods: int) -> None:
        if self.on_row[row] + pods < 0:
            return
        self.on_row[row] += pods
        if self.zone[row]:
            self.in_zone[self.zone[row]] += pods
        if self.host[row]:
            self.on_host[self.host[row]] += pods
        self.changes.touch(row)

    def change(self) -> None:
        row = int(self.chance.integers(0, ROWS))
        kind = self.chance.integers(0, 4)
        if kind == 0:
            self.set_key(row)
        elif kind == 1:
            self.skewed.most = int(self.chance.integers(0, 6))
        else:
            self.add_pods(row, int(self.chance.choice((1, 1, -1))))

    def scanned(self) -> tuple[RowScan, int]:
        """Pass over all rows."""
        scan = RowScan()
        scan.start(self.best.keys)
        if "a" in self.kinds:
            scan.exclude(self.host, (self.on_host > 0).astype(np.uint8))
        if "s" in self.kinds:
            skewed = (self.in_zone > self.skewed.most).astype(np.uint8)
            skewed[0] = 1
            scan.exclude(self.zone, skewed)
        if "n" in self.kinds:
            scan.clear()
            scan.add(self.zone, np.asarray(self.in_zone * 7.0, dtype=np.float64))
            scan.add(self.host, np.asarray(self.on_host * -3.0, dtype=np.float64))
            scan.add_highest(2.0)
        if "p" in self.kinds:
            scan.clear()
            scan.skip(self.zone)
            scan.skip(self.host)
            marks = np.zeros(ZONES, dtype=np.uint8)
            rows = scan.mark(self.zone, marks)
            scan.add(self.zone, np.asarray(self.in_zone * log(int(marks.sum()) + 2), dtype=np.float64))
            scan.add_counts(self.on_row, log(rows + 2), 2.0)
            scan.add_lowest(3.0)
        return scan, scan.best(self.best)


@given(st.integers(0, 1 << 32), st.sets(st.sampled_from("asnpw")), st.integers(1, 30))
def test_the_index_finds_what_a_pass_over_all_rows_finds(seed: int, kinds: set[str], steps: int) -> None:
    cluster = Cluster(seed, "".join(sorted(kinds)))
    for _ in range(steps):
        for _ in range(int(cluster.chance.integers(1, 20))):
            cluster.change()
        cluster.index.refresh(cluster.changes)
        assert not cluster.index.overflow
        row = cluster.index.find()
        scan, expected = cluster.scanned()
        assert (row, cluster.index.feasible) == (expected, scan.able)
        assert cluster.index.total == (scan.totals[expected] if expected >= 0 else NEVER)


def test_too_many_levels_are_noticed() -> None:
    cluster = Cluster(1, "n")
    rows = [row for row in range(ROWS) if cluster.host[row] and cluster.best.keys[row] != NEVER]
    for pods, row in enumerate(rows[: LEVELS + 1]):
        cluster.add_pods(row, pods)
    cluster.index.refresh(cluster.changes)
    assert cluster.index.overflow
