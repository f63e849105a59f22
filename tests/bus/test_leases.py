"""Leases of replicas, on a model of the stream: whatever is delayed, paused or killed, shards are exclusive."""

import random
from hashlib import blake2b

import pytest
from deviceshare_bus.messages.leases import (
    MAX_MEMBERS,
    NAMING,
    NAMING_REPORTED,
    PERIOD,
    SHARDS,
    STEADY,
    Fence,
    Lease,
    shard_of,
)
from hypothesis import example, given
from hypothesis import strategies as st
from support.lease_members import PARTS, SOME, Replica, ShardWrite, Stream, check, settle


@given(st.integers(min_value=0))
@example(83686)
@example(2370511)
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
                    for shard in SOME:
                        replica.work(shard, now)
                    replica.work_on_parts(now)
                    if rng.random() < 0.1:
                        replica.divide(rng)
                case 4:
                    replica.flush(rng.randrange(1, 20), rng)
    check(stream)

    # One process of a name stays; the others are gone. Who was fenced pauses and joins again: up to five periods.
    replicas = list({replica.instance: replica for replica in replicas}.values())
    settle(replicas, now, 8 * PERIOD)
    check(stream)
    for shard in range(SHARDS):
        assert sum(replica.membership.owns_shard(shard) for replica in replicas) == bool(replicas)
    for part, groups in PARTS.items():
        split = {replica.membership.is_split(part) for replica in replicas if replica.membership.owns(part)}
        for group in groups:
            workers = [
                replica
                for replica in replicas
                if replica.membership.owns(group if replica.membership.is_split(part) else part)
            ]
            assert len(workers) == bool(replicas), (part, group, split)


def test_a_dead_member_is_replaced_within_three_periods_and_only_its_shares_move() -> None:
    stream = Stream()
    replicas = [Replica(stream, f"placement-{number}", f"member-{number}") for number in range(3)]
    now = settle(replicas, 0.0, 3 * PERIOD)
    owned = [{shard for shard in range(SHARDS) if replica.membership.owns_shard(shard)} for replica in replicas]
    assert sum(map(len, owned)) == SHARDS
    assert min(map(len, owned)) > SHARDS / 3 * 0.75, "the shards are even"
    dead = replicas.pop()
    settle(replicas, now, 3 * PERIOD)
    for replica, before in zip(replicas, owned, strict=False):
        assert before <= {shard for shard in range(SHARDS) if replica.membership.owns_shard(shard)}
    assert all(sum(replica.membership.owns_shard(shard) for replica in replicas) == 1 for shard in owned[2])
    assert dead.membership.owns_shard(min(owned[2])), "the dead member does not know yet"
    assert not stream.put(ShardWrite(min(owned[2]), dead.membership.member, dead.read)), (
        "but the server refuses its writes"
    )


def test_a_newcomer_owns_nothing_before_the_others_name_it() -> None:
    stream = Stream()
    old, new = Replica(stream, "a", "a1"), Replica(stream, "b", "b1")
    now = settle([old], 0.0, PERIOD)
    assert all(old.membership.owns_shard(shard) for shard in range(SHARDS))
    new.act(now)
    new.flush(10)
    new.receive(1000, now)
    assert new.membership.joined
    assert not any(new.membership.owns_shard(shard) for shard in range(SHARDS))
    old.work(0, now)
    old.receive(1000, now)
    assert old.membership.outdated
    assert not all(old.membership.owns_shard(shard) for shard in range(SHARDS)), "the old one stops at once"
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
    assert not replica.membership.may_work(now), "it waits for a period"
    now = settle([replica], now, PERIOD)
    assert replica.membership.owns_shard(0)
    assert replica.membership.may_work(now)


def test_two_processes_with_one_name_end_one_another_ever_more_rarely() -> None:
    stream = Stream()
    replicas = [Replica(stream, "a", "a1"), Replica(stream, "a", "a2")]
    now = settle(replicas, 0.0, 60 * PERIOD)
    before = len(stream.fenced)
    assert before <= 12
    settle(replicas, now, 60 * PERIOD)
    assert len(stream.fenced) <= before + 2
    assert max(replica.membership.pause for replica in replicas) >= 16 * PERIOD


