"""The cluster and its ledgers as the core knows them, and what each pod holds.

Usage of a node = claims ∪ pods seen bound there, by uid: where a pod has a claim on a node the claim counts, where it
is bound without one, what it was bound with.
"""

from collections import Counter, defaultdict

from deviceshare.allocator import Allocator
from deviceshare.claims import Claim, Tenant, with_made
from deviceshare.conf.model import SchedulerConf
from deviceshare.conf.scheduler import default_conf
from deviceshare.facts import GroupKey, PodAsk, QueueFact

from deviceshare_placement.core.records import GroupRecord, LedgerRecord, PodRecord


class World:
    """Pods, groups, queues, ledgers, and the allocator that they are charged to."""

    def __init__(self) -> None:
        self.allocator = Allocator(default_conf())
        self.pods: dict[str, PodRecord] = {}
        self.groups: dict[GroupKey, GroupRecord] = {}
        self.queues: dict[str, QueueFact] = {}
        self.ledgers: dict[str, LedgerRecord] = {}
        self.claims: defaultdict[str, dict[str, str]] = defaultdict(dict)
        """For each pod's uid: the ids of its claims and their nodes, whether or not the pod is known."""
        self.candidates: set[GroupKey] = set()
        """Groups about which there may be something to decide."""
        self.refused: set[GroupKey] = set()
        """Groups that wait for room."""
        self.crowded: set[str] = set()
        """Nodes that may be overdrawn: pods without a claim came there, or the node has something else than before."""

    def group(self, key: GroupKey) -> GroupRecord:
        """Return a group, a new one if it was never seen."""
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = GroupRecord(key)
        return group

    def ledger(self, node: str) -> LedgerRecord:
        """Return a node's ledger, an empty one if there is none."""
        ledger = self.ledgers.get(node)
        if ledger is None:
            ledger = self.ledgers[node] = LedgerRecord(node)
        return ledger

    def claim_on(self, node: str, uid: str) -> Claim | None:
        """Return a pod's claim on a node, or None."""
        for claim, where in self.claims[uid].items() if uid in self.claims else ():
            if where == node:
                return self.ledgers[node].claims[claim]
        return None

    def charge(self, node: str, uid: str) -> None:
        """Charge a pod to a node for what it holds there now, which may be nothing any more."""
        claim = self.claim_on(node, uid)
        pod = self.pods.get(uid)
        before = self.allocator.holding(node, uid)
        if claim is not None:
            tenant = pod.fact.tenant if pod is not None else _tenant(claim)
            held = pod.fact.held if pod is not None and pod.fact.node == node else ()
            self.allocator.hold(node, uid, with_made(claim.grants, held), claim.resources, tenant)
        elif pod is not None and pod.fact.node == node and not pod.fact.ended:
            amounts = self.allocator.amounts(pod.fact.ask)
            self.allocator.hold(node, uid, pod.fact.held, amounts, pod.fact.tenant)
            self.crowded.add(node)
        else:
            self.allocator.release(node, uid)
        if before is not None and self.allocator.holding(node, uid) != before:
            # Less may be held, or by somebody with whom others may share a card.
            self.made_room()

    def configure(self, conf: SchedulerConf) -> None:
        """Decide by another configuration from now on; what is held stays held."""
        self.allocator.set_configuration(conf)
        for uid, pod in self.pods.items():
            if pod.fact.node:
                # Which of the resources that it asks are devices may have changed.
                self.charge(pod.fact.node, uid)
        self.made_room()

    def asked(self, most: int) -> list[tuple[PodAsk, int]]:
        """Return the most frequent asks of pods that have not ended, and how many pods ask so."""
        asks = [record.fact.ask for record in self.pods.values() if not record.fact.ended]
        # Equal asks are one object.
        counts, by_id = Counter(map(id, asks)), {id(ask): ask for ask in asks}
        return [(by_id[each], count) for each, count in counts.most_common(most)]

    def reconsider(self, key: GroupKey) -> None:
        """Look at a group in the next cycle."""
        self.refused.discard(key)
        self.candidates.add(key)
        if (group := self.groups.get(key)) is not None:
            group.order = None

    def in_order(self) -> list[GroupRecord]:
        """Return the candidates, who comes first first."""
        groups = [group for key in self.candidates if (group := self.groups.get(key)) is not None and group.members]
        for group in groups:
            if group.order is None:
                group.order = self._order(group)
        return sorted(groups, key=_order)

    def _order(self, group: GroupRecord) -> tuple[int, float, str]:
        facts = [self.pods[uid].fact for uid in group.members]
        priority = max(fact.priority for fact in facts)
        created = min(fact.created for fact in facts)
        if group.fact is not None:
            priority = priority if group.fact.priority is None else group.fact.priority
            created = group.fact.created
        return (-priority, created, group.key)

    def made_room(self) -> None:
        """Look at all groups that were refused: something happened that may let them in."""
        self.candidates |= self.refused
        self.refused.clear()

    def drop_if_empty(self, group: GroupRecord) -> None:
        """Forget a group of which nothing is left."""
        if group.empty:
            self.groups.pop(group.key, None)
            self.candidates.discard(group.key)
            self.refused.discard(group.key)


def _tenant(claim: Claim) -> Tenant:
    """Return who holds a claim whose pod is not known."""
    return Tenant("" if claim.group == f"pod/{claim.uid}" else claim.group, claim.labels)


def _order(group: GroupRecord) -> tuple[int, float, str]:
    assert group.order is not None
    return group.order
