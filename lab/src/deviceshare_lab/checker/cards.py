"""Checks cards by objects alone: what a node has, and what the annotations of its pods give away.

No code and no state is shared with the scheduler.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

import yaml

from deviceshare_lab.clusters.fields import Object, annotations_of

Names = tuple[tuple[str, str], ...]
"""Card and part of each device, sorted."""
_CHIP = {"AI cores": 8, "AI CPUs": 7}
"""Of an Ascend 310P."""
_MINDCLUSTER = {
    "vir01": (1, 1),
    "vir02": (2, 2),
    "vir02_1c": (2, 1),
    "vir04": (4, 4),
    "vir04_3c": (4, 3),
    "vir04_3c_ndvpp": (4, 3),
    "vir04_4c_dvpp": (4, 4),
}


class Device(NamedTuple):
    """What a pod has of a card: ``part`` is a MIG instance or a template, ``amounts`` are what it takes."""

    card: str
    part: str
    amounts: Mapping[str, int]


@cache
def _parsed(text: str) -> Object:
    return yaml.safe_load(text) or {}


class Parts:
    """How cards may be cut, by ``device-config.yaml``."""

    def __init__(self, device_config: str = "") -> None:
        config = _parsed(device_config)
        self._models: list[tuple[list[str], dict[str, list[int]]]] = [
            (
                model["models"],
                {
                    group["group"]: [part["memory"] for part in group["geometries"] for _ in range(part["count"])]
                    for group in model["allowedGeometries"]
                },
            )
            for model in config.get("nvidia", {}).get("knownMigGeometries", ())
        ]
        chips = config.get("vnpus") or {}
        self.chips = {
            one["commonWord"]: one for one in (chips.get("configs", ()) if isinstance(chips, dict) else chips)
        }

    def instance(self, model: str, part: str) -> int | None:
        """Return the MiB of a MIG instance of a card's model, None if there is none of this name."""
        group, _, position = part.rpartition("-")
        for names, groups in self._models:
            if any(name in model for name in names):
                sizes = groups.get(group, [])
                return sizes[int(position)] if int(position) < len(sizes) else None
        return None

    def template(self, word: str, name: str) -> Mapping[str, int]:
        """Return what a part of a chip takes; '' is all of it."""
        chip = self.chips[word]
        for one in chip["templates"]:
            if one["name"] == name:
                return {"MiB": one["memory"], "AI cores": one["aiCore"], "AI CPUs": one["aiCPU"]}
        return {"MiB": chip["memoryAllocatable"], "AI cores": chip["aiCore"], "AI CPUs": chip["aiCPU"]}


def names_of(devices: Iterable[Device]) -> Names:
    """Return card and part of each device."""
    return tuple(sorted((device.card, device.part) for device in devices))


def overfull(cards: Mapping[str, Mapping[str, int]], devices: Iterable[Device]) -> list[str]:
    """Return what is given too often of cards with these amounts: more than a card has, or an instance twice."""
    problems = []
    for card, parts in _by_card(devices).items():
        for what, most in cards.get(card, {}).items():
            taken = sum(device.amounts.get(what, 0) for device in parts)
            if taken > most:
                problems.append(f"{card}: {taken} {what} of {most}")
        instances = [device.part for device in parts if device.part]
        if len(instances) != len(set(instances)):
            problems.append(f"{card}: an instance twice: {sorted(instances)}")
    return problems


def over_cards(node: Object, pods: Iterable[Object], parts: Parts) -> list[str]:
    """Return what is wrong with the devices that a node's pods have."""
    cards, models = cards_of(node, parts), models_of(node)
    devices = [device for pod in pods for device in devices_of(pod, parts)]
    problems = overfull(cards, devices)
    for card, given in _by_card(devices).items():
        if card not in cards:
            problems.append(f"there is no card {card}")
        instances = [device for device in given if device.part and card in cards]
        if len({device.part.rpartition("-")[0] for device in instances}) > 1:
            problems.append(f"{card}: instances of several groups: {sorted(device.part for device in instances)}")
        for device in instances:
            size = parts.instance(models.get(card, ""), device.part)
            if size is None or device.amounts["MiB"] > size:
                problems.append(f"{card}: {device.amounts} of instance {device.part}, which has {size}")
    return [f"{node['metadata']['name']} {problem}" for problem in problems]


def _by_card(devices: Iterable[Device]) -> dict[str, list[Device]]:
    cards: defaultdict[str, list[Device]] = defaultdict(list)
    for device in devices:
        cards[device.card].append(device)
    return cards