def test_the_pause_after_a_fence_is_short_again_for_a_member_that_was_steady() -> None:
    stream = Stream()
    replica = Replica(stream, "a", "a1")
    now = settle([replica], 0.0, PERIOD)
    pauses = []
    for _ in range(3):
        stream.put(Fence(service="placement", member=replica.membership.member))
        now = settle([replica], now, PERIOD / 2)
        pauses.append(replica.membership.pause)
        now = settle([replica], now, (STEADY + 8) * PERIOD if len(pauses) == 2 else 5 * PERIOD)
    assert pauses == [PERIOD, 2 * PERIOD, PERIOD]


def test_a_member_that_never_names_others_is_reported_and_fenced() -> None:
    stream = Stream()
    silent, other = Replica(stream, "a", "a1"), Replica(stream, "b", "b1")
    now = settle([silent], 0.0, PERIOD)
    began = now
    while "a1" not in stream.fenced:
        now += 0.5
        # It renews its lease and always has writes in flight.
        if silent.membership.renewal_due(now):
            stream.put(silent.membership.lease(now, idle=False))
        silent.receive(1000, now)
        other.flush(1000)
        other.receive(1000, now)
        other.act(now)
        expected = ["a1"] if now - began > (NAMING_REPORTED + 1) * PERIOD else []
        if now - began < NAMING_REPORTED * PERIOD or expected:
            assert other.membership.unnaming(now) == expected
        other.flush(1000)
        assert now - began < (NAMING + 2) * PERIOD
    assert now - began >= NAMING * PERIOD
    settle([other], now, PERIOD)
    assert other.membership.owns_shard(0)
    assert other.membership.unnaming(now) == []


def test_a_large_part_is_divided_and_merged_again() -> None:
    stream = Stream()
    replicas = [Replica(stream, f"placement-{number}", f"member-{number}") for number in range(3)]
    now = settle(replicas, 0.0, 3 * PERIOD)
    (part,) = ["queue a"]
    (owner,) = [each for each in replicas if each.membership.owns(part)]
    for divided in (True, False):
        owner.membership.divide(part, divided=divided)
        now = settle(replicas, now, PERIOD)
        assert [each.membership.is_split(part) for each in replicas if each is not owner] == [divided, divided]
        assert owner.membership.is_split(part) == divided


def test_a_part_that_is_divided_anew_is_worked_on_by_groups_once_a_new_lease_says_so() -> None:
    stream = Stream()
    replicas = [Replica(stream, f"placement-{number}", f"member-{number}") for number in range(2)]
    now = settle(replicas, 0.0, 3 * PERIOD)
    part = "queue a"
    owner, other = sorted(replicas, key=lambda replica: not replica.membership.owns(part))
    for divided in (True, False):
        owner.membership.divide(part, divided=divided)
        now = settle(replicas, now, PERIOD)
    owner.membership.divide(part)
    stream.put(owner.membership.lease(now, idle=True))
    other.receive(1000, now)
    assert not other.membership.is_split(part), "its lease of before does not count"
    stream.put(other.membership.lease(now, idle=True))
    other.receive(1000, now)
    assert other.membership.is_split(part)


def test_who_owns_by_a_fact_waits_until_all_others_work_by_it() -> None:
    stream = Stream()
    replicas = [Replica(stream, "a", "a1"), Replica(stream, "b", "b1")]
    now = settle(replicas, 0.0, 3 * PERIOD)
    first, late = (each.membership for each in replicas)
    first.position_read = 10
    first.need_read(10)
    assert first.least_read < 10
    late.position_read = 10
    late.need_read(10)
    assert late.outdated
    stream.put(late.lease(now, idle=False))
    replicas[0].receive(1000, now)
    assert first.least_read < 10, "a write that it began before may be in flight"
    stream.put(late.lease(now, idle=True))
    replicas[0].receive(1000, now)
    assert first.least_read == 10


def test_a_member_that_joins_again_has_read_what_it_had_read_before() -> None:
    stream = Stream()
    replicas = [Replica(stream, "a", "a1"), Replica(stream, "b", "b1")]
    now = settle(replicas, 0.0, 3 * PERIOD)
    again, other = replicas
    for replica in replicas:
        replica.membership.position_read = 10
    now = settle(replicas, now, PERIOD)
    assert other.membership.least_read == 10
    stream.put(again.membership.end_own())
    again.receive(1000, now)
    stream.put(again.membership.lease(now, idle=False))
    other.receive(1000, now)
    assert set(other.membership.others) == {"a1-1"}
    assert other.membership.least_read == 10


