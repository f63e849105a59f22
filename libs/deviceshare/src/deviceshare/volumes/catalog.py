"""The PersistentVolumeClaims, PersistentVolumes and StorageClasses of a cluster."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from deviceshare.model import StorageClassFact, VolumeBinding, VolumeClaimFact, VolumeFact, VolumeUse


class Attachment(NamedTuple):
    """A volume that is attached to nodes: its CSI driver, and what distinguishes it from the driver's others."""

    driver: str
    volume: str


class Catalog:
    """The objects by their names.

    ``version`` changes with each of them, ``assumed_version`` with each decided binding, on which only claims that are
    not bound depend.
    """

    def __init__(self) -> None:
        self.version = 0
        self.assumed_version = 0
        self._claims: dict[str, VolumeClaimFact] = {}
        self._volumes: dict[str, VolumeFact] = {}
        self._classes: dict[str, StorageClassFact] = {}
        self._of_class: dict[str, dict[str, VolumeFact]] = {}
        """The volumes of each class, by name."""
        self._claims_of_volume: dict[str, set[str]] = {}
        """The claims that name a volume."""
        self._claims_of_class: dict[str, set[str]] = {}
        self._assumed: dict[str, Counter[VolumeBinding]] = {}
        """By volume and by claim the bindings that were decided and have pods; facts may not show them yet."""

    # Changes: each returns the claims whose attachment may have changed

    def set_claim(self, key: str, fact: VolumeClaimFact | None) -> Iterable[str]:
        """Add or update a claim, None if it is gone."""
        before = self._claims.pop(key, None)
        if before is not None:
            _discard(self._claims_of_volume, before.volume, key)
            _discard(self._claims_of_class, before.storage_class, key)
        if fact is not None:
            self._claims[key] = fact
            self._claims_of_volume.setdefault(fact.volume, set()).add(key)
            self._claims_of_class.setdefault(fact.storage_class, set()).add(key)
        self.version += 1
        return (key,)

    def set_volume(self, name: str, fact: VolumeFact | None) -> Iterable[str]:
        """Add or update a volume, None if it is gone."""
        before = self._volumes.pop(name, None)
        if before is not None:
            of_class = self._of_class[before.storage_class]
            del of_class[name]
            if not of_class:
                del self._of_class[before.storage_class]
        if fact is not None:
            self._volumes[name] = fact
            self._of_class.setdefault(fact.storage_class, {})[name] = fact
        self.version += 1
        return tuple(self._claims_of_volume.get(name, ()))

    def set_class(self, name: str, fact: StorageClassFact | None) -> Iterable[str]:
        """Add or update a class, None if it is gone."""
        if fact is None:
            self._classes.pop(name, None)
        else:
            self._classes[name] = fact
        self.version += 1
        return tuple(self._claims_of_class.get(name, ()))

    def assume(self, binding: VolumeBinding, sign: int) -> None:
        """Count (1) or no longer count (-1) a binding that was decided for a pod.

        As in kube-scheduler, a volume of such a binding is reserved for its claim, and a claim for which a volume is
        made belongs to its node, until facts show it.
        """
        name = binding.volume or binding.claim  # names of volumes have no slash
        bindings = self._assumed.setdefault(name, Counter())
        bindings[binding] += sign
        if not bindings[binding]:
            del bindings[binding]
        if not bindings:
            del self._assumed[name]
        self.assumed_version += 1

    # Lookups

    def selected_node(self, claim: VolumeClaimFact) -> str:
        """Return the node on which a volume is made for an unbound claim, '' for none."""
        assumed = self._assumed.get(claim.key, ()) if not claim.selected_node else ()
        return claim.selected_node or next((each.node for each in assumed if each.uid == claim.uid), "")

    def owner(self, volume: VolumeFact) -> tuple[str, str]:
        """Return the claim (``namespace/name``) that a volume is bound to or reserved for, and its uid: '' for any.

        '' for a volume without a claim.
        """
        assumed = self._assumed.get(volume.name) if not volume.claim else None
        if assumed is None:
            return volume.claim, volume.claim_uid
        first = next(iter(assumed))
        return first.claim, first.uid

    def claim(self, key: str) -> VolumeClaimFact | None:
        """Return a claim (``namespace/name``), or None."""
        return self._claims.get(key)

    def volume(self, name: str) -> VolumeFact | None:
        """Return a volume, or None."""
        return self._volumes.get(name)

    def storage_class(self, name: str) -> StorageClassFact | None:
        """Return a class, or None."""
        return self._classes.get(name)

    def claims_naming(self, volume: str) -> Iterable[str]:
        """Return the claims (``namespace/name``) whose ``spec.volumeName`` is a volume."""
        return self._claims_of_volume.get(volume, ())

    def of_class(self, name: str) -> Iterable[VolumeFact]:
        """Return the volumes of a class ('': those without a class)."""
        return self._of_class.get(name, {}).values()

    def waits(self, claim: VolumeClaimFact) -> bool:
        """Return whether an unbound claim is bound when a pod that uses it has a node.

        A claim whose class does not exist counts as one of mode Immediate.
        """
        found = self._classes.get(claim.storage_class)
        return found is not None and found.waits

    def owned(self, use: VolumeUse) -> bool:
        """Return whether the claim of an ephemeral volume, if it exists, belongs to its pod."""
        claim = self._claims.get(use.claim)
        return not use.pod or claim is None or (bool(use.uid) and claim.owner == use.uid)

    def attachment(self, key: str) -> Attachment | None:
        """Return the volume that is attached for a claim, None if none of a CSI driver is known.

        An unbound claim counts for the provisioner of its class.
        """
        claim = self._claims.get(key)
        if claim is None:
            return None
        volume = self._volumes.get(claim.volume) if claim.volume else None
        if volume is not None:
            return Attachment(volume.driver, volume.handle) if volume.driver and volume.handle else None
        found = self._classes.get(claim.storage_class)
        # A handle that no volume has.
        return Attachment(found.provisioner, f"\0{key}") if found is not None and found.provisioner else None


def _discard(sets: dict[str, set[str]], name: str, key: str) -> None:
    found = sets[name]
    found.discard(key)
    if not found:
        del sets[name]
