"""Which pods have to go so that a waiting group fits, or why none goes."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec
import numpy as np
from msgspec.structs import replace

from deviceshare.allocation import Allocator, Placement
from deviceshare.conf import FEWEST
from deviceshare.model import GroupKey, PodFact
from deviceshare.preemption.budgets import Budgets
from deviceshare.preemption.candidate_nodes import CandidateNodes
from deviceshare.preemption.candidate_table import CandidateTable
from deviceshare.preemption.candidates import PREEMPT, EvictionCandidate, Preemptor
from deviceshare.preemption.deciding_tiers import DecidingTiers
from deviceshare.preemption.fewest_going import fewest_going
from deviceshare.preemption.gangs import Gang
from deviceshare.preemption.nominated_groups import NominatedGroup, take_room
from deviceshare.preemption.reasons import NOT_TOGETHER, STILL_LACK_ROOM, ReasonsOfNodes, why_none_goes
from deviceshare.preemption.room import Room
from deviceshare.preemption.rules import NO_LOWER_PRIORITY, NO_OTHER_QUEUE, Rules
from deviceshare.preemption.search import FoundVictims, Search
from deviceshare.preemption.shares import (
    Allows,
    above_deserved,
    all_of,
    larger_share,
    larger_share_in_tree,
    within_budgets,
    within_deserved,
)
from deviceshare.preemption.victims import Victims
from deviceshare.queueing import Decision, Queues

NO_POD = "no pod may be evicted"
CANDIDATES_PER_PLACEMENT, EXPLAINED_PER_PLACEMENT = 400, 10
"""Candidates, and those of which it is said why they do not go, that are looked at in the time of one placement."""


ActionRules = tuple[str, Sequence[Rules]]
"""An action, and the rules of its tiers, at least of one."""


class Preemption(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for a waiting group.

    ``action``: the one that found the victims, '' if none goes. ``decision``: where the pods of the group go then,
    None if nowhere. ``leaving``: pods that go already and whose room it needs, so that it waits for them as well.
    ``taken``: the node and the id of each claim of lower priority in whose nominated room it comes.
    ``obstacle``: why nothing was tried; ``of_group``: whether it is the group's own, and not that of all alike.
    ``reasons``: why no more pods go, with the number of nodes, each node counted once. ``work``: about how many
    placements could have been tried in the same time.
    """

    action: str = ""
    victims: tuple[EvictionCandidate, ...] = ()
    decision: Decision | None = None
    leaving: tuple[str, ...] = ()
    taken: tuple[tuple[str, str], ...] = ()
    obstacle: str = ""
    of_group: bool = False
    nodes: int = 0
    reasons: tuple[tuple[str, int], ...] = ()
    work: int = 0

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


