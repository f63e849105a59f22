"""The annotations of volcano-vgpu-device-plugin: cards on a node, devices on a pod (hami-core, MIG, MPS).

The plugin interprets the position of a slot as the index in ``spec.containers``. Volcano omits the slots of containers
without a request; this module never does. Source: Project-HAMi/volcano-vgpu-device-plugin (pkg/util),
volcano-sh/volcano (pkg/scheduler/api/devices/nvidia/vgpu).
"""

from collections.abc import Sequence
from sys import intern

from deviceshare.families.numbers import whole
from deviceshare.model import Card, ContainerGrant, DeviceGrant, FormatError

REGISTER = "volcano.sh/node-vgpu-register"
"""On a node: its cards."""

NODE = "volcano.sh/vgpu-node"
TIME = "volcano.sh/vgpu-time"
IDS = "volcano.sh/vgpu-ids-new"
"""On a pod: the devices that it holds during its lifetime."""
INIT_IDS = "deviceshare.io/vgpu-init-ids"
"""On a pod: the devices of its init containers and sidecars, one slot per ``spec.initContainers``; ours."""
TO_ALLOCATE = "volcano.sh/devices-to-allocate"
"""On a pod: the devices that the plugin has yet to serve; it erases them one by one."""
BIND_PHASE = "volcano.sh/bind-phase"
BIND_TIME = "volcano.sh/bind-time"
ALLOCATING, SUCCESS, FAILED = "allocating", "success", "failed"
"""Values of ``BIND_PHASE``: ``allocating`` from binding until the plugin has served the pod, then the result."""

MODE = "volcano.sh/vgpu-mode"
USE_TYPE = "nvidia.com/use-gputype"
NOUSE_TYPE = "nvidia.com/nouse-gputype"
USE_ID = "volcano.sh/vgpu-use-gpuuuid"
NOUSE_ID = "volcano.sh/vgpu-nouse-gpuuuid"
PODGROUP_POLICY = "volcano.sh/vgpu-podgroup-policy"
SPREAD = "spread"
"""The only value of ``PODGROUP_POLICY``: pods of the PodGroup do not share cards with each other."""

HAMI_CORE = "hami-core"
MIG = "mig"
MPS = "mps"
MODES = (HAMI_CORE, MIG, MPS)

VENDOR = "NVIDIA"
"""The constant second field of each device on a pod."""
CARD_CORES = 100
"""Cores are percent of a card."""

_TRUTH = {word: value for value, words in ((True, "1 t true"), (False, "0 f false")) for word in words.split()}
_CARD = "UUID,count,devmem,type,health,mode: for each card"
_DEVICE = "UUID,NVIDIA,memory,cores: for each device, containers separated by ;"


def read_register(text: str, node: str) -> tuple[Card, ...]:
    """Return the cards of the node annotation ``REGISTER``; the index of a card is its position.

    Ignores additional fields; a card without a mode is hami-core, as in Volcano.

    Raises:
        FormatError: a card is invalid. A partial list would shift the indexes.
    """
    items = text.split(":")
    if not items[-1].strip():
        items.pop()
    cards = tuple(_read_card(item, index, node) for index, item in enumerate(items))
    seen: set[str] = set()
    for card in cards:
        if card.id in seen:
            raise _register_error(node, card.index, card.id, "a UUID that no other card of the node has")
        seen.add(card.id)
    return cards


def _read_card(item: str, index: int, node: str) -> Card:
    fields = [field.strip() for field in item.split(",")]
    if len(fields) < 6:
        raise _register_error(node, index, item, f"six fields, {_CARD}")
    uuid, slots, memory, model, health, mode = fields[:6]
    if not uuid or ";" in uuid or "[" in uuid:
        raise _register_error(node, index, uuid, "the UUID of a card")
    if (count := whole(slots)) is None:
        raise _register_error(
            node, index, slots, f"how many pods may share the card as second field, a whole number: {_CARD}"
        )
    if (mebibytes := whole(memory)) is None:
        raise _register_error(node, index, memory, f"the card's memory in MiB as third field, a whole number: {_CARD}")
    if (healthy := _TRUTH.get(health.lower())) is None:
        raise _register_error(node, index, health, f"true or false as fifth field: {_CARD}")
    # Interned: a cluster has many cards of few models.
    return Card(uuid, index, count, mebibytes, CARD_CORES, intern(model), healthy, intern(mode or HAMI_CORE))


def _register_error(node: str, index: int, value: str, expected: str) -> FormatError:
    return FormatError(f"Node {node}", f"metadata.annotations[{REGISTER}] card {index}", value, expected)


def write_ids(grants: Sequence[ContainerGrant], containers: int) -> str:
    """Return the value of ``IDS`` and ``TO_ALLOCATE``, or of ``INIT_IDS``.

    Args:
        grants: the grants of the pod; several grants may name one container.
        containers: the number of containers. A container without a grant gets an empty slot, so that the position of
            each slot is the container's index.
    """
    slots = [""] * containers
    for grant in grants:
        slots[grant.position] += "".join(map(_write_device, grant.devices))
    return ";".join(slots)


def _write_device(device: DeviceGrant) -> str:
    asked = device.memory if device.asked < 0 else device.asked
    return f"{device_id(device)},{VENDOR},{asked},{device.cores}:"


def device_id(device: DeviceGrant) -> str:
    """Return the plugin's id of a device: ``UUID``, or ``UUID[group-position]`` for a MIG instance."""
    return f"{device.id}[{device.detail}]" if device.detail else device.id


def read_ids(text: str, pod: str, key: str = IDS) -> list[list[DeviceGrant]]:
    """Return the devices of the annotation ``key`` (``IDS`` or ``INIT_IDS``), one list per slot.

    The annotation does not contain card indexes, so indexes are -1. ``UUID[group-position]`` becomes id and ``detail``,
    as does any other text in brackets; memory is the requested memory. Accepts other writers' variants: ``;`` after
    the last container (an additional empty slot), ``,,0,0:`` for no device, a missing last ``:``, and, from Volcano,
    no slots for containers without a request.

    Raises:
        FormatError: the annotation is malformed.
    """
    return [_read_slot(slot, pod, key) for slot in text.split(";")] if text.strip() else []


def _read_slot(slot: str, pod: str, key: str) -> list[DeviceGrant]:
    devices = []
    for item in slot.split(":"):
        if not item.strip():
            continue
        fields = [field.strip() for field in item.split(",")]
        if len(fields) < 4:
            raise ids_error(pod, key, item, _DEVICE)
        memory, cores = whole(fields[2]), whole(fields[3])
        if memory is None or cores is None:
            raise ids_error(pod, key, item, f"whole numbers as memory and cores: {_DEVICE}")
        name, bracket, rest = fields[0].partition("[")
        if not name:
            if bracket or memory or cores:
                raise ids_error(pod, key, item, f"a UUID: {_DEVICE}")
            continue
        detail = (rest.removesuffix("]") or "[]") if bracket else ""
        devices.append(DeviceGrant(name, -1, memory, cores, intern(detail)))
    return devices


def ids_error(pod: str, key: str, value: str, expected: str) -> FormatError:
    """Return the error for an invalid device in ``IDS`` or ``INIT_IDS``."""
    return FormatError(f"Pod {pod}", f"metadata.annotations[{key}]", value, expected)
