"""With ``dry_run`` pods are left to another scheduler, and its choices are compared with the claims."""

import pytest
from deviceshare.model import ConfigFact, ContainerGrant, DeviceGrant
from deviceshare_binder.core.bind_task import LEFT
from deviceshare_binder.core.commands import FencePod
from deviceshare_binder.core.events import SchedulerConfigured
from deviceshare_binder.core.views import NodeView
from deviceshare_bus.cores.core import Count, Log, RecordStep
from support.binder import BinderDriver
from support.binder_scene import READY, claim, of, pod, started, states
from support.builders import card, cluster, node, vgpu

CARDS = (card(0, node="n1", memory=40_960),)
CONFIGURATION = "tiers: [{plugins: [{name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}]}]"
NODES = (READY, NodeView(name="n2"))
GRANTS = (ContainerGrant("main", 0, "gpu-share", (DeviceGrant("GPU-1", 1, 4096, 0),)),)
OTHERS = (ContainerGrant("main", 0, "gpu-share", (DeviceGrant("GPU-2", 2, 4096, 0),)),)


def placed(asked):
    return cluster(node("n1", CARDS)).place(asked).grants


def leaving(*claims, **arguments):
    """Return a core in a dry run whose waiting pod u1 has these claims on n1, after a tick."""
    core = started(*claims, pods=[pod()], nodes=NODES, dry_run=True, **arguments)
    assert core.take(0.0) == [], "no request and no outcome"
    return core


def counted(core):
    """Return the results that were counted."""
    return [each.name.removeprefix("dry_run_compared:") for each in core.notes if isinstance(each, Count)]


@pytest.mark.parametrize(
    ("node", "held", "result", "message"),
    [
        ("n1", GRANTS, "same_cards", "bound by another scheduler to n1 (GPU-1) as decided"),
        ("n1", OTHERS, "same_node", "bound by another scheduler to n1 (GPU-2), decided: n1 (GPU-1)"),
        ("n2", GRANTS, "other_node", "bound by another scheduler to n2 (GPU-1), decided: n1 (GPU-1)"),
    ],
)
def test_the_choice_of_another_scheduler_is_compared_once(node, held, result, message):
    core = leaving(claim(grants=GRANTS))
    core.pod("u1", pod(node=node, held=held))
    commands = core.take(1.0)
    (step,) = [each for each in of(RecordStep, commands) if each.name == "compared"]
    assert (step.pod, step.node, step.message) == ("default/pod-u1", node, message)
    assert counted(core) == [result]
    assert [each.message for each in core.notes if isinstance(each, Log)][:1] == [f"default/pod-u1: {message}"]
    core.pod("u1", pod(node=node, held=held, running=True))
    core.ledger("n1", [claim(grants=GRANTS)])
    core.take(2.0)
    assert counted(core) == [result]


def test_a_pod_that_is_bound_without_a_decision_is_named():
    core = leaving()
    core.pod("u1", pod(node="n2", held=GRANTS))
    (step,) = of(RecordStep, core.take(1.0))
    assert step.message == "bound by another scheduler to n2 (GPU-1), and no decision was made"
    assert counted(core) == ["undecided"]


def test_pods_that_were_bound_before_are_not_compared():
    core = started(claim(), pods=[pod(node="n1")], nodes=NODES, dry_run=True)
    core.pod("u2", pod("u2", node="n1"))  # it was never seen without a node
    core.take(0.0)
    assert counted(core) == []


def test_a_claim_is_given_up_when_no_other_scheduler_binds_its_pod():
    core = leaving(claim(grants=GRANTS))
    assert core.next_due() == LEFT
    core.pod("u1", pod(revision="2"))
    core.node("n1", NodeView(name="n1", labels={"a": "b"}))
    assert core.take(LEFT - 1) == [], "changes do not begin it again"
    given_up = core.take(LEFT)
    assert states(given_up) == {"c1": ("refused", "no other scheduler has bound the pod within 60 s")}
    (step,) = [each for each in of(RecordStep, given_up) if each.name == "compared"]
    assert step.message == "decided: n1 (GPU-1); no other scheduler has bound the pod within 60 s"
    assert counted(core) == ["unbound"]


def test_further_decisions_about_a_pod_that_was_given_up_reserve_nothing_and_are_compared():
    core = leaving(claim(grants=GRANTS))
    core.take(LEFT)
    core.ledger("n1", [])
    core.ledger("n2", [claim("c2", grants=OTHERS)])
    assert states(core.take(LEFT + 1)) == {"c2": ("refused", "no other scheduler has bound the pod within 60 s")}
    core.ledger("n2", [])
    core.pod("u1", pod(node="n2", held=OTHERS))
    core.take(LEFT + 2)
    assert counted(core) == ["unbound", "same_cards"]


