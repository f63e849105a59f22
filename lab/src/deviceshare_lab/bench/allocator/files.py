"""Workload files: nodes of one kind, existing pods, and pods to place in order, as one JSON object.

``family`` is hami-core, mig or ascend. Node and card names come from printf patterns; ``config`` names a
``device-config.yaml`` in the directory ``configs`` next to the file or next to its directory.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from deviceshare.conf import FIRST_FIT, DevicesConf, default_conf, parse_devices
from deviceshare.families.hami_vnpu.section import VnpuConf
from deviceshare.model import InputError, NodeFact, PodFact, Problem
from deviceshare.policies import POLICIES
from deviceshare_cli.errors import CommandError

from deviceshare_lab.bench.allocator.forms import CardKind, Form, HamiVnpu, Vgpu
from deviceshare_lab.bench.allocator.workload import Workload, distinct, node_fact, pod_fact

WEIGHT = 10
LIMITS = {
    "nodes": 100_000,
    "devices_per_node": 100_000,
    "device_memory": 1 << 40,
    "device_count": 1_000_000,
    "device_cores": 1_000_000,
}
"""Upper limits of the numbers in a file."""


class Existing(msgspec.Struct):
    """An existing pod; ``value`` of the family's device annotation."""

    node: str
    name: str
    value: str


class NewPod(msgspec.Struct):
    """A pod to place."""

    name: str
    limits: dict[str, str]


class WorkloadFile(msgspec.Struct, kw_only=True):
    """The fields of the file. ``device_memory`` in MiB; ``device_count``: maximum number of pods per card."""

    family: str
    nodes: int
    devices_per_node: int
    device_type: str
    device_memory: int
    device_count: int
    device_cores: int
    node_format: str
    uuid_format: str
    policy: str = ""
    config: str = ""
    existing: list[Existing] = []
    pods: list[NewPod] = []


def read_workload(path: Path) -> tuple[Workload, Form]:
    """Return the workload of a file and the form of its family.

    Raises:
        CommandError: the file is invalid; names the file and the field.
    """
    raw = b""
    try:
        raw = path.read_bytes()
        file = msgspec.json.decode(raw, type=WorkloadFile)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise CommandError(_form_error(path, raw, error)) from None
    devices = _devices(path, file.config)
    form = _form(path, file, devices)
    conf = msgspec.structs.replace(
        default_conf(), policy=file.policy, weight=WEIGHT, mig_geometry=FIRST_FIT, devices=devices
    )
    reader = _Reader(path, file, form)
    reader.check()
    requests, pods = distinct((pod.name, reader.pod(number, pod).ask) for number, pod in enumerate(file.pods))
    return Workload(path.stem, conf, reader.nodes(), requests, pods), form


