"""The terms of all pods of a cluster that affect other pods, and which of them select a pod."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping

from deviceshare.model import ANTI_AFFINITY, ImposedTerm, Labels, PodTopology
from deviceshare.topology.selections import handles_of_selector, selects

MAX_PREFERENCES = 128
"""Different terms of the pods of one namespace that only change scores of other pods; further ones change none.

Each is counted on every node and matched with every waiting pod. Required anti-affinity always counts.
"""
_MAX_SHARED = 64
"""Results that are remembered, since many pods are selected by the same terms."""
_ANYWHERE = ""
"""In place of a namespace: the term selects namespaces by labels."""


class _OfNamespace:
    """The terms of the pods of one namespace that only change scores."""

    def __init__(self) -> None:
        self.active: dict[ImposedTerm, None] = {}
        self.waiting: dict[ImposedTerm, None] = {}
        """Those beyond :data:`MAX_PREFERENCES`, in the order in which they were added."""


class ImposedTerms:
    """The terms of the pods of a cluster, on nodes or not, each as long as a pod has it.

    Args:
        namespaces: the labels of namespaces by name; the caller changes it in place.
    """

    def __init__(self, namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self._namespaces = namespaces
        self._pods: Counter[tuple[str, ImposedTerm]] = Counter()
        """How many pods of a namespace have a term."""
        self._users: Counter[ImposedTerm] = Counter()
        """The number of namespaces whose pods have a term that counts."""
        self._numbers: dict[ImposedTerm, int] = {}
        """The order in which the terms were first added."""
        self._added = 0
        self._preferences: defaultdict[str, _OfNamespace] = defaultdict(_OfNamespace)
        self._by_handle: defaultdict[Hashable, dict[ImposedTerm, None]] = defaultdict(dict)
        """By namespace, and a label that the selected pods have, or None."""
        self._shared: dict[tuple[ImposedTerm, ...], tuple[ImposedTerm, ...]] = {}

    def __bool__(self) -> bool:
        """Return whether any pod has a term."""
        return bool(self._pods)

    def add(self, topology: PodTopology | None) -> list[ImposedTerm]:
        """Add the terms of a pod; return those that begin to count."""
        if topology is None:
            return []
        namespace, new = topology.namespace, list[ImposedTerm]()
        for term in topology.imposed:
            self._pods[namespace, term] += 1
            if self._pods[namespace, term] > 1:
                continue
            if term.kind != ANTI_AFFINITY:
                of_namespace = self._preferences[namespace]
                if len(of_namespace.active) >= MAX_PREFERENCES:
                    of_namespace.waiting[term] = None
                    continue
                of_namespace.active[term] = None
            new += self._begin(term)
        return new

    def remove(self, topology: PodTopology | None) -> list[ImposedTerm]:
        """Remove the terms of a pod; return those that begin to count in their place."""
        if topology is None:
            return []
        namespace, new = topology.namespace, list[ImposedTerm]()
        for term in topology.imposed:
            self._pods[namespace, term] -= 1
            if self._pods[namespace, term]:
                continue
            del self._pods[namespace, term]
            if term.kind != ANTI_AFFINITY:
                of_namespace = self._preferences[namespace]
                if term in of_namespace.waiting:
                    del of_namespace.waiting[term]
                    continue
                new += self._replace_preference(namespace, of_namespace, term)
            self._end(term)
        return new

    def _replace_preference(self, namespace: str, known: _OfNamespace, term: ImposedTerm) -> list[ImposedTerm]:
        del known.active[term]
        if known.waiting:
            following = next(iter(known.waiting))
            del known.waiting[following]
            known.active[following] = None
            return self._begin(following)
        if not known.active:
            del self._preferences[namespace]
        return []

    def _begin(self, term: ImposedTerm) -> list[ImposedTerm]:
        """Count a term for one more namespace; return it if it did not count before."""
        self._users[term] += 1
        if self._users[term] > 1:
            return []
        self._added += 1
        self._numbers[term] = self._added
        for handle in _places(term):
            self._by_handle[handle][term] = None
        return [term]

    def _end(self, term: ImposedTerm) -> None:
        self._users[term] -= 1
        if self._users[term]:
            return
        del self._users[term], self._numbers[term]
        for handle in _places(term):
            known = self._by_handle[handle]
            known.pop(term, None)
            if not known:
                del self._by_handle[handle]

    def selecting(self, namespace: str, labels: Labels) -> tuple[ImposedTerm, ...]:
        """Return the terms that select a pod of a namespace with these labels, in a fixed order."""
        if not self._users:
            return ()
        candidates: dict[ImposedTerm, None] = {}
        for scope in (namespace, _ANYWHERE):
            for label in (None, *labels):
                candidates |= self._by_handle.get((scope, label), {})
        if not candidates:
            return ()
        named = dict(labels)
        selected = [term for term in candidates if selects(term.term.pods, namespace, named, self._namespaces)]
        found = tuple(sorted(selected, key=self._numbers.__getitem__))
        if len(self._shared) >= _MAX_SHARED:
            self._shared.clear()
        return self._shared.setdefault(found, found)


def _places(term: ImposedTerm) -> Iterator[Hashable]:
    """Yield a namespace and a label, or None, of which each selected pod has one."""
    pods = term.term.pods
    labels: tuple[Hashable, ...] = tuple(handles_of_selector(pods.selector) or (None,))
    for scope in (*pods.namespaces, *((_ANYWHERE,) if pods.namespace_selector is not None else ())):
        for label in labels:
            yield scope, label
