"""One recorded case: the plugins that we evaluate, each by itself on every node, and the scores of both plugins."""

from collections.abc import Iterator, Sequence
from functools import cached_property

import msgspec
import numpy as np
from deviceshare.allocation import Allocator, InterPod
from deviceshare.conf import default_conf
from deviceshare.kernels import NEVER, RowScan
from deviceshare.model import NodeFact, PodFact, PodTerm, PodTopology, Refusal, matches_labels
from deviceshare.objects import decode_namespace, decode_node, decode_pod
from deviceshare.topology import (
    AFFINITY_REASONS,
    SPREAD_REASONS,
    ImposedTerms,
    PlacedPods,
    PodAffinity,
    TopologySpread,
    failing,
)
from msgspec.structs import replace

from deviceshare_lab.conformance import outcomes
from deviceshare_lab.conformance.kube_scheduler.recorded import Case, Object, PluginAnswer, Recorded, VolumeAnswer
from deviceshare_lab.conformance.kube_scheduler.volumes import BINDING, Volumes
from deviceshare_lab.conformance.kube_scheduler.volumes import PLUGINS as VOLUME_PLUGINS
from deviceshare_lab.conformance.replay import Difference

Numbers = tuple[int, ...]

AFFINITY, SPREAD = "InterPodAffinity", "PodTopologySpread"
OF_PODS = (SPREAD, AFFINITY)
OF_ONE_NODE = ("NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit")
ORDER = (*OF_ONE_NODE, *VOLUME_PLUGINS, *OF_PODS)
"""The plugins that are compared, in kube-scheduler's order."""
NEGATIVE_SELECTOR = "negative-namespace-selector"
INVALID_POD = "invalid-pod"
RULES = {
    NEGATIVE_SELECTOR: "namespace selectors of the pod's own terms are matched against the labels of namespaces",
    INVALID_POD: "a term without topologyKey, which the API server refuses, is a problem of the pod: it is not placed",
}
"""Deliberate differences; the first one is explained in :mod:`deviceshare.topology.pod_affinity`."""

_RESOLVABLE, _UNRESOLVABLE = "Unschedulable", "UnschedulableAndUnresolvable"
_SKIP = "Skip"
_UNRESOLVABLE_REASONS = frozenset({AFFINITY_REASONS[0], SPREAD_REASONS[0]})
_PLUGINS = {
    "NodeUnschedulable": "NodeUnschedulable",
    "TaintNotTolerated": "TaintToleration",
    "NodeAffinityMismatch": "NodeAffinity",
    "HostPortInUse": "NodePorts",
    "TooManyPods": "NodeResourcesFit",
    "InsufficientResource": "NodeResourcesFit",
    "ResourceUnknown": "NodeResourcesFit",
}
"""The plugins by the codes of our reasons."""
_RESOLVABLE_PLUGINS = ("NodePorts", "NodeResourcesFit")
_REQUIRED_WEIGHT = 1
"""``hardPodAffinityWeight`` of the recorded scheduler."""


class Verdict(outcomes.Verdict, frozen=True):
    """The result; ``plugins``: how many were compared."""

    plugins: int = 0


def replay(recorded: Recorded) -> Verdict:
    """Compare our answers with a recorded one."""
    plugins = [plugin for plugin in ORDER if plugin in recorded.case.plugins]
    cluster = _Cluster(recorded.case)
    differences = tuple(_differences(recorded, plugins, cluster))
    rule = _rule(recorded, plugins, cluster) if differences else ""
    return Verdict(differences, (rule,) if rule else (), len(plugins))


def _rule(recorded: Recorded, plugins: list[str], cluster: "_Cluster") -> str:
    """Return the rule that explains why our answers differ, '' for none."""
    if cluster.problems and not recorded.answer.feasible:
        return INVALID_POD
    as_recorded = _Cluster(recorded.case, all_namespaces=True)
    return "" if any(True for _ in _differences(recorded, plugins, as_recorded)) else NEGATIVE_SELECTOR


