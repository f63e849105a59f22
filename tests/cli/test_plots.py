"""Curves as SVG."""

import sys
import xml.etree.ElementTree as ET

import pytest
from deviceshare_cli.errors import CommandError
from deviceshare_cli.plots import Curve, Plot, write

SVG = "{http://www.w3.org/2000/svg}"
PLOT = Plot("<t>", "minutes", "percent", [Curve("a & b", [(0.0, 0.0), (10.0, 60.0)], dashed=True)])


def test_a_plot_names_its_axes_and_curves(tmp_path):
    write(PLOT, tmp_path / "new" / "plot.svg")
    texts = {each.text for each in ET.parse(tmp_path / "new" / "plot.svg").iter(f"{SVG}text")}
    assert {"<t>", "minutes", "percent", "a & b"} <= texts


def test_the_same_curves_are_the_same_file(tmp_path):
    write(PLOT, tmp_path / "one.svg")
    write(PLOT, tmp_path / "two.svg")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_the_file_of_a_long_curve_is_small(tmp_path):
    points = [(float(at), float(at % 7)) for at in range(100_000)]
    write(PLOT._replace(curves=[Curve("long", points)]), tmp_path / "long.svg")
    assert (tmp_path / "long.svg").stat().st_size < 60_000


def test_the_error_without_matplotlib_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(CommandError, match=r"plots need matplotlib: pip install 'deviceshare-cli\[plots\]'"):
        write(PLOT, tmp_path / "plot.svg")


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "plot.svg").mkdir()
    with pytest.raises(CommandError, match=r"cannot write .*plot\.svg"):
        write(PLOT, tmp_path / "plot.svg")
