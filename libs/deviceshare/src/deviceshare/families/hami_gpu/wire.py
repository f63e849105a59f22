"""The annotations of HAMi's NVIDIA device plugin: cards on a node, devices on a pod.

A plugin of HAMi 2.7 or older registers cards as text, ``UUID,count,devmem,devcore,type,numa,health[,index,mode]:`` for
each card; a newer one as JSON. A pod has a slot for each init container, with or without devices, and then for each
container (:func:`write_slots`). Source: Project-HAMi/HAMi v2.4.1 to v2.10 (pkg/device/devices.go, pkg/device/nvidia,
pkg/scheduler/score.go, pkg/device-plugin/nvidiadevice/nvinternal/plugin).
"""

import re
from collections.abc import Iterable, Mapping
from sys import intern

import msgspec

from deviceshare.families.card_lists import items
from deviceshare.families.hami_vnpu import wire as hami_vnpu_wire
from deviceshare.families.numbers import whole
from deviceshare.families.vgpu import wire as vgpu_wire
from deviceshare.model import LARGEST, Card, DeviceGrant, FormatError

REGISTER = "hami.io/node-nvidia-register"
"""On a node: its cards."""
HANDSHAKE = "hami.io/node-handshake"
"""On a node: ``Reported …`` of a plugin of HAMi 2.7 or older, every 30 seconds; ``Requesting_…`` of its scheduler;
``Deleted_…`` of a scheduler that has lost the plugin. From HAMi 2.8 on the scheduler writes the latter when kubelet
offers no GPUs any more, and the mark stays when the plugin is back."""
CORDON = "hami.io/device-cordon"
"""On a node: UUIDs of cards that get no further pods, comma-separated (HAMi 2.10)."""

TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
"""On a pod: the devices that the plugin has yet to serve; it erases them container by container."""
ALLOCATED = "hami.io/vgpu-devices-allocated"
"""On a pod: the devices that it holds during its lifetime."""

MODE_WISH = "nvidia.com/vgpu-mode"
USE_ID = "nvidia.com/use-gpuuuid"
NOUSE_ID = "nvidia.com/nouse-gpuuuid"
NUMA_BIND = "nvidia.com/numa-bind"
NODE_POLICY = "hami.io/node-scheduler-policy"
GPU_POLICY = "hami.io/gpu-scheduler-policy"
"""Annotations of a pod that select cards, or how nodes and cards are selected."""
BINPACK, SPREAD = "binpack", "spread"
"""The values of ``NODE_POLICY``, and those of ``GPU_POLICY`` that only order cards."""

SHARED = "hami-gpu"
"""The mode of cards that HAMi-core shares. A card that is registered without a mode is one of them."""
_UNUSED = {vgpu_wire.MIG: "hami-gpu-mig", vgpu_wire.MPS: "hami-gpu-mps"}
_UNKNOWN = "hami-gpu-unknown"
MODES = (SHARED, *_UNUSED.values(), _UNKNOWN)
"""The modes of all cards of the plugin. Only those of ``SHARED`` are allocated."""

CARD_CORES = vgpu_wire.CARD_CORES
_DELETED = "Deleted"
_OTHERS = re.compile(r"hami\.io/node-(?!nvidia-).+-register")
_TRUTH = {word: value for value, words in ((True, "1 t T TRUE true True"), (False, "0 f F FALSE false False"))
          for word in words.split()}  # fmt: skip
_CARD = "UUID,count,devmem,devcore,type,numa,health, or these and index,mode: for each card"
_DEVICE = "UUID,NVIDIA,memory,cores: for each device, a ; after each container"


class _Registered(msgspec.Struct):
    """A registered card; zero values are omitted from the JSON."""

    id: str = ""
    index: int = 0
    count: int = 0
    devmem: int = 0
    devcore: int = 0
    type: str = ""
    mode: str = ""
    health: bool = False


_decode = msgspec.json.Decoder(list[_Registered] | None).decode


def read_register(annotations: Mapping[str, str], node: str, offered: int = 0) -> tuple[Card, ...]:
    """Return the cards of a node, () if it is not registered.

    ``deviceCoreScaling`` above 1 has no effect: a card has 100 percent of its cores.

    ``offered`` is the capacity of the node in ``nvidia.com/gpu``, 0 if it has none. HAMi's plugin offers all slots of
    all cards. A deleted registration in JSON is valid unless another plugin offers another number: neither plugin nor
    scheduler of HAMi 2.8 and newer removes the mark ``Deleted`` from a node whose plugin is back.

    Raises:
        FormatError: the annotation is malformed, or HAMi's scheduler has deleted the registration.
    """
    text = annotations.get(REGISTER, "").strip()
    if not text:
        return ()
    in_json = text.startswith(("[", "{", "null"))
    if is_deleted(annotations) and not in_json:
        raise _deleted(annotations, node, "Reported or Requesting: HAMi's device plugin does not report")
    registered = _from_json(text, node) if in_json else _from_text(text, node)
    seen: set[str] = set()
    for card in registered:
        if not card.id or set(card.id) & set(",:; \t\n") or card.id in seen:
            raise _register_error(node, card.id, "the UUID of a card that no other card of the node has, as id")
        seen.add(card.id)
        for field, least in (("index", 0), ("count", 0), ("devmem", 0), ("devcore", CARD_CORES)):
            amount = getattr(card, field)
            if not least <= amount <= LARGEST:
                raise _register_error(node, str(amount), f"a whole number of at least {least} as {field} of {card.id}")
    slots = sum(card.count for card in registered)
    if is_deleted(annotations) and offered not in (0, slots):
        raise _deleted(annotations, node, f"nothing, as HAMi's device plugin would offer {slots} GPUs, not {offered}")
    return tuple(map(_card, registered))