def _differences(recorded: Recorded, plugins: list[str], cluster: "_Cluster") -> Iterator[Difference]:
    yield from _of_volumes(recorded, plugins, cluster)
    ours = cluster.answers(plugins)
    for node, answer in recorded.answer.nodes.items():
        for plugin in plugins:
            theirs, our = answer.each.get(plugin), ours[node].get(plugin)
            if _shown(theirs) != _shown(our):
                yield Difference(f"node {node}", plugin, _shown(theirs), _shown(our))
    if recorded.answer.scores is None:
        return
    feasible = recorded.answer.feasible
    for plugin, (raw, normalized) in cluster.scores([each for each in OF_PODS if each in plugins], feasible).items():
        for kind, theirs_of, our_scores in (
            ("raw", recorded.answer.scores.raw, raw),
            ("normalized", recorded.answer.scores.normalized, normalized),
        ):
            of_plugin = theirs_of.get(plugin, (0,) * len(feasible))
            if of_plugin != our_scores:
                yield Difference(f"{kind} scores", plugin, str(of_plugin), str(our_scores))


def _of_volumes(recorded: Recorded, plugins: list[str], cluster: "_Cluster") -> Iterator[Difference]:
    """Compare what plugins for volumes say about the whole pod, and what would be bound."""
    of_volumes = [each for each in plugins if each in VOLUME_PLUGINS]
    if not of_volumes:
        return
    ours, theirs = cluster.volumes.rejections(), recorded.answer.prefilter
    for plugin in of_volumes:
        their = theirs.get(plugin)
        their = None if their is not None and their.code == _SKIP else their
        if _shown(their) != _shown(ours.get(plugin)):
            yield Difference("the pod", plugin, _shown(their), _shown(ours.get(plugin)))
    if BINDING not in plugins or BINDING in ours:
        return
    refused = {node for node, answer in recorded.answer.nodes.items() if BINDING in answer.each}
    chosen = {node: choice for node, choice in cluster.volumes.choices().items() if node not in refused}
    for node in recorded.answer.nodes:
        recorded_choice = recorded.answer.volumes.get(node, VolumeAnswer())
        their_choice = VolumeAnswer(tuple(sorted(recorded_choice.static)), tuple(sorted(recorded_choice.provision)))
        our_choice = chosen.get(node, VolumeAnswer())
        if their_choice != our_choice:
            yield Difference(f"node {node}", "volumes", str(their_choice), str(our_choice))


def _shown(answer: PluginAnswer | None) -> str:
    """Return an answer as text, its reasons in alphabetical order."""
    return "fits" if answer is None else f"{answer.code}: {'; '.join(sorted(answer.reasons))}"