def test_a_member_that_joins_again_owns_nothing_before_its_new_id_is_named() -> None:
    stream = Stream()
    replicas = [Replica(stream, "a", "a1"), Replica(stream, "b", "b1")]
    now = settle(replicas, 0.0, 3 * PERIOD)
    again, other = (replica.membership for replica in replicas)
    stream.put(again.end_own())
    replicas[0].receive(1000, now)
    stream.put(again.lease(now, idle=True))
    replicas[0].receive(1000, now)
    assert again.joined
    assert not any(map(again.owns_shard, range(SHARDS))), "the lease of the other one names its former id"
    replicas[1].receive(1000, now)
    stream.put(other.lease(now, idle=True))
    replicas[0].receive(1000, now)
    assert any(map(again.owns_shard, range(SHARDS)))


def test_of_a_deletion_while_a_newcomer_joins_exactly_one_member_reports() -> None:
    for read_by_old in (5, 9):
        stream = Stream()
        old, new = Replica(stream, "a", "a1"), Replica(stream, "b", "b1")
        now = settle([old], 0.0, PERIOD)
        key = next(key for key in map(str, range(SHARDS)) if _outranks("b", "a", shard_of(key)))
        new.membership.position_read = 5
        new.act(now)
        new.flush(10)
        new.receive(1000, now)
        assert new.membership.answers_for(key, 7) is None, "it has not been named"
        assert old.membership.answers_for(key, 3) is True
        old.receive(1000, now)
        assert old.membership.answers_for(key, 4) is True, "until it has named the newcomer"
        old.membership.position_read = read_by_old
        settle([old, new], now, PERIOD)
        assert old.membership.answers_for(key, 20) is False
        assert new.membership.answers_for(key, 20) is True
        assert new.membership.answers_for(key, 7) is (read_by_old < 7), "the old one has reported what it had read"


def _outranks(instance: str, other: str, shard: int) -> bool:
    digests = [blake2b(f"{shard}/{name}".encode(), digest_size=8).digest() for name in (instance, other)]
    return digests[0] > digests[1]


def test_leases_of_members_that_never_existed_are_bounded_and_fenced() -> None:
    stream = Stream()
    replica = Replica(stream, "a", "a1")
    now = settle([replica], 0.0, PERIOD)
    for number in range(2 * MAX_MEMBERS):
        stream.put(Lease(service="placement", member=f"stranger-{number}", instance=f"x-{number}"))
    replica.receive(10_000, now)
    assert len(replica.membership.others) == MAX_MEMBERS
    assert not replica.membership.owns_shard(0)
    settle([replica], now, 2 * PERIOD)
    assert replica.membership.owns_shard(0)


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


def test_a_member_that_could_not_name_another_one_during_an_outage_is_not_fenced_after_it() -> None:
    stream = Stream()
    busy, new = Replica(stream, "a", "a1"), Replica(stream, "b", "b1")
    now = settle([busy], 0.0, 2 * PERIOD)
    new.act(now)
    new.flush(10)
    new.receive(1000, now)
    assert new.membership.joined
    now += (NAMING + 1) * PERIOD
    # After the outage the newcomer's renewal arrives first.
    new.act(now)
    new.flush(10)
    new.receive(1000, now)
    assert new.membership.silent(now) == []
    assert new.membership.unnaming(now) == []
    assert new.membership.due() > now
    settle([busy, new], now, 2 * PERIOD)
    assert stream.fenced == set()


@given(st.integers(min_value=0))
def test_a_group_of_a_divided_part_has_one_owner_while_parts_are_divided_and_merged(seed: int) -> None:
    rng = random.Random(seed)
    stream = Stream()
    replicas = [Replica(stream, f"placement-{number}", f"member-{number}") for number in range(3)]
    now = settle(replicas, 100.0, 3 * PERIOD)
    for number in range(400):
        now += rng.choice([0.0, 0.0, 0.02, 0.1])
        if number == 200 and rng.random() < 0.5:
            replicas.append(Replica(stream, "placement-3", "member-3"))
        replica = rng.choice(replicas)
        match rng.randrange(6):
            case 0 | 1:
                replica.receive(rng.randrange(1, 60), now)
            case 2:
                replica.act(now)
            case 3:
                replica.work_on_parts(now)
            case 4:
                replica.flush(rng.randrange(1, 60), rng)
            case 5 if rng.random() < 0.3:
                replica.divide(rng)
    check(stream)
