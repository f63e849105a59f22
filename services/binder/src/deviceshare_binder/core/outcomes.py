"""The claims and evictions of each node, and their outcomes: one message per node in OUTCOME, written conditionally.

Outcomes that say bound are written when nothing is left to be bound on the node, at the latest after :data:`FOLD`, and
at most once in :data:`PAUSE`, so that many bindings become one message; all others at once. A binder that ends before
leaves claims without an outcome: its successor finds that their pods are bound.
"""

import math
from collections import deque
from collections.abc import Callable
from itertools import islice

import msgspec
from deviceshare.model import BLOCKED, BOUND, FORBIDDEN, MAY_GO, Claim, Eviction, NodeOutcomes, Outcome
from deviceshare_bus.cores.conditional_writer import ConditionalWriter, Result
from deviceshare_bus.cores.core import (
    Command,
    Count,
    Log,
    RecordTrace,
    Unreadable,
    WriteAnswer,
    WriteConflict,
    WriteRefused,
    Written,
)
from deviceshare_bus.cores.postponed import Postponed
from deviceshare_bus.messages.sharing import share_outcomes
from deviceshare_bus.messages.subjects import TOMBSTONE_SECONDS, Stream, address, node_of, outcome

FOLD = 5.0
"""Seconds for which outcomes that say bound wait for those of the other claims that are being bound on the node. Under
load, the bindings of a node that follow one another take seconds."""
PAUSE = 0.5
"""Seconds for which outcomes that say bound wait if those of the node were written less than this time ago. Pods that
arrive one at a time and fill a node would each write the outcomes of all others again."""


_OF_EVICTIONS = (MAY_GO, BLOCKED, FORBIDDEN)


def is_nominated(claim: Claim) -> bool:
    """Return whether a claim waits for other pods to go: its pod is not bound before."""
    return bool(claim.waits_for) and not claim.withdraw


def eviction_key(claim: str, uid: str) -> str:
    """Return the key of an eviction, and of its outcome: the id of a claim has no line break."""
    return f"{claim}\n{uid}"


def _key(outcome: Outcome) -> str:
    """Return the key of an outcome: the id of its claim, or that of its eviction."""
    return eviction_key(outcome.claim, outcome.uid) if outcome.state in _OF_EVICTIONS else outcome.claim


