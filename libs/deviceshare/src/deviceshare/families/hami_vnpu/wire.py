"""The annotations of HAMi's ascend-device-plugin: chips on a node, vNPUs on a pod.

Each chip type has its own annotations, named by its common word (``Ascend910B3``). The plugin assigns the slots of a
pod to its init containers and then its containers, in kubelet's order. Volcano omits the slots of containers without a
request; this module never does. Sources: Project-HAMi/ascend-device-plugin (internal/server), Project-HAMi/HAMi
(pkg/device), volcano-sh/volcano (pkg/scheduler/api/devices/ascend/hami).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from sys import intern

import msgspec

from deviceshare.families.numbers import whole
from deviceshare.model import LARGEST, WHOLE, Card, DeviceGrant, FormatError

REGISTER = "hami.io/node-register-"
"""On a node, prefix of the common word: its chips."""
NODE_HAMI_CORE = "hami-vnpu-core"
"""On a node: ``true`` if HAMi-core shares its chips, any other value if only templates partition them."""
CONFIGURED, TEMPLATES, SHARED = "vnpu", "vnpu-template", "vnpu-hami-core"
"""Modes of cards: by ``hamiVnpuCore`` in device-config.yaml (first), or by the node's annotation."""
MODES = (CONFIGURED, TEMPLATES, SHARED)

NETWORKS = 2**20
"""Upper limit of network ids; the plugin uses 0 and 1."""

MODE = "huawei.com/vnpu-mode"
"""On a pod: ``hami-core`` for a share of a chip instead of a template."""
HAMI_CORE = "hami-core"
USE_ID, NOUSE_ID = "hami.io/use-*-uuid", "hami.io/no-use-*-uuid"
"""On a pod, ``*`` is the common word: chips that it may use, and chips that it must not use."""

NODE = "hami.io/vgpu-node"
TIME = "hami.io/vgpu-time"
BIND_PHASE = "hami.io/bind-phase"
BIND_TIME = "hami.io/bind-time"
PREDICATE_TIME = "predicate-time"
ALLOCATING, SUCCESS, FAILED = "allocating", "success", "failed"
"""Values of ``BIND_PHASE``: ``allocating`` from binding until the plugin has served the pod, then the result."""
LOCK = "hami.io/mutex.lock"
"""On a node: time and pod of the lock."""

_ALLOCATED = re.compile(r"hami\.io/(?!vgpu-)(.+)-devices-allocated")
_DEVICE = "UUID,chip,memory,cores: for each device, a ; after each container"


def to_allocate(word: str) -> str:
    """Return the pod annotation from which the plugin erases served devices."""
    return f"hami.io/{word}-devices-to-allocate"


def allocated(word: str) -> str:
    """Return the pod annotation with the devices that the pod holds during its lifetime."""
    return f"hami.io/{word}-devices-allocated"


def runtime(word: str) -> str:
    """Return the pod annotation with the partition of each device, as JSON."""
    return f"huawei.com/{word}"


class _Custom(msgspec.Struct):
    network: object = msgspec.field(default=None, name="NetworkID")


class _Registered(msgspec.Struct):
    """A registered device; zero values are omitted from the JSON."""

    id: str = ""
    index: int = 0
    count: int = 0
    devmem: int = 0
    devcore: int = 0
    health: bool = False
    custominfo: _Custom | None = None


class _Cut(msgspec.Struct, omit_defaults=True):
    """The partition of a device for a pod; the plugin uses the first entry with the device's UUID."""

    id: str = msgspec.field(default="", name="UUID")
    template: str = msgspec.field(default="", name="temp")
    memory: int = 0
    core: int = 0


_decode_register = msgspec.json.Decoder(list[_Registered] | None).decode
_decode_cuts = msgspec.json.Decoder(list[_Cut] | None).decode


def read_registers(annotations: Mapping[str, str], node: str) -> tuple[Card, ...]:
    """Return the chips of a node, of all types, by index.

    Raises:
        FormatError: a chip is invalid. A partial list would look like removed chips.
    """
    cards: list[Card] = []
    mode = CONFIGURED
    if (answer := annotations.get(NODE_HAMI_CORE)) is not None:
        mode = SHARED if answer == "true" else TEMPLATES
    seen: set[str] = set()
    for key in sorted(key for key in annotations if key.startswith(REGISTER) and len(key) > len(REGISTER)):
        found = _read_register(annotations[key], key, mode, node)
        for card in found:
            if card.id in seen:
                raise _register_error(node, key, card.id, "a UUID that no other chip of the node has")
            seen.add(card.id)
        cards += sorted(found, key=lambda card: card.index)
    return tuple(cards)


