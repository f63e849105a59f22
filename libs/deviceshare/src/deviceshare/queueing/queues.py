"""Resource accounting of all queues, and of the groups in them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from functools import partial

import msgspec

from deviceshare.conf import SchedulerConf
from deviceshare.model import (
    DEFAULT_QUEUE,
    ContainerGrant,
    DeviceClaim,
    GroupKey,
    NodeFact,
    PodFact,
    QueueFact,
    ResourceAmounts,
)
from deviceshare.queueing.amounts import Counting
from deviceshare.queueing.bounds import set_bounds, with_guarantees
from deviceshare.queueing.hierarchy import NO_LINKS, ROOT, Links, find_links
from deviceshare.queueing.pod_accounts import PodAccounts
from deviceshare.queueing.policies import OrderKey, QueuePolicies
from deviceshare.queueing.proportion import share
from deviceshare.queueing.queue_account import add, link
from deviceshare.queueing.queue_heap import CurrentQueueHeap, VolcanoQueueHeap
from deviceshare.queueing.queue_limits import QueueLimits
from deviceshare.queueing.shortage import Shortage


class Queues(PodAccounts):
    """The accounts of all queues. Amounts are in the units of :data:`deviceshare.model.Resources`."""

    def __init__(self, conf: SchedulerConf) -> None:
        super().__init__(Counting(conf))
        self.claimed_elsewhere: Mapping[str, Set[str]] = {}
        """By resource, the queues that are decided elsewhere and lack what they deserve: no queue borrows it."""
        self.nodes_version = 0
        """Incremented with every change of a node."""
        self.configure(conf)

    def configure(self, conf: SchedulerConf) -> None:
        """Apply another configuration; the caller puts the pods in again."""
        self.counting = Counting(conf, self.counting.nodes)
        self._foreign.counting = self.counting
        self.policies = QueuePolicies(conf, self.counting.total)
        self.limits = QueueLimits(
            self.counting,
            bounded=self.policies.bound_queues("Allocatable"),
            deserved=any(policy.limits_deserved for policy in self.policies.dividing),
            hierarchical=self.policies.hierarchical,
            exact=conf.extensions.exact_shares,
        )
        self._tree = self.policies.tree
        self._isolated = conf.extensions.hierarchy_isolation
        self._at_once = conf.extensions.parent_shares
        self._links = None
        if self._tree is not None:
            for entry in self._pods.values():
                self._tree.add_request(entry.group, entry.account.fact.name, entry.amounts, 1)
                if entry.held:
                    self._tree.charge(entry.group, entry.amounts, 1)
        self._dirty = True

    # Updates

    def set_node(self, node: NodeFact) -> set[GroupKey]:
        """Add or update a node; returns the groups with pods that count other amounts now."""
        profiles = self.counting.profiles
        if self.counting.set_node(node):
            self._total_changed()
        return self._nodes_changed(profiles)

    def remove_node(self, name: str) -> set[GroupKey]:
        """Remove a node; returns the groups with pods that count other amounts now."""
        profiles = self.counting.profiles
        if self.counting.remove_node(name):
            self._total_changed()
        return self._nodes_changed(profiles)

    def _total_changed(self) -> None:
        self._dirty = True
        if self._tree is not None:
            self._tree.mark_all()

    def _nodes_changed(self, profiles: Set[object]) -> set[GroupKey]:
        self.nodes_version += 1
        changed: set[GroupKey] = set()
        if self.counting.profiles is profiles:
            return changed
        # A request for a whole card counts as the largest card that the pod may get, which may have changed.
        for entry in list(self._by_cards.values()):
            before = entry.amounts
            self._count_again(entry, entry.claimed)
            if entry.amounts != before:
                changed.add(entry.group)
        self._foreign.count_again()
        return changed

    def set_queue(self, fact: QueueFact) -> None:
        """Add or update a queue."""
        self._set_claims(self._facts.get(fact.name), fact)
        self._facts[fact.name] = self.account(fact.name).fact = fact
        self._links = None

    def remove_queue(self, name: str) -> None:
        """Remove a queue; its account stays as long as it has pods or admitted groups."""
        self._set_claims(self._facts.pop(name, None), None)
        account = self.account(name)
        account.fact = QueueFact(name=name)
        self._links = None
        self._forget_if_gone(account)

    def _set_claims(self, before: QueueFact | None, after: QueueFact | None) -> None:
        if self.claims.set_queue(before, after):
            entries = {uid: entry for uid, entry in self._pods.items() if entry.uses}
            self.claims.set_pods(entries)
            self._count_claims(entries)

    def _find_links(self) -> Links:
        """Return the hierarchy; after a change, recompute it and the sums of parent queues."""
        if self._links is None:
            accounts, self._links, self._dirty = self._accounts, NO_LINKS, True
            if self.policies.hierarchical:
                self.account(ROOT)
                self._links = find_links((account.fact for account in accounts.values()), self._facts)
            above = {name: tuple(accounts[each] for each in found) for name, found in self._links.above.items()}
            link(accounts.values(), above)
            if self._tree is not None:
                self._tree.set_queues(self._facts.values())
        return self._links

    # Queries

    @property
    def names(self) -> list[str]:
        """The names of the queues."""
        return list(self._accounts)

    def dominant_share(self, group: GroupKey) -> float:
        """Return the dominant share of a group."""
        allocated = self.groups.allocated(group)
        return share(allocated, self.counting.total) if allocated else 0.0

    def order(self, name: str, *, borrowing: bool = False) -> OrderKey:
        """Return a queue's sort key: the configured policies in tier order, then age, then name.

        ``borrowing``: queues may exceed their deserved amount. Source: Volcano pkg/scheduler/framework (QueueOrderFn).
        """
        account = self.account(name)
        parts = [part for policy in self.policies.ordering for part in policy.queue_key(account, borrowing=borrowing)]
        return (*parts, account.fact.created, name)

    def heap(self, names: Iterable[str], *, borrowing: bool) -> CurrentQueueHeap | VolcanoQueueHeap:
        """Return a heap of queues in their order."""
        order = partial(self.order, borrowing=borrowing)
        return CurrentQueueHeap(names, order) if self._at_once else VolcanoQueueHeap(names, order)

    def obstacle(self, name: str) -> str:
        """Return why a queue serves no pods because of its position in the hierarchy, or ''."""
        return self._find_links().obstacle(name) if self._isolated else ""

    @property
    def unready(self) -> str:
        """The error in the hierarchy that stops all queues, as in Volcano; '' if there is none or errors are isolated.

        Source: pkg/scheduler/plugins/capacity (buildHierarchicalQueueAttrs).
        """
        if self._isolated or not self.policies.hierarchical:
            return ""
        if ROOT not in self._facts:
            return f"queue {ROOT!r} does not exist"
        links = self._find_links()
        concerned = [*links.problems, *(name for name in links.child if self._accounts[name].pods)]
        return links.obstacle(min(concerned)) if concerned else ""

    def shortage(
        self,
        uid: str,
        grants: Iterable[ContainerGrant] | None = None,
        devices: tuple[DeviceClaim, ...] = (),
        *,
        borrowing: bool = False,
    ) -> Shortage | None:
        """Return the first limit of its queue that a pod would exceed, or None.

        ``grants`` and ``devices``: what it would get, None and () while this is not known. ``borrowing``: the queue may
        exceed its deserved amount.
        """
        entry = self._pods.get(uid)
        if entry is None:
            return None
        if grants is None or entry.pod is None:
            amounts = self.claims.asked(uid, entry, entry.own)
            return self.limits.shortage(entry.account, amounts, borrowing=borrowing)
        amounts = self.claims.asked(uid, entry, self.counting.held(entry.pod.ask, grants), devices)
        shortage = self.limits.shortage(entry.account, amounts, borrowing=borrowing)
        return None if shortage is None else msgspec.structs.replace(shortage, of_place=True)

    def allows(self, queue: str, resource: str, amount: int, *, borrowing: bool) -> bool:
        """Return whether a queue may allocate an additional amount of a resource."""
        return self.limits.allows(self.account(queue), resource, amount, borrowing=borrowing)

    def lacking(self) -> Iterator[tuple[str, tuple[int, list[str]]]]:
        """Yield the queues that have less than they deserve and request: see :meth:`.QueueLimits.lacking`."""
        return self.limits.lacking(self._accounts.values())

    def needed(self, shortage: Shortage) -> int:
        """Return the additional amount that the queue of a shortage must allow, relative to its present usage."""
        return shortage.used + shortage.asked - self.account(shortage.queue).used[shortage.resource]

    def excess(self, queue: str, pods: Iterable[PodFact]) -> Shortage | None:
        """Return the bound of a queue or its ancestors that waiting pods exceed together, ignoring their usage."""
        return self.limits.excess(self.account(queue), (self.counting.least(pod.ask) for pod in pods))

    def asked(self, pods: Iterable[PodFact]) -> Counter[str]:
        """Return the total amounts of waiting pods."""
        found: Counter[str] = Counter()
        for pod in pods:
            entry = self._pods.get(pod.uid)
            add(found, self.counting.asked(pod.ask) if entry is None else entry.amounts, 1)
        return found

    def amounts(self, uid: str) -> ResourceAmounts:
        """Return what a known pod counts in its queue, () for an unknown one."""
        entry = self._pods.get(uid)
        return () if entry is None else entry.amounts

    def of_claims(self, uids: Iterable[str]) -> Counter[str]:
        """Return what pods count with their ResourceClaims."""
        entries = [entry for uid in uids if (entry := self._pods.get(uid)) is not None]
        total = Counter[str]()
        for entry in entries:
            add(total, entry.amounts, 1)
            add(total, entry.own, -1)
        return +total

    def share(self, amounts: Mapping[str, int]) -> float:
        """Return the dominant share that amounts are of the cluster."""
        return share(amounts, self.counting.total)

    def over_deserved(self, queue: str, amounts: Mapping[str, int]) -> set[str]:
        """Return the resources of which a queue would exceed its deserved amount with these additional amounts."""
        return {name for name, amount in amounts.items() if not self.allows(queue, name, amount, borrowing=False)}

    def committed(self) -> Counter[str]:
        """Return the allocated resources of all pods, and the outstanding minimum resources of admitted groups."""
        total = self._foreign.total.copy()
        for account in self._accounts.values():
            add(total, account.allocated.items(), 1)
        for _, amounts in self.groups.all_outstanding():
            add(total, amounts.items(), 1)
        return total

    def refresh(self) -> None:
        """Recompute the bounds and deserved amounts of queues if their inputs changed, and begin a round."""
        self._find_links()
        if self._dirty:
            self._dirty = False
            self._recompute()
        for policy in self.policies.ordering:
            policy.begin_round(self._accounts.values())

    def _recompute(self) -> None:
        for account in self._accounts.values():
            # Not each account gets an amount: a queue without pods and guarantee does not claim any.
            account.deserved = {}
        if not self.policies.hierarchical:
            set_bounds(self._accounts.values(), with_guarantees(self._accounts.values(), self.counting.total))
        for policy in self.policies.dividing:
            policy.divide(self._accounts, self._facts.keys() | {DEFAULT_QUEUE})
