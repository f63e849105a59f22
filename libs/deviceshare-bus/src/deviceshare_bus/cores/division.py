"""The part of a service's work that this replica does: leases and fences in, leases and fences out. Pure.

A core passes it the messages of :mod:`deviceshare_bus.messages.leases` that it receives, asks it what this replica
owns, and makes its writes under the guard of the lease. A replica that has had no others for a long time writes without
a guard, which saves the server an atomic batch for each write: another one may work only after this replica has
completed its writes and named the newcomer, or has not renewed its lease for a period.
"""

from math import inf

from deviceshare_bus.cores.core import Command, Count, Event, Guard, Log, Now, PutLatest, Stopping
from deviceshare_bus.cores.membership import Membership
from deviceshare_bus.messages.leases import FENCE_SECONDS, LEASE_SECONDS, PERIOD, Fence, Lease, shard_of
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.messages.subjects import fence as fence_subject
from deviceshare_bus.messages.subjects import lease as lease_subject

REMAINS_SECONDS = 60.0
"""Seconds for which the server keeps the lease of a fenced member: leases that were written as guards do not expire."""


class LeaseReceived(Event, frozen=True):
    """A member of a service has renewed its lease."""

    lease: Lease


class FenceReceived(Event, frozen=True):
    """A member of a service has ended."""

    fence: Fence


def of_replicas(service: str, content: Lease | Fence) -> LeaseReceived | FenceReceived | None:
    """Return the event of a lease or fence for the core of a service, None for those of another service."""
    if content.service != service:
        return None
    return LeaseReceived(content) if isinstance(content, Lease) else FenceReceived(content)


