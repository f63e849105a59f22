"""The messages by which replicas divide the work of a service (:mod:`deviceshare_bus.cores.membership`)."""

from functools import lru_cache
from hashlib import blake2b
from zlib import crc32

import msgspec
from deviceshare.model import Amount

SHARDS = 256
"""The number of parts into which work is divided. All replicas of a service must use the same one."""
PERIOD = 4.0
"""Seconds without news of a member after which another member fences it."""
RENEWALS = 4
"""How often a lease is renewed in one period."""
TRUSTED = 0.75
"""The part of a period, from the sending of a lease that was received, for which a member works."""
MAX_SENT = 64
"""Renewals of which the time is remembered."""
MAX_SPLIT = 1000
"""Parts that may be divided further at the same time."""
MAX_MEMBERS, MAX_FENCED = 256, 10_000
"""Other members, and members that have ended, that are remembered; leases of further members are ignored."""
NAMING, NAMING_REPORTED = 15, 2
"""Periods after which a member that does not name another one is fenced by that one, and reported."""
MAX_PAUSE = 64
"""Periods for which a member pauses that others have fenced again and again, at most."""
STEADY = 15
"""Periods as a member after which the next fence counts as the first one."""
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
        split: parts of the work that are divided further, sorted.
        read: the sequence up to which this member has read the facts by which the work is divided, and after which no
            write was in flight that it had begun before.
    """

    v: int = 1
    service: str
    member: str
    instance: str
    number: Amount = 0
    members: tuple[str, ...] = ()
    split: tuple[str, ...] = ()
    read: Amount = 0

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


def shard_of(key: str) -> int:
    """Return the shard to which a part of the work belongs."""
    return crc32(key.encode()) % SHARDS


def rank(shard: int, instance: str, member: str) -> tuple[bytes, str]:
    """Return the rank of a member for a shard; a process that is started again under its name has the same one."""
    return ranks_of(instance)[shard], member


@lru_cache(2 * MAX_MEMBERS)
def ranks_of(instance: str) -> tuple[bytes, ...]:
    """Return the ranks of a process, by shard."""
    return tuple(blake2b(f"{shard}/{instance}".encode(), digest_size=8).digest() for shard in range(SHARDS))
