"""Workload files: nodes of one kind, what is taken there, pods in order, as one JSON object.

``family`` is hami-core, mig or ascend. Node and card names come from printf patterns; ``config`` names a
``device-config.yaml`` in a directory ``configs`` beside the file or beside its directory.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec
from deviceshare.conf.device_model import DevicesConf
from deviceshare.conf.devices import parse_devices
from deviceshare.conf.model import FIRST_FIT, SchedulerConf
from deviceshare.conf.scheduler import default_conf
from deviceshare.errors import InputError
from deviceshare.facts import NodeFact, PodFact

from deviceshare_cli.bench.allocator.forms import CardKind, Form, HamiVnpu, Vgpu
from deviceshare_cli.bench.allocator.workload import Workload, distinct, node_fact, pod_fact
from deviceshare_cli.errors import CommandError

WEIGHT = 10


class Existing(msgspec.Struct):
    """A pod that is there already: ``value`` of the family's device annotation."""

    node: str
    name: str
    value: str


class Wanted(msgspec.Struct):
    """A pod to be placed."""

    name: str
    limits: dict[str, str]


class WorkloadFile(msgspec.Struct, kw_only=True):
    """The file, field by field. ``device_memory`` in MiB, ``device_count`` pods that may share a card."""

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
    pods: list[Wanted] = []


def read_workload(path: Path) -> tuple[Workload, Form]:
    """Return what a workload file holds, and how its family writes.

    Raises:
        CommandError: names the file, and the field where it is not as it should be.
    """
    try:
        file = msgspec.json.decode(path.read_bytes(), type=WorkloadFile)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise CommandError(f"{path}: not a workload: {error}") from None
    devices = _devices(path, file.config)
    form = _form(path, file, devices)
    conf = msgspec.structs.replace(
        default_conf(), policy=file.policy, weight=WEIGHT, mig_geometry=FIRST_FIT, devices=devices
    )
    return _workload(path.stem, file, form, conf), form


def _workload(name: str, file: WorkloadFile, form: Form, conf: SchedulerConf) -> Workload:
    asks, pods = distinct((pod.name, pod_fact(pod.name, pod.limits, annotations={}).ask) for pod in file.pods)
    return Workload(name, conf, _nodes(file, form), asks, pods)


def _nodes(file: WorkloadFile, form: Form) -> Iterator[tuple[NodeFact, list[PodFact]]]:
    there: defaultdict[str, list[Existing]] = defaultdict(list)
    for each in file.existing:
        there[each.node].append(each)
    kind = CardKind(file.device_type, file.device_memory, file.device_count, file.device_cores)
    for number in range(file.nodes):
        name = file.node_format % number
        ids = [file.uuid_format % (number, index) for index in range(file.devices_per_node)]
        held = []
        for each in there.pop(name, ()):
            annotations, limits = form.existing(each.value)
            held.append(pod_fact(each.name, limits, node=name, annotations=annotations))
        yield node_fact(name, *form.node(kind, ids)), held


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
