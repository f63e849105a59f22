"""Unbound claims: the volumes that can be bound to them, and where volumes can be made for them.

Source: FindMatchingVolume of kubernetes component-helpers/storage/volume/pv_helpers.go.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from deviceshare.model import VolumeClaimFact
from deviceshare.volumes.catalog import Catalog
from deviceshare.volumes.node_labels import Ints, NodeLabels
from deviceshare.volumes.reasons import Bools


class Candidate(NamedTuple):
    """A volume for a claim, and the rows (int64, ascending) of nodes that it can be used on.

    ``reserved``: it names the claim.
    """

    volume: str
    rows: Ints
    reserved: bool


class Unbound:
    """The unbound claims of one pod that are bound when it has a node, the smallest first.

    Volumes and nodes are looked up once for all nodes.
    """

    def __init__(self, claims: Iterable[VolumeClaimFact], catalog: Catalog, labels: NodeLabels) -> None:
        ordered = sorted(claims, key=lambda claim: claim.requested)
        self._labels = labels
        self._selected = [(claim, node) for claim in ordered if (node := catalog.selected_node(claim))]
        """Those for which a node is selected: they are provisioned there, without a look at volumes."""
        self._free = [claim for claim in ordered if not catalog.selected_node(claim)]
        self._candidates = {claim.key: _candidates(claim, catalog, labels) for claim in self._free}
        self._provisioned = {claim.key: _provisioned(claim, catalog, labels) for claim in ordered}

    def nodes(self) -> Bools:
        """Return the nodes (bool[rows]) on which each claim has a volume, or one can be made for it."""
        fits: Bools = np.ones(self._labels.rows, dtype=np.bool_)
        for claim, node in self._selected:
            there: Bools = np.zeros(self._labels.rows, dtype=np.bool_)
            there[[row for row, name in enumerate(self._labels.names()) if name == node]] = True
            fits &= there & self._can_provision(claim)
        taken: dict[str, Ints] = {}
        """By volume the rows of nodes on which an earlier claim of the pod takes it."""
        for claim in self._free:
            fits &= self._served(claim, taken) | self._can_provision(claim)
        return fits

    def _can_provision(self, claim: VolumeClaimFact) -> Bools:
        nodes = self._provisioned[claim.key]
        return np.zeros(self._labels.rows, dtype=np.bool_) if nodes is None else nodes

    def _served(self, claim: VolumeClaimFact, taken: dict[str, Ints]) -> Bools:
        """Return the nodes on which a claim takes a volume, and add what it takes."""
        served: Bools = np.zeros(self._labels.rows, dtype=np.bool_)
        searching: Bools = np.ones(self._labels.rows, dtype=np.bool_)
        left = self._labels.rows
        for volume, rows, reserved in self._candidates[claim.key]:
            takes = rows[searching[rows]]
            before = taken.get(volume)
            if before is not None:
                takes = np.setdiff1d(takes, before, assume_unique=True)
            if len(self._free) > 1:
                taken[volume] = takes if before is None else np.union1d(before, takes)
            served[takes] = True
            if reserved:
                # Where an earlier claim of the pod has taken it, others are tried.
                others = before[searching[before]] if before is not None else rows[:0]
                searching[:] = False
                searching[others] = True
                left = len(others)
            else:
                searching[takes] = False
                left -= len(takes)
            if not left:
                break
        return served

    def on_row(self, row: int, name: str) -> tuple[list[tuple[str, str]], list[str]] | None:
        """Return the claims with their volumes, and the claims to provision, on a node; None if it does not fit."""
        if any(node != name for _, node in self._selected):
            return None
        taken: set[str] = set()
        static: list[tuple[str, str]] = []
        provision = [claim.key for claim, _ in self._selected]
        for claim in self._free:
            volume = _smallest(self._candidates[claim.key], row, taken)
            if volume is None:
                provision.append(claim.key)
            else:
                taken.add(volume)
                static.append((claim.key, volume))
        for key in provision:
            nodes = self._provisioned[key]
            if nodes is None or not nodes[row]:
                return None
        return static, provision


class LastUnbound:
    """The unbound claims that were looked up last: one decision needs them for all nodes, then for one.

    One is kept, since there may be as many pod classes as claims, and each has the volumes of a StorageClass.
    """

    def __init__(self, catalog: Catalog, labels: NodeLabels) -> None:
        self._catalog = catalog
        self._labels = labels
        self._key: tuple[object, ...] = ()
        self._found: Unbound | None = None

    def of(self, claims: Iterable[VolumeClaimFact]) -> Unbound:
        """Return the unbound claims of a pod."""
        catalog, claims = self._catalog, tuple(claims)
        key = (claims, catalog.version, catalog.assumed_version, self._labels.version)
        if self._found is None or self._key != key:
            self._key, self._found = key, Unbound(claims, catalog, self._labels)
        return self._found


def _candidates(claim: VolumeClaimFact, catalog: Catalog, labels: NodeLabels) -> list[Candidate]:
    """Return the volumes for a claim in the order in which they are tried."""
    reserved, others = [], []
    for volume in catalog.of_class(claim.storage_class):
        owner, uid = catalog.owner(volume)
        is_reserved = owner == claim.key and uid in ("", claim.uid)
        if owner and not is_reserved:
            continue
        if is_reserved:
            if volume.can_hold(claim):
                reserved.append(volume)
        elif volume.matches(claim):
            others.append(volume)
    others.sort(key=lambda volume: volume.capacity)
    return [
        *(Candidate(volume.name, labels.matching_rows(volume.node_terms), reserved=True) for volume in reserved),
        *(Candidate(volume.name, labels.matching_rows(volume.node_terms), reserved=False) for volume in others),
    ]


def _smallest(candidates: Iterable[Candidate], row: int, taken: set[str]) -> str | None:
    """Return the volume for a claim on a node: one that is reserved for it decides, else the smallest."""
    for volume, rows, reserved in candidates:
        if volume in taken:
            continue
        at = int(rows.searchsorted(row))
        if at < len(rows) and rows[at] == row:
            return volume
        if reserved:
            return None
    return None


def _provisioned(claim: VolumeClaimFact, catalog: Catalog, labels: NodeLabels) -> Bools | None:
    """Return the nodes for which a volume can be made, None if it cannot be made."""
    found = catalog.storage_class(claim.storage_class)
    if found is None or not found.provisions:
        return None
    return labels.matching(found.topologies or None)
