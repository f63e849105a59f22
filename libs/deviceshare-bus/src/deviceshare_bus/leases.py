"""How the replicas of a service divide its work, by leases on LEDGER. Pure.

The work is divided into :data:`SHARES`. Each replica that takes part is a member. It renews its lease, a message that
also names the members that it knows. The owner of a share is the member with the highest rank for it, so that a change
of the members moves only the shares of those that come and go. No message says who owns what.

A member works on a share if, of all members that it knows, it owns the share, and the leases of all of them name it.
So a newcomer begins only after the former owner has stopped: a member first completes what it has in flight, and then
names the newcomer in its lease (:meth:`Membership.lease`).

A member that is not heard of for a period is fenced: a message under its fence subject ends it for ever. Each write
that is made under a lease carries the lease and expects that there is no fence, so the server
refuses what a fenced member writes late. Leases, fences and ledgers are messages of one stream, in one order: who owns
a share has read everything that its former owners have written.

Times are monotonic, in seconds.
"""

from collections.abc import Collection
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import msgspec

SHARES = 256
"""The number of parts into which work is divided. All replicas of a service must use the same one."""
PERIOD = 4.0
"""Seconds without news of a member after which another member fences it."""
RENEWALS = 4
"""How often a lease is renewed in one period."""
LEASE_SECONDS, FENCE_SECONDS = 3600.0, 7200.0
"""Seconds for which the server keeps the lease of a member that is gone, and its fence, which outlives the lease."""


class Lease(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The lease of one member.

    Args:
        v: the version of the message.
        service: the service whose work is divided.
        member: the member's id, unique for ever.
        instance: the name of the process. A new process with this name ends the leases of older ones.
        members: the other members for which this one has stopped to work on what they own, sorted.
    """

    v: int = 1
    service: str
    member: str
    instance: str
    members: tuple[str, ...] = ()


class Fence(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a member, by itself or by another one."""

    v: int = 1
    service: str
    member: str


class _Member(NamedTuple):
    lease: Lease
    heard_at: float


class Membership:
    """What one replica knows of the members, and its own part.

    Args:
        service: the service whose work is divided.
        instance: the name of the process.
        member: the id of this member; unique for ever, also over restarts of the process.
        period: seconds, see :data:`PERIOD`.
    """

    def __init__(self, service: str, instance: str, member: str, period: float = PERIOD) -> None:
        self._service = service
        self._instance = instance
        self._base, self._joins = member, 0
        self._period = period
        self._others: dict[str, _Member] = {}
        self._fenced: dict[str, float] = {}
        """Members that have ended, and when this was received, the oldest first."""
        self._join(member)

    def _join(self, member: str) -> None:
        self.member = member
        self._named: frozenset[str] = frozenset()
        """The other members that the own lease names."""
        self._renewed_at: float | None = None
        self._own_at: float | None = None
        """When the own lease was last received."""
        self._steady_since = 0.0
        """Since when the own renewals are received without a gap: until then the silence of others may be our own."""
        self._owned: frozenset[int] | None = None

    # What arrives

    def receive(self, lease: Lease, now: float) -> None:
        """Apply a lease."""
        if lease.member == self.member:
            if self._own_at is None or now - self._own_at > self._period / 2:
                self._steady_since = now
            self._own_at = now
        elif lease.member not in self._fenced:
            self._others[lease.member] = _Member(lease, now)
        self._owned = None

    def end(self, member: str, now: float) -> None:
        """Apply a fence; the own one makes this replica a new member."""
        while self._fenced and now > next(iter(self._fenced.values())) + FENCE_SECONDS:
            del self._fenced[next(iter(self._fenced))]
        self._others.pop(member, None)
        self._fenced[member] = now
        self._owned = None
        if member == self.member:
            self._joins += 1
            self._join(f"{self._base}-{self._joins}")

    # What is to be done

    @property
    def others(self) -> Collection[str]:
        """The other members that have not ended."""
        return self._others.keys()

    @property
    def joined(self) -> bool:
        """Whether the own lease was received: everything that was written before it is known."""
        return self._own_at is not None

    def owns(self, share: int) -> bool:
        """Return whether this member may work on a share now."""
        if self._owned is None:
            self._owned = self._find_owned()
        return share in self._owned

    def _find_owned(self) -> frozenset[int]:
        if not self.joined or not all(self.member in each.lease.members for each in self._others.values()):
            return frozenset()
        candidates = [(each.lease.instance, each.lease.member) for each in self._others.values()]
        own = (self._instance, self.member)
        return frozenset(
            share for share in range(SHARES) if all(_rank(share, *own) > _rank(share, *each) for each in candidates)
        )

    @property
    def outdated(self) -> bool:
        """Whether the lease names fewer or more members than there are: renew it when no write is in flight."""
        return self.joined and self._named != self._others.keys()

    def due(self) -> float:
        """Return when :meth:`lease` or :meth:`silent` has something to do without an event."""
        times = [0.0 if self._renewed_at is None else self._renewed_at + self._period / RENEWALS]
        if self.joined:
            times += (max(each.heard_at, self._steady_since) + self._period for each in self._others.values())
        return min(times)

    def renewal_due(self, now: float) -> bool:
        """Return whether the lease must be renewed."""
        return self._renewed_at is None or now >= self._renewed_at + self._period / RENEWALS

    def lease(self, now: float, *, idle: bool) -> Lease:
        """Return the own lease to write now; ``idle``: no write that was made under the lease is in flight."""
        self._renewed_at = now
        if idle and self.joined:
            self._named = frozenset(self._others)
        return Lease(
            service=self._service, member=self.member, instance=self._instance, members=tuple(sorted(self._named))
        )

    def silent(self, now: float) -> list[str]:
        """Return the members to fence: not heard of for a period, or former processes with the own name."""
        if not self.joined or self._own_at is None or now - self._own_at > self._period / 2:
            return []
        return sorted(
            member
            for member, (lease, heard_at) in self._others.items()
            if lease.instance == self._instance or now > max(heard_at, self._steady_since) + self._period
        )


@lru_cache(1 << 16)
def _rank(share: int, instance: str, member: str) -> tuple[bytes, str]:
    """Return the rank of a member for a share; a process that is started again under its name has the same one."""
    return blake2b(f"{share}/{instance}".encode(), digest_size=8).digest(), member
