"""What every queue has, asks and may have; what of that every job has.

Source: Volcano pkg/scheduler/plugins/proportion and, for queues that say themselves what they deserve, capacity.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from math import inf

from deviceshare.conf import SchedulerConf
from deviceshare.model import GroupKey, NodeFact, PodFact, QueueFact
from deviceshare.queueing.amounts import Amounts, Counting
from deviceshare.queueing.capacity import set_bounds, set_deserved, set_in_hierarchy
from deviceshare.queueing.drf import dominant_share
from deviceshare.queueing.hdrf import Hierarchy
from deviceshare.queueing.hierarchy import NO_LINKS, ROOT, Links, find_links
from deviceshare.queueing.others import Others
from deviceshare.queueing.queue_account import QueueAccount, add, link
from deviceshare.queueing.queue_order import Place, QueueOrder
from deviceshare.queueing.queue_turns import LatestTurns, Turns, VolcanoTurns
from deviceshare.queueing.shortage import CAPABILITY, CLUSTER, DESERVED, GUARANTEED, OVERCOMMIT, Shortage
from deviceshare.queueing.weights import set_by_weight
from deviceshare.state import PODS

DEFAULT_QUEUE = "default"
"""The queue of those who name none. It need not be there as an object."""
_ROUNDING = 1e-6
"""What a queue may have more than it deserves, of each unit, since that is no whole number."""


class _Entry:
    __slots__ = ("account", "amounts", "group", "held", "pod")

    def __init__(self, pod: PodFact, account: QueueAccount, group: GroupKey, amounts: Amounts) -> None:
        self.pod = pod
        self.account = account
        self.group = group
        self.amounts = amounts
        self.held = False


class Queues:
    """The accounts of all queues."""

    def __init__(self, conf: SchedulerConf) -> None:
        self._accounts: dict[str, QueueAccount] = {}
        self._pods: dict[str, _Entry] = {}
        self._groups: dict[GroupKey, Counter[str]] = {}
        """What each PodGroup has."""
        self.lighter: set[GroupKey] = set()
        """PodGroups that have less than they had: their place in line may be another one."""
        self._committed: dict[GroupKey, tuple[QueueAccount, Mapping[str, int]]] = {}
        """What each group that was let in needs at least."""
        self._others = Others()
        self._facts: dict[str, QueueFact] = {}
        """The queues that exist."""
        self._links: Links | None = None
        """Which queues are below which; None: not computed since the last change."""
        self._dirty = True
        self.nodes_version = 0
        """How often something was heard of a node."""
        self.counting = Counting(conf)
        self.configure(conf)

    def configure(self, conf: SchedulerConf) -> None:
        """Count by another configuration from now on; pods have to be put in again."""
        self.counting = Counting(conf, self.counting.nodes)
        self._by_weight, self._by_deserved = (
            conf.does(plugin, "Allocatable") or conf.does(plugin, "QueueOrder") for plugin in ("proportion", "capacity")
        )
        self._exact = conf.extensions.exact_shares
        self._rounding = _ROUNDING if self._exact else 0.0
        self._bounded = conf.bounds_queues("Allocatable")
        self._linked = self._by_deserved and conf.has_hierarchy("capacity")
        self._tree = Hierarchy(self.counting.total) if conf.has_hierarchy("drf") else None
        self._isolated = conf.extensions.hierarchy_isolation
        self._at_once = conf.extensions.parent_shares
        self._order = QueueOrder(conf, self._tree)
        self._links = None
        if self._tree is not None:
            for entry in self._pods.values():
                self._tree.ask(entry.group, entry.account.fact.name, entry.amounts, 1)
                if entry.held:
                    self._tree.charge(entry.group, entry.amounts, 1)
        self._dirty = True

    # What is known

    def set_node(self, node: NodeFact) -> bool:
        """Count a node, or what changed of it; returns whether pods that wait may count something else now."""
        largest = self.counting.largest
        if self.counting.set_node(node):
            self._total_changed()
        return self._of_nodes_changed(largest)

    def remove_node(self, name: str) -> bool:
        """Count a node no more; returns whether pods that wait may count something else now."""
        largest = self.counting.largest
        if self.counting.remove_node(name):
            self._total_changed()
        return self._of_nodes_changed(largest)

    def _total_changed(self) -> None:
        self._dirty = True
        if self._tree is not None:
            self._tree.look_at_all()

    def _of_nodes_changed(self, largest: Mapping[str, int]) -> bool:
        self.nodes_version += 1
        if self.counting.largest is largest:
            return False
        # All memory of a card is another amount.
        for entry in list(self._pods.values()):
            self.put(entry.pod, entry.account.fact.name, entry.group)
        return True

    def set_queue(self, fact: QueueFact) -> None:
        """Enter a queue, or what changed of it."""
        self._facts[fact.name] = self.account(fact.name).fact = fact
        self._links = None

    def remove_queue(self, name: str) -> None:
        """Forget a queue; what its pods have stays theirs."""
        self._facts.pop(name, None)
        account = self.account(name)
        account.fact = QueueFact(name=name)
        self._links = None
        self._forget_if_gone(account)

    def _find_links(self) -> Links:
        """Return which queues are below which; after a change, add what they have to the queues above them."""
        if self._links is None:
            accounts, self._links, self._dirty = self._accounts, NO_LINKS, True
            if self._linked:
                self.account(ROOT)
                self._links = find_links((account.fact for account in accounts.values()), self._facts)
            above = {name: tuple(accounts[each] for each in found) for name, found in self._links.above.items()}
            link(accounts.values(), above)
            if self._tree is not None:
                self._tree.set_queues(self._facts.values())
        return self._links

    def _forget_if_gone(self, account: QueueAccount) -> None:
        """Drop the account of a queue that does not exist and has nothing."""
        name = account.fact.name
        if name not in self._facts and not account.pods and not any(account.committed.values()):
            self._accounts.pop(name, None)
            self._links = None
            self._dirty = True

    def account(self, name: str) -> QueueAccount:
        """Return the account of a queue, an empty one if nothing is known of it."""
        account = self._accounts.get(name)
        if account is None:
            account = self._accounts[name] = QueueAccount(name)
            self._links = None
        return account

    def put(self, pod: PodFact, queue: str, group: GroupKey) -> None:
        """Enter a pod that has its place or asks for one, or what changed of it; what it was charged stays charged."""
        amounts = self.counting.held(pod.ask, pod.held) if pod.node else self.counting.asked(pod.ask)
        entry = self._pods.get(pod.uid)
        if entry is None or entry.account.fact.name != queue or entry.group != group or entry.amounts != amounts:
            held = entry is not None and entry.held
            self.drop(pod.uid)
            entry = self._pods[pod.uid] = _Entry(pod, self.account(queue), group, amounts)
            entry.account.pods += 1
            add(entry.account.requested, amounts, 1)
            if self._tree is not None:
                self._tree.ask(group, queue, amounts, 1)
            if group == f"pod/{pod.uid}":
                self.commit(group, queue, dict(amounts))
            self._dirty = True
            if held:
                self._charge(entry, held=True)
        entry.pod = pod

    def put_other(self, pod: PodFact) -> None:
        """Enter a bound pod of another scheduler, or what changed of it."""
        self.drop(pod.uid)
        self._others.put(pod.uid, self.counting.held(pod.ask, pod.held))

    def drop(self, uid: str) -> None:
        """Forget a pod."""
        self._others.drop(uid)
        entry = self._pods.pop(uid, None)
        if entry is not None:
            if entry.held:
                self._charge(entry, held=False)
            entry.account.pods -= 1
            add(entry.account.requested, entry.amounts, -1)
            if self._tree is not None:
                self._tree.ask(entry.group, entry.account.fact.name, entry.amounts, -1)
            if entry.group == f"pod/{uid}":
                self.release_commitment(entry.group)
            self._dirty = True
            self._forget_if_gone(entry.account)

    def commit(self, group: GroupKey, queue: str, needs: Mapping[str, int]) -> None:
        """Let a group into its queue: what it needs at least counts there from now on, whether it has it or not."""
        before = self._committed.get(group)
        account = self.account(queue)
        if before is not None and before[0] is account and before[1] == needs:
            return
        self.release_commitment(group)
        self._committed[group] = (account, needs)
        account.commit(needs, 1)

    def release_commitment(self, group: GroupKey) -> None:
        """Take back what a group was promised when it was let in: it is gone, or needs nothing any more."""
        before = self._committed.pop(group, None)
        if before is not None:
            before[0].commit(before[1], -1)

    def hold(self, uid: str) -> None:
        """Charge a pod that was given its place to its queue."""
        entry = self._pods.get(uid)
        if entry is not None and not entry.held:
            self._charge(entry, held=True)

    def release(self, uid: str) -> None:
        """Give back what a pod was charged."""
        entry = self._pods.get(uid)
        if entry is not None and entry.held:
            self._charge(entry, held=False)

    def _charge(self, entry: _Entry, *, held: bool) -> None:
        sign = 1 if held else -1
        entry.held = held
        entry.account.charge(entry.amounts, sign)
        if self._tree is not None:
            self._tree.charge(entry.group, entry.amounts, sign)
        group = self._groups.get(entry.group)
        if group is None:
            group = self._groups[entry.group] = Counter()
        add(group, entry.amounts, sign)
        if not held:
            self.lighter.add(entry.group)
        if not held and not any(group.values()):
            del self._groups[entry.group]

    # Questions

    @property
    def names(self) -> list[str]:
        """The names of the queues."""
        return list(self._accounts)

    def allocated(self, group: GroupKey) -> Mapping[str, int]:
        """Return what the pods of a group have."""
        return self._groups.get(group, _NOTHING)

    def dominant_share(self, group: GroupKey) -> float:
        """Return the dominant share of a group."""
        allocated = self._groups.get(group)
        return dominant_share(allocated, self.counting.total) if allocated else 0.0

    def order(self, name: str, *, beyond: bool = False) -> Place:
        """Return a queue's place. ``beyond``: among those who may pass what they deserve."""
        return self._order.place(self.account(name), beyond=beyond)

    def turns(self, names: Iterable[str], *, beyond: bool) -> Turns:
        """Return queues in their order, to take them out one by one."""
        kind = LatestTurns if self._at_once else VolcanoTurns
        return kind(names, partial(self.order, beyond=beyond))

    def obstacle(self, name: str) -> str:
        """Return why a queue serves no pod because of its place in the hierarchy, '' where it may serve."""
        return self._find_links().obstacle(name) if self._isolated else ""

    @property
    def unready(self) -> str:
        """The error in the hierarchy that stops all queues, as in Volcano; '' for none, or where errors are isolated.

        Source: pkg/scheduler/plugins/capacity (buildHierarchicalQueueAttrs).
        """
        if self._isolated or not self._linked:
            return ""
        if ROOT not in self._facts:
            return f"queue {ROOT!r} does not exist"
        links = self._find_links()
        concerned = [*links.problems, *(name for name in links.child if self._accounts[name].pods)]
        return links.obstacle(min(concerned)) if concerned else ""

    def shortage(self, uid: str, *, beyond: bool = False) -> Shortage | None:
        """Return which bound a pod would carry its queue over, None for none.

        ``beyond``: it may pass what it deserves.
        """
        entry = self._pods.get(uid)
        if entry is None or not self._bounded:
            return None
        account = entry.account
        for name, amount in entry.amounts:
            if name == PODS:
                continue
            for each in account.path:
                used, most = each.used[name], each.bound.get(name)
                if most is not None and used + amount > most:
                    bound = GUARANTEED if name in each.guaranteed else CAPABILITY
                    return Shortage(each.fact.name, bound, name, most, used, amount)
            used, fair = account.used[name], None if beyond or not self._by_weight else account.deserved.get(name)
            if fair is not None and used + amount > fair + self._rounding:
                return Shortage(account.fact.name, DESERVED, name, int(fair), used, amount)
        return None

    def allows(self, queue: str, resource: str, amount: int, *, beyond: bool) -> bool:
        """Return whether a queue may have so much more of a resource."""
        if resource == PODS:
            return True
        account = self.account(queue)
        if any(each.used[resource] + amount > each.bound.get(resource, inf) for each in account.path):
            return False
        fair = None if beyond or not self._by_weight else account.deserved.get(resource)
        return fair is None or account.used[resource] + amount <= fair + self._rounding

    def needed(self, shortage: Shortage) -> int:
        """Return how much more of a resource the queue of a shortage would have to be allowed than it has now."""
        return shortage.used + shortage.asked - self.account(shortage.queue).used[shortage.resource]

    def could_have(self, queue: str, amounts: Mapping[str, int]) -> bool:
        """Return whether so much is within the bounds of a queue and those above it, if they had nothing else."""
        return all(
            amount <= account.bound.get(name, amount)
            for account in self.account(queue).path
            for name, amount in amounts.items()
        )

    def asked(self, pods: Iterable[PodFact]) -> Counter[str]:
        """Return what pods count together that have no cards yet."""
        found: Counter[str] = Counter()
        for pod in pods:
            add(found, self.counting.asked(pod.ask), 1)
        return found

    def more_than_deserved(self, queue: str, amounts: Mapping[str, int]) -> set[str]:
        """Return of which resources a queue would have more than it deserves, if it had so much more."""
        return {name for name, amount in amounts.items() if not self.allows(queue, name, amount, beyond=False)}

    def short_of_capability(self, queue: str, needs: Mapping[str, int]) -> Shortage | None:
        """Return for want of what a queue cannot let a group in, None for nothing.

        A queue without a bound has the whole cluster. In a hierarchy it may be promised more, as in Volcano, but no
        resource that the cluster lacks.
        """
        for account in self.account(queue).path:
            for name, amount in needs.items():
                if name == PODS:
                    continue
                limit = self.counting.limit(name)
                otherwise = None if self._linked and limit else limit
                used, most = account.promised[name], account.bound.get(name, otherwise)
                if most is not None and amount and used + amount > most:
                    bound = (
                        GUARANTEED if name in account.guaranteed else CAPABILITY if name in account.bound else CLUSTER
                    )
                    return Shortage(account.fact.name, bound, name, most, used, amount, promised=True)
        return None

    def spoken_for(self) -> Counter[str]:
        """Return what all pods have, and what groups were promised and do not have yet."""
        found = self._others.total.copy()
        for account in self._accounts.values():
            add(found, account.allocated.items(), 1)
        for group, (_, needs) in self._committed.items():
            add(found, self.still_needed(group, needs).items(), 1)
        return found

    def still_needed(self, group: GroupKey, needs: Mapping[str, int]) -> Mapping[str, int]:
        """Return how much a group lacks of what it needs."""
        has = self.allocated(group)
        return {name: max(0, amount - has.get(name, 0)) for name, amount in needs.items()}

    def short_of_all(
        self, queue: str, needs: Mapping[str, int], factor: float, spoken_for: Mapping[str, int]
    ) -> Shortage | None:
        """Return for want of what the cluster cannot let a group in, None for nothing.

        All that is ``spoken_for`` may be ``factor`` times what there is.
        """
        for name, amount in needs.items():
            if amount and name != PODS and (has := self.counting.limit(name)) is not None:
                taken = spoken_for.get(name, 0)
                if taken + amount > has * factor:
                    return Shortage(queue, OVERCOMMIT, name, int(has * factor), taken, amount, promised=True)
        return None

    def refresh(self) -> None:
        """Work out what the queues may have and deserve, if something changed that it depends on."""
        self._find_links()
        if self._dirty:
            self._dirty = False
            self._work_out()
        self._order.begin(self._accounts.values())

    def _work_out(self) -> None:
        total = self.counting.total
        if self._linked:
            set_in_hierarchy(self._accounts.values(), self.account(ROOT), total)
        else:
            # A guarantee may name a resource that no node has.
            guarantees = {name: 0 for account in self._accounts.values() for name in account.fact.guarantee}
            most = guarantees | total
            set_bounds(self._accounts.values(), most)
            if self._by_deserved:
                set_deserved(self._accounts.values(), most)
        if self._by_weight:
            # Pods of a queue that does not exist count in none.
            existing = [
                account for name, account in self._accounts.items() if name in self._facts or name == DEFAULT_QUEUE
            ]
            set_by_weight(existing, total, exact=self._exact)


_NOTHING: Mapping[str, int] = {}
