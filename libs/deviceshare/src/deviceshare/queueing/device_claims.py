"""The ResourceClaims of the pods of queues: what each counts there, and with which pod.

A claim counts once, with one of its pods: the oldest that is placed, else the oldest that waits. As with Volcano's
plugin ``capacity`` only those amounts count that queues name, and how many devices of a class the cluster has is not
counted.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from deviceshare.families.dra import is_of_class
from deviceshare.model import DeviceClaim, QueueFact, ResourceAmounts
from deviceshare.queueing.pod_account import PodAccount
from deviceshare.queueing.replacing_heap import ReplacingHeap


class ClaimAmounts(Protocol):
    """What is known of ResourceClaims by key."""

    def counted(self, key: str, decided: Iterable[DeviceClaim]) -> ResourceAmounts:
        """Return what a claim counts; ``decided``: the devices that pods of it will get, none if not known."""
        ...

    def depends_on_devices(self, key: str, names: Iterable[str]) -> bool:
        """Return whether a claim may count another amount of these resources once it has devices."""
        ...


class _Unknown:
    def counted(self, key: str, decided: Iterable[DeviceClaim]) -> ResourceAmounts:
        return ()

    def depends_on_devices(self, key: str, names: Iterable[str]) -> bool:
        return False


class _Pods:
    """The pods of a claim: those that are placed first, then by age, and what was decided for it with them, by uid."""

    __slots__ = ("decided", "order")

    def __init__(self) -> None:
        self.order = ReplacingHeap[tuple[bool, float, str], tuple[str, PodAccount]]()
        self.decided: dict[str, DeviceClaim] = {}


class DeviceClaims:
    """Which pod counts each claim."""

    def __init__(self) -> None:
        self.known: ClaimAmounts = _Unknown()
        """The claims, as far as they are known; set by the caller."""
        self._named: Counter[str] = Counter()
        """How often queues name amounts of devices."""
        self.names: frozenset[str] = frozenset()
        """Those that they name. Without any, nothing of the rest is kept."""
        self._pods: defaultdict[str, _Pods] = defaultdict(_Pods)
        """By claim its pods; never empty."""
        self._counts_with: dict[str, tuple[str, PodAccount]] = {}
        """By claim the pod with which it counts, the first of these."""

    def set_queue(self, before: QueueFact | None, after: QueueFact | None) -> bool:
        """Apply a queue as it was and as it is now; return whether other amounts count: then all pods are set again."""
        old, new = _named(before), _named(after)
        if old == new:
            return False
        self._named.subtract(old)
        self._named.update(new)
        self._named = +self._named
        known, self.names = self.names, frozenset(self._named)
        return self.names != known

    def set_pods(self, entries: Mapping[str, PodAccount]) -> None:
        """Make these all pods, by uid."""
        self._pods.clear()
        self._counts_with.clear()
        for uid, entry in entries.items() if self.names else ():
            self.put(uid, entry)
        for key in self._pods:
            self.settle(key)

    def put(self, uid: str, entry: PodAccount) -> None:
        """Add or update a pod; the caller settles its claims."""
        chosen = _chosen(entry, entry.devices)
        for key in filter(None, entry.uses if self.names else ()):
            pods = self._pods[key]
            pods.order.put(uid, (not entry.held, entry.created, uid), (uid, entry))
            pods.decided.pop(uid, None)
            if key in chosen:
                pods.decided[uid] = chosen[key]

    def drop(self, uid: str, entry: PodAccount) -> None:
        """Remove a pod; likewise."""
        for key in set(filter(None, entry.uses)) if self.names else ():
            pods = self._pods[key]
            pods.order.discard(uid)
            pods.decided.pop(uid, None)
            if not pods.order:
                del self._pods[key]

    def settle(self, key: str) -> set[str]:
        """Find the pod with which a claim counts; return the uids of that pod and of the former one."""
        before = self._counts_with.pop(key, None)
        first = self._pods[key].order.first() if key in self._pods else None
        after = None if first is None else first[1]
        if after is not None:
            self._counts_with[key] = after
        return {each[0] for each in (before, after) if each is not None}

    def depends_on_place(self, entry: PodAccount) -> bool:
        """Return whether what a pod counts depends on the devices that its claims get."""
        return bool(self.names) and any(self.known.depends_on_devices(key, self.names) for key in entry.uses)

    def amounts(self, uid: str, entry: PodAccount) -> ResourceAmounts:
        """Return what a pod counts with its claims."""
        keys = {key for key in entry.uses if (found := self._counts_with.get(key)) is not None and found[0] == uid}
        return self._with(entry.own, keys, {}) if keys else entry.own

    def asked(
        self, uid: str, entry: PodAccount, own: ResourceAmounts, devices: Sequence[DeviceClaim] = ()
    ) -> ResourceAmounts:
        """Return what a pod would count if it were placed: all its claims but those of placed pods that keep them.

        ``own``: what it would count without them. ``devices``: what would be chosen for them, (): not known.
        """
        if not (entry.uses and self.names):
            return own
        keys = {key for key in filter(None, entry.uses) if _would_count(uid, entry, self._counts_with.get(key))}
        return self._with(own, keys, _chosen(entry, devices)) if keys else own

    def _with(self, own: ResourceAmounts, keys: Iterable[str], chosen: Mapping[str, DeviceClaim]) -> ResourceAmounts:
        total = Counter(dict(own))
        for key in keys:
            decided = self._pods[key].decided.values() if key in self._pods else ()
            counted = self.known.counted(key, (chosen[key],) if key in chosen else decided)
            total.update({name: amount for name, amount in counted if name in self.names})
        return tuple(sorted(total.items()))


def _would_count(uid: str, entry: PodAccount, now: tuple[str, PodAccount] | None) -> bool:
    """Return whether placing a pod makes its queue count a claim that counts with the pod ``now``, if with any."""
    if now is None or now[0] == uid or not now[1].held:
        return True
    return now[1].account is not entry.account and (entry.created, uid) < (now[1].created, now[0])


def _chosen(entry: PodAccount, devices: Sequence[DeviceClaim]) -> dict[str, DeviceClaim]:
    """Return by claim of a pod the devices that were chosen for it; ``devices`` are in the order of its claims."""
    return {key: each for key, each in zip(entry.uses, devices, strict=False) if each.results}


def _named(queue: QueueFact | None) -> set[str]:
    if queue is None:
        return set()
    return {name for part in (queue.capability, queue.deserved, queue.guarantee) for name in part if is_of_class(name)}
