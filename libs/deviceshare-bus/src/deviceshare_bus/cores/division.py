"""The part of a service's work that this replica does: leases and fences in, leases and fences out. Pure.

A core passes it the messages of :mod:`deviceshare_bus.messages.leases` that it receives, asks it what this replica
owns, and makes its writes under the guard of the lease. A replica that has had no others for a long time writes without
a guard, which saves the server an atomic batch for each write: another one may work only after this replica has
completed its writes and named the newcomer, or has not renewed its lease for a period.
"""

from math import inf

from deviceshare_bus.cores.core import Command, Count, Event, Guard, Log, Now, PutLatest, Stopping
from deviceshare_bus.cores.membership import Membership
from deviceshare_bus.messages.leases import FENCE_SECONDS, LEASE_SECONDS, PERIOD, Fence, Lease
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


class Division(Membership):
    """The membership of a core: what is to be written are commands.

    Args:
        stream: the stream that the service writes.
        service: as of a :class:`.membership.Membership`, and all that follow.
    """

    def __init__(self, stream: Stream, service: str, instance: str, member: str, period: float = PERIOD) -> None:
        super().__init__(service, instance, member, period)
        self._stream = stream
        self._guarded_until = self._ticked_at = -inf
        """Until when writes have a guard though there are no others."""
        self._guard: Guard | None = None
        """That of the current lease, once a write has needed it."""
        self._unnaming: list[str] = []
        self.obstacle = ""
        """Why this replica does nothing, or less than it should, because of another one; '' if it does."""
        self._fencing: dict[str, float] = {}
        """Members whose fence was written and not received yet, and when it is written again."""
        self.took_over = False
        """Whether another member has ended since the core cleared it: its work may be incomplete."""

    def handle(self, event: LeaseReceived | FenceReceived | Stopping, now: Now) -> list[Command]:
        """Apply a lease or a fence of any service, or end this member."""
        match event:
            case LeaseReceived(lease=lease) if self.member and lease.service == self.service:
                self.receive(lease, now.monotonic)
            case FenceReceived(fence=fence) if self.member and fence.service == self.service:
                return self._receive_fence(fence.member, now.monotonic)
            case Stopping():
                return self.leave()
        return []

    def _receive_fence(self, member: str, now: float) -> list[Command]:
        fenced = member == self.member and not self.ending
        namesake = any(each.lease.instance == self.instance for each in self._others.values())
        rest = self._others.get(member)
        self.end(member, now)
        self._fencing.pop(member, None)
        self.took_over = True
        if fenced:
            again = f"this one joins again in {self.pause:g} seconds"
            if namesake:
                text = f"another process is named {self.instance} as well: give each one a name of its own (--instance)"
                return [Log("error", f"{text}; {again}")]
            return [Log("warning", f"another replica has ended the lease of this one; {again}")]
        return [] if rest is None else [self._put(rest.lease, REMAINS_SECONDS)]

    @property
    def guard(self) -> Guard | None:
        """The guard of writes; None for a replica that has had no others for :data:`LEASE_SECONDS`."""
        if not (self.others or self._ticked_at < self._guarded_until):
            return None
        if self._guard is None or self._guard.message is not self.current:
            of = self._stream, self.service, self.member
            self._guard = Guard(lease_subject(*of), self.current, fence_subject(*of))
        return self._guard

    def tick(self, now: Now, *, idle: bool, active: bool) -> list[Command]:
        """Renew the lease, and fence silent members.

        ``idle``: no write under the lease is in flight for what another member may own; ``active``: this replica has
        work.
        """
        if not self.member:
            return []
        commands = self._report(now.monotonic)
        self._ticked_at = now.monotonic
        if self.others:
            self._guarded_until = now.monotonic + LEASE_SECONDS
        for member in self.silent(now.monotonic):
            if now.monotonic >= self._fencing.get(member, 0.0):
                self._fencing[member] = now.monotonic + self.period
                commands.append(self._put(Fence(service=self.service, member=member), FENCE_SECONDS))
        if self.renewal_due(now.monotonic, active=active) or (idle and self.outdated):
            commands.append(self._put(self.lease(now.monotonic, idle=idle), LEASE_SECONDS))
        return commands

    def _report(self, now: float) -> list[Command]:
        """Report members that renew their leases and do not name this one: it can do nothing that they could."""
        unnaming = self.unnaming(now)
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
        return [self._put(self.end_own(), FENCE_SECONDS)] if self.member else []

    def _put(self, message: Lease | Fence, seconds: float) -> PutLatest:
        subject = lease_subject if isinstance(message, Lease) else fence_subject
        return PutLatest(subject(self._stream, self.service, message.member), message, seconds)
