"""The claims of each node, and their outcomes: one message per node in OUTCOME, written conditionally."""

from collections import deque

import msgspec
from deviceshare.model import BOUND, Claim, NodeOutcomes, Outcome
from deviceshare_bus.conditional_writer import ConditionalWriter
from deviceshare_bus.core import Command, Count, Log, WriteAnswer, WriteConflict, WriteRefused, Written
from deviceshare_bus.subjects import Stream, node_of, outcome


class NodeClaims(msgspec.Struct, eq=False):
    """The claims of one node, their outcomes on the bus, and those that are not written yet."""

    name: str
    ledger: dict[str, Claim] = {}
    written: dict[str, Outcome] = {}
    """The outcomes on the bus, by claim."""
    finished: dict[str, Outcome] = {}
    """Outcomes that are not on the bus yet, by claim."""
    confirmed: set[str] = set()
    """Claims to be withdrawn whose pod was found to be bound here."""
    tasks: dict[str, None] = {}
    """Ids of the claims that have a bind task."""
    queue: deque[str] = msgspec.field(default_factory=deque)
    """Ids of the claims to begin, in order."""
    in_turn: bool = False

    def has_outcome(self, claim: Claim) -> bool:
        """Return whether the outcome of a claim is known; a claim to be withdrawn that counts as bound has none."""
        known = self.finished.get(claim.id) or self.written.get(claim.id)
        if known is None:
            return False
        return known.state != BOUND or not claim.withdraw or claim.id in self.confirmed

    def is_new(self, claim: Claim, state: str) -> bool:
        """Record the outcome of a claim; return whether it differs from the known one."""
        if state == BOUND and claim.withdraw:
            self.confirmed.add(claim.id)
        known = self.finished.get(claim.id) or self.written.get(claim.id)
        return known is None or known.state != state

    def to_write(self) -> dict[str, Outcome]:
        """Return all outcomes of the node if some of them are not on the bus, else nothing."""
        self.finished = {claim: each for claim, each in self.finished.items() if claim in self.ledger}
        if not self.finished:
            return {}
        return {claim: each for claim, each in self.written.items() if claim in self.ledger} | self.finished

    def read(self, outcomes: dict[str, Outcome]) -> None:
        """Apply the message on the bus. Finished outcomes take precedence over it and are written again."""
        self.written = outcomes
        self.finished = {
            claim: each
            for claim, each in self.finished.items()
            if (there := outcomes.get(claim)) is None or there.state != each.state
        }

    def refused(self, sent: dict[str, Outcome]) -> None:
        """The server will never accept what was sent: it is not sent again until another claim is finished."""
        self.finished = {claim: each for claim, each in self.finished.items() if sent.get(claim) != each}
        self.written = sent


class Outcomes:
    """The claims of all nodes, and the conditional writes of their outcomes."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeClaims] = {}
        self._writer: ConditionalWriter[dict[str, Outcome]] = ConditionalWriter(Stream.OUTCOME)
        self._dirty: dict[str, None] = {}
        """Nodes that may have outcomes to write, in order."""

    @property
    def open(self) -> int:
        """Nodes with outcomes that are not written, writes in flight, and subjects that are being read back."""
        return sum(bool(node.finished) for node in self.nodes.values()) + self._writer.open

    def node(self, name: str) -> NodeClaims:
        """Return a node, a new one if it is not known."""
        return self.nodes.get(name) or self.nodes.setdefault(name, NodeClaims(name))

    def forget(self, name: str) -> None:
        """Drop a node that is gone, unless there is something to do for it."""
        node, subject = self.nodes.get(name), outcome(name)
        if node is None or not (node.ledger or node.tasks or node.finished or self._writer.busy(subject)):
            self.nodes.pop(name, None)
            self._dirty.pop(name, None)
            self._writer.forget(subject)

    def knows(self, subject: str, sequence: int) -> bool:
        """Return whether a message, or a newer one of its subject, has been applied."""
        return self._writer.knows(subject, sequence)

    def changed(self, name: str, sequence: int, outcomes: tuple[Outcome, ...]) -> NodeClaims | None:
        """Apply the message under a node's subject; return the node, None for a message that is not new."""
        if not self._writer.seen(outcome(name), sequence):
            return None
        node = self.node(name)
        node.read({each.claim: each for each in outcomes})
        self._dirty[name] = None
        return node

    def finish(self, node: NodeClaims, finished: Outcome) -> None:
        """Record the outcome of a claim, to be written."""
        node.finished[finished.claim] = finished
        self._dirty[node.name] = None

    def writes(self) -> list[Command]:
        """Return the writes that are due: outcomes that finish during a write are part of the node's next write."""
        out: list[Command] = []
        for name in self._dirty:
            subject, node = outcome(name), self.nodes[name]
            if not self._writer.busy(subject) and (sent := node.to_write()):
                message = NodeOutcomes(node=name, outcomes=tuple(sent.values()))
                out.append(self._writer.write([(subject, message)], sent))
        self._dirty.clear()
        return out

    def answered(self, answer: WriteAnswer) -> list[Command]:
        """Apply the answer to a write."""
        completed = self._writer.handle(answer)
        (write,) = completed.write.writes
        node = self.nodes[node_of(write.subject)]
        self._dirty[node.name] = None
        match answer:
            case Written(sequence=sequence) if self._writer.sequence(write.subject) == sequence:
                node.read(completed.context)
            case WriteConflict():
                return [Count("binder_conflicts"), *completed.commands]
            case WriteRefused(reason=reason):
                node.refused(completed.context)
                message = f"the bus refuses the outcomes of {node.name}: {reason}"
                return [Count("outcomes_refused"), Log("error", message, {"node": node.name})]
        return completed.commands

    def read_back(self, subject: str, sequence: int) -> NodeClaims:
        """A subject was read back; its message, if any, came before by :meth:`changed`. Sequence 0: there is none."""
        self._writer.read_back(subject, sequence)
        node = self.node(node_of(subject))
        if not sequence:
            node.written = {}
        self._dirty[node.name] = None
        return node
