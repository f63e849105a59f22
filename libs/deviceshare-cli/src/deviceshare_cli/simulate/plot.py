"""Curves as a small SVG that any browser shows."""

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10
from typing import NamedTuple

_WIDTH, _HEIGHT = 720, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 34, 44
_COLOURS = ("#1b6ca8", "#c8553d", "#4a7c40", "#7b4b94", "#8a6d1f", "#3a3a3a")
_MOST_POINTS = 180
_TICKS = 6


class Curve(NamedTuple):
    """A named line through points."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


class Plot(NamedTuple):
    """Curves over one pair of axes, which begin at 0."""

    title: str
    across: str
    up: str
    curves: Sequence[Curve]


def svg(plot: Plot) -> str:
    """Return a plot as SVG."""
    points = [point for curve in plot.curves for point in curve.points]
    step_x, step_y = (_step(max((point[axis] for point in points), default=1.0)) for axis in (0, 1))
    most_x = max((x for x, _ in points), default=1.0) or 1.0
    most_y = ceil(max((y for _, y in points), default=1.0) / step_y) * step_y or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        across = _LEFT + x / most_x * (_WIDTH - _LEFT - _RIGHT)
        return round(across, 1), round(_HEIGHT - _BOTTOM - y / most_y * (_HEIGHT - _TOP - _BOTTOM), 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        'font-size="11" fill="#222">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="18" font-size="14" font-weight="bold">{escape(plot.title)}</text>',
    ]
    for tick in _ticks(most_x, step_x):
        x, y = place(tick, 0.0)
        parts.append(f'<text x="{x}" y="{y + 15}" text-anchor="middle">{tick:g}</text>')
    for tick in _ticks(most_y, step_y):
        x, y = place(0.0, tick)
        parts.append(f'<path d="M{x} {y}H{_WIDTH - _RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{x - 6}" y="{y + 4}" text-anchor="end">{tick:g}</text>')
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 8}" text-anchor="end">{escape(plot.across)}</text>')
    parts.append(f'<text x="{_WIDTH - _RIGHT}" y="18" text-anchor="end">{escape(plot.up)}</text>')
    for number, curve in enumerate(plot.curves):
        colour, dashes = _COLOURS[number % len(_COLOURS)], ' stroke-dasharray="5 4"' if curve.dashed else ""
        drawn = " ".join(f"{x},{y}" for x, y in (place(*point) for point in _thinned(curve.points)))
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="1.6"{dashes}/>')
        x, y = _LEFT + number * (_WIDTH - _LEFT - _RIGHT) // len(plot.curves), _HEIGHT - 8
        parts.append(f'<path d="M{x} {y - 4}h18" stroke="{colour}" stroke-width="2"{dashes}/>')
        parts.append(f'<text x="{x + 22}" y="{y}">{escape(curve.name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _thinned(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    return points[:: max(1, ceil(len(points) / _MOST_POINTS))]


def _step(most: float) -> float:
    """Return 1, 2 or 5 times a power of ten: about six of them make up the axis."""
    if most <= 0:
        return 1.0
    rough = most / _TICKS
    power = 10.0 ** floor(log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)


def _ticks(most: float, step: float) -> list[float]:
    return [number * step for number in range(int(most / step + 1e-9) + 1)]
