"""Which pods go for a waiting group, and why none goes."""

import pytest
from deviceshare.model import DisruptionLimit, GroupKey, PodSelection, PodTerm, PodTopology, Requirement
from msgspec.structs import replace
from support.builders import card, node, vgpu
from support.preemption_scene import NOW, PreemptionScene, conf, cpu
from support.whole_state import whole_state

ZONE = "topology.kubernetes.io/zone"


def test_one_large_pod_goes_rather_than_two_small_ones_wherever_it_is():
    scene = PreemptionScene(node("a", cpu=4000), node("b", cpu=4000))
    scene.job("small", cpu(2000), on=["a", "a"])
    scene.job("large", cpu(4000), on=["b"], level="mid")
    scene.job("new", cpu(4000), level="high")
    assert scene.victims("new") == ["large-0"]


def test_of_equally_many_pods_those_of_the_lowest_priorities_go():
    scene = PreemptionScene(node("a", cpu=4000))
    scene.job("mid", cpu(1000), on=["a", "a"], level="mid")
    scene.job("low", cpu(1000), on=["a", "a"])
    scene.job("new", cpu(2000), level="high")
    assert scene.victims("new") == ["low-0", "low-1"]


def test_by_the_order_lowest_several_pods_go_rather_than_one_of_higher_priority():
    scene = PreemptionScene(node("a", cpu=4000), node("b", cpu=4000), conf=conf("priority", PreemptionVictims="lowest"))
    scene.job("small", cpu(2000), on=["a", "a"])
    scene.job("large", cpu(4000), on=["b"], level="mid")
    scene.job("new", cpu(4000), level="high")
    assert scene.victims("new") == ["small-0", "small-1"]


def test_the_pods_of_one_card_go_that_makes_room_on_it():
    scene = PreemptionScene(node("a", [card(at, node="a", memory=10_000) for at in range(3)]))
    for at in range(3):
        scene.job(f"large-{at}", vgpu(1, 6000), level="mid")
        scene.bind()
    for at in range(3):
        scene.job(f"small-{at}", vgpu(1, 4000))
        scene.bind()
    scene.job("new", vgpu(1, 10_000), level="high")
    found = scene.preempt("new")
    assert sorted(each.priority for each in found.victims) == [10, 100]
    cards = {device.id for each in found.victims for grant in each.pod.held for device in grant.devices}
    assert len(cards) == 1
    ((_, placement),) = found.placed
    assert {device.id for grant in placement.grants for device in grant.devices} == cards


def test_nothing_is_changed_by_the_answer():
    scene = PreemptionScene(node("a", [card(0, node="a")], cpu=4000), node("b", cpu=1000))
    scene.job("low", cpu(1000), on=["a", "a", "a", "b"])
    scene.job("new", cpu(2000), 2, level="high", minimum=2)
    scene.scheduler.round(NOW)
    before = whole_state(scene.scheduler)
    assert scene.scheduler.preempt(GroupKey("ns/new"), NOW).victims
    assert whole_state(scene.scheduler) == before


def test_the_budget_that_protects_a_pod_is_named():
    scene = PreemptionScene(node("a", cpu=1000), node("b", cpu=1000))
    scene.budget("b", labels={"app": "x"}, allowed=0, limit=DisruptionLimit(max_unavailable=1))
    scene.job("low", cpu(1000), on=["a", "b"], labels=(("app", "x"),))
    scene.job("new", cpu(1000), level="high")
    found = scene.preempt("new")
    assert str(found) == "0/2 nodes are available: 2 protected by PodDisruptionBudget ns/b: 0 of 1 allowed"


@pytest.mark.parametrize(("allowed", "going"), [((2, 0), 0), ((1, 1), 0), ((2, 1), 3), ((1, 2), 0), ((5, 5), 3)])
def test_nodes_whose_budgets_let_too_few_pods_go_are_passed_over(allowed, going):
    """Two pods of the node are of one budget, and one is of another: three have to go."""
    scene = PreemptionScene(node("a", cpu=4000), node("b", cpu=2000))
    for name, number in zip("xy", allowed, strict=True):
        scene.budget(name, labels={"app": name}, allowed=number)
    scene.job("low-x", cpu(1000), on=["a", "a", "b"], labels=(("app", "x"),))
    scene.job("low-y", cpu(1000), on=["a", "b"], labels=(("app", "y"),))
    scene.job("above", cpu(1000), on=["a"], level="high")
    scene.job("new", cpu(3000), level="high")
    found = scene.preempt("new")
    assert len(found.victims) == going
    if not going and all(allowed):
        assert "1 hold pods that may not be evicted together" in str(found)


