"""What ResourceClaims count in queues that name amounts of devices: each once, with the devices that it has."""

import json
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from deviceshare.conf import default_conf, tiers
from deviceshare.conf.model import Plugin
from deviceshare.model import (
    ContainerGrant,
    DeviceClaim,
    DeviceGrant,
    DeviceSliceFact,
    Gone,
    Now,
    PodGroupFact,
    QueueFact,
)
from deviceshare.objects import decode_queue
from deviceshare.objects.devices import decode_device_slice
from deviceshare.preemption import shares
from deviceshare.queueing import Queues
from deviceshare.scheduler import Scheduler
from deviceshare.state import Trial
from msgspec.structs import replace
from support.builders import card, node, vgpu
from support.counted_claims import BIG, MEMORY, SMALL, choosing, cluster_devices, devices, exactly, small
from support.devices import DRIVER, NOW, claim, gpu_class, gpus, key_of, scheduler_with, using

VGPU_MEMORY = "volcano.sh/vgpu-memory"
CAPACITY = replace(default_conf(), dra=True, tiers=(*tiers("priority gang"), (Plugin("drf"), Plugin("capacity"))))


def placed(scheduler: Scheduler, at: float = 10.0) -> list[str]:
    """Decide a round, let its decisions stand, and return the pods."""
    found = []
    now = Now(at, 1e9 + at)
    for fact, placement, decision in scheduler.round(now).placed:
        made = scheduler.new_claim(f"claim-{fact.uid}", fact, placement, decision, now)
        scheduler.claim(placement.node, [*scheduler.cluster.ledger(placement.node).claims.values(), made])
        found.append(fact.name)
    return sorted(found)


def cluster(*facts: Any, queues: tuple[QueueFact, ...], conf=CAPACITY) -> Scheduler:
    scheduler = scheduler_with(node("n"), gpu_class("small"), *facts)
    scheduler.configure(conf)
    for queue in queues:
        scheduler.apply(key_of(queue), queue, NOW)
    return scheduler


def used(scheduler: Scheduler, queue: str = "default") -> Counter[str]:
    return devices(scheduler.cluster.accounts.account(queue).used)


LIMITED = QueueFact(name="default", capability={SMALL: 2})


@pytest.mark.parametrize("conf", [CAPACITY, replace(default_conf(), dra=True)], ids=["capacity", "proportion"])
def test_a_queue_has_no_more_devices_of_a_class_than_its_capability(conf) -> None:
    pods = [using(f"p{at}", f"c{at}") for at in range(3)]
    claims = [claim(f"c{at}", class_name="small") for at in range(3)]
    scheduler = cluster(gpus("n", 8), *claims, *pods, queues=(LIMITED,), conf=conf)
    assert placed(scheduler) == ["p0", "p1"]
    assert used(scheduler) == {SMALL: 2}
    message = scheduler.explain("uid-p2", NOW).message
    assert "queue 'default' has a capability of 2 of deviceclass/small, 2 used, 1 asked" in message
    scheduler.apply(key_of(pods[0]), Gone(), NOW)
    scheduler.claim("n", [each for each in scheduler.cluster.ledger("n").claims.values() if each.name != "p0"])
    assert placed(scheduler, 20.0) == ["p2"]
    assert used(scheduler) == {SMALL: 2}


def test_without_such_amounts_in_a_queue_claims_do_not_count() -> None:
    scheduler = cluster(
        gpus("n", 8), claim("c", 8, class_name="small"), using("p", "c"), queues=(QueueFact(name="default"),)
    )
    assert placed(scheduler) == ["p"]
    assert used(scheduler) == {}
    scheduler.apply(key_of(LIMITED), LIMITED, NOW)
    assert used(scheduler) == {SMALL: 8}, "from now on"
    scheduler.apply(key_of(LIMITED), QueueFact(name="default"), NOW)
    assert used(scheduler) == {}


def test_a_claim_made_anew_counts_nothing_of_what_was_decided_for_the_former_one() -> None:
    wide = QueueFact(name="default", capability={SMALL: 8})
    former = claim("c", 4, class_name="small")
    scheduler = cluster(gpus("n", 8), former, using("p", "c"), queues=(wide,))
    assert placed(scheduler) == ["p"]
    assert used(scheduler) == {SMALL: 4}
    scheduler.apply(key_of(former), Gone(), NOW)
    assert used(scheduler) == {}
    anew = replace(claim("c", 1, class_name="small"), uid="other")
    scheduler.apply(key_of(anew), anew, NOW)
    assert used(scheduler) == {SMALL: 1}