class _Reader:
    """Validates and decodes a file. Each method raises CommandError with the field, its value and the expected one."""

    def __init__(self, path: Path, file: WorkloadFile, form: Form) -> None:
        self._path = path
        self._file = file
        self._form = form

    def check(self) -> None:
        """Check the numbers and names of the file."""
        file = self._file
        for field, most in LIMITS.items():
            value = getattr(file, field)
            if not 1 <= value <= most:
                raise self._error(field, value, f"a number from 1 to {most}")
        if file.policy not in ("", *POLICIES):
            raise self._error("policy", file.policy, f"one of {', '.join(POLICIES)}, nothing")
        nodes = [(number,) for number in range(min(2, file.nodes))]
        cards = [(*node, index) for node in nodes for index in range(min(2, file.devices_per_node))]
        self._check_names("node_format", nodes, "a printf pattern with the node's number, such as node-%05d")
        expected = "a printf pattern with the numbers of node and card, such as GPU-%05d-%02d"
        self._check_names("uuid_format", cards, expected)
        seen = set[str]()
        for number, pod in enumerate(file.pods):
            if pod.name in seen:
                raise self._error(f"pods[{number}].name", pod.name, "a unique name")
            seen.add(pod.name)

    def _check_names(self, field: str, examples: Collection[tuple[int, ...]], expected: str) -> None:
        """Check that a printf pattern gives a different name for each example."""
        pattern: str = getattr(self._file, field)
        try:
            different = len({pattern % each for each in examples}) == len(examples)
        except (TypeError, ValueError):
            different = False
        if not different:
            raise self._error(field, pattern, expected)

    def pod(self, number: int, pod: NewPod) -> PodFact:
        """Return a pod to place."""
        fact = pod_fact(pod.name, pod.limits, annotations={})
        self._raise_first(f"pods[{number}]", fact.problems)
        return fact

    def nodes(self) -> Iterator[tuple[NodeFact, list[PodFact]]]:
        """Yield the nodes, generated lazily."""
        file = self._file
        names = [file.node_format % number for number in range(file.nodes)]
        existing: dict[str, list[int]] = {name: [] for name in names}
        for number, each in enumerate(file.existing):
            if each.node not in existing:
                raise self._error(f"existing[{number}].node", each.node, "a name that node_format gives")
            existing[each.node].append(number)
        kind = CardKind(file.device_type, file.device_memory, file.device_count, file.device_cores)
        for number, name in enumerate(names):
            ids = [file.uuid_format % (number, index) for index in range(file.devices_per_node)]
            fact = node_fact(name, self._form.node(kind, ids))
            if not number:  # all nodes are alike
                self._raise_first(f"nodes: {name}", fact.problems)
                if len(fact.cards) != len(ids):
                    expected = "values valid in a register annotation"
                    raise self._error("uuid_format and device_type", f"{len(ids)} cards", expected)
            yield fact, [self._held(at, ids) for at in existing[name]]

    def _held(self, number: int, cards: Collection[str]) -> PodFact:
        """Return an existing pod with its devices, which are cards of its node."""
        each = self._file.existing[number]
        field = f"existing[{number}].value"
        error = self._error(field, each.value, "the family's device annotation, with cards of the node")
        try:
            annotations, limits = self._form.existing(each.value)
            fact = pod_fact(each.name, limits, node=each.node, annotations=annotations)
        except ValueError:
            raise error from None
        self._raise_first(field, fact.problems)
        devices = {device.id for grant in fact.held for device in grant.devices}
        if not devices or not devices <= set(cards):
            raise error
        return fact

    def _raise_first(self, field: str, problems: Iterable[Problem]) -> None:
        for each in problems:
            raise self._error(f"{field}: {each.field}", each.value, each.expected)

    def _error(self, field: str, value: object, expected: str) -> CommandError:
        return CommandError(str(InputError(str(self._path), field, value, expected)))


def _devices(path: Path, name: str) -> DevicesConf:
    if not name:
        return default_conf().devices
    tried = [directory / "configs" / f"{name}.yaml" for directory in (path.parent, path.parent.parent)]
    found = next((each for each in tried if each.is_file()), None)
    if found is None:
        raise CommandError(f"{path}: config '{name}': no such file: {' or '.join(map(str, tried))}")
    try:
        return parse_devices(found.read_text(), f"File {found}")
    except InputError as error:
        raise CommandError(str(error)) from None


def _form(path: Path, file: WorkloadFile, devices: DevicesConf) -> Form:
    if file.family in ("hami-core", "mig"):
        return Vgpu(file.family)
    if file.family == "ascend":
        for chip in devices.section(VnpuConf).chips:
            if chip.word == file.device_type:
                return HamiVnpu(chip)
        raise CommandError(f"{path}: device_type '{file.device_type}': expected a commonWord of config '{file.config}'")
    raise CommandError(f"{path}: family '{file.family}': expected one of hami-core, mig, ascend")


def _form_error(path: Path, raw: bytes, error: Exception) -> str:
    """Return an error of msgspec with the field and its value in front."""
    found = re.match(r"^(.*) - at `\$\.?(.+)`$", str(error))
    if found is None:
        return f"{path}: not a workload: {error}"
    text, field = found.groups()
    if "missing" in text:
        return f"{path}: {field}: {text}"
    value: Any = msgspec.json.decode(raw)
    for step in re.findall(r"\w+", field):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return f"{path}: {field}: {msgspec.json.encode(value).decode()[:120]} is not valid: {text}"
