"""What the watch has brought, to be compared with what the cluster lists: a watch that loses changes says nothing.

Pure. Only what the watch must have brought counts: what is newer than a list may be on its way, so what differs is
looked at again some seconds later; at once where the watch has brought something of the kind that is newer still, since
it brings the changes of a kind in order.
"""

from collections import defaultdict
from collections.abc import Mapping

from deviceshare_cluster.interface import Change, ChangeType, Revisions

Place = tuple[str, str]
"""Namespace and name."""


class Seen:
    """The objects of each kind, and the revision of each as the watch brought it."""

    def __init__(self) -> None:
        self._there: defaultdict[str, dict[Place, int]] = defaultdict(dict)
        self._gone: defaultdict[str, set[Place]] = defaultdict(set)
        """What went since the comparison began."""
        self._newest: defaultdict[str, int] = defaultdict(int)
        """The newest revision of each kind."""

    def begin_list(self) -> None:
        """Forget everything: all that exists will come again."""
        self._there.clear()
        self._newest.clear()

    def apply(self, change: Change) -> None:
        """Take what the watch brings."""
        place = (change.namespace, change.name)
        self._newest[change.kind] = max(self._newest[change.kind], change.revision)
        if change.type is ChangeType.DELETED:
            self._there[change.kind].pop(place, None)
            self._gone[change.kind].add(place)
        else:
            self._there[change.kind][place] = change.revision

    def begin_comparison(self, kind: str) -> int:
        """Return the newest revision that the watch has brought of a kind; the list has to be asked for after it."""
        self._gone[kind].clear()
        return self._newest[kind]

    def behind(self, kind: str, listed: Revisions, since: int) -> dict[Place, int]:
        """Return what the list has otherwise: the revision that is there, 0 for what is there no more.

        ``since`` is what :meth:`begin_comparison` returned before the list was asked for.
        """
        seen, until = self._there[kind], min(since, listed.at)
        behind = {place: revision for place, revision in listed.found.items() if seen.get(place, 0) < revision}
        behind |= {place: 0 for place, revision in seen.items() if place not in listed.found and revision <= until}
        return {place: revision for place, revision in behind.items() if place not in self._gone[kind]}

    def may_come(self, kind: str, behind: Mapping[Place, int], at: int) -> bool:
        """Return whether some of that may still be on its way; ``at`` is the list's revision."""
        return any(self._newest[kind] < (revision or at) for revision in behind.values())

    def lost(self, kind: str, behind: Mapping[Place, int]) -> list[Place]:
        """Return what of that the watch has not brought since."""
        seen = self._there[kind]
        return [
            place
            for place, revision in behind.items()
            if place not in self._gone[kind] and (seen.get(place, 0) < revision if revision else place in seen)
        ]
