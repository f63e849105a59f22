"""Members that divide work by leases, on a model of the stream."""

import random

from deviceshare_bus.cores.membership import Membership
from deviceshare_bus.messages.leases import SHARDS, Fence, Lease

SOME = range(0, SHARDS, 16)
"""The shards on which the members work in the tests."""


PARTS = {f"queue {name}": [f"group {name}-{number}" for number in range(4)] for name in "abc"}
"""Parts of the work that are divided further by groups, and the groups."""


class ShardWrite:
    """A write for a shard or a group, made under the lease of a member that had read up to a position."""

    def __init__(self, shard: int | str, member: str, known: int) -> None:
        self.shard, self.member, self.known = shard, member, known


class Stream:
    """The messages in their order; the server refuses writes under leases that are fenced."""

    def __init__(self) -> None:
        self.messages: list[Lease | Fence | ShardWrite] = []
        self.fenced: set[str] = set()

    def put(self, message: Lease | Fence | ShardWrite) -> bool:
        if isinstance(message, ShardWrite) and message.member in self.fenced:
            return False
        if isinstance(message, Fence):
            self.fenced.add(message.member)
        self.messages.append(message)
        return True


class Replica:
    """A process: reads the stream late, writes late."""

    def __init__(self, stream: Stream, instance: str, member: str) -> None:
        self.stream, self.instance = stream, instance
        self.membership = Membership("placement", instance, member)
        self.read = 0
        self.pending: list[Lease | Fence | ShardWrite] = []
        """Sent, not yet received by the server, in order."""

    @property
    def idle(self) -> bool:
        return not any(isinstance(message, ShardWrite) for message in self.pending)

    def receive(self, most: int, now: float) -> None:
        for message in self.stream.messages[self.read : self.read + most]:
            self.read += 1
            if isinstance(message, Lease):
                self.membership.receive(message, now)
            elif isinstance(message, Fence):
                self.membership.end(message.member, now)

    def act(self, now: float) -> None:
        for member in self.membership.silent(now):
            self.pending.append(Fence(service="placement", member=member))
        if self.membership.renewal_due(now) or (self.membership.outdated and self.idle):
            self.pending.append(self.membership.lease(now, idle=self.idle))

    def work(self, shard: int, now: float) -> None:
        if self.membership.may_work(now) and self.membership.owns_shard(shard):
            self.pending.append(ShardWrite(shard, self.membership.member, self.read))

    def work_on_parts(self, now: float) -> None:
        if not self.membership.may_work(now):
            return
        for part, groups in PARTS.items():
            split = self.membership.is_split(part)
            for group in groups:
                if self.membership.owns(group if split else part):
                    self.pending.append(ShardWrite(group, self.membership.member, self.read))

    def divide(self, rng: random.Random) -> None:
        for part in PARTS:
            if self.membership.owns(part):
                self.membership.divide(part, divided=rng.choice([True, False]))

    def flush(self, most: int, rng: random.Random | None = None) -> None:
        """Let the server receive messages; with ``rng``, work in any order among the other messages."""
        for _ in range(min(most, len(self.pending))):
            works = [at for at, message in enumerate(self.pending) if isinstance(message, ShardWrite)]
            first = next((at for at, message in enumerate(self.pending) if not isinstance(message, ShardWrite)), None)
            at = 0 if rng is None else rng.choice([*works, *([first] if first is not None else [])])
            self.stream.put(self.pending.pop(at))


def check(stream: Stream) -> None:
    """Check that who wrote for a shard had read everything that others had written for it."""
    last: dict[int | str, tuple[int, str]] = {}
    for position, message in enumerate(stream.messages, 1):
        if not isinstance(message, ShardWrite):
            continue
        before, member = last.get(message.shard, (0, message.member))
        assert member == message.member or message.known >= before, f"shard {message.shard} had two owners"
        last[message.shard] = position, message.member


def settle(replicas: list[Replica], now: float, seconds: float) -> float:
    """Let everything that lives run without delays."""
    end = now + seconds
    while now < end:
        now += 0.2
        for replica in replicas:
            replica.flush(1000)
            replica.receive(1000, now)
            replica.act(now)
    return now
