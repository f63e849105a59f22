"""The scheduler on a recorded cluster, session by session as in Volcano's scheduler.

A session is one round of decisions. Its pods run, with the devices of their claims, when the next session begins.
PodGroups get the phases that the binder writes.
"""

from collections import defaultdict
from collections.abc import Sequence

import msgspec
from deviceshare.allocation import Placement
from deviceshare.conf import DEVICES, SCHEDULER
from deviceshare.model import PENDING, AnyFact, Claim, ConfigFact, Explanation, Now, PodFact, PodGroupFact
from deviceshare.queueing import Decision
from deviceshare.scheduler import Scheduler
from deviceshare_binder.core.commands import SetStatus
from deviceshare_binder.core.delivery import annotations_of
from deviceshare_binder.core.groups import Groups
from deviceshare_binder.core.views import PodGroupView, PodView
from deviceshare_bus.messages.subjects import fact as subject_of
from msgspec.structs import replace

from deviceshare_lab.conformance.sessions.facts import SessionFacts
from deviceshare_lab.conformance.sessions.recorded import Answer, Placed

NOW = 1_780_000_000.0
"""The time of the sessions in unix seconds, some months after the creation of the objects."""
_ENCODE = msgspec.msgpack.encode
_DECODE = msgspec.msgpack.Decoder(PodView).decode


class Player:
    """One cluster and the scheduler of its pods."""

    def __init__(self, facts: SessionFacts) -> None:
        self._scheduler = Scheduler("conformance")
        self._ledgers: defaultdict[str, list[Claim]] = defaultdict(list)
        """The claims of all sessions by node."""
        self._groups = Groups()
        self._group_facts: dict[str, PodGroupFact] = {}
        self._pods: dict[str, PodFact] = {}
        self._phase: dict[str, str] = {}
        self._claims = self._sessions = 0
        self.fact(subject_of("config", SCHEDULER), ConfigFact(name=SCHEDULER, text=facts.conf, source="conf"))
        if facts.devices:
            self.fact(subject_of("config", DEVICES), ConfigFact(name=DEVICES, text=facts.devices, source="devices"))
        for priority in facts.priorities:
            self.fact(subject_of("priorityclass", priority.name), priority)
        for queue in facts.queues:
            self.fact(subject_of("queue", queue.name), queue)
        for node in facts.nodes:
            self.fact(subject_of("node", node.name), node)
        for group in facts.groups:
            self._group(group)
        for pod in facts.pods:
            self._pod(pod)
        self._scheduler.begin()

    def play(self, most: int) -> Answer:
        """Run sessions until one changes nothing, at most ``most``."""
        placed: list[Placed] = []
        phases = self._phases()
        for session in range(1, most + 1):
            new = self.session(session)
            placed += new
            before, phases = phases, self._phases()
            if not new and phases == before:
                return Answer(placed=tuple(placed), phases=phases, sessions=session)
        return Answer(placed=tuple(placed), phases=phases, sessions=most, settled=False)

    def session(self, number: int) -> list[Placed]:
        """Run one session; return the pods that it placed."""
        self._sessions = number
        decided = self._scheduler.round(self.now)
        claims = [self._claim(*each) for each in decided.placed]
        for explanation in (*decided.of_groups, *self._scheduler.reports(self.now.monotonic)):
            self._explained(explanation)
        return self._bind(claims)

    def _claim(self, pod: PodFact, placement: Placement, decision: Decision) -> tuple[str, Claim]:
        """Return the node of a placed pod and its claim."""
        self._claims += 1
        claim = self._scheduler.new_claim(str(self._claims), pod, placement, decision, self.now)
        return placement.node, claim

    def _bind(self, claims: Sequence[tuple[str, Claim]]) -> list[Placed]:
        """Bind the pods of claims, which run then."""
        for node, claim in claims:
            self._ledgers[node].append(claim)
        for node in dict(claims):
            self._scheduler.claim(node, self._ledgers[node])
        placed = []
        for node, claim in claims:
            fact = self._pods[claim.uid]
            annotations = annotations_of(claim, node, _view(fact), NOW)
            placed.append(Placed(session=self._sessions, pod=fact.ref, node=node, annotations=annotations))
            self._pod(replace(fact, node=node, running=bool(fact.podgroup), held=claim.grants, signed=True))
        self._write_phases()
        return placed

    @property
    def now(self) -> Now:
        """The time of the session."""
        return Now(self._sessions, NOW + self._sessions)

    def fact(self, subject: str, fact: AnyFact) -> None:
        """Apply a fact."""
        self._scheduler.apply(subject, fact, self.now)

    def _pod(self, fact: PodFact) -> None:
        self._pods[fact.uid] = fact
        self.fact(subject_of("pod", fact.uid), fact)
        self._groups.pod(fact.uid, _view(fact))

    def _group(self, fact: PodGroupFact) -> None:
        self._group_facts[fact.key] = fact
        self.fact(subject_of("podgroup", fact.key), fact)
        self._groups.group(
            fact.key,
            PodGroupView(
                key=fact.key,
                uid=fact.uid,
                queue=fact.queue,
                min_member=fact.min_member,
                phase=fact.phase,
                admitted=fact.admitted,
            ),
        )

    def _explained(self, explanation: Explanation) -> None:
        if explanation.group and explanation.uid not in self._pods:
            self._groups.decided(explanation)
        elif explanation.decision == PENDING:
            self._groups.explained(explanation)

    def _write_phases(self) -> None:
        """Set the phases of the PodGroups that the binder would write."""
        while self._groups.waiting:
            for status in self._groups.take(self._groups.waiting):
                if not isinstance(status, SetStatus) or status.kind != "PodGroup":
                    continue
                key = f"{status.namespace}/{status.name}"
                self._phase[key] = str(status.status[0][1])
                fact = self._group_facts[key]
                if fact.phase != self._phase[key]:
                    self._group(replace(fact, phase=self._phase[key], admitted=self._phase[key] != "Pending"))

    def _phases(self) -> dict[str, str]:
        self._write_phases()
        return dict(sorted(self._phase.items()))


def _view(pod: PodFact) -> PodView:
    return _DECODE(_ENCODE(pod))
