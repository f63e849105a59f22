"""The nodes of the live table: totals per model, then a page of nodes with a glyph per card."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from deviceshare.model import visible
from deviceshare_metrics import api
from deviceshare_metrics.free_cards import closed_nodes, is_available
from rich.console import Group, RenderableType
from rich.text import Text

from deviceshare_cli.live_keys import Keys

EIGHTHS = "·▁▂▃▄▅▆▇█"
"""Glyphs of a free card up to a full one."""
UNHEALTHY = "✗"
MAX_MODELS = 6
MAX_NAME = 24
"""Characters of a node's name."""
GAP = 3
MAX_WHOLE = 16
"""Cards of a node that are shown of a plain number."""
_STYLES = ("dim", "green", "yellow", "red")


def used_share(card: api.Device) -> float:
    """Return the allocated share of a card, by memory, else by cores."""
    used, total = (card.memory_used, card.memory_total) if card.memory_total else (card.cores_used, card.cores_total)
    return min(1.0, used / total) if total else 0.0


def glyph(card: api.Device) -> Text:
    """Return one character for a card; the smallest allocation is visible, even on a large card."""
    if not card.healthy:
        return Text(UNHEALTHY, style="bold red")
    share = used_share(card)
    step = 0 if not share else max(1, round(share * 8))
    return Text(EIGHTHS[step], style=_STYLES[0 if not step else 1 if share < 0.5 else 2 if share < 1.0 else 3])


def totals(devices: Iterable[api.Device], nodes: Iterable[api.Node]) -> list[str]:
    """Return a line per model, the most frequent first: whole cards free, and the allocated share."""
    closed = closed_nodes(nodes)
    models: dict[str, list[api.Device]] = defaultdict(list)
    for card in devices:
        models[f"{card.type or 'card'} ({card.mode})" if card.mode else card.type or "card"].append(card)
    lines = []
    for name, cards in sorted(models.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        free = sum(is_available(card, closed) and not card.slots_used for card in cards)
        sick = sum(not card.healthy for card in cards)
        used = sum(map(used_share, cards)) / len(cards)
        lines.append(
            f"{name}: {free} of {len(cards)} free, {used:.0%} allocated" + (f", {sick} unhealthy" * bool(sick))
        )
    more = len(lines) - MAX_MODELS
    return lines[:MAX_MODELS] + ([f"and {more} more models"] if more > 0 else [])


def nodes_view(
    nodes: Sequence[api.Node], devices: Sequence[api.Device], keys: Keys, *, width: int, rows: int
) -> RenderableType:
    """Return the totals and the nodes in ``rows`` lines at most, several nodes a line if they fit in ``width``.

    Args:
        nodes: all nodes.
        devices: all cards.
        keys: page and order of the nodes, and a filter: only nodes whose name or the type of whose cards contains it.
            A page after the last one becomes the last.
        width: characters of a line.
        rows: lines for nodes.
    """
    wanted = keys.wanted
    cards: dict[str, list[api.Device]] = defaultdict(list)
    for card in devices:
        cards[card.node].append(card)
    found = [node for node in nodes if not wanted or _matches(node, cards[node.name], wanted.lower())]
    closed = closed_nodes(nodes)
    order = keys.orders[0]
    sign = {"free": -1.0, "used": 1.0, "name": 0.0}[order]
    shown = sorted(found, key=lambda node: (sign * _free(cards[node.name], closed), node.name))
    parts: list[RenderableType] = [Text(visible(line), style="cyan") for line in totals(devices, nodes)]
    if not shown:
        return Group(*parts, Text(f"no node matches {wanted!r}"))
    name_width = min(MAX_NAME, max(len(node.name) for node in shown))
    cell = name_width + 1 + max(4, *(len(cards[node.name]) or len(_whole(node)) for node in shown)) + GAP
    columns = max(1, (width + GAP) // cell)
    lines = max(1, min(rows, -(-len(shown) // columns)))
    pages = -(-len(shown) // (lines * columns))
    keys.limit_page(pages)
    number, shown = len(shown), shown[keys.page * lines * columns :]
    for row in range(lines):
        line = Text(no_wrap=True, overflow="ellipsis")
        for node in shown[row : lines * columns : lines]:
            name = visible(node.name)
            name = name if len(name) <= name_width else name[: name_width - 1] + "…"
            entry = Text(name.ljust(name_width + 1), style="" if node.ready and not node.unschedulable else "red")
            for card in cards[node.name]:
                entry.append_text(glyph(card))
            if not cards[node.name]:
                entry.append_text(_whole(node))
            entry.pad_right(max(0, cell - len(entry)))
            line.append_text(entry)
        line.rstrip()
        parts.append(line)
    if pages > 1 or order != "free":
        parts.append(Text(f"{number} nodes by {order}, page {keys.page + 1} of {pages}", style="dim"))
    return Group(*parts)


def _whole(node: api.Node) -> Text:
    """Return the glyphs of cards that are a plain number of the node (``nvidia.com/gpu``), those in use first."""
    line = Text()
    for resource, number in sorted(node.allocatable.items()):
        if api.is_whole(resource) and number <= MAX_WHOLE:
            used = min(number, node.used.get(resource, 0))
            line.append(EIGHTHS[-1] * used, style=_STYLES[-1]).append(EIGHTHS[0] * (number - used), style=_STYLES[0])
    return line if line else Text("none", style="dim")


def _matches(node: api.Node, cards: Iterable[api.Device], wanted: str) -> bool:
    return wanted in node.name.lower() or any(wanted in card.type.lower() for card in cards)


def _free(cards: Sequence[api.Device], closed: frozenset[str]) -> float:
    return sum(1.0 - used_share(card) for card in cards if is_available(card, closed)) if cards else -1.0
