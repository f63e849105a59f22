"""What deviceshare understands of a cluster's objects: inventory decodes them, and placement decides. Pure."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from deviceshare.families import FAMILIES
from deviceshare.model import ConfigFact, InputError, NodeFact, PodFact, Problem
from deviceshare.objects import KINDS, decode_node, decode_pod, requests_devices
from deviceshare.objects.policies import node_policy_annotations
from deviceshare_cluster.interface import Change, ChangeType
from deviceshare_inventory.core.configs import SCHEDULER_MAP, Remark
from deviceshare_inventory.core.fact_builder import FactBuilder
from deviceshare_inventory.core.reports import Reference, Reports

from deviceshare_cli.checking.components import Component, find_components
from deviceshare_cli.checking.findings import Finding, grouped, invalid, sentence
from deviceshare_cli.checking.manifests import Given
from deviceshare_cli.checking.placing import Waiting, play
from deviceshare_cli.simulate.facts import WantedFacts

Conf = tuple[ConfigFact | None, Sequence[str]]
NO_CONF: Conf = (None, ())
_EFFECTS = {
    "Node": "the part is ignored: cards that it describes get no pods",
    "Pod": "a waiting pod is not placed; a bound pod holds at most what its limits ask",
    "PodGroup": "the field has its default",
    "Queue": "the field has its default",
    "PriorityClass": "the field has its default",
    "Namespace": "the field is ignored",
    "ConfigMap": "the defaults are in effect",
}
_NO_EFFECT = "it has no effect"
_NOT_DETERMINED = "the pod waits; whether it has a place without other pods is not determined: too many requests differ"
_UNREAD = "no device family of this version reads it: its cards are not seen"
_REGISTER = re.compile(r"(?:[\w-]+\.)*([\w-]+\.[a-z]+)/.*regist", re.IGNORECASE)
"""Annotations of nodes in which device plugins register cards: of the domains of device families."""


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """The result: ``objects``, ``understood`` (those without an error about them or about objects made of them) and
    ``skipped`` are numbers by kind, ``cards`` by mode, ``requests`` are pods that request devices, by
    ``spec.schedulerName``.
    """

    objects: dict[str, int]
    understood: dict[str, int]
    skipped: dict[str, int]
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

    def report(
        self, subject: str, about: Reference | None, remarks: Sequence[Remark], passing: Collection[Remark] = ()
    ) -> None:
        """Collect the remarks."""
        where = subject if about is None else " ".join(filter(None, (about.kind, _ref(about.namespace, about.name))))
        self.remarks += [(where, remark) for remark in remarks if (where, remark) not in self.remarks[-100:]]


def inspect(given: Given, schedulers: Iterable[str], now: float = 0.0, conf: Conf = NO_CONF) -> Inspection:
    """Return what is understood of objects, and which pods placement would leave without a node.

    Args:
        given: the objects.
        schedulers: the values of ``schedulerName`` to serve.
        now: the time of the decisions, unix seconds.
        conf: the scheduler's configuration and its warnings, if it is not that of a ConfigMap.
    """
    objects, served = given.objects, frozenset(schedulers)
    pods = objects.get("Pod", ())
    names = frozenset(str(_section(pod, "spec").get("schedulerName", "")) for pod in pods)
    # The pods of other schedulers as well: they may be handed over.
    facts, reports = _built(objects, served | names - {"", "default-scheduler"}, conf[0])
    findings = [_finding(where, remark) for where, remark in reports.remarks]
    findings += (sentence("warning", conf[0].source, text, _NO_EFFECT) for text in conf[1] if conf[0] is not None)
    for node in objects.get("Node", ()):
        findings += _unread_registers(node)
    requests = Counter[str]()
    for pod in pods:
        if (fact := _pod_fact(pod)) is None or fact.ended or not requests_devices(fact.ask):
            continue
        requests[fact.scheduler] += 1
        if fact.scheduler not in served and not fact.node:
            expected = f"one of {', '.join(sorted(served))}, or --scheduler-name={fact.scheduler} for inventory"
            problem = Problem(f"Pod {fact.ref}", "spec.schedulerName", fact.scheduler, expected)
            findings.append(invalid(f"Pod {fact.ref}", problem, "deviceshare does not place the pod"))
    played = play(_built(objects, served, conf[0])[0].facts, now)
    findings += (found for waiting in played.waiting for found in _waiting(waiting))
    if not played.conf.weight:
        findings += _policies_without_weight(objects)
    unique = grouped([*given.findings, *findings], dict(_owners(pods)))
    numbers = given.numbers
    if numbers is None:
        numbers = {kind: len(objects[kind]) for kind in KINDS if objects.get(kind)}
    causes = {given.sources.get(each.object, each.object) for each in findings if each.severity == "error"}
    wrong = Counter(given.refused) + Counter(name.partition(" ")[0] for name in causes)
    nodes = [fact for fact in facts.facts.values() if isinstance(fact, NodeFact)]
    return Inspection(
        objects=dict(numbers),
        understood={kind: max(0, number - wrong[kind]) for kind, number in numbers.items()},
        skipped=dict(given.skipped),
        cards=dict(sorted(Counter(card.mode for node in nodes for card in node.cards).items())),
        requests=dict(sorted(requests.items())),
        configuration=conf[0].source if conf[0] is not None else _configuration(objects.get("ConfigMap", ())),
        components=tuple(find_components(pods)),
        findings=unique,
    )


def _built(
    objects: Mapping[str, Sequence[Mapping[str, Any]]], schedulers: frozenset[str], conf: ConfigFact | None
) -> tuple[WantedFacts, _Collected]:
    """Return the facts of objects, as inventory makes them for these schedulers, and its remarks."""
    facts, reports = WantedFacts(), _Collected()
    builder = FactBuilder(schedulers, (), conf, facts, reports)
    builder.begin_list()
    for kind in KINDS:
        for obj in objects.get(kind, ()):
            builder.apply(_change(kind, obj))
    builder.end_list(0)
    return facts, reports


def _waiting(waiting: Waiting) -> Iterator[Finding]:
    """Yield why a pod gets no node; nothing for what its fact shows already."""
    pod = waiting.pod
    if pod.problems:
        return
    where = f"Pod {pod.ref}"
    if pod.ask.unevaluated:
        for field in pod.ask.unevaluated:
            problem = Problem(where, field, "", "not to be used")
            yield invalid(where, problem, "deviceshare does not evaluate it and does not place the pod")
    elif waiting.problem is not None:
        yield invalid(where, waiting.problem, _EFFECTS["Pod"])
    elif waiting.for_good:
        yield sentence("error", where, waiting.reason, "the pod is not placed, also if the cluster has no other pods")
    elif waiting.for_good is None:
        yield sentence("error", where, waiting.reason, _NOT_DETERMINED)
    else:
        yield sentence("warning", where, waiting.reason, "the pod waits")


def _policies_without_weight(objects: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[Finding]:
    """Yield the policies of nodes that objects choose, where the configuration gives them no weight."""
    for kind in ("Pod", "PodGroup", "Queue"):
        for obj in objects.get(kind, ()):
            metadata = _section(obj, "metadata")
            for key in node_policy_annotations() & _section(metadata, "annotations").keys():
                yield Finding(
                    severity="warning",
                    object=f"{kind} {_ref(str(metadata.get('namespace', '')), str(metadata.get('name', '')))}",
                    field=f"metadata.annotations[{key}]",
                    value=str(_section(metadata, "annotations")[key]),
                    expected="deviceshare.ScheduleWeight above 0 in the configuration",
                    effect="with the weight 0 it only breaks ties among nodes",
                )


def _owners(pods: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the uid of the workload of each pod that has one."""
    for pod in pods:
        metadata = _section(pod, "metadata")
        owners = metadata.get("ownerReferences")
        if isinstance(owners, list) and owners and isinstance(owners[0], dict):
            name = _ref(str(metadata.get("namespace", "")), str(metadata.get("name", "")))
            yield f"Pod {name}", str(owners[0].get("uid", ""))


def _finding(where: str, remark: Remark) -> Finding:
    if isinstance(remark, Problem):
        return invalid(where, remark, _EFFECTS.get(where.partition(" ")[0], ""))
    return sentence("warning", where, remark, _NO_EFFECT)


def _unread_registers(node: Mapping[str, Any]) -> list[Finding]:
    """Return the register annotations of a node without which its fact would be the same."""
    metadata = _section(node, "metadata")
    annotations = _section(metadata, "annotations")
    domains = frozenset[str]().union(*(family.domains for family in FAMILIES))
    found = []
    whole = _content(node)
    for key, value in annotations.items():
        register = _REGISTER.match(str(key))
        if register and register[1].lower() in domains:
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