# Gangs


@pytest.mark.parametrize(("taken", "victims"), [([], []), (["low"], ["low-0"])])
def test_pods_of_a_gang_get_the_cards_on_which_all_of_them_fit(taken, victims):
    scene = PreemptionScene(node("a", [card(at, node="a", memory=12_000) for at in range(3)]))
    for name in taken:
        scene.job(name, vgpu(1, 8000))
        scene.bind()
    # On the first two cards that come, two of them leave one card for the third.
    scene.job("gang", vgpu(2, 6000), 3, level="high", minimum=3)
    assert scene.victims("gang") == victims


@pytest.mark.parametrize(("minimum", "victims"), [(2, 1), (3, 3)])
def test_a_gang_keeps_its_minimum_or_goes_whole(minimum, victims):
    scene = PreemptionScene(node("a", cpu=1000), node("b", cpu=2000))
    scene.job("gang", cpu(1000), on=["a", "b", "b"], minimum=minimum)
    scene.job("other", cpu(1000), level="high")
    assert len(scene.victims("other")) == victims


def test_one_pod_alone_goes_rather_than_a_gang():
    scene = PreemptionScene(node("a", cpu=1000), node("b", cpu=2000))
    scene.job("gang", cpu(1000), on=["a", "b"], minimum=2)
    scene.job("alone", cpu(1000), on=["b"], level="mid")
    scene.job("new", cpu(1000), level="high")
    assert scene.victims("new") == ["alone-0"]


def test_a_gang_does_not_go_whole_if_one_of_its_pods_may_not_go():
    scene = PreemptionScene(node("a", cpu=1000), node("b", cpu=1000))
    first, _ = scene.job("gang", cpu(1000), on=["a", "b"], minimum=2)
    scene.put(f"pod {first.uid}", replace(first, preemptable=False))
    scene.job("new", cpu(1000), level="high")
    found = scene.preempt("new")
    assert not found.victims
    why = "1 hold pods that may not be evicted together, 1 protected by volcano.sh/preemptable"
    assert str(found) == f"0/2 nodes are available: {why}"


def test_the_minimum_of_a_task_counts():
    scene = PreemptionScene(node("a", cpu=1000), node("b", cpu=1000), node("c", cpu=1000))
    tasks = {"group": {"min_task_member": {"ps": 1, "worker": 1}}, "minimum": 2}
    pods = scene.job("gang", cpu(1000), on=["a", "b", "c"], **tasks)
    for each, task in zip(pods, ("ps", "worker", "worker"), strict=True):
        scene.put(f"pod {each.uid}", replace(each, task=task))
    scene.job("new", cpu(1000), level="high")
    assert scene.victims("new") in (["gang-1"], ["gang-2"])


def test_a_gang_gets_room_on_several_nodes_or_no_pod_goes():
    scene = PreemptionScene(node("a", cpu=4000), node("b", cpu=4000))
    scene.job("low", cpu(4000), on=["a"])
    scene.job("top", cpu(2000), on=["b", "b"], level="high")
    scene.job("gang", cpu(4000), 2, level="mid", minimum=2)
    assert not scene.preempt("gang").victims
    scene.job("one", cpu(4000), level="mid")
    assert scene.victims("one") == ["low-0"]


@pytest.mark.parametrize(("off", "victims"), [(True, []), (False, ["gang-0", "gang-1"])])
def test_without_the_extension_a_gang_never_goes_whole(off, victims):
    text = conf("priority gang conformance", PreemptionGangEnable=not off)
    scene = PreemptionScene(node("a", cpu=1000), node("b", cpu=1000), conf=text)
    scene.job("gang", cpu(1000), on=["a", "b"], minimum=2)
    scene.job("new", cpu(1000), level="high")
    assert sorted(each.pod.name for each in scene.preempt("new").victims) == victims


# Who may go


def test_budgets_hold_whatever_is_listed_and_pods_without_labels_may_go():
    scene = PreemptionScene(node("a", cpu=3000))
    scene.job("app", cpu(1000), on=["a", "a"], labels=(("app", "a"),))
    scene.job("plain", cpu(1000), on=["a"], level="mid")
    scene.budget("b", labels={"app": "a"}, limit=DisruptionLimit(min_available=1))
    scene.job("two", cpu(2000), level="high")
    assert len(scene.victims("two")) == 2
    assert "plain-0" in scene.victims("two")
    scene.job("three", cpu(3000), level="high")
    assert not scene.preempt("three").victims
    scene.budget("b", labels={"app": "a"}, allowed=2)
    assert scene.victims("three") == ["app-0", "app-1", "plain-0"]