class _Cluster:
    """The cluster of a case; ``all_namespaces``: negative namespace selectors of the pod select all namespaces."""

    def __init__(self, case: Case, *, all_namespaces: bool = False) -> None:
        self._nodes = [replace(decode_node(_encoded(each)), ready=True) for each in case.nodes]
        self._rows = {node.name: row for row, node in enumerate(self._nodes)}
        self._placed = [_pod(each, number) for number, each in enumerate(case.pods)]
        namespaces = {fact.name: dict(fact.labels) for fact in map(decode_namespace, map(_encoded, case.namespaces))}
        pod = _pod(case.pod, len(case.pods))
        self.problems = pod.problems
        """Why the pod would not be placed at all."""
        pods = PlacedPods(self._nodes, namespaces)
        pods.grow(len(self._nodes))
        terms = ImposedTerms(namespaces)
        for each in self._placed:
            pods.charge(self._rows[each.node], each.tenant, 1)
            terms.add(each.ask.topology)
        topology = pod.ask.topology
        if all_namespaces and topology is not None:
            topology = _with_all_namespaces(topology)
        imposed = terms.selecting(pod.namespace, pod.labels)
        self._request = replace(pod.ask, topology=topology, imposed=imposed)
        self._case, self._pod = case, pod
        self._inter_pod = InterPod(self._request, default_conf(), pods, _REQUIRED_WEIGHT)

    @cached_property
    def volumes(self) -> Volumes:
        """The plugins for volumes."""
        request = replace(self._pod.ask, claims=self._pod.volume_uses)
        return Volumes(self._case, self._nodes, self._placed, request)

    def answers(self, plugins: Sequence[str]) -> dict[str, dict[str, PluginAnswer]]:
        """Return for each node what every plugin says that refuses it."""
        of_one_node = any(plugin in OF_ONE_NODE for plugin in plugins)
        found: dict[str, dict[str, PluginAnswer]] = {
            node.name: self._of_one_node(node, plugins) if of_one_node else {} for node in self._nodes
        }
        for plugin in [each for each in VOLUME_PLUGINS if each in plugins]:
            for name, answer in self.volumes.of_nodes(plugin).items():
                found[name][plugin] = answer
        for plugin in [each for each in OF_PODS if each in plugins]:
            if (constraints := self._constraints(plugin)) is None:
                continue
            for reason, nodes in failing(constraints.filters(), len(self._nodes)).items():
                code = _UNRESOLVABLE if reason in _UNRESOLVABLE_REASONS else _RESOLVABLE
                for row in np.flatnonzero(nodes).tolist():
                    found[self._nodes[row].name][plugin] = PluginAnswer(code, (reason,))
        return found

    def _constraints(self, plugin: str) -> PodAffinity | TopologySpread | None:
        """Return the constraints that a plugin evaluates, None if the pod has none."""
        found = self._inter_pod.affinity if plugin == AFFINITY else self._inter_pod.spread
        if found is not None:
            found.refresh()
        return found

    def _of_one_node(self, node: NodeFact, plugins: Sequence[str]) -> dict[str, PluginAnswer]:
        """Return what the plugins say that look at one node only."""
        allocator = Allocator(default_conf())
        allocator.set_node(node)
        for pod in self._placed:
            if pod.node == node.name:
                allocator.hold(node.name, pod.uid, (), allocator.amounts(pod.ask), pod.tenant, pod.ask.host_ports)
        alone = replace(self._request, topology=None, imposed=(), volumes=(), disks=(), unsupported=())
        reasons: dict[str, dict[str, None]] = {}
        resolvable = {*_RESOLVABLE_PLUGINS}
        for refusal in allocator.why_not(alone).refusals:
            if refusal.asked > node.allocatable.get(refusal.resource, 0):
                resolvable.discard("NodeResourcesFit")  # no preemption helps
            texts = reasons.setdefault(_PLUGINS[refusal.code], {})
            texts[_theirs(refusal)] = None
        return {
            plugin: PluginAnswer(_RESOLVABLE if plugin in resolvable else _UNRESOLVABLE, tuple(texts))
            for plugin, texts in reasons.items()
            if plugin in plugins
        }

    def scores(self, plugins: Sequence[str], feasible: Sequence[str]) -> dict[str, tuple[Numbers, Numbers]]:
        """Return raw and normalized scores of the feasible nodes by plugin; of one that scores nothing only zeros."""
        rows = [self._rows[name] for name in feasible]
        found = {}
        for plugin in plugins:
            keys = np.full(len(self._nodes), NEVER)
            keys[rows] = 0.0
            scan = RowScan()
            scan.start(keys)
            constraints = self._constraints(plugin)
            scores = constraints is not None and constraints.add_scores(scan, 1.0)
            raw = [0 if scan.skipped[row] or not scores else int(scan.raw[row]) for row in rows]
            found[plugin] = (tuple(raw), tuple(int(scan.totals[row]) for row in rows))
        return found


def _theirs(refusal: Refusal) -> str:
    """Return the text of kube-scheduler for one of our reasons, which may say more."""
    match refusal.code:
        case "TaintNotTolerated":
            return "node(s) had untolerated taint(s)"
        case "ResourceUnknown":
            return f"Insufficient {refusal.resource}"
    return refusal.text


def _encoded(obj: Object) -> bytes:
    return msgspec.json.encode(obj)


def _pod(obj: Object, number: int) -> PodFact:
    """Return the fact of a pod; recorded pods have no uid."""
    return decode_pod(_encoded({**obj, "metadata": {"uid": f"pod-{number}", **obj["metadata"]}}))


def _with_all_namespaces(topology: PodTopology) -> PodTopology:
    """Return the constraints with negative namespace selectors replaced by those that select every namespace."""

    def term(given: PodTerm) -> PodTerm:
        selector = given.pods.namespace_selector
        if selector is None or not matches_labels(selector, {}):
            return given
        return replace(given, pods=replace(given.pods, namespace_selector=()))

    return replace(
        topology,
        affinity=tuple(map(term, topology.affinity)),
        anti_affinity=tuple(map(term, topology.anti_affinity)),
        preferred=tuple(replace(each, term=term(each.term)) for each in topology.preferred),
    )
