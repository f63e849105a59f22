"""Turns changes of the cluster's objects into the facts that CLUSTER should hold."""

import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar, cast

import msgspec
from deviceshare.conf import DEVICES, SCHEDULER
from deviceshare.model import (
    ConfigFact,
    Fact,
    FormatError,
    Gone,
    OtherPodFact,
    PodFact,
    PodGroupFact,
    Problem,
    StorageFact,
    object_uid,
)
from deviceshare.objects import (
    DECODERS,
    DEVICE_KINDS,
    KINDS,
    STORAGE_KINDS,
    decode_node,
    decode_pod,
    decode_podgroup,
    describes_devices,
    requests_devices,
)
from deviceshare_bus.cores.core import RecordStep
from deviceshare_bus.messages.subjects import fact as fact_subject
from deviceshare_bus.messages.subjects import kind_of
from deviceshare_cluster.interface import Change, ChangeType

from deviceshare_inventory.core.adoption import Adoption
from deviceshare_inventory.core.configs import Configs, Resolved, effective
from deviceshare_inventory.core.desired_state import DesiredState
from deviceshare_inventory.core.device_claim_use import DeviceClaimUse
from deviceshare_inventory.core.device_problems import DeviceProblems
from deviceshare_inventory.core.node_devices import NodeDevices
from deviceshare_inventory.core.pod_identities import PodIdentities
from deviceshare_inventory.core.reports import Reference, Reports
from deviceshare_inventory.core.storage import Storage

_POD_SUBJECT = "cluster.pod."
_NODE_SUBJECT = "cluster.node."
_CONFIG_MAP = "configmap "
_CARDS = "cards "
"""Before the name of a node: the subject of reports of cards that pods hold."""

_Decoded = TypeVar("_Decoded", bound=Fact)


