"""Which pods on nodes are counted: selections of pods as values, and what they match."""

from collections.abc import Hashable, Iterator, Mapping

import msgspec

from deviceshare.model import ImposedTerm, PodSelection, Selector, Tenant, matches_labels

NamespaceLabels = Mapping[str, Mapping[str, str]]
"""The labels of namespaces by name."""

NAME_LABEL = "kubernetes.io/metadata.name"
"""The label that every namespace has."""


def in_namespaces(pods: PodSelection, namespace: str, labels: NamespaceLabels) -> bool:
    """Return whether a selection is about the pods of a namespace."""
    if namespace in pods.namespaces:
        return True
    if pods.namespace_selector is None:
        return False
    return matches_labels(pods.namespace_selector, labels.get(namespace, {NAME_LABEL: namespace}))


def selects(pods: PodSelection, namespace: str, labels: Mapping[str, str], namespaces: NamespaceLabels) -> bool:
    """Return whether a selection contains a pod of a namespace with these labels."""
    return matches_labels(pods.selector, labels) and in_namespaces(pods, namespace, namespaces)


class SelectedByAll(msgspec.Struct, frozen=True):
    """The pods that all selections contain."""

    selections: tuple[PodSelection, ...]

    def times(self, pod: Tenant, labels: Mapping[str, str], namespaces: NamespaceLabels) -> int:
        """Return how often a pod is counted: 0 or 1."""
        return int(all(selects(each, pod.namespace, labels, namespaces) for each in self.selections))

    def handles(self) -> Iterator[Hashable] | None:
        """Yield handles (see :func:`handles_of`) of which every counted pod has at least one; None: no such handles."""
        return handles_of_selector(*(each.selector for each in self.selections))

    @property
    def depends_on_namespaces(self) -> bool:
        """Whether labels of namespaces decide what is counted."""
        return any(each.namespace_selector is not None for each in self.selections)


class InNamespace(msgspec.Struct, frozen=True):
    """The pods of one namespace that match a selector with at least one requirement and are not being deleted.

    Source of both exceptions: kube-scheduler's plugin PodTopologySpread (countPodsMatchSelector).
    """

    namespace: str
    selector: Selector

    def times(self, pod: Tenant, labels: Mapping[str, str], namespaces: NamespaceLabels) -> int:
        """Return how often a pod is counted: 0 or 1."""
        if pod.terminating or pod.namespace != self.namespace or not self.selector:
            return 0
        return int(matches_labels(self.selector, labels))

    def handles(self) -> Iterator[Hashable] | None:
        """Yield handles of which every counted pod has at least one; None: no such handles."""
        return handles_of_selector(self.selector)

    depends_on_namespaces = False


class Imposing(msgspec.Struct, frozen=True):
    """The pods that have a term, once for each time that they have it."""

    term: ImposedTerm

    def times(self, pod: Tenant, labels: Mapping[str, str], namespaces: NamespaceLabels) -> int:
        """Return how often a pod is counted."""
        return 0 if pod.topology is None else pod.topology.imposed.count(self.term)

    def handles(self) -> Iterator[Hashable] | None:
        """Yield handles of which every counted pod has at least one."""
        return iter((self.term,))

    depends_on_namespaces = False


Selection = SelectedByAll | InNamespace | Imposing


def handles_of_selector(*selectors: Selector) -> Iterator[Hashable] | None:
    """Yield labels of which every pod has at least one that all selectors match; None: no such labels."""
    for selector in selectors:
        for requirement in selector or ():
            if requirement.operator == "In":
                return ((requirement.key, value) for value in requirement.values)
    return None


def handles_of(pod: Tenant) -> Iterator[Hashable]:
    """Yield the handles of a pod, by which selections and pods find each other: its labels and its terms."""
    yield from pod.labels
    if pod.topology is not None:
        yield from dict.fromkeys(pod.topology.imposed)
