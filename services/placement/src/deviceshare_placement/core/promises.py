"""Takes back what queues promised to groups that cannot start, so that other groups are admitted in their place.

A queue promises the ``minResources`` of a group when it admits it. A group whose pods are invalid, exceed the bounds of
the queue, or fit on no nodes even without other pods would keep others out for ever. (Volcano keeps the promise:
volcano-sh/volcano#5006.) Groups are examined when another group is not admitted for what was promised. Those that gave
theirs back are examined again when nodes, the configuration or they themselves change.
"""

from collections.abc import Iterable, Mapping

from deviceshare.model import GroupKey
from deviceshare.queueing import EmptyCluster

from deviceshare_placement.core.cluster_state import ClusterState
from deviceshare_placement.core.readiness import readiness
from deviceshare_placement.core.records import GroupRecord

MOST_EXAMINED = 100
"""Groups that one round examines; later rounds examine the others."""


class Promises:
    """Which groups gave back what they were promised. ``retries`` and ``now`` of methods: see :func:`readiness`."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._conf = cluster.allocator.conf
        self._empty = EmptyCluster(self._conf)
        self._version = -1
        """Of the nodes in ``_empty``."""
        self._able: set[GroupKey] = set()
        """Groups that can start on these nodes."""
        self._returned: set[GroupKey] = set()

    def holds(self, record: GroupRecord) -> bool:
        """Return whether a group, once admitted, keeps what its queue promised it."""
        return record.key not in self._returned

    def changed(self, record: GroupRecord, retries: Mapping[str, float], now: float) -> None:
        """Examine a group again that has changed, if it gave its promise back."""
        self._able.discard(record.key)
        if record.key in self._returned:
            self._update()
            if not self._cannot_start(record, retries, now):
                self._returned.discard(record.key)

    def renew(self, retries: Mapping[str, float], now: float) -> list[GroupRecord]:
        """Return the groups that can start since nodes or the configuration changed: they have their promise again."""
        self._returned &= self._cluster.groups.keys()
        if not self._returned or not self._update():
            return []
        records = [self._cluster.groups[key] for key in sorted(self._returned)]
        found = [record for record in records if not self._cannot_start(record, retries, now)]
        self._returned -= {record.key for record in found}
        return found

    def take_back(self, keys: Iterable[GroupKey], retries: Mapping[str, float], now: float) -> list[GroupRecord]:
        """Return those of these groups that cannot start: they give back what they were promised."""
        self._update()
        found = []
        left = MOST_EXAMINED
        for key in keys:
            record = self._cluster.groups.get(key)
            if record is None or not left or key in self._returned or key in self._able:
                continue
            left -= 1
            if self._cannot_start(record, retries, now):
                self._returned.add(key)
                found.append(record)
            else:
                self._able.add(key)
        return found

    def _update(self) -> bool:
        """Bring the empty nodes up to date; return whether they or the configuration changed."""
        conf, accounts = self._cluster.allocator.conf, self._cluster.accounts
        if conf is self._conf and accounts.nodes_version == self._version:
            return False
        if conf is not self._conf:
            self._conf, self._empty = conf, EmptyCluster(conf)
        self._empty.update(accounts.counting.nodes)
        self._version = accounts.nodes_version
        self._able.clear()
        return True

    def _cannot_start(self, record: GroupRecord, retries: Mapping[str, float], now: float) -> bool:
        found = readiness(self._cluster, record, retries, now)
        if found.job is None:
            return any(pod.problems for pod, _ in found.obstacles)
        accounts, group = self._cluster.accounts, found.job.group
        return not (accounts.could_have(found.job.queue, group.together) and self._empty.serves(group))
