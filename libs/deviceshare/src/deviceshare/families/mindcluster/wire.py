"""Formats of MindCluster's components and Volcano for Ascend 310P chips with dynamic partitioning.

The Node lists its chips; ConfigMaps list the healthy ones. ClusterD aggregates many nodes in one ConfigMap
(``cluster-info-device-<number>``); without ClusterD the device plugin writes one ConfigMap per node. Source:
volcano-sh/volcano (pkg/scheduler/api/devices/ascend/mindcluster, third_party/mindcluster), Ascend/mind-cluster
(component/ascend-device-plugin).
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from deviceshare.families.hooks import DevicesByNode
from deviceshare.families.numbers import whole
from deviceshare.model import Card, FormatError, Problem

CORES = "huawei.com/npu-core"
"""Resource: AI cores. Pod annotation of the same name: chips and template, ``0-vir02_1c``, or whole chips, ``0,1``."""
PREDICATE_TIME = "predicate-time"
"""On a pod: time of placement, unix nanoseconds; the plugin serves the oldest pod first."""
REAL = "huawei.com/AscendReal"
"""On a pod: the devices that the plugin allocated, ``Ascend310P-2c.1cpu-105-0_3``: vNPU 105 on chip 0 in group 3."""

WHOLE_NPUS = frozenset(f"huawei.com/{name}" for name in ("Ascend910", "Ascend910b", "Ascend310", "Ascend310P"))
"""The resources by which Ascend's own device plugin offers whole NPUs (Volcano's ``NPU910CardName`` and its like)."""

TASK = "ring-controller.atlas"
TASK_310P = "ascend-310P"
"""Value of the pod label ``TASK`` for pods whose request counts."""
LEVEL = "vnpu-level"
HIGH = "high"
DVPP = "vnpu-dvpp"
"""Pod label: use of the chip's DVPP (image and video unit); one of ``DVPP_VALUES``."""
NULL, YES, NO = DVPP_VALUES = ("null", "yes", "no")

BASE_INFO = "baseDeviceInfos"
"""On a node: JSON object whose keys are the names of its chips."""
ACCELERATOR = "accelerator"
SERVER_TYPE = "servertype"
CHIP_NAME = "node.kubernetes.io/npu.chip.name"

KIND = "Ascend310P"
MODE = "mindcluster"
CHIP_CORES, CHIP_CPUS = 8, 7
"""AI cores and AI CPUs of a chip."""

_HEALTHY, _UNHEALTHY, _RECOVERING = (f"huawei.com/{KIND}{suffix}" for suffix in ("", "-Unhealthy", "-Recovering"))
_LONGEST_REAL = 200
_LONGEST_VALUE = 256
_SERVER = re.compile(rf"{KIND}-(\d+)(-.*)?")


class Template(NamedTuple):
    """A partition of a chip: AI cores, AI CPUs, and use of the chip's DVPP."""

    name: str
    cores: int
    cpus: int
    dvpp: str


VIR01 = Template("vir01", 1, 1, NULL)
VIR02 = Template("vir02", 2, 2, NULL)
VIR02_1C = Template("vir02_1c", 2, 1, NULL)
VIR04 = Template("vir04", 4, 4, NULL)
VIR04_3C = Template("vir04_3c", 4, 3, NULL)
VIR04_3C_NDVPP = Template("vir04_3c_ndvpp", 4, 3, NO)
VIR04_4C_DVPP = Template("vir04_4c_dvpp", 4, 4, YES)
WHOLE = Template("", CHIP_CORES, CHIP_CPUS, NO)
"""A whole chip."""
TEMPLATES = {
    template.name: template for template in (VIR01, VIR02, VIR02_1C, VIR04, VIR04_3C, VIR04_3C_NDVPP, VIR04_4C_DVPP)
}


class Given(NamedTuple):
    """The allocation of a pod: a partition of one chip, or whole chips by number (``template`` '')."""

    chips: tuple[int, ...]
    template: str


