"""The annotations of HAMi's ascend-device-plugin: chips on a node, vNPUs on a pod.

Each kind of chip has its own annotations, named by its common word (``Ascend910B3``). The slots of a pod are for its
init containers and then its containers, in the order of kubelet's requests. Volcano omits the slots of containers
without a request, deviceshare writes all. Sources: Project-HAMi/ascend-device-plugin (internal/server),
Project-HAMi/HAMi (pkg/device), volcano-sh/volcano (pkg/scheduler/api/devices/ascend/hami).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from sys import intern
from typing import NamedTuple

import msgspec

from deviceshare.formats.numbers import whole
from deviceshare.model import LARGEST, WHOLE, Card, DeviceGrant, FormatError

REGISTER = "hami.io/node-register-"
"""On a node, a prefix of the common word: its chips."""
NODE_HAMI_CORE = "hami-vnpu-core"
"""On a node: ``true`` if HAMi-core shares its chips; otherwise chips are only partitioned by templates."""
CONFIGURED, TEMPLATES, SHARED = "vnpu", "vnpu-template", "vnpu-hami-core"
"""Modes of cards: by ``hamiVnpuCore`` in device-config.yaml, or by the node's annotation."""
MODES = (CONFIGURED, TEMPLATES, SHARED)

NETWORKS = 2**20
"""An upper limit of the networks of a node; the plugin numbers them 0 and 1."""

MODE = "huawei.com/vnpu-mode"
"""On a pod: ``hami-core`` for a share of a chip instead of a template."""
HAMI_CORE = "hami-core"
USE_ID, NOUSE_ID = "hami.io/use-*-uuid", "hami.io/no-use-*-uuid"
"""On a pod, with the common word instead of the star: chips that it may and may not get."""

NODE = "hami.io/vgpu-node"
TIME = "hami.io/vgpu-time"
BIND_PHASE = "hami.io/bind-phase"
BIND_TIME = "hami.io/bind-time"
PREDICATE_TIME = "predicate-time"
ALLOCATING, SUCCESS, FAILED = "allocating", "success", "failed"
"""Values of ``BIND_PHASE``: from binding until the plugin has served the pod, and the result."""
LOCK = "hami.io/mutex.lock"
"""On a node, the node lock: its time and pod."""

_ALLOCATED = re.compile(r"hami\.io/(.+)-devices-allocated")
_DEVICE = "UUID,chip,memory,cores: for each device, a ; after each container"


def to_allocate(word: str) -> str:
    """Return the name of the annotation of a pod with the devices left to hand out; the plugin erases them."""
    return f"hami.io/{word}-devices-to-allocate"


def allocated(word: str) -> str:
    """Return the name of the annotation of a pod with all devices that it holds."""
    return f"hami.io/{word}-devices-allocated"


def runtime(word: str) -> str:
    """Return the name of the annotation of a pod with the partition of each device, JSON."""
    return f"huawei.com/{word}"


class _Custom(msgspec.Struct):
    network: object = msgspec.field(default=None, name="NetworkID")


