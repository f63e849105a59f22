"""Room of nominated pods that a group of higher priority takes: no pod goes for it that does not go for them.

The group fits where the nominated pods would come, and waits for those of the pods that go whose room it needs. A swap
within a queue need not bring the queue to what it deserves, except where pods of other queues go for it.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from deviceshare.allocation import Allocator
from deviceshare.model import GroupKey
from deviceshare.preemption.candidates import Preemptor
from deviceshare.preemption.fewest_going import fewest_going
from deviceshare.preemption.room import Room
from deviceshare.preemption.shares import within_deserved
from deviceshare.queueing import Decision, Queues

MAX_TRIED = 20
"""Nominations that are tried for a group, those of the lowest priority first."""


class NominatedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of one or more groups that wait for the same pods to go.

    ``claims``: the node and the id of each claim; ``pods``: the uid and the node of each nominated pod; ``going``: the
    nodes of the pods that go, by uid, as far as they are known; ``unknown``: the others. ``sparable``: which of them
    stay together if their room is not needed: no part of a gang, and no gang that was let go. ``reclaims``: some go
    from other queues.
    """

    claims: tuple[tuple[str, str], ...]
    pods: tuple[tuple[str, str], ...]
    groups: frozenset[GroupKey]
    queues: frozenset[str]
    priority: int
    """The highest one of the groups."""
    going: Mapping[str, str]
    unknown: tuple[str, ...] = ()
    sparable: tuple[tuple[str, ...], ...] = ()
    reclaims: bool = False


class TakenRoom(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pods of a group go in place of nominated ones, and the uids of the pods that go before."""

    nominated: NominatedGroup
    decision: Decision
    leaving: tuple[str, ...]


def lower_nominations(preemptor: Preemptor, nominations: Iterable[NominatedGroup]) -> list[NominatedGroup]:
    """Return those whose room a group may take, in the order in which they are tried: all of its queue, and lower."""
    found = [
        each
        for each in nominations
        if each.queues == {preemptor.queue}
        and each.priority < preemptor.priority
        and preemptor.group.key not in each.groups
    ]
    return sorted(found, key=lambda each: (each.priority, len(each.claims), each.claims))[:MAX_TRIED]


def take_room(
    allocator: Allocator,
    queues: Queues,
    preemptor: Preemptor,
    nominations: Iterable[NominatedGroup],
    terminating: Mapping[str, str],
    ancestors: int,
) -> tuple[TakenRoom | None, int]:
    """Return whose nominated room a group takes, None if it fits in none, and the work. The state stays the same.

    Args:
        allocator: the nodes.
        queues: the queues.
        preemptor: the group.
        nominations: those whose room it may take, in turn.
        terminating: the nodes of all pods that are terminating, by uid.
        ancestors: how many ancestors of its queue may deserve the room instead of the queue.
    """
    work = 0
    for each in nominations:
        taken, tried = _taken(allocator, queues, preemptor, each, terminating, ancestors)
        work += tried
        if taken is not None:
            return taken, work
    return None, work


def _taken(
    allocator: Allocator,
    queues: Queues,
    preemptor: Preemptor,
    nominated: NominatedGroup,
    terminating: Mapping[str, str],
    ancestors: int,
) -> tuple[TakenRoom | None, int]:
    going = {**terminating, **nominated.going}
    work = 0

    def decide(uids: Sequence[str]) -> Decision | None:
        nonlocal work
        with Room(allocator, queues, preemptor, [*nominated.pods, *((uid, going[uid]) for uid in uids)]) as room:
            for uid in nominated.going.keys() - set(uids):
                queues.hold(uid)  # no claim waits for it any more, so that it stays, or counts until it has gone
            decision = (
                None if nominated.reclaims and not within_deserved(queues, preemptor, ancestors) else room.decide(())
            )
        work += room.spent
        return decision if decision is not None and decision.placed else None

    decision = decide(sorted(going))
    if decision is None:
        return None, work
    nodes = {placement.node for _, placement in decision.placed}
    far = [uid for uid, node in going.items() if node not in nodes and uid not in nominated.going]
    near = [(uid,) for uid in sorted(going.keys() - set(far)) if uid in terminating]
    decision, leaving = fewest_going(decision, sorted(going), [far, *nominated.sparable, *near], decide)
    leaving = tuple(sorted({*leaving, *nominated.unknown}))
    return TakenRoom(nominated=nominated, decision=decision, leaving=leaving), work
