"""Measurement of decisions about victims, in a cluster that changes between them."""

import gc
import time
from typing import NamedTuple

from deviceshare.model import GroupKey, Now, PodFact
from deviceshare.scheduler import Scheduler
from msgspec.structs import replace

from deviceshare_lab.bench.preemption.cluster import CARD_TYPES, WAITING, budget, facts

_NOW = Now(10.0, 1_000_000.0)
_CHANGED = 50
"""Pods whose facts change between two decisions."""


class Decisions(NamedTuple):
    """The decisions for one group: milliseconds of CPU time of each, sorted, of the first, and the victims."""

    name: str
    milliseconds: list[float]
    first: float
    victims: int
    priorities: int


class Run(NamedTuple):
    """The decisions for each group; ``pods``: those that run; ``setup_seconds``: until the cluster was known."""

    pods: int
    setup_seconds: float
    decisions: list[Decisions]


def measure(nodes: int, cards: int, decisions: int, family: str) -> Run:
    """Measure so many decisions for each group; none of them is carried out. ``family``: a key of ``CARD_TYPES``.

    CPU time, since other processes would count in the latency of so short a time; a decision waits for nothing.
    """
    began = time.process_time()
    scheduler = Scheduler("bench")
    running: list[tuple[str, PodFact]] = []
    for key, fact in facts(nodes, cards, nodes, CARD_TYPES[family]):
        scheduler.apply(key, fact, _NOW)
        if isinstance(fact, PodFact) and fact.node:
            running.append((key, fact))
    scheduler.begin()
    gc.collect()
    gc.freeze()
    setup = time.process_time() - began
    found = []
    changes = 0
    for group in WAITING:
        scheduler.apply(*budget(group.allowed), _NOW)
        times = []
        for _ in range(decisions + 1):
            for key, fact in (running[(changes + at) % len(running)] for at in range(_CHANGED)):
                scheduler.apply(key, replace(fact, revision=str(changes)), _NOW)
            changes += _CHANGED
            before = time.process_time()
            answer = scheduler.preempt(GroupKey(f"bench/{group.name}"), _NOW, explain=False)
            times.append(1000 * (time.process_time() - before))
        priorities = sum(each.priority for each in answer.victims)
        found.append(Decisions(group.name, sorted(times[1:]), times[0], len(answer.victims), priorities))
    return Run(len(running), setup, found)
