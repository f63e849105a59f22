"""How the replicas of a service divide its work, by leases in the stream that the service writes. Pure.

The work is divided into :data:`SHARES`. Each replica that takes part is a member. It renews its lease, a message that
also names the members that it knows. The owner of a share is the member with the highest rank for it, so that a change
of the members moves only the shares of those that come and go. No message says who owns what.

A member works on a share if, of all members that it knows, it owns the share, and the leases of all of them name it.
So a newcomer begins only after the former owner has stopped: a member first completes what it has in flight, and then
names the newcomer in its lease (:meth:`Membership.lease`).

A member that is not heard of for a period is fenced: a message under its fence subject ends it for ever. Each write
that is made under a lease carries the lease and expects that there is no fence, so the server
refuses what a fenced member writes late. Leases, fences and what the service writes are messages of one stream, in
one order: who owns a share has read everything that its former owners have written.

A member without others renews its lease only while it has work. A newcomer is answered at once in any case.
A member works only until :data:`TRUSTED` of a period after it sent the last of its leases that it has received: from
then on it may have been fenced.

Times are monotonic, in seconds.
"""

from collections.abc import Collection
from functools import lru_cache
from hashlib import blake2b
from math import inf
from typing import NamedTuple

import msgspec
from deviceshare.model import Amount

SHARES = 256
"""The number of parts into which work is divided. All replicas of a service must use the same one."""
PERIOD = 4.0
"""Seconds without news of a member after which another member fences it."""
RENEWALS = 4
"""How often a lease is renewed in one period."""
TRUSTED = 0.75
"""The part of a period, from the sending of a lease that was received, for which a member works."""
MOST_SENT = 64
"""Renewals of which the time is remembered."""
MOST_MEMBERS, MOST_FENCED = 256, 10_000
"""Other members, and members that have ended, that are remembered; leases of further members are ignored."""
MOST_SPLIT = 1000
"""Parts of the work that may be divided further."""
LEASE_SECONDS, FENCE_SECONDS = 3600.0, 7200.0
"""Seconds for which the server keeps the lease of a member that is gone, and its fence, which outlives the lease."""


