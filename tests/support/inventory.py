"""The core of inventory, driven by events, with a bus that answers at once; waiting for a running inventory."""

import json
from collections import Counter

from deviceshare.families.vgpu import wire as vgpu_wire
from deviceshare_bus.cores.core import (
    CaughtUp,
    Count,
    Log,
    Now,
    PutLatest,
    Read,
    ReadBack,
    RecordStep,
    Tick,
    Unreadable,
    Write,
    WriteConflict,
    Written,
)
from deviceshare_bus.cores.core_log import CoreLog
from deviceshare_bus.messages.codec import Message, decode_fact, encode
from deviceshare_bus.messages.subjects import SYNCED
from deviceshare_cluster.interface import Change, ChangeType, Listed
from deviceshare_inventory.core import (
    EventRecorded,
    FactReceived,
    InventoryCore,
    RecordEvent,
    WatchStarted,
    build_core,
    core_arguments,
)
from deviceshare_inventory.service import split
from nats.js.errors import NotFoundError
from support.waiting import until

OURS = frozenset({"deviceshare", "volcano"})


class Driver:
    """Passes events to a core and keeps its commands until they are taken; ``log`` is the core log."""

    def __init__(self, file=None, limit=None, keys=(), schedulers=OURS):
        arguments = core_arguments(schedulers, file, 0.5)
        self.core = build_core(arguments, keys)
        if limit is not None:
            self.core = InventoryCore(schedulers, file, keys=keys, limit=limit)
        self.log = CoreLog("inventory", "test", arguments, limit=1_000_000)
        self.now = Now(0.0, 1.0)
        self.commands = []
        self.counts = Counter()
        self.logged = []

    def handle(self, event):
        commands = self.core.handle(event, self.now)
        self.log.append(self.now, event, commands)
        self.commands += commands

    def load(self, subject, sequence, fact):
        if subject != SYNCED and not self.core.knows(Message(subject, sequence, encode(fact) if fact else b"")):
            event = FactReceived(subject, sequence, fact) if fact else Unreadable("CLUSTER", subject, sequence)
            self.handle(event)

    def load_all(self, bus):
        for subject, (sequence, data) in bus.messages.items():
            self.load(subject, sequence, decode_fact(data))
        self.handle(CaughtUp("CLUSTER"))

    def begin_list(self):
        self.handle(WatchStarted())

    def deliver(self, batch):
        for event in split(batch):
            self.handle(event)

    def take(self):
        """Let the core act; return the commands since the last call, without what is logged and counted."""
        self.handle(Tick())
        commands, self.commands = self.commands, []
        for one in commands:
            if isinstance(one, Count):
                self.counts[one.name] += one.amount
            elif isinstance(one, Log):
                self.logged.append(one)
        return [one for one in commands if not isinstance(one, Count | Log)]

    def wait(self, seconds):
        self.now = Now(self.now.monotonic + seconds, self.now.wall + seconds)

    @property
    def open_work(self):
        return self.core.open_work

    @property
    def revision(self):
        return self.core.revision


def change(kind, name, revision, *, namespace="", deleted=False, metadata=None, **rest):
    """Return the change of an object with this metadata and further fields."""
    known = {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": str(revision),
        **({"namespace": namespace} if namespace else {}),
    }
    raw = {"kind": kind, "metadata": known | (metadata or {}), **rest}
    state = ChangeType.DELETED if deleted else ChangeType.APPLIED
    return Change(state, kind, namespace, name, revision, json.dumps(raw).encode())


def pod(name="a", uid="u1", revision=1, scheduler="volcano", node=None, phase="Pending", limits=None, **metadata):
    containers = [{"name": "main", **({"resources": {"limits": limits}} if limits else {})}]
    spec = {"schedulerName": scheduler, "containers": containers, **({"nodeName": node} if node else {})}
    metadata = {"uid": uid, **metadata}
    return change("Pod", name, revision, namespace="default", metadata=metadata, spec=spec, status={"phase": phase})


def node(name="n1", revision=1, annotations=None, **status):
    return change("Node", name, revision, metadata={"annotations": annotations or {}}, status=status)


REGISTER = "GPU-0,10,32000,V100,true,hami-core:GPU-1,10,32000,V100,true,hami-core:"
VGPU = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 3000}


def vgpu_node(revision=1, register=REGISTER, offered=20, **annotations):
    """Return a ready node with vGPU cards."""
    status = {"allocatable": {"volcano.sh/vgpu-number": str(offered)}}
    ready = [{"type": "Ready", "status": "True"}]
    return node("n1", revision, {vgpu_wire.REGISTER: register, **annotations}, **status, conditions=ready)


def vgpu_pod(ids="GPU-0,NVIDIA,3000,0:", revision=2, node="n1", phase="Running", limits=VGPU, **annotations):
    """Return a pod that another scheduler bound with the vGPUs of an annotation; without a node, one of ours."""
    named = {vgpu_wire.IDS: ids} if ids else {}
    scheduler = "other" if node else "volcano"
    return pod("a", "u1", revision, scheduler, node, phase, limits, annotations=named | annotations)


def config_map(text, revision, name="volcano-scheduler-configmap", key="volcano-scheduler.conf"):
    return change("ConfigMap", name, revision, namespace="kube-system", data={key: text})


def gone(kind, name, revision):
    namespace = "" if kind in ("Node", "Queue") else "default"
    return Change(ChangeType.DELETED, kind, namespace, name, revision, b"")


class Bus:
    """The last message of every subject, compare-and-set as JetStream does it."""

    def __init__(self):
        self.sequence = 0
        self.messages = {}
        self.log = []

    def write(self, subject, data, expected):
        if expected is not None and expected != self.messages.get(subject, (0, b""))[0]:
            return None
        self.sequence += 1
        self.messages[subject] = (self.sequence, data)
        self.log.append((subject, self.sequence, data))
        return self.sequence

    def fact(self, subject):
        return decode_fact(self.messages[subject][1])


def execute(driver, bus, command):
    """Execute a command, the bus and the cluster answering at once."""
    match command:
        case Write(token=token, writes=(write,)):
            sequence = bus.write(write.subject, write.message, write.expected)
            driver.handle(WriteConflict(token) if sequence is None else Written(token, sequence))
        case Read(subject=subject):
            sequence, data = bus.messages.get(subject, (0, b""))
            if sequence:
                driver.load(subject, sequence, decode_fact(data))
            driver.handle(ReadBack(subject, sequence))
        case PutLatest(subject=subject, message=message):
            bus.write(subject, encode(message), None)
        case RecordEvent(token=token):
            driver.handle(EventRecorded(token))


def work_off(driver, bus, *changes):
    """Deliver changes, if any, and execute all commands; return the Events and steps that were recorded."""
    if changes:
        driver.deliver(changes)
    recorded = []
    while commands := driver.take():
        for one in commands:
            execute(driver, bus, one)
            if isinstance(one, RecordEvent):
                recorded.append(one.record)
            elif isinstance(one, RecordStep):
                recorded.append(one)
    return recorded


def started(changes=(), revision=1, bus=None, **options):
    driver, bus = Driver(**options), bus or Bus()
    driver.load_all(bus)
    driver.begin_list()
    return driver, bus, work_off(driver, bus, *changes, Listed(revision))


async def settled(context, revision):
    await until(lambda: context.revision() >= revision and not context.open_work())


async def stands(context, subject):
    try:
        return decode_fact((await context.connection.jetstream.get_last_msg("CLUSTER", subject)).data)
    except NotFoundError:
        return None
