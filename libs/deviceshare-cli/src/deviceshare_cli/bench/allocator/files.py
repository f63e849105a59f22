"""Workload files: nodes of one kind, existing pods, and pods to place in order, as one JSON object.

``family`` is hami-core, mig or ascend. Node and card names come from printf patterns; ``config`` names a
``device-config.yaml`` in the directory ``configs`` next to the file or next to its directory.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
from deviceshare.conf import FIRST_FIT, DevicesConf, default_conf, parse_devices
from deviceshare.model import InputError, NodeFact, PodFact

from deviceshare_cli.bench.allocator.checks import Checks, form_error
from deviceshare_cli.bench.allocator.forms import CardKind, Form, HamiVnpu, Vgpu
from deviceshare_cli.bench.allocator.workload import Workload, distinct, node_fact, pod_fact
from deviceshare_cli.errors import CommandError

WEIGHT = 10


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
        raise CommandError(form_error(str(path), raw, error)) from None
    checks = Checks(str(path))
    devices = _devices(path, file.config)
    form = _form(path, file, devices)
    conf = msgspec.structs.replace(
        default_conf(), policy=file.policy, weight=WEIGHT, mig_geometry=FIRST_FIT, devices=devices
    )
    try:
        _check(checks, file)
        requests, pods = distinct(
            (pod.name, checks.pod(number, pod_fact(pod.name, pod.limits, annotations={})).ask)
            for number, pod in enumerate(file.pods)
        )
    except InputError as error:
        raise CommandError(str(error)) from None
    return Workload(path.stem, conf, _nodes(checks, file, form), requests, pods), form


def _check(checks: Checks, file: WorkloadFile) -> None:
    for field, value in (("nodes", file.nodes), ("devices_per_node", file.devices_per_node)):
        checks.between(field, value, 1, 100_000)
    checks.between("device_memory", file.device_memory, 1, 1 << 40)
    checks.between("device_count", file.device_count, 1)
    checks.between("device_cores", file.device_cores, 1)
    checks.one_of("policy", file.policy, ("binpack", "spread", ""))
    nodes = [(number,) for number in range(min(2, file.nodes))]
    checks.names("node_format", file.node_format, nodes, "a printf pattern with the node's number, such as node-%05d")
    cards = [(*node, index) for node in nodes for index in range(min(2, file.devices_per_node))]
    expected = "a printf pattern with the numbers of node and card, such as GPU-%05d-%02d"
    checks.names("uuid_format", file.uuid_format, cards, expected)
    checks.unique("pods", (pod.name for pod in file.pods))


def _nodes(checks: Checks, file: WorkloadFile, form: Form) -> Iterator[tuple[NodeFact, list[PodFact]]]:
    """Yield the nodes, generated lazily.

    Raises:
        CommandError: a node is invalid.
    """
    try:
        yield from _made(checks, file, form)
    except InputError as error:
        raise CommandError(str(error)) from None


def _made(checks: Checks, file: WorkloadFile, form: Form) -> Iterator[tuple[NodeFact, list[PodFact]]]:
    names = [file.node_format % number for number in range(file.nodes)]
    existing: dict[str, list[int]] = {name: [] for name in names}
    for number, each in enumerate(file.existing):
        checks.existing_node(number, each.node, existing)
        existing[each.node].append(number)
    kind = CardKind(file.device_type, file.device_memory, file.device_count, file.device_cores)
    for number, name in enumerate(names):
        ids = [file.uuid_format % (number, index) for index in range(file.devices_per_node)]
        fact = node_fact(name, *form.node(kind, ids))
        if not number:
            checks.node(fact, len(ids))
        yield fact, [_held(checks, at, file.existing[at], form, ids) for at in existing[name]]


def _held(checks: Checks, number: int, each: Existing, form: Form, ids: list[str]) -> PodFact:
    def read() -> PodFact:
        annotations, limits = form.existing(each.value)
        return pod_fact(each.name, limits, node=each.node, annotations=annotations)

    return checks.existing_pod(number, each.value, read, ids)


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
        for chip in devices.chips:
            if chip.word == file.device_type:
                return HamiVnpu(chip)
        raise CommandError(f"{path}: device_type '{file.device_type}': expected a commonWord of config '{file.config}'")
    raise CommandError(f"{path}: family '{file.family}': expected one of hami-core, mig, ascend")
