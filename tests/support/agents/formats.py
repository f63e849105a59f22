"""The annotations of a newly bound pod, compared byte by byte with the format of its device plugin."""

import json
import re

from deviceshare_lab.clusters.fields import annotations_of as annotations
from deviceshare_lab.world.plugin import ASCEND, CORES, MEMORY, NUMBER, VGPU, amount, asked
from support.agents.api import Object

_VGPU = re.compile(r"GPU-[0-9A-Za-z-]+(\[[^\[\]-]+-\d+\])?,NVIDIA,(\d+),(\d+)")
_TEMPLATES = {1: {"vir01"}, 2: {"vir02", "vir02_1c"}, 4: {"vir04", "vir04_3c", "vir04_3c_ndvpp", "vir04_4c_dvpp"}}


def departures(pod: Object) -> list[str]:
    """Return what its device plugin would not read as it is meant in a bound pod's annotations, [] for nothing."""
    found = []
    inits, containers = pod["spec"].get("initContainers", []), pod["spec"]["containers"]
    resources = {name for one in (*inits, *containers) for name in one.get("resources", {}).get("limits") or {}}
    if VGPU in resources:
        found += _vgpu(pod, containers)
    if resources & {MEMORY, NUMBER}:
        found += _gpu(pod, 1 if MEMORY in resources else asked(pod, NUMBER))
    for word in {match[1] for name in resources if (match := ASCEND.fullmatch(name))}:
        found += _ascend(pod, [*inits, *containers], word)
    if CORES in resources:
        found += _mindcluster(pod, asked(pod, CORES))
    return found


def _wrong(pod: Object, expected: dict[str, str | re.Pattern[str]]) -> list[str]:
    said = annotations(pod)
    return [
        f"{key}: {said.get(key)!r}, expected {value!r}"
        for key, value in expected.items()
        if not (said.get(key) == value if isinstance(value, str) else value.fullmatch(said.get(key, "")))
    ]


_SECONDS, _NANOSECONDS = re.compile(r"\d{10}"), re.compile(r"\d{19}")


def _vgpu(pod: Object, containers: list[Object]) -> list[str]:
    given = annotations(pod).get("volcano.sh/vgpu-ids-new", "")
    found = _wrong(
        pod,
        {
            "volcano.sh/vgpu-node": pod["spec"]["nodeName"],
            "volcano.sh/vgpu-time": re.compile(r"\d+"),
            "volcano.sh/bind-time": _SECONDS,
            "volcano.sh/bind-phase": "allocating",
            "volcano.sh/devices-to-allocate": given,
        },
    )
    slots = given.split(";")
    if len(slots) != len(containers):
        return [*found, f"volcano.sh/vgpu-ids-new: {given!r}, expected {len(containers)} slots"]
    for slot, container in zip(slots, containers, strict=True):
        devices = [_VGPU.fullmatch(device) for device in slot.split(":")[:-1]]
        asked = amount(container, VGPU), amount(container, "volcano.sh/vgpu-memory")
        right = len(devices) == asked[0] and (not slot or slot.endswith(":")) and None not in devices
        right = right and all(device and int(device[2]) == asked[1] for device in devices)
        right = right and all(
            device and int(device[3]) == amount(container, "volcano.sh/vgpu-cores") for device in devices
        )
        if not right:
            found.append(f"volcano.sh/vgpu-ids-new: {slot!r}, expected number, memory {asked} of {container['name']}")
    return found


def _gpu(pod: Object, cards: int) -> list[str]:
    index = re.compile(rf"\d+(,\d+){{{cards - 1}}}")
    return _wrong(pod, {"volcano.sh/gpu-index": index, "volcano.sh/predicate-time": _NANOSECONDS})


def _ascend(pod: Object, containers: list[Object], word: str) -> list[str]:
    to_allocate, allocated = f"hami.io/{word}-devices-to-allocate", f"hami.io/{word}-devices-allocated"
    given = annotations(pod).get(allocated, "")
    found = _wrong(
        pod,
        {
            to_allocate: given,
            "hami.io/vgpu-node": pod["spec"]["nodeName"],
            "hami.io/vgpu-time": _SECONDS,
            "hami.io/bind-time": _SECONDS,
            "hami.io/bind-phase": "allocating",
            "predicate-time": re.compile(r"\d+"),
        },
    )
    slots = given.split(";")
    device = re.compile(rf"[0-9A-Za-z-]+,{word},\d+,\d+")
    if slots[-1] or len(slots) != len(containers) + 1:
        found.append(f"{allocated}: {given!r}, expected {len(containers)} slots, each ending in ;")
    for slot, container in zip(slots, containers, strict=False):
        parts = slot.split(":")
        if parts[-1] or len(parts) - 1 != amount(container, f"huawei.com/{word}"):
            found.append(f"{allocated}: {slot!r} of {container['name']}")
        found += [f"{allocated}: {part!r}" for part in parts[:-1] if not device.fullmatch(part)]
    listed = json.loads(annotations(pod).get(f"huawei.com/{word}", "[]"))
    held = [part.split(",")[0] for slot in slots for part in slot.split(":") if part]
    if [one.get("UUID") for one in listed] != held:
        found.append(f"huawei.com/{word}: {listed}, expected the devices {held}")
    return found


def _mindcluster(pod: Object, cores: int) -> list[str]:
    given = annotations(pod).get(CORES, "")
    chips, _, template = given.partition("-")
    found = _wrong(pod, {"predicate-time": _NANOSECONDS})
    if cores % 8 == 0:
        right = not template and len(chips.split(",")) == cores // 8 and chips.replace(",", "").isdecimal()
    else:
        right = chips.isdecimal() and template in _TEMPLATES[cores]
    return found if right else [*found, f"{CORES}: {given!r} for {cores} AI cores"]
