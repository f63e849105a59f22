"""What groups have allocated, and what their queues promised them on admission."""

from collections import Counter
from collections.abc import Iterator, Mapping

from deviceshare.model import GroupKey, ResourceAmounts
from deviceshare.queueing.pod_account import amounts_by_resource
from deviceshare.queueing.queue_account import QueueAccount, add


class GroupAccounts:
    """Allocated and promised resources of groups; a placed pod without a PodGroup is a group with a promise."""

    def __init__(self) -> None:
        self._allocated: dict[GroupKey, Mapping[str, int]] = {}
        """Of a group with one pod, one object for all with the same amounts; else a counter of its own."""
        self._shrunk: set[GroupKey] = set()
        self._promises: dict[GroupKey, tuple[QueueAccount, Mapping[str, int]]] = {}

    def allocated(self, group: GroupKey) -> Mapping[str, int]:
        """Return the allocated resources of a group."""
        return self._allocated.get(group, {})

    def charge(self, group: GroupKey, amounts: ResourceAmounts, sign: int) -> None:
        """Add the resources of a placed pod, or subtract them (sign -1)."""
        allocated = self._allocated.get(group)
        if allocated is None and sign > 0:
            self._allocated[group] = amounts_by_resource(amounts)
            return
        if not isinstance(allocated, Counter):
            allocated = self._allocated[group] = Counter(allocated)
        add(allocated, amounts, sign)
        if sign < 0:
            self._shrunk.add(group)
            if not any(allocated.values()):
                del self._allocated[group]

    def forget(self, group: GroupKey) -> None:
        """Forget what a group has and what it was promised, which its queue still counts."""
        self._allocated.pop(group, None)
        self._promises.pop(group, None)

    def take_shrunk(self) -> set[GroupKey]:
        """Return the groups whose allocation shrank since the last call: their order may have changed."""
        shrunk, self._shrunk = self._shrunk, set()
        return shrunk

    def promise(self, group: GroupKey) -> tuple[str, Mapping[str, int]] | None:
        """Return the queue that promised a group resources, and how much, or None."""
        promise = self._promises.get(group)
        return None if promise is None else (promise[0].fact.name, promise[1])

    def put_promise(self, group: GroupKey, account: QueueAccount, needs: Mapping[str, int]) -> None:
        """Add the promise of a queue to a group without one: its minimum resources, whether allocated or not."""
        self._promises[group] = (account, needs)
        account.commit(needs, 1)

    def drop_promise(self, group: GroupKey) -> QueueAccount | None:
        """Remove the promise to a group; return the account of the queue that made it, None without one."""
        account, needs = self._promises.pop(group, (None, {}))
        if account is not None:
            account.commit(needs, -1)
        return account

    def outstanding(self, group: GroupKey, needs: Mapping[str, int]) -> Mapping[str, int]:
        """Return the part of a group's minimum resources that is not allocated."""
        has = self.allocated(group)
        return {name: max(0, amount - has.get(name, 0)) for name, amount in needs.items()}

    def all_outstanding(self) -> Iterator[tuple[GroupKey, Mapping[str, int]]]:
        """Yield the groups with a promise, in the order of their admission, and what is outstanding of it."""
        return ((group, self.outstanding(group, needs)) for group, (_, needs) in self._promises.items())

    def promised(self) -> list[GroupKey]:
        """Return the groups that have less than they were promised, in the order of their admission."""
        return [group for group, amounts in self.all_outstanding() if any(amounts.values())]
