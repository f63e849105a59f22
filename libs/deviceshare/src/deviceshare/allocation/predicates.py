"""Node filters and node preferences: ready, not cordoned, selected, tolerated; preferred affinity, PreferNoSchedule.

Rules and texts are those of kube-scheduler's plugins NodeUnschedulable, NodeAffinity and TaintToleration. The result
depends only on the NodeFact and the request, not on usage. The configuration enables the rules.
"""

from collections.abc import Sequence

import msgspec

from deviceshare.conf import ALL_PREDICATES, Predicates
from deviceshare.model import NodeFact, PodRequest, Preference, Requirement, Taint, Toleration, meets

NAME_FIELD = "metadata.name"
CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_BLOCKING = ("NoSchedule", "NoExecute")
_DISCOURAGING = "PreferNoSchedule"


class Rule(msgspec.Struct, frozen=True):
    """The part of a request that node filters depend on. Pods with equal rules share one node filter."""

    node_selector: tuple[tuple[str, str], ...] = ()
    node_terms: tuple[tuple[Requirement, ...], ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    hardware: frozenset[str] = frozenset()
    """Names of the hardware whose cards the pod requests (:class:`~deviceshare.families.Hardware`)."""
    cordons: bool = True
    taints: bool = True
    """Whether cordons and taints apply."""

    @classmethod
    def of(cls, ask: PodRequest, hardware: frozenset[str], counting: Predicates = ALL_PREDICATES) -> "Rule":
        """Return the rule of a pod that requests cards of this hardware, under the enabled predicates."""
        chosen = (ask.node_selector, ask.node_terms) if counting.node_affinity else ((), None)
        return cls(*chosen, ask.tolerations, hardware, counting.unschedulable, counting.taint_toleration)


class RefusalReason(msgspec.Struct, frozen=True):
    """The reason to refuse a pod: a stable code and a text, kube-scheduler's text if there is one."""

    code: str
    text: str


NOT_READY = RefusalReason("NodeNotReady", "node(s) were not ready")
UNSCHEDULABLE = RefusalReason("NodeUnschedulable", "node(s) were unschedulable")
MISMATCH = RefusalReason("NodeAffinityMismatch", "node(s) didn't match Pod's node affinity/selector")


def reasons(rule: Rule, node: NodeFact) -> list[RefusalReason]:
    """Return all reasons why the rule does not admit the node; [] if it does."""
    found = []
    if not node.ready:
        found.append(NOT_READY)
    if node.paused:
        found.append(RefusalReason("NodePaused", f"node(s) were paused: {node.paused}"))
    if _cordoned(rule, node):
        found.append(UNSCHEDULABLE)
    if not matches(rule, node):
        found.append(MISMATCH)
    found += [
        RefusalReason("CardsRegisteredTwice", f"node(s) had {name} that two device plugins register")
        for name in node.contested
        if name in rule.hardware
    ]
    found += [
        RefusalReason("TaintNotTolerated", f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}")
        for taint in untolerated(rule, node)
        # Taints that repeat one of the reasons above.
        if not (taint.key == CORDONED.key and node.unschedulable) and not (taint.key in _NOT_READY and not node.ready)
    ]
    return found


def admits(rule: Rule, node: NodeFact) -> bool:
    """Return whether :func:`reasons` would be empty, faster."""
    return (
        node.ready
        and not node.paused
        and not (node.unschedulable and _cordoned(rule, node))
        and not (node.taints and untolerated(rule, node))
        and matches(rule, node)
        and rule.hardware.isdisjoint(node.contested)
    )


def _cordoned(rule: Rule, node: NodeFact) -> bool:
    return rule.cordons and node.unschedulable and not tolerates(rule.tolerations, CORDONED)


def untolerated(rule: Rule, node: NodeFact) -> list[Taint]:
    """Return the taints with the effect NoSchedule or NoExecute that the rule does not tolerate."""
    blocking = (taint for taint in node.taints if taint.effect in _BLOCKING) if rule.taints else ()
    return [taint for taint in blocking if not tolerates(rule.tolerations, taint)]


def discouraging(tolerations: Sequence[Toleration], node: NodeFact) -> int:
    """Return the number of PreferNoSchedule taints that the pod does not tolerate."""
    return sum(taint.effect == _DISCOURAGING and not tolerates(tolerations, taint) for taint in node.taints)


def preferred(preferences: Sequence[Preference], node: NodeFact) -> int:
    """Return the sum of the weights of the preferred node affinity terms that the node matches."""
    return sum(each.weight for each in preferences if all(_meets(one, node) for one in each.requirements))


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """Return whether one of the tolerations matches the taint."""
    for toleration in tolerations:
        if toleration.effect and toleration.effect != taint.effect:
            continue
        if toleration.key and toleration.key != taint.key:
            continue
        if toleration.operator == "Exists" or (toleration.key and toleration.value == taint.value):
            return True
    return False


def matches(rule: Rule, node: NodeFact) -> bool:
    """Return whether node selector and required node affinity match the node."""
    if any(node.labels.get(key) != value for key, value in rule.node_selector):
        return False
    if rule.node_terms is None:
        return True
    # A term without requirements matches nothing, as in Kubernetes.
    return any(term and all(_meets(requirement, node) for requirement in term) for term in rule.node_terms)


def _meets(requirement: Requirement, node: NodeFact) -> bool:
    if requirement.field:
        value = node.name if requirement.key == NAME_FIELD else None
    else:
        value = node.labels.get(requirement.key)
    return meets(requirement.operator, requirement.values, value)
