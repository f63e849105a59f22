"""Checks LEDGER for those who hear of every write: claims stay until their end, and gangs are claimed as a whole.

A claim leaves the ledger only after its pod is gone or has ended, or after its outcome said refused or withdrawn.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from deviceshare_lab.checker.cards import Parts
from deviceshare_lab.checker.claims import Claim, Claims, Outcome
from deviceshare_lab.checker.pods import Report
from deviceshare_lab.clusters.fields import Object, group_of, has_ended


class Cluster(Protocol):
    """The objects of a cluster at present, not to be changed."""

    def objects(self, kind: str) -> Iterable[Object]:
        """Yield the objects of a kind."""

    def peek(self, kind: str, namespace: str, name: str) -> Object | None:
        """Return an object."""


class Ledgers(Claims):
    """The claims of all nodes, as the stream holds them."""

    def __init__(self, cluster: Cluster, report: Report, parts: Parts) -> None:
        super().__init__(report, lambda node: cluster.peek("Node", "", node), parts)
        self._cluster = cluster
        self.ended: dict[str, Claim] = {}
        """Claims that a service removed, by id."""
        self.lost: dict[str, Claim] = {}
        """Claims that a fault removed from the stream, by id."""
        self._holding: set[str] = set()
        """Uids of the pods that exist and have not ended."""
        self._not_bound: set[tuple[str, str]] = set()
        """Claims, with the pod's uid, that ever had an outcome other than bound."""
        self._names: dict[str, str] = {}
        self.twins: set[str] = set()
        """Uids that two pods had at one time: which of them a claim is for is open."""
        self.disturbed: set[str] = set()
        """Gangs that lost a member for another reason than a decision: they may be incomplete."""

    def node_removed(self, name: str) -> None:
        """Note gangs with members on a node that vanishes."""
        self._disturb(claim.group for claim in self.now.get(name, {}).values())

    def pod_changed(self, before: Object | None, after: Object | None) -> None:
        """Note which pods hold devices, and gangs whose members are deleted or end."""
        if after is not None and not has_ended(after):
            self._holding.add(after["metadata"]["uid"])
        elif before is not None:
            self._holding.discard(before["metadata"]["uid"])
        if before is not None:
            if after is None or has_ended(after) or "deletionTimestamp" in after["metadata"]:
                self._disturb([group_of(before)])
        elif after is not None:
            uid, name = after["metadata"]["uid"], after["metadata"]["name"]
            if self._names.setdefault(uid, name) != name:
                self.twins.add(uid)

    def _disturb(self, groups: Iterable[str]) -> None:
        self.disturbed |= set(groups) - {""}

    def forge(self, node: str, claims: Sequence[Claim]) -> None:
        """Take a ledger of a stranger: pods with forged claims count as members of gangs until they are refused."""
        before = self.now.get(node, {})
        forged = [claim for claim in claims if before.get(claim.id) != claim]
        self.foreign |= {claim.id for claim in forged}
        uids = {claim.uid for claim in forged}
        self._disturb(group_of(pod) for pod in self._cluster.objects("Pod") if pod["metadata"]["uid"] in uids)
        self.replace(node, claims)

    def replace(self, node: str, claims: Sequence[Claim]) -> None:
        """Take a ledger that a fault changed."""
        after = {claim.id: claim for claim in claims}
        self._remove(node, after.keys(), self.lost)
        self.now[node] = after

    def _remove(self, node: str, kept: Collection[str], to: dict[str, Claim]) -> None:
        removed = {identity: claim for identity, claim in self.now.get(node, {}).items() if identity not in kept}
        to.update(removed)
        self._disturb(claim.group for claim in removed.values())

    def take(self, node: str, claims: Sequence[Claim]) -> list[Claim]:
        """Check a ledger that a service wrote, but for its gangs."""
        kept = {claim.id for claim in claims}
        for claim in self.now.get(node, {}).values():
            ended = claim.uid not in self._holding or (claim.id, claim.uid) in self._not_bound
            stays = not (ended or claim.waits_for or claim.id in self.foreign or claim.uid in self.twins)
            if claim.id not in kept and stays:
                self._report("claims stay until their end", f"{claim.id} of {claim.name} was removed from {node}")
        self._remove(node, kept, self.ended)
        new = super().take(node, claims)
        for claim in new:
            self.lost.pop(claim.id, None)
        return new

    def _reuses(self, known: Claim, claim: Claim) -> bool:
        """Return whether an id is used again that no fault removed."""
        return claim.id not in self.lost

    def outcomes_written(self, outcomes: Iterable[Outcome]) -> None:
        """Note the claims that may leave the ledger."""
        self._not_bound |= {(each.claim, each.uid) for each in outcomes if each.state != "bound"}

    def check_gangs(self, claims: Iterable[Claim]) -> None:
        """Check that the gangs of claims that were written together are claimed as a whole."""
        for group in sorted({claim.group for claim in claims}):
            obj = self._cluster.peek("PodGroup", *group.split("/", 1)) if group else None
            if obj is None or group in self.disturbed:
                continue
            claimed = {claim.uid for claim in self.all() if claim.group == group}
            bound = {
                pod["metadata"]["uid"]
                for pod in self._cluster.objects("Pod")
                if pod["spec"].get("nodeName") and group_of(pod) == group
            }
            if len(claimed | bound) < obj["spec"]["minMember"]:
                text = f"{group}: {len(claimed | bound)} of {obj['spec']['minMember']} pods"
                self._report("gangs are claimed whole", text)

    def restore(self, ledgers: Mapping[str, Sequence[Claim]]) -> None:
        """Take the content of the stream after a fault changed it."""
        for node in sorted(set(self.now) | set(ledgers)):
            self.replace(node, ledgers.get(node, ()))
        for claim in self.all():
            self.ended.pop(claim.id, None)
            self.lost.pop(claim.id, None)
