"""The state machine of placement: facts, ledgers, outcomes and acknowledgements in, ledgers and explanations out.

Placement adds a claim when it decides; from then on the claim holds its devices until it leaves the ledger
(:mod:`.ledgers`). A cycle decides every group that may be decided, folds all changes of a node into one ledger, and
waits until it is known what became of them before the next cycle begins. A pod that fitted nowhere is decided again
when something may have made room, never by polling.
"""

from collections import defaultdict
from itertools import islice

from deviceshare.conf import EffectiveConfiguration
from deviceshare.model import (
    REFUSED,
    AnyFact,
    Backoff,
    Claim,
    ConfigFact,
    Explanation,
    Gone,
    NodeFact,
    NodeLedger,
    NodeOutcomes,
    PodFact,
    PodGroupFact,
    PriorityClassFact,
    QueueFact,
    Synced,
)
from deviceshare.queueing import Decision

from deviceshare_placement.core import explaining
from deviceshare_placement.core.cluster_state import ClusterState
from deviceshare_placement.core.deciding import Deciding
from deviceshare_placement.core.instructions import Instructions, StepRecord
from deviceshare_placement.core.ledgers import BOUND_GRACE, ORPHAN_GRACE, Ledgers
from deviceshare_placement.core.overcommit import overcommitted_claims
from deviceshare_placement.core.pending_writes import PendingWrites
from deviceshare_placement.core.records import PodRecord
from deviceshare_placement.core.reporter import Reporter

MOST_WRITES = 1000
"""Ledgers that can be written together: the server's limit for an atomic batch."""
RETRY = Backoff(0.5, 30.0)
"""Seconds until a pod whose claim was refused is decided again; doubles with each refusal."""
PAUSE = 0.3
"""Seconds without a decision after a write that the bus did not take: the next one would fare no better."""
PROMPT_RETRIES = 3
"""Refusals after which a pod counts as one that waits with its reason."""
CLAIM_WITHOUT_POD, CLAIM_NOT_BOUND, CLAIM_WITHOUT_ROOM = "claim without pod", "claim not bound", "claim without room"
"""What may differ from the cluster: a claim whose pod nobody knows, one that is said to be bound while its pod is not,
one that is not bound yet on a node that others have filled."""
_POD_SUBJECT = "cluster.pod."
_NODE_SUBJECT = "cluster.node."


