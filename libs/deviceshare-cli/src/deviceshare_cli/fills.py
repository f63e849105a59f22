"""How full the nodes' cards are, from the JSON API."""

import asyncio

import msgspec
from deviceshare_metrics import api

from deviceshare_cli.asking import ask
from deviceshare_cli.errors import CommandError


class CardFill(msgspec.Struct, frozen=True):
    """A card: MiB taken and MiB in all."""

    used: int
    total: int
    healthy: bool = True


class NodeFill(msgspec.Struct, frozen=True):
    """A node: how many pods are there, and its cards."""

    name: str
    pods: int
    cards: tuple[CardFill, ...]


async def read_fills(metrics: str) -> list[NodeFill]:
    """Return the nodes; nothing while the metrics service does not answer."""
    try:
        nodes, devices = await asyncio.gather(
            ask(metrics, "nodes", api.Items[api.Node]), ask(metrics, "devices", api.Items[api.Device])
        )
    except CommandError:
        return []
    cards: dict[str, list[CardFill]] = {}
    for device in devices.items:
        cards.setdefault(device.node, []).append(CardFill(device.memory_used, device.memory_total, device.healthy))
    return [NodeFill(node.name, node.pods, tuple(cards.get(node.name, ()))) for node in nodes.items]