class PreemptionInput(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the cluster; ``gang`` returns a group as a gang, ``job_budget`` how many of its pods the plugin
    ``tdm`` lets go. ``spared``: the nodes of pods that are no candidates for a time, and why. ``nominations``: those
    whose room the group may take, in turn.
    """

    allocator: Allocator
    queues: Queues
    candidates: CandidateTable
    gang: Callable[[GroupKey], Gang]
    budgets: Budgets
    job_budget: Callable[[GroupKey], int]
    spared: Sequence[tuple[str, str]] = ()
    nominations: Sequence[NominatedGroup] = ()


def may_find(table: CandidateTable, preemptor: Preemptor, rules: Iterable[ActionRules]) -> bool:
    """Return whether :func:`preempt` may find pods that go, or are going, for a group; the candidates are noted."""
    return bool(table.leaving) or any(
        table.has_any(preemptor, preempts=each.preempts, by_priority=each.by_priority)
        for _, of_tiers in rules
        for each in of_tiers
    )


def preempt(
    cluster: PreemptionInput, preemptor: Preemptor, rules: Sequence[ActionRules], order: str, *, explain: bool
) -> Preemption:
    """Return the pods that go for a group. The state of the cluster stays the same; all its candidates are put.

    None goes if the group fits, or will fit when the pods are gone that are terminating. If no pods are enough, the
    group takes the room of nominated pods of lower priority, and no other pod goes.

    Args:
        cluster: the cluster.
        preemptor: the group.
        rules: the actions in turn, each with the rules of its tiers.
        order: which victims are best, :data:`~deviceshare.conf.FEWEST` or :data:`~deviceshare.conf.LOWEST`.
        explain: whether to say of each node why no pod goes, which takes longer than the search.
    """
    found = _without_idle(cluster, preemptor, _answer(cluster, preemptor, rules, order, explain=explain))
    return _taking_room(cluster, preemptor, rules, found)


def _without_idle(cluster: PreemptionInput, preemptor: Preemptor, found: Preemption) -> Preemption:
    """Return an answer whose group does not wait for pods that are terminating and whose room it does not need."""
    if found.decision is None or not found.leaving:
        return found

    on = cluster.candidates.leaving
    work = found.work

    def tried(uids: Sequence[str]) -> Decision | None:
        nonlocal work
        with Room(cluster.allocator, cluster.queues, preemptor, [(uid, on[uid]) for uid in uids]) as room:
            decision = room.decide(found.victims) if found.victims else room.fits()
        work += room.spent
        return decision if decision is not None and decision.placed else None

    nodes = {placement.node for _, placement in found.decision.placed}
    far = [uid for uid in found.leaving if on[uid] not in nodes]
    near = [(uid,) for uid in found.leaving if on[uid] in nodes]
    decision, needed = fewest_going(found.decision, found.leaving, [far, *near], tried)
    return replace(found, decision=decision, leaving=needed, work=work)


def _taking_room(
    cluster: PreemptionInput, preemptor: Preemptor, rules: Sequence[ActionRules], found: Preemption
) -> Preemption:
    """Return an answer by which a group takes the room of nominated pods, if it gets none otherwise and may do so."""
    if found.decision is not None or not cluster.nominations:
        return found
    able = [of_tiers[0] for _, of_tiers in rules if of_tiers[0].preempts and not of_tiers[0].obstacle(preemptor)]
    if not able:
        return found
    taken, work = take_room(
        cluster.allocator, cluster.queues, preemptor, cluster.nominations, cluster.candidates.leaving, able[0].ancestors
    )
    if taken is None:
        return replace(found, work=found.work + work)
    return Preemption(
        action=PREEMPT,
        decision=taken.decision,
        leaving=taken.leaving,
        taken=taken.nominated.claims,
        nodes=found.nodes,
    )


def _answer(
    cluster: PreemptionInput, preemptor: Preemptor, rules: Sequence[ActionRules], order: str, *, explain: bool
) -> Preemption:
    """Return the pods that go for a group, which waits for all pods that are terminating."""
    table = cluster.candidates
    leaving = tuple(sorted(table.leaving))
    with Room(cluster.allocator, cluster.queues, preemptor, sorted(table.leaving.items())) as room:
        decision = room.fits()
        if decision is not None:
            return Preemption(decision=decision, leaving=leaving, nodes=cluster.allocator.nodes, work=room.spent)
        obstacle = ""
        attempts: list[_Attempt] = []
        for action, of_tiers in rules:
            able = [each for each in of_tiers if not each.obstacle(preemptor)]
            why = "" if able else of_tiers[0].obstacle(preemptor)
            if why := why or _obstacle_of_queue(cluster, preemptor, of_tiers[0]):
                obstacle = why
                continue
            attempt = _Attempt(cluster, room, preemptor, action, able)
            found = attempt.search(order)
            if found is not None:
                return Preemption(
                    action=action,
                    victims=tuple(each for uid in sorted(found.victims) if (each := table.get(uid)) is not None),
                    decision=found.decision,
                    leaving=leaving,
                    nodes=cluster.allocator.nodes,
                )
            attempts.append(attempt)
        counts = why_none_goes(room, [attempt.reasons() for attempt in attempts if explain])
        work = room.spent + sum(attempt.work for attempt in attempts)
    return Preemption(
        work=work,
        obstacle="" if counts else obstacle or NO_POD,
        nodes=cluster.allocator.nodes,
        reasons=tuple(sorted(counts.items(), key=lambda each: (-each[1], each[0]))),
    )


def _obstacle_of_queue(cluster: PreemptionInput, preemptor: Preemptor, rules: Rules) -> str:
    """Return why a queue may not take back from others: it is not open, or would have too much; '' if it may.

    Source: Volcano pkg/scheduler/plugins/{capacity,proportion} (PreemptiveFn).
    """
    if rules.preempts:
        return ""
    if not cluster.queues.account(preemptor.queue).fact.open:
        return f"queue {preemptor.queue!r} is not open"
    if not rules.takes_deserved or within_deserved(cluster.queues, preemptor, rules.ancestors):
        return ""
    return f"queue {preemptor.queue!r} would have more than it deserves"


class _Attempt:
    """The search for the victims of one action."""

    def __init__(
        self, cluster: PreemptionInput, room: Room, preemptor: Preemptor, action: str, of_tiers: Sequence[Rules]
    ) -> None:
        self._cluster, self._room, self._preemptor = cluster, room, preemptor
        self._action = action
        table = cluster.candidates
        self._how = {
            "preempts": of_tiers[0].preempts, "by_priority": all(rules.by_priority for rules in of_tiers),
        }  # fmt: skip
        self.work = len(table) // CANDIDATES_PER_PLACEMENT
        """As that of :class:`Preemption`, besides what is tried in the room."""
        self._together = {rules: self._of_several(rules) for rules in of_tiers}
        self._deciding = DecidingTiers(of_tiers, table, preemptor, self._together, cluster.gang)
        self._able = table.able(preemptor, **self._how)
        self._least = np.minimum.reduce(
            [
                cluster.allocator.least_removals(request, table.removals, self._able)
                for request in dict.fromkeys(pod.ask for pod in preemptor.pods)
            ]
        )
        self._search: Search | None = None

    def _of_several(self, rules: Rules) -> Allows:
        """Return what the plugins of a tier say of several pods together."""
        queues, preemptor = self._cluster.queues, self._preemptor
        together: list[Allows] = [within_budgets(self._cluster.job_budget)] if rules.by_job_budgets else []
        if rules.by_share:
            together.append(larger_share(queues, preemptor))
        if rules.by_tree:
            together.append(larger_share_in_tree(queues, preemptor))
        if rules.by_amounts:
            together.append(above_deserved(queues, preemptor, rules.ancestors))
        return all_of(together)

    def search(self, order: str) -> FoundVictims | None:
        """Return the best victims, None if none are enough."""
        table, left = self._cluster.candidates, self._cluster.budgets.left()
        levels: list[int | None] = [None]
        if order != FEWEST:
            levels = np.unique(table.priority[self._able]).tolist()
        for level in levels:
            able = self._able if level is None else self._able & (table.priority <= level)
            several = len(self._preemptor.pods) > 1
            victims = Victims(
                partial(self._candidate, level), self._deciding.binding, self._cluster.budgets, self._deciding.allow
            )
            self._search = Search(self._room, victims, CandidateNodes(table, able, self._least, left, several=several))
            found = self._search.run()
            self.work += self._search.spent
            if found is not None:
                return found
        return None

    def _candidate(self, level: int | None, uid: str) -> EvictionCandidate | None:
        """Return a candidate if it may go, and its priority is not above this level."""
        candidate = self._cluster.candidates.get(uid)
        if candidate is None or (level is not None and candidate.priority > level):
            return None
        return None if self._protection(candidate) else candidate

    def _protection(self, candidate: EvictionCandidate) -> str | None:
        """Return why a pod may not go, '' if it may; None if the action does not look at it."""
        rules = self._deciding.of(candidate.node)
        if not rules.concerns(self._preemptor, candidate):
            return None
        if why := rules.protection(self._preemptor, candidate):
            return why
        budget = self._cluster.budgets.why_protected(candidate.uid)
        return f"protected by {budget}" if budget else ""

    def reasons(self) -> ReasonsOfNodes:
        """Return for each node why no pod of it goes."""
        usual = NO_LOWER_PRIORITY if self._action == PREEMPT else NO_OTHER_QUEUE
        found = dict.fromkeys(self._cluster.allocator.node_names, usual)
        able: dict[str, list[EvictionCandidate]] = {}
        table = self._cluster.candidates
        concerned = table.at(np.flatnonzero(table.concerned(self._preemptor, **self._how)))
        self.work += (len(found) + len(concerned)) // EXPLAINED_PER_PLACEMENT
        for candidate in concerned:
            why = self._protection(candidate)
            if why == "":
                able.setdefault(candidate.node, []).append(candidate)
            elif why and why != usual and found.get(candidate.node) == usual:
                found[candidate.node] = why
        for node, why in self._cluster.spared:
            if found.get(node) == usual:
                found[node] = why
        lacking = set[str]() if self._search is None else self._search.lacking()
        found |= {node: STILL_LACK_ROOM if node in lacking else NOT_TOGETHER for node in able if node in found}
        return ReasonsOfNodes(found, able)
