"""The binder service: its core follows CLUSTER, LEDGER, OUTCOME and EXPLAIN, and writes OUTCOME and the cluster."""

import logging
import random
import secrets
from collections.abc import Callable, Sequence
from typing import Any, assert_never

import msgspec
from deviceshare.conf import DEVICES, SCHEDULER
from deviceshare.model import (
    ConfigFact,
    DeviceClaimFact,
    DeviceClassFact,
    DeviceSliceFact,
    DeviceTaintRuleFact,
    object_uid,
)
from deviceshare_bus.cores.core import Event
from deviceshare_bus.cores.division import of_replicas
from deviceshare_bus.messages.codec import Message, decode_explanation
from deviceshare_bus.messages.known_items import LEDGERS, OUTCOMES
from deviceshare_bus.messages.leases import decode_fence, decode_lease
from deviceshare_bus.messages.subjects import Address, Stream
from deviceshare_bus.messages.validation import Decoders, validated
from deviceshare_bus.runtime.service import Context
from deviceshare_bus.runtime.shell import Shell, Source
from deviceshare_cluster import open_cluster
from deviceshare_cluster.changes import has_ended, pod_state
from deviceshare_cluster.dry_run import DryRunCluster
from deviceshare_cluster.interface import Cluster, ClusterError, Object, PodState
from deviceshare_cluster.signing import OFF, signing_keys

from deviceshare_binder.core import BinderCore, build_core, commands, events, views

log = logging.getLogger("deviceshare.binder")

MAX_JITTER = 0.5
"""The largest share of its pause by which a retry is delayed, so that retries do not coincide."""


_DECODERS: Decoders = {
    "pod": msgspec.msgpack.Decoder(views.PodView | views.GoneView).decode,
    "otherpod": msgspec.msgpack.Decoder(views.OtherPodView | views.GoneView).decode,
    "node": msgspec.msgpack.Decoder(views.NodeView | views.GoneView).decode,
    "podgroup": msgspec.msgpack.Decoder(views.PodGroupView | views.GoneView).decode,
    "queue": msgspec.msgpack.Decoder(views.QueueView | views.GoneView).decode,
    "volumeclaim": msgspec.msgpack.Decoder(views.VolumeClaimView | views.GoneView).decode,
    "volume": msgspec.msgpack.Decoder(views.VolumeView | views.GoneView).decode,
    "deviceclass": msgspec.msgpack.Decoder(DeviceClassFact | views.GoneView).decode,
    "deviceslice": msgspec.msgpack.Decoder(DeviceSliceFact | views.GoneView).decode,
    "devicetaintrule": msgspec.msgpack.Decoder(DeviceTaintRuleFact | views.GoneView).decode,
    "deviceclaim": msgspec.msgpack.Decoder(DeviceClaimFact | views.GoneView).decode,
    "config": msgspec.msgpack.Decoder(ConfigFact | views.GoneView).decode,
    "ledger": LEDGERS,
    "outcome": OUTCOMES,
    "lease": decode_lease,
    "fence": decode_fence,
    "explain": decode_explanation,
}


async def main(context: Context) -> None:
    """Run the binder until cancelled."""
    options = context.options
    arguments = {
        "plugin_patience": options.plugin_patience, "reports_per_second": options.reports_per_second,
        "dry_run": options.dry_run,
    }  # fmt: skip
    opened = open_cluster(options.cluster, "deviceshare-binder", context.instance)
    async with DryRunCluster(opened) if options.dry_run else opened as cluster:
        await run(context, cluster, arguments, () if options.dry_run else signing_keys())


async def run(context: Context, cluster: Cluster, options: dict[str, float | bool], keys: Sequence[bytes]) -> None:
    """Run the binder on a cluster until cancelled; ``options`` are those of :func:`build_core`."""
    member = f"{context.instance}-{secrets.token_hex(8)}"
    arguments = {**options, "instance": context.instance, "member": member}
    core = build_core(arguments, keys)
    context.metrics.signing = bool(keys)
    if not keys:
        log.warning("%s", OFF)
    context.detail = lambda: core.detail
    context.hindrance = lambda: core.obstacle
    await Shell(context, core, sources(core), ClusterSide(cluster).perform, arguments=arguments).run()


def sources(core: BinderCore) -> list[Source]:
    """Return the streams that the binder follows."""
    decode = decoder()
    return [
        Source(Stream.CLUSTER, decode),
        Source(Stream.OUTCOME, decode, known=core.knows_outcomes),
        Source(Stream.LEDGER, decode),
        Source(Stream.EXPLAIN, decode),
    ]


