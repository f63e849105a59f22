"""What the cluster's changes mean for the bus: a state machine, changes and answers in, instructions out.

Pure: no clock, no event loop, no connection. The shell feeds it and carries out what :meth:`Core.take` returns.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec
from deviceshare.conf import DEVICES, SCHEDULER, EffectiveConfiguration, SchedulerConf
from deviceshare.model import (
    ConfigFact,
    Fact,
    FormatError,
    Gone,
    NodeFact,
    PodFact,
    PodGroupFact,
    PriorityClassFact,
    QueueFact,
    Synced,
)
from deviceshare.objects import (
    decode_node,
    decode_pod,
    decode_podgroup,
    decode_priority_class,
    decode_queue,
    describes_devices,
)
from deviceshare_bus.subjects import SYNCED
from deviceshare_bus.subjects import fact as fact_subject
from deviceshare_cluster.interface import Change, ChangeType, Listed

from deviceshare_inventory.adoption import Adoption
from deviceshare_inventory.configs import Configs, Remark, Resolved
from deviceshare_inventory.desired_state import DesiredState, ReadBack, Write
from deviceshare_inventory.node_devices import NodeDevices
from deviceshare_inventory.seen import Seen

KINDS = ("Node", "Pod", "PodGroup", "PriorityClass", "Queue", "ConfigMap")
"""The kinds that inventory watches."""

_POD_SUBJECT = "cluster.pod."

INVALID_ANNOTATION = "InvalidDeviceAnnotation"
INVALID_REQUEST = "InvalidRequest"
INVALID_CONFIGURATION = "InvalidConfiguration"
CONFIGURATION_WARNING = "ConfigurationWarning"


class Report(NamedTuple):
    """Tell the user, once, that a field of an object is wrong; a warning is a text alone."""

    kind: str
    namespace: str
    name: str
    uid: str
    reason: str
    remark: Remark


class Step(NamedTuple):
    """A step in the life of a pod: ``seen`` or ``gone``."""

    uid: str
    pod: str
    name: str


Instruction = Write | ReadBack | Report | Step

_Decoded = TypeVar("_Decoded", NodeFact, PodFact, PodGroupFact, PriorityClassFact, QueueFact)


class Core:
    """The state of inventory.

    First :meth:`load` what stands on the bus, then :meth:`begin_list` and feed the watch's batches. ``schedulers`` are
    the values of ``spec.schedulerName`` that are ours, ``keys`` those of :mod:`deviceshare.model.signatures`.
    """

    def __init__(
        self, schedulers: frozenset[str], configs: Configs, limit: int = 1000, keys: Sequence[bytes] = ()
    ) -> None:
        self._schedulers = schedulers
        self._keys = tuple(keys)
        self._adoption = Adoption()
        self.seen = Seen()
        self._configs = configs
        self._devices = NodeDevices()
        self._askers: dict[str, Change] = {}
        """The nodes whose facts depend on what ConfigMaps say of their devices, as they were seen last."""
        self.desired = DesiredState(limit, frozenset({SYNCED}))
        self._uids: dict[str, str] = {}
        """Uid of the pod that has a name now, by ``namespace/name``."""
        self._told: dict[str, frozenset[str]] = {}
        """Problems that have been reported, by subject."""
        self._out: list[Report | Step] = []
        self._generation = 0
        self._listing = True
        self._listed = 0
        self._delivered = 0
        self._held = 0
        self._synced_after: int | None = None
        """Said when all that was open by this ticket of the board is done."""

    @property
    def open_work(self) -> int:
        """How many facts are not on the bus yet; a list that has not been delivered whole counts as one."""
        return len(self.desired.open) + (self._listing or self._synced_after is not None)

    @property
    def lists(self) -> int:
        """How many lists have been delivered whole, 0 while one is being delivered."""
        return 0 if self._listing else self._generation

    @property
    def revision(self) -> int:
        """The cluster's revision up to which everything that was delivered is on the bus and acknowledged."""
        if self._listing:
            return self._held
        return min([self._delivered, *(opened.since - 1 for opened in self.desired.open.values())])

    def load(self, subject: str, sequence: int, fact: Fact | None) -> None:
        """Learn what stood on the bus at start; None for what cannot be decoded."""
        self.desired.stands(subject, sequence, fact, foreign=False)
        if isinstance(fact, PodFact):
            self._uids[fact.ref] = fact.uid
        elif isinstance(fact, ConfigFact):
            self._configs.stood(fact)

    def begin_list(self) -> None:
        """A watch begins: all that exists will be delivered, then :class:`Listed`."""
        self._held = self.revision
        self._generation += 1
        self._listing = True
        self._delivered = 0
        self._configs.begin_list()
        self._devices.begin_list()
        self._adoption.begin_list()
        self.seen.begin_list()
        self._askers.clear()

    def deliver(self, batch: Sequence[Change | Listed]) -> None:
        """Take a batch of the watch."""
        for item in batch:
            if isinstance(item, Listed):
                self._end_list(item.revision)
            else:
                self.seen.apply(item)
                self._apply(item)
                self._delivered = max(self._delivered, item.revision)

    def take(self, now: float) -> list[Instruction]:
        """Return what is to be done now; ``now`` in unix seconds."""
        if self._synced_after is not None and not self.desired.open_before(self._synced_after):
            self._synced_after = None
            synced = Synced(revision=str(self._listed), at=now, objects=self.desired.objects())
            self.desired.want(SYNCED, synced, self._listed)
        writes, reads = self.desired.take()
        out, self._out = self._out, []
        return [*writes, *reads, *out]

    def _end_list(self, revision: int) -> None:
        self._listing = False
        self._delivered = max(self._delivered, revision)
        self._listed = revision
        self._want_configs(revision)
        for change in list(self._askers.values()):
            self._apply_node(change)
        for pod in self._adoption.pods():
            self._want_pod(pod, revision)
        for subject in self.desired.older_than(self._generation):
            self._told.pop(subject, None)
            self._adoption.forget(subject.removeprefix(_POD_SUBJECT))
            self._forget(subject, revision)
        self._synced_after = self.desired.ticket

    def _apply(self, change: Change) -> None:
        if change.kind == "ConfigMap":
            self._apply_config(change)
            return
        if change.kind == "Pod":
            self._apply_pod(change)
            return
        if change.kind == "Node":
            self._apply_node(change)
            return
        fact: PodGroupFact | PriorityClassFact | QueueFact | None
        if change.kind == "PodGroup":
            subject = fact_subject("podgroup", f"{change.namespace}/{change.name}")
            fact = self._decode(change, subject, decode_podgroup)
        elif change.kind == "PriorityClass":
            subject = fact_subject("priorityclass", change.name)
            fact = self._decode(change, subject, decode_priority_class)
        else:
            subject = fact_subject("queue", change.name)
            fact = self._decode(change, subject, decode_queue)
        if fact is None:
            self._forget(subject, change.revision)
            return
        self.desired.want(subject, fact, change.revision, self._generation)
        uid = fact.uid if isinstance(fact, PodGroupFact) else ""
        self._report(subject, change.kind, change.namespace, change.name, uid, fact.problems)

    def _apply_node(self, change: Change, revision: int = 0) -> None:
        """Take a node, or look at it again, since something that its fact depends on is otherwise at ``revision``."""
        subject = fact_subject("node", change.name)
        self._askers.pop(change.name, None)

        def device_info(name: str) -> Mapping[str, str] | None:
            nonlocal revision
            self._askers[change.name] = change
            told = self._devices.of(name)
            revision = max(revision, change.revision, told.revision if told is not None else 0)
            return told.devices if told is not None else None

        fact = self._decode(change, subject, lambda raw: decode_node(raw, device_info))
        if fact is None:
            self._forget(subject, change.revision)
            return
        if change.name in self._askers:
            if self._listing:
                # The ConfigMaps may come after the node: it is looked at when all are here.
                return
            # As new as the newest of what it is made of.
            fact = msgspec.structs.replace(fact, revision=str(revision))
        self.desired.want(subject, fact, max(revision, change.revision), self._generation)
        self._report(subject, "Node", "", change.name, fact.uid, fact.problems)
        for pod in self._adoption.node(fact.name, fact.cards):
            if not self._listing:
                self._want_pod(pod, max(revision, change.revision))

    def _apply_pod(self, change: Change) -> None:
        ref = f"{change.namespace}/{change.name}"
        before = self._uids.get(ref)
        pod = self._decode(change, f"pod {ref}", lambda raw: decode_pod(raw, self._keys))
        if before is not None and (pod is None or pod.uid != before):
            del self._uids[ref]
            self._forget_pod(before, ref, change.revision)
        if pod is None:
            return
        self._uids[ref] = pod.uid
        pod = self._adoption.pod(pod)
        subject = fact_subject("pod", pod.uid)
        known = self.desired.is_there(subject)
        if not (known if pod.ended else pod.node or pod.scheduler in self._schedulers):
            if known:
                self._forget_pod(pod.uid, ref, change.revision)
            return
        if not (self._listing and pod.uid in self._adoption):
            # Else the configuration and its node may come after it: it is looked at when all are here.
            self._want_pod(pod, change.revision)

    def _want_pod(self, pod: PodFact, revision: int) -> None:
        subject = fact_subject("pod", pod.uid)
        if not self.desired.is_there(subject):
            self._out.append(Step(pod.uid, pod.ref, "seen"))
        self.desired.want(subject, pod, revision, self._generation)
        self._report(subject, "Pod", pod.namespace, pod.name, pod.uid, pod.problems)

    def _forget_pod(self, uid: str, ref: str, revision: int) -> None:
        self._adoption.forget(uid)
        subject = fact_subject("pod", uid)
        if self.desired.is_there(subject):
            self._out.append(Step(uid, ref, "gone"))
        self._told.pop(subject, None)
        self._forget(subject, revision)

    def _forget(self, subject: str, revision: int) -> None:
        self.desired.want(subject, Gone(revision=str(revision)), revision, self._generation)

    def _apply_config(self, change: Change) -> None:
        if describes_devices(change.namespace, change.name):
            nodes, problems = self._devices.apply(change)
            subject = f"devices {change.namespace}/{change.name}"
            self._report(subject, "ConfigMap", change.namespace, change.name, "", problems)
            for node in nodes if not self._listing else ():
                if node in self._askers:
                    self._apply_node(self._askers[node], change.revision)
            return
        if self._configs.apply(change) and not self._listing:
            self._want_configs(change.revision)

    def _want_configs(self, revision: int) -> None:
        resolved = self._configs.resolve()
        self.desired.want(fact_subject("config", SCHEDULER), resolved.scheduler, revision, self._generation)
        if self._adoption.configure(_conf(resolved)) and not self._listing:
            for pod in self._adoption.pods():
                self._want_pod(pod, revision)
        subject = fact_subject("config", DEVICES)
        if resolved.devices is not None:
            self.desired.want(subject, resolved.devices, revision, self._generation)
        else:
            self._forget(subject, revision)
        told = {f"configmap {namespace}/{name}": (namespace, name) for namespace, name in resolved.remarks}
        for known in [known for known in self._told if known.startswith("configmap ") and known not in told]:
            del self._told[known]
        for known, place in told.items():
            self._report(known, "ConfigMap", *place, "", resolved.remarks[place])

    def _decode(self, change: Change, subject: str, decode: Callable[[bytes], _Decoded]) -> _Decoded | None:
        """Return the fact of an object, None where it is gone or cannot be read at all."""
        if change.type is ChangeType.DELETED:
            self._told.pop(subject, None)
            return None
        try:
            return decode(change.raw)
        except FormatError as error:
            self._report(subject, change.kind, change.namespace, change.name, "", (error.problem,))
            return None

    def _report(self, subject: str, kind: str, namespace: str, name: str, uid: str, remarks: Sequence[Remark]) -> None:
        """Tell what is wrong with an object, what has been told before left out."""
        told = self._told.get(subject, frozenset())
        if remarks:
            self._told[subject] = frozenset(map(str, remarks))
        elif told:
            del self._told[subject]
        for remark in remarks:
            if str(remark) not in told:
                self._out.append(Report(kind, namespace, name, uid, _reason(kind, remark), remark))


def _conf(resolved: Resolved) -> SchedulerConf:
    standing = EffectiveConfiguration()
    standing.take(resolved.scheduler)
    if resolved.devices is not None:
        standing.take(resolved.devices)
    return standing.conf


def _reason(kind: str, remark: Remark) -> str:
    if isinstance(remark, str):
        return CONFIGURATION_WARNING
    if kind == "ConfigMap":
        return INVALID_CONFIGURATION
    return INVALID_ANNOTATION if kind == "Node" or remark.field.startswith("metadata.annotations") else INVALID_REQUEST
