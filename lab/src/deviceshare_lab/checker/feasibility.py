"""Whether a waiting pod would fit on a node, by brute force over its cards.

An answer of True is sure for the manifests of the simulation; False may be wrong (another repartition of a card, say).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from deviceshare_lab.checker.cards import Device, Parts, cards_of, devices_of, models_of
from deviceshare_lab.clusters.fields import Object, annotations_of

_REAL = re.compile(r"Ascend310P-\d+c\.\d+cpu-\d+-(\d+)_(\d)")
"""A part of a chip as the MindCluster plugin reports it, with the chip and its group of AI cores."""
_MAX_GROUPS = {1: 4, 2: 3, 4: 2}
"""By AI cores, the most groups of a chip on which Volcano's rules place a part: more groups are smaller ones."""


class Node:
    """The cards of a node and what is taken of them."""

    def __init__(self, obj: Object, pods: Iterable[Object], parts: Parts) -> None:
        self._parts = parts
        self._cards = cards_of(obj, parts)
        self._capacity: Mapping[str, str] = obj["status"]["capacity"]
        self._models = models_of(obj)
        register = annotations_of(obj).get("volcano.sh/node-vgpu-register", "")
        self._mode = register.rstrip(":").rpartition(",")[2]
        self._given: defaultdict[str, list[Device]] = defaultdict(list)
        self._groups: defaultdict[str, set[str]] = defaultdict(set)
        for pod in pods:
            self._take(devices_of(pod, parts))
            for chip, group in _REAL.findall(annotations_of(pod).get("huawei.com/AscendReal", "")):
                self._groups[f"chip {chip}"].add(group)

    def _take(self, devices: Iterable[Device]) -> None:
        for device in devices:
            self._given[device.card].append(device)

    def place(self, pod: Object) -> bool:
        """Give a pod its devices; return False if they do not fit."""
        devices = self._fit(pod)
        if devices is None:
            return False
        self._take(devices)
        return True

    def _fit(self, pod: Object) -> list[Device] | None:
        limits = pod["spec"]["containers"][0]["resources"]["limits"]
        amounts = {key: int(value) for key, value in limits.items()}
        if number := amounts.get("volcano.sh/vgpu-number", 0):
            memory, cores = amounts["volcano.sh/vgpu-memory"], amounts["volcano.sh/vgpu-cores"]
            mode = annotations_of(pod)["volcano.sh/vgpu-mode"]
            if mode != self._mode:
                return None
            if mode == "mig":
                return self._instances(number, memory)
            return self._on_cards(number, {"slots": 1, "MiB": memory, "percent": cores})
        if memory := amounts.get("volcano.sh/gpu-memory", 0):
            if "volcano.sh/gpu-memory" not in self._capacity:
                return None
            return self._on_cards(1, {"MiB": memory, "pods beside whole cards": 1})
        if number := amounts.get("volcano.sh/gpu-number", 0):
            if "volcano.sh/gpu-number" not in self._capacity or "volcano.sh/gpu-memory" in self._capacity:
                return None
            return self._on_cards(number, {"pods beside whole cards": 10**6})
        if cores := amounts.get("huawei.com/npu-core", 0):
            if "huawei.com/npu-core" not in self._capacity:
                return None
            most = _MAX_GROUPS.get(cores, 0)
            without = {card for card, groups in self._groups.items() if len(groups) > most}
            return self._on_cards(1, {"AI cores": cores, "AI CPUs": cores}, without)
        return self._vnpu(amounts)

    def _vnpu(self, amounts: Mapping[str, int]) -> list[Device] | None:
        for name, memory in amounts.items():
            if match := re.fullmatch(r"huawei\.com/(Ascend.+)-memory", name):
                if f"huawei.com/{match[1]}" not in self._capacity:
                    return None
                sizes = [(each["memory"], each["name"]) for each in self._parts.chips[match[1]]["templates"]]
                template = next((found for size, found in sorted(sizes) if size >= memory), "")
                return self._on_cards(1, {"slots": 1, **self._parts.template(match[1], template)})
        return None

    def _on_cards(self, number: int, amounts: Mapping[str, int], without: Collection[str] = ()) -> list[Device] | None:
        found: list[Device] = []
        for card, has in self._cards.items():
            if card in without:
                continue
            taken: Counter[str] = Counter()
            for device in self._given[card]:
                taken.update(device.amounts)
            if len(found) < number and all(
                taken[what] + amount <= has.get(what, 0) for what, amount in amounts.items()
            ):
                found.append(Device(card, "", amounts))
        return found if len(found) == number else None

    def _instances(self, number: int, memory: int) -> list[Device] | None:
        found: list[Device] = []
        for card, has in self._cards.items():
            taken = {device.part for device in self._given[card]}
            if len(found) < number and len(taken) < has["slots"] and (part := self._free_instance(card, taken, memory)):
                found.append(Device(card, part, {"slots": 1, "MiB": memory, "percent": 0}))
        return found if len(found) == number else None

    def _free_instance(self, card: str, taken: set[str], memory: int) -> str:
        group = next(iter(taken)).rpartition("-")[0] if taken else ""
        for number in range(1, 5):
            name = f"group{number}"
            if group not in ("", name):
                continue
            for position in range(7):
                part = f"{name}-{position}"
                size = self._parts.instance(self._models[card], part)
                if size is not None and size >= memory and part not in taken:
                    return part
        return ""


def fits_somewhere(pods: Sequence[Object], nodes: Sequence[Node]) -> bool:
    """Return whether the pods fit together, the first one first, each on the first node where it fits.

    The nodes keep what they gave.
    """
    return all(any(node.place(pod) for node in nodes) for pod in pods)
