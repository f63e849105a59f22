"""Curves as SVG. Needs matplotlib, an optional dependency: ``pip install deviceshare-cli[plots]``."""

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import NamedTuple

from deviceshare_cli.errors import CommandError

_INCHES = (7.5, 3.6)
_MAX_POINTS = 180


class Curve(NamedTuple):
    """A named line through points."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


class Plot(NamedTuple):
    """Curves over one pair of axes, which begin at 0; ``marked`` marks the points."""

    title: str
    across: str
    up: str
    curves: Sequence[Curve]
    marked: bool = False


def write(plot: Plot, file: Path) -> None:
    """Write a plot as SVG. Raises CommandError if matplotlib is missing or the file cannot be written."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise CommandError("plots need matplotlib: pip install 'deviceshare-cli[plots]'") from None
    # Keeps text as text, and the file reproducible.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "deviceshare"}):
        figure = Figure(figsize=_INCHES, layout="constrained")
        axes = figure.subplots()
        for curve in plot.curves:
            points = curve.points[:: max(1, ceil(len(curve.points) / _MAX_POINTS))]
            across, up = zip(*points, strict=True)
            axes.plot(
                across,
                up,
                label=curve.name,
                linestyle="--" if curve.dashed else "-",
                marker="o" if plot.marked else "",
                linewidth=1.4,
            )
        axes.set(title=plot.title, xlabel=plot.across, ylabel=plot.up, xlim=(0, None), ylim=(0, None))
        axes.grid(axis="y", color="#ddd")
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside lower center", ncols=len(plot.curves), frameon=False)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(file, format="svg", metadata={"Date": None})
        except OSError as error:
            raise CommandError(f"cannot write {file}: {error.strerror}") from error
