"""What deviceshare understands of a cluster's objects: they are decoded as inventory decodes them. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from deviceshare.model import Fact, InputError, NodeFact, PodFact, Problem
from deviceshare.objects import decode_node, decode_pod, requests_devices
from deviceshare_cluster.interface import Change, ChangeType
from deviceshare_inventory.core.configs import SCHEDULER_MAP, Remark
from deviceshare_inventory.core.desired_state import DesiredState
from deviceshare_inventory.core.fact_builder import FactBuilder
from deviceshare_inventory.core.reports import Reference, Reports

from deviceshare_cli.checking.components import Component, find_components

KINDS = ("Node", "Pod", "PodGroup", "Queue", "PriorityClass", "Namespace", "ConfigMap")
"""The kinds that are inspected."""
Severity = Literal["error", "warning"]
_EFFECTS = {
    "Node": "the part is ignored: cards that it describes get no pods",
    "Pod": "a waiting pod is not placed; a bound pod holds at most what its limits ask",
    "PodGroup": "the field has its default",
    "Queue": "the field has its default",
    "PriorityClass": "the field has its default",
    "Namespace": "the field is ignored",
    "ConfigMap": "the defaults are in effect",
}
_UNREAD = "no device family of this version reads it: its cards are not seen"
_REGISTER = re.compile(r"(?:[\w-]+\.)*(?:volcano\.sh|hami\.io|huawei\.com|4pd\.io)/.*regist", re.IGNORECASE)
"""Annotations of nodes in which device plugins register cards."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A field that is not understood, or that has another effect with deviceshare.

    ``object`` is named as ``kubectl`` does (``Node gpu-1``). An ``error`` changes what is placed; a ``warning`` has no
    effect on valid pods.
    """

    severity: Severity
    object: str
    field: str
    value: str
    expected: str
    effect: str


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """The result: ``objects`` and ``understood`` are numbers by kind, ``cards`` by mode, ``requests`` are pods that
    request devices, by ``spec.schedulerName``.
    """

    objects: dict[str, int]
    understood: dict[str, int]
    cards: dict[str, int]
    requests: dict[str, int]
    configuration: str
    components: tuple[Component, ...]
    findings: tuple[Finding, ...]


class _Collected(Reports):
    """The remarks about each object; nothing is recorded."""

    def __init__(self) -> None:
        super().__init__(0.0)
        self.remarks: list[tuple[str, Remark]] = []

    def report(self, subject: str, about: Reference | None, remarks: Sequence[Remark]) -> None:
        """Collect the remarks."""
        where = subject if about is None else " ".join(filter(None, (about.kind, _ref(about.namespace, about.name))))
        self.remarks += [(where, remark) for remark in remarks if (where, remark) not in self.remarks[-100:]]


class _Facts(DesiredState):
    """The facts by subject."""

    def __init__(self) -> None:
        super().__init__()
        self.facts: dict[str, Fact] = {}

    def want(self, subject: str, fact: Fact, revision: int, generation: int = 0) -> None:
        """Keep the fact."""
        self.facts[subject] = fact
        super().want(subject, fact, revision, generation)


def inspect(objects: Mapping[str, Sequence[Mapping[str, Any]]], schedulers: Iterable[str]) -> Inspection:
    """Return what is understood of objects, by kind; ``schedulers`` are the values of ``schedulerName`` to serve."""
    served = frozenset(schedulers)
    pods = objects.get("Pod", ())
    names = frozenset(str(_section(pod, "spec").get("schedulerName", "")) for pod in pods)
    facts, reports = _Facts(), _Collected()
    # The pods of other schedulers as well: they may be handed over.
    builder = FactBuilder(served | names - {"", "default-scheduler"}, (), None, facts, reports)
    builder.begin_list()
    for kind in KINDS:
        for obj in objects.get(kind, ()):
            builder.apply(_change(kind, obj))
    builder.end_list(0)
    findings = [_finding(where, remark) for where, remark in reports.remarks]
    for node in objects.get("Node", ()):
        findings += _unread_registers(node)
    requests = Counter[str]()
    for pod in pods:
        if (fact := _pod_fact(pod)) is None or fact.ended or not requests_devices(fact.ask):
            continue
        requests[fact.scheduler] += 1
        if fact.scheduler not in served and not fact.node:
            expected = f"one of {', '.join(sorted(served))}, or --scheduler-name={fact.scheduler} for inventory"
            effect = "deviceshare does not place the pod"
            findings.append(
                Finding(
                    severity="error", object=f"Pod {fact.ref}", field="spec.schedulerName", value=fact.scheduler,
                    expected=expected, effect=effect,
                )
            )  # fmt: skip
        unevaluated = () if fact.node else fact.ask.unevaluated
        findings += [
            Finding(
                severity="error", object=f"Pod {fact.ref}", field=field, value="", expected="not to be used",
                effect="deviceshare does not evaluate it and does not place the pod",
            )
            for field in unevaluated
        ]  # fmt: skip
    unique = tuple(dict.fromkeys(sorted(findings, key=lambda each: (each.severity, each.object, each.field))))
    counts = {kind: len(objects.get(kind, ())) for kind in KINDS}
    wrong = Counter(name.partition(" ")[0] for name in {each.object for each in unique})
    nodes = [fact for fact in facts.facts.values() if isinstance(fact, NodeFact)]
    return Inspection(
        objects=counts,
        understood={kind: max(0, counts[kind] - wrong[kind]) for kind in KINDS},
        cards=dict(sorted(Counter(card.mode for node in nodes for card in node.cards).items())),
        requests=dict(sorted(requests.items())),
        configuration=_configuration(objects.get("ConfigMap", ())),
        components=tuple(find_components(pods)),
        findings=unique,
    )


def _finding(where: str, remark: Remark) -> Finding:
    kind = where.partition(" ")[0]
    if isinstance(remark, Problem):
        return Finding(
            severity="error", object=where, field=remark.field, value=remark.value, expected=remark.expected,
            effect=_EFFECTS.get(kind, ""),
        )  # fmt: skip
    return Finding(severity="warning", object=where, field="", value=remark, expected="", effect="it has no effect")


def _unread_registers(node: Mapping[str, Any]) -> list[Finding]:
    """Return the register annotations of a node without which its fact would be the same."""
    metadata = _section(node, "metadata")
    annotations = _section(metadata, "annotations")
    found = []
    whole = _content(node)
    for key, value in annotations.items():
        if _REGISTER.match(str(key)):
            without = {name: each for name, each in annotations.items() if name != key}
            if _content({**node, "metadata": {**metadata, "annotations": without}}) == whole:
                found.append(
                    Finding(
                        severity="error", object=f"Node {metadata.get('name')}", field=f"metadata.annotations[{key}]",
                        value=str(value)[:200], expected="the register annotation of a known device plugin",
                        effect=_UNREAD,
                    )
                )  # fmt: skip
    return found


def _content(node: Mapping[str, Any]) -> object:
    try:
        fact = decode_node(msgspec.json.encode(node), lambda _: None)
    except InputError as error:
        return str(error)
    return fact.cards, fact.problems


def _pod_fact(pod: Mapping[str, Any]) -> PodFact | None:
    try:
        return decode_pod(msgspec.json.encode(pod))
    except InputError:
        return None  # reported by the builder


def _configuration(config_maps: Iterable[Mapping[str, Any]]) -> str:
    places = sorted(
        _ref(str(metadata.get("namespace", "")), SCHEDULER_MAP)
        for each in config_maps
        if (metadata := _section(each, "metadata")).get("name") == SCHEDULER_MAP
    )
    return f"ConfigMap {places[0]}" if places else "defaults"


def _change(kind: str, obj: Mapping[str, Any]) -> Change:
    metadata = _section(obj, "metadata")
    namespace, name = str(metadata.get("namespace", "")), str(metadata.get("name", ""))
    return Change(ChangeType.APPLIED, kind, namespace, name, 0, msgspec.json.encode(obj))


def _section(obj: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a field that is an object, an empty one if it is missing or something else."""
    found = obj.get(name)
    return found if isinstance(found, dict) else {}


def _ref(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name
