"""Keeping up with the ledgers: entering their versions, and what must be taken out of them.

A claim is taken out when its pod is gone or has ended, or when its outcome says refused or withdrawn. Of several
claims of one pod all but one are asked back.
"""

from collections.abc import Iterable

from deviceshare.claims import REFUSED, WITHDRAWN, Claim, NodeOutcomes, Outcome

from deviceshare_placement.core.records import LedgerRecord, PodRecord
from deviceshare_placement.core.world import World

ORPHAN_GRACE = 10.0
"""Seconds for which a claim may stand whose pod is not known: its fact may be on its way."""
REMEMBER_GONE = 60.0
"""Seconds for which a pod that is gone is remembered: a claim of it may be on its way."""


class Ledgers:
    """The claims of all nodes, and the changes that are due in them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._outcomes: dict[str, tuple[Outcome, ...]] = {}
        self.due: set[str] = set()
        """Nodes whose ledger has claims to take out or to ask back."""
        self.orphans: dict[str, tuple[str, float]] = {}
        """Claims whose pod was never seen: by uid, the node, and since when."""
        self._gone: dict[str, float] = {}
        """Pods that are gone, the first one first, and when that was heard."""

    def enter(self, node: str, sequence: int, claims: Iterable[Claim], now: float) -> None:
        """Make a version of a ledger the one we know.

        Charge what came, give back what went. Older versions change nothing.
        """
        record = self._world.ledger(node)
        if sequence <= record.sequence:
            return
        before, record.claims = record.claims, {claim.id: claim for claim in claims}
        record.sequence = sequence
        gone = [claim for claim in before.values() if claim.id not in record.claims]
        new = [claim for claim in record.claims.values() if claim.id not in before]
        for claim in gone:
            known = self._world.claims[claim.uid]
            known.pop(claim.id, None)
            if not known and claim.uid not in self._world.pods:
                del self._world.claims[claim.uid]
        for claim in new:
            self._world.claims[claim.uid][claim.id] = node
        for claim in (*gone, *new):
            self._world.charge(node, claim.uid)
            pod = self._world.pods.get(claim.uid)
            if pod is not None:
                self._world.reconsider(pod.fact.group)
        for claim in new:
            self._check(node, claim, now)
        record.remove &= record.claims.keys()
        record.withdraw &= {claim.id for claim in record.claims.values() if not claim.withdraw}
        self._take_out_ended(record)

    def _check(self, node: str, claim: Claim, now: float) -> None:
        """See whether a new claim may stay."""
        pod = self._world.pods.get(claim.uid)
        if pod is None and claim.uid not in self._gone:
            self.orphans[claim.uid] = (node, now)
        elif pod is None or pod.fact.ended:
            self.take_out(claim.uid)
        else:
            self.keep_one(pod)

    def outcomes(self, outcomes: NodeOutcomes) -> list[Outcome]:
        """Take in the outcomes of a node's claims; returns those by which a claim has to go and that were not known."""
        known = {outcome.claim for outcome in self._outcomes.get(outcomes.node, ())}
        self._outcomes[outcomes.node] = outcomes.outcomes
        self._take_out_ended(self._world.ledger(outcomes.node))
        return [
            outcome
            for outcome in outcomes.outcomes
            if outcome.state in (REFUSED, WITHDRAWN) and outcome.claim not in known
        ]

    def _take_out_ended(self, record: LedgerRecord) -> None:
        for outcome in self._outcomes.get(record.node, ()):
            if outcome.state in (REFUSED, WITHDRAWN) and outcome.claim in record.claims:
                record.remove.add(outcome.claim)
        if record.changes:
            self.due.add(record.node)

    def take_out(self, uid: str) -> None:
        """Take out all claims of a pod that holds nothing any more."""
        for claim, node in self._world.claims[uid].items() if uid in self._world.claims else ():
            self._world.ledgers[node].remove.add(claim)
            self.due.add(node)
        self.orphans.pop(uid, None)

    def forget(self, uid: str, now: float) -> None:
        """Take out all claims of a pod that is gone, and those that are yet to come."""
        self._gone[uid] = now
        self.take_out(uid)

    def keep_one(self, pod: PodRecord) -> None:
        """Ask back all claims of a pod but one: that on the node where it is bound, else the oldest.

        One that another replica asks back already comes last, lest the pod loses both.
        """
        bound = pod.fact.node
        if len(pod.claims) < 2 and all(node == bound for node in pod.claims.values() if bound):
            return
        claims = [(self._world.ledgers[node].claims[claim], node) for claim, node in pod.claims.items()]
        keep, _ = min(
            claims, key=lambda found: (found[1] != bound, found[0].withdraw, found[0].decided_at, found[0].id)
        )
        for claim, node in claims:
            stays = claim.id == keep.id and bound in ("", node)
            if not stays and not claim.withdraw:
                self._world.ledgers[node].withdraw.add(claim.id)
                self.due.add(node)

    def give_up_orphans(self, now: float) -> None:
        """Take out claims whose pod has not been seen for too long."""
        while self._gone and now >= next(iter(self._gone.values())) + REMEMBER_GONE:
            del self._gone[next(iter(self._gone))]
        for uid, (_, since) in list(self.orphans.items()):
            if uid in self._world.pods:
                del self.orphans[uid]
            elif now >= since + ORPHAN_GRACE:
                self.take_out(uid)
