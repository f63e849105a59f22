"""Whatever the order in which facts and ledgers are read, devices that claims have are given to no other pod."""

from random import Random

import pytest
from deviceshare.conf import default_conf
from deviceshare.families.dra import overused
from deviceshare.model import Claim, DeviceClaim, DeviceResult
from deviceshare.scheduler import Scheduler
from msgspec.structs import replace
from support.builders import node
from support.devices import DRIVER, NOW, allocated, claim, gpu_class, gpus, key_of, using


def shuffled(seed: int) -> Scheduler:
    """Return a scheduler that has read two bound pods, one open claim and three waiting pods in some order."""
    found = Scheduler("s")
    found.configure(replace(default_conf(), dra=True))
    open_claim = Claim(
        id="c1", uid="uid-open", namespace="ns", name="open",
        devices=(DeviceClaim("ns/open", "uid-open", (DeviceResult("r", DRIVER, "b", "gpu-0"),), "b"),),
    )  # fmt: skip
    facts = [
        node("a"), node("b"), gpu_class(), gpus("a", 2), gpus("b", 2),
        allocated(claim("one", owner="uid-one"), [("a", "gpu-0")], "uid-one"),
        using("one", "one", template="t", node="a"),
        allocated(claim("shared"), [("a", "gpu-1")], "uid-two"),
        using("two", "shared", node="a"),
        claim("open"), using("open", "open"),
        *(claim(name) for name in "xyz"), *(using(name, name) for name in "xyz"),
    ]  # fmt: skip
    steps = [lambda fact=fact: found.apply(key_of(fact), fact, NOW) for fact in facts]
    steps.append(lambda: found.claim("b", [open_claim]))
    Random(seed).shuffle(steps)
    for step in steps:
        step()
    found.begin()
    return found


@pytest.mark.parametrize("seed", range(100))
def test_devices_in_use_are_not_given_whatever_is_read_first(seed: int) -> None:
    scheduler = shuffled(seed)
    given = [
        (each.pool, each.device)
        for _, placement, _ in scheduler.round(NOW).placed
        for of_claim in placement.devices
        for each in of_claim.results
    ]
    assert given == [("b", "gpu-1")]
    assert not overused(scheduler.cluster.allocator.devices, DeviceResult("r", DRIVER, "a", "gpu-0"))
