"""The facts of PersistentVolumeClaims, PersistentVolumes, StorageClasses and CSINodes.

Fields and rules are those of Kubernetes ``v1`` and ``storage.k8s.io/v1``. Amounts are in bytes, at most
:data:`~deviceshare.model.quantities.LARGEST`.
"""

from deviceshare.model.bounded import Amount
from deviceshare.model.facts import Fact
from deviceshare.model.pod_topology import Selector, matches_labels
from deviceshare.model.problems import Problem
from deviceshare.model.requirements import Labels, Requirement

READ_WRITE_ONCE_POD = "ReadWriteOncePod"
"""The access mode of a volume that one pod of the whole cluster may use at a time."""

_NO_PROVISIONER = "kubernetes.io/no-provisioner"
"""The provisioner of a StorageClass for which volumes are not made."""

NodeTerms = tuple[tuple[Requirement, ...], ...]
"""A required node affinity: all requirements of at least one term."""


class VolumeClaimFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="volumeclaim"):
    """A PersistentVolumeClaim; ``key`` is its ``namespace/name``."""

    named_by = "key"
    key: str
    uid: str = ""
    owner: str = ""
    """The uid of the object that controls it, '' for none."""
    storage_class: str = ""
    """The name of its StorageClass, '' for none."""
    volume: str = ""
    """The name of its PersistentVolume (``spec.volumeName``), '' for none."""
    bound: bool = False
    """Whether the binding to ``volume`` is complete (``pv.kubernetes.io/bind-completed``)."""
    lost: bool = False
    """In phase Lost: its PersistentVolume is gone."""
    terminating: bool = False
    requested: Amount = 0
    """Requested bytes."""
    access_modes: tuple[str, ...] = ()
    block: bool = False
    """``volumeMode: Block``; else Filesystem."""
    selector: Selector = None
    """The labels that its PersistentVolume must have; None: any."""
    selected_node: str = ""
    """``volume.kubernetes.io/selected-node``: the node for which it is being provisioned, or ''."""
    problems: tuple[Problem, ...] = ()

    @property
    def once_per_pod(self) -> bool:
        """Whether one pod of the cluster may use it at a time."""
        return READ_WRITE_ONCE_POD in self.access_modes


class VolumeFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="volume"):
    """A PersistentVolume."""

    name: str
    storage_class: str = ""
    available: bool = False
    """In phase Available: bound to no claim."""
    terminating: bool = False
    claim: str = ""
    """The claim that it is bound to or reserved for (``namespace/name``), or ''."""
    claim_uid: str = ""
    """The uid of that claim, '' for any."""
    capacity: Amount = 0
    """Bytes."""
    access_modes: tuple[str, ...] = ()
    block: bool = False
    """``volumeMode: Block``; else Filesystem."""
    labels: Labels = ()
    """Sorted."""
    node_terms: NodeTerms | None = None
    """Required node affinity; None: every node."""
    driver: str = ""
    """Its CSI driver, or ''."""
    handle: str = ""
    """The driver's name for it."""
    problems: tuple[Problem, ...] = ()

    def can_hold(self, claim: VolumeClaimFact) -> bool:
        """Return whether it can be bound to a claim that it is reserved for: by its size and volume mode.

        Source, also of :meth:`matches`: FindMatchingVolume of kubernetes
        component-helpers/storage/volume/pv_helpers.go.
        """
        return self.capacity >= claim.requested and self.block == claim.block and not self.terminating

    def matches(self, claim: VolumeClaimFact) -> bool:
        """Return whether it can be bound to a claim that it is not reserved for, if no other claim has it."""
        return (
            self.available
            and self.storage_class == claim.storage_class
            and self.can_hold(claim)
            and (claim.selector is None or matches_labels(claim.selector, dict(self.labels)))
            and set(claim.access_modes) <= set(self.access_modes)
        )


class StorageClassFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="storageclass"):
    """A StorageClass."""

    name: str
    provisioner: str = ""
    waits: bool = False
    """``volumeBindingMode: WaitForFirstConsumer``; else Immediate."""
    topologies: NodeTerms = ()
    """``allowedTopologies``: volumes can be made where all requirements of one term are met; (): everywhere."""
    problems: tuple[Problem, ...] = ()

    @property
    def provisions(self) -> bool:
        """Whether volumes are made for its claims."""
        return self.provisioner not in ("", _NO_PROVISIONER)


class VolumeLimitsFact(Fact, frozen=True, kw_only=True, omit_defaults=True, tag="volumelimits"):
    """How many volumes can be attached to a node (CSINode); ``name`` is that of the node."""

    name: str
    drivers: tuple[tuple[str, Amount], ...] = ()
    """The number by CSI driver, sorted; drivers without a limit are omitted."""
    problems: tuple[Problem, ...] = ()


StorageFact = VolumeClaimFact | VolumeFact | StorageClassFact | VolumeLimitsFact
"""The facts of storage. CLUSTER has them only where pods that deviceshare places use volumes."""