@pytest.mark.parametrize(
    ("plugins", "what", "goes"),
    [
        ("priority", {"preemptable": False}, False),
        ("priority", {"namespace": "kube-system"}, True),
        ("priority conformance", {"namespace": "kube-system"}, False),
        ("priority conformance", {"priority": 2_000_000_000}, False),
        ("priority", {"cooldown": 60.0, "scheduled_at": NOW.wall - 30}, True),
        ("priority cdp", {"cooldown": 60.0, "scheduled_at": NOW.wall - 30}, False),
        ("priority cdp", {"cooldown": 60.0, "scheduled_at": NOW.wall - 90}, True),
        ("priority", {"scheduler": "another"}, False),
        ("gang", {}, True),
    ],
)
def test_every_listed_plugin_has_to_agree(plugins, what, goes):
    scene = PreemptionScene(node("a", cpu=1000), conf=conf(plugins))
    (victim,) = scene.job("low", cpu(1000), on=["a"])
    scene.put(f"pod {victim.uid}", replace(victim, **what))
    scene.job("new", cpu(1000), level="high")
    assert bool(scene.preempt("new").victims) is goes


def test_only_lower_priority_goes_whatever_is_listed():
    for plugins in ("priority", "gang", "conformance"):
        scene = PreemptionScene(node("a", cpu=1000), conf=conf(plugins))
        scene.job("same", cpu(1000), on=["a"], level="high")
        scene.job("new", cpu(1000), level="high")
        assert str(scene.preempt("new")) == "0/1 nodes are available: 1 hold no pod of lower priority"


def test_no_pod_goes_if_no_listed_plugin_says_which_may():
    scene = PreemptionScene(node("a", cpu=1000), conf=conf("priority", off=["priority.enablePreemptable"]))
    scene.job("low", cpu(1000), on=["a"])
    scene.job("new", cpu(1000), level="high")
    assert str(scene.preempt("new")) == "no plugin is listed with enablePreemptable"


def test_by_drf_alone_a_job_with_a_larger_share_gives_pods_of_equal_priority():
    scene = PreemptionScene(node("a", cpu=4000), conf=conf("drf"))
    scene.job("much", cpu(1000), on=["a"] * 3, level="mid")
    scene.job("little", cpu(1000), on=["a"], level="mid")
    scene.job("new", cpu(1000), level="mid")
    (victim,) = scene.victims("new")
    assert victim.startswith("much")
    scene.job("wide", cpu(2000), level="mid")
    assert not scene.preempt("wide").victims


TDM = conf("priority tdm")
ZONED = {"volcano.sh/revocable-zone": "rz1"}


@pytest.mark.parametrize(
    ("limit", "most"),
    [(None, 1), (DisruptionLimit(max_unavailable=2), 2), (DisruptionLimit(min_available=50, percent=True), 2)],
)
def test_by_tdm_a_job_gives_as_many_pods_as_its_budget_allows(limit, most):
    for asked in (1, 2, 3):
        scene = PreemptionScene(node("a", cpu=4000), conf=TDM)
        scene.job("low", cpu(1000), on=["a"] * 4, group={"disruption_limit": limit})
        scene.job("new", cpu(1000 * asked), level="high", preemptable=False)
        assert len(scene.preempt("new").victims) == (asked if asked <= most else 0)


def test_by_tdm_no_pod_goes_for_a_preemptable_one_or_on_a_node_with_a_revocable_zone():
    scene = PreemptionScene(node("a", cpu=1000, labels=ZONED), node("b", cpu=1000), conf=TDM)
    scene.job("low", cpu(1000), on=["a"])
    scene.job("mid", cpu(1000), on=["b"], level="mid")
    scene.job("new", cpu(1000), level="high", preemptable=False)
    assert scene.victims("new") == ["mid-0"]
    scene.job("other", cpu(1000), level="high")
    assert str(scene.preempt("other")).startswith("by the plugin tdm no pod is evicted for one that is preemptable")


# For whom


def test_no_pod_goes_for_one_that_never_preempts():
    scene = PreemptionScene(node("a", cpu=1000))
    scene.job("low", cpu(1000), on=["a"])
    scene.job("new", cpu(1000), level="high", never_preempts=True)
    assert str(scene.preempt("new")) == "spec.preemptionPolicy is Never"


