"""The devices of a cluster: the registered cards, and those that a device plugin offers as a plain number."""

from collections.abc import Iterator

from deviceshare_metrics import api

from deviceshare_cli.reading.reader import Reader

WHOLE = "whole"
"""The mode of cards of a plain number, which pods get whole (``nvidia.com/gpu``)."""


async def all_devices(reader: Reader) -> tuple[api.Device, ...]:
    """Return the devices of all nodes, by node."""
    nodes, registered = await reader.items(api.Node), await reader.items(api.Device)
    with_cards = {device.node for device in registered}
    plain = [device for node in nodes if node.name not in with_cards for device in whole_devices(node)]
    return tuple(sorted((*registered, *plain), key=lambda device: device.node)) if plain else registered


def whole_devices(node: api.Node) -> Iterator[api.Device]:
    """Yield the cards that a node offers as plain numbers, the first of them in use.

    Kubelet decides which of them a pod gets, so they have neither ids of their own nor pods.
    """
    for resource, number in sorted(node.allocatable.items()):
        if api.is_whole(resource):
            used = node.used.get(resource, 0)
            for at in range(min(number, api.MOST_WHOLE)):
                taken = int(at < used)
                yield api.Device(
                    node=node.name, id=f"{resource}-{at}", index=at, type=resource, mode=WHOLE, healthy=True,
                    memory_total=0, memory_used=0, cores_total=100, cores_used=100 * taken, slots_total=1,
                    slots_used=taken, pods=(),
                )  # fmt: skip


def card_count(node: api.Node) -> int:
    """Return the number of a node's cards."""
    return node.cards or sum(number for resource, number in node.allocatable.items() if api.is_whole(resource))
