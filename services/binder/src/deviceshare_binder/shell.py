"""The binder's shell: the streams, the cluster, the clock around the core."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import NamedTuple

import msgspec
from deviceshare.conf import SCHEDULER, EffectiveConfiguration
from deviceshare.model import ADMITTED, BOUND, PENDING, REJECTED, ConfigFact, NodeOutcomes, Outcome
from deviceshare_bus.follower import Message
from deviceshare_bus.messages import decode_explanation, decode_fact, decode_outcomes, encode
from deviceshare_bus.publisher import Conflict, Refused, Write
from deviceshare_bus.readback import read_back
from deviceshare_bus.service import Context
from deviceshare_bus.subjects import Stream, node_of, outcome
from deviceshare_bus.tasks import Pace
from deviceshare_cluster import open_cluster
from deviceshare_cluster.interface import Cluster, ClusterError
from deviceshare_cluster.signing import signing_keys

from deviceshare_binder.bind_task import Bind, Finished, GiveUp, Read, WriteOutcomes
from deviceshare_binder.core import RETRY, Core
from deviceshare_binder.groups import Groups, PodGroupView
from deviceshare_binder.locks import Lock, Unlock
from deviceshare_binder.plugin_handoff import PATIENCE, Stuck
from deviceshare_binder.queues import Charge, Charges, QueueView
from deviceshare_binder.reporter import Reporter
from deviceshare_binder.reports import Reports
from deviceshare_binder.system_queues import keep_queues
from deviceshare_binder.views import GoneView, Ledgers, PodView, decode_node, decode_pod

log = logging.getLogger("deviceshare.binder")

FOLD = 0.002
"""Seconds in which answers and facts gather, while they come that fast."""

decode_group = msgspec.msgpack.Decoder(PodGroupView | GoneView).decode
decode_charge = msgspec.msgpack.Decoder(Charge).decode
decode_queue = msgspec.msgpack.Decoder(QueueView | GoneView).decode


class Annotation(NamedTuple):
    """Annotations to be written on an object, if the expected ones stand there."""

    kind: str
    namespace: str
    name: str
    uid: str
    annotations: Mapping[str, str | None]
    expected: Mapping[str, str | None]


async def main(context: Context) -> None:
    """Run the binder until cancelled."""
    async with open_cluster(context.options.cluster, "deviceshare-binder", context.instance) as cluster:
        options = context.options
        await Binder(context, cluster, options.reports_per_second, options.plugin_patience).run()


class Binder:
    """Moves bytes between the bus, the core and a cluster."""

    def __init__(
        self, context: Context, cluster: Cluster, reports_per_second: float = 200.0, plugin_patience: float = PATIENCE
    ) -> None:
        self._context = context
        self._cluster = cluster
        self._core = Core(keys=signing_keys(), patience=plugin_patience)
        self._reports = Reports(self._core.pods)
        self._groups = Groups()
        self._charges = Charges()
        self._ledgers = Ledgers()
        self._conf = EffectiveConfiguration()
        self._reporter = Reporter(
            cluster, self._reports, self._groups, reports_per_second, busy=lambda: self._core.in_flight > 0
        )
        self._annotating = 0
        self._work = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._unclear: list[str] = []
        """Nodes whose outcomes have to be read back."""
        self._needed = {Stream.LEDGER, Stream.OUTCOME, Stream.CLUSTER}
        context.open_work = lambda: self._core.open_work + self._reporter.open + self._annotating
        context.detail = lambda: {
            "in_flight": self._core.in_flight,
            "reports": self._reports.waiting,
            "stuck": self._core.handoffs.stuck,
        }

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            self._group.create_task(self._follow(Stream.CLUSTER, self._fact))
            self._group.create_task(self._follow(Stream.OUTCOME, self._outcomes))
            self._group.create_task(self._follow(Stream.LEDGER, self._ledger))
            self._group.create_task(self._follow(Stream.EXPLAIN, self._explanation))
            self._group.create_task(self._carry_out())
            self._group.create_task(self._reporter.run())
            self._group.create_task(keep_queues(self._cluster, self._missing_queues))

    # -- reading ------------------------------------------------------------------------------------------------------

    async def _follow(self, stream: Stream, take: Callable[[Message, bool], None]) -> None:
        live = False
        async for batch in self._context.follow(stream):
            for message in batch.messages:
                try:
                    take(message, live)
                except msgspec.MsgspecError as error:
                    self._context.events.quarantine(stream, message, error)
            live = batch.caught_up
            if live and stream in self._needed:
                self._needed.discard(stream)
                if not self._needed:
                    self._core.start()
            self._work.set()
            self._reporter.look()

    def _fact(self, message: Message, _live: bool) -> None:
        kind, _, key = message.subject.removeprefix("cluster.").partition(".")
        if kind == "pod":
            pod = decode_pod(message.data)
            view = None if isinstance(pod, GoneView) else pod
            self._core.pod(key, view)
            self._reports.pod(key, view)
            self._groups.pod(key, view)
            self._charge(key, view, message.data)
        elif kind == "node":
            node = decode_node(message.data)
            self._core.node(key, None if isinstance(node, GoneView) else node)
        elif kind == "podgroup":
            group = decode_group(message.data)
            self._groups.group(key.replace(".", "/", 1), group if isinstance(group, PodGroupView) else None)
        elif kind == "queue":
            queue = decode_queue(message.data)
            self._groups.queue(key, queue if isinstance(queue, QueueView) else None)
        elif kind == "config" and key == SCHEDULER:
            conf = decode_fact(message.data)
            if isinstance(conf, ConfigFact):
                self._conf.take(conf)
                if key in self._conf.problems:
                    log.warning("%s", self._conf.problems[key])
            else:
                self._conf.drop(key)
            self._core.locks.every_family = self._conf.conf.node_lock
            for uid, amounts in self._charges.configure(self._conf.conf).items():
                self._groups.charge(uid, amounts)

    def _charge(self, uid: str, pod: PodView | None, data: bytes) -> None:
        """Count in a queue what a pod of a PodGroup has while it is bound there; a terminating one does not count."""
        if pod is None or not pod.counts:
            self._charges.drop(uid)
            self._groups.charge(uid, ())
        else:
            self._groups.charge(uid, self._charges.put(uid, decode_charge(data)))

    def _missing_queues(self) -> list[str]:
        """Return the Queues of the system that do not exist; none before the cluster is known."""
        return [] if Stream.CLUSTER in self._needed else self._groups.missing_queues

    def _ledger(self, message: Message, _live: bool) -> None:
        self._core.ledger(*self._ledgers.decode(message.data))

    def _outcomes(self, message: Message, _live: bool) -> None:
        name = node_of(message.subject)
        node = self._core.nodes.get(name)
        if node is None or message.sequence > node.sequence:
            self._core.outcomes(name, message.sequence, self._decode_outcomes(message))

    def _decode_outcomes(self, message: Message) -> dict[str, Outcome]:
        """Return outcomes by claim; a message that cannot be decoded is put aside and counts as none."""
        try:
            return {one.claim: one for one in decode_outcomes(message.data).outcomes}
        except msgspec.MsgspecError as error:
            self._context.events.quarantine(Stream.OUTCOME, message, error)
            return {}

    def _explanation(self, message: Message, live: bool) -> None:
        explanation = decode_explanation(message.data)
        if explanation.decision in (ADMITTED, REJECTED):
            self._groups.decided(explanation)
            return
        self._reports.explained(explanation, event=live)
        if explanation.decision == PENDING:
            self._groups.explained(explanation)

    # -- doing --------------------------------------------------------------------------------------------------------

    async def _carry_out(self) -> None:
        """Do what the core says, whenever something happened or its time has come."""
        pace = Pace(FOLD)
        while True:
            await self._work.wait()
            await pace.turn()
            self._work.clear()
            for instruction in self._core.take(time.time()):
                match instruction:
                    case Bind():
                        self._group.create_task(self._bind(instruction))
                    case WriteOutcomes():
                        await self._write(instruction)
                    case Finished():
                        self._finished(instruction)
                    case Read():
                        self._group.create_task(self._read(instruction))
                    case Lock():
                        self._group.create_task(self._lock(instruction))
                    case Unlock():
                        node, key, value = instruction
                        self._annotate(Annotation("Node", "", node, "", {key: None}, {key: value}))
                    case GiveUp():
                        self._annotate(Annotation("Pod", *instruction, {}))
                    case Stuck():
                        self._stuck(instruction)
            unclear, self._unclear = self._unclear, []
            for node in unclear:
                self._group.create_task(self._read_back(node))
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            due = self._core.next_due()
            if due is not None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(max(0.0, due - time.time()) + 0.001, self._work.set)

    async def _bind(self, bind: Bind) -> None:
        try:
            done = await self._cluster.bind(bind.namespace, bind.name, bind.uid, bind.node, bind.annotations)
        except ClusterError as error:
            self._failed(bind.claim, f"bind {bind.namespace}/{bind.name}", error)
        else:
            self._core.bind_answered(bind.claim, done.state, done.node, done.reason, time.time(), done.annotations)
        self._work.set()

    async def _read(self, read: Read) -> None:
        try:
            pod = await self._cluster.get("Pod", read.namespace, read.name)
        except ClusterError as error:
            self._failed(read.claim, f"read {read.namespace}/{read.name}", error)
        else:
            there = pod is not None and pod["metadata"].get("uid") == read.uid
            node = (pod["spec"].get("nodeName") or "") if pod is not None and there else None
            annotations = (pod["metadata"].get("annotations") or {}) if pod is not None else {}
            self._core.read_answered(read.claim, node, time.time(), annotations)
        self._work.set()

    async def _lock(self, lock: Lock) -> None:
        key = lock.annotation
        try:
            standing = await self._cluster.annotate(
                "Node", "", lock.node, {key: lock.value}, expected={key: lock.expected}
            )
        except ClusterError as error:
            self._failed(lock.claim, f"lock {lock.node}", error)
        else:
            self._core.lock_answered(lock.claim, (standing or {}).get(key), time.time())
        self._work.set()

    def _annotate(self, annotation: Annotation) -> None:
        self._group.create_task(self._until_annotated(annotation))

    async def _until_annotated(self, one: Annotation) -> None:
        """Write annotations, however long the cluster does not answer."""
        self._annotating += 1
        try:
            for failures in count():
                try:
                    await self._cluster.annotate(
                        one.kind, one.namespace, one.name, one.annotations, uid=one.uid, expected=one.expected
                    )
                    return
                except ClusterError as error:
                    log.debug("cannot annotate %s %s/%s yet: %s", one.kind, one.namespace, one.name, error)
                    self._context.events.count("cluster_errors")
                    await asyncio.sleep(RETRY.delay(failures))
        finally:
            self._annotating -= 1

    def _stuck(self, stuck: Stuck) -> None:
        self._context.events.count("hand_overs_stuck")
        self._reports.stuck(stuck, self._core.claims(stuck.waiting))
        log.warning("a device plugin does not serve a pod", extra={"uid": stuck.uid, "node": stuck.node})
        self._reporter.look()

    def _failed(self, claim: str, what: str, error: ClusterError) -> None:
        log.debug("cannot %s yet: %s", what, error)
        self._context.events.count("cluster_errors")
        self._core.failed(claim, time.time(), random.random() / 2)  # noqa: S311 - jitter

    def _finished(self, finished: Finished) -> None:
        claim = finished.claim
        pod = f"{claim.namespace}/{claim.name}"
        self._context.events.step(
            claim.uid, pod, finished.state, node=finished.node, message=finished.reason, since=claim.decided_at
        )
        if finished.state == BOUND:
            self._reports.bound(claim, finished.node)
            self._reporter.look()
        elif finished.reason:
            log.info("claim refused: %s: %s", pod, finished.reason, extra={"node": finished.node, "claim": claim.id})

    async def _write(self, write: WriteOutcomes) -> None:
        data = encode(NodeOutcomes(node=write.node, outcomes=write.outcomes))
        future = await self._context.publisher.send(Write(outcome(write.node), data, write.sequence))
        future.add_done_callback(lambda done: self._written(write.node, done))

    def _written(self, node: str, done: asyncio.Future[int]) -> None:
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            self._core.outcomes_written(node, done.result())
        elif isinstance(error, Refused):
            log.error("the bus does not take the outcomes of %s: %s", node, error)
            self._core.outcomes_refused(node)
        else:
            if isinstance(error, Conflict):
                self._context.events.count("binder_conflicts")
            self._core.outcomes_unclear(node)
            self._unclear.append(node)
        self._work.set()

    async def _read_back(self, node: str) -> None:
        """Read a node's outcomes from the bus."""
        found = await read_back(self._context.connection, Stream.OUTCOME, outcome(node))
        if found is None:
            self._core.outcomes_read(node, 0, {})
        else:
            self._core.outcomes_read(node, found.sequence, self._decode_outcomes(found))
        self._work.set()
