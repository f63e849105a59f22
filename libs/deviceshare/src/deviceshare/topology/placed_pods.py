"""All pods on nodes as inter-pod constraints see them, and the counts that constraints use.

Pods with equal labels, namespace and constraints are one *identity*. Which counts an identity belongs to is found once,
by the handles that selections and identities share, so that a pod that is placed changes only its own counts.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from weakref import WeakValueDictionary

from deviceshare.model import NodeFact, Tenant
from deviceshare.topology.counts import DomainCount, Eligible, PodCount
from deviceshare.topology.domains import Domains
from deviceshare.topology.selections import Selection, handles_of

_PER_SELECTION, _PER_NODE, _PER_USE, _PER_COUNTED = 1500, 24, 200, 100
"""Of a selection with its count by domain, more for each node, of one use of it, and of one identity that it counts."""
_PER_INDEXED_NODE = 140
"""Of the index of a pod class for each node (:class:`deviceshare.kernels.TopologyIndex`)."""


class _Identity:
    """The pods with one identity: how many are on each node, and their counts, each with how often a pod counts."""

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.counts: dict[PodCount, int] = {}


class PlacedPods:
    """The pods on the nodes of a cluster.

    Args:
        nodes: the node of each row, None for a row without one; the caller changes it in place.
        namespaces: the labels of namespaces by name; likewise.
    """

    def __init__(self, nodes: Sequence[NodeFact | None], namespaces: dict[str, dict[str, str]]) -> None:
        self._nodes = nodes
        self.namespaces = namespaces
        self._rows = 0
        self.version = 0
        """Changes with the labels and taints of nodes."""
        self.recounts = 0
        """Changes when pods are counted again for another reason."""
        self._domains: WeakValueDictionary[str, Domains] = WeakValueDictionary()
        self._eligible: WeakValueDictionary[Hashable, Eligible] = WeakValueDictionary()
        self._counts: dict[Selection, PodCount] = {}
        self._by_handle: defaultdict[Hashable, dict[Selection, None]] = defaultdict(dict)
        """The selections by each of their handles."""
        self._without_handle: dict[Selection, None] = {}
        self._identities: dict[Tenant, _Identity] = {}
        self._pods_by_handle: defaultdict[Hashable, dict[Tenant, None]] = defaultdict(dict)
        self.classes = 0
        """Pod classes that use counts; the caller changes it."""
        self._uses = 0
        """Results of :meth:`count` that were not dropped."""
        self._counted = 0
        """Counts of all identities."""

    @property
    def size(self) -> int:
        """Bytes, roughly, of what is counted: it shrinks with :meth:`drop`, but not with pods and nodes alone."""
        of_selections = len(self._counts) * (_PER_SELECTION + _PER_NODE * self._rows)
        of_classes = self.classes * _PER_INDEXED_NODE * self._rows
        return of_selections + of_classes + self._uses * _PER_USE + self._counted * _PER_COUNTED

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._rows

    # Nodes and namespaces

    def grow(self, rows: int) -> None:
        """Allocate this number of rows."""
        if rows <= self._rows:
            return
        self._rows = rows
        for domains in self._domains.values():
            domains.grow(rows)
        for eligible in self._eligible.values():
            eligible.grow(rows)
        for count in self._counts.values():
            count.grow(rows)
        self.version += 1

    def set_node(self, row: int) -> None:
        """Read the labels and taints of the node in a row, or that it is gone; its pods stay."""
        node = self._nodes[row]
        labels = {} if node is None else node.labels
        for key, domains in self._domains.items():
            domains.put(row, labels.get(key))
        for eligible in self._eligible.values():
            eligible.put(row, node)
        self.version += 1

    def namespaces_changed(self) -> None:
        """Count again what depends on the labels of namespaces."""
        for selection in [each for each in self._counts if each.depends_on_namespaces]:
            self.recounts += 1
            count = self._counts[selection]
            count.per_row[:] = 0
            count.version = -1
            for identity in self._identities.values():
                self._counted -= identity.counts.pop(count, None) is not None
            self._fill(selection, count)

    # Pods

    def charge(self, row: int, pod: Tenant, sign: int) -> None:
        """Add (``sign`` 1) or subtract (-1) a pod on a node."""
        identity = self._identities.get(pod)
        if identity is None:
            identity = self._identities[pod] = self._new_identity(pod)
        for count, times in identity.counts.items():
            count.add(row, sign * times, self.version)
        pods = identity.rows.get(row, 0) + sign
        if pods:
            identity.rows[row] = pods
            return
        identity.rows.pop(row, None)
        if not identity.rows:
            del self._identities[pod]
            self._counted -= len(identity.counts)
            for handle in handles_of(pod):
                known = self._pods_by_handle[handle]
                known.pop(pod, None)
                if not known:
                    del self._pods_by_handle[handle]

    def _new_identity(self, pod: Tenant) -> _Identity:
        identity = _Identity()
        candidates: dict[Selection, None] = dict(self._without_handle)
        for handle in handles_of(pod):
            self._pods_by_handle[handle][pod] = None
            candidates |= self._by_handle.get(handle, {})
        labels = dict(pod.labels)
        for selection in candidates:
            if times := selection.times(pod, labels, self.namespaces):
                identity.counts[self._counts[selection]] = times
        self._counted += len(identity.counts)
        return identity

    # What constraints use

    def domains(self, key: str) -> Domains:
        """Return the domains of a topology key; they are kept up to date as long as the caller keeps them."""
        found = self._domains.get(key)
        if found is None:
            found = self._domains[key] = Domains(key, self._rows)
            for row, node in enumerate(self._nodes):
                if node is not None:
                    found.put(row, node.labels.get(key))
        return found

    def eligible(self, key: Hashable, accepts: Callable[[NodeFact], bool]) -> Eligible:
        """Return the nodes that a predicate accepts, kept up to date likewise; equal keys mean equal predicates."""
        found = self._eligible.get(key)
        if found is None:
            found = self._eligible[key] = Eligible(accepts, self._nodes, self._rows)
        return found

    def count(self, selection: Selection, key: str, eligible: Eligible | None = None) -> DomainCount:
        """Return the count of a selection by the domains of a topology key.

        The caller passes the result to :meth:`drop` once for each call, and refreshes it before use.
        """
        count = self._counts.get(selection)
        if count is None:
            count = self._counts[selection] = PodCount(selection, self._rows, self.version)
            handles = selection.handles()
            if handles is None:
                self._without_handle[selection] = None
            else:
                for handle in handles:
                    self._by_handle[handle][selection] = None
            self._fill(selection, count)
        self._uses += 1
        return count.of(self.domains(key), eligible)

    def _fill(self, selection: Selection, count: PodCount) -> None:
        """Count the pods on all nodes."""
        for pod in self._with_handle(selection):
            if times := selection.times(pod, dict(pod.labels), self.namespaces):
                identity = self._identities[pod]
                identity.counts[count] = times
                self._counted += 1
                for row, number in identity.rows.items():
                    count.per_row[row] += times * number

    def _with_handle(self, selection: Selection) -> dict[Tenant, None]:
        """Return the pods that a selection may contain."""
        handles = selection.handles()
        pods: dict[Tenant, None] = dict.fromkeys(self._identities) if handles is None else {}
        for handle in handles or ():
            pods |= self._pods_by_handle.get(handle, {})
        return pods

    def drop(self, used: DomainCount) -> None:
        """Release a count; it is forgotten when nothing uses it any more."""
        self._uses -= 1
        used.users -= 1
        if used.users:
            return
        count = used.on_nodes
        count.by_domain.remove(used)
        if count.by_domain:
            return
        selection = count.selection
        del self._counts[selection]
        self._without_handle.pop(selection, None)
        for handle in selection.handles() or ():
            known = self._by_handle[handle]
            known.pop(selection, None)
            if not known:
                del self._by_handle[handle]
        for pod in self._with_handle(selection):
            self._counted -= self._identities[pod].counts.pop(count, None) is not None