def test_a_claim_of_several_pods_counts_once() -> None:
    pods = [using(name, "shared") for name in ("x", "y", "z")]
    scheduler = cluster(gpus("n", 8), claim("shared", 2, class_name="small"), *pods, queues=(LIMITED,))
    assert placed(scheduler) == ["x", "y", "z"]
    assert used(scheduler) == {SMALL: 2}
    for at, fact in enumerate(pods):
        assert used(scheduler) == {SMALL: 2}
        scheduler.apply(key_of(fact), Gone(), NOW)
        left = [each for each in scheduler.cluster.ledger("n").claims.values() if each.name > fact.name]
        scheduler.claim("n", left)
        assert len(left) == 2 - at
    assert used(scheduler) == {}


@pytest.mark.parametrize(("created", "fits"), [(0.0, False), (2.0, True)], ids=["older", "younger"])
def test_a_claim_that_would_count_in_the_queue_of_an_older_pod_is_compared_with_its_limits(created, fits) -> None:
    rich, poor = QueueFact(name="rich", capability={SMALL: 2}), QueueFact(name="poor", capability={SMALL: 1})
    first = replace(using("p", "c", created=1.0), queue="rich")
    scheduler = cluster(gpus("n", 2), claim("c", 2, class_name="small"), first, queues=(rich, poor))
    assert placed(scheduler) == ["p"]
    other = replace(using("o", "c", created=created), queue="poor")
    scheduler.apply(key_of(other), other, NOW)
    assert placed(scheduler, 20.0) == (["o"] if fits else [])
    assert (used(scheduler, "rich"), used(scheduler, "poor")) == ({SMALL: 2}, {})


def test_the_alternative_counts_that_a_claim_gets() -> None:
    """There is no big device: the place shows that the claim takes two small ones, which are too many."""
    wants = choosing("c")
    facts = [gpu_class("big", "false"), gpus("n", 8), wants, using("p", "c")]
    none = QueueFact(name="default", capability={BIG: 5, SMALL: 1})
    scheduler = cluster(*facts, queues=(none,))
    assert placed(scheduler) == []
    assert "has a capability of 1 of deviceclass/small, 0 used, 2 asked" in scheduler.explain("uid-p", NOW).message
    scheduler.apply(key_of(none), QueueFact(name="default", capability={BIG: 0, SMALL: 2}), NOW)
    assert placed(scheduler, 20.0) == ["p"], "it may have no big device, and gets none"
    assert used(scheduler) == {SMALL: 2}


def test_mode_all_counts_as_many_as_there_are() -> None:
    every = replace(exactly(allocationMode="All"), key="ns/c")
    scheduler = cluster(gpus("n", 3), every, using("p", "c"), queues=(LIMITED,))
    assert placed(scheduler) == []
    assert "has a capability of 2 of deviceclass/small, 0 used, 3 asked" in scheduler.explain("uid-p", NOW).message
    wide = QueueFact(name="default", capability={SMALL: 3})
    scheduler.apply(key_of(wide), wide, NOW)
    assert placed(scheduler, 20.0) == ["p"]
    assert used(scheduler) == {SMALL: 3}


