"""The volumes of a cluster: its objects of storage, what the pods on nodes use, and the labels of the nodes."""

from collections.abc import Iterable, Sequence

from deviceshare.kernels import Changes
from deviceshare.model import NodeFact, StorageClassFact, StorageFact, Tenant, VolumeClaimFact, VolumeFact
from deviceshare.volumes.catalog import Catalog
from deviceshare.volumes.matching import LastUnbound
from deviceshare.volumes.node_labels import NodeLabels
from deviceshare.volumes.placed_volumes import PlacedVolumes


class ClusterVolumes:
    """What the constraints of volumes depend on.

    Args:
        facts: the changes of the nodes.
        nodes: the node of each row, None for a row without one; the caller changes it in place.
        rows: the rows of the nodes by name; likewise.
    """

    def __init__(self, facts: Changes, nodes: Sequence[NodeFact | None], rows: dict[str, int]) -> None:
        self._facts = facts
        self._nodes = nodes
        self._rows = rows
        self._limits: dict[str, tuple[tuple[str, int], ...]] = {}
        """By node how many volumes of each driver can be attached to it."""
        self.catalog = Catalog()
        self.placed = PlacedVolumes(self.catalog)
        self.labels = NodeLabels(facts, nodes)
        self.unbound = LastUnbound(self.catalog, self.labels)

    @property
    def static_version(self) -> tuple[int, int]:
        """Changes with what the objects of storage, and the nodes, decide by themselves."""
        return self.catalog.version, self._facts.now

    def put(self, fact: StorageFact) -> bool:
        """Add or update an object; return whether nodes may have room for volumes that they had none for.

        True for a volume without a claim, a class, a limit, and what is attached to nodes with limits. All else only
        matters to the pods that use a claim: that of the object, or :meth:`.Catalog.claims_naming` it.
        """
        return self._set(fact) or (isinstance(fact, VolumeFact) and not fact.claim)

    def drop(self, fact: StorageFact) -> bool:
        """Remove an object; return whether nodes may have room for volumes that they had none for (:meth:`put`)."""
        return self._set(fact, gone=True)

    def _set(self, fact: StorageFact, *, gone: bool = False) -> bool:
        match fact:
            case VolumeClaimFact():
                return self._reattach(self.catalog.set_claim(fact.key, None if gone else fact))
            case VolumeFact():
                return self._reattach(self.catalog.set_volume(fact.name, None if gone else fact))
            case StorageClassFact():
                self._reattach(self.catalog.set_class(fact.name, None if gone else fact))
            case _:
                self._limits[fact.name] = () if gone else fact.drivers
                self._set_limits(fact.name)
                if gone:
                    del self._limits[fact.name]
        return True

    def add_node(self, name: str) -> None:
        """Apply what is known of a node that has a row now."""
        if name in self._limits:
            self._set_limits(name)

    def remove_node(self, name: str, row: int) -> None:
        """Clear the row that a node had."""
        if name in self._limits:
            self.placed.set_limits(row, ())

    def charge(self, row: int, pod: Tenant, sign: int) -> None:
        """Add (``sign`` 1) or subtract (-1) the volumes of a pod on a node, and how its claims will be bound."""
        for binding in pod.bindings:
            self.catalog.assume(binding, sign)
        self.placed.grow(len(self._nodes))
        self.placed.charge(row, pod, sign)

    def _set_limits(self, name: str) -> None:
        row = self._rows.get(name)
        if row is not None:
            self.placed.grow(len(self._nodes))
            self.placed.set_limits(row, self._limits.get(name, ()))

    def _reattach(self, claims: Iterable[str]) -> bool:
        """Count the volumes of claims again; return whether other volumes are attached to nodes with limits now."""
        changed = False
        for claim in claims:
            changed |= self.placed.reattach(claim)
        return changed
