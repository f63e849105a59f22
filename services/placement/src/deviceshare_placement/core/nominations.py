"""Nominations: the claims of one decision that wait for pods to go, and the evictions of these pods.

What follows next depends on nothing but the ledgers, the outcomes of the evictions and the facts of the pods, so any
replica goes on where another one has stopped. All claims of a nomination have the same ``waits_for``.

============  ==================================================================  ===================================
state         when (the first one that holds)                                     what is written, in one batch
============  ==================================================================  ===================================
``broken``    a claim cannot stay: its pod is gone or bound, its node is lost …,   claims and evictions are removed
              or a pod that it waits for is on no node: another one has its uid
``open``      all pods that it waits for are gone                                 claims wait no more, and evictions
                                                                                  are removed
``blocked``   a pod may not go, or has not gone in time                           claims and evictions are removed
``unknown``   the fact or the eviction of a pod has not been read yet             nothing, for a time
``free``      all pods may go, or are going by themselves                         ``go`` of all evictions
``waiting``   else: the binder asks, or evicts                                    nothing
============  ==================================================================  ===================================

A group of higher priority that fits nowhere else takes the room of a nomination (:mod:`.claims`): its claims are
removed, and the evictions of pods whose room is needed go on for the claims of the other group, all in one batch.

A pod that is blocked or late is spared for a time: it is neither evicted for others, nor is its end counted on.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterator

from deviceshare.model import BLOCKED, FORBIDDEN, MAY_GO, Claim, Eviction, Now, Outcome
from deviceshare.scheduler import NOT_GONE, Nomination, PodRecord, Scheduler

from deviceshare_placement.core.claims import LedgerChange

BROKEN, OPEN, LATE, UNKNOWN, FREE, WAITING = "broken", "open", "blocked", "unknown", "free", "waiting"
GRACE = 10.0
"""Seconds for which an eviction without claims, or claims without an eviction, may be: they come in two messages."""
MAX_PREEMPTORS = 10_000
"""Claims that waited, of which it is remembered whose they are."""

_MAY_NOT_GO = "hold a pod that may not be evicted now"


class Nominations:
    """The nominations of all ledgers; bounded by these.

    Args:
        scheduler: knows pods, ledgers and the configuration.
        outcome: returns the outcome of an eviction on a node, None if there is none.
        is_gone: whether a pod that is not known was deleted.
        owns: whether this replica repairs the ledger of a node.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        outcome: Callable[[str, Eviction], Outcome | None],
        is_gone: Callable[[str], bool],
        owns: Callable[[str], bool],
    ) -> None:
        self._scheduler = scheduler
        self._outcome = outcome
        self._is_gone = is_gone
        self._owns = owns
        self._nodes: dict[str, dict[str, float]] = {}
        """The nodes with claims that wait, or evictions: since when, monotonic, each claim or pod is known here."""
        self._unclaimed: dict[tuple[str, str], float] = {}
        """Evictions whose claim is not known, by node and uid, and since when."""
        self._unasked: dict[str, float] = {}
        """Pods that claims wait for and that have no eviction, and since when."""
        self._preemptors: OrderedDict[str, str] = OrderedDict()
        """The uids of the pods of claims that waited, by the id of the claim: the claim may be removed first."""
        self._wasted = 0
        """The pods that went for nominations that were withdrawn, since :meth:`take_wasted`."""
        self.unread: set[str] = set()
        """Pods that nominations wait for and that are not known: CLUSTER is to be asked for them."""

    def take_wasted(self) -> int:
        """Return how many pods went for nominations that were withdrawn since the last call."""
        wasted, self._wasted = self._wasted, 0
        return wasted

    @property
    def any(self) -> bool:
        """Whether there are nominations or evictions."""
        return bool(self._nodes or self._scheduler.has_nominations)

    def enter(self, node: str, before: dict[str, Eviction], now: Now) -> None:
        """Apply a new version of a ledger, which had these evictions before: spare those that have not gone."""
        record = self._scheduler.ledger(node)
        since = self._nodes.pop(node, {})
        waiting = {claim.id: claim.uid for claim in record.claims.values() if claim.waits_for}
        self._preemptors |= waiting
        while len(self._preemptors) > MAX_PREEMPTORS:
            self._preemptors.popitem(last=False)
        if waiting or record.evictions:
            self._nodes[node] = {key: since.get(key, now.monotonic) for key in (*waiting, *record.evictions)}
        for uid, eviction in before.items():
            pod = self._scheduler.pods.get(uid)
            if uid not in record.evictions and pod is not None and not pod.fact.ended:
                self._spare(pod, eviction, node, since.get(uid, now.monotonic), now.monotonic)

    def _spare(self, pod: PodRecord, eviction: Eviction, node: str, since: float, now: float) -> None:
        uid, outcome = pod.fact.uid, self._outcome(node, eviction)
        why = outcome.reason if outcome is not None and outcome.state in (BLOCKED, FORBIDDEN) else ""
        late = self._due(since, pod) <= now
        if not (late or self._blocks(pod, eviction, node)):
            return
        until = self._scheduler.blocked(self._preemptors.get(eviction.claim, ""), eviction.claim, now)
        if late or eviction.go:
            until = max(until, now + self._scheduler.conf.preemption_timeout)
        self._scheduler.spare(uid, until, why or (NOT_GONE if late or eviction.go else _MAY_NOT_GO))

    def evictions_for(self, claims: Collection[tuple[str, str]]) -> list[tuple[str, Eviction]]:
        """Return the evictions that belong to nominated claims, given by node and id; with their nodes."""
        named = set(claims)
        return [
            (node, eviction)
            for nomination in (self._scheduler.nominations if named else ())
            if not named.isdisjoint(nomination.claims)
            for eviction, node in nomination.evictions.values()
        ]

    def own(self) -> list[Nomination]:
        """Return those that this replica carries on."""
        return [each for each in self._scheduler.nominations if self._owns_first(each)]

    def _owns_first(self, nomination: Nomination) -> bool:
        """Return whether this replica carries on a nomination: the owner of the node of its first claim does."""
        return self._owns(nomination.first[0])

    def changes(self, now: float, may_write: Callable[[str], bool]) -> list[dict[str, LedgerChange]]:
        """Return for each nomination that goes on how the ledgers of its nodes change, all of them together.

        ``may_write``: whether the ledger of a node may be written now.
        """
        self.unread.clear()
        nominations = self._scheduler.nominations
        self._note_alone(nominations, now)
        changes = []
        for nomination in nominations:
            if self._owns_first(nomination) and all(map(may_write, nomination.nodes)):
                change = self._change(nomination, self.state(nomination, now))
                if change:
                    changes.append(change)
        for (node, uid), since in self._unclaimed.items():
            if now >= since + GRACE and self._owns(node) and may_write(node):
                changes.append({node: LedgerChange(dropped={uid})})
        return changes

    def _note_alone(self, nominations: list[Nomination], now: float) -> None:
        """Remember since when evictions have no claims, and pods that claims wait for no eviction."""
        claimed = {(node, uid) for each in nominations for uid, (_, node) in each.evictions.items()}
        unclaimed = {(node, uid) for node in self._nodes for uid in self._scheduler.ledger(node).evictions} - claimed
        self._unclaimed = {each: self._unclaimed.get(each, now) for each in sorted(unclaimed)}
        unasked = {uid for each in nominations for uid in each.waits_for if self._is_unasked(each, uid)}
        self._unasked = {uid: self._unasked.get(uid, now) for uid in sorted(unasked)}

    def _is_unasked(self, nomination: Nomination, uid: str) -> bool:
        """Return whether a pod that stays has no eviction, and is not going by itself."""
        pod = self._stays(uid)
        return uid not in nomination.evictions and pod is not None and not pod.fact.terminating

    def _stays(self, uid: str) -> PodRecord | None:
        """Return a pod that is known and has not ended, or None."""
        pod = self._scheduler.pods.get(uid)
        return None if pod is None or pod.fact.ended else pod

    def state(self, nomination: Nomination, now: float) -> str:
        """Return the state of a nomination at a monotonic time, as in the table of this module."""
        if any(self._cannot_stay(claim, node) for (node, _), claim in nomination.claims.items()):
            return BROKEN
        unread = {uid for uid in nomination.waits_for if uid not in self._scheduler.pods and not self._is_gone(uid)}
        self.unread |= unread
        staying = [pod for uid in nomination.waits_for if (pod := self._stays(uid)) is not None]
        if not all(pod.fact.node for pod in staying):
            return BROKEN
        if not staying and not unread:
            return OPEN
        known = True
        free = True
        for pod in staying:
            eviction, node = nomination.evictions.get(pod.fact.uid, (None, ""))
            if eviction is None:
                if pod.fact.terminating and self._due(self._since(nomination, pod), pod) <= now:
                    return LATE
                if not pod.fact.terminating:
                    known = False
                    if now >= self._unasked.get(pod.fact.uid, now) + GRACE:
                        return LATE
            elif self._due(self._since(nomination, pod), pod) <= now or self._blocks(pod, eviction, node):
                return LATE
            elif not (pod.fact.terminating or eviction.go):
                outcome = self._outcome(node, eviction)
                free = free and outcome is not None and outcome.state == MAY_GO
        if unread or not known:
            return UNKNOWN
        return FREE if free and not all(each.go for each, _ in nomination.evictions.values()) else WAITING

    def _cannot_stay(self, claim: Claim, node: str) -> bool:
        """Return whether a claim is to be removed, or is of a pod that is bound already."""
        pod = self._scheduler.pods.get(claim.uid)
        return claim.id in self._scheduler.ledger(node).remove or (pod is not None and bool(pod.fact.node))

    def _since(self, nomination: Nomination, pod: PodRecord) -> float:
        """Return since when it is known here that a pod has to go, or that claims wait for one without an eviction."""
        uid = pod.fact.uid
        if uid in nomination.evictions:
            return self._nodes[nomination.evictions[uid][1]][uid]
        node, claim = nomination.first
        return self._nodes[node][claim]

    def _due(self, since: float, pod: PodRecord) -> float:
        """Return when a pod should have gone.

        A clock of this process says it, not the time of the decision: clocks of replicas differ, and may be set.
        """
        return since + pod.fact.grace + self._scheduler.conf.preemption_timeout

    def _blocks(self, pod: PodRecord, eviction: Eviction, node: str) -> bool:
        """Return whether a pod may not go, and is not going all the same."""
        outcome = self._outcome(node, eviction)
        return outcome is not None and outcome.state in (BLOCKED, FORBIDDEN) and not pod.fact.terminating

    def _change(self, nomination: Nomination, state: str) -> dict[str, LedgerChange]:
        """Return the changes of a state, of the ledgers in which something changes."""
        changes: defaultdict[str, LedgerChange] = defaultdict(LedgerChange)
        if state in (BROKEN, LATE):
            self._wasted += sum(
                each.go and (uid not in self._scheduler.pods or self._scheduler.pods[uid].fact.terminating)
                for uid, (each, _) in nomination.evictions.items()
            )
        if state in (OPEN, BROKEN, LATE):
            for node, claim in nomination.claims:
                (changes[node].opened if state == OPEN else changes[node].removed).add(claim)
            for uid, (_, node) in nomination.evictions.items():
                changes[node].dropped.add(uid)
        elif state == FREE:
            for uid, (_, node) in nomination.evictions.items():
                changes[node].going.add(uid)
        return changes

    def due(self, readable: Callable[[str], bool]) -> Iterator[float]:
        """Yield the monotonic times at which nominations of this replica change without further events.

        ``readable``: whether all messages about a node are valid.
        """
        if not self._nodes:
            return
        for (node, _), since in self._unclaimed.items():
            if self._owns(node) and readable(node):
                yield max(since + GRACE, self._scheduler.ledger(node).retry_at)
        for nomination in self._scheduler.nominations:
            if not self._owns_first(nomination) or not all(map(readable, nomination.nodes)):
                continue
            may_write = max(self._scheduler.ledger(node).retry_at for node in nomination.nodes)
            for uid in nomination.waits_for:
                if uid in self._unasked:
                    yield max(self._unasked[uid] + GRACE, may_write)
                elif (pod := self._stays(uid)) is not None:
                    yield max(self._due(self._since(nomination, pod), pod), may_write)
