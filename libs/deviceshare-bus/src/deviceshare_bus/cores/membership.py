"""How the replicas of a service divide its work, by leases in the stream that the service writes. Pure.

The work is divided into :data:`deviceshare_bus.messages.leases.SHARDS`. Each replica that takes part is a member. It
renews its lease, a message that also names the members that it knows. The owner of a shard is the member with the
highest rank for it, so that a change of the members moves only the shards of those that come and go. No message says
who owns what.

A member works on a shard if, of all members that it knows, it owns the shard, and the leases of all of them name it.
So a newcomer begins only after the former owner has stopped: a member first completes what it has in flight, and then
names the newcomer in its lease (:meth:`Membership.lease`).

A member that is not heard of for a period is fenced: a message under its fence subject ends it for ever. Each write
that is made under a lease carries the lease and expects that there is no fence, so the server
refuses what a fenced member writes late. Leases, fences and what the service writes are messages of one stream, in
one order: who owns a shard has read everything that its former owners have written.

A member without others renews its lease only while it has work. A newcomer is answered at once in any case.
A member works only until :data:`deviceshare_bus.messages.leases.TRUSTED` of a period after it sent the last of its
leases that it has received: from then on it may have been fenced.

Who owns what may follow from facts of another stream, which members read at different times. So a lease says how far
its member had read them when it had no writes in flight: who becomes an owner by a fact waits until the leases of all
others show that they have read it (:meth:`Membership.least_read`).

A member that renews its lease and never names another one stops what the other one owns. It is reported, and fenced
after :data:`deviceshare_bus.messages.leases.NAMING` periods. A member that others fence again and again pauses longer
each time.

Times are monotonic, in seconds.
"""

from collections.abc import Collection, Iterable
from math import inf
from typing import NamedTuple

from deviceshare_bus.cores.splits import Splits
from deviceshare_bus.messages.leases import (
    FENCE_SECONDS,
    LEASE_SECONDS,
    MAX_FENCED,
    MAX_MEMBERS,
    MAX_PAUSE,
    MAX_SENT,
    NAMING,
    NAMING_REPORTED,
    PERIOD,
    RENEWALS,
    SHARDS,
    STEADY,
    TRUSTED,
    Fence,
    Lease,
    rank,
    ranks_of,
    shard_of,
)


class _Member(NamedTuple):
    lease: Lease
    heard_at: float
    unnamed_since: float | None
    """Since when its leases do not name this member, None if they do."""
    read_at_naming: int | None
    """What its first lease that named this member said it had read; None before, and if this member was there first."""


