"""``deviceshare top``: what is used and free of each card model, DeviceClass and queue, and how fragmented it is."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from deviceshare.model import shown, unit_of
from deviceshare_metrics import api
from deviceshare_metrics.api_dashboard import Queue
from deviceshare_metrics.free_cards import NUMBERS, closed_nodes, is_available, nodes_with, whole_free

from deviceshare_cli import tables
from deviceshare_cli.errors import NotFoundError
from deviceshare_cli.output import NONE, indented_json, lines_text
from deviceshare_cli.reading.opening import Source, opened
from deviceshare_cli.reading.reader import Reader
from deviceshare_cli.reports import table_lines


class ModelTotals(msgspec.Struct, kw_only=True):
    """The cards of one model and mode. Memory in MiB, cores in percent or AI cores.

    Free capacity is that of healthy cards that are not cordoned, on nodes that take pods, of each card the largest
    share that a pod could get (:attr:`deviceshare_metrics.api.Device.largest_free`). ``largest_free_memory`` and
    ``largest_free_cores`` are the largest of one card; ``fragmented`` is the fraction of the free capacity that is on
    cards in use.
    """

    model: str
    mode: str
    cards: int = 0
    unavailable: int = 0
    """Cards that are unhealthy or cordoned, or on nodes that take no pods."""
    memory_total: int = 0
    memory_used: int = 0
    cores_total: int = 0
    cores_used: int = 0
    whole_cards_free: int = 0
    nodes_with_free: dict[int, int] = {}
    """On how many nodes at least 8, 4, 2 and 1 cards are wholly free."""
    most_free_on_a_node: int = 0
    """The most cards that one pod could get whole."""
    largest_free_memory: int = 0
    largest_free_cores: int = 0
    free_memory: int = 0
    fragmented: float = 0.0


class QueueResource(msgspec.Struct, kw_only=True):
    """A resource of a queue, in the units of :data:`deviceshare.model.Resources`; None: no limit."""

    queue: str
    resource: str
    used: int
    requested: int
    deserved: int | None
    capability: int | None


class ClassTotals(msgspec.Struct, kw_only=True):
    """The devices that ResourceClaims have of a DeviceClass and a driver; '' for a driver of which claims have none.

    Which devices match a class is not evaluated: ``driver_devices`` are all that the driver publishes, and
    ``driver_allocated`` those of them that claims have, of whatever class.
    """

    device_class: str
    driver: str
    allocated: int = 0
    nodes: int = 0
    """On how many nodes the class has devices."""
    driver_devices: int = 0
    driver_allocated: int = 0


async def run_top(source: Source, model: str, output: str) -> int:
    """Print the totals of models with a text, and of queues; return the exit status.

    ``output`` is ``table`` or ``json``. Pods that wait only for fragmentation are counted by model, not by mode.
    """
    async with opened(source) as reader:
        devices, nodes = await reader.items(api.Device), await reader.items(api.Node)
        models, queues = totals(devices, nodes), queue_resources(await reader.items(Queue))
        classes = class_totals(await _drivers(reader))
        pods = Counter(pod.fragmented for pod in await reader.items(api.Pod, state="pending") if pod.fragmented)
    pods = Counter({name: number for name, number in pods.items() if model.lower() in name.lower()})
    models = [each for each in models if model.lower() in each.model.lower()]
    classes = [each for each in classes if model.lower() in f"{each.device_class} {each.driver}".lower()]
    if output == "json":
        print(indented_json({"models": models, "pods_fragmented": pods, "device_classes": classes, "queues": queues}))
    else:
        parts = [[*_models(models), *_fragmented(pods)], _classes(classes), _queues(queues)]
        print(lines_text(line for lines in parts if lines for line in ("", *lines)).removeprefix("\n"))
    return 0


async def _drivers(reader: Reader) -> tuple[api.DriverDevices, ...]:
    try:
        return await reader.items(api.DriverDevices)
    except NotFoundError:
        return ()  # The metrics service is of 0.2.0 or before, and does not have this list.


def totals(devices: Iterable[api.Device], nodes: Iterable[api.Node]) -> list[ModelTotals]:
    """Return the totals of each model and mode, in this order.

    Cards that count by cores only have totals of their own: their amounts do not add up with memory.
    """
    devices, closed = tuple(devices), closed_nodes(nodes)
    found: dict[tuple[str, str, bool], ModelTotals] = {}
    free: Counter[tuple[str, str, bool]] = Counter()
    whole = whole_free(((_key(device), device) for device in devices), closed)
    in_use: Counter[tuple[str, str, bool]] = Counter()
    for device in devices:
        key = _key(device)
        of_model = found.setdefault(key, ModelTotals(model=key[0], mode=key[1]))
        of_model.cards += 1
        of_model.memory_total += device.memory_total
        of_model.memory_used += device.memory_used
        of_model.cores_total += device.cores_total
        of_model.cores_used += device.cores_used if device.cores_total else 0
        if not is_available(device, closed):
            of_model.unavailable += 1
            continue
        free[key] += device.largest_free
        in_use[key] += device.largest_free if device.slots_used else 0
        if device.memory_total:
            of_model.free_memory += device.largest_free
            of_model.largest_free_memory = max(of_model.largest_free_memory, device.largest_free)
        cores = device.cores_total - device.cores_used if device.memory_total else device.largest_free
        if device.largest_free:
            of_model.largest_free_cores = max(of_model.largest_free_cores, cores)
    for key, of_model in found.items():
        of_model.whole_cards_free = whole[key].total()
        of_model.nodes_with_free = nodes_with(whole[key])
        of_model.most_free_on_a_node = max(whole[key].values())
        of_model.fragmented = round(in_use[key] / free[key], 4) if free[key] else 0.0
    return [found[key] for key in sorted(found)]


def _key(device: api.Device) -> tuple[str, str, bool]:
    return (device.type or "unknown", device.mode, not device.memory_total)


def class_totals(drivers: Iterable[api.DriverDevices]) -> list[ClassTotals]:
    """Return the totals of each DeviceClass and driver; a driver without devices in use is listed alone."""
    found: dict[tuple[str, str], ClassTotals] = {}
    published, allocated = Counter[str](), Counter[str]()
    for each in drivers:
        published[each.driver] += each.devices
        allocated[each.driver] += each.allocated
        for name, number in each.classes.items():
            of_class = found.setdefault((name, each.driver), ClassTotals(device_class=name, driver=each.driver))
            of_class.allocated += number
            of_class.nodes += 1
    for driver in published:
        if not allocated[driver]:
            found["", driver] = ClassTotals(device_class="", driver=driver)
    for (_, driver), of_class in found.items():
        of_class.driver_devices, of_class.driver_allocated = published[driver], allocated[driver]
    return [found[key] for key in sorted(found)]


def queue_resources(queues: Iterable[Queue]) -> list[QueueResource]:
    """Return the resources that queues hold, request or are limited in, except the number of pods."""
    found = []
    for queue in queues:
        limits = {**queue.capability, **queue.bounds}
        asked = {each for each, amount in queue.requested.items() if amount}
        held = {each for each, amount in queue.used.items() if amount}
        for resource in sorted((asked | held | limits.keys()) - {"pods"}):
            deserved = queue.deserved.get(resource)
            found.append(
                QueueResource(
                    queue=queue.name,
                    resource=resource,
                    used=queue.used.get(resource, 0),
                    requested=queue.requested.get(resource, 0),
                    deserved=None if deserved is None else int(deserved),
                    capability=limits.get(resource),
                )
            )
    return found


def _models(models: Iterable[ModelTotals]) -> list[str]:
    of_nodes = f"{'/'.join(map(str, NUMBERS))} ON A NODE"
    amounts = ("CARDS", "UNAVAILABLE", "MEMORY", "CORES", "WHOLE FREE", of_nodes, "LARGEST FREE", "FRAGMENTED")
    head = ("MODEL", "MODE", *amounts)
    rows = []
    for each in models:
        row = [each.model, each.mode or NONE, str(each.cards), str(each.unavailable)]
        row += [tables.memory(each), tables.cores(each)]
        parts = [f"{each.largest_free_memory}Mi"] if each.memory_total else []
        parts += [f"{each.largest_free_cores} cores"] if each.cores_total else []
        free = ", ".join(parts) or NONE
        of_nodes = "/".join(str(each.nodes_with_free[number]) for number in NUMBERS)
        rows.append([*row, str(each.whole_cards_free), of_nodes, free, f"{each.fragmented:.0%}"])
    return table_lines((head, rows))


def _fragmented(pods: Mapping[str, int]) -> list[str]:
    rows = [[model, str(number)] for model, number in sorted(pods.items())]
    return ["", *table_lines((("MODEL", "PODS WAITING ONLY FOR FRAGMENTATION"), rows))] if rows else []


def _classes(classes: Iterable[ClassTotals]) -> list[str]:
    rows = []
    for each in classes:
        row = [each.device_class or NONE, str(each.allocated), str(each.nodes), each.driver]
        rows.append([*row, f"{each.driver_allocated}/{each.driver_devices}"])
    return table_lines((("DEVICECLASS", "ALLOCATED", "NODES", "DRIVER", "DEVICES OF DRIVER"), rows))


def _queues(queues: Iterable[QueueResource]) -> list[str]:
    rows = []
    for each in queues:
        unit = unit_of(each.resource)
        amounts: list[Any] = [each.used, each.requested, each.deserved, each.capability]
        rows.append([each.queue, each.resource, *(NONE if one is None else shown(one, unit) for one in amounts)])
    return table_lines((("QUEUE", "RESOURCE", "USED", "REQUESTED", "DESERVED", "CAPABILITY"), rows))
