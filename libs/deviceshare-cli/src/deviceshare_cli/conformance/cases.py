"""Recorded cases: one line of JSON each, Volcano's answer to every step of it.

A case is a node, the pods on it, and steps that place or release pods. The form is described beside the recorded
files, in ``tests/data/golden/README.md``.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from deviceshare_cli.conformance.lines import decode_line, read_lines
from deviceshare_cli.errors import CommandError

Mode = Literal["rebuild", "cache", "session"]
BATCH = "batch"
"""The ``kind`` of cases on several nodes."""
BUILT_IN_NAME = "builtin-default"
"""The ``config`` of cases recorded without a device configuration."""


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the parts of a case."""


class Container(Form, frozen=True, kw_only=True):
    """A container: its limits, which its requests equal."""

    name: str
    limits: dict[str, str] = {}


class Pod(Form, frozen=True, kw_only=True):
    """A pod; one that stands on the node has the annotations that it was bound with."""

    namespace: str
    name: str
    uid: str
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}
    phase: str = "Pending"
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] = ()

    @property
    def ref(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class Node(Form, frozen=True, kw_only=True):
    """A node as its device plugins annotate it."""

    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    capacity: dict[str, str] = {}


class Filter(Form, frozen=True, kw_only=True):
    """The answer of ``FilterNode``; ``skipped``: it was not asked, there is nothing of its family to decide."""

    fits: bool
    skipped: bool = False
    error: str = ""


class Allocate(Form, frozen=True, kw_only=True):
    """The answer of ``Allocate``: what is written on the pod, and the lock that is then on the node."""

    ok: bool
    error: str = ""
    annotations: dict[str, str] = {}
    node_lock: str = ""


Value = bool | int | str
State = list[tuple[Value, ...]]
"""A row for each card; what stands in it differs from family to family."""
Cut = tuple[int, list[tuple[str, list[int]]]]
"""How a MIG card is cut: the number of its geometry, -1 for none, and which instances of each kind are used."""


class Extra(Form, frozen=True, kw_only=True):
    """What MindCluster knows of a node beside its chips."""

    idle_npu_core: int | None = None


class Answered(Form, frozen=True, kw_only=True):
    """What every step has: the state after it, in the form of the family, and the known defects that touched it."""

    state: State | None = None
    mig: list[Cut] | None = None
    extra: Extra = Extra()
    quirks: tuple[str, ...] = ()


class Place(Answered, frozen=True, kw_only=True, tag_field="op", tag="place"):
    """A pod is placed; ``alternatives`` are other values of the annotation that were seen as well."""

    pod: Pod
    has_request: bool
    filter: Filter
    score: float | None = None
    allocate: Allocate | None = None
    device_plugin_annotations: dict[str, str] = {}
    nondeterministic: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()

    @property
    def placed(self) -> bool:
        """Whether the pod is given devices of the node. Nodes of a batch are only filtered."""
        return self.filter.fits and not self.filter.skipped and (self.allocate is None or self.allocate.ok)


class Release(Answered, frozen=True, kw_only=True, tag_field="op", tag="release"):
    """A pod leaves the node."""

    pod_ref: str
    how: Literal["delete", "discard"]


class Initial(Answered, frozen=True, kw_only=True):
    """The state before the first step; not ``present``: the node has no devices of the family. None: not recorded."""

    present: bool | None


class BatchNode(Answered, frozen=True, kw_only=True):
    """One of several nodes that are scored together."""

    node: Node
    cluster_cm: dict[str, str] = {}
    pods: tuple[Pod, ...] | None = None
    filter: Filter


class Batch(Form, frozen=True, kw_only=True):
    """A pod and several nodes; ``scores`` are those of the nodes that it fits on."""

    pod: Pod
    nodes: tuple[BatchNode, ...]
    scores: dict[str, float] = {}


class Case(Form, frozen=True, kw_only=True):
    """One recorded case."""

    id: str
    family: str
    mode: Mode
    config: str
    args: dict[str, bool | int | str]
    kind: str = ""
    variant: str = ""
    node: Node | None = None
    cluster_cm: dict[str, str] = {}
    pods: tuple[Pod, ...] = ()
    initial: Initial | None = None
    steps: tuple[Place | Release, ...] = ()
    batch: Batch | None = None
    quirk: str = ""

    @property
    def quirks(self) -> frozenset[str]:
        """The codes of the known defects of Volcano that touched any part of it."""
        return frozenset(self.quirk.split(",")) - {""}


class CaseFile(msgspec.Struct, frozen=True):
    """The cases of one file, with the numbers of their lines, and the texts of the device configurations they name."""

    path: Path
    cases: tuple[tuple[int, Case], ...]
    configs: Mapping[str, str]


_DECODER = msgspec.json.Decoder(Case)


def read_file(path: Path) -> CaseFile:
    """Read a file of cases (``.jsonl`` or ``.jsonl.gz``) and the configurations in ``configs/`` beside it.

    Raises:
        CommandError: for a file that cannot be read or holds no case, and for a line that is no case.
    """
    cases = tuple((number, _read_case(line, f"{path}: line {number}")) for number, line in read_lines(path))
    configs = {}
    for number, case in cases:
        if case.config not in configs and case.config != BUILT_IN_NAME:
            configs[case.config] = _read_config(path, number, case.config)
    return CaseFile(path, cases, configs)


def _read_case(line: bytes, where: str) -> Case:
    case = decode_line(line, _DECODER, where)
    if case.batch is None and (case.node is None or case.initial is None):
        missing = "node" if case.node is None else "initial"
        raise CommandError(f"{where}: {missing}: a case without batch needs it")
    return case


def _read_config(path: Path, number: int, name: str) -> str:
    file = path.parent / "configs" / f"{name}.yaml"
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise CommandError(f"{path}: line {number}: config: {json.dumps(name)} needs {file}: {reason}") from None
