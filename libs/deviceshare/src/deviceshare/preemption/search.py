"""The fewest victims: an exact search in the order of their number, as far as the work of a decision allows.

Pods of one node, or of one card, are interchangeable only with themselves, so the search goes node by node: which
smallest sets of its pods make room for one, two or more pods of the group. Sets of several nodes are then put together.
What the nodes say is confirmed by a decision about the whole group. Where that is not enough, since pods depend on
other nodes or on a limit of their queue, sets of all pods are tried.
"""

from bisect import bisect_left
from collections.abc import Collection, Hashable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from deviceshare.preemption.candidate_nodes import CandidateNodes
from deviceshare.preemption.candidates import EvictionCandidate
from deviceshare.preemption.options import NO_PODS, Option, least_weights
from deviceshare.preemption.room import Room
from deviceshare.preemption.subsets import Prune, Subsets
from deviceshare.preemption.victims import Cost, Victims
from deviceshare.queueing import Decision

MAX_WORK, CHECKS_PER_PLACEMENT = 5_000, 20
"""Placements that are tried for one decision, and sets of pods that are looked at in place of one; the best victims so
far are taken then."""
CHECKS_IN_TIME = 2
"""Sets of pods that are looked at in the time of one placement."""
PLENTY = 2
"""How many times the room is looked for that is needed, before sets of pods are."""
MAX_OPTIONS = 64
"""Sets of pods of one node that are combined with those of other nodes."""
MAX_COMBINED = 12
"""Nodes whose sets of pods are all combined; of more nodes those that grow from the pods on that have most."""
MAX_PODS = 1_000
"""Pods that are tried without regard to their nodes, where more than the room on nodes is in the way."""


class FoundVictims(NamedTuple):
    """Victims, and the decision about the group without them; ``spared``: whether none of them can be spared."""

    victims: frozenset[str]
    cost: Cost
    decision: Decision
    spared: bool