def decoder() -> Callable[[Message], Event | None]:
    """Return a function that returns the event of a message; it raises ``InvalidMessageError``."""
    return validated(_DECODERS, _event)


def _event(message: Message, where: Address, content: Any) -> Event | None:
    match where.kind:
        case "ledger":
            return events.LedgerChanged(where.key, content.claims, content.evictions)
        case "lease" | "fence":
            return of_replicas("binder", content)
        case "outcome":
            return events.OutcomesChanged(where.key, message.sequence, content.outcomes, content.gone)
        case "explain":
            return events.Explained(content)
    return _of_fact(where, content)


def _of_fact(where: Address, content: Any) -> Event | None:
    """Return the event of a message of CLUSTER."""
    view = None if isinstance(content, views.GoneView) else content
    match where.kind:
        case "pod":
            if view is not None:
                view = view.without_node_rules()
            usage = views.PodUsage(ask=view.ask, held=view.held) if view is not None and view.counts else None
            return events.PodChanged(where.key, view, usage)
        case "otherpod":
            return events.OtherPodChanged(where.key, view)
        case "node":
            return events.NodeChanged(where.key, view)
        case "podgroup":
            return events.PodGroupChanged(where.key, view)
        case "queue":
            return events.QueueChanged(where.key, view)
        case "volumeclaim":
            return events.VolumeClaimChanged(where.key, view)
        case "volume":
            return events.VolumeChanged(where.key, view)
        case "deviceclass" | "deviceslice" | "deviceclaim" | "devicetaintrule":
            return events.DeviceObjectChanged(f"{where.kind}.{where.key}", view)
        case "config" if where.key == SCHEDULER:
            return events.SchedulerConfigured(view)
        case "config" if where.key == DEVICES:
            return events.DevicesConfigured(view)
    return None