def sharable(node: str, count: int, **capacity: str) -> DeviceSliceFact:
    """Return devices of which claims have shares, with these capacities."""
    values = {name: {"value": value} for name, value in capacity.items()}
    devices = [{"name": f"gpu-{at}", "allowMultipleAllocations": True, "capacity": values} for at in range(count)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return decode_device_slice(json.dumps({"metadata": {"name": f"{node}-gpus"}, "spec": spec}).encode())


@pytest.mark.parametrize("capacity", [{}, {"capacity": {"requests": {"cores": "1"}}}], ids=["whole", "other"])
def test_a_share_counts_the_capacities_that_its_request_does_not_name(capacity) -> None:
    """It gets all of what is there of them."""
    wants = [replace(exactly(**capacity), key=f"ns/{name}") for name in "ab"]
    limited = QueueFact(name="default", capability={MEMORY: 12})
    facts = [sharable("n", 2, memory="10", cores="4"), *wants, *(using(name, name) for name in "ab")]
    scheduler = cluster(*facts, queues=(limited,))
    assert placed(scheduler) == ["a"]
    assert used(scheduler) == {MEMORY: 10}
    message = scheduler.explain("uid-b", NOW).message
    assert "has a capability of 12 of memory.deviceclass/small, 10 used, 10 asked" in message


def test_a_pod_group_is_admitted_with_the_claims_of_its_pods() -> None:
    groups = [PodGroupFact(key=f"ns/{name}", min_member=1, min_resources={"cpu": 100}) for name in "ab"]
    pods = [using(name, name, gang=name) for name in "ab"]
    claims = [claim(name, 2, class_name="small") for name in "ab"]
    conf = replace(CAPACITY, actions=("enqueue", "allocate"))
    scheduler = cluster(gpus("n", 8), *groups, *claims, *pods, queues=(LIMITED,), conf=conf)
    scheduler.round(NOW)
    assert scheduler.cluster.groups["ns/a"].admitted
    assert not scheduler.cluster.groups["ns/b"].admitted
    assert "2 promised, 2 asked" in scheduler.cluster.groups["ns/b"].reported


def test_reclaim_takes_devices_of_which_a_queue_has_more_than_it_deserves() -> None:
    queues = [QueueFact(name=name, deserved={SMALL: 1}) for name in ("rich", "poor")]
    pods = [replace(using(f"p{at}", f"c{at}"), queue="rich") for at in range(2)]
    waits = replace(using("w", "cw"), queue="poor")
    claims = [claim(name, class_name="small") for name in ("c0", "c1", "cw")]
    scheduler = cluster(gpus("n", 2), *claims, *pods, queues=tuple(queues))
    assert placed(scheduler) == ["p0", "p1"]
    scheduler.apply(key_of(waits), waits, NOW)
    assert placed(scheduler, 20.0) == []
    accounts, taker = scheduler.cluster.accounts, SimpleNamespace(queue="poor", pods=[waits])
    assert shares.within_deserved(accounts, taker, 0)
    allows = shares.above_deserved(accounts, taker, 0)
    one, other = (SimpleNamespace(uid=each.uid, queue="rich") for each in pods)
    assert allows([one])
    assert not allows([one, other]), "it keeps what it deserves"


def test_shares_count_what_they_consume() -> None:
    wants = exactly(capacity={"requests": {"memory": "1500m"}}, count=2)
    queues = Queues(CAPACITY)
    queues.claims.known = known = cluster_devices()
    known.put(replace(wants, key="ns/c"))
    queues.set_queue(QueueFact(name="q", capability={MEMORY: 10}))
    fact = using("p", "c")
    queues.put(fact, "q", fact.group)
    assert devices(queues.account("q").requested) == {MEMORY: 3}
    given = small("x", shared=True, consumed=(("memory", "2"),)) + small(
        "y", shared=True, consumed=(("memory", "2500m"),)
    )
    queues.hold(fact.uid, (), (DeviceClaim("", "", given),))
    assert devices(queues.account("q").used) == {MEMORY: 5}
    queues.release(fact.uid)
    assert devices(queues.account("q").used) == {}
    assert devices(queues.account("q").requested) == {MEMORY: 3}


def test_the_claims_of_a_pod_that_counts_by_its_cards_are_settled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = Queues(CAPACITY)
    queues.claims.known = known = cluster_devices()
    known.put(claim("c", 2, class_name="small"))
    queues.set_node(node("n", [card(0, memory=4000)]))
    queues.set_queue(QueueFact(name="q", capability={SMALL: 10}))
    fact = replace(using("p", "c"), ask=vgpu(1, percentage=50))
    queues.put(fact, "q", fact.group)
    settled, settle = list[str](), queues.claims.settle
    monkeypatch.setattr(queues.claims, "settle", lambda key: settled.append(key) or settle(key))
    given = ContainerGrant("c0", 0, "hami-core", (DeviceGrant("GPU-0", 0, 500, 0),))
    with Trial(queues.undo_log):
        queues.hold(fact.uid, [given], (DeviceClaim("", "", small("x", "y")),))
        assert settled == ["ns/c"]
        assert (queues.account("q").used[SMALL], queues.account("q").used[VGPU_MEMORY]) == (2, 500)
    assert (queues.account("q").used[SMALL], queues.account("q").used[VGPU_MEMORY]) == (0, 0)
    assert (queues.account("q").requested[SMALL], queues.account("q").requested[VGPU_MEMORY]) == (2, 2000)


def test_the_names_are_those_of_volcano() -> None:
    spec = {"capability": {BIG: "2", MEMORY: "4Gi"}, "guarantee": {"resource": {BIG: "1"}}, "deserved": {SMALL: 1}}
    fact = decode_queue(json.dumps({"metadata": {"name": "q"}, "spec": spec}).encode())
    assert (fact.capability, fact.guarantee, fact.deserved) == ({BIG: 2, MEMORY: 2**32}, {BIG: 1}, {SMALL: 1})
    assert not fact.problems
