"""The binder service: its core follows CLUSTER, LEDGER, OUTCOME and EXPLAIN, and writes OUTCOME and the cluster."""

import random
from collections.abc import Sequence
from typing import assert_never

import msgspec
from deviceshare.conf import SCHEDULER
from deviceshare.model import Claim, ConfigFact
from deviceshare_bus.core import Event
from deviceshare_bus.follower import Message
from deviceshare_bus.messages import decode_explanation, decode_fact, decode_outcomes
from deviceshare_bus.service import Context
from deviceshare_bus.shell import Shell, Source
from deviceshare_bus.subjects import Stream, node_of
from deviceshare_cluster import open_cluster
from deviceshare_cluster.interface import Cluster, ClusterError, Object
from deviceshare_cluster.signing import signing_keys

from deviceshare_binder.core import BinderCore, build_core
from deviceshare_binder.core.commands import (
    Annotate,
    BindPod,
    ClaimRequest,
    ClusterWrite,
    CreateQueue,
    LockNode,
    ReadPod,
    RecordEvent,
    SetPodCondition,
    SetStatus,
)
from deviceshare_binder.core.events import (
    BindAnswered,
    ClusterFailed,
    ClusterWritten,
    Explained,
    LedgerChanged,
    LockAnswered,
    NodeChanged,
    OutcomesChanged,
    PodChanged,
    PodGroupChanged,
    PodRead,
    QueueChanged,
    SchedulerConfigured,
)
from deviceshare_binder.core.views import GoneView, NodeView, PodGroupView, PodUsage, PodView, QueueView

MOST_JITTER = 0.5
"""The largest share of its pause by which a retry is delayed, so that retries do not coincide."""


