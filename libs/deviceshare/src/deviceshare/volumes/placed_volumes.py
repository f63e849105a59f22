"""The volumes that the pods on nodes use: how many of each CSI driver every node has attached, and what is in use."""

from collections import Counter, defaultdict
from collections.abc import Hashable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from deviceshare.model import Disk, Tenant
from deviceshare.volumes.catalog import Attachment, Catalog
from deviceshare.volumes.reasons import Bools

Ints = NDArray[np.int64]
Key = TypeVar("Key", bound=Hashable)


class PlacedVolumes:
    """The volumes of the pods on nodes, and how many volumes each node can have attached."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._rows = 0
        self._uses: defaultdict[str, Counter[int]] = defaultdict(Counter)
        """By claim how many pods of each row use it."""
        self._named: Counter[str] = Counter()
        """By claim how many pods name it; the pods of ephemeral volumes do not."""
        self._attached: dict[str, Attachment] = {}
        """The volume of each claim in use."""
        self._on: defaultdict[Attachment, Counter[int]] = defaultdict(Counter)
        """By volume how many claims in use of each row it stands for."""
        self._counts: dict[str, Ints] = {}
        """By driver the number of attached volumes, int64[rows]."""
        self._limits: dict[str, Ints] = {}
        """By driver the number of volumes that can be attached, int64[rows]; -1: no limit."""
        self._disks: defaultdict[int, Counter[Disk]] = defaultdict(Counter)
        """The disks in use by row."""

    # Nodes

    def grow(self, rows: int) -> None:
        """Allocate this number of rows."""
        more = rows - self._rows
        if more <= 0:
            return
        self._rows = rows
        self._counts = {driver: np.pad(counts, (0, more)) for driver, counts in self._counts.items()}
        self._limits = {
            driver: np.pad(limits, (0, more), constant_values=-1) for driver, limits in self._limits.items()
        }

    def set_limits(self, row: int, limits: tuple[tuple[str, int], ...]) -> None:
        """Set how many volumes of each driver can be attached to a node."""
        for driver, of_rows in list(self._limits.items()):
            of_rows[row] = -1
            if not limits and (of_rows < 0).all():
                del self._limits[driver]
        for driver, most in limits:
            if driver not in self._limits:
                self._limits[driver] = np.full(self._rows, -1, dtype=np.int64)
            self._limits[driver][row] = most

    # Pods

    def charge(self, row: int, pod: Tenant, sign: int) -> None:
        """Add (``sign`` 1) or subtract (-1) the volumes of a pod on a node."""
        if pod.disks:
            disks = self._disks[row]
            for disk in pod.disks:
                _add(disks, disk, sign)
            if not disks:
                del self._disks[row]
        for use in pod.volumes:
            if not use.pod:
                _add(self._named, use.claim, sign)
            uses = self._uses[use.claim]
            before = uses[row]
            _add(uses, row, sign)
            if not before or not uses[row]:
                self._attach(use.claim, row, sign)
            if not uses:
                del self._uses[use.claim]
                self._attached.pop(use.claim, None)

    def reattach(self, claim: str) -> bool:
        """Count the volume of a claim again; return whether it is another one now, of a driver with limits."""
        uses = self._uses.get(claim)
        before, after = self._attached.get(claim), self._catalog.attachment(claim)
        if uses is None or before == after:
            return False
        for row in uses:
            self._attach(claim, row, -1)
        self._attached.pop(claim, None)
        for row in uses:
            self._attach(claim, row, 1)
        return any(each is not None and each.driver in self._limits for each in (before, after))

    def _attach(self, claim: str, row: int, sign: int) -> None:
        """Count (1) or no longer count (-1) the volume of a claim on a node."""
        found = self._attached.get(claim)
        if found is None and sign > 0 and (found := self._catalog.attachment(claim)) is not None:
            self._attached[claim] = found
        if found is None:
            return
        on = self._on[found]
        before = on[row]
        _add(on, row, sign)
        if not before or not on[row]:
            if found.driver not in self._counts:
                self._counts[found.driver] = np.zeros(self._rows, dtype=np.int64)
            self._counts[found.driver][row] += sign
        if not on:
            del self._on[found]

    # What the plugins use

    def names(self, claim: str) -> bool:
        """Return whether a pod on a node names a claim."""
        return claim in self._named

    def conflicting(self, disk: Disk) -> list[int]:
        """Return the rows of nodes with a pod that cannot share a disk."""
        return [row for row, disks in self._disks.items() if any(_conflicts(disk, other) for other in disks)]

    def exceeding(self, attachments: set[Attachment], rows: int) -> Bools:
        """Return the nodes (bool[rows]) to which these volumes cannot be attached as well."""
        self.grow(rows)
        found = np.zeros(self._rows, dtype=np.bool_)
        for driver in {each.driver for each in attachments} & self._limits.keys():
            wanted = [each for each in attachments if each.driver == driver]
            more = np.full(self._rows, len(wanted), dtype=np.int64)
            for each in wanted:
                for row in self._on.get(each, ()):
                    more[row] -= 1
            limits = self._limits[driver]
            counts = self._counts.get(driver)
            total = more if counts is None else counts + more
            # A node that has all of them attached needs no more, whatever its limit is.
            found |= (limits >= 0) & (more > 0) & (total > limits)
        return found[:rows]


def _conflicts(disk: Disk, other: Disk) -> bool:
    return not (disk.read_only and other.read_only) and not set(disk.ids).isdisjoint(other.ids)


def _add(counts: Counter[Key], key: Key, sign: int) -> None:
    total = counts[key] + sign
    if total:
        counts[key] = total
    else:
        counts.pop(key, None)
