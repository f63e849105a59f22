"""Checks LEDGER: claims fit the cards of their node, ids are used once, gangs are claimed as a whole.

A claim leaves the ledger only after its pod is gone or has ended, or after its outcome said refused or withdrawn.
"""

from collections.abc import Callable, Iterable, Sequence

from deviceshare.model import BOUND, Claim, NodeLedger, Outcome
from deviceshare_bus.messages.codec import decode_ledger
from deviceshare_bus.messages.subjects import node_of, of_replicas
from msgspec import MsgspecError

from deviceshare_lab.checker.cards import Device, Parts, cards_of, over_claimed
from deviceshare_lab.clusters.manifests import DEVICE_CONFIG
from deviceshare_lab.world.apiserver import ApiServer, Seen, annotations_of, has_ended
from deviceshare_lab.world.jetstream import Stored, Stream

STRANGER = "a stranger"
GROUP = "scheduling.k8s.io/group-name"
Report = Callable[[str, str], None]


class Ledgers:
    """The claims of all nodes, as the stream holds them.

    ``forged`` are the ids of claims that a stranger wrote, ``lost`` of those that a fault removed from the stream.
    """

    def __init__(self, api: ApiServer, report: Report) -> None:
        self._api, self._report = api, report
        self._parts = Parts(DEVICE_CONFIG)
        self.claims: dict[str, dict[str, Claim]] = {}
        """By node and id."""
        self.ended: dict[str, Claim] = {}
        """Claims that a service removed, by id."""
        self.forged: set[str] = set()
        self.lost: dict[str, Claim] = {}
        self._holding: set[str] = set()
        """Uids of the pods that exist and have not ended."""
        self._not_bound: set[tuple[str, str]] = set()
        """Claims, with the pod's uid, that ever had an outcome other than bound."""
        self._names: dict[str, str] = {}
        self.twins: set[str] = set()
        """Uids that two pods had at one time: which of them a claim is for is open."""
        self._ids: dict[str, str] = {}
        """The pod's uid of every claim that there ever was."""
        self.disturbed: set[str] = set()
        """Gangs that lost a member for another reason than a decision: they may be incomplete."""

    def object_changed(self, seen: Seen) -> None:
        """Note gangs whose members are deleted or end, and nodes that vanish."""
        if seen.kind == "Node" and seen.after is None and seen.before is not None:
            for claim in self.claims.get(seen.before["metadata"]["name"], {}).values():
                self._disturb(claim.group)
        if seen.kind != "Pod":
            return
        if seen.after is not None and not has_ended(seen.after):
            self._holding.add(seen.after["metadata"]["uid"])
        elif seen.before is not None:
            self._holding.discard(seen.before["metadata"]["uid"])
        if seen.before is None:
            assert seen.after is not None
            uid, name = seen.after["metadata"]["uid"], seen.after["metadata"]["name"]
            if self._names.setdefault(uid, name) != name:
                self.twins.add(uid)
            return
        group = annotations_of(seen.before).get(GROUP)
        if group and (seen.after is None or has_ended(seen.after) or "deletionTimestamp" in seen.after["metadata"]):
            self._disturb(f"{seen.before['metadata']['namespace']}/{group}")

    def _disturb_gangs(self, uids: set[str]) -> None:
        """Note the gangs of pods with forged claims, which count as members until they are refused."""
        for pod in self._api.objects("Pod"):
            group = annotations_of(pod).get(GROUP)
            if group and pod["metadata"]["uid"] in uids:
                self._disturb(f"{pod['metadata']['namespace']}/{group}")

    def _disturb(self, group: str) -> None:
        if group:
            self.disturbed.add(group)

    def written(self, messages: Sequence[Stored], writer: str) -> None:
        """Check ledgers that were written together."""
        added: list[Claim] = []
        for stored in messages:
            if of_replicas(stored.subject):
                continue
            node = node_of(stored.subject)
            try:
                ledger: NodeLedger = decode_ledger(stored.data)
            except MsgspecError:
                self._lose(node)
                continue
            if writer == STRANGER:
                before = self.claims.get(node, {})
                forged = [claim for claim in ledger.claims if before.get(claim.id) != claim]
                self.forged |= {claim.id for claim in forged}
                self._disturb_gangs({claim.uid for claim in forged})
                self._replace(node, ledger.claims, lost=True)
                continue
            added += self._apply(node, ledger.claims)
        for group in sorted({claim.group for claim in added}):
            self._check_gang(group)

    def _lose(self, node: str) -> None:
        for claim in self.claims.pop(node, {}).values():
            self.lost[claim.id] = claim
            self._disturb(claim.group)

    def outcomes_written(self, outcomes: Iterable[Outcome]) -> None:
        """Note the claims that may leave the ledger."""
        self._not_bound |= {(each.claim, each.uid) for each in outcomes if each.state != BOUND}

    def _replace(self, node: str, claims: Iterable[Claim], *, lost: bool) -> None:
        before = self.claims.get(node, {})
        self.claims[node] = after = {claim.id: claim for claim in claims}
        for claim in before.values():
            if claim.id not in after:
                (self.lost if lost else self.ended)[claim.id] = claim
                self._disturb(claim.group)

    def _apply(self, node: str, claims: Sequence[Claim]) -> list[Claim]:
        """Take a ledger of a service; return the new claims."""
        before = self.claims.get(node, {})
        new = [claim for claim in claims if claim.id not in before]
        kept = {claim.id for claim in claims}
        for claim in before.values():
            ended = claim.uid not in self._holding or (claim.id, claim.uid) in self._not_bound
            if claim.id not in kept and not ended and claim.id not in self.forged and claim.uid not in self.twins:
                self._report("claims stay until their end", f"{claim.id} of {claim.name} was removed from {node}")
        self._replace(node, claims, lost=False)
        for claim in new:
            known = self._ids.get(claim.id)
            if known is not None and claim.id not in self.lost and claim.id not in self.forged:
                self._report("claim ids are unique", f"{claim.id} was used for {known}, now for {claim.uid} on {node}")
            self._ids[claim.id] = claim.uid
            self.lost.pop(claim.id, None)
        if len({claim.id for claim in claims}) < len(claims):
            self._report("claim ids are unique", f"{node} holds two claims with one id")
        if new:
            self._check_cards(node, claims)
        return [claim for claim in new if claim.id not in self.forged]

    def _check_cards(self, node: str, claims: Sequence[Claim]) -> None:
        obj = self._api.peek("Node", "", node)
        if obj is None:
            return
        valid = (claim for claim in claims if claim.id not in self.forged)
        claimed = (device for claim in valid for device in devices_of_claim(claim))
        for problem in over_claimed(cards_of(obj, self._parts), claimed):
            self._report("claims fit their cards", f"{node} {problem}")

    def _check_gang(self, group: str) -> None:
        namespace, _, name = group.partition("/")
        obj = self._api.peek("PodGroup", namespace, name)
        if obj is None or group in self.disturbed:
            return
        minimum = obj["spec"]["minMember"]
        claimed = {claim.uid for node in self.claims.values() for claim in node.values() if claim.group == group}
        bound = {
            pod["metadata"]["uid"]
            for pod in self._api.objects("Pod")
            if pod["spec"].get("nodeName") and annotations_of(pod).get(GROUP) == name
        }
        if len(claimed | bound) < minimum:
            self._report("gangs are claimed whole", f"{group}: {len(claimed | bound)} of {minimum} pods")

    def damaged(self, stream: Stream) -> None:
        """Take the content of the stream after a fault changed it."""
        held: dict[str, tuple[Claim, ...]] = {}
        for stored in stream.last_per_subject():
            if of_replicas(stored.subject):
                continue
            try:
                held[node_of(stored.subject)] = decode_ledger(stored.data).claims
            except MsgspecError:
                continue
        for node in sorted(set(self.claims) | set(held)):
            self._replace(node, held.get(node, ()), lost=True)
        for claims in self.claims.values():
            for identity in claims:
                self.ended.pop(identity, None)
                self.lost.pop(identity, None)


def devices_of_claim(claim: Claim) -> list[Device]:
    """Return the devices of a claim under the names that annotations give to cards."""
    devices = []
    for grant in claim.grants:
        for device in grant.devices:
            match grant.family:
                case "gpu-share":
                    card, part, amounts = str(device.index), "", {"MiB": device.memory}
                    amounts["pods beside whole cards"] = 1
                case "gpu-number":
                    card, part, amounts = str(device.index), "", {"pods beside whole cards": 10**6}
                case "mindcluster":
                    card, part, amounts = f"chip {device.index}", "", {"AI cores": device.cores}
                case "hami-vnpu":
                    card, part, amounts = device.id, "", {"MiB": device.memory}
                case _:
                    card, part = device.id, device.detail
                    amounts = {"slots": 1, "MiB": device.memory, "percent": device.cores}
            devices.append(Device(card, part, amounts))
    return devices
