"""Checks bindings: cards hold what is bound to them, each pod is bound once and as its claim says."""

from collections.abc import Callable, Sequence

from deviceshare.model import BOUND, NodeOutcomes
from deviceshare_bus.messages.codec import decode_outcomes
from deviceshare_cluster.interface import Object
from msgspec import MsgspecError

from deviceshare_lab.chaos.knowledge import Knowledge
from deviceshare_lab.checker.cards import Device, Parts, devices_of, over_cards
from deviceshare_lab.checker.ledgers import STRANGER, Ledgers, Report, devices_of_claim
from deviceshare_lab.clusters.manifests import DEVICE_CONFIG
from deviceshare_lab.world.apiserver import ApiServer, Seen, has_ended, holds_nothing, name_of

BINDER = "binder"


class Bindings:
    """The bound pods of all nodes, and the outcomes that their binders wrote."""

    def __init__(
        self, api: ApiServer, ledgers: Ledgers, knowledge: Knowledge, clock: Callable[[], float], report: Report
    ) -> None:
        self._api, self._ledgers, self._clock, self._report = api, ledgers, clock, report
        self._knowledge = knowledge
        self.misled: set[str] = set()
        """Pods whose node had been replaced when they were bound, and their binder could not know."""
        self._parts = Parts(DEVICE_CONFIG)
        self._on: dict[str, dict[str, Object]] = {}
        """Pods that hold devices, by node and uid."""
        self._bound: dict[tuple[str, str], tuple[str, list[tuple[str, str]]]] = {}
        """Node and devices of each pod that was ever bound, by uid and name: two pods may have one uid."""
        self._outcomes: dict[tuple[str, str], tuple[float, str]] = {}
        """When and by whom the outcome bound was written, by claim and pod."""

    def object_changed(self, seen: Seen) -> None:
        """Check a binding, and that a bound pod keeps its node and devices."""
        if seen.kind != "Pod":
            return
        pod = seen.after
        if pod is not None and holds_nothing(pod):
            return
        if pod is None:
            assert seen.before is not None
            self._on.get(seen.before["spec"].get("nodeName", ""), {}).pop(seen.before["metadata"]["uid"], None)
            return
        node, uid = pod["spec"].get("nodeName"), pod["metadata"]["uid"]
        if not node:
            return
        on_node = self._on.setdefault(node, {})
        if has_ended(pod):
            on_node.pop(uid, None)
            return
        on_node[uid] = pod
        now = node, _names(devices_of(pod))
        identity = uid, name_of(pod)
        if identity not in self._bound:
            self._bound[identity] = now
            if seen.by == BINDER:
                if self._knowledge.misled(uid, node):
                    self.misled.add(uid)
                self._check_claim(pod, node, uid)
            self._check_cards(node)
        elif self._bound[identity] != now:
            self._report("a bound pod keeps its devices", f"{name_of(pod)}: {self._bound[identity]}, now {now}")

    def _check_cards(self, node: str) -> None:
        obj = self._api.peek("Node", "", node)
        if obj is not None and over_cards(obj, list(self._on[node].values()), self._parts):
            others = [pod for uid, pod in self._on[node].items() if uid not in self.misled]
            for problem in over_cards(obj, others, self._parts):
                self._report("cards hold what is bound to them", problem)

    def _check_claim(self, pod: Object, node: str, uid: str) -> None:
        given = _names(devices_of(pod))
        claims = [claim for claim in self._ledgers.claims.get(node, {}).values() if claim.uid == uid]
        lost = [claim for claim in self._ledgers.lost.values() if claim.uid == uid]
        for claim in claims + lost:
            if _names(devices_of_claim(claim)) == given:
                if claim.id in self._ledgers.forged:
                    self._report("no pod is bound by a forged claim", f"{name_of(pod)} on {node} by {claim.id}")
                return
        if claims:
            wanted = [_names(devices_of_claim(claim)) for claim in claims]
            self._report("bindings equal claims", f"{name_of(pod)} on {node}: bound to {given}, claimed {wanted}")
        else:
            ended = [claim.id for claim in self._ledgers.ended.values() if claim.uid == uid]
            why = f"its claims have ended: {ended}" if ended else "it has no claim"
            self._report("bindings equal claims", f"{name_of(pod)} was bound to {node} although {why}")

    def outcomes_written(self, messages: Sequence[object], writer: str) -> None:
        """Note outcomes."""
        if writer == STRANGER:
            return
        for stored in messages:
            try:
                found: NodeOutcomes = decode_outcomes(stored.data)  # type: ignore[attr-defined]
            except MsgspecError:
                continue
            self._ledgers.outcomes_written(found.outcomes)
            for outcome in found.outcomes:
                if outcome.state == BOUND:
                    self._outcomes.setdefault((outcome.claim, outcome.uid), (self._clock(), writer))

    def outcomes_damaged(self) -> None:
        """A fault changed OUTCOME: binders may bind again what they have forgotten."""
        self._outcomes.clear()

    def requested(self, uid: str, node: str, by: str) -> None:
        """Check a request for a binding: an instance does not bind again what it has reported as bound."""
        self._knowledge.requested(uid, node, by)
        for claim in self._ledgers.claims.get(node, {}).values():
            written = self._outcomes.get((claim.id, uid)) if claim.uid == uid else None
            if written is not None and written[1] == by and self._clock() > written[0]:
                self._report("each pod is bound once", f"{by} binds {claim.name} again, for {claim.id} on {node}")


def _names(devices: Sequence[Device]) -> list[tuple[str, str]]:
    return sorted((device.card, device.part) for device in devices)
