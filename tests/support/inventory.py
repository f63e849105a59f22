"""The core of inventory, a cluster's changes and a bus that answers at once; inventory at work, waited for."""

import asyncio
import json

from deviceshare_bus.messages import decode_fact
from deviceshare_cluster.interface import Change, ChangeType, Listed
from deviceshare_inventory.configs import Configs
from deviceshare_inventory.core import Core
from deviceshare_inventory.desired_state import ReadBack, Write
from nats.js.errors import NotFoundError

OURS = frozenset({"deviceshare", "volcano"})


def new_core(file=None, limit=1000):
    return Core(OURS, Configs(file), limit)


def pod(name="a", uid="u1", revision=1, scheduler="volcano", node=None, phase="Pending", **metadata):
    raw = {
        "metadata": {"name": name, "namespace": "default", "uid": uid, "resourceVersion": str(revision), **metadata},
        "spec": {"schedulerName": scheduler, "containers": [{"name": "main"}], **({"nodeName": node} if node else {})},
        "status": {"phase": phase},
    }
    return Change(ChangeType.APPLIED, "Pod", "default", name, revision, json.dumps(raw).encode())


def node(name="n1", revision=1, annotations=None, **status):
    metadata = {"name": name, "uid": name, "resourceVersion": str(revision), "annotations": annotations or {}}
    raw = {"metadata": metadata, "status": status}
    return Change(ChangeType.APPLIED, "Node", "", name, revision, json.dumps(raw).encode())


def config_map(text, revision, name="volcano-scheduler-configmap", key="volcano-scheduler.conf"):
    raw = {"metadata": {"name": name, "namespace": "kube-system"}, "data": {key: text}}
    return Change(ChangeType.APPLIED, "ConfigMap", "kube-system", name, revision, json.dumps(raw).encode())


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


def work_off(core, bus, now=1.0):
    """Carry out all that the core says, the bus answering at once; return what was not a write."""
    said = []
    while instructions := core.take(now):
        for one in instructions:
            if isinstance(one, Write):
                sequence = bus.write(one.subject, one.data, one.expected)
                if sequence is None:
                    core.desired.unclear(one.subject)
                else:
                    core.desired.acknowledged(one.subject, sequence)
            elif isinstance(one, ReadBack):
                sequence, data = bus.messages.get(one.subject, (0, b""))
                core.desired.read_back(one.subject, sequence, decode_fact(data) if sequence else None)
            else:
                said.append(one)
    return said


def started(changes=(), revision=1, bus=None, file=None):
    core, bus = new_core(file), bus or Bus()
    for subject, (sequence, data) in bus.messages.items():
        core.load(subject, sequence, decode_fact(data))
    core.begin_list()
    core.deliver([*changes, Listed(revision)])
    return core, bus, work_off(core, bus)


async def until(true):
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.01)


async def settled(context, revision):
    await until(lambda: context.revision() >= revision and not context.open_work())


async def stands(context, subject):
    try:
        return decode_fact((await context.connection.jetstream.get_last_msg("CLUSTER", subject)).data)
    except NotFoundError:
        return None
