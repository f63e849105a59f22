"""Checks pods that go for others: who is evicted, for whom, and that no gang is left below its minimum."""

from collections.abc import Iterable, Mapping, Sequence

from deviceshare_lab.checker.claims import Claim, Eviction, Outcome
from deviceshare_lab.checker.ledgers import Ledgers
from deviceshare_lab.checker.pods import Report
from deviceshare_lab.clusters.fields import Object, group_of, has_ended, name_of, queue_of

SYSTEM = "kube-system"
"""The namespace whose pods the plugin ``conformance`` protects."""


class CheckedEvictions:
    """The pods that have to go, by LEDGER."""

    def __init__(self, ledgers: Ledgers, report: Report) -> None:
        self._ledgers, self._report = ledgers, report
        self.now: dict[str, dict[str, Eviction]] = {}
        """By node and uid."""
        self._let_go: set[str] = set()
        """Uids of the pods that were to be evicted at any time."""
        self._inherited: dict[str, str] = {}
        """Pods that go for another claim than before since the last check: their uids, and the claim before."""
        self._may_go: set[tuple[str, str]] = set()
        """Claim and uid of each eviction whose outcome said at any time that the pod may go."""
        self.going: list[Eviction] = []
        """Pods that were let go since the last check."""

    def take(self, node: str, evictions: Sequence[Eviction]) -> list[Eviction]:
        """Take the evictions in a node's ledger; return those that are new, or belong to another claim than before."""
        before = {uid: each.claim for uid, each in self.now.get(node, {}).items()}
        self._inherited |= {
            each.uid: before[each.uid] for each in evictions if before.get(each.uid, each.claim) != each.claim
        }
        went = {uid for uid, each in self.now.get(node, {}).items() if each.go}
        self.going += [each for each in evictions if each.go and each.uid not in went]
        self.now[node] = {each.uid: each for each in evictions}
        self._let_go |= {each.uid for each in evictions if each.go}
        return [each for each in evictions if before.get(each.uid) != each.claim]

    def check(self, new: Iterable[Eviction], pods: Mapping[str, Object], minimums: Mapping[str, int]) -> None:
        """Check evictions that were written together, when all ledgers of the write were taken.

        Args:
            new: the evictions.
            pods: all pods by uid.
            minimums: ``minMember`` of the PodGroups.
        """
        claims = {claim.id: claim for claim in self._ledgers.all()}
        inherited, self._inherited = self._inherited, {}
        takers = {each.claim for each in new if each.uid in inherited}
        for each in new:
            claim, victim = claims.get(each.claim), pods.get(each.uid)
            if claim is None or each.uid not in claim.waits_for:
                self._report(
                    "pods go for claims", f"{each.name} has to go for {each.claim}, which does not wait for it"
                )
                continue
            preemptor = pods.get(claim.uid)
            if victim is None or preemptor is None:
                continue  # deleted meanwhile
            what = f"{name_of(victim)} has to go for {name_of(preemptor)}"
            if each.uid in inherited:
                self._check_taken(inherited[each.uid], preemptor, pods)
            elif each.claim in takers:
                self._report("no other pod goes for one that takes nominated room", what)
            if each.action == "preempt" and priority_of(victim) >= priority_of(preemptor):
                self._report("pods of lower priority go", f"{what}: {priority_of(victim)}, {priority_of(preemptor)}")
            if victim["spec"].get("schedulerName") != preemptor["spec"]["schedulerName"]:
                self._report("pods of other schedulers stay", what)
            if victim["metadata"]["namespace"] == SYSTEM:
                self._report("pods of the system stay", what)
            if each.action == "preempt" and queue_of(victim) != queue_of(preemptor):
                self._report("pods go for others of their queue", f"{what}: {queue_of(victim)}, {queue_of(preemptor)}")
            if each.action == "preempt" and each.uid not in inherited and not group_of(victim):
                self._check_needed(each, claim, pods, what)
            self._check_gang(group_of(victim), pods, minimums)

    def _check_needed(self, eviction: Eviction, claim: Claim, pods: Mapping[str, Object], what: str) -> None:
        """Check that the pods for which one goes would not fit if it stayed, by the cards of its node.

        Left out are pods that request CPU or memory, cards with instances or templates, since another partition may be
        needed, and nodes with other nominated pods.
        """
        on_node = self._ledgers.now.get(eviction.node, {}).values()
        own = next((each for each in on_node if each.uid == eviction.uid), None)
        if (
            own is None
            or _needs_more_than_cards(pods[claim.uid])
            or any(each.waits_for not in ((), claim.waits_for) for each in on_node)
        ):
            return
        beside = [each for each in on_node if each.uid not in claim.waits_for]
        # If LEDGER was lost, pods have their devices without a claim.
        claimed = {each.uid for each in on_node} | set(claim.waits_for)
        bound = [
            pod
            for uid, pod in pods.items()
            if uid not in claimed and pod["spec"].get("nodeName") == eviction.node and not has_ended(pod)
        ]
        if own.devices and own.adds_up and self._ledgers.fit(eviction.node, (*beside, own), bound):
            self._report("only pods go that have to", f"{what}, whose claims fit on {eviction.node} beside it")

    def outcomes_written(self, outcomes: Iterable[Outcome]) -> None:
        """Note the pods that may go."""
        self._may_go |= {(each.claim, each.uid) for each in outcomes if each.state == "may go"}

    def check_let_go(self, pods: Mapping[str, Object]) -> None:
        """Check that pods were let go only when all may go that their claim waits for."""
        let_go, self.going = self.going, []
        new = {each.uid for each in let_go}
        evictions = {each.uid: each for on_node in self.now.values() for each in on_node.values()}
        claims = {claim.id: claim for claim in self._ledgers.all()}
        for each in let_go:
            claim = claims.get(each.claim)
            for uid in claim.waits_for if claim is not None else ():
                pod, other = pods.get(uid), evictions.get(uid)
                gone = pod is None or has_ended(pod) or "deletionTimestamp" in pod["metadata"]
                if pod is None or gone or uid in self._ledgers.twins:
                    continue
                went_before = other is not None and other.go and uid not in new
                if not went_before and (other is None or (other.claim, uid) not in self._may_go):
                    self._report("pods go when all may", f"{each.name} goes for {each.claim}, {name_of(pod)} may not")

    def _check_taken(self, before: str, taker: Object, pods: Mapping[str, Object]) -> None:
        """Check that a pod may take the room of a claim."""
        claim = self._ledgers.known(before)
        loser = pods.get(claim.uid) if claim is not None else None
        if loser is not None and priority_of(loser) >= priority_of(taker):
            what = f"{name_of(taker)} takes the room of {name_of(loser)}"
            self._report(
                "pods of higher priority take nominated room", f"{what}: {priority_of(taker)}, {priority_of(loser)}"
            )
        if any(claim.id == before for claim in self._ledgers.all()):
            self._report("nominated room is taken with its claim", f"{name_of(taker)}: {before} is still in the ledger")

    def _check_gang(self, group: str, pods: Mapping[str, Object], minimums: Mapping[str, int]) -> None:
        if not group or group in self._ledgers.disturbed or group not in minimums:
            return
        going = {uid for evictions in self.now.values() for uid in evictions}
        left = sum(_is_placed(pod) and uid not in going for uid, pod in pods.items() if group_of(pod) == group)
        if 0 < left < minimums[group]:
            self._report("gangs go whole", f"{group}: {left} of {minimums[group]} pods are left")

    def requested(self, uid: str, by: str) -> None:
        """Check a request to evict a pod: LEDGER said before that it has to go."""
        if uid not in self._let_go:
            self._report("only pods that have to go are evicted", f"{by} evicts {uid}")

    def left(self) -> list[str]:
        """Return the evictions that are still in the ledger."""
        return [
            f"{each.name} still has to go for {each.claim}"
            for _, evictions in sorted(self.now.items())
            for each in evictions.values()
        ]


def priority_of(pod: Object) -> int:
    """Return the priority of a pod."""
    return int(pod["spec"].get("priority", 0))


def _needs_more_than_cards(pod: Object) -> bool:
    return any(
        {"cpu", "memory"} & (one.get("resources", {}).get(amounts) or {}).keys()
        for one in pod["spec"]["containers"]
        for amounts in ("requests", "limits")
    )


def _is_placed(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName")) and not has_ended(pod) and "deletionTimestamp" not in pod["metadata"]
