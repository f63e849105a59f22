"""Which groups a scheduler decides, where several share a cluster."""

from typing import Protocol

from deviceshare.scheduler.records import GroupRecord


class Ownership(Protocol):
    """Says which groups a scheduler decides and explains; all replicas together own every group once."""

    def owns(self, group: GroupRecord) -> bool:
        """Return whether this scheduler decides a group now."""
        ...

    def will_own(self, group: GroupRecord) -> bool:
        """Return whether it decides a group now or soon, and no other one does meanwhile."""
        ...


class _Everything:
    """The ownership of a scheduler without others."""

    def owns(self, group: GroupRecord) -> bool:
        return True

    will_own = owns


EVERYTHING: Ownership = _Everything()
"""Every group: there is one scheduler."""