class NodeClaims(msgspec.Struct, eq=False):
    """The claims and evictions of one node, their outcomes on the bus, and those that are not written yet."""

    name: str
    ledger: dict[str, Claim] = {}
    evictions: dict[str, Eviction] = {}
    """The pods that have to go, by the keys of the evictions."""
    written: dict[str, Outcome] = {}
    """The outcomes on the bus, by claim or eviction."""
    finished: dict[str, Outcome] = {}
    """Outcomes that are not on the bus yet, by claim or eviction."""
    due: float = math.inf
    """The monotonic time by which the finished outcomes are written though claims are still being bound."""
    written_at: float = -math.inf
    """The monotonic time of the last write of outcomes."""
    traces: dict[str, RecordTrace] = {}
    """The traces of pods whose outcome is not on the bus yet, by claim."""
    confirmed: set[str] = set()
    """Claims to be withdrawn whose pod was found to be bound here."""
    tasks: dict[str, None] = {}
    """Ids of the claims that have a bind task."""
    queue: deque[str] = msgspec.field(default_factory=deque)
    """Ids of the claims to begin, in order."""
    in_turn: bool = False
    gone: bool = False
    """Whether the node was deleted and has no claims: its outcomes expire."""
    invalid: dict[str, str] = {}
    """Why the node is paused: nothing is bound there, and its outcomes are not written. By subject."""

    def holds(self, claim: Claim) -> bool:
        """Return whether a claim is in the node's ledger and not nominated."""
        there = self.ledger.get(claim.id)
        return there is not None and there.uid == claim.uid and not is_nominated(there)

    @property
    def unused(self) -> bool:
        """Whether there is nothing to do for the node."""
        return not (self.ledger or self.evictions or self.tasks or self.finished)

    def outcome_of(self, claim: Claim) -> Outcome | None:
        """Return the known outcome of a claim; an outcome with the claim's id and another uid is not its outcome."""
        for outcomes in (self.finished, self.written):
            if (known := outcomes.get(claim.id)) is not None and known.uid == claim.uid:
                return known
        return None

    def has_outcome(self, claim: Claim) -> bool:
        """Return whether the outcome of a claim is known; a claim to be withdrawn that counts as bound has none."""
        known = self.outcome_of(claim)
        if known is None:
            return False
        return known.state != BOUND or not claim.withdraw or claim.id in self.confirmed

    def is_bound(self, claim: Claim) -> bool:
        """Return whether the outcome of a claim is bound."""
        known = self.outcome_of(claim)
        return known is not None and known.state == BOUND

    def eviction_outcome(self, key: str) -> Outcome | None:
        """Return the known outcome of an eviction."""
        return self.finished.get(key) or self.written.get(key)

    def is_new(self, claim: Claim, state: str) -> bool:
        """Record the outcome of a claim; return whether it differs from the known one."""
        if state == BOUND and claim.withdraw:
            self.confirmed.add(claim.id)
        known = self.outcome_of(claim)
        return known is None or known.state != state

    def take_traces(self) -> list[RecordTrace]:
        """Return the traces of the pods whose outcome is on the bus, or whose claim has left the ledger meanwhile.

        Only the writer of an outcome exports the trace: of another writer's outcome nothing is returned.
        """
        found = []
        self.finished = self._in_ledger(self.finished)
        for claim in [claim for claim in self.traces if claim not in self.finished]:
            trace, written = self.traces.pop(claim), self.written.get(claim)
            if written is None or written.at == trace.times[-1]:
                found.append(trace)
        return found

    def to_write(self) -> dict[str, Outcome]:
        """Return all outcomes of the node if some of them are not on the bus, else nothing."""
        self.finished = self._in_ledger(self.finished)
        return self._in_ledger(self.written) | self.finished if self.finished else {}

    def _in_ledger(self, outcomes: dict[str, Outcome]) -> dict[str, Outcome]:
        return {
            identity: each
            for identity, each in outcomes.items()
            if identity in self.evictions
            or ((claim := self.ledger.get(identity)) is not None and claim.uid == each.uid)
        }

    def read(self, outcomes: dict[str, Outcome]) -> None:
        """Apply the message on the bus. Finished outcomes take precedence over it and are written again."""
        self.written = outcomes
        self.finished = {
            claim: each
            for claim, each in self.finished.items()
            if (there := outcomes.get(claim)) is None or (there.uid, there.state) != (each.uid, each.state)
        }


