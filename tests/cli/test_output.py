"""Tables that fit a terminal."""

import io

import pytest
from deviceshare_cli import getting
from deviceshare_cli.output import GAP, cut, shrunk
from deviceshare_cli.reading.kinds import Target, find_resource
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=8), st.integers(0, 200))
def test_the_widest_columns_give_until_the_table_fits(columns, room):
    widths, least = [max(pair) for pair in columns], [min(pair) for pair in columns]
    found = shrunk(widths, least, room)
    assert all(low <= now <= before for low, now, before in zip(least, found, widths, strict=True))
    total = sum(found) + len(GAP) * (len(found) - 1)
    if total > room:
        assert found == least
    elif found != widths:
        assert total == room, "no more is cut than needed"
        cut_ones = [now for now, before in zip(found, widths, strict=True) if now < before]
        kept = [now for now, low in zip(found, least, strict=True) if now > low]
        assert max(kept, default=0) <= max(cut_ones) + 1, "a column that gives stays as wide as the others"


@given(st.text(max_size=40), st.integers(1, 40))
def test_a_cut_text_fits_and_says_that_it_is_cut(text, width):
    found = cut(text, width)
    assert cell_len(found) <= width
    assert found.endswith("…") or "…" in text or cell_len(cut(text, 1000)) <= width


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("output", "is_cut"), [("table", True), ("wide", False)])
async def test_a_terminal_gets_lines_that_fit_unless_all_is_asked_for(monkeypatch, output, is_cut):
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", "60")
    reason = "0/5 nodes are unavailable: " + "too little memory, " * 10
    entry = getting.Entry("default", "a", (), None, ["default", "a", reason])
    listing = getting.Listing(["NAMESPACE", "NAME", "REASON"], [entry])
    target = Target(find_resource("pods"), ())
    await getting._print(None, target, listing, getting.GetOptions(output=output))
    lines = terminal.getvalue().splitlines()
    assert (max(map(cell_len, lines)) <= 60, lines[1].endswith("…")) == (is_cut, is_cut)