class _RawLedger(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    claims: tuple[msgspec.Raw, ...] = ()


_decode_pod = msgspec.msgpack.Decoder(PodView | GoneView).decode
_decode_usage = msgspec.msgpack.Decoder(PodUsage).decode
_decode_node = msgspec.msgpack.Decoder(NodeView | GoneView).decode
_decode_group = msgspec.msgpack.Decoder(PodGroupView | GoneView).decode
_decode_queue = msgspec.msgpack.Decoder(QueueView | GoneView).decode
_decode_ledger = msgspec.msgpack.Decoder(_RawLedger).decode
_decode_claim = msgspec.msgpack.Decoder(Claim).decode


async def main(context: Context) -> None:
    """Run the binder until cancelled."""
    options = context.options
    arguments = {"plugin_patience": options.plugin_patience, "reports_per_second": options.reports_per_second}
    async with open_cluster(options.cluster, "deviceshare-binder", context.instance) as cluster:
        await run(context, cluster, arguments, signing_keys())


async def run(context: Context, cluster: Cluster, arguments: dict[str, float], keys: Sequence[bytes]) -> None:
    """Run the binder on a cluster until cancelled; ``arguments`` are the core's."""
    core = build_core(arguments, keys)
    context.detail = lambda: core.detail
    await Shell(context, core, sources(core), ClusterSide(cluster).perform, arguments=arguments).run()


def sources(core: BinderCore) -> list[Source]:
    """Return the streams that the binder follows."""

    def outcomes(message: Message) -> OutcomesChanged:
        return OutcomesChanged(node_of(message.subject), message.sequence, decode_outcomes(message.data).outcomes)

    def explanation(message: Message) -> Explained:
        return Explained(decode_explanation(message.data))

    return [
        Source(Stream.CLUSTER, decode_cluster),
        Source(Stream.OUTCOME, outcomes, known=core.knows_outcomes),
        Source(Stream.LEDGER, LedgerDecoder().decode),
        Source(Stream.EXPLAIN, explanation),
    ]


def decode_cluster(message: Message) -> Event | None:
    """Return the event of a message of CLUSTER. Raises ``msgspec.MsgspecError``."""
    kind, _, key = message.subject.removeprefix("cluster.").partition(".")
    match kind:
        case "pod":
            pod = _decode_pod(message.data)
            if isinstance(pod, GoneView):
                return PodChanged(key, None)
            return PodChanged(key, pod, _decode_usage(message.data) if pod.counts else None)
        case "node":
            node = _decode_node(message.data)
            return NodeChanged(key, None if isinstance(node, GoneView) else node)
        case "podgroup":
            group = _decode_group(message.data)
            return PodGroupChanged(key.replace(".", "/", 1), None if isinstance(group, GoneView) else group)
        case "queue":
            queue = _decode_queue(message.data)
            return QueueChanged(key, None if isinstance(queue, GoneView) else queue)
        case "config" if key == SCHEDULER:
            config = decode_fact(message.data)
            return SchedulerConfigured(config if isinstance(config, ConfigFact) else None)
    return None


class LedgerDecoder:
    """Decodes messages of LEDGER; of a node's claims only those that its previous message did not have."""

    def __init__(self) -> None:
        self._claims: dict[str, dict[bytes, Claim]] = {}
        """The claims of each node with claims, by their encoding."""

    def decode(self, message: Message) -> LedgerChanged:
        """Return the event of a message. Raises ``msgspec.MsgspecError``."""
        ledger = _decode_ledger(message.data)
        before = self._claims.pop(ledger.node, {})
        claims = {raw: before.get(raw) or _decode_claim(raw) for raw in map(bytes, ledger.claims)}
        if claims:
            self._claims[ledger.node] = claims
        return LedgerChanged(ledger.node, tuple(claims.values()))


class ClusterSide:
    """Executes the commands that concern the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def perform(self, command: ClaimRequest | ClusterWrite) -> Event:
        """Execute a command of :mod:`.core.commands` and return the event that answers it."""
        try:
            match command:
                case BindPod():
                    return await self._bind(command)
                case ReadPod():
                    return await self._read(command)
                case LockNode():
                    return await self._lock(command)
                case _:
                    await self._write(command)
                    return ClusterWritten(command)
        except ClusterError as error:
            jitter = random.uniform(0.0, MOST_JITTER)  # noqa: S311 - not for secrets
            return ClusterFailed(command, str(error), error.final, jitter)

    async def _bind(self, bind: BindPod) -> BindAnswered:
        found = await self._cluster.bind(bind.namespace, bind.name, bind.uid, bind.node, bind.annotations)
        return BindAnswered(bind.claim, found.state, found.node, found.reason, dict(found.annotations))

    async def _read(self, read: ReadPod) -> PodRead:
        pod = await self._cluster.get("Pod", read.namespace, read.name)
        if pod is None or pod["metadata"].get("uid") != read.uid:
            return PodRead(read.claim, None)
        return PodRead(read.claim, pod["spec"].get("nodeName") or "", pod["metadata"].get("annotations") or {})

    async def _lock(self, lock: LockNode) -> LockAnswered:
        key = lock.annotation
        found = await self._cluster.annotate("Node", "", lock.node, {key: lock.value}, expected={key: lock.expected})
        return LockAnswered(lock.claim, (found or {}).get(key))

    async def _write(self, command: ClusterWrite) -> None:
        match command:
            case Annotate(kind=kind, namespace=namespace, name=name, annotations=annotations):
                await self._cluster.annotate(
                    kind, namespace, name, annotations, uid=command.uid, expected=command.expected
                )
            case SetPodCondition(namespace=namespace, name=name, uid=uid, reason=reason, message=message, at=at):
                await self._cluster.set_pod_condition(
                    namespace, name, uid, status=False, reason=reason, message=message, at=at
                )
            case RecordEvent(record=record):
                await self._cluster.record_event(record)
            case SetStatus(kind=kind, namespace=namespace, name=name, uid=uid, status=status, at=at):
                condition = msgspec.structs.asdict(command.condition) if command.condition is not None else None
                await self._cluster.set_status(kind, namespace, name, uid, dict(status), condition=condition, at=at)
            case CreateQueue():
                await self._cluster.ensure(_queue(command))
            case _:
                assert_never(command)


def _queue(command: CreateQueue) -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": command.name},
        "spec": {"weight": 1, "reclaimable": command.reclaimable},
    }