class PlacementCore:
    """Decides. One instance lives as long as an epoch of the bus."""

    def __init__(self, instance: str) -> None:
        self.instance = instance
        self.cluster = ClusterState()
        self.started = False
        """Whether all that stood on the bus has been read: nothing is decided before."""
        self.synced = False
        """Whether all that the cluster holds has been on the bus once: nothing is decided before."""
        self._ledgers = Ledgers(self.cluster)
        self._facts: dict[str, AnyFact] = {}
        self._effective = EffectiveConfiguration()
        self._pending = PendingWrites(self.cluster, self._ledgers)
        self._unreadable: set[str] = set()
        """Nodes whose ledger holds something that we cannot read."""
        self._reporter = Reporter()
        self._deciding = Deciding(self.cluster, self._reporter, instance)
        self._resume_at = 0.0
        """Nothing is decided before this moment: the bus did not take what was decided last."""
        self._claims = 0

    # What is read from the bus

    def on_fact(self, subject: str, fact: AnyFact, now: float) -> Instructions:
        """Take in what inventory says; ``subject`` is where it stands on the bus."""
        out = Instructions()
        previous = self._facts.get(subject)
        match fact:
            case Gone():
                self._facts.pop(subject, None)
                self._on_gone(subject, previous, now, out)
                return out
            case Synced():
                self.synced = True
            case PodFact():
                self._on_pod(fact, now)
            case NodeFact():
                self._set_node(fact)
            case PodGroupFact():
                self.cluster.set_group(fact)
            case PriorityClassFact():
                self.cluster.set_priority_class(fact)
            case QueueFact():
                self.cluster.set_queue(fact)
            case ConfigFact() if self._effective.take(fact):
                self._configure()
        self._facts[subject] = fact
        return out

    def _on_pod(self, fact: PodFact, now: float) -> None:
        fact, pod_class = self.cluster.classify(fact)
        record = self.cluster.pods.get(fact.uid)
        before = fact if record is None else record.fact
        if record is None:
            record = self.cluster.pods[fact.uid] = PodRecord(fact, pod_class, self.cluster.claims[fact.uid], now)
        record.fact, record.pod_class = fact, pod_class
        if before.group != fact.group:
            left = self.cluster.group(before.group)
            left.members.discard(fact.uid)
            self.cluster.drop_if_empty(left)
        self.cluster.group(fact.group).members.add(fact.uid)
        self.cluster.account(record)
        self.cluster.reconsider(fact.group)
        for node in {before.node, fact.node, *record.claims.values()} - {""}:
            self.cluster.charge(node, fact.uid)
        if fact.node or fact.ended:
            self._settle(fact.uid)
        if fact.ended:
            self._ledgers.take_out(fact.uid)
        else:
            self._ledgers.keep_one(record)
            if not fact.node:
                self._ledgers.doubt(record, now)

    def _on_gone(self, subject: str, fact: AnyFact | None, now: float, out: Instructions) -> None:
        match fact:
            case PodFact():
                self._on_pod_gone(fact, now, out)
            case NodeFact():
                self.cluster.remove_node(fact.name)
                self._ledgers.node_lost(fact.name)
            case PodGroupFact():
                self.cluster.remove_group(fact.key)
                if fact.uid:
                    out.forget.append(explaining.group_gone(fact, now, self.instance))
            case PriorityClassFact():
                self.cluster.remove_priority_class(fact.name)
            case QueueFact():
                self.cluster.remove_queue(fact.name)
            case ConfigFact() if self._effective.drop(fact.name):
                self._configure()
            case None if subject.startswith(_POD_SUBJECT):
                # It went while nobody was looking.
                self._ledgers.forget(subject.removeprefix(_POD_SUBJECT), now)
            case _:
                pass

    def _on_pod_gone(self, fact: PodFact, now: float, out: Instructions) -> None:
        reported = self.cluster.pods.pop(fact.uid).reported
        group = self.cluster.group(fact.group)
        group.members.discard(fact.uid)
        self.cluster.reconsider(fact.group)
        self.cluster.drop_if_empty(group)
        self._ledgers.forget(fact.uid, now)
        self.cluster.accounts.drop(fact.uid)
        if fact.node:
            self.cluster.charge(fact.node, fact.uid)
        if not self.cluster.claims[fact.uid]:
            del self.cluster.claims[fact.uid]
        self._settle(fact.uid)
        out.forget.append(explaining.gone(fact, reported, now, self.instance))
        out.steps.append(StepRecord(fact.uid, fact.ref, "gone"))

    def _settle(self, uid: str) -> None:
        """Forget what was to be said or tried for a pod that waits no more."""
        self._reporter.drop(uid)
        self._deciding.retries.pop(uid, None)

    def _configure(self) -> None:
        """Decide by the configuration that stands now."""
        self.cluster.configure(self._effective.conf)

    def on_ledger(self, node: str, sequence: int, ledger: NodeLedger, now: float) -> Instructions:
        """Take in a ledger as it stands on the bus; our own writes come back here as well."""
        self._ledgers.enter(node, sequence, ledger.claims, now)
        if node in self._unreadable:
            self._unreadable.discard(node)
            self._set_node(self._facts.get(f"{_NODE_SUBJECT}{node}"))
        return Instructions()

    def on_unreadable_ledger(self, node: str) -> Instructions:
        """Hear that a node's ledger cannot be decoded, such as one of a later version: the node rests until it can."""
        self._unreadable.add(node)
        for explanation in self._pending.read(node):
            self.cluster.charge(node, explanation.uid)
            self.cluster.reconsider_pod(explanation.uid)
        self.cluster.remove_node(node)
        return Instructions()

    def _set_node(self, fact: AnyFact | None) -> None:
        if isinstance(fact, NodeFact) and fact.name not in self._unreadable:
            self.cluster.set_node(fact)
            if not fact.takes_pods:
                self._ledgers.node_lost(fact.name)

    def on_read_back(self, node: str, sequence: int, ledger: NodeLedger | None, now: float) -> Instructions:
        """Take in the ledger that was asked for by ``read_back``: sequence 0 and None where there is none."""
        if ledger is not None:
            self._ledgers.enter(node, sequence, ledger.claims, now)
        out = Instructions()
        for explanation in self._pending.read(node):
            self._tell_claimed(explanation, now, out)
        return out

    def on_outcomes(self, outcomes: NodeOutcomes, now: float) -> Instructions:
        """Take in what became of the claims on a node."""
        out = Instructions()
        for outcome in self._ledgers.outcomes(outcomes, now):
            record = self.cluster.pods.get(outcome.uid)
            if record is None:
                continue
            record.refusal = outcome.reason if outcome.state == REFUSED else ""
            self._retry_later(record, now)
            out.steps.append(
                StepRecord(outcome.uid, record.fact.ref, f"claim {outcome.state}", outcomes.node, outcome.reason)
            )
        return out

    def on_caught_up(self, now: float) -> Instructions:
        """Hear that everything that stood on the bus when reading began has been taken in."""
        self.started = True
        out = Instructions()
        for record in self.cluster.pods.values():
            for claim, node in record.claims.items() if not record.fact.node else ():
                # Whoever claimed it may have ended before it could say so.
                explanation = explaining.claimed(record.fact, self.cluster.ledgers[node].claims[claim], node, now)
                record.report(explanation.message, now)
                out.explanations.append(explanation)
        return out

    # Deciding

    @property
    def open(self) -> int:
        """How much is under way or could be done now: decisions, writes, retries, explanations not told yet."""
        return (
            self._pending.open
            + len(self._ledgers.due)
            + len(self.cluster.candidates)
            + len(self.cluster.dispatcher)
            # What is refused again and again has its reason; it is not what a settled system waits for.
            + sum(1 for uid in self._deciding.retries if self.cluster.pods[uid].refusals <= PROMPT_RETRIES)
            + len(self._reporter)
            + len(self._ledgers.orphans)
        )

    @property
    def _knows_all(self) -> bool:
        """Whether everything is known that a decision needs: what stands on the bus, and what became of each write."""
        return self.started and self.synced and not self._pending.open

    def next_due(self, now: float) -> float | None:
        """Return in how many seconds :meth:`cycle` has something to do though nothing happens, None if never."""
        times = self._reporter.due(self.cluster.pods)
        if self._knows_all and now < self._resume_at:
            times.append(self._resume_at)
        elif self._knows_all:
            times += self._deciding.retries.values()
            times += self.cluster.enqueue.due(now)
            times += self.cluster.dispatcher.due()
            times += (since + ORPHAN_GRACE for _, since in self._ledgers.orphans.values())
            times += (since + BOUND_GRACE for _, since in islice(self._ledgers.unconfirmed.values(), 1))
        return max(0.0, min(times) - now) if times else None

    def cycle(self, now: float) -> Instructions:
        """Decide what can be decided now; call it after events, and when :meth:`next_due` has come."""
        out = Instructions()
        if not (self.started and self.synced):
            return out
        if self._knows_all and now >= self._resume_at:
            self._reconcile(now, out)
            decided = self._deciding.decide(now)
            out.explanations += decided.of_groups
            put_back = self._publish(decided.decisions, now, out)
            out.placed = [uid for uid in decided.order if uid not in put_back]
        self._tell_waiting(now, out)
        return out

    def _reconcile(self, now: float, out: Instructions) -> None:
        """Repair what differs between the ledgers and the cluster."""
        out.reconciled += [CLAIM_WITHOUT_POD] * self._ledgers.give_up_orphans(now)
        out.reconciled += [CLAIM_NOT_BOUND] * self._ledgers.ask_back_unconfirmed(now)
        crowded, self.cluster.crowded = self.cluster.crowded, set()
        for node in sorted(crowded):
            for claim in overcommitted_claims(self.cluster, node):
                self._ledgers.ask_back(node, claim.id)
                out.reconciled.append(CLAIM_WITHOUT_ROOM)

    # Publishing

    def _publish(self, decisions: list[Decision], now: float, out: Instructions) -> set[str]:
        """Fold everything that a cycle changes into one ledger a node; return the uids of pods that are put back.

        What a gang ties together is written together.
        """
        put_back: set[str] = set()
        added: defaultdict[str, list[tuple[Claim, Explanation]]] = defaultdict(list)
        together: set[str] = set()
        for decision in decisions:
            nodes = {placement.node for _, placement in decision.placed}
            if len(nodes) > 1 and len(together | nodes) > MOST_WRITES:
                self._put_back(decision, now, possible=len(nodes) <= MOST_WRITES)
                put_back |= {pod.uid for pod, _ in decision.placed}
                continue
            if len(nodes) > 1:
                together |= nodes
            for pod, placement in decision.placed:
                self._claims += 1
                claim = Claim(
                    id=f"{self.instance}-{self._claims}",
                    uid=pod.uid,
                    namespace=pod.namespace,
                    name=pod.name,
                    group=decision.group.key,
                    decided_by=self.instance,
                    decided_at=now,
                    grants=placement.grants,
                    resources=placement.resources,
                    ports=placement.ports,
                    counted=placement.counted,
                    labels=tuple(sorted({label for rule in pod.ask.exclusive for label in rule})),
                )
                explanation = explaining.placed(self.cluster.allocator, pod, placement, decision, now, self.instance)
                added[placement.node].append((claim, explanation))
                self._reporter.drop(pod.uid)
        due, self._ledgers.due = self._ledgers.due, set()
        # Another replica may have written meanwhile what was due.
        due = {node for node in due if self.cluster.ledger(node).changes and node not in self._unreadable}
        if together:
            out.publications.append(self._pending.start(together, added))
        for node in sorted((due | added.keys()) - together):
            out.publications.append(self._pending.start({node}, added))
        return put_back

    def _put_back(self, decision: Decision, now: float, *, possible: bool) -> None:
        """Take back a gang that spans more nodes than can be written together, with those of this cycle or at all."""
        for pod, placement in decision.placed:
            self.cluster.charge(placement.node, pod.uid)
            if not possible:
                spans = f"pod group {decision.group.key} would span more than {MOST_WRITES} nodes"
                message = f"{spans}, which cannot be claimed together"
                self._reporter.put(explaining.pending(pod, message, now, self.instance))
        if possible:
            self.cluster.reconsider(decision.group.key)
        else:
            self.cluster.too_wide.add(decision.group.key)

    def on_published(self, token: int, last_sequence: int, now: float) -> Instructions:
        """Hear that a publication was written.

        ``last_sequence`` is that of its last ledger, the others stand right before it.
        """
        out = Instructions()
        for explanation in self._pending.written(token, last_sequence, now):
            self._tell_claimed(explanation, now, out)
        return out

    def _tell_claimed(self, explanation: Explanation, now: float, out: Instructions) -> None:
        """Tell why a pod goes where it goes, if its claim stands."""
        if self.cluster.claim_on(explanation.node, explanation.uid) is None:
            # It was written and taken out again before we heard of it.
            self.cluster.charge(explanation.node, explanation.uid)
            self.cluster.reconsider_pod(explanation.uid)
            return
        record = self.cluster.pods.get(explanation.uid)
        if record is None:
            return
        record.report(explanation.message, now)
        out.explanations.append(explanation)
        # The binder may be done before the acknowledgement is here: what counts is when it was decided.
        since, at = record.seen_at, explanation.at
        out.steps.append(StepRecord(explanation.uid, record.fact.ref, "claimed", explanation.node, since=since, at=at))

    def on_conflict(self, token: int) -> Instructions:
        """Hear that somebody else wrote first: the pods are decided again on what stands there now."""
        out = Instructions()
        explanations, out.read_back = self._pending.in_conflict(token)
        for explanation in explanations:
            self.cluster.reconsider_pod(explanation.uid)
            out.steps.append(StepRecord(explanation.uid, f"{explanation.namespace}/{explanation.name}", "conflict"))
        return out

    def on_unknown(self, token: int, now: float) -> Instructions:
        """Hear that nobody knows whether a publication was written."""
        self._resume_at = now + PAUSE
        return Instructions(read_back=self._pending.unknown(token))

    def on_refused(self, token: int, reason: str, now: float) -> Instructions:
        """Hear that the server will never take a publication: its pods are decided again later, with back-off."""
        self._resume_at = now + PAUSE
        for explanation in self._pending.refused(token):
            record = self.cluster.pods.get(explanation.uid)
            if record is not None:
                record.refusal = f"the claim on {explanation.node} could not be written: {reason}"
                self._retry_later(record, now)
        return Instructions()

    def _retry_later(self, record: PodRecord, now: float) -> None:
        self._deciding.retries[record.fact.uid] = now + RETRY.delay(record.refusals)
        record.refusals += 1
        self.cluster.reconsider(record.fact.group)

    def _tell_waiting(self, now: float, out: Instructions) -> None:
        for explanation in self._reporter.take(self.cluster.pods, now):
            ref = self.cluster.pods[explanation.uid].fact.ref
            out.explanations.append(explanation)
            out.steps.append(StepRecord(explanation.uid, ref, "pending", message=explanation.message))
