"""Which pods have to go so that a waiting group fits, or why none goes."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from deviceshare.allocation import Allocator, Placement
from deviceshare.conf import FEWEST
from deviceshare.model import GroupKey, PodFact
from deviceshare.preemption.budgets import Budgets
from deviceshare.preemption.candidates import PREEMPT, Candidate, Preemptor
from deviceshare.preemption.gangs import Gang
from deviceshare.preemption.room import Room
from deviceshare.preemption.rules import NO_LOWER_PRIORITY, NO_OTHER_QUEUE, Rules
from deviceshare.preemption.search import Found, Search
from deviceshare.preemption.shares import Allows, above_deserved, all_of, larger_share, within_budgets, within_deserved
from deviceshare.preemption.victims import Victims
from deviceshare.queueing import Decision, Queues

STILL_LACK_ROOM = "still lack room without the pods that may go"
NOT_TOGETHER = "hold pods that may not go together"


class Preemption(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for a waiting group.

    ``action``: the one that found the victims, '' if none goes. ``decision``: where the pods of the group go then,
    None if nowhere. ``leaving``: pods that are terminating on these nodes, for which it waits as well. ``obstacle``:
    why nothing was tried. ``reasons``: why no more pods go, with the number of nodes, each node counted once.
    """

    action: str = ""
    victims: tuple[Candidate, ...] = ()
    decision: Decision | None = None
    leaving: tuple[str, ...] = ()
    obstacle: str = ""
    nodes: int = 0
    reasons: tuple[tuple[str, int], ...] = ()

    @property
    def placed(self) -> tuple[tuple[PodFact, Placement], ...]:
        """The places of the pods of the group, once the victims are gone."""
        return () if self.decision is None else self.decision.placed

    def __str__(self) -> str:
        """Return why no pod goes, in the form of kube-scheduler."""
        if self.obstacle:
            return self.obstacle
        reasons = ", ".join(f"{number} {reason}" for reason, number in self.reasons)
        return f"0/{self.nodes} nodes are available: {reasons}"


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the cluster; ``candidates``: the pods on nodes that are not terminating and are placed here.

    ``leaving``: uid and node of the pods that are terminating.
    """

    allocator: Allocator
    queues: Queues
    candidates: Sequence[Candidate]
    gangs: Mapping[GroupKey, Gang]
    budgets: Budgets
    job_budgets: Mapping[GroupKey, int]
    """How many pods of each group the plugin ``tdm`` lets go."""
    leaving: Sequence[tuple[str, str]] = ()


def preempt(cluster: Cluster, preemptor: Preemptor, rules: Sequence[tuple[str, Rules]], order: str) -> Preemption:
    """Return the pods that go for a group. The state of the cluster stays the same.

    None goes if the group fits, or will fit when the pods are gone that are terminating.

    Args:
        cluster: the cluster.
        preemptor: the group.
        rules: the actions in turn, each with its rules.
        order: which victims are best, :data:`~deviceshare.conf.FEWEST` or :data:`~deviceshare.conf.LOWEST`.
    """
    queues = cluster.queues
    with Room(cluster.allocator, queues, preemptor, cluster.leaving) as room:
        decision = room.fits()
        if decision is not None:
            return Preemption(decision=decision, leaving=_leaving(cluster, decision), nodes=cluster.allocator.nodes)
        reasons: dict[str, str] = {}
        obstacle = ""
        for action, of_action in rules:
            if why := of_action.obstacle(preemptor):
                obstacle = why
                continue
            together: list[Allows] = [within_budgets(cluster.job_budgets)] if of_action.by_job_budgets else []
            if of_action.by_share:
                together.append(larger_share(queues, preemptor))
            if action != PREEMPT:
                if not within_deserved(queues, preemptor):
                    obstacle = f"queue {preemptor.queue!r} would have more than it deserves"
                    continue
                together.append(above_deserved(queues))
            protections = {
                each.uid: of_action.protection(preemptor, each)
                for each in cluster.candidates
                if of_action.concerns(preemptor, each)
            }
            able = [each for each in cluster.candidates if protections.get(each.uid) == ""]
            gangs = of_action.binding(cluster.gangs)
            found, search = _search(room, able, partial(Victims, gangs, cluster.budgets, all_of(together)), order)
            if found is not None:
                victims = tuple(each for each in able if each.uid in found.victims)
                return Preemption(
                    action=action,
                    victims=victims,
                    decision=found.decision,
                    leaving=_leaving(cluster, found.decision),
                    nodes=cluster.allocator.nodes,
                )
            reasons |= _reasons(cluster, action, protections, able, search)
    counts = Counter(reasons.values())
    return Preemption(
        obstacle="" if counts else obstacle,
        nodes=cluster.allocator.nodes,
        reasons=tuple(sorted(counts.items(), key=lambda each: (-each[1], each[0]))),
    )


def _search(
    room: Room, able: Sequence[Candidate], rules: Callable[[Iterable[Candidate]], Victims], order: str
) -> tuple[Found | None, Search]:
    """Return the best victims of those that may go, and the search that found them, or did not."""
    levels: Iterable[int | None] = (None,) if order == FEWEST else sorted({each.priority for each in able})
    search = Search(room, rules(()))
    for level in levels:
        search = Search(room, rules(each for each in able if level is None or each.priority <= level))
        if (found := search.run()) is not None:
            return found, search
    return None, search


def _leaving(cluster: Cluster, decision: Decision) -> tuple[str, ...]:
    """Return the pods that are terminating on the nodes of a decision."""
    nodes = {placement.node for _, placement in decision.placed}
    return tuple(uid for uid, node in cluster.leaving if node in nodes)


def _reasons(
    cluster: Cluster, action: str, protections: Mapping[str, str], able: Sequence[Candidate], search: Search
) -> dict[str, str]:
    """Return for each node why no pod of it goes."""
    usual = NO_LOWER_PRIORITY if action == PREEMPT else NO_OTHER_QUEUE
    found = dict.fromkeys(cluster.allocator.node_names, usual)
    for candidate in cluster.candidates:
        why = protections.get(candidate.uid)
        if why and why != usual and found.get(candidate.node) == usual:
            found[candidate.node] = why
    lacking = search.lacking()
    for candidate in able:
        found[candidate.node] = STILL_LACK_ROOM if candidate.node in lacking else NOT_TOGETHER
    return found
