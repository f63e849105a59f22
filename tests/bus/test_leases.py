"""Leases of replicas, on a model of the stream: whatever is delayed, paused or killed, shares are exclusive."""

import random

import pytest
from deviceshare_bus.leases import MOST_MEMBERS, PERIOD, SHARES, Fence, Lease, Membership
from hypothesis import given
from hypothesis import strategies as st

SOME = range(0, SHARES, 16)
"""The shares on which the members work in the tests."""


class SharedWrite:
    """A write for a share, made under the lease of a member that had read up to a position."""

    def __init__(self, share: int, member: str, known: int) -> None:
        self.share, self.member, self.known = share, member, known


class Stream:
    """The messages in their order; the server refuses writes under leases that are fenced."""

    def __init__(self) -> None:
        self.messages: list[Lease | Fence | SharedWrite] = []
        self.fenced: set[str] = set()

    def put(self, message: Lease | Fence | SharedWrite) -> bool:
        if isinstance(message, SharedWrite) and message.member in self.fenced:
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
        self.pending: list[Lease | Fence | SharedWrite] = []
        """Sent, not yet received by the server, in order."""

    @property
    def idle(self) -> bool:
        return not any(isinstance(message, SharedWrite) for message in self.pending)

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

    def work(self, share: int, now: float) -> None:
        if self.membership.is_trusted(now) and self.membership.owns(share):
            self.pending.append(SharedWrite(share, self.membership.member, self.read))

    def flush(self, most: int, rng: random.Random | None = None) -> None:
        """Let the server receive messages; with ``rng``, work in any order among the other messages."""
        for _ in range(min(most, len(self.pending))):
            works = [at for at, message in enumerate(self.pending) if isinstance(message, SharedWrite)]
            first = next((at for at, message in enumerate(self.pending) if not isinstance(message, SharedWrite)), None)
            at = 0 if rng is None else rng.choice([*works, *([first] if first is not None else [])])
            self.stream.put(self.pending.pop(at))


def check(stream: Stream) -> None:
    """Check that who wrote for a share had read everything that others had written for it."""
    last: dict[int, tuple[int, str]] = {}
    for position, message in enumerate(stream.messages, 1):
        if not isinstance(message, SharedWrite):
            continue
        before, member = last.get(message.share, (0, message.member))
        assert member == message.member or message.known >= before, f"share {message.share} had two owners"
        last[message.share] = position, message.member


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


@given(st.integers(min_value=0))
def test_a_share_has_one_owner_at_every_moment_and_one_in_the_end(seed: int) -> None:
    rng = random.Random(seed)
    stream, now, started = Stream(), 100.0, 0
    replicas: list[Replica] = []
    for _ in range(rng.randrange(50, 300)):
        now += rng.choice([0.0, 0.05, 0.5, PERIOD / 2, PERIOD * 1.5])
        if rng.random() < 0.05 or not replicas:
            started += 1
            # Sometimes under the name of a process that still runs, or ran.
            replicas.append(Replica(stream, f"placement-{rng.randrange(4)}", f"member-{started}"))
        if rng.random() < 0.03:
            replicas.remove(rng.choice(replicas))
        for replica in replicas:
            match rng.randrange(6):
                case 0 | 1:
                    replica.receive(rng.randrange(1, 30), now)
                case 2 | 3:
                    replica.act(now)
                    for share in SOME:
                        replica.work(share, now)
                case 4:
                    replica.flush(rng.randrange(1, 20), rng)
    check(stream)

    # One process of a name stays; the others are gone.
    replicas = list({replica.instance: replica for replica in replicas}.values())
    settle(replicas, now, 3 * PERIOD)
    check(stream)
    for share in range(SHARES):
        assert sum(replica.membership.owns(share) for replica in replicas) == bool(replicas)


