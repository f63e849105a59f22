"""Which nodes a pod may use at all: ready, not cordoned, selected, tolerated.

The rules are those of kube-scheduler's plugins NodeUnschedulable, NodeAffinity and TaintToleration; the texts are the
ones that its users know. Only node facts and the pod's wishes count here, never what is taken, so an answer holds
until one of the two changes.
"""

from collections.abc import Sequence

import msgspec

from deviceshare.facts import NodeFact, PodAsk, Requirement, Taint, Toleration

NAME_FIELD = "metadata.name"
CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_BLOCKING = ("NoSchedule", "NoExecute")


class Rule(msgspec.Struct, frozen=True):
    """The part of a pod's ask that looks at nodes as such. Pods with equal rules share one answer."""

    node_selector: tuple[tuple[str, str], ...] = ()
    node_terms: tuple[tuple[Requirement, ...], ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    hardware: frozenset[str] = frozenset()
    """What the pod asks cards of, by name (:class:`~deviceshare.families.hardware.Hardware`)."""

    @classmethod
    def of(cls, ask: PodAsk, hardware: frozenset[str]) -> "Rule":
        """Return the rule of a pod that asks such cards."""
        return cls(ask.node_selector, ask.node_terms, ask.tolerations, hardware)


class Reason(msgspec.Struct, frozen=True):
    """Why a node is not for a pod: a stable code and the words of kube-scheduler."""

    code: str
    text: str


NOT_READY = Reason("NodeNotReady", "node(s) were not ready")
UNSCHEDULABLE = Reason("NodeUnschedulable", "node(s) were unschedulable")
MISMATCH = Reason("NodeAffinityMismatch", "node(s) didn't match Pod's node affinity/selector")


def reasons(rule: Rule, node: NodeFact) -> list[Reason]:
    """Return every reason why the node is not for such a pod, [] where it is."""
    found = []
    if not node.ready:
        found.append(NOT_READY)
    if node.unschedulable and not tolerates(rule.tolerations, CORDONED):
        found.append(UNSCHEDULABLE)
    if not matches(rule, node):
        found.append(MISMATCH)
    found += [
        Reason("CardsRegisteredTwice", f"node(s) had {name} that two device plugins register")
        for name in node.contested
        if name in rule.hardware
    ]
    found += [
        Reason("TaintNotTolerated", f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}")
        for taint in node.taints
        if taint.effect in _BLOCKING
        # The taint of a cordon says what `unschedulable` says.
        and not (taint.key == CORDONED.key and node.unschedulable)
        and not tolerates(rule.tolerations, taint)
    ]
    return found


def admits(rule: Rule, node: NodeFact) -> bool:
    """Return whether :func:`reasons` would be empty, faster."""
    return (
        node.ready
        and (not node.unschedulable or tolerates(rule.tolerations, CORDONED))
        and (
            not node.taints
            or all(taint.effect not in _BLOCKING or tolerates(rule.tolerations, taint) for taint in node.taints)
        )
        and matches(rule, node)
        and rule.hardware.isdisjoint(node.contested)
    )


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """Return whether one of the tolerations covers the taint."""
    for toleration in tolerations:
        if toleration.effect and toleration.effect != taint.effect:
            continue
        if toleration.key and toleration.key != taint.key:
            continue
        if toleration.operator == "Exists" or (toleration.key and toleration.value == taint.value):
            return True
    return False


def matches(rule: Rule, node: NodeFact) -> bool:
    """Return whether node selector and required node affinity choose the node."""
    if any(node.labels.get(key) != value for key, value in rule.node_selector):
        return False
    if rule.node_terms is None:
        return True
    # A term without requirements chooses nothing, as in Kubernetes.
    return any(term and all(_meets(requirement, node) for requirement in term) for term in rule.node_terms)


def _meets(requirement: Requirement, node: NodeFact) -> bool:
    if requirement.field:
        value = node.name if requirement.key == NAME_FIELD else None
    else:
        value = node.labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            try:
                has, bound = int(value or ""), int(requirement.values[0])
            except (ValueError, IndexError):
                return False
            return has > bound if requirement.operator == "Gt" else has < bound
    return False
