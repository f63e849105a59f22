"""Nodes that are gone: which of their pods are created again elsewhere, and why the others are not. Pure."""

from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from deviceshare.model import PodFact
from deviceshare.scheduler import Scheduler

from deviceshare_cli.recreation import OTHER_SCHEDULER, obstacle_to_recreate, read_parts
from deviceshare_cli.simulate.candidates import PodObjects
from deviceshare_cli.whatif.affected import check_known, is_on


class Removal(NamedTuple):
    """Nodes that are gone, and their pods.

    ``movable``: those that a controller creates again; ``excluded``: the others, counted by the reason.
    """

    nodes: tuple[str, ...]
    movable: list[PodFact]
    lost: list[PodFact]
    excluded: Counter[str]


def removal(scheduler: Scheduler, nodes: Collection[str], objects: PodObjects) -> Removal:
    """Return what goes with these nodes. Raises CommandError for an unknown node."""
    found = Removal(tuple(dict.fromkeys(nodes)), [], [], Counter())
    for name in nodes:
        check_known("--without", name, scheduler.node_names)
    for record in scheduler.pods.values() if nodes else ():
        fact = record.fact
        if fact.ended or not is_on(scheduler, record, nodes):
            continue
        obstacle = obstacle_to_recreate(fact, read_parts(objects.by_uid.get(fact.uid)))
        if not obstacle and objects.schedulers and fact.scheduler not in objects.schedulers:
            obstacle = OTHER_SCHEDULER
        (found.lost if obstacle else found.movable).append(fact)
        if obstacle:
            found.excluded[obstacle] += 1
    return found
