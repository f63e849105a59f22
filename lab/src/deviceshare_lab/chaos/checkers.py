"""What the checker hears of a simulated history: every write to the API server and to the bus, when it happens.

It is always on, and independent of the workload and of the scheduler.
"""

from collections.abc import Callable, Sequence

from deviceshare_bus.messages.subjects import node_of, of_replicas

from deviceshare_lab.chaos.knowledge import Knowledge
from deviceshare_lab.checker import Violation
from deviceshare_lab.checker.budgets import broken_by
from deviceshare_lab.checker.cards import Parts, devices_of, names_of
from deviceshare_lab.checker.claims import Claim, Eviction, parse_evictions, parse_ledger, parse_outcomes
from deviceshare_lab.checker.evictions import CheckedEvictions
from deviceshare_lab.checker.ledgers import Ledgers
from deviceshare_lab.checker.pods import BoundPods
from deviceshare_lab.checker.settled import Settled
from deviceshare_lab.clusters.fields import Object, is_going, name_of
from deviceshare_lab.clusters.manifests import DEVICE_CONFIG, SCHEDULER
from deviceshare_lab.world.apiserver import ApiServer, Seen, holds_nothing
from deviceshare_lab.world.jetstream import Stored, Stream
from deviceshare_lab.world.nats_server import STRANGER, Server

BINDER = "binder"


class Checkers:
    """The checker of one history. ``violation`` is the first one found."""

    def __init__(self, api: ApiServer, bus: Server, clock: Callable[[], float], *, preempts: bool = False) -> None:
        self._api, self._clock = api, clock
        self.violation: Violation | None = None
        parts = Parts(DEVICE_CONFIG)
        self.ledgers = Ledgers(api, self.report, parts)
        self.pods = BoundPods(self.report, lambda node: api.peek("Node", "", node), parts)
        self._knowledge = Knowledge(api, bus)
        self._settled = Settled(api, self.ledgers, SCHEDULER, parts, preempts=preempts)
        self.evictions = CheckedEvictions(self.ledgers, self.report)
        self._damaged = False
        """Whether a fault changed LEDGER: a claim may wait again whose pod is being bound."""
        self._outcomes: dict[tuple[str, str], tuple[float, str]] = {}
        """When and by whom the outcome bound was written, by claim and pod."""

    def report(self, rule: str, text: str) -> None:
        """Report a violation."""
        if self.violation is None:
            self.violation = Violation(rule, text, self._clock())

    def object_changed(self, seen: Seen) -> None:
        """Hear of a write to the API server."""
        if seen.kind == "Node" and seen.after is None and seen.before is not None:
            self.ledgers.node_removed(seen.before["metadata"]["name"])
        if seen.kind != "Pod":
            return
        self.ledgers.pod_changed(seen.before, seen.after)
        if seen.by == BINDER and seen.before is not None and is_going(seen.after) and not is_going(seen.before):
            for text in broken_by(seen.before, self._api.objects("Pod"), self._api.objects("PodDisruptionBudget")):
                self.report("budgets hold", text)
        if seen.after is None:
            assert seen.before is not None
            self.pods.drop(seen.before)
        elif not holds_nothing(seen.after) and self.pods.take(seen.after):
            self._bound(seen.after, seen.by)

    def _bound(self, pod: Object, by: str) -> None:
        node, uid = pod["spec"]["nodeName"], pod["metadata"]["uid"]
        if by == BINDER:
            if self._knowledge.misled(uid, node):
                self.pods.exempt.add(uid)
            claims = [*self.ledgers.now.get(node, {}).values(), *self.ledgers.lost.values()]
            what, names = f"{name_of(pod)} on {node}", names_of(devices_of(pod))
            own = [claim for claim in claims if claim.uid == uid]
            self.ledgers.check_binding(what, names, own)
            if own and all(claim.waits_for for claim in own) and not self._damaged:
                self.report("no pod is bound before others have gone", f"{what}: {own[0].waits_for}")
        self.pods.check_cards(node)

    def written(self, stream: Stream, messages: Sequence[Stored], writer: str) -> None:
        """Hear of messages that were written to a stream together."""
        if stream.name == "LEDGER":
            self._ledgers_written(messages, writer)
        elif stream.name == "OUTCOME" and writer != STRANGER:
            self._outcomes_written(messages, writer)

    def _ledgers_written(self, messages: Sequence[Stored], writer: str) -> None:
        added: list[Claim] = []
        to_go: list[Eviction] = []
        for stored in messages:
            if of_replicas(stored.subject):
                continue
            ledger = parse_ledger(stored.subject, stored.data)
            if ledger is None:
                self.ledgers.replace(node_of(stored.subject), ())
            elif writer == STRANGER:
                self.ledgers.forge(*ledger)
            else:
                added += self.ledgers.take(*ledger)
                to_go += self.evictions.take(ledger[0], parse_evictions(stored.subject, stored.data))
        self.ledgers.check_gangs(added)
        if not (to_go or self.evictions.going):
            return
        pods = {pod["metadata"]["uid"]: pod for pod in self._api.objects("Pod")}
        self.evictions.check_let_go(pods)
        if to_go:
            minimums = {name_of(group): group["spec"]["minMember"] for group in self._api.objects("PodGroup")}
            self.evictions.check(to_go, pods, minimums)

    def _outcomes_written(self, messages: Sequence[Stored], writer: str) -> None:
        for stored in messages:
            self.ledgers.outcome(stored.subject, stored.data)
            _, outcomes = parse_outcomes(stored.subject, stored.data) or ("", [])
            self.ledgers.outcomes_written(outcomes)
            self.evictions.outcomes_written(outcomes)
            for outcome in outcomes:
                if outcome.state == "bound":
                    self._outcomes.setdefault((outcome.claim, outcome.uid), (self._clock(), writer))

    def damaged(self, stream: Stream) -> None:
        """Hear that a fault changed the content of a stream: what is lost by it is not the services' doing."""
        stored = [each for each in stream.last_per_subject() if not of_replicas(each.subject)]
        if stream.name == "LEDGER":
            self._damaged = True
            self.ledgers.restore(dict(filter(None, (parse_ledger(each.subject, each.data) for each in stored))))
            self.evictions.now.clear()
            for each in stored:
                self.evictions.take(node_of(each.subject), parse_evictions(each.subject, each.data))
            self.evictions.going.clear()
        elif stream.name == "OUTCOME":
            self._outcomes.clear()  # binders may bind again what they have forgotten
            self.ledgers.outcomes = dict(filter(None, (parse_outcomes(each.subject, each.data) for each in stored)))

    def bind_requested(self, uid: str, node: str, by: str) -> None:
        """Check a request for a binding: an instance does not bind again what it has reported as bound."""
        self._knowledge.requested(uid, node, by)
        for claim in self.ledgers.now.get(node, {}).values():
            written = self._outcomes.get((claim.id, uid)) if claim.uid == uid else None
            if written is not None and written[1] == by and self._clock() > written[0]:
                self.report("each pod is bound once", f"{by} binds {claim.name} again, for {claim.id} on {node}")

    def evict_requested(self, uid: str, by: str) -> None:
        """Check a request to evict a pod."""
        self.evictions.requested(uid, by)

    def unsettled(self) -> list[str]:
        """Return what is not as it must be when nothing happens any more."""
        pods = [pod for pod in self._api.objects("Pod") if not holds_nothing(pod)]
        return self._settled.problems(pods) + self.evictions.left()