def _read_register(text: str, key: str, mode: str, node: str) -> list[Card]:
    try:
        devices = _decode_register(text) or []
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _register_error(node, key, text, f"a JSON list of devices ({error})") from None
    cards = []
    # Interned: a cluster has many chips of few types.
    word = intern(key.removeprefix(REGISTER))
    for device in devices:
        if not device.id or set(device.id) & set(",:; \t\n"):
            raise _register_error(node, key, device.id, "the UUID of a chip as id")
        for field in ("index", "count", "devmem", "devcore"):
            amount = getattr(device, field)
            if not 0 <= amount <= LARGEST:
                raise _register_error(node, key, str(amount), f"a whole number of at least 0 as {field} of {device.id}")
        cards.append(
            Card(
                id=device.id,
                index=device.index,
                slots=device.count,
                memory=device.devmem,
                cores=device.devcore,
                type=word,
                healthy=device.health,
                mode=mode,
                network=_network(device.custominfo),
            )
        )
    return cards


def _network(custom: _Custom | None) -> int:
    """Return the NetworkID, or -1 if it is missing or not a number below ``NETWORKS``."""
    value = custom.network if custom is not None else None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < NETWORKS:
        return int(value)
    return -1


def _register_error(node: str, key: str, value: str, expected: str) -> FormatError:
    return FormatError(f"Node {node}", f"metadata.annotations[{key}]", value, expected)


class Detail(msgspec.Struct, frozen=True, gc=False):
    """The detail of a grant: chip type, and template, ``hami-core`` or '' (a whole chip)."""

    word: str
    cut: str = ""

    def __str__(self) -> str:
        """Return the form in a grant: ``Ascend910B3/vir05_1c_16g``."""
        return f"{self.word}/{self.cut}" if self.cut else self.word

    @classmethod
    def of(cls, detail: str) -> "Detail":
        """Parse the detail of a grant."""
        word, _, cut = detail.partition("/")
        return cls(word, cut)


def write_slots(slots: Iterable[Iterable[DeviceGrant]]) -> str:
    """Return the value of :func:`allocated` and :func:`to_allocate`.

    ``slots``: the devices of each init container, then of each container; empty for a container without devices.
    """
    return "".join(
        "".join(f"{device.id},{Detail.of(device.detail).word},{device.memory},{device.cores}:" for device in slot) + ";"
        for slot in slots
    )


def write_runtime(devices: Iterable[DeviceGrant]) -> str:
    """Return the value of :func:`runtime`: the template of each device, or memory and cores under HAMi-core."""
    cuts = []
    for device in devices:
        cut = Detail.of(device.detail).cut
        amounts = (device.memory, device.cores) if cut == HAMI_CORE else (0, 0)
        cuts.append(_Cut(device.id, "" if cut == HAMI_CORE else cut, *amounts))
    return msgspec.json.encode(cuts).decode()


def words_held(annotations: Mapping[str, str]) -> Iterator[str]:
    """Yield the common words of the chip types that a pod holds; ``vgpu`` stands for HAMi's NVIDIA cards."""
    for key in sorted(annotations):
        if match := _ALLOCATED.fullmatch(key):
            yield match[1]


def read_slots(
    annotations: Mapping[str, str], word: str, pod: str
) -> tuple[list[list[DeviceGrant]], FormatError | None]:
    """Return the devices of one chip type that a pod holds, one list per slot, and the first error or None.

    The annotations do not contain chip indexes, so indexes are -1. Accepts other writers' variants: no ``;`` after the
    last slot, ``,,0,0:`` for no device. A device with a valid UUID only counts as a whole chip. If the JSON with the
    templates is missing or invalid, devices have no template and count by memory.
    """
    templates, error = _read_templates(annotations.get(runtime(word), ""), word, pod)
    is_shared = annotations.get(MODE) == HAMI_CORE
    slots: list[list[DeviceGrant]] = []
    for slot in annotations.get(allocated(word), "").split(";"):
        slots.append([])
        for item in slot.split(":"):
            if not item.strip():
                continue
            uuid, *rest = [field.strip() for field in item.split(",")]
            memory, cores = (whole(field) for field in (*rest[1:3], "", "")[:2])
            if memory is None or cores is None or (not uuid and (memory or cores)):
                error = error or _pod_error(pod, allocated(word), item, _DEVICE)
                memory, cores = WHOLE, 0
            if uuid:
                detail = Detail(word, HAMI_CORE if is_shared else templates.get(uuid, ""))
                slots[-1].append(DeviceGrant(uuid, -1, memory, cores, intern(str(detail))))
    return slots if slots[-1] else slots[:-1], error


def _read_templates(text: str, word: str, pod: str) -> tuple[dict[str, str], FormatError | None]:
    """Return the templates by UUID, or an error."""
    try:
        return {cut.id: cut.template for cut in _decode_cuts(text) or ()} if text else {}, None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return {}, _pod_error(pod, runtime(word), text, f"a JSON list of device partitions ({error})")


def _pod_error(pod: str, key: str, value: str, expected: str) -> FormatError:
    return FormatError(f"Pod {pod}", f"metadata.annotations[{key}]", value, expected)
