"""The pass over all rows for inter-pod constraints, against formulas in fractions."""

from fractions import Fraction
from math import floor

import numpy as np
from deviceshare.kernels import NEVER, Best, RowScan, TieOrder
from hypothesis import given
from hypothesis import strategies as st

ROWS = 7
keys = st.lists(st.integers(0, 5).map(float) | st.just(NEVER), min_size=ROWS, max_size=ROWS)
domains = st.lists(st.integers(0, 3), min_size=ROWS, max_size=ROWS)
points = st.lists(st.integers(0, 40), min_size=4, max_size=4)


def scanned(rows, of_row, excluded) -> RowScan:
    scan = RowScan()
    scan.start(np.array(rows))
    scan.exclude(np.array(of_row), np.array(excluded, dtype=np.uint8))
    return scan


@given(keys, domains, st.lists(st.booleans(), min_size=4, max_size=4), st.permutations(range(ROWS)))
def test_the_best_row_has_the_highest_total_and_then_the_lowest_rank(rows, of_row, excluded, ranks) -> None:
    order = TieOrder()
    order.ranks = np.array(ranks)
    best = Best(order)
    best.grow(ROWS)
    scan = scanned(rows, of_row, excluded)
    feasible = [row for row in range(ROWS) if rows[row] != NEVER and not excluded[of_row[row]]]
    expected = min(feasible, key=lambda row: (-rows[row], ranks[row]), default=-1)
    assert scan.best(best) == expected
    assert scan.able == len(feasible)


@given(keys, domains, points)
def test_the_highest_raw_score_gets_100_and_the_lowest_0(rows, of_row, of_domains) -> None:
    scan = scanned(rows, of_row, [0] * 4)
    scan.clear()
    scan.add(np.array(of_row), np.array(of_domains, dtype=np.float64))
    scan.add_highest(2.0)
    raw = {row: of_domains[of_row[row]] for row in range(ROWS) if rows[row] != NEVER}
    for row, value in raw.items():
        least, most = min(raw.values()), max(raw.values())
        part = int(100 * ((value - least) / (most - least))) if most > least else 0
        assert scan.totals[row] == rows[row] + 2 * part


@given(keys, domains, points, st.lists(st.integers(0, 9), min_size=ROWS, max_size=ROWS))
def test_the_lowest_rounded_score_gets_most_and_rows_without_a_domain_nothing(rows, of_row, of_domains, counts) -> None:
    scan = scanned(rows, of_row, [0] * 4)
    scan.clear()
    scan.skip(np.array(of_row))
    marks = np.zeros(4, dtype=np.uint8)
    scored = [row for row in range(ROWS) if rows[row] != NEVER and of_row[row]]
    assert scan.mark(np.array(of_row), marks) == len(scored)
    assert set(np.flatnonzero(marks).tolist()) == {of_row[row] for row in scored}
    scan.add(np.array(of_row), np.array(of_domains) / 4)
    scan.add_counts(np.array(counts), 1.5, 2.0)
    scan.add_lowest(3.0)
    raw = {
        row: floor(Fraction(of_domains[of_row[row]], 4) + Fraction(3, 2) * counts[row] + 2 + Fraction(1, 2))
        for row in scored
    }
    for row in range(ROWS):
        if rows[row] == NEVER:
            assert scan.totals[row] == NEVER
        elif row not in raw:
            assert scan.totals[row] == rows[row]
        else:
            most, least = max(raw.values()), min(raw.values())
            assert scan.totals[row] == rows[row] + 3 * (100 * (most + least - raw[row]) // most if most else 100)
