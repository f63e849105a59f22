"""The pods of queues, and what each counts in the account of its queue and of its group."""

from collections.abc import Iterable, Mapping

from deviceshare.model import Claim, ContainerGrant, DeviceClaim, GroupKey, PodFact, QueueFact, ResourceAmounts
from deviceshare.queueing.amounts import Counting
from deviceshare.queueing.device_claims import DeviceClaims
from deviceshare.queueing.foreign_pods import ForeignPods
from deviceshare.queueing.group_accounts import GroupAccounts
from deviceshare.queueing.hdrf import Hierarchy
from deviceshare.queueing.hierarchy import Links
from deviceshare.queueing.pod_account import PodAccount, amounts_by_resource
from deviceshare.queueing.queue_account import QueueAccount, add
from deviceshare.state import UndoLog


class PodAccounts:
    """Waiting and placed pods by queue."""

    def __init__(self, counting: Counting) -> None:
        self._accounts: dict[str, QueueAccount] = {}
        self._pods: dict[str, PodAccount] = {}
        self._by_cards: dict[str, PodAccount] = {}
        """Those whose amounts depend on cards."""
        self.claims = DeviceClaims()
        """What the ResourceClaims of pods count."""
        self.groups = GroupAccounts()
        """What groups have, and what queues promised them."""
        self._facts: dict[str, QueueFact] = {}
        """The existing queues."""
        self._links: Links | None = None
        """The hierarchy; None: not computed since the last change."""
        self._dirty = True
        self._tree: Hierarchy | None = None
        self.undo_log = UndoLog()
        """What undoes the charges of pods in open trials."""
        self.counting = counting
        self._foreign = ForeignPods(counting)

    def _forget_if_gone(self, account: QueueAccount) -> None:
        """Drop the account of a queue that does not exist and has neither pods nor admitted groups."""
        name = account.fact.name
        if name not in self._facts and not account.pods and not any(account.committed.values()):
            self._accounts.pop(name, None)
            self._links = None
            self._dirty = True

    def account(self, name: str) -> QueueAccount:
        """Return the account of a queue; creates an empty one for an unknown queue."""
        account = self._accounts.get(name)
        if account is None:
            account = self._accounts[name] = QueueAccount(name)
            self._links = None
        return account

    def put(
        self,
        pod: PodFact,
        queue: str,
        group: GroupKey,
        claimed: Iterable[ContainerGrant] | None = None,
        devices: tuple[DeviceClaim, ...] = (),
    ) -> None:
        """Add or update a waiting or placed pod; a charged pod stays charged.

        ``claimed`` and ``devices`` are what its claim gives a pod that is not bound yet, None and () without a claim.
        """
        claimed = None if claimed is None else tuple(claimed)
        uses = tuple(each.claim for each in pod.device_claims) if pod.device_claims else ()
        entry = self._put(pod.uid, queue, group, self._own(pod, claimed), pod.created, uses, devices)
        entry.pod, entry.claimed = pod, claimed
        if self.counting.depends_on_cards(pod.ask):
            self._by_cards[pod.uid] = entry
        else:
            self._by_cards.pop(pod.uid, None)

    def confirm(self, pod: PodFact) -> bool:
        """Note that a placed pod was bound; return False, and change nothing, if it may count something else then."""
        entry = self._pods.get(pod.uid)
        if entry is None or not entry.held or entry.uses or pod.uid in self._by_cards:
            return False
        entry.pod = pod
        return True

    def _own(self, pod: PodFact, claimed: tuple[ContainerGrant, ...] | None) -> ResourceAmounts:
        """Return what a pod counts without its ResourceClaims."""
        grants = pod.held if pod.node else claimed
        return self.counting.asked(pod.ask) if grants is None else self.counting.held(pod.ask, grants)

    def put_claimed(self, claim: Claim) -> None:
        """Add or update a pod that is not known yet by what its claim says; :meth:`put` and :meth:`drop` replace it."""
        own, uses = self.counting.claimed(claim.resources, claim.grants), tuple(each.key for each in claim.devices)
        self._put(claim.uid, claim.queue, GroupKey(claim.group), own, 0.0, uses, claim.devices).pod = None
        self._by_cards.pop(claim.uid, None)

    def _put(
        self,
        uid: str,
        queue: str,
        group: GroupKey,
        own: ResourceAmounts,
        created: float,
        uses: tuple[str, ...],
        devices: tuple[DeviceClaim, ...],
    ) -> PodAccount:
        entry = self._pods.get(uid)
        if (
            entry is None
            or entry.account.fact.name != queue
            or entry.group != group
            or entry.own != own
            or entry.uses != uses
        ):
            held = entry is not None and entry.held
            self.drop(uid)
            alone = group == f"pod/{uid}"
            entry = self._pods[uid] = PodAccount(None, self.account(queue), group, own, own, alone, uses=uses)
            entry.account.pods += 1
            self._request(entry, 1)
            if held:
                self._charge(entry, held=True)
        if uses:
            entry.created, entry.devices = created, devices
            self._settle(uid, entry)
        return entry

    def put_other(self, pod: PodFact) -> None:
        """Add or update a bound pod of another scheduler."""
        self.drop(pod.uid)
        self._foreign.put(pod)

    def drop(self, uid: str) -> None:
        """Remove a pod."""
        self._by_cards.pop(uid, None)
        self._foreign.drop(uid)
        entry = self._pods.pop(uid, None)
        if entry is not None:
            if entry.held:
                self._charge(entry, held=False)
            entry.account.pods -= 1
            self._request(entry, -1)
            if entry.uses and self.claims.names:
                self.claims.drop(uid, entry)
                self._settle_claims(entry)
            self._forget_if_gone(entry.account)

    def forget(self, uid: str) -> None:
        """Forget a placed pod, but not what it counts, for a reader of sums: the pods take most of the memory.

        It cannot be changed or dropped any more. One with ResourceClaims is kept, since other pods may share them.
        """
        if not self._pods[uid].uses:
            entry = self._pods.pop(uid)
            self._by_cards.pop(uid, None)
            if entry.alone:
                self.groups.forget(entry.group)

    def set_claim(self, key: str) -> None:
        """Apply that a ResourceClaim has other devices, or asks for others."""
        self._count_claims(self.claims.settle(key))

    def _settle(self, uid: str, entry: PodAccount) -> None:
        """Count the claims of a pod that has changed with it or with another one."""
        if self.claims.names:
            self.claims.put(uid, entry)
            self._settle_claims(entry)

    def _settle_claims(self, entry: PodAccount) -> None:
        for key in set(entry.uses):
            self._count_claims(self.claims.settle(key))

    def _count_claims(self, uids: Iterable[str]) -> None:
        for uid in uids:
            if (entry := self._pods.get(uid)) is not None:
                self._set_amounts(entry, self.claims.amounts(uid, entry))

    def _set_amounts(self, entry: PodAccount, amounts: ResourceAmounts) -> None:
        if entry.amounts == amounts:
            return
        held = entry.held
        if held:
            self._charge(entry, held=False)
        self._request(entry, -1)
        entry.amounts = amounts
        self._request(entry, 1)
        if held:
            self._charge(entry, held=True)

    def _request(self, entry: PodAccount, sign: int) -> None:
        add(entry.account.requested, entry.amounts, sign)
        if self._tree is not None:
            self._tree.add_request(entry.group, entry.account.fact.name, entry.amounts, sign)
        self._dirty = True

    def commit(self, group: GroupKey, queue: str, needs: Mapping[str, int]) -> None:
        """Admit a group to its queue: its minimum resources count there, whether allocated or not."""
        if self.groups.promise(group) != (queue, needs):
            self.release_commitment(group)
            if any(needs.values()):
                self.groups.put_promise(group, self.account(queue), needs)

    def release_commitment(self, group: GroupKey) -> None:
        """Release the minimum resources that an admitted group was promised, if any."""
        account = self.groups.drop_promise(group)
        if account is not None:
            self._forget_if_gone(account)

    def depends_on_place(self, uid: str) -> bool:
        """Return whether what a pod counts depends on the cards and devices that it gets."""
        entry = self._pods.get(uid)
        return uid in self._by_cards or (entry is not None and self.claims.depends_on_place(entry))

    def hold(
        self, uid: str, grants: Iterable[ContainerGrant] | None = None, devices: tuple[DeviceClaim, ...] = ()
    ) -> None:
        """Charge a placed pod to its queue: by what it is granted, None if that is known from its claim or its fact."""
        self._log(uid)
        if grants is not None and uid in self._by_cards:
            self._count_again(self._pods[uid], tuple(grants))
        entry = self._pods.get(uid)
        if entry is not None and not entry.held:
            entry.devices = devices or entry.devices
            self._charge(entry, held=True)
            if entry.uses:
                self._settle(uid, entry)

    def release(self, uid: str) -> None:
        """Undo the charge of a pod."""
        self._log(uid)
        entry = self._pods.get(uid)
        if entry is not None and entry.held:
            self._charge(entry, held=False)
            entry.devices = ()
            self._settle(uid, entry)
            if uid in self._by_cards:
                self._count_again(entry, None)

    def _log(self, uid: str) -> None:
        if (undo := self.undo_log.entries) is not None and (entry := self._pods.get(uid)) is not None:
            undo.append((self._restore, uid, entry.claimed, entry.devices, entry.held))

    def _restore(
        self, uid: str, claimed: tuple[ContainerGrant, ...] | None, devices: tuple[DeviceClaim, ...], held: bool
    ) -> None:
        entry = self._pods[uid]
        if entry.claimed != claimed:
            self._count_again(entry, claimed)
        entry.devices = devices
        if entry.held != held:
            self._charge(entry, held=held)
        self._settle(uid, entry)

    def _count_again(self, entry: PodAccount, claimed: tuple[ContainerGrant, ...] | None) -> None:
        """Count a pod whose amounts depend on cards with these grants."""
        assert entry.pod is not None
        entry.claimed, entry.own = claimed, self._own(entry.pod, claimed)
        self._set_amounts(entry, self.claims.amounts(entry.pod.uid, entry))

    def _charge(self, entry: PodAccount, *, held: bool) -> None:
        sign = 1 if held else -1
        entry.held = held
        entry.account.charge(entry.amounts, sign)
        if entry.alone:
            if held:
                self.commit(entry.group, entry.account.fact.name, amounts_by_resource(entry.amounts))
            else:
                self.release_commitment(entry.group)
        if self._tree is not None:
            self._tree.charge(entry.group, entry.amounts, sign)
        self.groups.charge(entry.group, entry.amounts, sign)