class Lease(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The lease of one member.

    Args:
        v: the version of the message.
        service: the service whose work is divided.
        member: the member's id, unique for ever.
        instance: the name of the process. A new process with this name ends the leases of older ones.
        number: counts the renewals of the member.
        members: the other members for which this one has stopped to work on what they own, sorted.
        split: parts of the work that are divided further, sorted. It only grows, and members repeat those of others.
    """

    v: int = 1
    service: str
    member: str
    instance: str
    number: Amount = 0
    members: tuple[str, ...] = ()
    split: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What the subject names."""
        return f"{self.service}.{self.member}"


class Fence(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a member, by itself or by another one."""

    v: int = 1
    service: str
    member: str

    @property
    def key(self) -> str:
        """What the subject names."""
        return f"{self.service}.{self.member}"


decode_lease = msgspec.msgpack.Decoder(Lease).decode
decode_fence = msgspec.msgpack.Decoder(Fence).decode


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
        self._split: set[str] = set()
        """What members have announced to be divided further."""
        self._join(member)

    def _join(self, member: str) -> None:
        self.member = member
        self._named: frozenset[str] = frozenset()
        """The other members that the own lease names."""
        self._renewed_at: float | None = None
        self._own_at: float | None = None
        """When the own lease was last received."""
        self._number = 0
        self._sent: dict[int, float] = {}
        """When the renewals were sent that were not received yet, by number, and the last one that was."""
        self._trusted_until = -inf
        self._checked_at = -inf
        """When :meth:`silent` was asked last."""
        self.ending = False
        """Whether this member has written its own fence, and has not received it yet."""
        self._to_split: set[str] = set()
        """What to announce as divided further, with the next lease that is written without writes in flight."""
        self._steady_since = 0.0
        """Since when the own renewals are received without a gap: until then the silence of others may be our own."""
        self._owned: frozenset[int] | None = None

    # What arrives

    def receive(self, lease: Lease, now: float) -> bool:
        """Apply a lease; return whether it may change who owns what."""
        before = self._others.get(lease.member)
        divided = len(self._split)
        self._split.update(lease.split[: MOST_SPLIT - divided])
        changed = divided != len(self._split)
        if lease.member == self.member:
            changed = changed or not self.joined
            if self._own_at is None or now - self._own_at > self._period / 2:
                self._steady_since = now
            self._own_at = now
            self._receive_own(lease.number)
        elif before is not None and lease.number < before.lease.number:
            pass  # it was delayed: a newer one has arrived
        elif lease.member not in self._fenced and (before is not None or len(self._others) < MOST_MEMBERS):
            self._others[lease.member] = _Member(lease, now)
            changed = changed or before is None or before.lease.members != lease.members
        if changed:
            self._owned = None
        return changed

    def _receive_own(self, number: int) -> None:
        sent_at = self._sent.get(number)
        if sent_at is not None:
            self._trusted_until = max(self._trusted_until, sent_at + self._period * TRUSTED)
        for each in [each for each in self._sent if each < number]:
            del self._sent[each]

    def end(self, member: str, now: float) -> None:
        """Apply a fence; the own one makes this replica a new member, after a period if another one wrote it."""
        oldest = next(iter(self._fenced), None)
        if oldest is not None and (now > self._fenced[oldest] + FENCE_SECONDS or len(self._fenced) >= MOST_FENCED):
            del self._fenced[oldest]
        self._others.pop(member, None)
        self._fenced[member] = now
        self._owned = None
        if member == self.member:
            by_itself = self.ending
            self._joins += 1
            while f"{self._base}-{self._joins}" in self._fenced:
                self._joins += 1
            self._join(f"{self._base}-{self._joins}")
            if not by_itself:
                # Not at once: of two processes with one name each would end the other without a pause.
                self._renewed_at = now + self._period * (1 - 1 / RENEWALS)

    # What is to be done

    @property
    def others(self) -> Collection[str]:
        """The other members that have not ended."""
        return self._others.keys()

    @property
    def joined(self) -> bool:
        """Whether the own lease was received: everything that was written before it is known."""
        return self._own_at is not None

    @property
    def steady(self) -> bool:
        """Whether all members that this one knows name one another, as far as it can see: each share has an owner."""
        return (
            self.joined
            and not self.ending
            and self._named == self._others.keys()
            and all(self.member in each.lease.members for each in self._others.values())
        )

    @property
    def position(self) -> float:
        """The position of this member among all that it knows, in the order of their ids: from 0 up to 1."""
        return sum(member < self.member for member in self._others) / (len(self._others) + 1)

    def end_own(self) -> Fence:
        """Return the fence of this member, which does no work from now on, and joins again when it has received it."""
        self.ending = True
        self._owned = None
        return Fence(service=self._service, member=self.member)

    def is_trusted(self, now: float) -> bool:
        """Return whether this member may work now: no other member can have fenced it yet."""
        return now < self._trusted_until and not self.ending

    def divide(self, part: str) -> None:
        """Divide a part of the work further, from the next lease on."""
        if part not in self._split and len(self._split) + len(self._to_split) < MOST_SPLIT:
            self._to_split.add(part)

    def is_split(self, part: str) -> bool:
        """Return whether a part of the work is divided further; its owner respects this before it announces it."""
        return part in self._split or part in self._to_split

    def owns(self, share: int) -> bool:
        """Return whether this member is the one that may work on a share, while it is trusted."""
        if self._owned is None:
            self._owned = self._find_owned()
        return share in self._owned

    def _find_owned(self) -> frozenset[int]:
        named = all(self.member in each.lease.members for each in self._others.values())
        if self.ending or not self.joined or not named:
            return frozenset()
        candidates = [(each.lease.instance, each.lease.member) for each in self._others.values()]
        own = (self._instance, self.member)
        return frozenset(
            share for share in range(SHARES) if all(_rank(share, *own) > _rank(share, *each) for each in candidates)
        )

    @property
    def outdated(self) -> bool:
        """Whether the lease lacks something that is to be announced: renew it when no write is in flight."""
        return self.joined and (self._named != self._others.keys() or bool(self._to_split))

    def _renewal(self, *, active: bool) -> float:
        if self._renewed_at is None:
            return 0.0
        watched = active or self._others or not self.joined
        return self._renewed_at + (self._period if watched else LEASE_SECONDS) / RENEWALS

    def due(self, *, active: bool = True) -> float:
        """Return when :meth:`lease` or :meth:`silent` has something to do without an event.

        ``active``: this member has work that it may do only under its lease.
        """
        times = [self._renewal(active=active)]
        if self.joined:
            # What was due at the last check, and is due again, waits for the own lease: its arrival is an event.
            ends = (max(each.heard_at, self._steady_since) + self._period for each in self._others.values())
            times += (end for end in ends if end > self._checked_at)
        return min(times)

    def renewal_due(self, now: float, *, active: bool = True) -> bool:
        """Return whether the lease must be renewed; ``active`` as in :meth:`due`."""
        return now >= self._renewal(active=active)

    def lease(self, now: float, *, idle: bool) -> Lease:
        """Return the own lease to write now; ``idle``: no write that was made under the lease is in flight."""
        self._renewed_at = now
        self._number += 1
        self._sent[self._number] = now
        if len(self._sent) > MOST_SENT:
            del self._sent[next(iter(self._sent))]
        if idle and self.joined:
            self._named = frozenset(self._others)
            self._split |= self._to_split
            self._to_split.clear()
        return self.current

    @property
    def current(self) -> Lease:
        """The own lease as it was written last."""
        return Lease(
            service=self._service,
            member=self.member,
            instance=self._instance,
            number=self._number,
            members=tuple(sorted(self._named)),
            split=tuple(sorted(self._split)),
        )

    def silent(self, now: float) -> list[str]:
        """Return the members to fence: not heard of for a period, or former processes with the own name."""
        self._checked_at = now
        if not self.joined or self._own_at is None or now - self._own_at > self._period / 2:
            return []
        return sorted(
            member
            for member, (lease, heard_at) in self._others.items()
            if lease.instance == self._instance or now >= max(heard_at, self._steady_since) + self._period
        )


@lru_cache(1 << 16)
def _rank(share: int, instance: str, member: str) -> tuple[bytes, str]:
    """Return the rank of a member for a share; a process that is started again under its name has the same one."""
    return blake2b(f"{share}/{instance}".encode(), digest_size=8).digest(), member