def test_a_dead_member_is_replaced_within_three_periods_and_only_its_shares_move() -> None:
    stream = Stream()
    replicas = [Replica(stream, f"placement-{number}", f"member-{number}") for number in range(3)]
    now = settle(replicas, 0.0, 3 * PERIOD)
    owned = [{share for share in range(SHARES) if replica.membership.owns(share)} for replica in replicas]
    assert sum(map(len, owned)) == SHARES
    assert min(map(len, owned)) > SHARES / 3 * 0.75, "the shares are even"
    dead = replicas.pop()
    settle(replicas, now, 3 * PERIOD)
    for replica, before in zip(replicas, owned, strict=False):
        assert before <= {share for share in range(SHARES) if replica.membership.owns(share)}
    assert all(sum(replica.membership.owns(share) for replica in replicas) == 1 for share in owned[2])
    assert dead.membership.owns(min(owned[2])), "the dead member does not know yet"
    assert not stream.put(SharedWrite(min(owned[2]), dead.membership.member, dead.read)), (
        "but the server refuses its writes"
    )


def test_a_newcomer_owns_nothing_before_the_others_name_it() -> None:
    stream = Stream()
    old, new = Replica(stream, "a", "a1"), Replica(stream, "b", "b1")
    now = settle([old], 0.0, PERIOD)
    assert all(old.membership.owns(share) for share in range(SHARES))
    new.act(now)
    new.flush(10)
    new.receive(1000, now)
    assert new.membership.joined
    assert not any(new.membership.owns(share) for share in range(SHARES))
    old.work(0, now)
    old.receive(1000, now)
    assert old.membership.outdated
    assert not all(old.membership.owns(share) for share in range(SHARES)), "the old one stops at once"
    assert old.membership.lease(now, idle=False).members == (), "but does not say so while a write is in flight"
    assert old.membership.lease(now, idle=True).members == ("b1",)


@pytest.mark.parametrize("instance", ["a", "b"])
def test_only_a_process_with_the_same_name_is_replaced_at_once(instance: str) -> None:
    stream = Stream()
    old, new = Replica(stream, "a", "a1"), Replica(stream, instance, "new")
    now = settle([old], 0.0, PERIOD)
    new.receive(1000, now)
    new.act(now)
    new.flush(10)
    new.receive(1000, now)
    assert new.membership.silent(now) == (["a1"] if instance == "a" else [])


def test_a_fenced_member_takes_part_again_under_a_new_id() -> None:
    stream = Stream()
    replica = Replica(stream, "a", "a1")
    now = settle([replica], 0.0, PERIOD)
    stream.put(Fence(service="placement", member="a1"))
    now = settle([replica], now, PERIOD / 2)
    assert replica.membership.member == "a1-1"
    assert not replica.membership.is_trusted(now), "it waits for a period"
    now = settle([replica], now, PERIOD)
    assert replica.membership.owns(0)
    assert replica.membership.is_trusted(now)


def test_two_processes_with_one_name_do_not_end_one_another_all_the_time() -> None:
    stream = Stream()
    replicas = [Replica(stream, "a", "a1"), Replica(stream, "a", "a2")]
    settle(replicas, 0.0, 20 * PERIOD)
    assert len(stream.fenced) <= 20 * 2


def test_leases_of_members_that_never_existed_are_bounded_and_fenced() -> None:
    stream = Stream()
    replica = Replica(stream, "a", "a1")
    now = settle([replica], 0.0, PERIOD)
    for number in range(2 * MOST_MEMBERS):
        stream.put(Lease(service="placement", member=f"stranger-{number}", instance=f"x-{number}"))
    replica.receive(10_000, now)
    assert len(replica.membership.others) == MOST_MEMBERS
    assert not replica.membership.owns(0)
    settle([replica], now, 2 * PERIOD)
    assert replica.membership.owns(0)


def test_no_member_is_fenced_after_an_outage_of_the_bus_before_its_renewals_can_have_arrived() -> None:
    stream = Stream()
    replicas = [Replica(stream, "a", "a1"), Replica(stream, "b", "b1")]
    now = settle(replicas, 0.0, 3 * PERIOD) + 10 * PERIOD
    replicas[0].act(now)
    replicas[0].flush(10)
    replicas[0].receive(1000, now)
    assert replicas[0].membership.silent(now) == []
    settle(replicas, now, 2 * PERIOD)
    assert stream.fenced == set()
