"""The members among which the work of a service is divided, and what each of them owns. Pure.

docs/scaling.md states the idea. What a member works by is in its lease: the other members, the parts that are divided
further, and how far it has read the facts that decide what belongs together. It announces a change when nothing is in
flight that it began before. A member owns a shard if it has the highest rank for it among all members that it knows,
and the leases of all others name it.

Leases, fences and what the service writes are messages of one stream, in one order: who owns a shard has read what its
former owners have written. A member works until :data:`deviceshare_bus.messages.leases.TRUSTED` of a period after it
sent the last of its leases that it has received: from then on it may have been fenced.

Times are monotonic, in seconds.
"""

from collections.abc import Collection
from math import inf
from typing import NamedTuple

from msgspec.structs import replace

from deviceshare_bus.messages.leases import (
    FENCE_SECONDS,
    LEASE_SECONDS,
    MAX_FENCED,
    MAX_MEMBERS,
    MAX_PAUSE,
    MAX_SENT,
    MAX_SPLIT,
    NAMING,
    NAMING_REPORTED,
    PERIOD,
    RENEWALS,
    STEADY,
    TRUSTED,
    Fence,
    Lease,
    rank,
    shard_of,
)


class _Other(NamedTuple):
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
        member: the id of this member; unique for ever, also over restarts of the process. '' for one that is alone by
            construction: it owns everything, and writes no leases.
        period: seconds, see :data:`deviceshare_bus.messages.leases.PERIOD`.
    """

    def __init__(self, service: str, instance: str, member: str, period: float = PERIOD) -> None:
        self.service, self.instance, self.period = service, instance, period
        self._base, self._joins = member, 0
        self._others: dict[str, _Other] = {}
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
        self.least_read: float = inf
        """The sequence of facts up to which all other members have read them; what they begin, they begin with it."""
        self._join(member)
        self.changed = False
        """Whether the part of this member may be another one; the caller clears it."""

    def _join(self, member: str) -> None:
        self.member = member
        self.current = Lease(service=self.service, member=member, instance=self.instance, read=self.position_read)
        """The own lease as it was written last; it names no member before all earlier writes have ended."""
        self._before: frozenset[str] = frozenset()
        """The members that were there when this one joined."""
        self._joined_at = inf
        self._renewed_at: float | None = None
        self._received_at = None if member else 0.0
        """When the own lease was last received."""
        self._trusted_until = -inf if member else inf
        self._received = 0
        """The number of the own lease that was received last."""
        self._sent: dict[int, float] = {}
        """When the renewals were sent that were not received yet, by number, and the last one that was."""
        self._checked_at = -inf
        """When :meth:`silent` was asked last."""
        self.ending = False
        """Whether this member has written its own fence, and has not received it yet."""
        self._steady_since = 0.0
        """Since when the own renewals are received without a gap: until then the silence of others may be our own."""
        self.divided: set[str] = set()
        """Parts on which this member works only by the smaller key, or not at all."""
        self._divided_since: dict[str, int] = {}
        """The number of the own lease from which on such a part has been named without a gap."""
        self._divided_last: dict[str, int] = {}
        """The number of the last own lease that named a part, until a later one is received that does not."""
        self._refresh()

    def _refresh(self) -> None:
        """Find again what this member owns, and what is divided further: the owner of a part decides."""
        self.changed = True
        self._owned: dict[int, bool] = {}
        self._split: dict[str, bool] = {}
        """Which shards this member owns, and which parts are divided further, as far as asked."""
        announced = {part for each in self._others.values() for part in each.lease.split}
        if not self.joined:
            for part in announced:  # it may own some of it soon
                self._follow(part, divided=True)
        for part in announced | self.divided:
            named = self._owner_names(part)
            if named is not None:
                self._follow(part, divided=named)

    def _follow(self, part: str, *, divided: bool) -> None:
        if not divided:
            self.divided.discard(part)
            self._divided_since.pop(part, None)
        elif len(self.divided) < MAX_SPLIT:
            self.divided.add(part)

    # What arrives

    def receive(self, lease: Lease, now: float) -> None:
        """Apply a lease."""
        before, changed = self._others.get(lease.member), False
        if lease.member == self.member:
            changed = self._receive_own(lease.number, now)
        elif before is not None and lease.number < before.lease.number:
            pass  # it was delayed: a newer one has arrived
        elif lease.member not in self._fenced and (before is not None or len(self._others) < MAX_MEMBERS):
            least = self.least_read
            self._others[lease.member] = self._noted(lease, before, now)
            self._count_read()
            changed = before is None or before.lease.members != lease.members or before.lease.split != lease.split
            changed = changed or least < self._read_needed <= self.least_read
        if changed:
            self._refresh()

    def _receive_own(self, number: int, now: float) -> bool:
        joins, received = not self.joined, self._received
        if joins:
            self._joined_at, self._before = now, frozenset(self._others)
        if self._received_at is None or now - self._received_at > self.period / 2:
            self._steady_since = now
        self._received_at, self._received = now, max(number, received)
        if (sent_at := self._sent.get(number)) is not None:
            self._trusted_until = max(self._trusted_until, sent_at + self.period * TRUSTED)
        self._sent = {each: at for each, at in self._sent.items() if each >= number}
        ended = [part for part, last in self._divided_last.items() if last < number and part not in self.divided]
        for part in ended:
            del self._divided_last[part]
        return joins or bool(ended) or any(received < since <= number for since in self._divided_since.values())

    def _noted(self, lease: Lease, before: _Other | None, now: float) -> _Other:
        named = self.member in lease.members
        since = before.unnamed_since if before is not None and before.unnamed_since is not None else now
        read = before.read_at_naming if before is not None else None
        if named and read is None and lease.member in self._before:
            read = lease.read
        return _Other(lease, now, None if named else since, read)

    def _count_read(self) -> None:
        self.least_read = min((each.lease.read for each in self._others.values()), default=inf)

    def end(self, member: str, now: float) -> None:
        """Apply a fence; the own one makes this replica a new member, after a period if another one wrote it."""
        oldest = next(iter(self._fenced), None)
        if oldest is not None and (now > self._fenced[oldest] + FENCE_SECONDS or len(self._fenced) >= MAX_FENCED):
            del self._fenced[oldest]
        self._others.pop(member, None)
        self._count_read()
        self._fenced[member] = now
        if member == self.member:
            by_itself, joined_at = self.ending, self._joined_at
            self._joins += 1
            while f"{self._base}-{self._joins}" in self._fenced:
                self._joins += 1
            self._join(f"{self._base}-{self._joins}")
            if not by_itself:
                # Not at once: of two processes with one name each would end the other without a pause.
                self._ends = 0 if now > joined_at + STEADY * self.period else self._ends
                self.pause = self.period * min(MAX_PAUSE, 2**self._ends)
                self._ends = min(self._ends + 1, MAX_PAUSE)
                self._renewed_at = now + self.pause - self.period / RENEWALS
        self._refresh()

    # Who takes part

    @property
    def others(self) -> Collection[str]:
        """The other members that have not ended."""
        return self._others.keys()

    @property
    def joined(self) -> bool:
        """Whether the own lease was received: everything that was written before it is known."""
        return self._received_at is not None

    @property
    def _named(self) -> bool:
        """Whether the leases of all others name this member."""
        return all(self.member in each.lease.members for each in self._others.values())

    @property
    def steady(self) -> bool:
        """Whether all members that this one knows name one another, as far as it can see: each shard has an owner."""
        return self.joined and not self.ending and self._named and self._others.keys() == set(self.current.members)

    def may_work(self, now: float) -> bool:
        """Return whether this member may begin any work now: no other member can have fenced it yet."""
        return now < self._trusted_until and not self.ending

    def end_own(self) -> Fence:
        """Return the fence of this member, which does no work from now on, and joins again when it has received it."""
        self.ending = True
        self._owned.clear()
        return Fence(service=self.service, member=self.member)

    # What this member owns

    def owns(self, key: str) -> bool:
        """Return whether this member is the one that may work on what has a key; see also :meth:`may_work`."""
        return self.owns_shard(shard_of(key))

    def owns_shard(self, shard: int) -> bool:
        """Return whether it is the one that may work on a shard."""
        owned = self._owned.get(shard)
        if owned is None:
            may_own = self.joined and not self.ending and self._named
            owned = self._owned[shard] = may_own and self._first(shard, self._others) is None
        return owned

    def level(self, key: str) -> int:
        """Return how many other members have a higher rank for what has a key: 0 for what this one owns."""
        shard = shard_of(key)
        own = rank(shard, self.instance, self.member)
        return sum(rank(shard, each.lease.instance, member) > own for member, each in self._others.items())

    def read(self, sequence: int) -> None:
        """Note that facts have been read up to a sequence."""
        self.position_read = max(sequence, self.position_read)

    def need_read(self, sequence: int) -> None:
        """Announce that a fact was read that changes who owns what."""
        self._read_needed = max(self._read_needed, sequence)

    def answers_for(self, key: str, sequence: int) -> bool | None:
        """Return whether this member, and no other one, reports what a fact says about what has a key.

        A member answers for what it owns until it has named a newcomer, which answers for all later facts. None: it is
        to be asked again, since this member is a newcomer that is not named yet.
        """
        if not self.joined or self.ending:
            return None
        shard = shard_of(key)
        first = self._first(shard, self._others)
        if first is None and not self._named:
            return None
        if first is not None:
            # A newcomer that is not named yet does not answer.
            newcomer = first not in self.current.members and first not in self._before
            return newcomer and self._first(shard, self.current.members) is None
        former = self._first(shard, self._others, without_own=True)
        read = None if former is None else self._others[former].read_at_naming
        return read is None or sequence > read

    def _first(self, shard: int, members: Collection[str], *, without_own: bool = False) -> str | None:
        """Return the member with the highest rank for a shard; None for this one, or if there are no others."""
        ranks = {rank(shard, self._others[each].lease.instance, each): each for each in members if each in self._others}
        own = rank(shard, self.instance, self.member)
        if not ranks or (max(ranks) < own and not without_own):
            return None
        return ranks[max(ranks)]

    # Parts that are divided further

    def divide(self, part: str, *, divided: bool = True) -> None:
        """Divide a part of the work further that this member owns, or no more, from the next lease on."""
        if (part in self.divided) != divided:
            self._follow(part, divided=divided)
            self._refresh()

    def is_split(self, part: str) -> bool:
        """Return whether this member works on a part only by a smaller key.

        The owner of a part, as long as any lease names it, the own ones in flight included: another member may work on
        it. That one, from the moment it has read its own lease that names the part, while the owner's last lease does.
        """
        if part not in self._split:
            named = self._owner_names(part)
            if named is None:
                by_others = any(part in each.lease.split for each in self._others.values())
                named = part in self.divided or by_others or part in self._divided_last
            elif named:
                named = self._divided_since.get(part, inf) <= self._received
            self._split[part] = named
        return self._split[part]

    def _owner_names(self, part: str) -> bool | None:
        """Return whether the lease of a part's owner names it as divided; None if this member is the owner."""
        owner = self._first(shard_of(part), self._others)
        return None if owner is None else part in self._others[owner].lease.split

    # What is to be written

    @property
    def outdated(self) -> bool:
        """Whether the lease lacks something that is to be announced: renew it when no write is in flight."""
        if not self.joined or not self._others:
            return False
        lease = self.current
        return (
            self._others.keys() != set(lease.members)
            or self.divided != set(lease.split)
            or lease.read < self._read_needed
        )

    def _renewal(self, *, active: bool) -> float:
        if self._renewed_at is None:
            return 0.0
        watched = active or self._others or not self.joined
        return self._renewed_at + (self.period if watched else LEASE_SECONDS) / RENEWALS

    def due(self, *, active: bool = True) -> float | None:
        """Return when :meth:`lease` or :meth:`silent` has something to do without an event, None for never.

        ``active``: this member has work that it may do only under its lease.
        """
        if not self.member:
            return None
        times = [self._renewal(active=active)]
        if self.joined:
            # What was due at the last check, and is due again, waits for the own lease: its arrival is an event.
            ends = (max(each.heard_at, self._steady_since) + self.period for each in self._others.values())
            times += (end for end in ends if end > self._checked_at)
            unnamed = (each.unnamed_since for each in self._others.values() if each.unnamed_since is not None)
            reports = (self._could_name_since(since) + self.period * NAMING_REPORTED for since in unnamed)
            times += (at for at in reports if at > self._checked_at)
        return min(times)

    def renewal_due(self, now: float, *, active: bool = True) -> bool:
        """Return whether the lease must be renewed; ``active`` as in :meth:`due`."""
        return now >= self._renewal(active=active)

    def lease(self, now: float, *, idle: bool) -> Lease:
        """Return the own lease to write now; ``idle``: no write is in flight for what another member may own."""
        lease = replace(self.current, number=self.current.number + 1)
        if idle:
            members = tuple(sorted(self._others)) if self.joined else lease.members
            lease = replace(lease, members=members, split=tuple(sorted(self.divided)), read=self.position_read)
        self._renewed_at = self._sent[lease.number] = now
        if len(self._sent) > MAX_SENT:
            del self._sent[next(iter(self._sent))]
        for part in lease.split:
            self._divided_last[part] = lease.number
            if part in self.divided:
                self._divided_since.setdefault(part, lease.number)
        self.current = lease
        return lease

    def silent(self, now: float) -> list[str]:
        """Return the members to fence: not heard of for a period, or former processes with the own name."""
        self._checked_at = now
        if self._received_at is None or now - self._received_at > self.period / 2:
            return []
        return sorted(
            member
            for member, each in self._others.items()
            if each.lease.instance == self.instance
            or now >= max(each.heard_at, self._steady_since) + self.period
            or self._unnamed_for(each, now) >= NAMING * self.period
        )

    def _unnamed_for(self, other: _Other, now: float) -> float:
        """Return for how many seconds a member has not named this one, though it could."""
        return 0.0 if other.unnamed_since is None else now - self._could_name_since(other.unnamed_since)

    def _could_name_since(self, unnamed_since: float) -> float:
        """Return since when a member could have named this one: not during an outage of the bus."""
        return max(unnamed_since, self._joined_at, self._steady_since)

    def unnaming(self, now: float) -> list[str]:
        """Return the members that have not named this one for so long that it is to be reported, sorted."""
        bound = NAMING_REPORTED * self.period
        return sorted(member for member, each in self._others.items() if self._unnamed_for(each, now) >= bound)
