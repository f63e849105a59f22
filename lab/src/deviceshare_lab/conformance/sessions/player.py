"""The scheduler on a recorded cluster, session by session as in Volcano's scheduler.

A session is one round of decisions. Its pods run, with the devices of their claims, when the next session begins.
PodGroups get the phases that the binder writes.
"""

from collections import defaultdict

import msgspec
from deviceshare.conf import DEVICES, SCHEDULER
from deviceshare.model import PENDING, AnyFact, Claim, ConfigFact, Explanation, Now, PodFact, PodGroupFact
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
        self._fact(subject_of("config", SCHEDULER), ConfigFact(name=SCHEDULER, text=facts.conf, source="conf"))
        if facts.devices:
            self._fact(subject_of("config", DEVICES), ConfigFact(name=DEVICES, text=facts.devices, source="devices"))
        for priority in facts.priorities:
            self._fact(subject_of("priorityclass", priority.name), priority)
        for queue in facts.queues:
            self._fact(subject_of("queue", queue.name), queue)
        for node in facts.nodes:
            self._fact(subject_of("node", node.name), node)
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
            new = self._session(session)
            placed += new
            before, phases = phases, self._phases()
            if not new and phases == before:
                return Answer(placed=tuple(placed), phases=phases, sessions=session)
        return Answer(placed=tuple(placed), phases=phases, sessions=most, settled=False)

    def _session(self, number: int) -> list[Placed]:
        self._sessions = number
        decided = self._scheduler.round(self._now)
        claims: list[tuple[str, Claim]] = []
        for pod, placement, decision in decided.placed:
            self._claims += 1
            claim = self._scheduler.new_claim(str(self._claims), pod, placement, decision, self._now)
            claims.append((placement.node, claim))
        for explanation in (*decided.of_groups, *self._scheduler.reports(self._now.monotonic)):
            self._explained(explanation)
        for node, claim in claims:
            self._ledgers[node].append(claim)
        for node in dict(claims):
            self._scheduler.claim(node, self._ledgers[node])
        placed = []
        for node, claim in claims:
            fact = self._pods[claim.uid]
            annotations = annotations_of(claim, node, _view(fact), NOW)
            placed.append(Placed(session=number, pod=fact.ref, node=node, annotations=annotations))
            self._pod(replace(fact, node=node, running=bool(fact.podgroup), held=claim.grants, signed=True))
        self._write_phases()
        return placed

    @property
    def _now(self) -> Now:
        return Now(self._sessions, NOW + self._sessions)

    def _fact(self, subject: str, fact: AnyFact) -> None:
        self._scheduler.apply(subject, fact, self._now)

    def _pod(self, fact: PodFact) -> None:
        self._pods[fact.uid] = fact
        self._fact(subject_of("pod", fact.uid), fact)
        self._groups.pod(fact.uid, _view(fact))

    def _group(self, fact: PodGroupFact) -> None:
        self._group_facts[fact.key] = fact
        self._fact(subject_of("podgroup", fact.key), fact)
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
