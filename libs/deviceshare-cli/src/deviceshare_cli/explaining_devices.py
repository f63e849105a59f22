"""``deviceshare explain node`` and ``explain device``: what is used and free, and who holds it."""

from collections.abc import Iterable, Sequence

from deviceshare.model import shown, unit_of
from deviceshare_metrics import api

from deviceshare_cli import tables
from deviceshare_cli.errors import CommandError
from deviceshare_cli.output import NONE, Table
from deviceshare_cli.pods import shown_devices
from deviceshare_cli.reading.reader import Reader
from deviceshare_cli.reports import Report, table_lines


async def explain_node(reader: Reader, name: str) -> Report | None:
    """Return the report about a node, None if it does not exist."""
    node = next((each for each in await reader.items(api.Node) if each.name == name), None)
    if node is None:
        return None
    devices = [each for each in await reader.items(api.Device) if each.node == name]
    pods = [each for each in await reader.items(api.Pod) if each.node == name and each.state != "Ended"]
    lines = [f"Node {name}", "Ready" if node.ready else "NotReady: no pod is placed here"]
    if node.unschedulable:
        lines.append("SchedulingDisabled (spec.unschedulable): no pod is placed here")
    if not devices:
        lines.append("No cards are registered by a device plugin.")
    sections = [
        ("Problems", node.problems),
        ("Resources", table_lines(_resources(node))),
        ("Cards", table_lines(_cards(devices))),
        ("Pods", table_lines(_pods(pods))),
    ]
    return Report(lines, sections, {"node": node, "devices": devices, "pods": pods})


async def explain_device(reader: Reader, name: str) -> Report | None:
    """Return the report about a device, given as ID, NODE/ID or NODE/INDEX, None if it does not exist.

    Raises CommandError if several have this name.
    """
    devices = await reader.items(api.Device)
    found = [each for each in devices if name in (each.id, f"{each.node}/{each.id}")]
    found = found or [each for each in devices if name == f"{each.node}/{each.index}" and each.mode != api.WHOLE]
    if not found:
        return None
    if len({each.node for each in found}) < len(found):
        raise CommandError(f"node {found[0].node} has several cards {name}: use an id, such as {found[0].id}")
    if len(found) > 1:
        raise CommandError(
            f"several nodes have a device {name}: name one of them as NODE/ID, such as {found[0].node}/{name}"
        )
    device = found[0]
    holders = [
        (pod, each)
        for pod in await reader.items(api.Pod)
        if pod.node == device.node and pod.state != "Ended"
        for each in pod.devices
        if each.id.partition("[")[0] == device.id
    ]
    kinds = [each for each in (device.type, f"mode {device.mode}" if device.mode else "") if each]
    health = "healthy" if device.healthy else "unhealthy: nothing is allocated on it"
    lines = [f"Device {device.id}", f"card {device.index} of node {device.node}: {', '.join([*kinds, health])}"]
    head = ("NAMESPACE", "POD", "CONTAINER", "STATUS", "DEVICE", "MEMORY", "CORES")
    rows = [
        (pod.namespace, pod.name, each.container, pod.state, each.id, f"{each.memory}Mi", str(each.cores))
        for pod, each in holders
    ]
    if device.cordon is not None:
        lines.append(f"cordoned {device.cordon}".rstrip() + ". It gets no further pods; its pods keep it.")
    sections = [("Capacity", table_lines(_capacity(device))), ("Held by", table_lines((head, rows)))]
    held = [{"namespace": pod.namespace, "pod": pod.name, "state": pod.state, "device": each} for pod, each in holders]
    return Report(lines, sections, {"device": device, "held_by": held})


def _resources(node: api.Node) -> Table:
    rows = []
    for name in sorted(node.allocatable):
        used, total, unit = node.used.get(name, 0), node.allocatable[name], unit_of(name)
        rows.append((name, shown(used, unit), shown(total, unit), shown(max(0, total - used), unit)))
    return ("RESOURCE", "USED", "ALLOCATABLE", "FREE"), rows


def _cards(devices: Iterable[api.Device]) -> Table:
    head = ("CARD", "ID", "TYPE", "MODE", "HEALTHY", "MEMORY", "CORES", "SHARES", "PODS")
    rows = []
    for device in devices:
        row = [
            str(device.index),
            device.id,
            device.type or NONE,
            device.mode or NONE,
            tables.health(device),
        ]
        row += [tables.memory(device), tables.cores(device)]
        rows.append([*row, str(device.slots_used), ", ".join(device.pods) or NONE])
    return head, rows


def _capacity(device: api.Device) -> Table:
    rows = [
        *([("memory", "Mi", device.memory_used, device.memory_total)] if device.memory_total else []),
        *([("cores", "", device.cores_used, device.cores_total)] if device.cores_total else []),
        ("shares", "", device.slots_used, device.slots_total),
    ]
    numbers = [
        (name, *(f"{number}{unit}" for number in (used, total, max(0, total - used))))
        for name, unit, used, total in rows
    ]
    return ("RESOURCE", "USED", "TOTAL", "FREE"), numbers


def _pods(pods: Sequence[api.Pod]) -> Table:
    rows = [(each.namespace, each.name, each.state, shown_devices(each.devices) or NONE) for each in pods]
    return ("NAMESPACE", "NAME", "STATUS", "DEVICES"), rows
