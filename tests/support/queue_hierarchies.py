"""Queues with parents, their pods, and the order in which they are served."""

from deviceshare.conf import Extensions, SchedulerConf, default_conf, tiers
from deviceshare.conf.model import Plugin
from deviceshare.model import QueueFact
from msgspec.structs import replace
from support.builders import ask, container, node
from support.queue_scene import Scene

GIB = 2**30
GPU = "nvidia.com/gpu"


def conf(*plugins: Plugin, **off: bool) -> SchedulerConf:
    return replace(default_conf(), tiers=(*tiers("priority gang"), plugins), extensions=Extensions(**off))


CAPACITY = conf(Plugin("drf"), Plugin("capacity"))
TREE = conf(Plugin("drf"), Plugin("capacity", hierarchy=True))
HDRF = conf(Plugin("drf", hierarchy=True))


def queue(name: str, parent: str = "", *, created: float = 0.0, **rest) -> QueueFact:
    """Return a queue; amounts are (CPUs, GiB of memory) or a mapping."""
    amounts = {
        key: {"cpu": value[0] * 1000, "memory": value[1] * GIB} if isinstance(value, tuple) else value
        for key, value in rest.items()
        if key in ("capability", "deserved", "guarantee")
    }
    return QueueFact(name=name, parent=parent, created=created, **(rest | amounts))


def what(cpu: int = 0, memory: int = 0, **more: int):
    """Return what a pod requests: millicores, GiB."""
    return ask(container(cpu=cpu, memory=memory * GIB, **more))


def cluster(cpu: int = 8, memory: int = 8, **more: int):
    return node("n", cpu=cpu * 1000, memory=memory * GIB, **more)


def play(conf: SchedulerConf, *queues: QueueFact, on=None, minimum=1, **jobs) -> list[str]:
    """Return the pods that are placed, in order, of jobs (queue, count, what); each needs some pods at least."""
    scene = Scene(on or cluster(), conf=conf, queues=queues)
    for created, (name, (where, count, asked)) in enumerate(jobs.items()):
        scene.gang(name, count, asked, minimum=minimum, queue=where, created=float(created))
    scene.decide()
    names = {each.uid: each.name for decision in scene.turns.placed.values() for each, _ in decision.placed}
    return [names[uid] for uid in scene.turns.order]
