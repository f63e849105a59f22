"""What a replica reports of other replicas, and the guards of its writes."""

import pytest
from deviceshare_bus.cores.core import Command, Count, Log, Now, PutLatest
from deviceshare_bus.cores.division import Division, FenceReceived, LeaseReceived
from deviceshare_bus.messages.leases import LEASE_SECONDS, NAMING_REPORTED, PERIOD, Fence, Lease
from deviceshare_bus.messages.subjects import Stream


class One:
    """A replica whose own messages arrive at once."""

    def __init__(self) -> None:
        self.division = Division(Stream.LEDGER, "placement", "a", "a1")
        self.now = 0.0
        self.commands: list[Command] = []
        self.settle(PERIOD)

    def receive(self, message: Lease | Fence) -> None:
        event = LeaseReceived(message) if isinstance(message, Lease) else FenceReceived(message)
        self.commands += self.division.handle(event, Now(self.now, self.now))

    def settle(self, seconds: float, *others: Lease) -> None:
        """Let time pass in which others renew their leases."""
        end = self.now + seconds
        while self.now < end:
            self.now += 0.5
            for other in others:
                self.receive(Lease(**{**_fields(other), "number": int(self.now * 10)}))
            for command in self.division.tick(Now(self.now, self.now), idle=True, active=True):
                self.commands.append(command)
                if isinstance(command, PutLatest):
                    self.receive(command.message)

    def logged(self, level: str) -> list[str]:
        return [command.message for command in self.commands if isinstance(command, Log) and command.level == level]


def _fields(lease: Lease) -> dict[str, object]:
    return {name: getattr(lease, name) for name in lease.__struct_fields__}


def other(*members: str, instance: str = "b") -> Lease:
    return Lease(service="placement", member="b1", instance=instance, members=members)


def test_a_member_that_does_not_name_this_one_is_an_obstacle_until_it_does() -> None:
    one = One()
    one.settle((NAMING_REPORTED + 1) * PERIOD, other())
    assert "b1" in one.division.obstacle
    assert Count("members_unnamed", 1) in one.commands
    assert len(one.logged("warning")) == 1, "it is reported once"
    one.settle(PERIOD, other("a1"))
    assert one.division.obstacle == ""


@pytest.mark.parametrize("instance", ["a", "b"])
def test_a_fenced_member_says_why_and_when_it_joins_again(instance: str) -> None:
    one = One()
    one.receive(other("a1", instance=instance))
    one.receive(Fence(service="placement", member="a1"))
    if instance == "a":
        (error,) = one.logged("error")
        assert "--instance" in error
        assert f"again in {PERIOD:g} seconds" in error
    else:
        assert one.logged("error") == []
        assert len(one.logged("warning")) == 1


def test_a_replica_that_had_others_guards_its_writes_until_they_cannot_come_back_unseen() -> None:
    one = One()
    assert one.division.guard is None, "it has always been alone"
    one.settle(PERIOD, other("a1"))
    guard = one.division.guard
    assert guard is not None
    assert one.division.guard is guard, "one message for all writes until the lease is renewed"
    one.receive(Fence(service="placement", member="b1"))
    one.settle(PERIOD)
    assert one.division.guard is not None
    assert one.division.guard is not guard
    one.now += LEASE_SECONDS
    one.settle(PERIOD)
    assert one.division.guard is None