class ClusterSide:
    """Executes the commands that concern the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def perform(self, command: commands.ClaimRequest | commands.EvictPod | commands.ClusterWrite) -> Event:
        """Execute a command of :mod:`.core.commands` and return the event that answers it."""
        try:
            return await self._execute(command)
        except ClusterError as error:
            failed = str(error), error.final
        except Exception as error:  # a defect: it concerns one object, and the process would meet it again
            log.exception("%s failed", type(command).__name__)
            # A pod may be bound, or evicted, although its request failed here.
            final = not isinstance(command, commands.BindPod | commands.EvictPod)
            failed = f"{type(command).__name__} failed: {type(error).__name__}: {error}", final
        jitter = random.uniform(0.0, MAX_JITTER)  # noqa: S311 - not for secrets
        return events.ClusterFailed(command, *failed, jitter)

    async def _execute(self, command: commands.ClaimRequest | commands.EvictPod | commands.ClusterWrite) -> Event:
        match command:
            case commands.BindPod():
                return await self._bind(command)
            case commands.ReadPod():
                return await self._read(command)
            case commands.FencePod():
                return await self._fence(command)
            case commands.LockNode():
                return await self._lock(command)
            case commands.BindVolumes():
                return await self._bind_volumes(command)
            case commands.AllocateClaims():
                return await self._allocate(command)
            case commands.ReleaseClaims():
                return await self._release(command)
            case commands.EvictPod(namespace=namespace, name=name, uid=uid, dry_run=dry_run):
                answer = await self._cluster.evict(namespace, name, object_uid(uid), dry_run=dry_run)
                return events.EvictAnswered(command, answer.state, answer.reason)
            case _:
                return events.ClusterWritten(command, await self._write(command))

    async def _bind(self, bind: commands.BindPod) -> events.BindAnswered:
        found = await self._cluster.bind(
            bind.namespace, bind.name, bind.uid, bind.node, bind.annotations, revision=bind.revision
        )
        annotations = dict(found.annotations)
        return events.BindAnswered(bind.claim, found.state, found.node, found.reason, annotations, found.revision)

    async def _read(self, read: commands.ReadPod) -> events.PodRead:
        pod = await self._cluster.get("Pod", read.namespace, read.name)
        if pod is None or pod["metadata"].get("uid") != read.uid or has_ended(pod):
            return events.PodRead(read.claim, None)  # inventory may never publish a pod that has ended
        return _pod_read(read.claim, pod_state(pod))

    async def _fence(self, fence: commands.FencePod) -> events.PodRead:
        pod = await self._cluster.fence(fence.namespace, fence.name, fence.uid, fence.claim)
        return events.PodRead(fence.claim, None) if pod is None else _pod_read(fence.claim, pod)

    async def _lock(self, lock: commands.LockNode) -> events.LockAnswered:
        key = lock.annotation
        found = await self._cluster.annotate("Node", "", lock.node, {key: lock.value}, expected={key: lock.expected})
        return events.LockAnswered(lock.claim, (found or {}).get(key))

    async def _bind_volumes(self, command: commands.BindVolumes) -> events.VolumesRequested:
        """Reserve volumes, then select nodes: as by kube-scheduler, nothing is made if a volume is taken."""
        revisions = {}
        for binding in sorted(command.bindings, key=lambda binding: not binding.volume):
            namespace, _, name = binding.claim.partition("/")
            if binding.volume:
                volume = await self._cluster.reserve_volume(binding.volume, namespace, name, binding.uid)
                if volume is None:
                    return events.VolumesRequested(command.claim, f"there is no PersistentVolume {binding.volume}")
                if volume.terminating:
                    return events.VolumesRequested(command.claim, f"PersistentVolume {binding.volume} is being deleted")
                if volume.value != binding.uid:
                    reason = f"PersistentVolume {binding.volume} belongs to another claim"
                    return events.VolumesRequested(command.claim, reason)
                revisions[binding.volume] = volume.revision
                continue
            claim = await self._cluster.select_node(namespace, name, binding.uid, binding.node)
            if claim is None:
                return events.VolumesRequested(command.claim, f"there is no PersistentVolumeClaim {binding.claim}")
            if claim.value != binding.node:
                reason = f"a volume is made for PersistentVolumeClaim {binding.claim} on node {claim.value}"
                return events.VolumesRequested(command.claim, reason)
            revisions[binding.claim] = claim.revision
        return events.VolumesRequested(command.claim, "", revisions)

    async def _allocate(self, command: commands.AllocateClaims) -> events.ClaimsAllocated:
        for each in command.claims:
            (namespace, _, name), wanted = each.key.partition("/"), _decoded(each)
            pod = command.name, object_uid(command.uid)
            found = await self._cluster.allocate_claim(namespace, name, each.uid, wanted, pod, each.untouched)
            problem = ""
            if found is None:
                problem = "does not exist"
            elif found.elsewhere:
                problem = "was allocated elsewhere"
            elif not found.reserved:
                problem = "is being deleted" if found.terminating else "has no devices"
            if problem:
                return events.ClaimsAllocated(command.claim, f"ResourceClaim {each.key} {problem}")
        return events.ClaimsAllocated(command.claim)

    async def _release(self, command: commands.ReleaseClaims) -> events.ClaimsReleased:
        for each in command.claims:
            namespace, _, name = each.key.partition("/")
            pod = command.name, object_uid(command.uid)
            await self._cluster.release_claim(namespace, name, each.uid, _decoded(each), pod)
        return events.ClaimsReleased(command.claim)

    async def _write(self, command: commands.ClusterWrite) -> PodState | None:
        """Execute a write; returns the pod after the write of a condition."""
        match command:
            case commands.Annotate(kind=kind, namespace=namespace, name=name, annotations=annotations):
                await self._cluster.annotate(
                    kind, namespace, name, annotations, uid=object_uid(command.uid), expected=command.expected,
                    unbound=command.unbound,
                )  # fmt: skip
            case commands.SetPodCondition(
                namespace=namespace, name=name, uid=uid, reason=reason, message=message, at=at
            ):
                return await self._cluster.set_pod_condition(
                    namespace, name, object_uid(uid), status=False, reason=reason, message=message, at=at
                )
            case commands.Nominate(namespace=namespace, name=name, uid=uid, node=node, withdraw=withdraw):
                await self._cluster.nominate(namespace, name, object_uid(uid), node, withdraw=withdraw)
            case commands.RecordEvent(record=record):
                await self._cluster.record_event(record._replace(uid=object_uid(record.uid)))
            case commands.SetStatus(kind=kind, namespace=namespace, name=name, uid=uid, status=status, at=at):
                condition = msgspec.structs.asdict(command.condition) if command.condition is not None else None
                await self._cluster.set_status(kind, namespace, name, uid, dict(status), condition=condition, at=at)
            case commands.CreateQueue():
                await self._cluster.ensure(_queue(command))
            case _:
                assert_never(command)
        return None


def _decoded(claim: commands.ClaimDevices) -> Object | None:
    found: Object | None = msgspec.json.decode(claim.allocation) if claim.allocation else None
    return found


def _pod_read(claim: str, pod: PodState) -> events.PodRead:
    return events.PodRead(claim, pod.node, dict(pod.annotations), pod.revision)


def _queue(command: commands.CreateQueue) -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": command.name},
        "spec": {"weight": 1, "reclaimable": command.reclaimable},
    }