class Membership:
    """What one replica knows of the members, and its own part.

    Args:
        service: the service whose work is divided.
        instance: the name of the process.
        member: the id of this member; unique for ever, also over restarts of the process.
        period: seconds, see :data:`deviceshare_bus.messages.leases.PERIOD`.
    """

    def __init__(self, service: str, instance: str, member: str, period: float = PERIOD) -> None:
        self._service = service
        self._instance = instance
        self._base, self._joins = member, 0
        self._period = period
        self._others: dict[str, _Member] = {}
        self._fenced: dict[str, float] = {}
        """Members that have ended, and when this was received, the oldest first."""
        self._ends = 0
        """How often in a row others have fenced this replica."""
        self.pause = 0.0
        """Seconds for which it pauses after the last fence of others."""
        self.position_read = 0
        """The sequence up to which the facts have been read by which the work is divided."""
        self._read_needed = 0
        """The sequence of the last such fact that changed who owns what."""
        self._join(member)

    def _join(self, member: str) -> None:
        self.member = member
        self.splits = Splits()
        """The parts that are divided further."""
        self._read = self.position_read
        """What the own lease says of the facts. It names no member before all earlier writes have ended."""
        self._current: Lease | None = None
        self._joined_at = inf
        self._before: frozenset[str] = frozenset()
        """The members that were there when this one joined."""
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
        self._steady_since = 0.0
        """Since when the own renewals are received without a gap: until then the silence of others may be our own."""
        self._owned: frozenset[int] | None = None

    # What arrives

    def receive(self, lease: Lease, now: float) -> bool:
        """Apply a lease; return whether it may change who owns what."""
        before = self._others.get(lease.member)
        changed = False
        if lease.member == self.member:
            changed = not self.joined
            changed = self.splits.received(lease.number) or changed
            if not self.joined:
                self._joined_at, self._before = now, frozenset(self._others)
            if self._own_at is None or now - self._own_at > self._period / 2:
                self._steady_since = now
            self._own_at = now
            self._receive_own(lease.number)
        elif before is not None and lease.number < before.lease.number:
            pass  # it was delayed: a newer one has arrived
        elif lease.member not in self._fenced and (before is not None or len(self._others) < MAX_MEMBERS):
            least = self.least_read
            self._others[lease.member] = self._noted(lease, before, now)
            changed = before is None or before.lease.members != lease.members or before.lease.split != lease.split
            changed = changed or least < self._read_needed <= self.least_read
        if changed:
            self._changed()
        return changed

    def _noted(self, lease: Lease, before: _Member | None, now: float) -> _Member:
        named = self.member in lease.members
        since = before.unnamed_since if before is not None and before.unnamed_since is not None else now
        read = before.read_at_naming if before is not None else None
        if named and read is None and lease.member in self._before:
            read = lease.read
        return _Member(lease, now, None if named else since, read)

    def _changed(self) -> None:
        """Find again what this member owns, and what is divided further."""
        self._owned = None
        if not self.joined:
            self.splits.adopt(part for each in self._others.values() for part in each.lease.split)
        self.splits.follow(self._owner_names, (part for each in self._others.values() for part in each.lease.split))

    def _receive_own(self, number: int) -> None:
        sent_at = self._sent.get(number)
        if sent_at is not None:
            self._trusted_until = max(self._trusted_until, sent_at + self._period * TRUSTED)
        for each in [each for each in self._sent if each < number]:
            del self._sent[each]

    def end(self, member: str, now: float) -> None:
        """Apply a fence; the own one makes this replica a new member, after a period if another one wrote it."""
        oldest = next(iter(self._fenced), None)
        if oldest is not None and (now > self._fenced[oldest] + FENCE_SECONDS or len(self._fenced) >= MAX_FENCED):
            del self._fenced[oldest]
        self._others.pop(member, None)
        self._fenced[member] = now
        if member == self.member:
            by_itself, joined_at = self.ending, self._joined_at
            self._joins += 1
            while f"{self._base}-{self._joins}" in self._fenced:
                self._joins += 1
            self._join(f"{self._base}-{self._joins}")
            if not by_itself:
                # Not at once: of two processes with one name each would end the other without a pause.
                self._ends = 0 if now > joined_at + STEADY * self._period else self._ends
                self.pause = self._period * min(MAX_PAUSE, 2**self._ends)
                self._ends = min(self._ends + 1, MAX_PAUSE)
                self._renewed_at = now + self.pause - self._period / RENEWALS
        self._changed()

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
        """Whether all members that this one knows name one another, as far as it can see: each shard has an owner."""
        return (
            self.joined
            and not self.ending
            and self._named == self._others.keys()
            and all(self.member in each.lease.members for each in self._others.values())
        )

    def level(self, shard: int) -> int:
        """Return how many other members have a higher rank for a shard."""
        own = rank(shard, self._instance, self.member)
        return sum(rank(shard, each.lease.instance, member) > own for member, each in self._others.items())

    def end_own(self) -> Fence:
        """Return the fence of this member, which does no work from now on, and joins again when it has received it."""
        self.ending = True
        self._owned = None
        return Fence(service=self._service, member=self.member)

    def is_trusted(self, now: float) -> bool:
        """Return whether this member may work now: no other member can have fenced it yet."""
        return now < self._trusted_until and not self.ending

    @property
    def namesake(self) -> bool:
        """Whether another member has the name of this process."""
        return any(each.lease.instance == self._instance for each in self._others.values())

    # Facts by which the work is divided

    @property
    def least_read(self) -> float:
        """The sequence of facts up to which all other members have read them; what they begin, they begin with it."""
        return min((each.lease.read for each in self._others.values()), default=inf)

    def need_read(self, sequence: int) -> None:
        """Announce that a fact was read that changes who owns what."""
        self._read_needed = max(self._read_needed, sequence)

    def answers_for(self, shard: int, sequence: int) -> bool | None:
        """Return whether this member, and no other one, reports what a fact says about a part of the work.

        A member answers for what it owns until it has named a newcomer, which answers for all later facts. None: it is
        to be asked again, since this member is a newcomer that is not named yet.
        """
        if not self.joined or self.ending:
            return None
        first = self._first(shard, self._others)
        if first is None and any(each.unnamed_since is not None for each in self._others.values()):
            return None
        if first is not None:
            # A newcomer that is not named yet does not answer.
            newcomer = first not in self._named and first not in self._before
            return newcomer and self._first(shard, self._named) is None
        former = self._first(shard, self._others, without_own=True)
        read = None if former is None else self._others[former].read_at_naming
        return read is None or sequence > read

    def _first(self, shard: int, members: Collection[str], *, without_own: bool = False) -> str | None:
        """Return the member with the highest rank for a shard; None for this one, or if there are no others."""
        found = {rank(shard, self._others[each].lease.instance, each): each for each in members if each in self._others}
        own = rank(shard, self._instance, self.member)
        if not found or (max(found) < own and not without_own):
            return None
        return found[max(found)]

    # Parts that are divided further

    def divide(self, part: str) -> None:
        """Divide a part of the work further that this member owns, from the next lease on."""
        self.splits.divide(part)

    def merge(self, part: str) -> None:
        """Divide a part of the work no more that this member owns, from the next leases of all members on."""
        self.splits.merge(part)

    def is_split(self, part: str) -> bool:
        """Return whether this member works on a part only by a smaller key."""
        by_others = any(part in each.lease.split for each in self._others.values())
        return self.splits.works_by_key(part, named=self._owner_names(part), by_others=by_others)

    def _owner_names(self, part: str) -> bool | None:
        """Return whether the lease of a part's owner names it as divided; None if this member is the owner."""
        owner = self._first(shard_of(part), self._others)
        return None if owner is None else part in self._others[owner].lease.split

    # What is to be done

    def owns(self, shard: int) -> bool:
        """Return whether this member is the one that may work on a shard, while it is trusted."""
        if self._owned is None:
            self._owned = self._find_owned()
        return shard in self._owned

    def _find_owned(self) -> frozenset[int]:
        named = all(self.member in each.lease.members for each in self._others.values())
        if self.ending or not self.joined or not named:
            return frozenset()
        owned: Iterable[int] = range(SHARDS)
        own = ranks_of(self._instance)
        for each in self._others.values():
            theirs, precedes = ranks_of(each.lease.instance), self.member > each.lease.member
            owned = [n for n in owned if own[n] > theirs[n] or (precedes and own[n] == theirs[n])]
        return frozenset(owned)

    @property
    def outdated(self) -> bool:
        """Whether the lease lacks something that is to be announced: renew it when no write is in flight."""
        if not self.joined or not self._others:
            return False
        return self._named != self._others.keys() or self.splits.outdated or self._read < self._read_needed

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
            unnamed = (each.unnamed_since for each in self._others.values() if each.unnamed_since is not None)
            reports = (self._could_name_since(since) + self._period * NAMING_REPORTED for since in unnamed)
            times += (at for at in reports if at > self._checked_at)
        return min(times)

    def renewal_due(self, now: float, *, active: bool = True) -> bool:
        """Return whether the lease must be renewed; ``active`` as in :meth:`due`."""
        return now >= self._renewal(active=active)

    def lease(self, now: float, *, idle: bool) -> Lease:
        """Return the own lease to write now; ``idle``: no write is in flight for what another member may own."""
        self._renewed_at = now
        self._number += 1
        self._sent[self._number] = now
        if len(self._sent) > MAX_SENT:
            del self._sent[next(iter(self._sent))]
        if idle:
            self._named = frozenset(self._others) if self.joined else self._named
            self.splits.announce()
            self._read = self.position_read
        self.splits.sent(self._number)
        self._current = Lease(
            service=self._service,
            member=self.member,
            instance=self._instance,
            number=self._number,
            members=tuple(sorted(self._named)),
            split=self.splits.announced,
            read=self._read,
        )
        return self._current

    @property
    def current(self) -> Lease:
        """The own lease as it was written last."""
        assert self._current is not None, "there is no lease yet"
        return self._current

    def silent(self, now: float) -> list[str]:
        """Return the members to fence: not heard of for a period, or former processes with the own name."""
        self._checked_at = now
        if not self.joined or self._own_at is None or now - self._own_at > self._period / 2:
            return []
        return sorted(
            member
            for member, each in self._others.items()
            if each.lease.instance == self._instance
            or now >= max(each.heard_at, self._steady_since) + self._period
            or self._unnamed_for(each, now) >= NAMING * self._period
        )

    def _unnamed_for(self, other: _Member, now: float) -> float:
        """Return for how many seconds a member has not named this one, though it could."""
        return 0.0 if other.unnamed_since is None else now - self._could_name_since(other.unnamed_since)

    def _could_name_since(self, unnamed_since: float) -> float:
        """Return since when a member could have named this one: not during an outage of the bus."""
        return max(unnamed_since, self._joined_at, self._steady_since)

    def unnaming(self, now: float) -> list[str]:
        """Return the members that have not named this one for so long that it is to be reported, sorted."""
        bound = NAMING_REPORTED * self._period
        return sorted(member for member, each in self._others.items() if self._unnamed_for(each, now) >= bound)