def test_no_pod_goes_for_a_gang_that_has_its_minimum_where_gang_says_which_jobs_starve():
    without = conf("priority gang", off=["gang.enableJobStarving"])
    for configured, victims in ((conf("priority gang"), []), (conf("priority"), ["low-0"]), (without, ["low-0"])):
        scene = PreemptionScene(node("a", cpu=1000), node("b", cpu=1000), conf=configured)
        scene.job("low", cpu(1000), on=["a"])
        running, waiting = scene.job("gang", cpu(1000), 2, level="high", minimum=1)
        scene.put(f"pod {running.uid}", replace(running, node="b", running=True))
        assert waiting.node == ""
        assert [each.pod.name for each in scene.preempt("gang").victims] == victims


def test_the_reason_of_a_group_that_cannot_be_decided_is_its_own():
    scene = PreemptionScene(node("a", cpu=1000))
    scene.job("low", cpu(1000), on=["a"])
    scene.job("new", cpu(1000), level="high", gates=("wait",))
    assert str(scene.preempt("new")) == "waits for scheduling gates: wait"


def test_nothing_is_tried_without_an_action():
    scene = PreemptionScene(node("a", cpu=1000), conf=conf("priority", actions="enqueue, allocate"))
    scene.job("low", cpu(1000), on=["a"])
    scene.job("new", cpu(1000), level="high")
    assert str(scene.preempt("new")) == "neither the action preempt nor reclaim is configured"


def test_a_group_that_fits_when_a_terminating_pod_is_gone_waits_for_it():
    scene = PreemptionScene(node("a", cpu=1000), node("b", cpu=1000))
    scene.job("low", cpu(1000), on=["b"])
    scene.job("leaving", cpu(1000), on=["a"], terminating=True)
    scene.job("new", cpu(1000), level="high")
    found = scene.preempt("new")
    assert (found.victims, found.leaving) == ((), ("uid-leaving-0",))
    assert [placement.node for _, placement in found.placed] == ["a"]


# What depends on more than a node


def test_pods_of_the_own_queue_go_for_its_capability_though_nodes_have_room():
    scene = PreemptionScene(node("a", cpu=9000), node("b", cpu=9000), conf=conf("priority", "proportion"))
    scene.queue("q", capability={"cpu": 3000})
    scene.job("low", cpu(1000), on=["a"], queue="q")
    scene.job("mid", cpu(2000), on=["b"], queue="q", level="mid")
    scene.job("new", cpu(2000), queue="q", level="high")
    assert scene.victims("new") == ["mid-0"]
    scene.job("other", cpu(1000), queue="q", level="high")
    assert scene.victims("other") == ["low-0"]


def test_pods_of_the_own_queue_go_if_free_room_is_what_another_queue_deserves():
    scene = PreemptionScene(node("a", cpu=3000), node("b", cpu=1000), conf=conf("priority", "proportion"))
    scene.queue("mine")
    scene.queue("theirs")
    scene.job("low", cpu(1000), on=["a", "a"], queue="mine")
    scene.job("wide", cpu(1500), queue="theirs", level="high")  # deserves it, and fits on no node now
    scene.job("new", cpu(1000), queue="mine", level="high")
    assert scene.bind() == []
    (victim,) = scene.victims("new")
    assert victim.startswith("low")


def test_a_pod_goes_that_keeps_another_out_of_its_zone():
    zones = [node(name, cpu=4000, labels={ZONE: name[0]}) for name in ("a1", "a2", "b1")]
    scene = PreemptionScene(*zones)
    others = PodSelection((Requirement("app", "In", ("x",)),), ("ns",))
    apart = PodTopology("ns", (("app", "x"),), anti_affinity=(PodTerm(ZONE, others),))
    scene.job("far", cpu(1000), on=["a1"], labels=(("app", "x"),))
    scene.job("full", cpu(3500), on=["a1", "b1"], level="high")
    scene.job("new", replace(cpu(1000), topology=apart), level="high", labels=(("app", "x"),))
    found = scene.preempt("new")
    assert [each.pod.name for each in found.victims] == ["far-0"]
    assert [placement.node for _, placement in found.placed] == ["a2"]


# Pods that never preempt


@pytest.mark.parametrize(("minimum", "victims"), [(1, 1), (2, 0)])
def test_pods_go_for_those_of_a_group_that_may_preempt(minimum, victims):
    scene = PreemptionScene(node("a", cpu=2000))
    scene.job("low", cpu(1000), on=["a", "a"])
    first, _ = scene.job("new", cpu(1000), 2, level="high", minimum=minimum)
    scene.put(f"pod {first.uid}", replace(first, never_preempts=True))
    found = scene.preempt("new")
    assert len(found.victims) == victims
    assert first not in [fact for fact, _ in found.placed]