def test_the_time_that_an_earlier_process_has_waited_counts():
    core = started(claim(grants=GRANTS, decided_at=100.0), pods=[pod()], nodes=NODES, dry_run=True, now=150.0)
    assert core.take(150.0) == []
    assert core.next_due() == 160.0
    late = started(claim(grants=GRANTS, decided_at=100.0), pods=[pod()], nodes=NODES, dry_run=True, now=500.0)
    assert states(late.take(500.0)) == {"c1": ("refused", "no other scheduler has bound the pod within 60 s")}


def test_pods_that_are_deleted_are_forgotten_and_not_counted():
    core = leaving(claim(grants=GRANTS))
    comparison = core.core._claims._comparison
    core.pod("u1", pod(terminating=True))
    core.take(1.0)
    core.pod("u1", None)
    core.ledger("n1", [claim(grants=GRANTS), claim("c2", "u2")])
    assert comparison._decided.keys() == {"u1", "u2"}, "their pods may be known later"
    core.ledger("n1", [])
    assert (comparison._decided, comparison._unknown, comparison._given_up) == ({}, {}, set())
    core.take(20.0)
    assert counted(core) == []


def test_what_was_charged_of_a_card_may_be_read_back_otherwise():
    """A MIG instance is larger than requested; of a whole card the amount is read back as "all"."""
    core = leaving(claim(grants=GRANTS))
    held = (ContainerGrant("main", 0, "gpu-share", (DeviceGrant("GPU-1", 1, -1, 0),)),)
    core.pod("u1", pod(node="n1", held=held))
    core.take(1.0)
    assert counted(core) == ["same_cards"]


def test_a_claim_is_refused_once_another_pod_has_its_card():
    whole = placed(vgpu(1, 39_000))
    core = BinderDriver(check=True, dry_run=True)
    core.handle(SchedulerConfigured(ConfigFact(name="scheduler", text=CONFIGURATION)))
    core.node("n1", NodeView(name="n1", cards=CARDS))
    core.pod("u1", pod(ask=vgpu(1, 39_000)))
    core.start()
    core.ledger("n1", [claim(grants=whole)])
    assert core.take(0.0) == []
    core.pod("u2", pod("u2", node="n1", held=whole))
    core.node("n1", NodeView(name="n1", cards=CARDS, labels={"a": "b"}))
    assert states(core.take(1.0)) == {}, "a newer fact may justify the claim"
    (outcome,) = states(core.take(11.1)).values()
    assert outcome[0] == "refused"
    assert outcome[1].startswith("the claim is not valid any more: node n1 has")
    assert counted(core) == [], "the other scheduler has not left the pod"


def test_outcomes_are_those_of_bound_pods():
    core = leaving(claim(grants=GRANTS))
    core.pod("u1", pod(node="n2", held=GRANTS))
    assert states(core.take(1.0)) == {"c1": ("refused", "the pod is bound to n2")}
    core = leaving(claim())
    core.pod("u1", pod(node="n1"))
    assert states(core.take(1.0)) == {"c1": ("bound", "")}


def test_a_withdrawn_claim_ends_by_reading_its_pod():
    core = leaving(claim(grants=GRANTS))
    core.ledger("n1", [claim(grants=GRANTS, withdraw=True)])
    assert [type(each) for each in core.take(1.0)] == [FencePod]
    core.read_answered("c1", "", 2.0)
    assert states(core.take(2.0)) == {"c1": ("withdrawn", "")}


def test_a_claim_that_is_taken_back_or_moved_is_not_the_decision_any_more():
    core = leaving(claim(grants=GRANTS))
    core.ledger("n1", [claim(grants=GRANTS, withdraw=True)])
    core.pod("u1", pod(node="n1", held=GRANTS))
    core.take(1.0)
    assert counted(core) == ["undecided"]
    core = started(nodes=NODES, dry_run=True)
    core.ledger("n1", [claim(grants=OTHERS)])
    core.ledger("n2", [claim("c2", grants=GRANTS)])
    core.ledger("n1", [])
    core.pod("u1", pod())
    core.pod("u1", pod(node="n2", held=GRANTS))
    core.take(1.0)
    assert counted(core) == ["same_cards"]
