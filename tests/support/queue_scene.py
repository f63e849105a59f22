"""A cluster, its queues and pending jobs, driven by a test on the library alone."""

from deviceshare.allocation import Allocator
from deviceshare.conf import SchedulerConf, default_conf
from deviceshare.model import PodFact, QueueFact
from deviceshare.queueing import Dispatcher, Group, Job, Queues
from support.builders import card, node, pod, vgpu


class Scene:
    """A cluster with queues and pending jobs."""

    def __init__(self, *nodes, conf: SchedulerConf | None = None, queues=()) -> None:
        conf = conf or default_conf()
        self.allocator = Allocator(conf)
        self.queues = Queues(conf)
        self.dispatcher = Dispatcher(self.allocator, self.queues, conf)
        self.come(*nodes)
        for each in queues:
            self.queues.set_queue(each)
        self.pods: dict[str, tuple[str, PodFact]] = {}

    def come(self, *nodes) -> None:
        """Add or update nodes."""
        for each in nodes:
            self.allocator.set_node(each)
            self.queues.set_node(each)

    def put(self, *pods: PodFact, queue="default", minimum=None, priority=0, created=0.0, placed=0, tasks=()) -> None:
        """Put the pods of one job into its queue."""
        for each in pods:
            self.queues.put(each, queue, each.group)
        group = Group(
            key=pods[0].group, pods=pods, minimum=len(pods) if minimum is None else minimum, placed=placed, tasks=tasks
        )
        self.dispatcher.put(Job(queue=queue, group=group, priority=priority, created=created))

    def single(self, name, what=None, **rest) -> None:
        """Put a pod without a PodGroup into its queue."""
        self.put(pod(name, what if what is not None else vgpu(1, 10)), **rest)

    def gang(self, name, count, what=None, **rest) -> None:
        """Put a gang of equal pods into its queue."""
        asked = what if what is not None else vgpu(1, 10)
        self.put(*(pod(f"{name}-{at}", asked, gang=name) for at in range(count)), **rest)

    def decide(self, most=1000, now=0.0):
        """Decide; return the names of the placed pods, in order."""
        self.turns = self.dispatcher.decide(most, now)
        placed = [(each, where) for decision in self.turns.placed.values() for each, where in decision.placed]
        self.pods |= {each.name: (where.node, each) for each, where in placed}
        return [each.name for each, _ in placed]

    def until_nothing_is_due(self):
        """Decide whenever something is due, though nothing happens; return when that was."""
        moments = []
        while (due := self.dispatcher.due()) and len(moments) < 100:
            moments.append(min(due))
            self.decide(now=moments[-1])
        return moments

    def end(self, name) -> None:
        """End a pod."""
        where, what = self.pods.pop(name)
        self.allocator.release(where, what.uid)
        self.queues.drop(what.uid)
        self.dispatcher.made_room()

    @property
    def reasons(self) -> dict[str, str]:
        """Why the pods of this round wait."""
        return {
            each.name: "" if why is None else str(why) if not hasattr(why, "nodes") else "no room"
            for _, decision in self.turns.waiting.values()
            for each, why in decision.waiting
        }


def card_node(count, memory=100, name="a", **rest):
    """Return a node with cards of this memory in MiB."""
    return node(name, [card(at, memory=memory, node=name) for at in range(count)], **rest)


def in_queues(*facts):
    """Return queues, each given as a fact or a name."""
    return [fact if isinstance(fact, QueueFact) else QueueFact(name=fact) for fact in facts]
