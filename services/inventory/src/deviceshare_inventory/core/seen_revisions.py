"""The revisions that the watch delivered, for the comparison with the cluster's: it finds changes that a watch lost.

A change that the list has and the watch has not delivered may be on its way: it counts as lost if it is still missing
some seconds later, or as soon as the watch has delivered a newer change of the kind, since a watch delivers the changes
of a kind in order.
"""

from collections import defaultdict
from collections.abc import Mapping

from deviceshare_cluster.interface import Change, ChangeType, Revisions

Place = tuple[str, str]
"""Namespace and name."""


class SeenRevisions:
    """The objects of each kind, and the revision of each that the watch delivered."""

    def __init__(self) -> None:
        self._revisions: defaultdict[str, dict[Place, int]] = defaultdict(dict)
        self._deleted: defaultdict[str, set[Place]] = defaultdict(set)
        """Objects deleted since the comparison began."""
        self._newest: defaultdict[str, int] = defaultdict(int)
        """The newest revision of each kind that the watch delivered."""

    def begin_list(self) -> None:
        """Forget everything: all objects will be delivered again."""
        self._revisions.clear()
        self._newest.clear()

    def apply(self, change: Change) -> None:
        """Record a change that the watch delivered."""
        place = (change.namespace, change.name)
        self._newest[change.kind] = max(self._newest[change.kind], change.revision)
        if change.type is ChangeType.DELETED:
            self._revisions[change.kind].pop(place, None)
            self._deleted[change.kind].add(place)
        else:
            self._revisions[change.kind][place] = change.revision

    def begin_comparison(self, kind: str) -> int:
        """Return the newest revision of a kind that the watch delivered; request the list afterwards."""
        self._deleted[kind].clear()
        return self._newest[kind]

    def behind(self, kind: str, listed: Revisions, since: int) -> dict[Place, int]:
        """Return the objects that differ: the revision in the list, 0 for an object that is not in it.

        ``since`` is the result of :meth:`begin_comparison`.
        """
        seen, until = self._revisions[kind], min(since, listed.at)
        behind = {place: revision for place, revision in listed.found.items() if seen.get(place, 0) < revision}
        behind |= {place: 0 for place, revision in seen.items() if place not in listed.found and revision <= until}
        return {place: revision for place, revision in behind.items() if place not in self._deleted[kind]}

    def may_arrive(self, kind: str, behind: Mapping[Place, int], at: int) -> bool:
        """Return whether a change in ``behind`` may be on its way; ``at`` is the list's revision."""
        return any(self._newest[kind] < (revision or at) for revision in behind.values())

    def lost(self, kind: str, behind: Mapping[Place, int]) -> list[Place]:
        """Return the objects in ``behind`` whose change the watch has not delivered since."""
        seen = self._revisions[kind]
        return [
            place
            for place, revision in behind.items()
            if place not in self._deleted[kind] and (seen.get(place, 0) < revision if revision else place in seen)
        ]