def _deleted(annotations: Mapping[str, str], node: str, expected: str) -> FormatError:
    return FormatError(f"Node {node}", f"metadata.annotations[{HANDSHAKE}]", annotations[HANDSHAKE], expected)


def is_deleted(annotations: Mapping[str, str]) -> bool:
    """Return whether HAMi's scheduler has marked the registration of a node as deleted."""
    return _DELETED in annotations.get(HANDSHAKE, "")


def _card(card: _Registered) -> Card:
    mode = card.mode or vgpu_wire.HAMI_CORE
    shown = SHARED if mode == vgpu_wire.HAMI_CORE else _UNUSED.get(mode, _UNKNOWN)
    # Interned: a cluster has many cards of few models.
    return Card(card.id, card.index, card.count, card.devmem, CARD_CORES, intern(card.type), card.health, intern(shown))


def _from_json(text: str, node: str) -> list[_Registered]:
    try:
        return _decode(text) or []
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _register_error(node, text, f"a JSON list of cards ({error})") from None


def _from_text(text: str, node: str) -> list[_Registered]:
    if ":" not in text:
        raise _register_error(node, text, _CARD)
    return [_from_item(item, node) for item in text.split(":") if item.strip()]


def _from_item(item: str, node: str) -> _Registered:
    fields = [field.strip() for field in item.split(",")]
    if len(fields) not in (7, 9):
        raise _register_error(node, item, f"7 or 9 fields, {_CARD}")
    uuid, count, memory, cores, model, numa, health, *more = fields
    index, mode = more or ("0", "")
    healthy = _TRUTH.get(health)
    numbers = [whole(value) for value in (count, memory, cores, index, numa.removeprefix("-"))]
    if healthy is None or any(number is None for number in numbers):
        raise _register_error(node, item, f"whole numbers, and true or false as seventh field: {_CARD}")
    slots, mebibytes, percent, position, _ = (number or 0 for number in numbers)
    return _Registered(uuid, position, slots, mebibytes, percent, model, mode, healthy)


def _register_error(node: str, value: str, expected: str) -> FormatError:
    return FormatError(f"Node {node}", f"metadata.annotations[{REGISTER}]", value, expected)


def other_registers(annotations: Mapping[str, str]) -> list[str]:
    """Return the annotations by which HAMi's device plugins of other vendors register devices."""
    return sorted(key for key, value in annotations.items() if _OTHERS.fullmatch(key) and value.strip(": []"))


def cordoned(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Return the UUIDs in the node annotation ``CORDON``."""
    return items(annotations.get(CORDON))


def policy(text: str | None) -> str | None:
    """Return the policy in a value of ``NODE_POLICY`` or ``GPU_POLICY``, '' for none.

    None: one that deviceshare does not have (``topology-aware``, ``numa``, ``mutex``).
    """
    named = items(text)
    if not named:
        return ""
    return named[0] if named in ((BINPACK,), (SPREAD,)) else None


def write_slots(slots: Iterable[Iterable[DeviceGrant]]) -> str:
    """Return the value of ``ALLOCATED`` and ``TO_ALLOCATE``; ``slots``: the devices of each container.

    A plugin of HAMi 2.9 or newer knows the container by the position of its slot, counted from the first init
    container. An older one hands the slots out in their order, skips empty ones, and knows nothing of init containers:
    since kubelet requests devices in the order of the slots, it serves init containers nevertheless. (The scheduler of
    these versions gives init containers no devices and no slots.)
    """
    return "".join(
        "".join(f"{device.id},{vgpu_wire.VENDOR},{device.memory},{device.cores}:" for device in slot) + ";"
        for slot in slots
    )


def read_slots(text: str, pod: str) -> list[list[DeviceGrant]]:
    """Return the devices of ``ALLOCATED``, one list per slot.

    The annotation does not contain card indexes, so indexes are -1. Accepts a missing ``;`` after the last container.

    Raises:
        FormatError: the annotation is malformed.
    """
    slots = [_read_slot(slot, pod) for slot in text.split(";")]
    return slots if slots[-1] else slots[:-1]


def _read_slot(slot: str, pod: str) -> list[DeviceGrant]:
    devices = []
    for item in slot.split(":"):
        if not item.strip():
            continue
        fields = [field.strip() for field in item.split(",")]
        memory, cores = (whole(field) for field in (*fields[2:4], "", "")[:2])
        if not fields[0] or memory is None or cores is None:
            field = f"metadata.annotations[{ALLOCATED}]"
            raise FormatError(f"Pod {pod}", field, item, f"whole numbers as memory and cores: {_DEVICE}")
        devices.append(DeviceGrant(fields[0], -1, memory, cores))
    return devices


def handoff(node: str, slots: str, now: float) -> dict[str, str]:
    """Return the annotations of a bound pod; ``slots`` of :func:`write_slots`, ``now`` in unix seconds."""
    seconds = str(int(now))
    return {
        TO_ALLOCATE: slots,
        ALLOCATED: slots,
        hami_vnpu_wire.NODE: node,
        hami_vnpu_wire.TIME: seconds,
        hami_vnpu_wire.BIND_PHASE: hami_vnpu_wire.ALLOCATING,
        hami_vnpu_wire.BIND_TIME: seconds,
    }
