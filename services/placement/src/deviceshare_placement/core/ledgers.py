"""The claims in the ledgers: applying new versions, and the removals and withdrawals that are due.

A claim is removed when its pod is gone or has ended, or when its outcome is refused or withdrawn. A withdrawal is
requested for all but one of several claims of one pod, for a claim with the outcome bound whose pod is not bound, and
for an orphan, a claim whose pod is not known: the binder then reads the pod back from the API server. Of an orphan
CLUSTER says nothing, as it may have lost the pod. Times are monotonic.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import NamedTuple

from deviceshare.allocation import CORDONED, tolerates
from deviceshare.model import (
    BOUND,
    FORBIDDEN,
    REFUSED,
    WITHDRAWN,
    Claim,
    Eviction,
    NodeLedger,
    NodeOutcomes,
    Now,
    Outcome,
)
from deviceshare.scheduler import LedgerRecord, PodRecord, Scheduler
from deviceshare_bus.messages.sharing import share_grants, share_names, share_outcome

from deviceshare_placement.core.claim_traces import ClaimTraces
from deviceshare_placement.core.claims import INTER_POD
from deviceshare_placement.core.nominations import Nominations

ORPHAN_GRACE = 10.0
"""Seconds after which CLUSTER is asked for the pod of a claim that is not known: its fact may be on its way."""
BOUND_GRACE = 10.0
"""Seconds for which a claim may have the outcome bound while its pod is not bound: the fact may be on its way."""
REMEMBER_GONE = 60.0
"""Seconds for which a deleted pod is remembered: a claim of it may be on its way."""


class Orphan(NamedTuple):
    """The claims of a pod that was never seen: a node, and since when; ``withdrawn``: the binder reads the pod back."""

    node: str
    since: float
    withdrawn: bool = False

    def is_due(self, synced_at: float) -> bool:
        """Return whether CLUSTER is to be asked after the grace; a withdrawn one waits for a list of the cluster."""
        return not self.withdrawn or synced_at > self.since


class Ledgers:
    """The claims of all nodes, and the changes that are due; ``owns``: whether this replica repairs a node's ledger."""

    def __init__(self, scheduler: Scheduler, traces: ClaimTraces, owns: Callable[[str], bool]) -> None:
        self._scheduler = scheduler
        self._traces = traces
        self._outcomes: dict[str, tuple[Outcome, ...]] = {}
        """By node. An outcome belongs to a claim only if its id and the pod's uid match."""
        self.due: set[str] = set()
        """Nodes whose ledger has claims to remove or to withdraw."""
        self.orphans: dict[str, Orphan] = {}
        """By the uid of the pod; bounded by the ledgers."""
        self._synced_at = -inf
        """When inventory last said that it has published all that a new list of the cluster has."""
        self.asked: set[str] = set()
        """Those of which CLUSTER is being asked for the pod."""
        self.unconfirmed: dict[str, tuple[str, float]] = OrderedDict()
        """Claims with the outcome bound whose pod is not bound: the pod's uid, and since when, the oldest first."""
        self.invalid: set[str] = set()
        """Pods whose fact is invalid: their claims are no orphans."""
        self.idle: set[str] = set()
        """Nodes whose ledger has become empty, or that were deleted: the ledgers of those that are gone expire."""
        self.nominations = Nominations(scheduler, self._of_eviction, self._is_gone, owns)
        self._read_again: dict[str, float] = {}
        """When CLUSTER is asked again for pods that nominations wait for; bounded by these."""
        self._gone: dict[str, float] = OrderedDict()
        """Deleted pods and when the deletion was received, the oldest first; kept for :data:`REMEMBER_GONE`."""

    def enter(self, ledger: NodeLedger, at: Now) -> None:
        """Make a newer version of a ledger the known one: charge new claims, release removed ones."""
        node, now = ledger.node, at.monotonic
        record = self._scheduler.ledger(node)
        waiting = [claim for claim in record.remove if record.claims[claim].waits_for] if record.remove else []
        before = record.evictions
        for claim in ledger.claims:
            if claim.id not in record.claims and (pod := self._scheduler.pods.get(claim.uid)) is not None:
                share_names(claim, pod.fact)
                if node == pod.fact.node:
                    share_grants(pod.fact, claim.grants)
        _, new = self._scheduler.claim(node, ledger.claims, ledger.evictions)
        if before or ledger.evictions or self.nominations.any or any(claim.waits_for for claim in new):
            self.nominations.enter(node, before, at)
            for opened in waiting:
                if opened in record.claims and not record.claims[opened].waits_for:
                    # Another replica has opened it meanwhile: the binder may have begun.
                    record.remove.discard(opened)
                    self.withdraw(node, opened)
        for claim in new:
            pod = self._scheduler.pods.get(claim.uid)
            self._traces.claimed(claim, pod.reported if pod is not None else "")
        outcomes = self._outcomes_by_key(node) if new else {}
        for claim in new:
            self._check(node, claim, now)
            if (outcome := outcomes.get((claim.id, claim.uid))) is not None:
                self._apply(record, outcome, now)
        if new and (fact := self._scheduler.node(node)) is not None and not fact.takes_pods:
            self.node_lost(node)
        if not record.claims:
            self.idle.add(node)
        record.remove &= record.claims.keys()
        record.withdraw &= {claim.id for claim in record.claims.values() if not claim.withdraw}
        if record.changes:
            self.due.add(node)

    def _of_eviction(self, node: str, eviction: Eviction) -> Outcome | None:
        return self._find(node, eviction.claim, eviction.uid)

    def _outcomes_by_key(self, node: str) -> dict[tuple[str, str], Outcome]:
        return {(outcome.claim, outcome.uid): outcome for outcome in self._outcomes.get(node, ())}

    def _find(self, node: str, claim: str, uid: str) -> Outcome | None:
        found = (each for each in self._outcomes.get(node, ()) if each.claim == claim and each.uid == uid)
        return next(found, None)

    def _is_gone(self, uid: str) -> bool:
        return uid in self._gone

    def _check(self, node: str, claim: Claim, now: float) -> None:
        """Check whether a new claim may stay."""
        pod = self._scheduler.pods.get(claim.uid)
        if pod is None and claim.uid not in self._gone:
            self.orphans[claim.uid] = Orphan(node, now)
        elif pod is None or pod.fact.ended:
            self.remove(claim.uid)
        else:
            self.keep_one(pod)

    def contradiction(self, node: str, claims: Iterable[Claim]) -> str:
        """Return why a version of a ledger cannot be right: a claim of another node has the same id; '' if it can."""
        for claim in claims:
            for known, where in self._scheduler.claims_of(claim.uid):
                if known == claim.id and where != node:
                    return f"claim {claim.id} is on node {where} already"
        return ""

    def outcomes(self, node: str, outcomes: NodeOutcomes, now: float) -> list[Outcome]:
        """Apply the outcomes of a node's claims; return the new ones that say refused or withdrawn."""
        known = self._outcomes_by_key(node)
        new = [
            outcome
            for outcome in outcomes.outcomes
            if (before := known.get((outcome.claim, outcome.uid))) is None or before.state != outcome.state
        ]
        if outcomes.outcomes:
            self._outcomes[node] = outcomes.outcomes
        else:
            self._outcomes.pop(node, None)
        for outcome in new:
            if outcome.state == FORBIDDEN:
                self._scheduler.pause_preemption(outcome.reason, now)
        record = self._scheduler.ledgers.get(node)
        if record is not None:
            for outcome in new:
                self._apply(record, outcome, now)
        self._traces.outcomes(new, record.claims if record is not None else ())
        return [outcome for outcome in new if outcome.state in (REFUSED, WITHDRAWN)]

    def _apply(self, record: LedgerRecord, outcome: Outcome, now: float) -> None:
        """Apply an outcome to its claim, if that is in the ledger."""
        claim = record.claims.get(outcome.claim)
        if claim is None or claim.uid != outcome.uid:
            return
        share_outcome(outcome, claim)
        if outcome.state == BOUND:
            self._doubt(outcome, now)
        elif outcome.state in (REFUSED, WITHDRAWN):
            record.remove.add(outcome.claim)
            self.due.add(record.node)

    def doubt(self, pod: PodRecord, now: float) -> None:
        """Find claims of a pod with the outcome bound though the pod is not bound."""
        for claim, node in pod.claims:
            outcome = self._find(node, claim, pod.fact.uid)
            if outcome is not None and outcome.state == BOUND:
                self._doubt(outcome, now)

    def _doubt(self, outcome: Outcome, now: float) -> None:
        pod = self._scheduler.pods.get(outcome.uid)
        if pod is not None and _node_of(pod, outcome.claim) and not (pod.fact.node or pod.fact.ended):
            self.unconfirmed.setdefault(outcome.claim, (outcome.uid, now))

    def withdraw_unconfirmed(self, now: float, owns: Callable[[str], bool]) -> int:
        """Withdraw claims whose pods were not bound for too long; return how many, on nodes that ``owns`` accepts."""
        asked = 0
        while self.unconfirmed and now >= (first := next(iter(self.unconfirmed.items())))[1][1] + BOUND_GRACE:
            claim, (uid, _) = first
            del self.unconfirmed[claim]
            pod = self._scheduler.pods.get(uid)
            if pod is not None and (node := _node_of(pod, claim)) and not (pod.fact.node or pod.fact.ended):
                asked += self.withdraw(node, claim) and owns(node)
        return asked

    def readable_again(self, node: str) -> None:
        """Make the changes of a ledger due again that were not written while a message about its node was invalid."""
        record = self._scheduler.ledgers.get(node)
        if record is not None and record.changes:
            self.due.add(node)

    def withdraw(self, node: str, claim: str) -> bool:
        """Request the withdrawal of a claim; return False if it was requested before.

        One that waits for pods to go needs no request: the binder has not begun.
        """
        record = self._scheduler.ledgers[node]
        if record.claims[claim].waits_for:
            known = claim in record.remove
            record.remove.add(claim)
            return not known
        if record.claims[claim].withdraw or claim in record.withdraw:
            return False
        record.withdraw.add(claim)
        self.due.add(node)
        return True

    def node_lost(self, node: str, *, gone: bool = False) -> None:
        """Withdraw all unbound claims of gangs that have an unbound claim on a node that takes no pods now.

        The gang is decided again as a whole: its other pods may go to other nodes as well. Pods that a cordon does not
        concern stay on a node that is ready, unless it is ``gone``.
        """
        fact = None if gone else self._scheduler.node(node)
        cordons = self._scheduler.conf.predicates.unschedulable
        for claim in list(self._scheduler.ledger(node).claims.values()):
            pod = self._scheduler.pods.get(claim.uid)
            if pod is None or pod.fact.node or pod.fact.ended:
                continue
            if fact is not None and fact.ready and (not cordons or tolerates(pod.fact.ask.tolerations, CORDONED)):
                continue
            group = self._scheduler.groups[pod.fact.group]
            if claim.waits_for:
                self.withdraw(node, claim.id)
            if group.fact is None or group.fact.min_member <= 1:
                continue
            for member in (self._scheduler.pods[uid] for uid in group.members):
                if not (member.fact.node or member.fact.ended):
                    for each, where in member.claims:
                        self.withdraw(where, each)

    def node_gone(self, node: str) -> None:
        """Withdraw all unbound claims on a node that was deleted, also if there is another one of its name by now.

        The other node may have other cards, and the binder may hear of the ledger before it hears of the node.
        """
        self.node_lost(node, gone=True)
        for claim in self._scheduler.ledger(node).claims.values():
            pod = self._scheduler.pods.get(claim.uid)
            if pod is not None and not (pod.fact.node or pod.fact.ended):
                self.withdraw(node, claim.id)

    def take_gone(self, busy: Callable[[str], bool], now: float) -> list[str]:
        """Return the nodes that are gone and have an empty ledger, sorted; ``busy`` nodes are returned later."""
        idle, self.idle = self.idle, set()
        found = []
        for node in sorted(idle):
            record = self._scheduler.ledger(node)
            if self._scheduler.node(node) is not None or record.claims or record.evictions or node == INTER_POD:
                continue
            if busy(node) or record.retry_at > now:
                self.idle.add(node)
            else:
                found.append(node)
        return found

    def drop(self, node: str) -> None:
        """Forget the empty ledger of a node that is gone."""
        record = self._scheduler.ledgers.get(node)
        if record is not None and not (record.claims or record.evictions) and self._scheduler.node(node) is None:
            self._scheduler.forget_ledger(node)
            self.due.discard(node)

    def remove(self, uid: str) -> None:
        """Remove all claims of a pod that holds no devices any more."""
        for claim, node in self._scheduler.claims_of(uid):
            self._scheduler.ledgers[node].remove.add(claim)
            self.due.add(node)
        self.orphans.pop(uid, None)

    def forget(self, uid: str, now: float) -> None:
        """Remove all claims of a deleted pod, also those that are received later."""
        self._gone[uid] = now
        self.remove(uid)

    def keep_one(self, pod: PodRecord) -> None:
        """Withdraw all claims of a pod but one: the claim on the node where it is bound, else the oldest claim.

        A claim that another replica withdraws already is the last choice: otherwise the pod might lose both.
        """
        bound = pod.fact.node
        if len(pod.claims) < 2 and all(node == bound for _, node in pod.claims if bound):
            return
        claims = [(self._scheduler.ledgers[node].claims[claim], node) for claim, node in pod.claims]
        keep, _ = min(
            claims,
            key=lambda found: (found[1] != bound, found[0].withdraw, *_precedence(found[0])),
        )
        for claim, node in claims:
            stays = claim.id == keep.id and bound in ("", node)
            if not stays:
                self.withdraw(node, claim.id)

    def take_orphans(self, now: float) -> list[str]:
        """Return the uids of pods that have not been seen for too long: CLUSTER is to be asked for them."""
        due = []
        while self._gone and now >= next(iter(self._gone.values())) + REMEMBER_GONE:
            del self._gone[next(iter(self._gone))]
        for uid, orphan in list(self.orphans.items()):
            if uid in self._scheduler.pods or not self._scheduler.claims_of(uid):
                del self.orphans[uid]
            elif uid in self.invalid:
                self.orphans[uid] = orphan._replace(since=now)
            elif uid not in self.asked and orphan.is_due(self._synced_at) and now >= orphan.since + ORPHAN_GRACE:
                self.asked.add(uid)
                due.append(uid)
        return due

    def take_unread(self, now: float) -> list[str]:
        """Return the uids of unknown pods that nominations wait for: CLUSTER is to be asked for them."""
        unread = self.nominations.unread
        self._read_again = {uid: at for uid, at in self._read_again.items() if uid in unread}
        due = sorted(uid for uid in unread - self.asked if now >= self._read_again.get(uid, now))
        self.asked.update(due)
        return due

    def pod_read(self, uid: str, now: float, *, exists: bool) -> None:
        """Note whether CLUSTER holds a pod that a nomination waits for; if so, its fact is not readable.

        A pod that it does not hold may be there as long as it has a claim, which is an orphan.
        """
        if uid in self.nominations.unread:
            if exists or self._scheduler.claims_of(uid):
                self._read_again[uid] = now + ORPHAN_GRACE
            else:
                self._gone[uid] = now

    def orphans_due(self) -> Iterator[float]:
        """Yield when CLUSTER is to be asked for a pod."""
        for uid, orphan in self.orphans.items():
            if uid not in self.asked and orphan.is_due(self._synced_at):
                yield orphan.since + ORPHAN_GRACE
        yield from (at for uid, at in self._read_again.items() if uid not in self.asked)

    def synced(self, now: float) -> None:
        """Note that all objects of a new list of the cluster are on CLUSTER."""
        self._synced_at = now

    def orphan_read(self, uid: str, now: float, *, exists: bool) -> str:
        """Withdraw the claims of an unknown pod that CLUSTER does not hold; return their node, '' for none.

        The reader of CLUSTER may lag behind the one of LEDGER: only the stream itself tells that it lacks the pod. If
        the binder has found it bound, the claims are removed when it is still missing after the next list.
        """
        self.asked.discard(uid)
        orphan = self.orphans.get(uid)
        if orphan is None or uid in self._scheduler.pods:
            return ""
        if exists:  # not readable
            self.orphans[uid] = orphan._replace(since=now)
            return ""
        if orphan.withdrawn:
            self.remove(uid)
            return ""
        self.orphans[uid] = orphan._replace(since=now, withdrawn=True)
        for claim, node in self._scheduler.claims_of(uid):
            self.withdraw(node, claim)
        return orphan.node


def _node_of(pod: PodRecord, claim: str) -> str:
    """Return the node of a claim of a pod, '' if the pod has no such claim."""
    return next((node for each, node in pod.claims if each == claim), "")


def _precedence(claim: Claim) -> tuple[bool, float, str]:
    """Return what orders the claims of a pod: the first one is kept, and rather one that does not wait."""
    return bool(claim.waits_for), claim.decided_at, claim.id