class FactBuilder:
    """Decodes objects and passes their facts to the desired state, and their problems to the reports.

    Args:
        schedulers: the values of ``spec.schedulerName`` that deviceshare serves.
        keys: the signing keys of :mod:`deviceshare.model.signatures`.
        file: the scheduler's configuration given at start, None to read a ConfigMap.
        desired: receives the facts.
        reports: receives the problems.
    """

    def __init__(
        self,
        schedulers: frozenset[str],
        keys: Sequence[bytes],
        file: ConfigFact | None,
        desired: DesiredState,
        reports: Reports,
    ) -> None:
        self._schedulers = schedulers
        self._keys = tuple(keys)
        self._desired = desired
        self._reports = reports
        self._adoption = Adoption()
        self._problems = DeviceProblems()
        self._configs = Configs(file)
        self._devices = NodeDevices()
        self._described: dict[str, Change] = {}
        """The last change of each node whose fact depends on ConfigMaps that describe its devices."""
        self._identities = PodIdentities()
        self._storage = Storage(schedulers)
        self._device_claims = DeviceClaimUse(schedulers)
        self._using_claims: dict[str, PodFact] = {}
        """Pods of an incomplete list that are published after their claims."""
        self._steps: list[RecordStep] = []
        self._generation = 0
        """How many lists have begun."""
        self.listing = True
        """Whether a list is being delivered, or none has begun."""

    def load(self, fact: Fact) -> None:
        """Apply a fact that was on CLUSTER at start."""
        if isinstance(fact, PodFact | OtherPodFact):
            self._identities.load(fact)
            if isinstance(fact, PodFact):
                self._device_claims.note(fact)
        elif isinstance(fact, ConfigFact):
            problem = self._configs.load(fact)
            self._device_claims.configure(effective(fact))
            if problem is not None:
                self._reports.report(f"the configuration {fact.name} on CLUSTER", None, (problem,))

    def begin_list(self) -> None:
        """Forget what the list will deliver again."""
        self._generation += 1
        self.listing = True
        self._configs.begin_list()
        self._devices.begin_list()
        self._adoption.begin_list()
        self._problems.begin_list()
        self._described.clear()
        self._identities.begin_list()
        self._storage.begin_list()
        self._using_claims.clear()
        self._device_claims.begin_list()

    def end_list(self, revision: int) -> None:
        """Build what had to wait for the whole list, and delete the facts of objects that were not in it."""
        self.listing = False
        for change in self._device_claims.take_held():
            self._apply_alone(change)
        self._storage.end_list()
        self._want_storage(revision)
        self._identities.end_list()
        self._apply_freed()
        resolved, _ = self._resolve_configs()
        for change in list(self._described.values()):
            self._apply_node(change)
        for pod in (*self._adoption.pods(), *self._using_claims.values()):
            self._want_pod(pod, revision)
        self._want_configs(resolved, revision)
        self._using_claims.clear()
        self._want_storage(revision)
        for subject in self._desired.older_than(self._generation):
            self._reports.forget(subject)
            self._reports.forget(_CARDS + subject.removeprefix(_NODE_SUBJECT))
            self._adoption.forget(subject.removeprefix(_POD_SUBJECT))
            self._delete(subject, revision)
        self._show_problems(self._problems.end_list(), revision)

    @property
    def ambiguous(self) -> bool:
        """Whether the cluster has to be listed again, to tell pods with the same uid apart."""
        return self._identities.ambiguous

    def take_steps(self) -> list[RecordStep]:
        """Return the steps in the life of pods since the last call."""
        steps, self._steps = self._steps, []
        return steps

    @property
    def uses_storage(self) -> bool:
        """Whether the objects of storage concern pods that deviceshare places."""
        return self._storage.active

    @property
    def uses_devices(self) -> bool:
        """Whether the objects of devices concern pods that deviceshare places, or did since the start."""
        return self._device_claims.active

    def apply(self, change: Change) -> None:
        """Apply a change of an object."""
        self._apply(change)
        if not self.listing:
            self._want_storage(change.revision)

    def _apply(self, change: Change) -> None:
        match change.kind:
            case "ConfigMap":
                self._apply_config(change)
            case "Pod":
                self._apply_pod(change)
            case "Node":
                self._apply_node(change)
            case kind if kind in DECODERS and not (self.listing and self._device_claims.hold(change)):
                self._apply_alone(change)

    def _apply_alone(self, change: Change) -> None:
        """Apply a change of an object whose fact depends on no other objects."""
        kind = KINDS.get(change.kind) or DEVICE_KINDS[change.kind]
        key = f"{change.namespace}/{change.name}" if kind.namespaced else change.name
        subject = fact_subject(kind_of(kind.fact), key)
        decode = DECODERS[change.kind] if change.kind != "PodGroup" else partial(decode_podgroup, keys=self._keys)
        fact = self._decode(change, subject, decode)
        if change.kind in STORAGE_KINDS:
            self._storage.put(subject, cast("StorageFact | None", fact))
            return
        if fact is None:
            self._delete(subject, change.revision)
            return
        self._want(subject, fact, change.revision)
        uid, caveats = (fact.uid, fact.caveats) if isinstance(fact, PodGroupFact) else ("", ())
        about = Reference(change.kind, change.namespace, change.name, uid)
        self._reports.report(subject, about, (*getattr(fact, "problems", ()), *caveats))

    def _want_storage(self, revision: int) -> None:
        """Publish the objects of storage that concern pods now, and no others."""
        for subject, fact in self._storage.take(revision):
            if fact is None:
                self._reports.forget(subject)
                self._delete(subject, revision)
                continue
            self._want(subject, fact, revision)
            if fact.problems:
                self._reports.report(subject, Reference.of_storage(fact), fact.problems)
            else:
                self._reports.forget(subject)

    def _apply_node(self, change: Change, revision: int = 0) -> None:
        """Apply a change of a node, or build its fact again since a ConfigMap changed at ``revision``."""
        subject = fact_subject("node", change.name)
        self._described.pop(change.name, None)

        def device_info(name: str) -> Mapping[str, str] | None:
            nonlocal revision
            self._described[change.name] = change
            info = self._devices.of(name)
            revision = max(revision, change.revision, info.revision if info is not None else 0)
            return info.devices if info is not None else None

        fact = self._decode(change, subject, lambda raw: decode_node(raw, device_info))
        if fact is None:
            self._delete(subject, change.revision)
            self._reports.forget(_CARDS + change.name)
            self._show_problems(self._problems.node(change.name, None), change.revision)
            return
        if change.name in self._described:
            if self.listing:
                return  # the ConfigMaps may come after the node: end_list builds the fact
            # The revision of the newest object that the fact is made of.
            fact = msgspec.structs.replace(fact, revision=str(revision))
        self._want(subject, fact, max(revision, change.revision))
        self._reports.report(subject, Reference("Node", "", change.name, fact.uid), fact.problems)
        for pod in self._adoption.node(fact.name, fact.cards):
            if not self.listing:
                self._want_pod(pod, max(revision, change.revision))
        self._show_problems(self._problems.node(fact.name, fact.cards), max(revision, change.revision))
        self._report_cards(fact.name, fact.uid)

    def _apply_pod(self, change: Change) -> None:
        ref = f"{change.namespace}/{change.name}"
        pod = self._decode(change, f"pod {ref}", lambda raw: decode_pod(raw, self._keys))
        if pod is not None:
            pod = self._device_claims.read(pod, change.raw)
            pod = self._identities.identify(pod, change, listing=self.listing)
        before = self._identities.publish(ref, None if pod is None else pod.uid)
        if before is not None:
            self._delete_pod(before, ref, change.revision)
            self._apply_freed()
        if pod is None:
            return
        self._show_other(pod, change.revision)
        pod = self._adoption.pod(pod)
        known = self._desired.exists(fact_subject("pod", pod.uid))
        to_serve = pod.unserved or pod.selectable
        if not (known or to_serve if pod.ended else pod.node or pod.scheduler in self._schedulers):
            if known or pod.uid in self._using_claims:
                self._delete_pod(pod.uid, ref, change.revision)
            return
        if pod.ask.volumes:
            self._storage.use(pod)
            self._using_claims.pop(pod.uid, None)
        if self.listing and pod.uid in self._adoption:
            return  # the configuration and the pod's node may come after it: end_list builds the fact
        if pod.ask.volumes and not pod.ended:
            # Without its claims on CLUSTER a pod would be refused; without the nodes' limits, placed beyond one.
            if self.listing:
                self._using_claims[pod.uid] = pod
                return
            self._want_storage(change.revision)
        self._want_pod(pod, change.revision)

    def _show_other(self, pod: PodFact, revision: int) -> None:
        """Publish that a pod waits for another scheduler, while it does: users ask why it is not placed.

        A device plugin may select it meanwhile.
        """
        subject = fact_subject("otherpod", pod.uid)
        waits = not (pod.node or pod.ended or pod.scheduler in self._schedulers)
        if waits and (requests_devices(pod.ask) or pod.selectable):
            served = tuple(sorted(self._schedulers))
            other = OtherPodFact(
                revision=pod.revision, uid=pod.uid, namespace=pod.namespace, name=pod.name, scheduler=pod.scheduler,
                created=pod.created, served=served, selectable=pod.selectable,
            )  # fmt: skip
            self._want(subject, other, revision)
        elif self._desired.exists(subject):
            self._delete(subject, revision)

    def _show_problems(self, pods: Iterable[PodFact], revision: int) -> None:
        """Publish pods whose devices may have other problems now; a list is delivered first."""
        for pod in pods if not self.listing else ():
            self._put_pod(pod, revision)
            self._report_cards(pod.node)

    def _report_cards(self, node: str, uid: str = "") -> None:
        """Report cards of a node that pods hold and that are missing or unhealthy."""
        if not self.listing:
            problems = self._problems.of_node(node)
            passing = {problem for problem, passing in problems.items() if passing}
            self._reports.report(_CARDS + node, Reference("Node", "", node, uid), tuple(problems), passing)

    def _apply_freed(self) -> None:
        """Apply the pods again whose uid has no owner any more."""
        for change in self._identities.take_freed():
            self._apply_pod(change)

    def _want_pod(self, pod: PodFact, revision: int) -> None:
        judged = self._problems.pod(pod)
        self._put_pod(judged, revision)
        if judged is not pod:
            self._report_cards(pod.node)

    def _put_pod(self, pod: PodFact, revision: int) -> None:
        subject = fact_subject("pod", pod.uid)
        if not self._desired.exists(subject):
            self._steps.append(RecordStep(pod.uid, pod.ref, "seen"))
        self._desired.want(subject, pod, revision, self._generation, kept=self._problems.keeps(pod))
        about = Reference("Pod", pod.namespace, pod.name, object_uid(pod.uid))
        self._reports.report(subject, about, pod.problems, self._problems.passing(pod.uid) if pod.problems else ())

    def _delete_pod(self, uid: str, ref: str, revision: int) -> None:
        self._adoption.forget(uid)
        self._problems.forget(uid)
        self._storage.forget(uid)
        self._using_claims.pop(uid, None)
        subject = fact_subject("pod", uid)
        if self._desired.exists(subject):
            self._steps.append(RecordStep(uid, ref, "gone"))
        self._reports.forget(subject)
        self._delete(subject, revision)
        if self._desired.exists(other := fact_subject("otherpod", uid)):
            self._delete(other, revision)

    def _apply_config(self, change: Change) -> None:
        if describes_devices(change.namespace, change.name):
            nodes, problems = self._devices.apply(change)
            about = Reference("ConfigMap", change.namespace, change.name)
            self._reports.report(f"devices {change.namespace}/{change.name}", about, problems)
            for node in nodes if not self.listing else ():
                if node in self._described:
                    self._apply_node(self._described[node], change.revision)
        elif self._configs.apply(change) and not self.listing:
            resolved, changed = self._resolve_configs()
            for pod in self._adoption.pods() if changed else ():
                self._want_pod(pod, change.revision)
            self._want_configs(resolved, change.revision)

    def _resolve_configs(self) -> tuple[Resolved, bool]:
        """Return the configurations in effect, and whether bound pods may hold other devices by them."""
        resolved = self._configs.resolve()
        conf = effective(*filter(None, (resolved.scheduler, resolved.devices)))
        self._problems.configure(conf)
        self._device_claims.configure(conf)
        return resolved, self._adoption.configure(conf)

    def _want_configs(self, resolved: Resolved, revision: int) -> None:
        """Publish the configurations, after the pods: by a new one placement could give away what they hold by it."""
        self._want(fact_subject("config", SCHEDULER), resolved.scheduler, revision)
        subject = fact_subject("config", DEVICES)
        if resolved.devices is not None:
            self._want(subject, resolved.devices, revision)
        else:
            self._delete(subject, revision)
        config_maps = {f"{_CONFIG_MAP}{namespace}/{name}": (namespace, name) for namespace, name in resolved.remarks}
        self._reports.keep(_CONFIG_MAP, config_maps)
        for reported, place in config_maps.items():
            self._reports.report(reported, Reference("ConfigMap", *place), resolved.remarks[place])

    def _decode(self, change: Change, subject: str, decode: Callable[[bytes], _Decoded]) -> _Decoded | None:
        """Return the fact of an object, None if it was deleted or cannot be decoded at all."""
        if change.type is ChangeType.DELETED:
            self._reports.forget(subject)
            return None
        about = Reference(change.kind, change.namespace, change.name)
        try:
            return decode(change.raw)
        except FormatError as error:
            self._reports.report(subject, about, (error.problem,))
        except Exception as error:  # a defect: it concerns one object, and the process would meet it again
            name = "/".join(filter(None, (change.namespace, change.name)))
            what = f"{type(error).__name__}: {error}"
            problem = Problem(f"{change.kind} {name}", "$", what, "an object that is read")
            self._reports.report_defect(subject, about, problem, traceback.format_exc())
        return None

    def _want(self, subject: str, fact: Fact, revision: int) -> None:
        self._desired.want(subject, fact, revision, self._generation)

    def _delete(self, subject: str, revision: int) -> None:
        self._want(subject, Gone(revision=str(revision)), revision)
