"""The core log of a placement replica, replayed on a fresh core in another process: all commands are identical."""

import io
import os
import random
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from deviceshare.model import ConfigFact, GroupKey, PodGroupFact
from deviceshare_bus.cores.core import Command, Event, Now
from deviceshare_bus.cores.core_log import CoreLog, read_dump, replay
from deviceshare_placement.core import PlacementCore, build_core, decode_event
from support.builders import card, node, pod, vgpu
from support.bus_simulation import STREAMS, Binder, Bus, Cluster, Replica

CONF = """
actions: enqueue, allocate, backfill
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: deviceshare
    arguments:
      deviceshare.VGPUEnable: true
      deviceshare.SchedulePolicy: binpack
      deviceshare.StarvationSeconds: 20
  - name: proportion
  - name: binpack
"""
REQUESTS = [vgpu(1, 40), vgpu(2, 60), vgpu(1, 50, 100), vgpu(3, 10), vgpu(2)]
ARGUMENTS = {"instance": "placement-1", "claim_prefix": "placement-1"}
REPLAY = """
import sys
from deviceshare_bus.cores.core_log import read_dump, replay
from deviceshare_placement.core import build_core, decode_event
with open(sys.argv[1], "rb") as file:
    header, entries = read_dump(file)
    found = [each.identical for each in replay(build_core(header.arguments), entries, decode_event)]
print(len(found), found.count(False), found.index(False) if False in found else "")
"""


class LoggedCore:
    """A core whose events and commands are logged as the shell logs them."""

    def __init__(self, core: PlacementCore, log: CoreLog) -> None:
        self._core = core
        self._log = log
        self.next_due = core.next_due

    @property
    def open_work(self) -> int:
        return self._core.open_work

    def handle(self, event: Event, now: Now) -> list[Command]:
        commands = self._core.handle(event, now)
        self._log.append(now, event, commands)
        return commands


class Life:
    """Two replicas, a binder, and a cluster that changes at random; the first replica is logged."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = 1000.0
        bus = Bus()
        self.cluster = Cluster(bus)
        self.binder = Binder(bus, self.cluster)
        self.log = CoreLog("placement", "placement-1", ARGUMENTS)
        bus.put("CLUSTER", "cluster.config.scheduler", ConfigFact(name="scheduler", text=CONF, source="conf"))
        for name in ("a", "b", "c", "d"):
            self.cluster.put(node(name, [card(at, node=name, memory=100, slots=3) for at in range(2)], pods=5))
        self.cluster.sync()
        logged = LoggedCore(build_core(ARGUMENTS), self.log)
        self.replicas = [Replica(bus, "placement-1", logged), Replica(bus, "placement-2")]

    def run(self, steps: int) -> bytes:
        """Let things happen; return the core log. Answers arrive late, in any order, or never."""
        actions = (self.create_pod, self.create_gang, self.delete_pod, self.end_pod, self.lose_writes, self.bind)
        for number in range(steps):
            self.chance.choice(actions)(number)
            self.now += self.chance.choice((0.0, 0.1, 1.0, 15.0))
            for replica in self.replicas:
                for stream in STREAMS:
                    replica.read(stream, self.chance.randrange(20), self.now)
                replica.tick(self.now)
                while replica.answers and self.chance.random() < 0.9:
                    replica.answer(self.chance.randrange(100), self.now)
                while replica.read_backs and self.chance.random() < 0.9:
                    replica.read_back(self.chance.randrange(100), self.now)
        return self.log.dump()

    def create_pod(self, number: int) -> None:
        request, priority = self.chance.choice(REQUESTS), self.chance.randrange(2)
        self.cluster.put(pod(f"p{number}", request, created=self.now, priority=priority))

    def create_gang(self, number: int) -> None:
        size = self.chance.randrange(2, 5)
        group = PodGroupFact(key=GroupKey(f"ns/g{number}"), uid=f"g{number}", min_member=size - 1, created=self.now)
        self.cluster.put(group)
        for member in range(size):
            self.cluster.put(pod(f"g{number}-{member}", REQUESTS[0], gang=f"g{number}", created=self.now))

    def delete_pod(self, number: int) -> None:
        if self.cluster.pods:
            self.cluster.remove("pod", self.chance.choice(sorted(self.cluster.pods)))

    def end_pod(self, number: int) -> None:
        bound = sorted(uid for uid, each in self.cluster.pods.items() if each.node)
        if bound:
            self.cluster.end(self.chance.choice(bound))

    def lose_writes(self, number: int) -> None:
        self.chance.choice(self.replicas).lose_writes(self.now, [self.chance.random() < 0.5 for _ in range(3)])

    def bind(self, number: int) -> None:
        for _ in range(10):
            self.binder.work(refuse=self.chance.random() < 0.2)


@pytest.mark.parametrize("seed", range(2))
def test_a_replay_gives_identical_commands(seed: int, tmp_path: Path) -> None:
    dump = Life(seed).run(120)
    header, entries = read_dump(io.BytesIO(dump))
    replayed = list(replay(build_core(header.arguments), entries, decode_event))
    assert header.dropped == 0
    assert sum(len(each.commands) for each in replayed) > 200
    assert [msgspec.to_builtins(each.event) for each in replayed if not each.identical] == []
    path = tmp_path / "placement.corelog"
    path.write_bytes(dump)
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    command = [sys.executable, "-c", REPLAY, path]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.split() == [str(len(replayed)), "0"]