class _Registered(msgspec.Struct):
    """A device as the plugin registers it; values that are 0, false or empty are omitted."""

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
    """Return the chips of all kinds of a node, by index.

    Raises:
        FormatError: any chip is malformed. Omitted chips would count as removed ones.
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
    # A cluster has many chips of few kinds: each name is stored once.
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
    """Return the NetworkID, -1 if there is none below ``NETWORKS``."""
    value = custom.network if custom is not None else None
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < NETWORKS:
        return int(value)
    return -1


def _register_error(node: str, key: str, value: str, expected: str) -> FormatError:
    return FormatError(f"Node {node}", f"metadata.annotations[{key}]", value, expected)


class Detail(NamedTuple):
    """The detail of a grant: the kind of chip, and its template, '' for a whole chip, or ``hami-core``."""

    word: str
    cut: str = ""

    def __str__(self) -> str:
        """Return the form in a grant, ``Ascend910B3/vir05_1c_16g``."""
        return f"{self.word}/{self.cut}" if self.cut else self.word

    @classmethod
    def of(cls, device: DeviceGrant) -> "Detail":
        """Read the detail of a grant."""
        word, _, cut = device.detail.partition("/")
        return cls(word, cut)


def write_slots(slots: Iterable[Iterable[DeviceGrant]]) -> str:
    """Return the value of :func:`allocated` and :func:`to_allocate`.

    ``slots`` are the devices of each init container and then each container; a slot may be empty.
    """
    return "".join(
        "".join(f"{device.id},{Detail.of(device).word},{device.memory},{device.cores}:" for device in slot) + ";"
        for slot in slots
    )


def write_runtime(devices: Iterable[DeviceGrant]) -> str:
    """Return the value of :func:`runtime`: the template of each device, or its memory and cores under HAMi-core."""
    cuts = []
    for device in devices:
        cut = Detail.of(device).cut
        amounts = (device.memory, device.cores) if cut == HAMI_CORE else (0, 0)
        cuts.append(_Cut(device.id, "" if cut == HAMI_CORE else cut, *amounts))
    return msgspec.json.encode(cuts).decode()


def words_held(annotations: Mapping[str, str]) -> Iterator[str]:
    """Yield the common words of the chips of a pod."""
    for key in sorted(annotations):
        if match := _ALLOCATED.fullmatch(key):
            yield match[1]


def read_slots(
    annotations: Mapping[str, str], word: str, pod: str
) -> tuple[list[list[DeviceGrant]], FormatError | None]:
    """Return the devices of a pod of one kind of chip, one list per slot, and the first error.

    The annotations do not contain the index of a chip, so it is -1. Forms of other writers are accepted: no ``;`` after
    the last slot, ``,,0,0:`` for no device. A device with only a readable UUID counts as the whole chip. If the JSON
    with the templates is missing or malformed, devices count by their memory.
    """
    reader = _Slots(annotations, word, pod)
    slots = [reader.slot(slot) for slot in annotations.get(reader.key, "").split(";")]
    return slots if slots[-1] else slots[:-1], reader.error


class _Slots:
    """Reads the slots of one pod; ``error`` is the first error."""

    def __init__(self, annotations: Mapping[str, str], word: str, pod: str) -> None:
        self.word = word
        self.pod = pod
        self.key = allocated(word)
        self.error: FormatError | None = None
        self.cut = HAMI_CORE if annotations.get(MODE) == HAMI_CORE else ""
        self.templates = self.read_templates(annotations.get(runtime(word), ""))

    def read_templates(self, text: str) -> dict[str, str]:
        """Return the templates by UUID."""
        try:
            return {cut.id: cut.template for cut in _decode_cuts(text) or ()} if text else {}
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            self.wrong(runtime(self.word), text, f"a JSON list of the partitions of devices ({error})")
            return {}

    def slot(self, text: str) -> list[DeviceGrant]:
        """Return the devices of one slot."""
        devices = []
        for item in text.split(":"):
            fields = [field.strip() for field in item.split(",")]
            uuid = fields[0]
            memory, cores = (whole(field) for field in (*fields[2:4], "", "")[:2])
            if memory is None or cores is None or (not uuid and (memory or cores)):
                if not item.strip():
                    continue
                self.wrong(self.key, item, _DEVICE)
                memory, cores = WHOLE, 0
            if uuid:
                detail = Detail(self.word, self.cut or self.templates.get(uuid, ""))
                devices.append(DeviceGrant(uuid, -1, memory, cores, intern(str(detail))))
        return devices

    def wrong(self, key: str, value: str, expected: str) -> None:
        """Keep an error if it is the first."""
        self.error = self.error or FormatError(f"Pod {self.pod}", f"metadata.annotations[{key}]", value, expected)