def chip_id(index: int) -> str:
    """Return the plugin's name of a chip: ``Ascend310P-0``."""
    return f"{KIND}-{index}"


def read_chips(
    labels: Mapping[str, str], base_info: str | None, devices: Mapping[str, str] | None, node: str
) -> tuple[Card, ...]:
    """Return the chips of a node with the resource ``CORES``, by number.

    Args:
        labels: the node's labels.
        base_info: the annotation ``BASE_INFO``, or None.
        devices: the node's DeviceList from the ConfigMaps (:func:`read_devices`), or None.
        node: the node's name, for messages.

    Raises:
        FormatError: a label, annotation or DeviceList is missing or malformed.
    """
    accelerator = labels.get(ACCELERATOR, "")
    if accelerator != f"huawei-{KIND}":
        raise _of_node(node, f"metadata.labels[{ACCELERATOR}]", accelerator, f"huawei-{KIND}: vNPUs of no other chip")
    server = labels.get(SERVER_TYPE, "")
    match = _SERVER.fullmatch(server)
    if match is None or match[1] != str(CHIP_CORES):
        expected = f"{KIND}-{CHIP_CORES}, optionally followed by a dash and more text"
        raise _of_node(node, f"metadata.labels[{SERVER_TYPE}]", server, expected)
    chips = _read_base_info(base_info, node)
    if devices is None or _HEALTHY not in devices:
        expected = f"the node's DeviceList with {_HEALTHY}: ClusterD or the device plugin lists the healthy chips there"
        shown = "" if devices is None else ", ".join(sorted(devices))
        raise _of_node(node, "ConfigMap mindx-dl/cluster-info-device-…", shown, expected)
    sick = {name.strip() for key in (_UNHEALTHY, _RECOVERING) for name in devices.get(key, "").split(",")}
    chip_type = labels.get(CHIP_NAME) or KIND
    return tuple(
        # A partition takes at least one AI CPU, so the number of AI CPUs limits the number of partitions.
        Card(chip_id(index), index, CHIP_CPUS, 0, CHIP_CORES, chip_type, chip_id(index) not in sick, MODE)
        for index in sorted(chips)
    )


def _read_base_info(text: str | None, node: str) -> list[int]:
    """Return the numbers of the chips; omits vNPUs, whose names have more parts."""
    field = f"metadata.annotations[{BASE_INFO}]"
    expected = f'a JSON object whose keys are chips, such as {{"{KIND}-0":{{}}}}'
    try:
        names = _decode_base_info(text or "")
    except (msgspec.MsgspecError, RecursionError):
        raise _of_node(node, field, text or "", expected) from None
    chips = [(name, _number(name.removeprefix(f"{KIND}-"))) for name in names if name.count("-") < 2]
    numbers = [number for name, number in chips if number is not None and name == chip_id(number)]
    if not numbers or len(numbers) < len(chips):
        raise _of_node(node, field, text or "", expected)
    return numbers


_decode_base_info = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def read_given(text: str, pod: str) -> Given:
    """Parse the pod annotation ``CORES``.

    Raises:
        FormatError: the annotation is malformed.
    """
    numbers, dash, template = text.strip().partition("-")
    chips = tuple(chip for item in numbers.split(",") if (chip := _number(item.strip())) is not None)
    distinct = len(chips) == len(set(chips)) == numbers.count(",") + 1
    if not distinct or (dash and (len(chips) > 1 or not template)):
        expected = f"a chip and a template, such as 0-{VIR02_1C.name}, or distinct whole chips, such as 0,1"
        raise FormatError(f"Pod {pod}", f"metadata.annotations[{CORES}]", text[:_LONGEST_VALUE], expected)
    return Given(chips, template)


def write_given(chips: Iterable[int], template: str) -> str:
    """Return the value of the annotation ``CORES``; ``template`` is '' for whole chips."""
    numbers = ",".join(map(str, chips))
    return f"{numbers}-{template}" if template else numbers


def read_real(annotations: Mapping[str, str]) -> str:
    """Return the annotation ``REAL``, or '' before the plugin has allocated a device."""
    return annotations.get(REAL, "").strip()[:_LONGEST_REAL]


