"""The plugin NodeVolumeLimits: how many volumes of a CSI driver can be attached to a node.

Source: kubernetes pkg/scheduler/framework/plugins/nodevolumelimits.
"""

from collections.abc import Sequence

from deviceshare.model import PodRequest
from deviceshare.volumes.catalog import Catalog
from deviceshare.volumes.placed_volumes import PlacedVolumes
from deviceshare.volumes.reasons import TOO_MANY, Excluded, Rejection, claim_not_found, not_owner


class Limits:
    """The limits for one pod class."""

    def __init__(self, request: PodRequest, catalog: Catalog, placed: PlacedVolumes) -> None:
        self._claims = request.claims
        self._catalog = catalog
        self._placed = placed

    def rejection(self) -> Rejection | None:
        """Return why no node is feasible, whatever node it is, or None."""
        for use in self._claims:
            if self._catalog.claim(use.claim) is None:
                return Rejection(f"looking up PVC {use.claim}: {claim_not_found(use.name)}")
            if not self._catalog.owned(use):
                return Rejection(not_owner(use.claim, use.pod), error=True)
        return None

    def excluded(self, rows: int) -> Sequence[Excluded]:
        """Return the excluded nodes."""
        found = {self._catalog.attachment(use.claim) for use in self._claims} - {None}
        exceeding = self._placed.exceeding({each for each in found if each is not None}, rows)
        return [Excluded(TOO_MANY, exceeding)] if exceeding.any() else []