class Outcomes:
    """The claims of all nodes, and the conditional writes of their outcomes."""

    def __init__(self, owns: Callable[[str], bool]) -> None:
        self._owns = owns
        """Whether this replica binds pods to a node."""
        self.nodes: dict[str, NodeClaims] = {}
        self._writer: ConditionalWriter[dict[str, Outcome]] = ConditionalWriter(Stream.OUTCOME)
        self._dirty: dict[str, None] = {}
        """Nodes that may have outcomes to write, in order."""
        self._resumed: list[NodeClaims] = []
        self._folded: dict[str, float] = {}
        """Nodes whose outcomes wait for others, and when they are written at the latest (monotonic), in order."""
        self._paused: dict[str, float] = {}
        """The same of nodes whose outcomes wait since others were written a short time ago."""
        self._refused = Postponed()
        """Nodes whose outcomes the server has refused."""

    @property
    def open(self) -> int:
        """Nodes with outcomes that are not written, writes in flight, and subjects that are being read back.

        Outcomes that the server has refused do not count.
        """
        waiting = sum(bool(node.finished) and node.name not in self._refused for node in self.nodes.values())
        return waiting + self._writer.open

    @property
    def completed_others(self) -> bool:
        """Whether no outcome of nodes that this replica does not own waits to be written or is in flight.

        Outcomes that cannot be written do not count: the owner finds that the pods are bound.
        """
        return not any(
            (self._writer.busy(outcome(name)) or (node.finished and not node.invalid and name not in self._refused))
            and not self._owns(name)
            for name, node in self.nodes.items()
        )

    def next_due(self) -> float | None:
        """Return the monotonic time of the next write of folded or refused outcomes, None if there are none."""
        waiting = (*islice(self._folded.values(), 1), *islice(self._paused.values(), 1))
        return min((at for at in (self._refused.due, *waiting) if at is not None), default=None)

    def node(self, name: str) -> NodeClaims:
        """Return a node, a new one if it is not known."""
        return self.nodes.get(name) or self.nodes.setdefault(name, NodeClaims(name))

    def take_over(self, node: NodeClaims) -> None:
        """Write what is due of a node that this replica owns now."""
        self._dirty[node.name] = None

    def leave(self, node: NodeClaims) -> None:
        """Write at once what is finished on a node: another replica owns it now and waits for it."""
        if node.finished:
            node.due = -math.inf
            self._dirty[node.name] = None

    def flush(self, now: float) -> list[Command]:
        """Return the writes of all outcomes that wait for others: the process ends."""
        for node in self.nodes.values():
            self.leave(node)
        return self.writes(now)

    def forget(self, name: str) -> None:
        """Drop a node that is gone, unless there is something to do for it; its message, if any, expires first."""
        node = self.nodes.get(name)
        if node is not None and not node.unused:
            return
        if node is not None and (
            node.invalid or self._writer.busy(outcome(name)) or self._writer.sequence(outcome(name))
        ):
            node.gone = True
            self._dirty[name] = None
        else:
            self._drop(name)

    def _drop(self, name: str) -> None:
        self.nodes.pop(name, None)
        self._dirty.pop(name, None)
        self._folded.pop(name, None)
        self._paused.pop(name, None)
        self._refused.forget(name)
        self._writer.forget(outcome(name))

    def knows(self, subject: str, sequence: int) -> bool:
        """Return whether a message, or a newer one of its subject, has been applied."""
        return self._writer.knows(subject, sequence)

    def changed(
        self, name: str, sequence: int, outcomes: tuple[Outcome, ...], *, gone: bool = False
    ) -> NodeClaims | None:
        """Apply the message under a node's subject; return the node, None for a message that is not new.

        ``gone``: the message expires, since the node is gone.
        """
        if not self._writer.seen(outcome(name), sequence):
            return None
        node = self.node(name)
        if gone and node.unused and not self._writer.busy(outcome(name)):
            self._drop(name)
            return None
        self.resume(node, outcome(name))
        share_outcomes(outcomes, node.ledger)
        node.read({_key(each): each for each in outcomes})
        self._dirty[name] = None
        return node

    def invalid(self, event: Unreadable) -> NodeClaims | None:
        """Apply an invalid message; return the node whose outcomes it replaced: its pods are read back.

        An invalid ledger, or outcomes of a later version, pause the node.
        """
        match address(event.subject):
            case ("outcome", name) if not event.newer:
                return self.changed(name, event.sequence, ())
            case ("outcome" | "ledger" as kind, name):
                if kind == "outcome":
                    self._writer.seen(event.subject, event.sequence)
                reason = f"the message about it in {event.stream} is not valid: {event.reason}"
                self.node(name).invalid[event.subject] = reason
        return None

    def resume(self, node: NodeClaims, subject: str) -> None:
        """A subject has a valid message again, or none."""
        if node.invalid and node.invalid.pop(subject, None) is not None and not node.invalid:
            self._resumed.append(node)
            self._dirty[node.name] = None

    def take_resumed(self) -> list[NodeClaims]:
        """Return the nodes that are not paused any more since the last call."""
        resumed, self._resumed = self._resumed, []
        return resumed

    def finish(self, node: NodeClaims, finished: Outcome, now: float, trace: RecordTrace | None = None) -> None:
        """Record an outcome at a monotonic time, to be written; the trace of a claim's pod is exported then."""
        node.finished[_key(finished)] = finished
        node.due = min(node.due, now + FOLD if finished.state == BOUND else now)
        if trace is not None:
            node.traces[finished.claim] = trace
        self._dirty[node.name] = None

    def writes(self, now: float) -> list[Command]:
        """Return the writes that are due at a monotonic time.

        Outcomes that finish during a write are part of the node's next write.
        """
        out: list[Command] = []
        self._dirty |= dict.fromkeys(self._refused.take(now))
        for waiting in (self._folded, self._paused):
            while waiting and (first := next(iter(waiting.items())))[1] <= now:
                del waiting[first[0]]
                self._dirty[first[0]] = None
        for name in self._dirty:
            subject, node = outcome(name), self.nodes[name]
            if node.traces:
                out += node.take_traces()
            if node.invalid or self._writer.busy(subject) or name in self._refused:
                continue
            if node.finished and node.tasks and now < node.due:
                self._folded.setdefault(name, node.due)
                continue
            if node.finished and now < min(node.due, node.written_at + PAUSE) and self._owns(name):
                self._paused.setdefault(name, now + PAUSE)
                continue
            self._folded.pop(name, None)
            self._paused.pop(name, None)
            node.gone = node.gone and not (node.ledger or node.evictions)
            if node.gone and not self._owns(name):
                continue  # it is dropped when its owner has written that it is gone
            if node.gone:
                message = NodeOutcomes(node=name, gone=True)
                out.append(self._writer.write([(subject, message)], {}, ttl=TOMBSTONE_SECONDS))
            elif sent := node.to_write():
                message = NodeOutcomes(node=name, outcomes=tuple(sent.values()))
                node.due, node.written_at = math.inf, now
                out.append(self._writer.write([(subject, message)], sent))
            else:
                node.due = math.inf
        self._dirty.clear()
        return out

    def answered(self, answer: WriteAnswer, now: float) -> list[Command]:
        """Apply the answer to a write, at a monotonic time."""
        completed = self._writer.handle(answer)
        (write,) = completed.write.writes
        node = self.nodes[node_of(write.subject)]
        self._dirty[node.name] = None
        if completed.result is Result.WRITTEN:
            self._refused.forget(node.name)
        match answer:
            case Written(sequence=sequence) if self._writer.sequence(write.subject) == sequence:
                node.read(completed.context)
                # What has finished meanwhile.
                node.due = min(node.due, now + FOLD) if node.finished else math.inf
                if write.message.gone and node.unused:
                    self._drop(node.name)
            case Written():
                node.due = min(node.due, now + FOLD)
            case WriteConflict():
                node.due = min(node.due, now)
                return [Count("binder_conflicts"), *completed.commands]
            case WriteRefused(reason=reason):
                node.due = min(node.due, now)
                self._refused.add(node.name, now)
                message = f"the bus refuses the outcomes of {node.name}: {reason}"
                return [Count("outcomes_refused"), Log("error", message, {"node": node.name})]
            case _:
                node.due = min(node.due, now)
        return completed.commands

    def read_back(self, subject: str, sequence: int) -> NodeClaims | None:
        """A subject was read back; its message, if any, came before by :meth:`changed`. Sequence 0: there is none.

        Returns the node, None if it is not known any more.
        """
        self._writer.read_back(subject, sequence)
        node = self.nodes.get(node_of(subject))
        if node is None:
            self._writer.forget(subject)
            return None
        if not sequence:
            self.resume(node, subject)
            node.written = {}
        self._dirty[node.name] = None
        return node
