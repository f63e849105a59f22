"""The plugin VolumeBinding: the nodes on which the claims of a pod are, or can be, bound.

Source: kubernetes pkg/scheduler/framework/plugins/volumebinding.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from deviceshare.model import PodRequest, VolumeBinding, VolumeClaimFact, VolumeUse
from deviceshare.volumes.catalog import Catalog
from deviceshare.volumes.matching import LastUnbound
from deviceshare.volumes.node_labels import NodeLabels
from deviceshare.volumes.reasons import (
    NO_VOLUME,
    NODE_CONFLICT,
    VOLUME_GONE,
    Bools,
    Excluded,
    Rejection,
    claim_not_found,
    not_owner,
)


class VolumeChoice(NamedTuple):
    """What is bound on a node: claims and the volumes for them, and claims for which volumes are made."""

    static: tuple[tuple[str, str], ...]
    provision: tuple[str, ...]


class Binding:
    """The claims of one pod class; ``unbound`` is shared by all classes of a cluster."""

    def __init__(
        self, request: PodRequest, catalog: Catalog, labels: NodeLabels, unbound: LastUnbound | None = None
    ) -> None:
        self._uses = request.claims
        self._catalog = catalog
        self._labels = labels
        self._unbound = unbound if unbound is not None else LastUnbound(catalog, labels)

    def rejection(self) -> Rejection | None:
        """Return why no node is feasible, whatever node it is, or None."""
        for use in self._uses:
            if text := self._unusable(use):
                return Rejection(text)
        if any(not (claim.bound or self._is_delayed(claim)) for claim in self._claims()):
            return Rejection("pod has unbound immediate PersistentVolumeClaims")
        return None

    def _unusable(self, use: VolumeUse) -> str:
        """Return why the claim of a volume cannot be used, '' if it can."""
        claim, name = self._catalog.claim(use.claim), use.name
        if claim is None:
            if use.pod:
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            return claim_not_found(name)
        if claim.lost:
            return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.volume}"'
        if claim.terminating:
            return f'persistentvolumeclaim "{name}" is being deleted'
        return "" if self._catalog.owned(use) else not_owner(use.claim, use.pod)

    def _claims(self) -> list[VolumeClaimFact]:
        found = (self._catalog.claim(use.claim) for use in self._uses)
        return [claim for claim in found if claim is not None]

    def _is_delayed(self, claim: VolumeClaimFact) -> bool:
        return not claim.volume and self._catalog.waits(claim)

    @property
    def delayed(self) -> list[VolumeClaimFact]:
        """The unbound claims that are bound when the pod has a node."""
        return [claim for claim in self._claims() if not claim.bound and self._is_delayed(claim)]

    def excluded(self) -> Sequence[Excluded]:
        """Return the excluded nodes; a node may have several reasons."""
        found = []
        conflict, gone = self._of_bound()
        if conflict.any():
            found.append(Excluded(NODE_CONFLICT, conflict))
        if delayed := self.delayed:
            fits = self._unbound.of(delayed).nodes()
            if not fits.all():
                found.append(Excluded(NO_VOLUME, ~fits))
        if gone.any():
            found.append(Excluded(VOLUME_GONE, gone))
        return found

    def _of_bound(self) -> tuple[Bools, Bools]:
        """Return the nodes that a bound volume cannot be used on, and those of which a bound volume is gone.

        The claims are checked in order: the first that fails decides.
        """
        rows = self._labels.rows
        conflict, gone = np.zeros(rows, dtype=np.bool_), np.zeros(rows, dtype=np.bool_)
        for claim in self._claims():
            if not claim.bound:
                continue
            volume = self._catalog.volume(claim.volume)
            if volume is None:
                return conflict, ~conflict
            if volume.node_terms is not None:
                conflict |= ~self._labels.matching(volume.node_terms)
        return conflict, gone

    def choice(self, row: int) -> VolumeChoice | None:
        """Return what is bound on a node that fits; None if it does not fit."""
        found = self._unbound.of(self.delayed).on_row(row, self._labels.names()[row])
        return None if found is None else VolumeChoice(tuple(found[0]), tuple(found[1]))

    def bindings(self, row: int) -> tuple[VolumeBinding, ...]:
        """Return how the unbound claims are bound on a node that fits, one binding for each claim."""
        choice = self.choice(row) if self.delayed else None
        if choice is None:
            return ()
        node = self._labels.names()[row]
        volumes = dict(choice.static)
        found = {}
        for claim in self.delayed:
            volume = volumes.get(claim.key, "")
            found[claim.key] = VolumeBinding(claim.key, claim.uid, volume, "" if volume else node)
        return tuple(found.values())
