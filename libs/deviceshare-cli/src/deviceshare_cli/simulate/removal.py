"""Nodes that are gone: which of their pods are created again elsewhere, and why the others are not. Pure."""

from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from deviceshare.model import PodFact
from deviceshare.scheduler import PodRecord, Scheduler

from deviceshare_cli.errors import CommandError
from deviceshare_cli.recreation import OTHER_SCHEDULER, obstacle_to_recreate, read_parts
from deviceshare_cli.simulate.candidates import PodObjects

MAX_NODES = 20
"""The most nodes that an error names."""


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


def check_known(option: str, name: str, nodes: Collection[str]) -> None:
    """Raise CommandError if an option names an unknown node."""
    if name not in nodes:
        shown = ", ".join(sorted(nodes)[:MAX_NODES]) + (", …" if len(nodes) > MAX_NODES else "")
        raise CommandError(f'{option} {name}: nodes "{name}" not found: the cluster has {shown or "none"}')


def is_on(scheduler: Scheduler, record: PodRecord, nodes: Collection[str]) -> bool:
    """Return whether a pod is on one of these nodes, or is being bound to it."""
    if record.fact.node or scheduler.is_nominated(record.fact.uid):
        return record.fact.node in nodes
    return any(node in nodes for node in record.claims.values())
