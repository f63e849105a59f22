"""Bound pods of other schedulers: they count for the plugin ``overcommit``, but in no queue.

Source: Volcano pkg/scheduler/plugins/overcommit, which subtracts the used resources of nodes from the cluster total.
"""

from collections import Counter

from deviceshare.model import ResourceAmounts


class ForeignPods:
    """The resources of bound pods of other schedulers, and their total."""

    def __init__(self) -> None:
        self._amounts: dict[str, ResourceAmounts] = {}
        self.total: Counter[str] = Counter()

    def put(self, uid: str, amounts: ResourceAmounts) -> None:
        """Add or update a pod."""
        self.drop(uid)
        self._amounts[uid] = amounts
        self.total.update(dict(amounts))

    def drop(self, uid: str) -> None:
        """Remove a pod, if present."""
        self.total.subtract(dict(self._amounts.pop(uid, ())))
