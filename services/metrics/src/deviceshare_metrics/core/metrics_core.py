"""The metrics core: messages in, the current state out. It issues no commands: the service only answers questions."""

from collections import OrderedDict
from itertools import islice
from sys import intern
from typing import Any

from deviceshare.conf import EffectiveConfiguration
from deviceshare.model import (
    ConfigFact,
    DeviceClaimFact,
    DeviceClassFact,
    Explanation,
    Fact,
    Gone,
    NodeFact,
    NodeLedger,
    OtherPodFact,
    PodGroupFact,
    PriorityClassFact,
    QueueFact,
    Synced,
)
from deviceshare_bus.cores.core import CaughtUp, Command, Event, Now, ReadBack, Tick, Unreadable
from deviceshare_bus.messages.codec import Events, Step, Undecodable
from deviceshare_bus.messages.sharing import SharedValues, share_names, share_outcomes
from deviceshare_bus.messages.subjects import Stream, address, fact
from deviceshare_bus.messages.subjects import ledger as ledger_subject
from msgspec.structs import replace

from deviceshare_metrics.core.changed_nodes import ChangedNodes
from deviceshare_metrics.core.claimed_devices import DeviceSliceSeen, kept
from deviceshare_metrics.core.event_history import EventHistory
from deviceshare_metrics.core.events import (
    ExplanationReceived,
    FactReceived,
    LedgerReceived,
    OutcomesReceived,
    StepsReceived,
)
from deviceshare_metrics.core.facts import PodSeen
from deviceshare_metrics.core.start_times import StartTimes
from deviceshare_metrics.core.state_store import MAX_STEPS, PodHistory, PodStep, StateStore
from deviceshare_metrics.core.tallies import Tallies

RETENTION = 24 * 3600.0
"""Seconds for which a pod that is gone can be explained, as long as the steps on EVENT are kept."""
MAX_GONE = 10_000
"""Pods that are gone and can be explained: some 60 MB."""
MAX_UNREAD = 10 * MAX_GONE
"""Histories of pods that are gone, or have not been read yet, which are kept until every stream has been read."""
FORGET_INTERVAL = 60.0
"""Seconds until pods to forget are searched for again, after none was found."""
FORGET_PAUSE = 1.0
"""The same, after some were found."""
FORGET_BATCH = 5000
"""Histories that are examined at once, in some milliseconds."""
MAX_QUARANTINED = 10_000
"""Subjects of undecodable messages that are remembered, to count each message once."""
_CONFIG = "cluster.config."


