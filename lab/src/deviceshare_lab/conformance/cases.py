"""Recorded cases: one line of JSON each, with Volcano's answer to every step.

A case is a node, the pods on it, and steps that place or release pods. ``tests/data/golden/README.md`` describes the
format.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from deviceshare.conf import BUILT_IN, DevicesConf, parse_devices
from deviceshare.families.vgpu.section import VgpuConf
from deviceshare.model import ConfigError
from deviceshare_cli.errors import CommandError
from msgspec import Struct
from msgspec.json import Decoder

from deviceshare_lab.conformance.lines import decoded

Mode = Literal["rebuild", "cache", "session"]
BATCH = "batch"
"""The ``kind`` of cases on several nodes."""
BUILT_IN_NAME = "builtin-default"
"""The ``config`` of cases recorded without a device configuration."""
WITHOUT_CONFIG_MAP = BUILT_IN.having(VgpuConf(percentage=""))
"""Volcano's configuration without a ConfigMap, which has no resource for a percentage of a card's memory."""


class Container(Struct, frozen=True, kw_only=True):
    """A container; its requests equal its limits."""

    name: str
    limits: dict[str, str] = {}


class Pod(Struct, frozen=True, kw_only=True):
    """A pod; a pod on the node has the annotations of its binding."""

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


class Node(Struct, frozen=True, kw_only=True):
    """A node with the annotations of its device plugins."""

    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    capacity: dict[str, str] = {}


class Filter(Struct, frozen=True, kw_only=True):
    """The answer of ``FilterNode``; ``skipped``: not called, because the pod requests no device of the family."""

    fits: bool
    skipped: bool = False
    error: str = ""


class Allocate(Struct, frozen=True, kw_only=True):
    """The answer of ``Allocate``: the pod's annotations, and the node's lock afterwards."""

    ok: bool
    error: str = ""
    annotations: dict[str, str] = {}
    node_lock: str = ""


Value = bool | int | str
State = list[tuple[Value, ...]]
"""One row per card; the columns depend on the family."""
Cut = tuple[int, list[tuple[str, list[int]]]]
"""The partitioning of a MIG card: the index of its geometry (-1: none) and the used instances of each kind."""


class Extra(Struct, frozen=True, kw_only=True):
    """MindCluster's state of a node besides its chips."""

    idle_npu_core: int | None = None


class Answered(Struct, frozen=True, kw_only=True):
    """The state after a step, in the form of the family, and the known defects of Volcano that affected it."""

    state: State | None = None
    mig: list[Cut] | None = None
    extra: Extra = Extra()
    quirks: tuple[str, ...] = ()


class Place(Answered, frozen=True, kw_only=True, tag_field="op", tag="place"):
    """A pod is placed; ``alternatives``: other recorded values of the annotation."""

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
        """Whether the pod gets devices of the node. Nodes of a batch are only filtered."""
        return self.filter.fits and not self.filter.skipped and (self.allocate is None or self.allocate.ok)


class Release(Answered, frozen=True, kw_only=True, tag_field="op", tag="release"):
    """A pod leaves the node."""

    pod_ref: str
    how: Literal["delete", "discard"]


class Initial(Answered, frozen=True, kw_only=True):
    """The state before the first step. ``present``: the node has devices of the family; None: not recorded."""

    present: bool | None


class BatchNode(Answered, frozen=True, kw_only=True):
    """One of several nodes that are scored together."""

    node: Node
    cluster_cm: dict[str, str] = {}
    pods: tuple[Pod, ...] | None = None
    filter: Filter


class Batch(Struct, frozen=True, kw_only=True):
    """A pod and several nodes; ``scores``: of the feasible nodes."""

    pod: Pod
    nodes: tuple[BatchNode, ...]
    scores: dict[str, float] = {}


class Case(Struct, frozen=True, kw_only=True):
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
        """The codes of the known defects of Volcano that affected the case."""
        return frozenset(self.quirk.split(",")) - {""}


class CaseFile(NamedTuple):
    """The cases of one file with their line numbers, and their device configurations by name."""

    cases: list[tuple[int, Case]]
    devices: Mapping[str, DevicesConf]


_DECODER = Decoder(Case)


def read_file(path: Path) -> CaseFile:
    """Read a file of cases (``.jsonl`` or ``.jsonl.gz``) and the configurations in ``configs/`` beside it.

    Raises:
        CommandError: the file cannot be read or is empty, a line is not a case, or a configuration is invalid.
    """
    cases = [(number, _complete(case, where)) for number, where, case in decoded(path, _DECODER)]
    devices = {BUILT_IN_NAME: WITHOUT_CONFIG_MAP}
    for number, case in cases:
        if case.config not in devices:
            devices[case.config] = _read_config(path, number, case.config)
    return CaseFile(cases, devices)


def _complete(case: Case, where: str) -> Case:
    if case.batch is None and (case.node is None or case.initial is None):
        missing = "node" if case.node is None else "initial"
        raise CommandError(f"{where}: {missing}: a case without batch needs it")
    return case


def _read_config(path: Path, number: int, name: str) -> DevicesConf:
    file = path.parent / "configs" / f"{name}.yaml"
    try:
        return parse_devices(file.read_text(), file.name)
    except ConfigError as error:
        raise CommandError(f"{path}: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise CommandError(f"{path}: line {number}: config: {json.dumps(name)} needs {file}: {reason}") from None