def groups_of(real: str) -> frozenset[int]:
    """Return the chip groups of the devices in ``REAL``; whole chips have no group."""
    numbers = (whole(item.rpartition("_")[2]) for item in real.split(",") if "_" in item)
    return frozenset(number for number in numbers if number is not None)


def chips_of(real: str) -> frozenset[int]:
    """Return the numbers of the chips of the devices in ``REAL``: whole ones, and parts of one."""
    numbers = (_number(item.rpartition("-")[2].partition("_")[0]) for item in real.split(","))
    return frozenset(number for number in numbers if number is not None)


def _number(text: str) -> int | None:
    """Return the number of a chip, or None if malformed."""
    return whole(text) if len(text) <= 4 else None


def _of_node(node: str, field: str, value: str, expected: str) -> FormatError:
    return FormatError(f"Node {node}", field, value[:_LONGEST_VALUE], expected)


# ConfigMaps

_CLUSTER_NAMESPACE, _CLUSTER_NAME = "mindx-dl", "cluster-info-device-"
_CONSUMER = ("mx-consumer-volcano", "true")
_PLUGIN_NAMESPACE, _PLUGIN_NAME, _PLUGIN_KEY = "kube-system", "mindx-dl-deviceinfo-", "DeviceInfoCfg"


class _Info(msgspec.Struct, rename="pascal"):
    device_list: dict[str, str]


class _PluginInfo(msgspec.Struct, rename="pascal"):
    device_info: _Info


_split_info = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_info = msgspec.json.Decoder(_Info).decode
_decode_plugin_info = msgspec.json.Decoder(_PluginInfo).decode
_MALFORMED = (msgspec.MsgspecError, RecursionError)


def describes_devices(namespace: str, name: str) -> bool:
    """Return whether :func:`read_devices` reads a ConfigMap of this name."""
    return (namespace == _CLUSTER_NAMESPACE and name.startswith(_CLUSTER_NAME)) or (
        namespace == _PLUGIN_NAMESPACE and name.startswith(_PLUGIN_NAME)
    )


def read_devices(namespace: str, name: str, labels: Mapping[str, str], data: Mapping[str, str]) -> DevicesByNode:
    """Parse a ConfigMap for which :func:`describes_devices` is true.

    Ignores ClusterD's ConfigMap without the label for schedulers.

    Raises:
        FormatError: the ConfigMap as a whole is malformed.
    """
    subject = f"ConfigMap {namespace}/{name}"
    if namespace == _PLUGIN_NAMESPACE:
        text = data.get(_PLUGIN_KEY, "").strip()
        try:
            devices = _decode_plugin_info(text).device_info.device_list if text else {}
        except _MALFORMED as error:
            expected = f"JSON with DeviceInfo.DeviceList ({error})"
            raise FormatError(subject, f"data[{_PLUGIN_KEY}]", text[:_LONGEST_VALUE], expected) from None
        return DevicesByNode({name.removeprefix(_PLUGIN_NAME): devices} if devices else {})
    text = data.get(name, "").strip()
    if not text or labels.get(_CONSUMER[0]) != _CONSUMER[1]:
        return DevicesByNode({})
    try:
        parts = _split_info(text)
    except _MALFORMED as error:
        expected = f"a JSON object with {_PLUGIN_NAME}<node> as keys ({error})"
        raise FormatError(subject, f"data[{name}]", text[:_LONGEST_VALUE], expected) from None
    by_node, problems = {}, []
    for key, raw in parts.items():
        try:
            by_node[key.removeprefix(_PLUGIN_NAME)] = _decode_info(raw).device_list
        except _MALFORMED as error:
            shown = bytes(raw)[:_LONGEST_VALUE].decode(errors="replace")
            problems.append(Problem(subject, f"data[{name}][{key}]", shown, f"an object with DeviceList ({error})"))
    return DevicesByNode(by_node, tuple(problems), folded=True)
