"""The fewest victims: an exact search in the order of their number, as far as the work of a decision allows.

Pods of one node, or of one card, are interchangeable only with themselves, so the search goes node by node: which
smallest sets of its pods make room for one, two or more pods of the group. Sets of several nodes are then put together.
What the nodes say is confirmed by a decision about the whole group. Where that is not enough, since pods depend on
other nodes or on a limit of their queue, sets of all pods are tried.
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import NamedTuple

from deviceshare.preemption.candidates import Candidate
from deviceshare.preemption.room import Room
from deviceshare.preemption.subsets import Prune, Subsets
from deviceshare.preemption.victims import Cost, Victims
from deviceshare.queueing import Decision

MAX_WORK, CHECKS_PER_PLACEMENT = 5_000, 20
"""Placements that are tried for one decision, and sets of pods that are looked at in the time of one; the best victims
so far are taken then."""
PLENTY = 4
"""How many times the room is looked for that is needed, before sets of pods are."""
MAX_OPTIONS = 64
"""Sets of pods of one node that are combined with those of other nodes."""
MAX_COMBINED = 12
"""Nodes whose sets are combined."""
_EVERYWHERE = ""


class Found(NamedTuple):
    """Victims, and the decision about the group without them."""

    victims: frozenset[str]
    cost: Cost
    decision: Decision


class _Option(NamedTuple):
    """Pods of one node, and how many more pods of the group fit there without them."""

    cost: Cost
    gain: int
    uids: frozenset[str]


class Search:
    """The search for the victims of one group."""

    def __init__(self, room: Room, victims: Victims) -> None:
        self._room = room
        self._victims = victims
        self._best: Found | None = None
        self._checks = 0
        """How many sets of pods were looked at."""
        by_node: dict[str, list[Candidate]] = {}
        for candidate in victims.candidates.values():
            by_node.setdefault(candidate.node, []).append(candidate)
        self._nodes = {node: Subsets(pods, self._key) for node, pods in sorted(by_node.items())}

    def run(self) -> Found | None:
        """Return the best victims, None if no pods that may go are enough."""
        if not self._victims.candidates:
            return None
        with self._room.node_by_node() as missing:
            if missing == 1:
                self._begin()
                self._cheapest(self._nodes, lambda node, uids: self._room.gain(node, uids) > 0)
            elif missing > 1:
                self._combine(missing)
        if self._best is None or self._room.mixed:
            self._of_all()
        return self._spared()

    def lacking(self) -> set[str]:
        """Return the nodes that have no room for one more pod even if all go that may go."""
        with self._room.node_by_node():
            return {node for node, pods in self._nodes.items() if not self._room.gain(node, pods.all)}

    def _begin(self) -> None:
        """Find victims on the first node that has some: sets that cost more need not be tried."""
        for node, pods in self._nodes.items():
            if self._exhausted or (self._room.gain(node, pods.all) and self._confirm(pods.all)):
                break
        self._best = self._spared()

    def _key(self, candidate: Candidate) -> Hashable:
        held = self._room.held(candidate)
        pod = candidate.pod
        of_card = None if held is None else (held.grants, held.resources, held.ports, held.tenant.topology)
        shared = None if held is None else (held.tenant.volumes, held.tenant.disks)
        return (
            candidate.node, candidate.priority, candidate.queue, pod.labels, pod.namespace, of_card, shared,
            self._victims.binding(candidate),
        )  # fmt: skip

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

    def _confirm(self, uids: frozenset[str]) -> bool:
        """Take these victims, with all that go along, if they are better than the best, and the group fits then."""
        completed = self._victims.completed(uids)
        if completed is None:
            return False
        cost = self._victims.cost(completed)
        if self._best is not None and cost >= self._best.cost:
            return False
        decision = self._room.decide([self._victims.candidates[uid] for uid in completed])
        if decision.placed:
            self._best = Found(completed, cost, decision)
        return bool(decision.placed)

    def _cheapest(self, places: dict[str, Subsets], enough: Callable[[str, frozenset[str]], bool]) -> None:
        """Find the best victims of one place."""
        needed: dict[str, frozenset[str]] = {}
        largest = max((len(pods.all) for pods in places.values()), default=0)
        for size in range(1, largest + 1):
            if self._best is not None and size > self._best.cost.pods:
                return
            for place, pods in places.items():
                if size > 1 and place not in needed and len(places) > 1:
                    needed[place] = pods.needed(partial(enough, place))
                self._try_all(pods, size, partial(enough, place), needed.get(place, frozenset()))
                if self._exhausted:
                    return

    def _try_all(self, pods: Subsets, size: int, enough: Prune, needed: frozenset[str]) -> None:
        for uids in pods.of_size(size, self._is_worse, lambda uids: not enough(uids), needed):
            if self._exhausted:
                return
            if enough(uids):
                self._confirm(uids)

    # Several pods on several nodes

    def _combine(self, missing: int) -> None:
        """Find the best victims on several nodes for several pods, on the first nodes if these have plenty of room."""
        gains: dict[str, int] = {}
        for node, pods in self._nodes.items():
            if gain := min(missing, self._room.gain(node, pods.all)):
                gains[node] = gain
            enough = len(gains) >= MAX_COMBINED and sum(gains.values()) >= PLENTY * missing
            if enough or self._exhausted:
                break
        share = (MAX_WORK - self._room.work) // (1 + len(gains))
        options = [self._options(node, most, self._room.work + share) for node, most in gains.items()]
        ordered = sorted((sorted(found, key=_ratio) for found in options if found), key=lambda found: _ratio(found[0]))
        ordered = ordered[: max(MAX_COMBINED, 2 * missing)]
        self._extend(ordered, _least(ordered, missing), 0, missing, Cost(), frozenset())

    def _extend(
        self,
        options: Sequence[Sequence[_Option]],
        least: Sequence[Sequence[Cost | None]],
        at: int,
        missing: int,
        cost: Cost,
        uids: frozenset[str],
    ) -> None:
        """Try the sets of the nodes from ``at`` on, for so many ``missing`` pods; ``uids`` go already."""
        if missing <= 0:
            self._confirm(uids)
            return
        more = least[at][missing]
        if more is None or self._exhausted or (uids and self._is_worse(uids)):
            return
        if self._best is not None and cost.plus(more) >= self._best.cost:
            return
        self._room.work += 1
        for each in options[at]:
            self._extend(options, least, at + 1, missing - each.gain, cost.plus(each.cost), uids | each.uids)
        self._extend(options, least, at + 1, missing, cost, uids)

    def _options(self, node: str, most: int, until: int) -> list[_Option]:
        """Return sets of pods of one node without any that could be spared for the same gain.

        ``most``: the largest gain; ``until``: the work after which no more are tried.
        """
        pods = self._nodes[node]
        found: list[_Option] = []

        def rejected(uids: frozenset[str]) -> bool:
            self._checks += 1
            return (
                self._exhausted
                or self._victims.completed(uids) is None
                or any(each.gain >= most and each.uids < uids for each in found)
            )

        needed = pods.needed(lambda uids: self._room.gain(node, uids) > 0)
        for size in range(max(1, len(needed)), len(pods.all) + 1):
            for uids in pods.of_size(size, rejected, lambda uids: not self._room.gain(node, uids), needed):
                if self._exhausted or self._room.work > until or len(found) == MAX_OPTIONS:
                    return found
                gain = min(most, self._room.gain(node, uids))
                if gain and not any(each.gain >= gain and each.uids < uids for each in found):
                    found.append(_Option(self._victims.cost(uids), gain, uids))
            counts = [self._count(each.uids) for each in found if each.gain >= most]
            if counts and size >= min(counts):
                break
        return found

    def _count(self, uids: frozenset[str]) -> int:
        """Return how many pods go if these go."""
        return len(self._victims.completed(uids) or self._victims.candidates)

    # All pods at once

    def _of_all(self) -> None:
        """Find victims among all pods by decisions about the whole group."""
        everything = Subsets(self._victims.candidates.values(), self._key)

        def enough(_: str, uids: frozenset[str]) -> bool:
            completed = self._victims.completed(uids)
            return bool(completed and self._room.decide([self._victims.candidates[uid] for uid in completed]).placed)

        if self._best is None:
            self._take_in_order()
        if self._best is not None:
            self._cheapest({_EVERYWHERE: everything}, enough)

    def _take_in_order(self) -> None:
        """Take pods of low priority until the group fits."""
        order = sorted(self._victims.candidates.values(), key=lambda each: (each.priority, -each.pod.created, each.uid))
        names = [each.uid for each in order]
        gone: frozenset[str] = frozenset()
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
            at, size = at + len(more), 2 * size
        if not self._confirm(gone):
            return
        step = bisect_left(growing, True, key=lambda each: self._confirm(each[0].union(each[1])))
        before, more = growing[min(step, len(growing) - 1)]
        bisect_left(range(len(more)), True, key=lambda number: self._confirm(before.union(more[:number])))
        self._best = self._spared()

    def _spared(self) -> Found | None:
        """Return the best victims without those that can be spared, alone or with their gang, important ones first."""
        if self._best is None:
            return None
        found, candidates = self._best, self._victims.candidates
        for uid in sorted(found.victims, key=lambda uid: (-candidates[uid].priority, uid)):
            group = {each for each in found.victims if candidates[each].group == candidates[uid].group}
            for spared in ({uid}, group):
                fewer = self._victims.completed(found.victims - spared) if uid in found.victims else None
                if fewer is None or not fewer < found.victims:
                    continue
                decision = self._room.decide([candidates[each] for each in fewer])
                if decision.placed:
                    found = Found(fewer, self._victims.cost(fewer), decision)
        return found


def _ratio(option: _Option) -> tuple[float, float]:
    """Return what a pod of the group costs."""
    return option.cost.pods / option.gain, option.cost.priorities / option.gain


def _least(options: Sequence[Sequence[_Option]], missing: int) -> list[list[Cost | None]]:
    """Return for each node, and each number of missing pods, what room for them costs at least there and after it."""
    least: list[list[Cost | None]] = [[Cost(), *[None] * missing]]
    for of_node in reversed(options):
        after = least[-1]
        here = list(after)
        for number in range(1, missing + 1):
            for each in of_node:
                rest = after[max(0, number - each.gain)]
                before = here[number]
                if rest is not None and (before is None or each.cost.plus(rest) < before):
                    here[number] = each.cost.plus(rest)
        least.append(here)
    return least[::-1]
