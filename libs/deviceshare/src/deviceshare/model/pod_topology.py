"""What a pod requires and prefers of the pods near it: inter-pod affinity, anti-affinity, and topology spread.

The nodes with equal values of one label, the *topology key*, are a *domain* (a zone, a rack, a node). Pods are selected
by labels and namespaces. Rules: Kubernetes ``spec.affinity.podAffinity``, ``podAntiAffinity`` and
``topologySpreadConstraints``.
"""

from collections.abc import Mapping

import msgspec

from deviceshare.model.bounded import Amount
from deviceshare.model.requirements import Labels, Requirement, meets

Selector = tuple[Requirement, ...] | None
"""A label selector: all requirements have to be fulfilled; ``()`` selects everything, None nothing."""

HOSTNAME = "kubernetes.io/hostname"
"""The topology key whose domains are single nodes."""


class PodSelection(msgspec.Struct, frozen=True, array_like=True):
    """The pods of some namespaces that match a selector.

    The namespaces are those in ``namespaces`` and those whose labels match ``namespace_selector``. A term that names
    neither selects pods of its own pod's namespace; decoding puts this namespace into ``namespaces``.
    """

    selector: Selector
    namespaces: tuple[str, ...] = ()
    """Sorted."""
    namespace_selector: Selector = None


class PodTerm(msgspec.Struct, frozen=True, array_like=True):
    """A term of inter-pod affinity or anti-affinity: selected pods in the node's domain of ``topology_key``."""

    topology_key: str
    pods: PodSelection


class WeightedPodTerm(msgspec.Struct, frozen=True, array_like=True):
    """A preferred term; ``weight`` is 1 to 100 for affinity, -1 to -100 for anti-affinity."""

    weight: int
    term: PodTerm


class SpreadConstraint(msgspec.Struct, frozen=True, array_like=True):
    """A topology spread constraint over the pods of the pod's own namespace that match ``selector``."""

    topology_key: str
    max_skew: Amount
    selector: Selector
    """With the requirements of ``matchLabelKeys``."""
    required: bool = True
    """``whenUnsatisfiable: DoNotSchedule``; else ``ScheduleAnyway``."""
    min_domains: Amount = 1
    honors_affinity: bool = True
    """Whether only nodes count that the pod's node selector and required node affinity match."""
    honors_taints: bool = False
    """Whether only nodes count whose taints the pod tolerates."""


class PodTopology(msgspec.Struct, frozen=True, array_like=True, cache_hash=True):
    """The inter-pod constraints of one pod."""

    namespace: str = ""
    labels: Labels = ()
    """Those labels of the pod that its own selectors name: they decide whether the pod selects itself."""
    affinity: tuple[PodTerm, ...] = ()
    """Required terms."""
    anti_affinity: tuple[PodTerm, ...] = ()
    """Required terms."""
    preferred: tuple[WeightedPodTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()

    @property
    def required(self) -> bool:
        """Whether it rules out nodes, not only prefers some."""
        return bool(self.affinity or self.anti_affinity) or any(each.required for each in self.spread)

    @property
    def terms(self) -> int:
        """The number of constraints."""
        return len(self.affinity) + len(self.anti_affinity) + len(self.preferred) + len(self.spread)

    @property
    def imposed(self) -> "tuple[ImposedTerm, ...]":
        """The terms by which the pod, once it has a node, affects other pods."""
        return (
            *(ImposedTerm(ANTI_AFFINITY, term) for term in self.anti_affinity),
            *(ImposedTerm(AFFINITY, term) for term in self.affinity),
            *(ImposedTerm(PREFERENCE, each.term, each.weight) for each in self.preferred),
        )


ANTI_AFFINITY, AFFINITY, PREFERENCE = "anti-affinity", "affinity", "preference"


class ImposedTerm(msgspec.Struct, frozen=True, array_like=True):
    """A term of pods that affects the pods that it selects.

    Required anti-affinity keeps them out of the domains of its pods. Preferred terms, and required affinity, change
    the scores of these domains.
    """

    kind: str
    term: PodTerm
    weight: int = 0
    """That of a preferred term."""


def matches_labels(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector matches labels, as in Kubernetes."""
    return selector is not None and all(meets(each.operator, each.values, labels.get(each.key)) for each in selector)
