"""Inter-pod affinity and topology spread, one node and one pod at a time, on plain Kubernetes objects.

Written from the documentation of the rules (tests/data/kube-scheduler/README.md), and independent of the library: it
shares no code with it, not even the decoding of objects.
"""

from collections.abc import Iterable
from math import floor, log
from typing import Any, NamedTuple

Object = dict[str, Any]

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
MISSING = "node(s) didn't match pod topology spread constraints (missing required label)"
SPREAD = "node(s) didn't match pod topology spread constraints"


class PlainCluster(NamedTuple):
    """Nodes by name, pods with ``spec.nodeName``, and the labels of namespaces."""

    nodes: dict[str, Object]
    pods: list[Object]
    namespaces: dict[str, dict[str, str]]


def labels_of(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def namespace_of(pod: Object) -> str:
    return pod["metadata"].get("namespace") or "default"


def selector_matches(selector: Object | None, labels: dict[str, str]) -> bool:
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for each in selector.get("matchExpressions") or ():
        key, values = each["key"], each.get("values") or []
        if each["operator"] == "In" and labels.get(key) not in values:
            return False
        if each["operator"] == "NotIn" and key in labels and labels[key] in values:
            return False
        if each["operator"] == "Exists" and key not in labels:
            return False
        if each["operator"] == "DoesNotExist" and key in labels:
            return False
    return True


def term_selects(term: Object, owner: Object, pod: Object, cluster: PlainCluster) -> bool:
    namespaces, by_labels = term.get("namespaces") or [], term.get("namespaceSelector")
    if not namespaces and by_labels is None:
        namespaces = [namespace_of(owner)]
    known = cluster.namespaces.get(namespace_of(pod), {"kubernetes.io/metadata.name": namespace_of(pod)})
    inside = namespace_of(pod) in namespaces or (by_labels is not None and selector_matches(by_labels, known))
    return inside and selector_matches(term.get("labelSelector"), labels_of(pod))


def terms(pod: Object, kind: str, strength: str) -> list[Object]:
    affinity = (pod["spec"].get("affinity") or {}).get(kind) or {}
    return affinity.get(f"{strength}DuringSchedulingIgnoredDuringExecution") or []


def near(cluster: PlainCluster, node: Object, key: str) -> Iterable[Object]:
    """Yield the pods in the domain of a node."""
    if key not in labels_of(node):
        return
    for pod in cluster.pods:
        other = cluster.nodes.get(pod["spec"]["nodeName"])
        if other is not None and labels_of(other).get(key) == labels_of(node)[key]:
            yield pod


def affinity_reason(cluster: PlainCluster, pod: Object, node: Object) -> str:
    required = terms(pod, "podAffinity", "required")

    def matches_all(other: Object) -> bool:
        return all(term_selects(term, pod, other, cluster) for term in required)

    if required:
        if any(term["topologyKey"] not in labels_of(node) for term in required):
            return AFFINITY
        anywhere = any(
            matches_all(other)
            for term in required
            for each in cluster.nodes.values()
            for other in near(cluster, each, term["topologyKey"])
        )
        everywhere_near = all(any(map(matches_all, near(cluster, node, term["topologyKey"]))) for term in required)
        if not everywhere_near and (anywhere or not matches_all(pod)):
            return AFFINITY
    for term in terms(pod, "podAntiAffinity", "required"):
        if any(term_selects(term, pod, other, cluster) for other in near(cluster, node, term["topologyKey"])):
            return ANTI_AFFINITY
    for other in cluster.pods:
        if other["spec"]["nodeName"] not in cluster.nodes:
            continue
        for term in terms(other, "podAntiAffinity", "required"):
            is_near = any(other is each for each in near(cluster, node, term["topologyKey"]))
            if is_near and term_selects(term, other, pod, cluster):
                return EXISTING
    return ""


def affinity_raw(cluster: PlainCluster, pod: Object, node: Object, required_weight: int) -> tuple[int, bool]:
    """Return the raw score of a node, and whether any term selects any pod anywhere."""
    score, applies = 0, False
    for other in cluster.pods:
        where = cluster.nodes.get(other["spec"]["nodeName"])
        if where is None:
            continue
        found = []
        for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
            for each in terms(pod, kind, "preferred"):
                if term_selects(each["podAffinityTerm"], pod, other, cluster):
                    found.append((each["podAffinityTerm"], sign * each["weight"]))
            for each in terms(other, kind, "preferred"):
                if term_selects(each["podAffinityTerm"], other, pod, cluster):
                    found.append((each["podAffinityTerm"], sign * each["weight"]))
        for term in terms(other, "podAffinity", "required"):
            if required_weight and term_selects(term, other, pod, cluster):
                found.append((term, required_weight))
        for term, weight in found:
            key = term["topologyKey"]
            if key in labels_of(where):
                applies = True
                if labels_of(node).get(key) == labels_of(where)[key]:
                    score += weight
    return score, applies


def affinity_scores(cluster: PlainCluster, pod: Object, feasible: list[str], required_weight: int = 0) -> list[int]:
    raw = [affinity_raw(cluster, pod, cluster.nodes[name], required_weight)[0] for name in feasible]
    least, most = min(raw), max(raw)
    return [int(100 * ((score - least) / (most - least))) if most > least else 0 for score in raw]


def constraints(pod: Object, action: str) -> list[Object]:
    found = pod["spec"].get("topologySpreadConstraints") or []
    return [each for each in found if each["whenUnsatisfiable"] == action]


def spread_selector(constraint: Object, pod: Object) -> Object | None:
    selector = constraint.get("labelSelector")
    if selector is None:
        return None
    more = {key: labels_of(pod)[key] for key in constraint.get("matchLabelKeys") or () if key in labels_of(pod)}
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in more.items()]
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *expressions]}


