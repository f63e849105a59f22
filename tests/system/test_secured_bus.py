"""The system on nats-servers with users and mutual TLS, as in a cluster: one is killed, and all keys are replaced.

``DEVICESHARE_SECURED_BINDINGS`` raises the number of pods; ``make chaos`` binds 2,000.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from deviceshare_bus.messages.permissions import USERS
from deviceshare_bus.messages.subjects import Stream
from deviceshare_cli.credentials import files, rotation
from deviceshare_cli.settled import SERVICES
from deviceshare_lab.checker.objects import violations
from support.manifests import node, pod
from support.secured import HOSTS, SETUP, SecuredSystem
from support.waiting import until

PODS = int(os.environ.get("DEVICESHARE_SECURED_BINDINGS", "300"))
LONGEST = 10.0 if PODS >= 2000 else 25.0
"""Seconds without a binding, at most; the short run of `make test-system` shares its machine with other tests."""
NODES = max(10, PODS // 20)
STEP = 5
"""Pods that are created every 0.1 s."""


async def feed(system: SecuredSystem, enough: Callable[[int], bool]) -> int:
    """Create pods at a constant rate until there are enough; return how many."""
    count = 0
    while not enough(count):
        await system.cluster.load([pod(each) for each in range(count, count + STEP)])
        count += STEP
        await asyncio.sleep(0.1)
    return count


async def check(system: SecuredSystem, count: int) -> None:
    """Check that all pods are bound, each once, on cards that have room for them, and that no right was missing."""
    objects = [await system.cluster.list(kind) for kind in ("Node", "Pod", "Event", "PodGroup")]
    assert violations(*objects) == []
    assert sum(1 for each in objects[1] if each["spec"].get("nodeName")) == count
    for name in (SETUP, *SERVICES):
        assert "nats-server denies" not in system.log(name), system.log(name)


@pytest.mark.timeout(400 + PODS // 4)
async def test_one_of_three_servers_is_killed_during_bindings(tmp_path: Path) -> None:
    async with SecuredSystem(tmp_path) as system:
        await system.cluster.load([node(number) for number in range(NODES)])
        feeding = asyncio.create_task(feed(system, lambda count: count >= PODS))
        await system.bound(PODS // 3, within=200)
        reader = await system.connect("reader")
        info = await reader.jetstream.stream_info(Stream.LEDGER)
        assert info.config.num_replicas == 3
        assert info.cluster is not None
        killed = time.monotonic()
        system.kill(str(info.cluster.leader))
        pods = await feeding
        await system.bound(pods, within=200 + PODS / 20)
        pause = system.longest_pause(killed, system.bindings[-1])
        sys.stderr.write(f"{pods} bindings, the leader of LEDGER killed: longest pause {pause:.1f} s\n")
        await check(system, pods)
        await reader.close()
        assert pause < LONGEST


@pytest.mark.timeout(400 + PODS // 4)
async def test_all_keys_and_certificates_are_replaced_under_load(tmp_path: Path) -> None:
    async with SecuredSystem(tmp_path, servers=1) as system:
        # Pods are created until the last step: the slower the machine, the more.
        await system.cluster.load([node(number) for number in range(10 * NODES)])
        pids = {name: system.pid(name) for name in (SETUP, *SERVICES, *system.servers)}
        old = {name: (system.credentials / name / "seed.nk").read_text() for name in SERVICES}
        stop = asyncio.Event()
        feeding = asyncio.create_task(feed(system, lambda _: stop.is_set()))
        await system.bound(PODS // 10, within=200)
        began = time.monotonic()
        rotation.begin(system.credentials, HOSTS)
        await system.reload()
        await system.bound(len(system.bindings) + PODS // 10, within=200)
        rotation.finish(system.credentials)
        await system.reload()  # it ends all connections: their keys are not valid any more
        await system.bound(len(system.bindings) + PODS // 10, within=200)
        stop.set()
        pods = await feeding
        await system.bound(pods, within=200)
        pause = system.longest_pause(began, system.bindings[-1])
        sys.stderr.write(f"{pods} bindings, all keys and certificates replaced: longest pause {pause:.1f} s\n")
        assert {name: system.pid(name) for name in pids} == pids, "no process was restarted"
        for name, seed in old.items():
            assert (system.credentials / name / "seed.nk").read_text() != seed
            assert "connected again" in system.log(name)
        await check(system, pods)
        text = (system.credentials / files.SERVER / files.AUTHORIZATION).read_text()
        assert text.count("nkey:") == len(USERS)
        assert pause < LONGEST


async def test_a_stream_that_vanishes_is_created_again_by_the_set_up_step_alone(tmp_path: Path) -> None:
    async with SecuredSystem(tmp_path, servers=1) as system:
        await system.cluster.load([node(number) for number in range(3)])
        await system.cluster.load([pod(number) for number in range(10)])
        await system.bound(10, within=200)
        await system.stop(SETUP)
        connection = await system.connect("admin")
        await connection.jetstream.delete_stream(Stream.EXPLAIN)
        await until(lambda: "stream EXPLAIN does not exist: waiting for the set-up step" in system.log("inventory"))
        await system.start(SETUP)
        await system.cluster.load([pod(number) for number in range(10, 20)])
        await system.bound(20, within=200)
        assert "creating stream EXPLAIN" in system.log(SETUP)
        assert not any("creating stream" in system.log(name) for name in SERVICES)
        await connection.close()
