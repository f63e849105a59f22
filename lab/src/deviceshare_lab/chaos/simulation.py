"""Playing scenarios: a history from a seed, its checks, and its end, when everything has to settle."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from deviceshare.conf import effective, parse_conf, parse_devices
from deviceshare_bus.runtime.shell import Shell
from deviceshare_bus.streams import follower, stream_watch
from deviceshare_bus.streams.follower import CHECK
from deviceshare_inventory.core import configs

from deviceshare_lab.chaos import faults, sizes, workload
from deviceshare_lab.chaos.scenario import Scenario
from deviceshare_lab.chaos.system import System
from deviceshare_lab.checker import Violation
from deviceshare_lab.clusters import manifests
from deviceshare_lab.world.virtual_time import run

SETTLE = 300.0
"""Seconds after the last fault within which the system has to settle."""
POLL = 1.0
"""Seconds between two looks at whether it has."""
CHECKS = (CHECK, 5.0, 5.0, 5.0)
"""Seconds between two looks of the services at the state of a stream: the product's, or more, since they cost most of
the time of a history in which nothing happens."""
HEARTBEAT = 2.0
"""Seconds between two heartbeats of the simulated nats-server, unless the product looks as often as usual."""
PREEMPTS = 0.5
"""The share of histories in which pods go for others."""
BREAKS = 0.2
"""The share of histories in which configurations cannot be used for a time."""
LINGER = (0.0, 0.0, 5.0, 15.0)
"""Seconds for which a history goes on after the system has settled."""


class Played(NamedTuple):
    """A history that was played: ``text`` is its record, ``seconds`` its virtual duration."""

    scenario: Scenario
    text: str
    seconds: float
    violation: Violation | None


def draw(
    seed: str,
    replicas: Mapping[str, int] | None = None,
    fault_names: Sequence[str] | None = None,
    size: str | None = None,
) -> Scenario:
    """Draw the scenario of a seed. The replicas and the size are drawn, too, where they are not given.

    ``fault_names``: the faults to choose from, by default all; ``size``: a key of :data:`.sizes.SIZES`.
    """
    chance = random.Random(f"{seed}/scenario")
    bounds = sizes.SIZES[size or sizes.draw(chance)]
    names = sorted(faults.FAULTS) if fault_names is None else list(fault_names)
    families = sorted(manifests.FAMILIES)
    nodes = {f"node-{number}": chance.choice(families) for number in range(chance.randint(*bounds.nodes))}
    counts = {service: chance.choice(numbers) for service, numbers in bounds.replicas.items()} | dict(replicas or {})
    check, linger = chance.choice(CHECKS), chance.choice(LINGER)
    episodes = workload.Episodes(chance, bounds)
    steps = workload.draw(chance, nodes, bounds, episodes)
    if names:
        steps += faults.draw(chance, counts, bounds, episodes, names)
    # From a source of its own, so that the rest of a history is the same with and without.
    priorities = random.Random(f"{seed}/priorities")
    preempts = priorities.random() < PREEMPTS
    if preempts:
        steps = workload.with_priorities(priorities, steps)
    configurations = random.Random(f"{seed}/configurations")
    if configurations.random() < BREAKS:
        steps += workload.broken_configurations(configurations, bounds)
    return Scenario(seed, nodes, counts, tuple(sorted(steps, key=lambda step: step.at)), check, linger, preempts)


def play(scenario: Scenario) -> Played:
    """Play a scenario in virtual time until it has settled, or a rule is broken."""

    async def main() -> Played:
        system = System(scenario.seed, scenario.nodes, scenario.replicas, preempts=scenario.preempts)
        try:
            await _play(system, scenario)
        finally:
            system.end()
        violation = system.checkers.violation
        seconds = asyncio.get_running_loop().time()
        return Played(scenario, f"{scenario}\n\n{system.history.text()}", seconds, violation)

    heartbeat = follower.HEARTBEAT if scenario.check == CHECK else HEARTBEAT
    with (
        patch.multiple(effective, parse_conf=_parse_conf, parse_devices=_parse_devices),
        patch.object(configs, "parse_devices", _parse_devices),
        patch.object(Shell, "dump", lambda shell: Path("not written")),
        patch.object(follower, "CHECK", scenario.check),
        patch.object(stream_watch, "CHECK", scenario.check),
        patch.object(follower, "HEARTBEAT", heartbeat),
    ):
        return run(main, scenario.seed)


_parse_conf, _parse_devices = cache(parse_conf), cache(parse_devices)
"""Each of the few configurations is parsed once for all services and histories of a process: results are frozen."""


async def _play(system: System, scenario: Scenario) -> None:
    loop = asyncio.get_running_loop()
    await system.set_up()
    for process in system.processes:
        process.start()
    began = loop.time()
    for step in scenario.steps:
        await asyncio.sleep(max(0.0, began + step.at - loop.time()))
        if system.checkers.violation is not None:
            return
        system.note(f"# {step.action} {' '.join(map(str, step.arguments))}")
        if not workload.play(system, step):
            faults.play(system, step)
    faults.end_all(system)
    system.note("# all faults have ended")
    await _settle(system, scenario.linger)


async def _settle(system: System, linger: float) -> None:
    """Wait until the system has settled, and then for some seconds after which it must be settled again."""
    loop = asyncio.get_running_loop()
    until = loop.time() + SETTLE
    lingers = False
    while system.checkers.violation is None:
        await asyncio.sleep(POLL)
        problems = system.problems()
        if not problems and (lingers or not linger):
            return
        if not problems:
            lingers = True
            await asyncio.sleep(linger)
        elif loop.time() >= until:
            system.checkers.report("everything settles", "; ".join(problems[:10]))