def is_empty(selector: Object | None) -> bool:
    return selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions")


def spread_pods(cluster: PlainCluster, pod: Object, constraint: Object, node: Object) -> int:
    """Return how many pods of a node a constraint counts."""
    selector = spread_selector(constraint, pod)
    return sum(
        cluster.nodes.get(other["spec"]["nodeName"]) is node
        and namespace_of(other) == namespace_of(pod)
        and "deletionTimestamp" not in other["metadata"]
        and not is_empty(selector)
        and selector_matches(selector, labels_of(other))
        for other in cluster.pods
    )


def tolerates(pod: Object, taint: Object) -> bool:
    for each in pod["spec"].get("tolerations") or ():
        if each.get("effect") not in (None, "", taint["effect"]):
            continue
        if each.get("key") not in (None, "", taint["key"]):
            continue
        if each.get("operator") == "Exists" or (each.get("key") and each.get("value", "") == taint.get("value", "")):
            return True
    return False


def node_counts(pod: Object, constraint: Object, node: Object, keys: list[str]) -> bool:
    """Return whether a constraint counts a node."""
    if any(key not in labels_of(node) for key in keys):
        return False
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor":
        selector = pod["spec"].get("nodeSelector") or {}
        if any(labels_of(node).get(key) != value for key, value in selector.items()):
            return False
    if constraint.get("nodeTaintsPolicy", "Ignore") == "Honor":
        taints = node.get("spec", {}).get("taints") or []
        return all(tolerates(pod, each) for each in taints if each["effect"] in ("NoSchedule", "NoExecute"))
    return True


def spread_reason(cluster: PlainCluster, pod: Object, node: Object) -> str:
    required = constraints(pod, "DoNotSchedule")
    keys = [each["topologyKey"] for each in required]
    for each in required:
        key = each["topologyKey"]
        counts: dict[str, int] = {}
        for other in cluster.nodes.values():
            if node_counts(pod, each, other, keys):
                domain = labels_of(other)[key]
                counts[domain] = counts.get(domain, 0) + spread_pods(cluster, pod, each, other)
        if key not in labels_of(node):
            return MISSING
        least = min(counts.values(), default=0) if len(counts) >= each.get("minDomains", 1) else 0
        itself = selector_matches(spread_selector(each, pod), labels_of(pod))
        if counts.get(labels_of(node)[key], 0) + itself - least > each["maxSkew"]:
            return SPREAD
    return ""


def spread_scores(cluster: PlainCluster, pod: Object, feasible: list[str]) -> list[int]:
    preferred = constraints(pod, "ScheduleAnyway")
    keys = [each["topologyKey"] for each in preferred]
    scored = [name for name in feasible if all(key in labels_of(cluster.nodes[name]) for key in keys)]
    if not preferred or not scored:
        return [0] * len(feasible)
    raw = {}
    for name in scored:
        score = 0.0
        for each in preferred:
            key = each["topologyKey"]
            domain = labels_of(cluster.nodes[name])[key]
            if key == "kubernetes.io/hostname":
                size, pods = len(scored), spread_pods(cluster, pod, each, cluster.nodes[name])
            else:
                size = len({labels_of(cluster.nodes[other])[key] for other in scored})
                pods = sum(
                    spread_pods(cluster, pod, each, other)
                    for other in cluster.nodes.values()
                    if node_counts(pod, each, other, keys) and labels_of(other)[key] == domain
                )
            score += pods * log(size + 2) + (each["maxSkew"] - 1)
        raw[name] = floor(score + 0.5)
    least, most = min(raw.values()), max(raw.values())
    found = {name: 100 * (most + least - score) // most if most else 100 for name, score in raw.items()}
    return [found.get(name, 0) for name in feasible]


def reasons(cluster: PlainCluster, pod: Object) -> dict[str, list[str]]:
    """Return for each node the reasons of both plugins why the pod cannot run there."""
    return {
        name: [text for text in (spread_reason(cluster, pod, node), affinity_reason(cluster, pod, node)) if text]
        for name, node in cluster.nodes.items()
    }


def totals(
    cluster: PlainCluster, pod: Object, usable: Iterable[str], affinity_weight: int, spread_weight: int
) -> dict[str, int]:
    """Return the scores of the feasible nodes by both plugins together, by name; ``usable`` by all other plugins."""
    found = reasons(cluster, pod)
    feasible = [name for name in usable if not found[name]]
    if not feasible:
        return {}
    affinity, spread = affinity_scores(cluster, pod, feasible), spread_scores(cluster, pod, feasible)
    return {
        name: affinity_weight * one + spread_weight * other
        for name, one, other in zip(feasible, affinity, spread, strict=True)
    }


TEXTS = (AFFINITY, ANTI_AFFINITY, EXISTING, MISSING, SPREAD)
