"""The live table of ``up`` on a terminal: totals, a glyph per card, latest placements, pending gangs with reasons."""

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import rich.live
from deviceshare.model import visible, visible_lines
from deviceshare_metrics import api
from deviceshare_metrics.api_dashboard import PodEvent
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from deviceshare_cli.endpoint import Endpoint
from deviceshare_cli.errors import CommandError
from deviceshare_cli.explaining import explanation_text
from deviceshare_cli.json_api import fetch
from deviceshare_cli.live_keys import Keys
from deviceshare_cli.live_nodes import nodes_view
from deviceshare_cli.live_table import LiveTable
from deviceshare_cli.notices import Notices, to_stderr
from deviceshare_cli.pods import PodView
from deviceshare_cli.tables import as_of
from deviceshare_cli.waiting_reasons import waiting_reasons

if TYPE_CHECKING:
    from deviceshare_cli.system import System

SECONDS = 0.5
"""Interval between two updates without a key."""
LAST = 8
"""The maximum number of placements, and of groups of pending pods, that are shown."""
MAX_EXPLAINED = 24
"""Lines of an explanation."""
_GROUP = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")


class Live:
    """Redraws the table periodically, notices appear above it. ``stays``: leave the last table on the terminal."""

    def __init__(self, *, stays: bool) -> None:
        self._console = Console()
        self._live = rich.live.Live(
            console=self._console,
            auto_refresh=False,
            transient=not stays,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._keys = Keys()
        self.settled = False

    async def show(self, pods: LiveTable, system: "System", notices: Notices) -> None:
        """Redraw until cancelled."""
        notices.write = lambda line: self._console.print(escape(visible(line)), soft_wrap=True)
        pressed = asyncio.Event()
        self._keys.changed = pressed.set
        self._live.start()
        try:
            with self._keys.reading():
                while True:
                    pressed.clear()
                    self._live.update(await self._draw(pods, system.run.endpoint), refresh=True)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(SECONDS):
                            await pressed.wait()
        finally:
            self._live.stop()
            notices.write = to_stderr

    async def _draw(self, pods: LiveTable, metrics: Endpoint) -> RenderableType:
        keys, width = self._keys, self._console.width
        (nodes, devices), pods.reasons = await asyncio.gather(_allocation(metrics), waiting_reasons(metrics))
        groups = pending_groups(pods.waiting, keys.wanted)
        keys.selected = max(0, min(keys.selected, len(groups) - 1))
        explained = ""
        if keys.explaining and groups:
            explained = await _explain(metrics, groups[keys.selected][1][0])
        rows = max(4, self._console.height - 2 * LAST - 14 - (MAX_EXPLAINED if explained else 0))
        table = nodes_view(nodes, devices, keys, width=width, rows=rows) if nodes else None
        events = await _events(metrics) if keys.events else ()
        return view(pods, table, keys, settled=self.settled, now=time.time(), explained=explained, events=events)


async def _allocation(metrics: Endpoint) -> tuple[Sequence[api.Node], Sequence[api.Device]]:
    """Return the nodes and their cards, none while the metrics service does not answer."""
    try:
        nodes, devices = await asyncio.gather(
            fetch(metrics, "nodes", api.Items[api.Node]), fetch(metrics, "devices", api.Items[api.Device])
        )
    except CommandError:
        return (), ()
    return nodes.items, devices.items


async def _events(metrics: Endpoint) -> Sequence[str]:
    """Return the latest steps of pods, the latest last, or why there are none."""
    try:
        events = await fetch(metrics, "events", api.Items[PodEvent], [("limit", "500")])
    except CommandError as error:
        return (str(error),)
    lines = (
        f"{time.strftime('%H:%M:%S', time.localtime(each.time))}  {each.service}  {each.step}  "
        f"{each.namespace}/{each.name}"
        f"{f' on {each.node}' if each.node else ''}{f': {each.message}' if each.message else ''}"
        for each in events.items
    )
    return [*lines][::-1]


async def _explain(metrics: Endpoint, pod: PodView) -> str:
    try:
        answer = await fetch(metrics, f"pods/{pod.namespace}/{pod.name}/explain", api.PodExplanation)
    except CommandError as error:
        return visible(str(error))
    return explanation_text(pod.ref, answer, None, time.time(), wide=True)


def pending_groups(pods: Sequence[PodView], wanted: str = "") -> list[tuple[str, list[PodView]]]:
    """Return the pending pods of each gang with one reason, and single pods, in the order of their first pods."""
    groups: dict[tuple[str, str], list[PodView]] = defaultdict(list)
    for pod in pods:
        if wanted and wanted.lower() not in f"{pod.ref} {pod.reason}".lower():
            continue
        name = next((found for key in _GROUP if (found := pod.annotations.get(key))), "")
        groups[f"{pod.namespace}/{name}" if name else pod.ref, pod.reason].append(pod)
    return [(name, found) for (name, _), found in groups.items()]


def view(
    pods: LiveTable,
    nodes: RenderableType | None,
    keys: Keys | None = None,
    *,
    settled: bool,
    now: float,
    explained: str = "",
    events: Sequence[str] = (),
) -> RenderableType:
    """Return the whole table.

    Args:
        pods: the pods.
        nodes: the part about nodes, if they are known.
        keys: what the keys have chosen.
        settled: whether the system had settled.
        now: unix seconds.
        explained: the explanation of the selected pods.
        events: the latest events, which are shown in place of the placements if the keys want them.
    """
    keys = keys or Keys()
    waiting = pods.waiting
    state = "settled" if settled and not pods.unanswered else "working"
    head = f"{pods.bound} bound, {len(waiting)} pending: {state} (Ctrl-C ends)"
    parts: list[RenderableType] = [Text(head, style="bold"), Text(keys.line, style="dim")]
    if nodes is not None:
        parts.append(nodes)
    lines_of = events if keys.events else pods.placed.values()
    placed = [line for line in lines_of if keys.wanted.lower() in line.lower()][-LAST:]
    if placed:
        parts.append(_lines("last events" if keys.events else "last placements", placed))
    groups = pending_groups(waiting, keys.wanted)
    if groups:
        first = max(0, min(keys.selected - LAST + 1, len(groups) - LAST))
        lines = []
        for at, (name, found) in enumerate(groups[first : first + LAST], first):
            mark = "> " if at == keys.selected and (keys.selected or keys.explaining) else ""
            number = f" ({len(found)} pods)" if len(found) > 1 else ""
            age = as_of(min((pod.reason_at for pod in found if pod.reason_at), default=0.0), now)
            lines.append(f"{mark}{name}{number}: {found[0].reason or 'no decision yet'}{age}")
        more = len(groups) - len(lines)
        parts.append(_lines("pending", lines + ([f"and {more} more"] if more else [])))
    if explained:
        parts.append(Text(visible_lines("\n".join(explained.split("\n")[:MAX_EXPLAINED]))))
    return Group(*parts)


def _lines(title: str, lines: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(title, overflow="ellipsis", no_wrap=True)
    for line in lines:
        table.add_row(escape(visible(line)))
    return table