def devices_of(pod: Object, parts: Parts | None = None) -> list[Device]:
    """Return what the pod's annotations give it; without ``parts`` not how much of an Ascend chip."""
    annotations = annotations_of(pod)
    devices = []
    for card, memory, cores in _listed(annotations.get("volcano.sh/vgpu-ids-new", "")):
        uuid, _, part = card.rstrip("]").partition("[")
        devices.append(Device(uuid, part, {"slots": 1, "MiB": memory, "percent": cores}))
    if "volcano.sh/gpu-index" in annotations:
        memory, number = (_limit(pod, f"volcano.sh/gpu-{what}") for what in ("memory", "number"))
        # A whole card is full, whatever else there would be room for.
        amounts = {"MiB": memory, "pods beside whole cards": 10**6 if number else 1}
        devices += [Device(index, "", amounts) for index in annotations["volcano.sh/gpu-index"].split(",")]
    for key, value in annotations.items():
        if key == "hami.io/vgpu-devices-allocated":
            for card, memory, cores in _listed(value):
                devices.append(Device(card, "", {"slots": 1, "MiB": memory, "percent": cores}))
        elif match := re.fullmatch(r"hami\.io/(.+)-devices-allocated", key):
            devices += _ascend(annotations, match[1], value, parts)
    if given := annotations.get("huawei.com/npu-core"):
        chips, _, template = given.partition("-")
        cores, cpus = _MINDCLUSTER[template] if template else _CHIP.values()
        amounts = {"AI cores": cores, "AI CPUs": cpus}
        devices += [Device(f"chip {chip}", "", amounts) for chip in chips.split(",")]
    return devices


def _ascend(annotations: Mapping[str, str], word: str, value: str, parts: Parts | None) -> list[Device]:
    cut = {one["UUID"]: one.get("temp", "") for one in json.loads(annotations.get(f"huawei.com/{word}", "[]"))}
    taken = [
        (card, {"slots": 1, **(parts.template(word, cut.get(card, "")) if parts is not None else {})}, memory)
        for card, memory, _ in _listed(value)
    ]
    return [Device(card, "", {**amounts, "MiB": max(amounts.get("MiB", 0), memory)}) for card, amounts, memory in taken]


def cards_of(node: Object, parts: Parts) -> dict[str, dict[str, int]]:
    """Return what each card has."""
    annotations = annotations_of(node)
    cards: dict[str, dict[str, int]] = {}
    for item in filter(None, annotations.get("volcano.sh/node-vgpu-register", "").split(":")):
        uuid, slots, memory, *_ = item.split(",")
        cards[uuid] = {"slots": int(slots), "MiB": int(memory), "percent": 100}
    for one in json.loads(annotations.get("hami.io/node-nvidia-register", "[]")):
        cards[one["id"]] = {"slots": one["count"], "MiB": one["devmem"], "percent": 100}
    capacity = node["status"].get("capacity", {})
    number = int(capacity.get("volcano.sh/gpu-number", 0))
    for index in range(number):
        share = _quantity(capacity.get("volcano.sh/gpu-memory", 0)) // number
        cards[str(index)] = {"MiB": share, "pods beside whole cards": 10**6}
    for key, value in annotations.items():
        if match := re.fullmatch(r"hami\.io/node-register-(.+)", key):
            whole = parts.template(match[1], "")
            for one in json.loads(value):
                cards[one["id"]] = {**whole, "slots": one["count"], "MiB": one["devmem"]}
    for name in json.loads(annotations.get("baseDeviceInfos", "{}")):
        cards[f"chip {name.rpartition('-')[2]}"] = dict(_CHIP)
    return cards


def models_of(node: Object) -> dict[str, str]:
    """Return the model of each card that the vGPU device plugin registers."""
    register = annotations_of(node).get("volcano.sh/node-vgpu-register", "")
    items = [item.split(",") for item in register.split(":") if item]
    return {item[0]: item[3] for item in items}


def _listed(text: str) -> list[tuple[str, int, int]]:
    """Return card, memory and cores of each device."""
    devices = [item.split(",") for slot in text.split(";") for item in slot.split(":") if item]
    return [(card, int(memory), int(cores)) for card, _, memory, cores in devices]


def _limit(pod: Object, resource: str) -> int:
    return sum(
        _quantity(container.get("resources", {}).get("limits", {}).get(resource, 0))
        for container in pod["spec"]["containers"]
    )


def _quantity(text: str | int) -> int:
    value = str(text)
    return int(value[:-1]) * 1000 if value.endswith("k") else int(value)
