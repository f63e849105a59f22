"""Allocated memory of the nodes' cards, from the JSON API."""

import asyncio

import msgspec
from deviceshare_metrics import api

from deviceshare_cli.errors import CommandError
from deviceshare_cli.json_api import fetch


class CardFill(msgspec.Struct, frozen=True):
    """Allocated and total memory of a card, in MiB."""

    used: int
    total: int
    healthy: bool = True


class NodeFill(msgspec.Struct, frozen=True):
    """Number of pods and cards of a node."""

    name: str
    pods: int
    cards: tuple[CardFill, ...]


async def read_fills(metrics: str) -> list[NodeFill]:
    """Return the nodes, or an empty list while the metrics service does not answer."""
    try:
        nodes, devices = await asyncio.gather(
            fetch(metrics, "nodes", api.Items[api.Node]), fetch(metrics, "devices", api.Items[api.Device])
        )
    except CommandError:
        return []
    cards: dict[str, list[CardFill]] = {}
    for device in devices.items:
        cards.setdefault(device.node, []).append(CardFill(device.memory_used, device.memory_total, device.healthy))
    return [NodeFill(node.name, node.pods, tuple(cards.get(node.name, ()))) for node in nodes.items]
