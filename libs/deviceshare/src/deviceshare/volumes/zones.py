"""The plugin VolumeZone: labels of volumes with zones and regions.

Source: kubernetes pkg/scheduler/framework/plugins/volumezone.
"""

from collections.abc import Sequence

import numpy as np

from deviceshare.model import PodRequest, VolumeFact
from deviceshare.volumes.catalog import Catalog
from deviceshare.volumes.node_labels import NodeLabels
from deviceshare.volumes.reasons import ZONE_CONFLICT, Bools, Excluded, Rejection, claim_not_found

_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_SUCCESSORS = {
    "failure-domain.beta.kubernetes.io/zone": _ZONE,
    "failure-domain.beta.kubernetes.io/region": _REGION,
    _ZONE: _ZONE,
    _REGION: _REGION,
}
"""The labels that are compared, and the label of a node that is used if it does not have one of them."""
_SEPARATOR = "__"


class Zones:
    """The zones of the volumes of one pod class."""

    def __init__(self, request: PodRequest, catalog: Catalog, labels: NodeLabels) -> None:
        self._claims = [use for use in request.claims if not use.pod]
        self._catalog = catalog
        self._labels = labels

    def rejection(self) -> Rejection | None:
        """Return why no node is feasible, whatever node it is, or None."""
        for use in self._claims:
            if text := self._missing(use.claim, use.name):
                return Rejection(text)
        return None

    def _missing(self, key: str, name: str) -> str:
        claim = self._catalog.claim(key)
        if claim is None:
            return claim_not_found(name)
        if claim.volume:
            gone = self._catalog.volume(claim.volume) is None
            return f'persistentvolume "{claim.volume}" not found' if gone else ""
        if not claim.storage_class:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        found = self._catalog.storage_class(claim.storage_class)
        if found is None:
            return f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
        return "" if found.waits else "PersistentVolume had no name"

    def excluded(self) -> Sequence[Excluded]:
        """Return the excluded nodes."""
        required = [pair for use in self._claims for pair in self._zones(use.claim)]
        if not required:
            return []
        labels = self._labels
        conflict = np.zeros(labels.rows, dtype=np.bool_)
        for key, values in dict.fromkeys(required):
            has, successor = labels.has(key), _SUCCESSORS[key]
            fits: Bools = labels.has_value(key, values)
            if successor != key:
                fits = fits | (~has & labels.has_value(successor, values))
            conflict |= ~fits
        zoned = np.zeros(labels.rows, dtype=np.bool_)
        for key in _SUCCESSORS:
            zoned |= labels.has(key)
        conflict &= zoned
        return [Excluded(ZONE_CONFLICT, conflict)] if conflict.any() else []

    def _zones(self, key: str) -> list[tuple[str, tuple[str, ...]]]:
        claim = self._catalog.claim(key)
        volume = self._catalog.volume(claim.volume) if claim is not None and claim.volume else None
        return zones_of(volume) if volume is not None else []


def zones_of(volume: VolumeFact) -> list[tuple[str, tuple[str, ...]]]:
    """Return the zones and regions of a volume: labels, and the values that they may have on a node."""
    found = []
    for key, value in volume.labels:
        values = tuple(part.strip() for part in value.split(_SEPARATOR))
        if key in _SUCCESSORS and all(values):
            found.append((key, values))
    return found