class Search:
    """The search for the victims of one group, on ``places`` in turn."""

    def __init__(self, room: Room, victims: Victims, places: CandidateNodes) -> None:
        self._room = room
        self._victims = victims
        self._places = places
        self._best: FoundVictims | None = None
        self._checks = 0
        """How many sets of pods were looked at."""
        self._known: dict[int, tuple[str, Subsets]] = {}
        """Those places that were looked at: node, and sets of its pods."""
        self._fitting: frozenset[str] | None = None
        """The first pods of one node that make room there, though the group does not fit without them."""

    def run(self) -> FoundVictims | None:
        """Return the best victims, None if no pods that may go are enough."""
        if not self._places.every:
            return None
        with self._room.node_by_node() as missing:
            if missing and not (len(self._places) or self._room.constrained):
                return None
            if missing == 1:
                self._begin()
                self._cheapest()
            elif missing > 1:
                self._combine(missing)
        if self._best is None and missing and self._room.of_one_node and not (self._exhausted or self._fitting):
            return None
        if self._best is None or self._room.mixed:
            self._of_all()
        return self._spared()

    @property
    def spent(self) -> int:
        """The time of the sets of pods that were looked at, in placements."""
        return self._checks // CHECKS_IN_TIME

    def lacking(self) -> set[str]:
        """Return the nodes that have no room for a pod even if all go that may go, as far as they are looked at."""
        with self._room.node_by_node():
            places = range(len(self._places))
            known = [self._place(at) for at in places if at in self._known or not self._exhausted]
            lacking = {node for node, pods in known if pods.all and not self._room.gain(node, pods.all)}
        return lacking | {self._places.pods(at)[0].node for at in self._places.lacking}

    def _place(self, at: int) -> tuple[str, Subsets]:
        """Return the node of a place, and the sets of its pods that may go, each alone."""
        known = self._known.get(at)
        if known is None:
            pods = self._places.pods(at)
            self._checks += len(pods)
            alone = self._victims.of(each.uid for each in pods if self._victims.completed({each.uid}) is not None)
            known = self._known[at] = (pods[0].node, Subsets(self._first_to_go(alone), self._key))
        return known

    def _begin(self) -> None:
        """Find victims on one of the first nodes: sets that cost more need not be tried."""
        for at in range(min(len(self._places), MAX_COMBINED)):
            node, pods = self._place(at)
            if self._exhausted or (self._room.gain(node, pods.all) and self._confirm(pods.all)):
                break
        self._best = self._spared()

    def _key(self, candidate: EvictionCandidate) -> Hashable:
        held = self._room.held(candidate)
        pod = candidate.pod
        of_card = None if held is None else (held.grants, held.resources, held.ports, held.tenant.topology)
        shared = None if held is None else (held.tenant.volumes, held.tenant.disks)
        return (
            candidate.node, candidate.priority, candidate.queue, pod.labels, pod.namespace, of_card, shared,
            self._victims.binding(candidate),
        )  # fmt: skip

    def _first_to_go(self, pods: Iterable[EvictionCandidate]) -> list[EvictionCandidate]:
        """Return pods in the order in which they go where their number and priorities are equal otherwise.

        Source: Volcano pkg/scheduler/framework (BuildVictimsPriorityQueue): the last queue, job and pod first.
        """

        def order(each: EvictionCandidate) -> tuple[float, ...]:
            return (each.priority, self._room.queue_priority(each), each.job_priority, -each.pod.created)

        return sorted(sorted(pods, key=lambda each: each.pod.ref, reverse=True), key=order)

    @property
    def _exhausted(self) -> bool:
        return self._room.work + self._checks // CHECKS_PER_PLACEMENT > MAX_WORK

    def _is_worse(self, uids: frozenset[str]) -> bool:
        """Return whether pods may not go together, or cost as much as the best victims, or no more is to be tried."""
        self._checks += 1
        if self._exhausted:
            return True
        completed = self._victims.completed(uids)
        return completed is None or (self._best is not None and self._victims.cost(completed) >= self._best.cost)

    def _confirm(self, uids: frozenset[str], *, spared: bool = False) -> bool:
        """Take these victims, with all that go along, if they are better than the best, and the group fits then.

        ``spared``: without any of them it would not fit.
        """
        completed = self._victims.completed(uids)
        if completed is None:
            return False
        cost = self._victims.cost(completed)
        if self._best is not None and cost >= self._best.cost:
            return False
        decision = self._room.decide(self._victims.of(completed))
        if decision.placed:
            self._best = FoundVictims(completed, cost, decision, spared and completed == uids)
        return bool(decision.placed)

    def _cheapest(self) -> None:
        """Find the best victims of one node, in the order of their number."""
        needed: dict[int, frozenset[str]] = {}
        for size in range(1, self._places.most + 1):
            if self._best is not None and size > self._best.cost.pods:
                return
            for at in self._places.up_to(size, None if self._best is None else self._best.cost):
                if self._best is not None and self._places.least_cost(at, size) >= self._best.cost:
                    continue
                node, pods = self._place(at)
                enough = partial(self._makes_room, node)
                if size > 1 and at not in needed:
                    needed[at] = pods.needed(self._or_exhausted(enough))
                self._try_all(pods, size, enough, needed.get(at, frozenset()))
                if self._exhausted:
                    return

    def _or_exhausted(self, enough: Prune) -> Prune:
        """Return what is true also once no more is to be tried: then no further pods are found to be needed."""
        return lambda uids: self._exhausted or enough(uids)

    def _makes_room(self, node: str, uids: frozenset[str]) -> bool:
        return self._room.gain(node, uids) > 0

    def _try_all(self, pods: Subsets, size: int, enough: Prune, needed: frozenset[str]) -> None:
        for uids in pods.of_size(size, self._is_worse, lambda uids: not enough(uids), needed):
            if self._exhausted:
                return
            if enough(uids) and not self._confirm(uids):
                self._fitting = self._fitting or uids

    # Several pods on several nodes

    def _combine(self, missing: int) -> None:
        """Find the best victims on several nodes for several pods, on the first nodes if these have plenty of room."""
        options: dict[int, list[Option]] = {}
        most: dict[int, int] = {}
        for at in range(len(self._places)):
            found, gain = self._growing(at, missing)
            if gain:
                options[at], most[at] = found, gain
            if (len(most) >= MAX_COMBINED and sum(most.values()) >= PLENTY * missing) or self._exhausted:
                break
        self._extend_cheapest(options.values(), missing)
        if self._exhausted or (self._best is not None and len(options) > MAX_COMBINED):
            return
        share = (MAX_WORK - self._room.work) // (1 + len(options))
        for at, found in options.items():
            self._add_others(at, found, most[at], self._room.work + share)
        self._extend_cheapest(options.values(), missing)

    def _extend_cheapest(self, options: Iterable[Sequence[Option]], missing: int) -> None:
        """Find the best of all combinations of sets, those that cost least for a pod first."""
        of_nodes = (sorted(found, key=lambda each: each.ratio) for found in options if found)
        ordered = sorted(of_nodes, key=lambda found: found[0].ratio)
        self._extend(ordered, least_weights(ordered, missing), 0, missing, 0, frozenset())

    def _extend(
        self,
        options: Sequence[Sequence[Option]],
        least: Sequence[Sequence[int | None]],
        at: int,
        missing: int,
        weight: int,
        uids: frozenset[str],
    ) -> None:
        """Try the sets of the nodes from ``at`` on, for so many ``missing`` pods; ``uids`` go already."""
        if missing <= 0:
            self._confirm(uids, spared=missing == 0)
            return
        more = least[at][missing]
        if more is None or self._exhausted or (uids and self._is_worse(uids)):
            return
        if self._best is not None and weight + more >= self._best.cost.weight:
            return
        self._room.work += 1
        after = least[at + 1]
        further = [
            (rest, each) for each in (*options[at], NO_PODS) if (rest := after[max(0, missing - each.gain)]) is not None
        ]
        for _, each in sorted(further, key=lambda pair: pair[0] + pair[1].weight):
            self._extend(options, least, at + 1, missing - each.gain, weight + each.weight, uids | each.uids)

    def _growing(self, place: int, missing: int) -> tuple[list[Option], int]:
        """Return sets of pods of one node that grow, from those on that have most, and the gain if all of them go.

        None has pods that could be spared for the same gain. No gain is larger than needed.
        """
        node, pods = self._place(place)
        order = self._in_order(pods.all)
        gains = self._room.gains(node, order)
        found: list[Option] = []
        gained, start, useless = 0, 0, set[str]()
        for number, gain in enumerate(gains, start=1):
            if gain == gained:
                continue
            for uid in order[start : number - 1]:
                if self._room.gain(node, frozenset(order[:number]) - useless - {uid}) >= gain:
                    useless.add(uid)
            uids = frozenset(order[:number]) - useless
            gained, start = gain, number
            if self._victims.completed(uids) is not None and (not useless or self._room.gain(node, uids) >= gain):
                found.append(Option(self._victims.cost(uids).weight, min(gain, missing), uids))
            if gain >= missing:
                break
        return found, min(missing, max(gains, default=0))

    def _in_order(self, uids: Iterable[str]) -> list[str]:
        """Return pods of a node: those with many cards first, or with much CPU; of one card one after the other."""
        pods = self._victims.of(uids)
        cards: dict[str, list[str]] = {}
        cpu: dict[str, int] = {}
        for each in pods:
            held = self._room.held(each)
            cards[each.uid] = [] if held is None else [at.id for grant in held.grants for at in grant.devices]
            cpu[each.uid] = 0 if held is None or cards[each.uid] else dict(held.resources).get("cpu", 0)
        on_card: dict[str, list[int]] = {}
        for each in pods:
            for card in cards[each.uid][:1]:
                on_card.setdefault(card, []).append(each.priority)

        def key(candidate: EvictionCandidate) -> tuple[object, ...]:
            of_pod = cards[candidate.uid]
            first = of_pod[0] if of_pod else ""
            together = on_card.get(first, [candidate.priority])
            return (
                -len(of_pod), -cpu[candidate.uid], len(together), max(together), first,
                candidate.priority, -candidate.pod.created, candidate.uid,
            )  # fmt: skip

        return [each.uid for each in sorted(pods, key=key)]

    def _add_others(self, place: int, found: list[Option], most: int, until: int) -> None:
        """Add other sets of pods of one node, which gain ``most`` if all go; ``until``: the work at which it ends."""
        node, pods = self._place(place)
        if until - self._room.work < len(pods.all) * (1 + most):
            return

        def rejected(uids: frozenset[str]) -> bool:
            self._checks += 1
            return (
                self._exhausted
                or self._victims.completed(uids) is None
                or any(each.gain >= most and each.uids < uids for each in found)
            )

        needed = pods.needed(self._or_exhausted(partial(self._makes_room, node)))
        for size in range(max(1, len(needed)), len(pods.all) + 1):
            for uids in pods.of_size(size, rejected, lambda uids: not self._room.gain(node, uids), needed):
                if self._exhausted or self._room.work > until or len(found) >= MAX_OPTIONS:
                    return
                gain = min(most, self._room.gain(node, uids))
                if gain and not any(each.gain >= gain and each.uids <= uids for each in found):
                    found.append(Option(self._victims.cost(uids).weight, gain, uids))
            counts = [self._count(each.uids) for each in found if each.gain >= most]
            if counts and size >= min(counts):
                break

    def _count(self, uids: frozenset[str]) -> int:
        """Return how many pods go if these go."""
        return len(self._victims.completed(uids) or uids)

    # All pods at once

    def _of_all(self) -> None:
        """Find victims among the pods of many nodes by decisions about the whole group."""
        pods: list[EvictionCandidate] = []
        for at in range(self._places.every):
            if len(pods) >= MAX_PODS:
                break
            pods += self._victims.of(sorted(self._place(at)[1].all))

        def fits_without(uids: Collection[str]) -> bool:
            return bool(self._room.decide(self._victims.of(uids)).placed)

        def enough(uids: frozenset[str]) -> bool:
            completed = self._victims.completed(uids)
            return completed is not None and fits_without(completed)

        if self._best is None:
            self._take_in_order(pods)
        if self._best is None and not (self._room.mixed and self._room.decide(pods).placed):
            return
        everything = Subsets(self._first_to_go(pods), self._key)
        self._try_sizes(everything, enough)
        if self._victims.completed(everything.all) is None:
            # Sets were left out of which not all may go together, though fewer of them may and would be enough.
            self._try_sizes(everything, fits_without)

    def _try_sizes(self, pods: Subsets, enough: Prune) -> None:
        needed = frozenset[str]()
        for size in range(1, len(pods.all) + 1):
            if self._exhausted or (self._best is not None and size > self._best.cost.pods):
                return
            needed = pods.needed(self._or_exhausted(enough)) if size == 2 else needed
            self._try_all(pods, size, enough, needed)

    def _take_in_order(self, pods: Iterable[EvictionCandidate]) -> None:
        """Take pods of low priority until the group fits, after those that make room on one node."""
        names = [each.uid for each in self._first_to_go(pods)]
        gone = self._fitting or frozenset()
        growing: list[tuple[frozenset[str], list[str]]] = []
        """Pods that may go together, and those that go in addition: ever more at a time, fewer where they may not."""
        at, size = 0, 1
        while at < len(names):
            more = names[at : at + size]
            completed = self._victims.completed(gone.union(more))
            if completed is not None:
                growing.append((gone, more))
                gone = completed
            elif size > 1:
                size //= 2
                continue
            at, size = at + len(more), 1 if completed is None else 2 * size
        if not self._confirm(gone):
            return
        step = bisect_left(growing, True, key=lambda each: self._confirm(each[0].union(each[1])))
        before, more = growing[min(step, len(growing) - 1)]
        bisect_left(range(len(more)), True, key=lambda number: self._confirm(before.union(more[:number])))
        self._best = self._spared()

    def _spared(self) -> FoundVictims | None:
        """Return the best victims without those that can be spared, alone or with their gang, important ones first."""
        if self._best is None or self._best.spared:
            return self._best
        found = self._best
        for candidate in reversed(self._first_to_go(self._victims.of(found.victims))):
            group = {each.uid for each in self._victims.of(found.victims) if each.group == candidate.group}
            for spared in ({candidate.uid}, group):
                if self._exhausted or candidate.uid not in found.victims:
                    break
                fewer = self._victims.completed(found.victims - spared)
                if fewer is None or not fewer < found.victims:
                    continue
                decision = self._room.decide(self._victims.of(fewer))
                if decision.placed:
                    found = FoundVictims(fewer, self._victims.cost(fewer), decision, spared=False)
        return found
