"""The writes of ledgers: folding the decisions of a round into messages, and applying the results of the writes."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from deviceshare.allocation import Placement
from deviceshare.families import placed_on
from deviceshare.model import NodeLedger, Now, PodFact
from deviceshare.preemption import Preemption
from deviceshare.queueing import Decision
from deviceshare.scheduler import RETRY, Round, Scheduler
from deviceshare_bus.cores.conditional_writer import ConditionalWriter, Result
from deviceshare_bus.cores.core import Command, Count, Log, RecordStep, Write, WriteAnswer, WriteRefused
from deviceshare_bus.cores.division import Division
from deviceshare_bus.messages.codec import CHOSEN_BOUNDS, CHOSEN_VICTIMS, PREEMPTIONS, TOTAL
from deviceshare_bus.messages.subjects import TOMBSTONE_SECONDS, Stream
from deviceshare_bus.messages.subjects import ledger as subject_of

from deviceshare_placement.core import publishing
from deviceshare_placement.core.claim_traces import record_round
from deviceshare_placement.core.claims import (
    MAX_WRITES,
    LedgerChange,
    NewClaim,
    nodes_of,
    nodes_to_nominate,
    nominated,
    select,
)
from deviceshare_placement.core.contention import Contention
from deviceshare_placement.core.ledgers import Ledgers
from deviceshare_placement.core.own_work import OwnWork

PAUSE = 0.3
"""Seconds without a decision after a write that the bus did not take: the next one would fare no better."""


_NO_CHANGE = LedgerChange()


class LedgerWrites:
    """Writes the ledgers of one replica. A decision is final when its write is.

    Args:
        scheduler: charged with what is written.
        ledgers: the claims in the ledgers, and the changes that are due.
        work: the part of this replica.
        contention: the nodes that are left to other replicas.
        division: the lease under which it writes.
        readable: whether all messages about a node are valid.
        instance: the name of the process.
        claim_prefix: begins the ids of claims if the replica holds no lease.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        ledgers: Ledgers,
        work: OwnWork,
        contention: Contention,
        division: Division,
        readable: Callable[[str], bool],
        instance: str,
        claim_prefix: str,
    ) -> None:
        self._scheduler = scheduler
        self._ledgers = ledgers
        self._work = work
        self._contention = contention
        self._division = division
        self._readable = readable
        self._instance = instance
        self._claim_prefix = claim_prefix
        self._writer: ConditionalWriter[list[NewClaim]] = ConditionalWriter(Stream.LEDGER)
        """Each write carries its new claims."""
        self._uncertain: defaultdict[str, list[NewClaim]] = defaultdict(list)
        """Claims that are charged to a node by a write without an answer."""
        self.resume_at = 0.0
        """Nothing is decided before this monotonic time: the bus did not take what was decided last."""
        self._claims = 0

    @property
    def open(self) -> int:
        """The number of writes in flight and of ledgers that are being read back."""
        return self._writer.open

    def seen(self, subject: str, sequence: int) -> bool:
        """Record a message of a ledger's subject; return whether it is newer than the known one."""
        return self._writer.seen(subject, sequence)

    def knows(self, subject: str, sequence: int) -> bool:
        """Return whether this message of a subject, or a later one, has been seen."""
        return self._writer.knows(subject, sequence)

    def read_back(self, node: str, sequence: int, now: Now) -> list[Command]:
        """Apply that a ledger was read back; sequence 0: it has no message."""
        self._writer.read_back(subject_of(node), sequence)
        return self._report_claimed(self._uncertain.pop(node, []), now)

    def expire(self, now: float) -> list[Command]:
        """Write the empty ledgers of nodes that are gone so that they expire."""
        commands: list[Command] = []
        for node in self._ledgers.take_gone(self._is_busy, now):
            subject = subject_of(node)
            if not self._work.owns_node(node):
                self._ledgers.idle.add(node)
            elif self._writer.sequence(subject):
                message = NodeLedger(node=node, gone=True)
                commands.append(self._writer.write([(subject, message)], [], ttl=TOMBSTONE_SECONDS))
            else:
                self.forget(node)
        return commands

    def _is_busy(self, node: str) -> bool:
        return self._writer.busy(subject_of(node)) or not self._readable(node)

    def forget(self, node: str) -> None:
        """Forget the ledger of a node that is gone."""
        if self._scheduler.node(node) is None:
            self._ledgers.idle.discard(node)
            self._ledgers.drop(node)
            self._writer.forget(subject_of(node))

    def write(
        self,
        decided: Round,
        now: Now,
        preemption: Preemption | None = None,
        nominations: Sequence[dict[str, LedgerChange]] = (),
    ) -> list[Command]:
        """Fold all changes of a round into one ledger a node. Ledgers that gangs tie together are written together.

        ``preemption``: a decision by which pods go; ``nominations``: how earlier ones go on, each written as a whole.
        """
        chosen, together, put_back = select(decided)
        for decision in put_back:
            self._put_back(decision, now, len(nodes_of(decision)))
        changes: defaultdict[str, LedgerChange] = defaultdict(LedgerChange)
        for pod, placement, decision in chosen:
            changes[placement.node].added.append(self._new_claim(pod, placement, decision, now))
        nominated_now = self._nominate(preemption, nominations, len(together), now)
        chosen_victims = _count_victims(preemption) if preemption is not None and nominated_now else []
        for change in (*nominations, nominated_now):
            if len(together | change.keys()) <= MAX_WRITES:  # else it is due in the next round as well
                together |= change.keys()
                for node, each in change.items():
                    changes[node].merge(each)
        # Another replica may have written meanwhile what was due. What is not readable becomes due again when it is.
        due = {node for node in self._ledgers.due if self._scheduler.ledger(node).changes and self._readable(node)}
        self._ledgers.due = {node for node in due if self._repairs_later(node, now.monotonic)} - changes.keys()
        due -= self._ledgers.due
        writes = [sorted(together)] if together else []
        writes += ([node] for node in sorted((due | changes.keys()) - together))
        ledgers = len(together) + len(changes.keys() - together)
        recorded = record_round(self._instance, now.wall, [pod.uid for pod, _, _ in chosen], ledgers)
        kept = [command for nodes in writes for node in nodes for command in self._keep_reasons(node)]
        return [*kept, *(self._write_ledgers(nodes, changes) for nodes in writes), *recorded, *chosen_victims]

    def _new_claim(self, pod: PodFact, placement: Placement, decision: Decision, now: Now) -> NewClaim:
        self._claims += 1
        claim_id = f"{self._division.member or self._claim_prefix}-{self._claims}"
        return NewClaim(placement.node, self._scheduler.new_claim(claim_id, pod, placement, decision, now))

    def may_write(self, now: float) -> Callable[[str], bool]:
        """Return whether the ledger of a node may be written now: it is valid, and was not refused a moment ago."""
        return lambda node: self._readable(node) and self._scheduler.ledger(node).retry_at <= now

    def _nominate(
        self, preemption: Preemption | None, nominations: Sequence[dict[str, LedgerChange]], others: int, now: Now
    ) -> dict[str, LedgerChange]:
        """Return how the ledgers change by a decision for which pods go, if they can be written beside ``others``.

        It does not take the room of one of the ``nominations`` that go on in this round.
        """
        if preemption is None or preemption.decision is None:
            return {}
        taken = self._ledgers.nominations.evictions_for(preemption.taken)
        nodes = nodes_to_nominate(preemption, preemption.decision, taken)
        goes_on = bool(preemption.taken) and any(not nodes.isdisjoint(change) for change in nominations)
        if goes_on or others + len(nodes) > MAX_WRITES or not all(map(self.may_write(now.monotonic), nodes)):
            self._put_back(preemption.decision, now, len(nodes))
            for pod, _ in preemption.placed:
                self._scheduler.retry_at(pod.uid, now.monotonic + RETRY.delay(0))
            return {}
        claims = [self._new_claim(pod, place, preemption.decision, now) for pod, place in preemption.placed]
        return nominated(preemption, claims, now.wall, nodes, taken)

    def _keep_reasons(self, node: str) -> Iterator[Command]:
        """Publish why pods were placed that have ended on a node: the claims that say so are removed."""
        record = self._scheduler.ledger(node)
        for removed in sorted(record.remove):
            claim = record.claims[removed]
            pod = self._scheduler.pods.get(claim.uid)
            if pod is not None and pod.fact.ended and pod.fact.node == node and claim.choice is not None:
                pod.explained = True
                yield publishing.ended(self._scheduler, claim, node)

    def _repairs_later(self, node: str, now: float) -> bool:
        """Return whether changes alone of a ledger are not written now: later, or by another replica."""
        return self._scheduler.ledger(node).retry_at > now or not self._work.owns_node(node)

    def _write_ledgers(self, nodes: list[str], changes: Mapping[str, LedgerChange]) -> Write:
        """Return the write of the ledgers of these nodes as they should be."""
        messages = []
        added_here: list[NewClaim] = []
        for node in nodes:
            change = changes.get(node, _NO_CHANGE)
            added_here += change.added
            messages.append((subject_of(node), change.of(self._scheduler.ledger(node))))
        return self._writer.write(messages, added_here, guard=self._division.guard)

    def _put_back(self, decision: Decision, now: Now, nodes: int) -> None:
        """Put back a gang that spans more nodes than can be written together: with others of this round, or at all."""
        why = ""
        if nodes > MAX_WRITES:
            spans = f"pod group {decision.group.key} would span more than {MAX_WRITES} nodes"
            why = f"{spans}, which cannot be claimed together"
        self._scheduler.put_back(decision, now, why)

    # Results

    def complete(self, answer: WriteAnswer, now: Now) -> list[Command]:
        """Apply the result of a write; without an answer its claims stay charged until the ledgers are read back."""
        completed = self._writer.handle(answer)
        new = completed.context
        if completed.result is Result.WRITTEN:
            for written in completed.write.writes:
                self._contention.written(written.message.node)
                self._scheduler.ledger(written.message.node).refusals = 0
                self._scheduler.ledger(written.message.node).retry_at = 0.0
            for written in completed.newer:
                self._ledgers.enter(written.message, now)
                if written.message.gone:
                    self.forget(written.message.node)
            return self._report_claimed(new, now)
        # Claims that the write would have removed are still in the ledgers.
        for written in completed.write.writes:
            (self._ledgers.idle if written.message.gone else self._ledgers.due).add(written.message.node)
        if completed.result is Result.UNKNOWN:
            self.resume_at = now.monotonic + PAUSE
            for each in new:
                self._uncertain[each.node].append(each)
            # After the fence the write cannot be stored any more: what others decide from then on is exact.
            fence = self._division.leave() if completed.write.guard is not None else []
            return [Count("ledger_writes_unknown"), *fence, *completed.commands]
        for each in new:
            self._scheduler.release(each.node, each.uid, again=not isinstance(answer, WriteRefused))
        if isinstance(answer, WriteRefused):
            return self._postpone(completed.write, new, answer.reason, now.monotonic)
        if self._division.others:
            nodes = (written.message.node for written in completed.write.writes)
            self._contention.conflicted(nodes, now.monotonic)
        steps = [RecordStep(each.uid, f"{each.claim.namespace}/{each.claim.name}", "conflict") for each in new]
        return [Count("ledger_conflicts"), *steps, *completed.commands]

    def _postpone(self, write: Write, new: list[NewClaim], reason: str, now: float) -> list[Command]:
        """Retry a write that the server refused with back-off: its pods are decided again, its removals are kept."""
        self.resume_at = now + PAUSE
        for refused in write.writes:
            ledger = self._scheduler.ledger(refused.message.node)
            ledger.retry_at = now + RETRY.delay(ledger.refusals)
            ledger.refusals += 1
        for each in new:
            if each.uid in self._scheduler.pods:
                self._scheduler.refuse(each.uid, f"the claim on {each.node} could not be written: {reason}", now)
        return [Log("error", f"a ledger was refused by the server: {reason}")]

    def _report_claimed(self, new: list[NewClaim], now: Now) -> list[Command]:
        """Record the claims that stand."""
        commands: list[Command] = []
        for each in new:
            uid = each.uid
            if self._scheduler.claim_on(each.node, uid) is None:
                # The claim was not written, or was removed again before its write was acknowledged.
                self._scheduler.release(each.node, uid)
                continue
            record = self._scheduler.pods.get(uid)
            if record is None or each.claim.waits_for:
                continue
            record.report(placed_on(each.node), now.monotonic)
            # The binder may be done before the acknowledgement arrives: the step ends with the decision.
            commands.append(RecordStep(uid, record.fact.ref, "claimed", each.node, at=each.claim.decided_at))
        return commands


def _count_victims(preemption: Preemption) -> list[Command]:
    """Return the commands that count the pods that go by a decision."""
    number = len(preemption.victims)
    if not number:
        return []
    at = bisect_left(CHOSEN_BOUNDS, number)
    bound = str(CHOSEN_BOUNDS[at]) if at < len(CHOSEN_BOUNDS) else "+Inf"
    return [
        Count(f"{PREEMPTIONS}{preemption.action}"),
        Count(f"{CHOSEN_VICTIMS}{bound}"),
        Count(f"{CHOSEN_VICTIMS}{TOTAL}", number),
    ]
