"""What pods of other schedulers have: no queue counts it, the plugin ``overcommit`` does.

Source: Volcano pkg/scheduler/plugins/overcommit, which subtracts what is used on the nodes from the cluster.
"""

from collections import Counter

from deviceshare.queueing.amounts import Amounts


class Others:
    """The pods of other schedulers that are bound, and what they have together."""

    def __init__(self) -> None:
        self._amounts: dict[str, Amounts] = {}
        self.total: Counter[str] = Counter()

    def put(self, uid: str, amounts: Amounts) -> None:
        """Count what a pod has; replaces what was counted for it before."""
        self.drop(uid)
        self._amounts[uid] = amounts
        self.total.update(dict(amounts))

    def drop(self, uid: str) -> None:
        """Stop counting a pod, if it was counted."""
        self.total.subtract(dict(self._amounts.pop(uid, ())))
