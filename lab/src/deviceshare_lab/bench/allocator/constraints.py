"""Inter-pod constraints of generated workloads: each request has one, about the pods with the same request."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from deviceshare.conf import NodeOrder
from deviceshare.model import PodRequest, Tenant
from deviceshare.objects import decode_pod
from deviceshare.topology import ImposedTerms
from msgspec.structs import replace

NO_CONSTRAINTS = "none"
INTER_POD_SCORES = NodeOrder(
    least_requested=0, node_affinity=0, balanced_resource=0, taint_toleration=0, image_locality=0
)
"""Of the plugin nodeorder only the scores of these constraints."""
ZONES = 10
_ZONE, _NODE = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_Spec = dict[str, Any]


def node_labels(number: int) -> dict[str, str]:
    """Return the labels of a node by its number."""
    return {_ZONE: f"zone-{number % ZONES}", _NODE: f"node-{number:05d}"}


def _affinity(kind: str, key: str) -> Callable[[_Spec], _Spec]:
    def spec(selector: _Spec) -> _Spec:
        term = {"labelSelector": selector, "topologyKey": key}
        return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}

    return spec


def _preferred_anti_affinity(selector: _Spec) -> _Spec:
    term = {"weight": 100, "podAffinityTerm": {"labelSelector": selector, "topologyKey": _NODE}}
    return {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _spread(when: str, *keys: str) -> Callable[[_Spec], _Spec]:
    def spec(selector: _Spec) -> _Spec:
        constraint = {"maxSkew": 1, "whenUnsatisfiable": when, "labelSelector": selector}
        return {"topologySpreadConstraints": [{**constraint, "topologyKey": key} for key in keys]}

    return spec


CONSTRAINTS: dict[str, Callable[[_Spec], _Spec]] = {
    "affinity-zone": _affinity("podAffinity", _ZONE),
    "anti-affinity-node": _affinity("podAntiAffinity", _NODE),
    "preferred-anti-affinity-node": _preferred_anti_affinity,
    "spread-zone": _spread("DoNotSchedule", _ZONE),
    "spread-node": _spread("DoNotSchedule", _NODE),
    "preferred-spread": _spread("ScheduleAnyway", _ZONE, _NODE),
}
"""For each name the fields of a pod's ``spec``, by a selector of pods with the same request."""
MIXED = "mixed"
"""The constraints in turn."""


def constrained(requests: Sequence[PodRequest], name: str) -> tuple[list[PodRequest], list[Tenant]]:
    """Return the requests with constraints, and for each what the constraints of other pods see of its pods."""
    kinds = list(CONSTRAINTS.values()) if name == MIXED else [CONSTRAINTS[name]]
    facts = []
    for number, _ in enumerate(requests):
        labels = {"app": f"app-{number}"}
        metadata = {"name": "pod", "namespace": "bench", "uid": "pod", "labels": labels}
        spec = {"containers": [{"name": "main"}], **kinds[number % len(kinds)]({"matchLabels": labels})}
        facts.append(decode_pod(msgspec.json.encode({"metadata": metadata, "spec": spec})))
    terms = ImposedTerms({})
    for fact in facts:
        terms.add(fact.ask.topology)
    changed = [
        replace(request, topology=fact.ask.topology, imposed=terms.selecting(fact.namespace, fact.labels))
        for request, fact in zip(requests, facts, strict=True)
    ]
    return changed, [fact.tenant for fact in facts]
