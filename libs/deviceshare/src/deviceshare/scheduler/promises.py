"""Takes back what queues promised to groups that cannot start, so that other groups are admitted in their place.

A queue promises the ``minResources`` of a group when it admits it. A group whose pods are invalid, exceed the bounds of
the queue, or fit on no nodes even without other pods would keep others out for ever. (Volcano keeps the promise:
volcano-sh/volcano#5006.) Groups are examined when another group is not admitted for what was promised. Those that gave
theirs back are examined again when nodes, the configuration or they themselves change. A round examines a bounded
number, those first that were not examined for longest; the next round, which is due at once, continues.
"""

from collections.abc import Iterable, Mapping

from deviceshare.model import GroupKey
from deviceshare.queueing import EmptyCluster
from deviceshare.scheduler.cluster_state import ClusterState
from deviceshare.scheduler.explaining import describe
from deviceshare.scheduler.readiness import readiness
from deviceshare.scheduler.records import GroupRecord

MAX_EXAMINED = 100
"""Groups that one round examines; at most half of them have given their promise back."""
_EVEN_ALONE = "it cannot start even if there are no other pods"
_CHANGED = -1
"""In place of the version at which a group was examined: it has changed since."""


class Promises:
    """Which groups gave back what they were promised. ``retries`` and ``now`` of methods: see :func:`readiness`."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._conf = cluster.allocator.conf
        self._empty = EmptyCluster(self._conf)
        self._nodes_version = -1
        """Of the nodes in ``_empty``."""
        self._version = 0
        """Incremented when ``_empty`` changes."""
        self._able: dict[GroupKey, int] = {}
        """Promised groups that could start, by the version at which they were examined."""
        self._returned: dict[GroupKey, int] = {}
        """Groups that could not, and gave their promise back, in the same way."""
        self._left = MAX_EXAMINED
        """Groups that this round may still examine."""
        self.unfinished = False
        """Whether there are groups to examine that the last round has left."""

    def holds(self, record: GroupRecord) -> bool:
        """Return whether a group, once admitted, keeps what its queue promised it."""
        return record.key not in self._returned

    def changed(self, record: GroupRecord) -> None:
        """Note that a group has changed, so that it is examined again."""
        self._able.pop(record.key, None)
        if record.key in self._returned:
            self._returned[record.key] = _CHANGED
            self.unfinished = True

    def renew(self, retries: Mapping[str, float], now: float) -> list[GroupRecord]:
        """Begin a round; return groups that can start since something changed: they have their promise again."""
        self._left, self.unfinished = MAX_EXAMINED, False
        if not self._returned:
            return []
        self._update()
        groups = self._cluster.groups
        self._returned = {key: version for key, version in self._returned.items() if key in groups}
        able, _ = self._examine(self._returned, self._returned, MAX_EXAMINED // 2, retries, now)
        return able

    def take_back(
        self, keys: Iterable[GroupKey], retries: Mapping[str, float], now: float
    ) -> list[tuple[GroupRecord, str]]:
        """Return those of the promised groups ``keys`` that cannot start, and why.

        They give back what they were promised.
        """
        self._update()
        promised = [key for key in keys if key in self._cluster.groups and key not in self._returned]
        self._able = {key: self._able[key] for key in promised if key in self._able}
        _, unable = self._examine(promised, self._able, self._left, retries, now)
        return unable

    def _examine(
        self,
        keys: Iterable[GroupKey],
        versions: Mapping[GroupKey, int],
        most: int,
        retries: Mapping[str, float],
        now: float,
    ) -> tuple[list[GroupRecord], list[tuple[GroupRecord, str]]]:
        """Examine at most so many of these groups that were not examined at this version.

        Returns those that can start, and those that cannot, with the reason.
        """
        outdated = [key for key in keys if versions.get(key, _CHANGED) != self._version]
        outdated.sort(key=lambda key: versions.get(key, _CHANGED))
        able: list[GroupRecord] = []
        unable: list[tuple[GroupRecord, str]] = []
        for key in outdated[:most]:
            record = self._cluster.groups[key]
            obstacle = self._obstacle(record, retries, now)
            now_in, before = (self._returned, self._able) if obstacle else (self._able, self._returned)
            before.pop(key, None)
            now_in[key] = self._version
            if obstacle:
                unable.append((record, obstacle))
            else:
                able.append(record)
        self._left -= len(outdated[:most])
        self.unfinished |= len(outdated) > most
        return able, unable

    def _update(self) -> None:
        """Bring the empty nodes up to date."""
        conf, accounts = self._cluster.allocator.conf, self._cluster.accounts
        if conf is self._conf and accounts.nodes_version == self._nodes_version:
            return
        if conf is not self._conf:
            self._conf, self._empty = conf, EmptyCluster(conf)
            self._version += 1
        self._nodes_version = accounts.nodes_version
        if self._empty.update(accounts.counting.nodes):
            self._version += 1

    def _obstacle(self, record: GroupRecord, retries: Mapping[str, float], now: float) -> str:
        """Return why a group cannot start whichever pods end, '' if it can."""
        if not self._conf.extensions.promise_return:
            return ""
        found = readiness(self._cluster, record, retries, now)
        if found.job is None:
            return next((obstacle.text for pod, obstacle in found.obstacles if pod.problems), "")
        group = found.job.group
        if (excess := self._cluster.accounts.excess(found.job.queue, group.together)) is not None:
            return f"{_EVEN_ALONE}: {excess}"
        if self._empty.serves(group):
            return ""
        pod, why = self._empty.why_not(group) or (None, None)
        return f"{_EVEN_ALONE}: {describe(why, f'Pod {pod.ref}')}" if pod is not None else _EVEN_ALONE
