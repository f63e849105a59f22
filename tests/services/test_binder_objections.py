"""The binder binds no claim that is not for its pod or does not fit its node: the bus is not trusted."""

import time

import pytest
from deviceshare.conf import SchedulerConf
from deviceshare.conf.known import family_flags
from deviceshare.model import Claim, ConfigFact
from deviceshare_binder.core.commands import BindPod, FencePod
from deviceshare_binder.core.events import SchedulerConfigured
from deviceshare_binder.core.facts import Facts
from deviceshare_binder.core.views import NodeView, PodView
from deviceshare_bus.cores.core import Count, Log
from msgspec.structs import replace
from support.binder import BinderDriver, messages
from support.builders import card, cluster, node, vgpu

CARDS = tuple(card(at, node="n1", memory=40960) for at in range(8))
CONFIGURATION = """
actions: allocate
tiers:
- plugins:
  - name: deviceshare
    arguments: {deviceshare.VGPUEnable: true}
"""


def placed(request):
    return cluster(node("n1", CARDS)).place(request).grants


def claim(grants, uid="u1", **fields):
    return Claim(**({"id": f"c-{uid}", "uid": uid, "namespace": "default", "name": uid, "grants": grants} | fields))


def pod(uid="u1", **fields):
    return PodView(**({"uid": uid, "namespace": "default", "name": uid, "ask": vgpu(1, 3000)} | fields))


def started(*pods, cards=CARDS):
    core = BinderDriver(check=True)
    core.handle(SchedulerConfigured(ConfigFact(name="scheduler", text=CONFIGURATION)))
    core.node("n1", NodeView(name="n1", cards=cards))
    for each in pods:
        core.pod(each.uid, each)
    core.start()
    return core


def kinds(commands):
    return [type(one) for one in commands if isinstance(one, BindPod | FencePod)]


def refused(core, one, until=10.5):
    """Return the reason with which the only claim is refused, '' if it is not, and let time pass."""
    for _ in range(60):
        found = kinds(core.take(core.now))
        assert BindPod not in found
        if found:
            core.read_answered(one.id, "", core.now)
            ((_, _, state, reason, _),) = [tuple(_fields(each)) for each in _outcomes(core.take(core.now))]
            assert state == "refused"
            return reason
        core.now = core.next_due()
        assert core.now <= until
    return ""


def _outcomes(commands):
    return [each for message in messages(commands) for each in message.outcomes]


def _fields(outcome):
    return outcome.claim, outcome.uid, outcome.state, outcome.reason, outcome.at


def test_a_claim_of_the_allocator_is_bound_at_once():
    core = started(pod())
    core.ledger("n1", [claim(placed(vgpu(1, 3000)))])
    assert kinds(core.take(0.0)) == [BindPod]


def test_a_forged_claim_is_refused_with_what_the_pod_requests():
    core = started(pod())
    (grant,) = placed(vgpu(1, 3000))
    one = claim((replace(grant, devices=(replace(grant.devices[0], memory=39000),)),))
    core.ledger("n1", [one])
    reason = refused(core, one)
    assert reason == (
        "the claim is not valid: the pod requests c0: hami-core GPU-n17 3000 MiB 0 cores, "
        "not c0: hami-core GPU-n17 39000 MiB 0 cores"
    )
    assert core.notes.count(Count("claims_rejected")) == 1
    logged = [each for each in core.notes if isinstance(each, Log) and "not valid" in each.message]
    assert logged[0].level == "warning"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"name": "another"}, "the claim is for default/another"),
        ({"namespace": "another"}, "the claim is for another/u1"),
        ({"grants": ()}, "devices of hami-core"),
    ],
)
def test_a_claim_for_another_pod_is_refused(fields, why):
    core = started(pod())
    one = claim(**({"grants": placed(vgpu(1, 3000))} | fields))
    core.ledger("n1", [one])
    assert why in refused(core, one)


def test_a_claim_waits_for_facts_that_placement_has_already():
    grants = placed(vgpu(1, 30000))
    core = started(pod(ask=vgpu(1, 30000)), pod("u2", ask=vgpu(1, 30000), node="n1", held=grants))
    core.ledger("n1", [claim(grants)])
    assert kinds(core.take(0.0)) == []
    core.pod("u2", None)
    assert kinds(core.take(core.next_due())) == [BindPod]


@pytest.mark.parametrize("who", ["claim", "bound", "ended"])
def test_a_claim_has_to_fit_beside_claims_and_bound_pods(who):
    grants = placed(vgpu(1, 30000))
    other = pod("u2", ask=vgpu(1, 30000))
    if who != "claim":
        other = replace(other, node="n1", held=grants, ended=who == "ended")
    core = started(pod(ask=vgpu(1, 30000)), other)
    core.ledger("n1", [claim(grants), *([claim(grants, "u2", withdraw=True)] if who == "claim" else [])])
    first = kinds(core.take(0.0))
    assert first == {"claim": [FencePod], "bound": [], "ended": [BindPod]}[who]
    if who == "claim":
        core.read_answered("c-u2", "", 0.1)
        core.take(0.1)
        core.ledger("n1", [claim(grants)])
        assert kinds(core.take(core.next_due())) == [BindPod]


def test_the_check_is_cheap():
    requests = [vgpu(1, 3000 + 10 * number) for number in range(10)]
    facts = Facts()
    facts.configure(replace(SchedulerConf(), families=frozenset(family_flags())))
    facts.nodes.put("n1", NodeView(name="n1", cards=CARDS))
    allocator = cluster(node("n1", CARDS))
    tasks = []
    for number in range(80):
        request = requests[number % 10]
        placement = allocator.place(request)
        allocator.take(f"u{number}", placement)
        tasks.append(_Task(claim(placement.grants, f"u{number}")))
        facts.put(pod(f"u{number}", ask=request))
    facts.shares.set_claims("n1", {}, {each.claim.id: each.claim for each in tasks})
    best = min(_seconds(facts, tasks) for _ in range(20))
    print(f"{best / len(tasks) * 1e6:.1f} us a claim")  # noqa: T201
    assert best / len(tasks) < 0.0005


def _seconds(facts, tasks):
    began = time.process_time()
    assert not any(facts.objection(task) for task in tasks)
    return time.process_time() - began


class _Task:
    def __init__(self, one):
        self.claim = one
        self.node = NodeView(name="n1")