class Division:
    """What this replica owns of the work of a service.

    Args:
        stream: the stream that the service writes.
        service: the service.
        instance: the name of the process.
        member: the id of this replica, unique for ever; '' for one that is alone by construction, and owns everything.
        period: seconds, see :data:`deviceshare_bus.messages.leases.PERIOD`.
    """

    def __init__(self, stream: Stream, service: str, instance: str, member: str, period: float = PERIOD) -> None:
        self._stream = stream
        self._service = service
        self._instance = instance
        self._members = Membership(service, instance, member, period) if member else None
        self._period = period
        self._owns: dict[int, bool] = {}
        self._splits: dict[str, bool] = {}
        """Whether parts are divided further, as far as asked."""
        self._least_read = inf
        self._guarded_until = self._ticked_at = -inf
        """Until when writes have a guard though there are no others."""
        self._guard: Guard | None = None
        """That of the current lease, once a write has needed it."""
        self._unnaming: list[str] = []
        self.obstacle = ""
        """Why this replica does nothing, or less than it should, because of another one; '' if it does."""
        self._fencing: dict[str, float] = {}
        """Members whose fence was written and not received yet, and when it is written again."""
        self._leases: dict[str, Lease] = {}
        """The last lease of each other member."""
        self.changed = False
        """Whether the part of this replica may be another one; the core clears it."""
        self.took_over = False
        """Whether another member has ended since the core cleared it: its work may be incomplete."""

    @property
    def member(self) -> str:
        """The id of this replica, '' for one that is alone by construction."""
        return self._members.member if self._members is not None else ""

    @property
    def instance(self) -> str:
        """The name of the process."""
        return self._instance

    @property
    def others(self) -> int:
        """The number of other members."""
        return len(self._members.others) if self._members is not None else 0

    @property
    def steady(self) -> bool:
        """Whether, as far as this replica knows, each part of the work has an owner."""
        return self._members is None or self._members.steady

    @property
    def outdated(self) -> bool:
        """Whether the next lease waits until this replica has completed what others own."""
        return self._members is not None and self._members.outdated

    def level(self, key: str) -> int:
        """Return how many other replicas would rather own a part of the work than this one: 0 for what it owns."""
        return 0 if self._members is None else self._members.level(shard_of(key))

    # Events

    def handle(self, event: LeaseReceived | FenceReceived | Stopping, now: Now) -> list[Command]:
        """Apply a lease or a fence of any service, or end this member."""
        match event:
            case LeaseReceived(lease=lease):
                self._receive(lease, now.monotonic)
            case FenceReceived(fence=fence):
                return self._end(fence, now.monotonic)
            case Stopping():
                return self.leave()
        return []

    def _receive(self, lease: Lease, now: float) -> None:
        if self._members is None or lease.service != self._service:
            return
        changed = self._members.receive(lease, now)
        self._least_read = self._members.least_read
        if lease.member in self._members.others:
            self._leases[lease.member] = lease
        if changed:
            self._refresh()

    def _end(self, fence: Fence, now: float) -> list[Command]:
        if self._members is None or fence.service != self._service:
            return []
        fenced = fence.member == self._members.member and not self._members.ending
        namesake = self._members.namesake
        self._members.end(fence.member, now)
        self._least_read = self._members.least_read
        self._fencing.pop(fence.member, None)
        self._refresh()
        self.took_over = True
        if fenced:
            again = f"this one joins again in {self._members.pause:g} seconds"
            if namesake:
                text = (
                    f"another process is named {self._instance} as well: give each one a name of its own (--instance)"
                )
                return [Log("error", f"{text}; {again}")]
            return [Log("warning", f"another replica has ended the lease of this one; {again}")]
        rest = self._leases.pop(fence.member, None)
        return (
            []
            if rest is None
            else [PutLatest(lease_subject(self._stream, self._service, rest.member), rest, REMAINS_SECONDS)]
        )

    def _refresh(self) -> None:
        self._owns.clear()
        self._splits.clear()
        self.changed = True

    # Work

    def owns(self, key: str) -> bool:
        """Return whether this replica may work on what has this key; see also :meth:`may_work`."""
        if self._members is None:
            return True
        shard = shard_of(key)
        owns = self._owns.get(shard)
        if owns is None:
            owns = self._owns[shard] = self._members.owns(shard)
        return owns

    def answers_for(self, key: str, sequence: int) -> bool | None:
        """Return whether this replica reports a fact, by its sequence, about what has a key; None: ask again."""
        return self._members is None or self._members.answers_for(shard_of(key), sequence)

    def may_work(self, now: float) -> bool:
        """Return whether this replica may begin any work now: no other member can have fenced it."""
        return self._members is None or self._members.is_trusted(now)

    def is_split(self, part: str) -> bool:
        """Return whether a part of the work is divided further: this replica works on what it owns of it."""
        if self._members is None:
            return False
        split = self._splits.get(part)
        if split is None:
            split = self._splits[part] = self._members.is_split(part)
        return split

    @property
    def divided(self) -> set[str]:
        """The parts that are divided further as far as this replica knows."""
        return set() if self._members is None else self._members.splits.respected

    def split(self, part: str, *, divided: bool = True) -> None:
        """Divide a part of the work further, or no more, which this replica owns."""
        if self._members is not None and (part in self._members.splits.respected) != divided:
            (self._members.divide if divided else self._members.merge)(part)
            self._refresh()

    # Facts by which the work is divided

    def read(self, sequence: int) -> None:
        """Note that facts have been read up to a sequence."""
        if self._members is not None:
            self._members.position_read = max(sequence, self._members.position_read)

    @property
    def position_read(self) -> int:
        """The sequence up to which facts have been read."""
        return 0 if self._members is None else self._members.position_read

    def need_read(self, sequence: int) -> None:
        """Note that the fact with a sequence changes who owns what."""
        if self._members is not None:
            self._members.need_read(sequence)

    def all_read(self, sequence: int) -> bool:
        """Return whether all other members work by the fact with a sequence; ``changed`` is set when they do."""
        return sequence <= self._least_read

    @property
    def guard(self) -> Guard | None:
        """The guard of writes; None for a replica that has had no others for :data:`LEASE_SECONDS`."""
        if self._members is None or not (self._members.others or self._ticked_at < self._guarded_until):
            return None
        lease = self._members.current
        if self._guard is None or self._guard.message is not lease:
            self._guard = Guard(
                lease_subject(self._stream, self._service, lease.member),
                lease,
                fence_subject(self._stream, self._service, lease.member),
            )
        return self._guard

    # Time

    def due(self, *, active: bool) -> float | None:
        """Return when :meth:`tick` has something to do without an event, monotonic seconds; None for never.

        ``active``: this replica has work.
        """
        if self._members is None:
            return None
        return self._members.due(active=active)

    def tick(self, now: Now, *, idle: bool, active: bool) -> list[Command]:
        """Renew the lease, and fence silent members.

        ``idle``: no write under the lease is in flight for what another member may own; ``active``: this replica has
        work.
        """
        if self._members is None:
            return []
        commands = self._report(now.monotonic)
        self._ticked_at = now.monotonic
        if self._members.others:
            self._guarded_until = now.monotonic + LEASE_SECONDS
        for member in self._members.silent(now.monotonic):
            if now.monotonic >= self._fencing.get(member, 0.0):
                self._fencing[member] = now.monotonic + self._period
                commands.append(self._fence(Fence(service=self._service, member=member)))
        if self._members.renewal_due(now.monotonic, active=active) or (idle and self._members.outdated):
            lease = self._members.lease(now.monotonic, idle=idle)
            commands.append(PutLatest(lease_subject(self._stream, self._service, lease.member), lease, LEASE_SECONDS))
        return commands

    def _report(self, now: float) -> list[Command]:
        """Report members that renew their leases and do not name this one: it can do nothing that they could."""
        assert self._members is not None
        unnaming = self._members.unnaming(now)
        if unnaming == self._unnaming:
            return []
        new = sorted(set(unnaming) - set(self._unnaming))
        self._unnaming = unnaming
        self.obstacle = f"waits for {', '.join(unnaming)} to name it in a lease" if unnaming else ""
        if not new:
            return []
        text = f"{', '.join(new)} does not name this replica, which waits: it is fenced if that continues"
        return [Count("members_unnamed", len(new)), Log("warning", text)]

    def leave(self) -> list[Command]:
        """End this member: nothing that it has written and that is not stored yet can be stored later."""
        return [] if self._members is None else [self._fence(self._members.end_own())]

    def _fence(self, fence: Fence) -> PutLatest:
        return PutLatest(fence_subject(self._stream, self._service, fence.member), fence, FENCE_SECONDS)
