"""PodGroups are admitted to their queues by what they need at least, as Volcano's action enqueue does."""

import pytest
from deviceshare.conf import default_conf, parse_conf, tiers
from deviceshare.model import GroupKey, QueueFact
from deviceshare.queueing import Applicant, EnqueueAction, Group, Job, Queues
from msgspec.structs import replace
from support.builders import MEMORY, card, node, pod, vgpu

CONF = default_conf()


class Door:
    """Queues of a cluster of four cards of 100 MiB, and who waits to be let in."""

    def __init__(self, conf=CONF, **capabilities) -> None:
        self.queues = Queues(conf)
        self.queues.set_node(node(cards=[card(at, memory=100) for at in range(4)]))
        for name, capability in capabilities.items():
            self.queues.set_queue(QueueFact(name=name, capability={MEMORY: capability}))
        self.enqueue = EnqueueAction(self.queues, conf)

    def put(self, name, needs, *, queue="q", priority=0, created=0.0, waiting_time=None) -> None:
        group = Group(key=GroupKey(f"ns/{name}"), pods=())
        job = Job(queue=queue, group=group, priority=priority, created=created, waiting_time=waiting_time)
        self.enqueue.put(Applicant(job, None if needs is None else {MEMORY: needs}))

    def open(self, now=0.0):
        found = self.enqueue.decide(now)
        self.why = {each.job.key.removeprefix("ns/"): str(shortage) for each, shortage in found.rejected}
        return [each.job.key.removeprefix("ns/") for each in found.admitted]


def test_as_many_are_let_in_as_the_capability_can_hold():
    door = Door(q=250)
    for number, name in enumerate("abc"):
        door.put(name, 100, created=number)
    assert door.open() == ["a", "b"]
    assert door.why["c"] == (
        "queue 'q' has a capability of 250 MiB of volcano.sh/vgpu-memory, 200 MiB promised, 100 MiB asked"
    )
    assert door.open() == []
    door.queues.release_commitment(GroupKey("ns/a"))
    assert door.open() == ["c"]


def test_one_that_is_too_large_does_not_keep_out_those_behind_it():
    door = Door(q=250)
    door.put("huge", 300, priority=5)
    door.put("small", 100)
    assert door.open() == ["small"]


def test_a_queue_without_a_capability_has_the_whole_cluster():
    door = Door()
    door.put("a", 300)
    door.put("b", 200)
    assert door.open() == ["a"]
    assert door.why["b"].startswith("queue 'q' is limited to the cluster's 400 MiB of volcano.sh/vgpu-memory, 300 MiB")


def test_what_a_group_has_counts_once_and_what_is_more_than_it_needs_does_not():
    door = Door(q=300)
    door.put("a", 100)
    assert door.open() == ["a"]
    for at in range(3):
        each = pod(f"a{at}", vgpu(1, 100), gang="a")
        door.queues.put(each, "q", each.group)
        door.queues.hold(each.uid)
    door.put("b", 200)
    assert door.open() == ["b"]


def test_placed_pods_without_a_podgroup_count():
    door = Door(q=300)
    each = pod("single", vgpu(1, 100))
    door.queues.put(each, "q", each.group)
    door.queues.hold(each.uid)
    door.put("b", 250)
    assert door.open() == []
    assert door.why["b"].endswith("100 MiB promised, 250 MiB asked")
    door.queues.drop(each.uid)
    assert door.open() == ["b"]


@pytest.mark.parametrize("plugin", ["proportion", "overcommit"])
@pytest.mark.parametrize("queue", ["q", "other"])
def test_waiting_pods_without_a_podgroup_keep_no_group_out(plugin, queue):
    """In Volcano each has a PodGroup, which is not admitted, or whose gated pods do not count."""
    door = Door(replace(CONF, tiers=tiers(plugin), overcommit=1.0))
    each = pod("single", vgpu(4, 1000))
    door.queues.put(each, queue, each.group)
    door.put("a", 300)
    assert door.open() == ["a"]


def test_who_needs_nothing_is_admitted():
    door = Door(q=1)
    door.put("a", None)
    assert door.open() == ["a"]


def test_without_the_action_everybody_is_admitted():
    door = Door(replace(CONF, actions=("allocate",)), q=1)
    door.put("a", 100)
    assert door.open() == ["a"]


def test_without_a_deciding_plugin_every_group_is_admitted():
    door = Door(replace(CONF, tiers=tiers("gang")), q=1)
    door.put("a", 100)
    assert door.open() == ["a"]


@pytest.mark.parametrize(("factor", "let_in"), [(1.0, ["a"]), (1.5, ["a", "b"])])
def test_overcommit_promises_so_much_more_than_there_is(factor, let_in):
    door = Door(replace(CONF, tiers=tiers("overcommit"), overcommit=factor))
    door.put("a", 300, created=1)
    door.put("b", 300, created=2)
    assert door.open() == let_in
    if let_in == ["a"]:
        assert door.why["b"] == (
            "the overcommit limit of volcano.sh/vgpu-memory is 400 MiB, 300 MiB promised, 300 MiB asked"
        )


def test_overcommit_counts_what_pods_of_other_schedulers_have():
    door = Door(replace(CONF, tiers=tiers("overcommit"), overcommit=1.0))
    other = pod("other", vgpu(1, 80), node="n1", scheduler="default-scheduler")
    door.queues.put_other(other)
    door.queues.put_other(other)
    door.put("a", 300, created=1)
    door.put("b", 30, created=2)
    assert door.open() == ["a"]
    assert door.why["b"] == "the overcommit limit of volcano.sh/vgpu-memory is 400 MiB, 380 MiB promised, 30 MiB asked"
    door.queues.drop(other.uid)
    assert door.open() == ["b"]


def test_a_group_that_waited_too_long_is_admitted_unless_its_tier_or_an_earlier_one_rejects_it():
    for plugins, let_in in ((("sla", "proportion"), ["a"]), (("sla proportion",), []), (("proportion", "sla"), [])):
        door = Door(replace(CONF, tiers=tiers(*plugins), waiting_time=60.0), q=50)
        door.put("a", 100, created=10.0)
        assert door.open(69.0) == []
        assert door.enqueue.due(69.0) == [70.0]
        assert door.open(70.0) == let_in, plugins


@pytest.mark.parametrize("permitting", ["proportion", "capacity", "sla"])
def test_a_tier_that_permits_a_group_admits_it_without_the_later_ones(permitting):
    """Overcommit rejects what is more than half of the cluster; a plugin that rejects in the same tier is final."""
    for plugins, let_in in (((permitting, "overcommit"), ["a"]), ((f"{permitting} overcommit",), [])):
        door = Door(replace(CONF, tiers=tiers(*plugins), overcommit=0.5, waiting_time=60.0))
        door.put("a", 300)
        assert door.open(60.0) == let_in, plugins


def test_a_tier_that_neither_permits_nor_rejects_leaves_it_to_the_next():
    for plugins in (("gang", "overcommit"), ("sla", "overcommit")):
        door = Door(replace(CONF, tiers=tiers(*plugins), overcommit=0.5, waiting_time=60.0))
        door.put("a", 300)
        assert door.open(59.0) == [], plugins
        door.put("a", 200)
        assert door.open(59.0) == ["a"], plugins


def test_a_queue_of_which_nothing_is_known_yet_lets_in_no_more_than_the_queues_above_it_have():
    plugins = (
        "- {name: capacity, enableHierarchy: true}\n- {name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}"
    )
    door = Door(parse_conf(plugins, "x"), root=100)
    door.put("a", 200, queue="default")
    assert door.open() == []
