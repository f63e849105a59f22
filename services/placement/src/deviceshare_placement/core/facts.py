"""Applying the facts of CLUSTER: what they mean for the claims in the ledgers, for the division and for reports."""

from collections import deque

from deviceshare.model import AnyFact, Gone, NodeFact, Now, PodFact, QueueFact
from deviceshare.scheduler import Ended, GroupRecord, Scheduler
from deviceshare_bus.cores.core import Command, RecordStep, RecordTrace, Unreadable
from deviceshare_bus.messages.sharing import share_grants, share_names
from deviceshare_bus.messages.subjects import address, ledger, outcome
from deviceshare_bus.messages.subjects import fact as subject_of

from deviceshare_placement.core import publishing
from deviceshare_placement.core.ledgers import Ledgers
from deviceshare_placement.core.own_work import OwnWork

_POD_SUBJECT = subject_of("pod", "")
EXCLUSION_DELAY = 0.2
"""Seconds for which the first pod with a term of anti-affinity waits if there are other replicas: more than they need
to read it, and than this one needs to read their claims."""
MAX_ENDED = 10_000
"""Deleted objects of which it is not known yet which replica reports them; beyond this number the oldest are not
reported."""


class Facts:
    """What the scheduler does not know of facts: their sequences, messages that are not valid, and the ledgers."""

    def __init__(self, scheduler: Scheduler, ledgers: Ledgers, work: OwnWork) -> None:
        self._work = work
        self._scheduler = scheduler
        self._ledgers = ledgers
        self._ended: deque[tuple[GroupRecord, int, list[Command]]] = deque(maxlen=MAX_ENDED)
        """What is to be reported of deleted objects as soon as it is known which replica reports it."""
        self._invalid: dict[str, str] = {}
        """Subjects with an invalid message, and its stream: their nodes take no pods, their pods are not decided."""

    def apply(self, subject: str, fact: AnyFact, sequence: int, now: Now) -> list[Command]:
        """Apply a fact; return the commands that follow for an object that is gone."""
        self.valid(subject)
        if isinstance(fact, PodFact):
            for claim, on in self._scheduler.claims_of(fact.uid):
                known = self._scheduler.ledgers[on].claims[claim]
                share_names(fact, known)
                if on == fact.node:
                    share_grants(fact, known.grants)
            pod = self._scheduler.pods.get(fact.uid)
            if pod is not None and pod.fact.node == fact.node and not pod.claims:
                share_grants(fact, pod.fact.held)
        applied = self._scheduler.apply(subject, fact, now)
        if applied.moved is not None:
            self._work.group_moved(applied.moved, sequence)
        commands = [] if applied.ended is None else self._end(applied.ended, sequence, now)
        match fact, applied.before:
            case PodFact(), _:
                self._set_pod(fact, now, excludes=applied.excludes)
            case NodeFact(), before:
                if isinstance(before, NodeFact) and "" != fact.uid != before.uid != "":
                    self._ledgers.node_gone(fact.name)
                self._set_node(fact)
            case QueueFact(), before:
                self._work.queue_changed(before if isinstance(before, QueueFact) else None, fact, sequence)
            case Gone(), NodeFact() as node:
                self._ledgers.node_gone(node.name)
                self._ledgers.idle.add(node.name)
            case Gone(), QueueFact() as queue:
                self._work.queue_changed(queue, None, sequence)
            case Gone(), None if subject.startswith(_POD_SUBJECT):
                # The pod was deleted while this service did not run.
                self._ledgers.forget(subject.removeprefix(_POD_SUBJECT), now.monotonic)
            case _:
                pass
        return commands

    def _set_pod(self, fact: PodFact, now: Now, *, excludes: bool) -> None:
        waits = not (fact.node or fact.ended)
        if waits and excludes and self._work.others:
            # Other replicas may not know yet that they must not place the pods that it excludes.
            self._scheduler.retry_at(fact.uid, now.monotonic + EXCLUSION_DELAY)
        if fact.ended:
            self._ledgers.remove(fact.uid)
            return
        record = self._scheduler.pods[fact.uid]
        self._ledgers.keep_one(record)
        if not fact.node:
            self._ledgers.doubt(record, now.monotonic)

    def _set_node(self, fact: NodeFact) -> None:
        if not fact.takes_pods:
            self._ledgers.node_lost(fact.name)

    def _end(self, ended: Ended, sequence: int, now: Now) -> list[Command]:
        """Remove the claims of a deleted pod; report the deleted object, or keep the report until its turn."""
        commands: list[Command] = [publishing.publish(ended.explanation, ttl=publishing.EXPLANATION_TTL)]
        if (pod := ended.pod) is not None:
            fact = pod.fact
            self._ledgers.forget(fact.uid, now.monotonic)
            commands.append(RecordStep(fact.uid, fact.ref, "gone", at=now.wall))
            if not (fact.node or fact.ended or pod.claims):
                # The binder exports the trace of a pod that was claimed.
                commands.append(
                    RecordTrace(
                        fact.uid, fact.namespace, fact.name, (pod.seen_at, now.wall), root=True,
                        queue=self._scheduler.queue_of(fact), result="deleted", reason=pod.reported,
                    )
                )  # fmt: skip
        return self._report_ended(ended.group, sequence, commands)

    def take_ended(self) -> list[Command]:
        """Report deleted objects of which it is known by now whether this replica reports them."""
        commands: list[Command] = []
        for _ in range(len(self._ended)):
            commands += self._report_ended(*self._ended.popleft())
        return commands

    def _report_ended(self, group: GroupRecord, sequence: int, commands: list[Command]) -> list[Command]:
        """Return the commands for a deleted object if this replica reports it, or keep them until that is known."""
        answers = self._work.answers_for(group, sequence)
        if answers is None:
            self._ended.append((group, sequence, commands))
        return commands if answers else []

    def readable(self, node: str) -> bool:
        """Return whether all messages about a node are valid."""
        return not self._paused(node)

    def invalid(self, event: Unreadable) -> None:
        """Place nothing on the node, or do not decide the pod, that an invalid message is about.

        The binder and inventory replace invalid outcomes and facts, unless these have a later version.
        """
        where = address(event.subject)
        if where is None or (where.kind == "outcome" and not event.newer):
            return
        match where.kind:
            case "node" | "ledger" | "outcome":
                self._invalid[event.subject] = event.stream
                self._pause(where.key)
            case "pod":
                self._invalid[event.subject] = event.stream
                self._ledgers.invalid.add(where.key)
                self._scheduler.set_invalid(where.key, event.reason)

    def valid(self, subject: str) -> None:
        """Use a node or decide a pod again whose message was invalid: it has a valid one now, or none."""
        if not self._invalid or self._invalid.pop(subject, None) is None:
            return
        where = address(subject)
        if where is not None and where.kind == "pod":
            # The claims of an unknown pod stay until its message is valid.
            self._ledgers.invalid.discard(where.key)
            self._scheduler.set_invalid(where.key, "")
        elif where is not None:
            self._pause(where.key)
            self._ledgers.readable_again(where.key)

    def _paused(self, node: str) -> str:
        """Return why a node takes no pods, '' if all messages about it are valid."""
        if self._invalid:
            for subject in (subject_of("node", node), ledger(node), outcome(node)):
                if (stream := self._invalid.get(subject)) is not None:
                    return f"the message about them in {stream} is not valid"
        return ""

    def _pause(self, node: str) -> None:
        self._scheduler.pause(node, self._paused(node))
        if (fact := self._scheduler.node(node)) is not None:
            self._set_node(fact)