class MetricsCore:
    """Follows all streams into a :class:`StateStore`.

    Args:
        most_gone: how many pods that are gone can be explained.

    ``store``, ``tallies``, ``changed_nodes``, ``events`` and ``start_times`` are for reading only.
    """

    def __init__(self, most_gone: int = MAX_GONE) -> None:
        self.store = StateStore()
        self.tallies = Tallies()
        self.changed_nodes = ChangedNodes()
        self.events = EventHistory()
        self.start_times = StartTimes(self.store)
        self._most_gone = most_gone
        self._configuration = EffectiveConfiguration()
        self._shared = SharedValues()
        store = self.store
        self._facts: dict[type[Fact], dict[str, Any]] = {
            NodeFact: store.nodes,
            PodSeen: store.pods,
            OtherPodFact: store.others,
            PodGroupFact: store.groups,
            QueueFact: store.queues,
            PriorityClassFact: store.classes,
            DeviceClassFact: store.device_classes,
            DeviceSliceSeen: store.device_slices,
            DeviceClaimFact: store.device_claims,
        }
        self._reading: set[str] = set(Stream)
        """Streams whose end has not been reached yet."""
        self._quarantined: dict[tuple[str, str], int] = OrderedDict()
        """By stream and subject, the sequence of the last undecodable message."""
        self._changed: float | None = None
        self._wall_offset: float | None = None
        """How far the wall clock was ahead of the monotonic one at first: a step of it does not change ages."""
        self._forget_due = 0.0
        """Monotonic time of the next search for pods to forget."""

    @property
    def ready(self) -> bool:
        """Whether every stream has been read to its end once."""
        return not self._reading

    @property
    def open_work(self) -> int:
        """Always 0: the service writes nothing."""
        return 0

    def next_due(self, now: Now) -> float | None:
        """Return when pods that are gone are forgotten next, or waiting pods are probed."""
        return min(self._forget_due, self.start_times.due) if self.ready else None

    def seconds_since_change(self, now: Now) -> float:
        """Return how long no message but those of EVENT has arrived."""
        return now.monotonic - self._changed if self._changed is not None else 0.0

    def handle(self, event: Event, now: Now) -> list[Command]:
        """Apply an event; returns no commands."""
        if self._wall_offset is None:
            self._wall_offset = now.wall - now.monotonic
        match event:
            case StepsReceived(events=events):
                self._add_events(events)
            case Unreadable():
                self._set_invalid(event)
            case ReadBack(subject=subject):
                self._touch_node_of(subject)
                self.store.invalid.pop(subject, None)
            case FactReceived(subject=subject):
                before, after = self._set_fact(subject, event.fact)
                self.start_times.changed(subject, before, after, now)
            case LedgerReceived(subject=subject, ledger=ledger):
                self._set_ledger(subject, ledger)
            case OutcomesReceived(subject=subject, outcomes=outcomes):
                known = self.store.ledgers.get(ledger_subject(outcomes.node))
                claims = known.claims if known is not None else ()
                share_outcomes(outcomes.outcomes, {claim.id: claim for claim in claims})
                _put(self.store.outcomes, subject, outcomes, keep=bool(outcomes.outcomes))
            case ExplanationReceived(explanation=explanation):
                self._set_explanation(explanation)
                self.start_times.decided(explanation, now)
            case CaughtUp(stream=stream):
                self._reading.discard(stream)
            case Tick() if self.ready:
                self.start_times.probe(now)
                if now.monotonic >= self._forget_due:
                    self._forget(now)
        if isinstance(event, FactReceived | LedgerReceived | OutcomesReceived | ExplanationReceived):
            self.store.invalid.pop(event.subject, None)
            self._changed = now.monotonic
        if not isinstance(event, StepsReceived | CaughtUp | Tick):
            self.store.version += 1
        return []

    def _set_invalid(self, event: Unreadable) -> None:
        """Show that a message is not valid. It comes back on EVENT and is counted there, as by other readers."""
        if event.stream != Stream.EVENT:
            self._touch_node_of(event.subject)
            self.store.invalid[event.subject] = event.reason
            if len(self.store.invalid) > MAX_QUARANTINED:
                del self.store.invalid[next(iter(self.store.invalid))]

    def _touch_node_of(self, subject: str) -> None:
        if (where := address(subject)) is not None and where.kind in ("node", "ledger", "outcome"):
            self.changed_nodes.touch(where.key)

    def _set_fact(self, subject: str, changed: Fact) -> tuple[object, object]:
        """Return what the store had of a fact, and has now, None for none."""
        if isinstance(changed, PodSeen) and changed.node:
            on_node = self.store.ledgers.get(ledger_subject(changed.node))
            for claim in on_node.claims if on_node is not None else ():
                if claim.uid == changed.uid:
                    share_names(changed, claim)
        self.changed_nodes.fact(subject, self.store, changed)
        before: object = None
        after: object = None
        if isinstance(changed, Gone):
            for facts in self._facts.values():
                before = facts.pop(subject, before)
            self._configuration.drop(subject.removeprefix(_CONFIG))
        elif isinstance(changed, ConfigFact):
            self._configuration.take(changed)
        elif isinstance(changed, Synced):
            self.store.synced = True
        elif (facts_of := self._facts.get(type(changed))) is not None:
            before, after = facts_of.get(subject), kept(changed)
            facts_of[subject] = after
        if self.store.conf != self._configuration.conf:
            self.store.conf = self._configuration.conf
            self.changed_nodes.touch_all()
        self.store.configuration_problems = dict(self._configuration.problems)
        return before, after

    def _set_ledger(self, subject: str, ledger: NodeLedger) -> None:
        self.changed_nodes.touch(ledger.node)
        nominations = tuple((claim.uid, ledger.node) for claim in ledger.claims if claim.waits_for)
        before = self.store.ledgers.get(subject)
        known = {claim.id for claim in before.claims} if before is not None else ()
        for claim in ledger.claims:
            if claim.id not in known and (pod := self.store.pods.get(fact("pod", claim.uid))) is not None:
                share_names(claim, pod)
        _put(self.store.nominations, subject, nominations, keep=bool(nominations))
        if nominations:
            ledger = replace(ledger, claims=tuple(claim for claim in ledger.claims if not claim.waits_for))
        _put(self.store.ledgers, subject, ledger, keep=bool(ledger.claims))
        _put(self.store.going, subject, len(ledger.evictions), keep=bool(ledger.evictions))
        for eviction in ledger.evictions:
            self.tallies.chosen(eviction)

    def _set_explanation(self, explanation: Explanation) -> None:
        uid, histories = explanation.uid, self.store.histories
        history = self._take_history(uid, f"{explanation.namespace}/{explanation.name}")
        histories[uid] = replace(history, explanation=explanation, last=max(history.last, explanation.at))

    @property
    def _counting(self) -> bool:
        """Whether events are counted: only those after the start, since a predecessor counted the others."""
        return Stream.EVENT not in self._reading

    def _add_events(self, events: Events) -> None:
        if self._counting:
            self.tallies.add(events)
        service = self._shared.value(events.service)
        self.events.add(service, [self._add_step(service, step) for step in events.steps])
        for message in events.undecodable:
            self._count_undecodable(message)

    def _add_step(self, service: str, step: Step) -> Step:
        """Append a step to its pod's history, and observe the time from the first ``seen`` to the first ``bound``.

        Returns the step as it is kept: it shares texts with others.

        The two may arrive in either order. A pod that was bound before inventory saw it has not waited: it is not
        observed.
        """
        history = self._take_history(step.uid, step.pod)
        pod = history.pod if history.pod == step.pod else step.pod
        name, node, text = map(self._shared.value, (step.name, step.node, step.message))
        seen_pod = self.store.pods.get(fact("pod", step.uid))
        step = Step(seen_pod.uid if seen_pod is not None else intern(step.uid), pod, name, step.at, node, text)
        seen, bound = history.seen, history.bound
        if step.name == "seen" and seen is None:
            seen = step.at
        elif step.name == "bound" and bound is None:
            bound = step.at
        was_measured = history.seen is not None and history.bound is not None
        if self._counting and not was_measured and seen is not None and bound is not None and bound >= seen:
            self.tallies.bound(step.uid, bound - seen, bound)
            nominated = next((each.at for each in history.steps if each.name == "nominated"), None)
            if nominated is not None and bound >= nominated:
                self.tallies.nominated_to_bound.observe(bound - nominated)
        kept = PodStep(service, step.name, step.at, step.node, step.message)
        self.store.histories[step.uid] = PodHistory(
            history.pod,
            history.explanation,
            (*history.steps[1 - MAX_STEPS :], kept),
            seen,
            bound,
            max(history.last, step.at),
        )
        return step

    def _take_history(self, uid: str, pod: str) -> PodHistory:
        """Remove and return a pod's history, which is added again at the end; a new one if there is none."""
        histories = self.store.histories
        history = histories.pop(uid, None)
        if history is None and not self.ready and len(histories) >= len(self.store.pods) + MAX_UNREAD:
            # Many at once: to find the first key, a dict steps over all that were removed before it.
            for oldest in list(islice(histories, FORGET_BATCH)):
                del histories[oldest]
        return history or PodHistory(pod)

    def _count_undecodable(self, message: Undecodable) -> None:
        """Count a message once, although every reader of the stream reports it, also after a restart."""
        place = (message.stream, message.subject)
        if message.sequence <= self._quarantined.get(place, 0):
            return
        if self._counting:
            self.tallies.add_undecodable(message.stream)
        self._quarantined[place] = message.sequence
        if len(self._quarantined) > MAX_QUARANTINED:
            del self._quarantined[next(iter(self._quarantined))]

    def _forget(self, now: Now) -> None:
        """Drop histories of pods that are gone: past the retention, or the oldest ones beyond the bound.

        The histories are in the order of their last changes. Those of existing pods are moved to the end, which
        delays the end of their retention by a day at most. Called when all streams have been read, since a pod may
        arrive after its explanation; until then :data:`MAX_UNREAD` bounds the histories.
        """
        histories, pods = self.store.histories, self.store.pods
        self._forget_due = now.monotonic + FORGET_INTERVAL
        for uid in list(islice(histories, FORGET_BATCH)):
            if fact("pod", uid) in pods:
                histories[uid] = histories.pop(uid)
            elif (
                histories[uid].last < now.monotonic + (self._wall_offset or 0.0) - RETENTION
                or len(histories) > len(pods) + self._most_gone
            ):
                del histories[uid]
                self._forget_due = now.monotonic + FORGET_PAUSE
            else:
                break


def _put(messages: dict[str, Any], subject: str, message: Any, *, keep: bool) -> None:
    """Keep the last message of a subject; nodes without claims are not kept, since nodes come and go."""
    if keep:
        messages[subject] = message
    else:
        messages.pop(subject, None)
