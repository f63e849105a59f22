"""The placed pods of a cluster that a plan may move, and why the others stay. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from deviceshare.allocation import Movable, PodClass
from deviceshare.model import PodUid
from deviceshare.scheduler import PodRecord, Scheduler
from deviceshare.state import Holding
from deviceshare_cluster.interface import Object
from deviceshare_metrics.api import whole_cards

from deviceshare_cli.recreation import OTHER_SCHEDULER, read_parts
from deviceshare_cli.simulate.restartable import INVALID, QUEUE, UNKNOWN_CARDS, obstacle_to_restart


class PodObjects(NamedTuple):
    """The Pod objects of a cluster by uid, and the schedulers that are served, none if they are not known."""

    by_uid: Mapping[PodUid, Object]
    schedulers: Sequence[str]


class Candidates(NamedTuple):
    """The placed pods with cards: those that may be restarted, and the others, counted by the reason."""

    movable: list[Movable]
    excluded: Counter[str]
    classes: list[PodClass]
    """The classes of the movable pods, which keep their requests known to the allocator."""

    @property
    def pods(self) -> int:
        """The number of placed pods with cards."""
        return len(self.movable) + self.excluded.total()


def find_candidates(scheduler: Scheduler, objects: PodObjects) -> Candidates:
    """Return the placed pods with cards that may be restarted, and why the others may not be."""
    found = Candidates([], Counter(), [])
    for record in scheduler.pods.values():
        fact = record.fact
        held = scheduler.holding(fact.node, fact.uid)
        if held is None or not (held.grants or whole_cards(held.resources)):
            continue
        if obstacle := _obstacle(scheduler, record, objects, held):
            found.excluded[obstacle] += 1
            continue
        pod_class = scheduler.movable_class(fact)
        found.movable.append(Movable(fact.uid, fact.node, pod_class.request))
        found.classes.append(pod_class)
    return found


def _obstacle(scheduler: Scheduler, record: PodRecord, objects: PodObjects, held: Holding) -> str:
    """Return why a pod is not restarted, '' if it may be."""
    fact = record.fact
    group = scheduler.groups.get(fact.group) if fact.podgroup else None
    pod = read_parts(objects.by_uid.get(fact.uid))
    if obstacle := obstacle_to_restart(fact, pod, group.fact if group is not None else None):
        return obstacle
    if objects.schedulers and fact.scheduler not in objects.schedulers:
        return OTHER_SCHEDULER
    if record.invalid or fact.problems:
        return INVALID
    if scheduler.queue_obstacle(fact):
        return QUEUE
    return "" if held.grants else UNKNOWN_CARDS
