"""``deviceshare lab bench ui``."""

import asyncio
from typing import Any

from deviceshare_cli.errors import CommandError
from deviceshare_cli.output import indented_json, table

from deviceshare_lab.bench.ui.measure import Load, measure


async def bench_ui(load: Load, timeout: float, *, as_json: bool) -> int:
    """Measure, print, and return the exit status: 1 if the page had an error."""
    try:
        async with asyncio.timeout(timeout):
            shown = await measure(load)
    except TimeoutError:
        raise CommandError(f"not done after {timeout:g} s") from None
    print(indented_json(shown) if as_json else as_text(shown))
    return 1 if shown["errors"] else 0


def as_text(shown: dict[str, Any]) -> str:
    """Return the measurements as a table."""
    load = shown["load_average"]
    rows = [
        ("cards", f"{shown['cards']} on {shown['nodes']} nodes"),
        ("first paint after the data arrived", f"{shown['first_paint_seconds']} s"),
        ("transferred", f"{shown['transferred_bytes'] / 1e6:.2f} MB"),
        ("frames/s", f"{shown['frames_per_second']} at {shown['changes_per_second']:g} changes/s"),
        ("time between frames, p99", f"{shown['frame_p99_seconds']} s"),
        ("stream", f"{shown['stream_bytes_per_second'] / 1e3:.0f} kB/s"),
        ("load", f"{load['before']:.2f} before, {load['after']:.2f} after; Chromium {shown['chromium']}"),
        *(("error", error) for error in shown["errors"]),
    ]
    return table(("MEASURE", "VALUE"), rows)
