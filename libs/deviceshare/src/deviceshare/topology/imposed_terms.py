"""The terms of all pods of a cluster that affect other pods, and which of them select a pod."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping

from deviceshare.model import ImposedTerm, Labels, PodTopology
from deviceshare.topology.selections import handles_of_selector, selects


class ImposedTerms:
    """The terms of the pods of a cluster, on nodes or not, each as long as a pod has it.

    Args:
        namespaces: the labels of namespaces by name; the caller changes it in place.
    """

    def __init__(self, namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self._namespaces = namespaces
        self._pods: Counter[ImposedTerm] = Counter()
        self._numbers: dict[ImposedTerm, int] = {}
        """The order in which the terms were first added."""
        self._added = 0
        self._by_handle: defaultdict[Hashable, dict[ImposedTerm, None]] = defaultdict(dict)
        self._without_handle: dict[ImposedTerm, None] = {}

    def __bool__(self) -> bool:
        """Return whether any pod has a term."""
        return bool(self._pods)

    def add(self, topology: PodTopology | None) -> list[ImposedTerm]:
        """Add the terms of a pod; return those that no other pod has."""
        if topology is None:
            return []
        new = []
        for term in topology.imposed:
            if not self._pods[term]:
                new.append(term)
                self._added += 1
                self._numbers[term] = self._added
                for known in self._places(term):
                    known[term] = None
            self._pods[term] += 1
        return new

    def remove(self, topology: PodTopology | None) -> None:
        """Remove the terms of a pod."""
        for term in topology.imposed if topology is not None else ():
            self._pods[term] -= 1
            if not self._pods[term]:
                del self._pods[term], self._numbers[term]
                for handle in handles_of_selector(term.term.pods.selector) or ():
                    known = self._by_handle[handle]
                    known.pop(term, None)
                    if not known:
                        del self._by_handle[handle]
                self._without_handle.pop(term, None)

    def _places(self, term: ImposedTerm) -> list[dict[ImposedTerm, None]]:
        handles = handles_of_selector(term.term.pods.selector)
        return [self._without_handle] if handles is None else [self._by_handle[handle] for handle in handles]

    def selecting(self, namespace: str, labels: Labels) -> tuple[ImposedTerm, ...]:
        """Return the terms that select a pod of a namespace with these labels, in a fixed order."""
        if not self._pods:
            return ()
        candidates = dict(self._without_handle)
        for handle in labels:
            candidates |= self._by_handle.get(handle, {})
        if not candidates:
            return ()
        named = dict(labels)
        found = [term for term in candidates if selects(term.term.pods, namespace, named, self._namespaces)]
        return tuple(sorted(found, key=self._numbers.__getitem__))
