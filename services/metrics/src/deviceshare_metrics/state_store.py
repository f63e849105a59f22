"""What the streams say now: the last message of every subject, and the steps of pods.

Pure: messages in, queries out. Nothing is joined here (:mod:`~deviceshare_metrics.snapshot` does), so that a message
costs little more than its decoding and the order in which the streams are read makes no difference.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from deviceshare.conf import EffectiveConfiguration, SchedulerConf
from deviceshare.model import (
    ConfigFact,
    ContainerGrant,
    DeviceshareError,
    Explanation,
    Fact,
    Gone,
    GroupKey,
    NodeFact,
    NodeLedger,
    NodeOutcomes,
    PodGroupFact,
    PodUid,
    PriorityClassFact,
    Problem,
    QueueFact,
    Synced,
)
from deviceshare_bus.messages import Step, decode_events, decode_explanation, decode_ledger, decode_outcomes

from deviceshare_metrics.tallies import Tallies

_CONFIG = "cluster.config."
MOST_STEPS = 100
"""Steps kept of one pod: a pod that is decided again and again keeps the last ones."""


class UnknownSubjectError(DeviceshareError):
    """A message came on a subject of no stream that is read here."""

    def __init__(self, subject: str) -> None:
        super().__init__(f"no stream has the subject {subject}")


class PodSeen(Fact, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="pod"):
    """A :class:`~deviceshare.model.PodFact` whose ``ask``, the largest part, stays undecoded."""

    uid: PodUid
    namespace: str
    name: str
    scheduler: str = ""
    node: str = ""
    ended: bool = False
    gates: tuple[str, ...] = ()
    group: GroupKey = GroupKey("")
    queue: str = ""
    ask: msgspec.Raw = msgspec.Raw(b"\x80")
    held: tuple[ContainerGrant, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def ref(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


_decode_fact = msgspec.msgpack.Decoder(
    NodeFact | PodSeen | PodGroupFact | PriorityClassFact | QueueFact | ConfigFact | Gone | Synced
).decode


class History:
    """The steps of one pod, with the service that did each, as they came."""

    __slots__ = ("bound", "seen", "steps")

    def __init__(self) -> None:
        self.steps: list[tuple[str, Step]] = []
        self.seen: float | None = None
        self.bound: float | None = None

    @property
    def last(self) -> float:
        """When something happened last, unix seconds."""
        return max((step.at for _, step in self.steps), default=0.0)


class StateStore:
    """Everything that has been read. The dicts are by subject where they do not say otherwise; only to be read."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeFact] = {}
        self.pods: dict[str, PodSeen] = {}
        self.groups: dict[str, PodGroupFact] = {}
        self.queues: dict[str, QueueFact] = {}
        self.ledgers: dict[str, NodeLedger] = {}
        self.outcomes: dict[str, NodeOutcomes] = {}
        self.explanations: dict[str, Explanation] = {}
        """By uid, also those of pods that are gone: "why" is asked afterwards as well."""
        self.histories: dict[str, History] = {}
        """By uid, likewise."""
        self.tallies = Tallies()
        self._effective = EffectiveConfiguration()
        self.synced = False
        self.version = 0
        """Changes with every message that can change a picture, that is, all but events."""
        self._facts: dict[type[Fact], dict[str, Any]] = {
            NodeFact: self.nodes,
            PodSeen: self.pods,
            PodGroupFact: self.groups,
            QueueFact: self.queues,
        }
        self._readers = {
            "cluster": self._fact,
            "ledger": self._ledger,
            "outcome": self._outcomes,
            "explain": self._explanation,
            "event": self._events,
        }

    @property
    def conf(self) -> SchedulerConf:
        """The configuration by which placement decides."""
        return self._effective.conf

    def apply(self, subject: str, data: bytes) -> None:
        """Take in one message. The view is unchanged where this raises.

        Raises:
            msgspec.MsgspecError: the message cannot be decoded.
            UnknownSubjectError: no stream has such a subject.
        """
        reader = self._readers.get(subject.partition(".")[0])
        if reader is None:
            raise UnknownSubjectError(subject)
        reader(subject, data)

    def _fact(self, subject: str, data: bytes) -> None:
        fact = _decode_fact(data)
        self.version += 1
        kind = type(fact)
        if kind is Gone:
            for facts in self._facts.values():
                facts.pop(subject, None)
            self._effective.drop(subject.removeprefix(_CONFIG))
        elif isinstance(fact, ConfigFact):
            self._effective.take(fact)
        elif kind is Synced:
            self.synced = True
        elif kind in self._facts:
            self._facts[kind][subject] = fact

    def _ledger(self, subject: str, data: bytes) -> None:
        self.ledgers[subject] = decode_ledger(data)
        self.version += 1

    def _outcomes(self, subject: str, data: bytes) -> None:
        self.outcomes[subject] = decode_outcomes(data)
        self.version += 1

    def _explanation(self, subject: str, data: bytes) -> None:
        explanation = decode_explanation(data)
        self.explanations[explanation.uid] = explanation
        self.version += 1

    def _events(self, subject: str, data: bytes) -> None:
        events = decode_events(data)
        tallies, service, histories = self.tallies, events.service, self.histories
        for step in events.steps:
            tallies.steps[service, step.name] += 1
            history = histories.get(step.uid)
            if history is None:
                history = histories[step.uid] = History()
            history.steps.append((service, step))
            if len(history.steps) > MOST_STEPS:
                del history.steps[0]
            if step.name in ("seen", "bound"):
                self._measure(history, step)
        for message in events.undecodable:
            tallies.quarantine(message)
        for name, amount in events.counters.items():
            tallies.counters[service, name] += amount

    def _measure(self, history: History, step: Step) -> None:
        """Observe the time from the first ``seen`` to the first ``bound``, whichever arrives first.

        A pod that was bound before anybody here saw it has not waited: it is not counted.
        """
        before = history.seen is not None and history.bound is not None
        if step.name == "seen" and history.seen is None:
            history.seen = step.at
        elif step.name == "bound" and history.bound is None:
            history.bound = step.at
        if before or history.seen is None or history.bound is None:
            return
        if history.bound >= history.seen:
            self.tallies.seen_to_bound.observe(history.bound - history.seen)

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of the cluster's objects, and of configurations that cannot be used."""
        yield from self._effective.problems.values()
        for facts in self._facts.values():
            for fact in facts.values():
                yield from fact.problems

    def forget(self, before: float, most: int) -> None:
        """Forget pods that are gone: those of which nothing was heard since ``before`` (unix seconds), and beyond
        ``most`` the oldest.

        Nothing may be forgotten before all streams have been read, since a pod may come after its explanation.
        """
        alive: set[str] = {pod.uid for pod in self.pods.values()}
        alive.update(claim.uid for ledger in self.ledgers.values() for claim in ledger.claims)
        heard = {
            uid: max(
                self.explanations[uid].at if uid in self.explanations else 0.0,
                self.histories[uid].last if uid in self.histories else 0.0,
            )
            for uid in (self.explanations.keys() | self.histories.keys()) - alive
        }
        oldest_first = sorted(heard, key=heard.__getitem__)
        for number, uid in enumerate(oldest_first):
            if heard[uid] >= before and len(oldest_first) - number <= most:
                break
            self.explanations.pop(uid, None)
            self.histories.pop(uid, None)
