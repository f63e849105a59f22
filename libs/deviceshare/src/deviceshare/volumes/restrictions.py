"""The plugin VolumeRestrictions: volumes that one pod may use at a time.

Source: kubernetes pkg/scheduler/framework/plugins/volumerestrictions.
"""

from collections.abc import Sequence

import numpy as np

from deviceshare.model import PodRequest
from deviceshare.volumes.catalog import Catalog
from deviceshare.volumes.placed_volumes import PlacedVolumes
from deviceshare.volumes.reasons import DISK_CONFLICT, IN_USE, Excluded, Rejection, claim_not_found


class Restrictions:
    """The restrictions of one pod class."""

    def __init__(self, request: PodRequest, catalog: Catalog, placed: PlacedVolumes) -> None:
        self._claims = [use for use in request.claims if not use.pod]
        self._disks = request.disks
        self._catalog = catalog
        self._placed = placed

    def rejection(self) -> Rejection | None:
        """Return why no node is feasible, whatever node it is, or None."""
        for use in self._claims:
            if self._catalog.claim(use.claim) is None:
                return Rejection(claim_not_found(use.name))
        return None

    @property
    def in_use(self) -> bool:
        """Whether a claim that one pod may use is in use by another one."""
        return any(
            (claim := self._catalog.claim(use.claim)) is not None
            and claim.once_per_pod
            and self._placed.names(use.claim)
            for use in self._claims
        )

    @property
    def exclusive(self) -> bool:
        """Whether the pod uses a claim that one pod of the cluster may use at a time."""
        return any((claim := self._catalog.claim(use.claim)) is not None and claim.once_per_pod for use in self._claims)

    def excluded(self, rows: int) -> Sequence[Excluded]:
        """Return the excluded nodes; each node has one reason at most."""
        found = []
        disks = np.zeros(rows, dtype=np.bool_)
        for disk in self._disks:
            disks[self._placed.conflicting(disk)] = True
        if disks.any():
            found.append(Excluded(DISK_CONFLICT, disks))
        if self.in_use:
            found.append(Excluded(IN_USE, ~disks))
        return found
