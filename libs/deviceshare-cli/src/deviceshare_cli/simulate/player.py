"""The core of placement on the facts of a cluster: it decides, and what it decides is bound at once. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from deviceshare.allocation import Move
from deviceshare.conf import SCHEDULER, SchedulerConf
from deviceshare.model import (
    PENDING,
    REJECTED,
    Claim,
    ConfigFact,
    Fact,
    Gone,
    GroupKey,
    NodeFact,
    NodeLedger,
    PodFact,
    PodUid,
    VolumeBinding,
)
from deviceshare.scheduler import Scheduler
from deviceshare.volumes import Catalog
from deviceshare_bus.cores.core import (
    CaughtUp,
    Command,
    Event,
    Now,
    PutLatest,
    Read,
    ReadBack,
    Tick,
    Unreadable,
    Write,
    Written,
)
from deviceshare_bus.cores.division import FenceReceived, LeaseReceived
from deviceshare_bus.messages.codec import Message, encode
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.messages.subjects import fact as fact_subject
from deviceshare_bus.messages.subjects import ledger as ledger_subject
from deviceshare_bus.messages.validation import InvalidMessageError
from deviceshare_localcluster.kinds import Key
from deviceshare_placement.core import FactReceived, PlacementCore, build_core
from deviceshare_placement.decoding import decode
from msgspec.structs import replace

from deviceshare_cli.errors import CommandError
from deviceshare_cli.reading.reader import StoredMessage
from deviceshare_cli.reading.state import PLACEMENT_STREAMS

WAIT_SECONDS = 5.0
"""Virtual seconds in which placement may do what it does later by itself, such as deciding a refused claim again."""
MAX_TICKS = 100_000
"""Ticks in which everything has to be decided."""
MOVED = "-moved"
"""Ends the uid of a pod that was deleted and created again."""
WEIGHT = 10
"""The weight of a policy that is compared, if the configuration has none."""


class Placed(NamedTuple):
    """A pod that was placed: its fact before, the node, and the claim."""

    pod: PodFact
    node: str
    claim: Claim


def created_again(pod: PodFact, **changes: Any) -> PodFact:
    """Return a placed pod as a controller creates it again; ``changes``: as if it was bound already."""
    uid = PodUid(f"{pod.uid}{MOVED}")
    group = pod.group if pod.podgroup else GroupKey(f"pod/{uid}")
    waiting: dict[str, Any] = {"node": "", "running": False, "held": (), "signed": False}
    return replace(pod, uid=uid, group=group, unserved=(), until_running=(), **waiting | changes)


class Player:
    """One cluster, and the placement that schedules its pods.

    Args:
        stored: the messages of the bus; what other replicas of placement own is decided here as well.
        now: the time of the first decision, unix seconds.

    ``placed``: the pods placed so far, by uid, in the order of the decisions.
    """

    def __init__(self, stored: Iterable[StoredMessage], now: float) -> None:
        self._core: PlacementCore = build_core({"instance": "simulation", "claim_prefix": "simulated"})
        self._now = self._began = now
        self._messages: dict[str, StoredMessage] = {}
        self._pods: dict[str, PodFact] = {}
        self.nodes: dict[str, NodeFact] = {}
        """The nodes as they were given, also those that were deleted since."""
        self._sequence = 0
        self._reasons: dict[str, str] = {}
        self._changed: dict[str, PodFact] = {}
        self._ledgers: dict[str, NodeLedger] = {}
        self.placed: dict[PodUid, Placed] = {}
        for each in stored:
            self._receive(each)
        for stream in PLACEMENT_STREAMS:
            self._send(CaughtUp(stream))

    def _receive(self, stored: StoredMessage) -> None:
        self._messages[stored.subject] = stored
        self._sequence = max(self._sequence, stored.sequence)
        event: Event | None
        try:
            event = decode(Message(stored.subject, stored.sequence, stored.data))
        except InvalidMessageError as error:
            # As in the service: what the message is about is left alone.
            event = Unreadable(stored.stream, stored.subject, stored.sequence, str(error)[:1000], error.newer)
        if event is None or isinstance(event, LeaseReceived | FenceReceived):
            return
        if isinstance(event, FactReceived) and isinstance(event.fact, PodFact):
            self._pods[event.fact.uid] = event.fact
        elif isinstance(event, FactReceived) and isinstance(event.fact, NodeFact):
            self.nodes[event.fact.name] = event.fact
        self._send(event)

    def create(self, facts: Mapping[str, Fact]) -> None:
        """Add the facts of objects that are created now."""
        for subject, fact in facts.items():
            self._sequence += 1
            self._receive(StoredMessage(Stream.CLUSTER, subject, self._sequence, encode(fact)))

    def configure(self, conf: ConfigFact | None, policy: str) -> None:
        """Decide by another configuration, None for that of the cluster, and by another policy, '' for that of it."""
        if conf is not None:
            self.create({fact_subject("config", SCHEDULER): conf})
        if policy:
            effective = self.conf
            self.scheduler.configure(replace(effective, policy=policy, weight=effective.weight or WEIGHT))

    def count_arrivals(self) -> None:
        """Count the pods of the cluster as arrived, whatever the policy: plans of moves expect more of the same."""
        self.scheduler.count_arrivals()

    def move(self, moves: Iterable[Move]) -> None:
        """Delete pods, and create each of them again, already bound where a plan places it."""
        for move in moves:
            pod, placement = self._pods[move.pod.uid], move.placement
            held = {"held": placement.grants, "signed": True}
            bound = created_again(pod, node=placement.node, running=pod.running, **held)
            self.delete([pod])
            self.create({fact_subject("pod", bound.uid): bound})

    def delete(self, pods: Iterable[PodFact], nodes: Iterable[str] = ()) -> None:
        """Delete pods, then nodes."""
        for pod in pods:
            del self._pods[pod.uid]
            self._changed.pop(pod.uid, None)
            self.placed.pop(pod.uid, None)
            self.create({fact_subject("pod", pod.uid): Gone()})
        self.create({fact_subject("node", name): Gone() for name in nodes})

    @property
    def scheduler(self) -> Scheduler:
        """What decides."""
        return self._core.scheduler

    @property
    def conf(self) -> SchedulerConf:
        """The configuration by which it decides."""
        return self.scheduler.conf

    @property
    def catalog(self) -> Catalog:
        """The volumes of the cluster that pods use."""
        return self.scheduler.catalog

    @property
    def names(self) -> Iterator[Key]:
        """Yield the keys of the pods and PodGroups of the cluster."""
        for pod in self._pods.values():
            yield Key("Pod", pod.namespace, pod.name)
        for group in self.scheduler.groups.values():
            if group.fact is not None:
                namespace, _, name = group.key.partition("/")
                yield Key("PodGroup", namespace, name)

    @property
    def waiting(self) -> dict[PodUid, tuple[PodFact, str]]:
        """The pods without a node, with the reason why they wait, by uid."""
        known = self.scheduler
        waits = (record.fact for uid, record in known.pods.items() if record.waits or known.is_nominated(uid))
        return {fact.uid: (self._pods[fact.uid], self._reason(fact)) for fact in waits}

    def _reason(self, pod: PodFact) -> str:
        """Return why a pod waits, or why its PodGroup was not admitted to its queue."""
        group = self.scheduler.groups[pod.group].fact
        return self._reasons.get(pod.uid) or self._reasons.get(group.uid if group is not None else "", "")

    def settle(self, progress: Callable[[int], None] = lambda _: None) -> None:
        """Decide until nothing is left to decide; ``progress`` gets the number of pods placed by this player.

        Raises CommandError if it does not settle.
        """
        until = self._now + WAIT_SECONDS
        for _ in range(MAX_TICKS):
            placed = len(self.placed)
            for claim in self._act(Tick()):
                self._bind(claim)
            if len(self.placed) > placed:
                progress(len(self.placed))
                continue
            due = self._core.next_due(self._at)
            if not self._core.open_work or due is None or due > until:
                return
            self._now = max(self._now + 0.001, due)
        raise CommandError(f"the simulation does not settle within {MAX_TICKS:,} rounds")

    @property
    def _at(self) -> Now:
        return Now(self._now, self._now)

    def _act(self, event: Event) -> list[tuple[str, Claim]]:
        """Pass an event to the core, and acknowledge its writes; return the new claims in the order of decisions."""
        new: list[tuple[str, Claim]] = []
        for command in self._send(event):
            if not isinstance(command, Write):
                continue
            for write in command.writes:
                ledger: NodeLedger = write.message
                self._ledgers[ledger.node] = ledger
                # A pod for which others have to go waits: nothing ends here.
                own = (each for each in ledger.claims if each.decided_by == "simulation" and not each.waits_for)
                new += ((ledger.node, each) for each in own)
            self._sequence += len(command.writes)
            self._send(Written(command.token, self._sequence))
        fresh = [(node, claim) for node, claim in new if PodUid(claim.uid) not in self.placed]
        return sorted(fresh, key=lambda one: int(one[1].id.rpartition("-")[2]))

    def _send(self, event: Event) -> list[Command]:
        commands = self._core.handle(event, self._at)
        for command in commands:
            if isinstance(command, PutLatest) and command.message.decision in (PENDING, REJECTED):
                self._reasons[command.message.uid] = command.message.message
            elif isinstance(command, Read):
                known = self._messages.get(command.subject)
                self._send(ReadBack(command.subject, known.sequence if known is not None else 0))
        return commands

    def _bind(self, found: tuple[str, Claim]) -> None:
        """Bind a pod, with its devices, as the binder and the kubelet do."""
        node, claim = found
        for binding in claim.bindings:
            self._bind_volume(binding)
        pod = self._pods[claim.uid]
        self.placed[pod.uid] = Placed(pod, node, claim)
        bound = replace(pod, node=node, running=bool(pod.podgroup), held=claim.grants, signed=True)
        self._changed[pod.uid] = self._pods[pod.uid] = bound
        self._send(FactReceived(fact_subject("pod", pod.uid), bound))

    def _bind_volume(self, binding: VolumeBinding) -> None:
        """Bind a claim to its volume, or name the node for which a provisioner would make one."""
        known, volume = self.catalog.claim(binding.claim), self.catalog.volume(binding.volume)
        if known is None:
            return
        subject = fact_subject("volumeclaim", known.key)
        if volume is None:
            self.create({subject: replace(known, selected_node=binding.node)})
            return
        bound = replace(volume, claim=known.key, claim_uid=known.uid, available=False)
        self.create({fact_subject("volume", volume.name): bound})
        self.create({subject: replace(known, volume=volume.name, bound=True)})

    def stored(self) -> list[StoredMessage]:
        """Return the messages of the bus after the decisions."""
        return [*(self._messages | {each.subject: each for each in self._written()}).values()]

    def _written(self) -> Iterator[StoredMessage]:
        for pod in self._changed.values():
            yield StoredMessage(Stream.CLUSTER, fact_subject("pod", pod.uid), self._sequence, encode(pod))
        for ledger in self._ledgers.values():
            yield StoredMessage(Stream.LEDGER, ledger_subject(ledger.node), self._sequence, encode(ledger))
