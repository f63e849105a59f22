"""Playing scenarios: a history from a seed, its checks, and its end, when everything has to settle."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from deviceshare_bus.shell import Shell

from deviceshare_cli.chaos import faults, manifests, workload
from deviceshare_cli.chaos.checkers import Violation
from deviceshare_cli.chaos.scenario import Scenario
from deviceshare_cli.chaos.system import System
from deviceshare_cli.chaos.virtual_time import run

SETTLE = 300.0
"""Seconds after the last fault within which the system has to settle."""
POLL = 5.0
"""Seconds between two looks at whether it has."""
NODES = (2, 6)
FAULTS = 7
"""Faults of a history, at most."""


class Played(NamedTuple):
    """A history that was played: ``text`` is its record, ``seconds`` its virtual duration."""

    scenario: Scenario
    text: str
    seconds: float
    violation: Violation | None


def draw(seed: str, replicas: Mapping[str, int] | None = None, fault_names: Sequence[str] | None = None) -> Scenario:
    """Draw the scenario of a seed. The replicas are drawn, too, where they are not given.

    ``fault_names``: the faults to choose from; by default all that the product survives.
    """
    chance = random.Random(f"{seed}/scenario")
    names = sorted(faults.FAULTS.keys() - faults.NOT_SURVIVED_YET) if fault_names is None else list(fault_names)
    families = sorted(manifests.FAMILIES)
    nodes = {f"node-{number}": chance.choice(families) for number in range(chance.randint(*NODES))}
    drawn = {"inventory": chance.choice((1, 1, 2)), "placement": chance.choice((1, 2, 3))}
    drawn |= {"binder": chance.choice((1, 1, 2)), "metrics": 1}
    counts = drawn | dict(replicas or {})
    episodes = workload.draw_episodes(chance)
    steps = workload.draw(chance, nodes, episodes)
    if names:
        steps += faults.draw(chance, counts, [workload.moment(chance, episodes) for _ in range(FAULTS)], names)
    return Scenario(seed, nodes, counts, tuple(sorted(steps, key=lambda step: step.at)))


def play(scenario: Scenario) -> Played:
    """Play a scenario in virtual time until it has settled, or a rule is broken."""

    async def main() -> Played:
        system = System(scenario.seed, scenario.nodes, scenario.replicas)
        try:
            await _play(system, scenario)
        finally:
            system.end()
        violation = system.checkers.violation
        seconds = asyncio.get_running_loop().time()
        return Played(scenario, f"{scenario}\n\n{system.history.text()}", seconds, violation)

    with (
        patch.object(Shell, "dump", lambda shell: Path("not written")),
    ):
        return run(main, scenario.seed)


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
    await _settle(system)


async def _settle(system: System) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + SETTLE
    while system.checkers.violation is None:
        await asyncio.sleep(POLL)
        problems = system.problems()
        if not problems:
            return
        if loop.time() >= until:
            system.checkers.report("everything settles", "; ".join(problems[:10]))
