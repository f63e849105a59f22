"""The placement core on a recorded cluster, session by session as in Volcano's scheduler.

A session is one tick of the core. Its pods run, with the devices of their claims, when the next session begins.
PodGroups get the phases that the binder writes.
"""

from collections.abc import Iterable

import msgspec
from deviceshare.conf import DEVICES, SCHEDULER, parse_conf, parse_devices
from deviceshare.model import PENDING, AnyFact, Claim, ConfigFact, Explanation, PodFact, PodGroupFact, Synced
from deviceshare.objects import decode_node, decode_pod, decode_podgroup, decode_priority_class, decode_queue
from deviceshare_binder.core.commands import SetStatus
from deviceshare_binder.core.delivery import annotations_of
from deviceshare_binder.core.groups import Groups
from deviceshare_binder.core.views import PodGroupView, PodView
from deviceshare_bus.cores.core import CaughtUp, Command, Event, Now, PutLatest, Tick, Write, Written
from deviceshare_bus.messages.subjects import SYNCED, Stream
from deviceshare_bus.messages.subjects import fact as subject_of
from deviceshare_placement.core import FactReceived, PlacementCore
from msgspec.structs import replace

from deviceshare_lab.conformance.sessions.recorded import Answer, Object, Placed, Session

NOW = 1_780_000_000.0
"""The time of the sessions in unix seconds, some months after the creation of the objects."""
SCHEDULERS = ("volcano", "")
"""Values of ``schedulerName`` of the pods to place; the unit tests set none."""
_ENCODE = msgspec.msgpack.encode
_DECODE = msgspec.msgpack.Decoder(PodView).decode


class Player:
    """One cluster and the core that schedules its pods.

    Raises:
        ConfigError: a configuration is invalid.
    """

    def __init__(self, session: Session) -> None:
        self._core = PlacementCore("conformance", "conformance")
        self._groups = Groups()
        self._group_facts: dict[str, PodGroupFact] = {}
        self._pods: dict[str, PodFact] = {}
        self._phase: dict[str, str] = {}
        self._sequence = self._sessions = 0
        parse_conf(session.conf, "conf")
        self._fact(subject_of("config", SCHEDULER), ConfigFact(name=SCHEDULER, text=session.conf, source="conf"))
        if session.devices:
            parse_devices(session.devices, "devices")
            self._fact(subject_of("config", DEVICES), ConfigFact(name=DEVICES, text=session.devices, source="devices"))
        for priority in map(decode_priority_class, _raw(session.priorityclasses)):
            self._fact(subject_of("priorityclass", priority.name), priority)
        for queue in map(decode_queue, _raw(session.queues)):
            self._fact(subject_of("queue", queue.name), queue)
        for node in map(decode_node, _raw(session.nodes)):
            self._fact(subject_of("node", node.name), node)
        for group in map(decode_podgroup, _raw(session.podgroups)):
            self._group(group)
        for pod in map(decode_pod, _raw(session.pods)):
            if pod.node or pod.scheduler in SCHEDULERS:
                self._pod(pod)
        self._fact(SYNCED, Synced())
        for stream in (Stream.CLUSTER, Stream.LEDGER, Stream.OUTCOME):
            self._send(CaughtUp(stream))

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
        claims: list[tuple[str, Claim]] = []
        for write in [each for each in self._send(Tick()) if isinstance(each, Write)]:
            new = [(each.message.node, claim) for each in write.writes for claim in each.message.claims]
            claims += [(node, claim) for node, claim in new if not self._pods[claim.uid].node]
            self._sequence += len(write.writes)
            self._send(Written(write.token, self._sequence))
        placed = []
        for node, claim in sorted(claims, key=_decided):
            pod = self._pods[claim.uid]
            annotations = annotations_of(claim, node, _view(pod), NOW)
            placed.append(Placed(session=number, pod=pod.ref, node=node, annotations=annotations))
            self._pod(replace(pod, node=node, running=bool(pod.podgroup), held=claim.grants, signed=True))
        self._write_phases()
        return placed

    def _send(self, event: Event) -> list[Command]:
        """Pass an event to the core, and what the core reports to the PodGroups."""
        commands = self._core.handle(event, Now(self._sessions, NOW + self._sessions))
        for command in commands:
            if isinstance(command, PutLatest):
                self._explained(command.message)
        return commands

    def _fact(self, subject: str, fact: AnyFact) -> None:
        self._send(FactReceived(subject, fact))

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


def _decided(found: tuple[str, Claim]) -> int:
    """Return the number of a claim in the order of the decisions, which ends its id."""
    return int(found[1].id.rpartition("-")[2])


def _raw(objects: Iterable[Object] | None) -> list[bytes]:
    return [msgspec.json.encode(each) for each in objects or ()]


def _view(pod: PodFact) -> PodView:
    return _DECODE(_ENCODE(pod))
