"""Resources of nodes beside devices: they are in the claims, and count for pods that other schedulers bound."""

import pytest
from deviceshare.model import ConfigFact, GroupKey, HostPort, PodGroupFact, Toleration
from deviceshare.state import SCORED
from msgspec.structs import replace
from support.builders import NUMBER, ask, card, container, node, pod, vgpu
from support.played import Played

WEB = ask(container(cpu=50), host_ports=(HostPort("0.0.0.0", "TCP", 80),))
IN_USE = "0/1 nodes are unavailable: 1 node(s) didn't have free ports for the requested pod ports."


def test_a_port_is_taken_by_the_claim_also_where_its_pod_is_not_known_yet(played) -> None:
    played.put(pod("x", WEB))
    out = played.tick()
    (claim,) = out.claims
    played.written(out)
    assert (claim.ports, claim.counted) == (WEB.host_ports, (("memory" + SCORED, 200 * 2**20),))
    played.put(pod("y", WEB))
    assert played.tick().messages == [IN_USE]
    after = Played()
    after.ledger("a", 1, claim)
    after.put(pod("y", WEB))
    assert after.tick().messages == [IN_USE]


def test_a_port_is_taken_by_a_pod_that_another_scheduler_bound(played) -> None:
    other = pod("x", WEB, node="a")
    played.put(other, pod("y", WEB))
    assert played.tick().messages == [IN_USE]
    played.put(replace(other, ended=True))
    out = played.tick(5.0)
    assert [claim.name for claim in out.claims] == ["y"]


def test_nodes_are_compared_by_what_their_pods_request(played) -> None:
    text = "- name: nodeorder\n- name: deviceshare\n  arguments: {deviceshare.VGPUEnable: true}\n"
    played.put(ConfigFact(name="scheduler", text=text), node("b", cpu=64_000))
    played.put(pod("x", ask(container(cpu=32_000)), node="a"), pod("y", ask(container(cpu=1000, memory=2**30))))
    (explanation,) = played.placed(played.tick())
    # 98 left, 74 balanced (a little less than before), and three times 100 for no taint to be avoided.
    assert (explanation.node, *explanation.why) == (
        "b", "policy none, weight 0: no devices requested, with nodeorder 472.00; ties go to the lowest node name",
    )  # fmt: skip


def withdrawn(played: Played) -> list[tuple[str, bool]]:
    """Return the claims of the ledgers that are written next, and whether their withdrawal is requested."""
    return [(claim.name, claim.withdraw) for ledger in played.tick().ledgers for claim in ledger.claims]


@pytest.fixture
def claimed() -> Played:
    """A node with one claim of a pod that is bound, and one of a pod that is not."""
    played = Played(replace(node("a"), uid="first"))
    for name in ("x", "y"):
        played.put(pod(name, WEB if name == "x" else ask(container(cpu=1))))
        played.decided()
    played.put(pod("x", WEB, node="a"))
    played.tick()
    return played


def test_unbound_claims_on_a_deleted_node_are_withdrawn(claimed) -> None:
    # Another node of its name may come with other cards before the binder hears of the deletion.
    claimed.remove("node", "a")
    assert withdrawn(claimed) == [("x", False), ("y", True)]


def test_unbound_claims_on_a_replaced_node_are_withdrawn(claimed) -> None:
    claimed.put(replace(node("a"), uid="second"))
    assert withdrawn(claimed) == [("x", False), ("y", True)]


def test_claims_stay_when_a_node_changes(claimed) -> None:
    claimed.put(replace(node("a", cpu=32_000), uid="first"))
    assert withdrawn(claimed) == []


CORDONED_IGNORED = "tiers: [{plugins: [{name: predicates, enablePredicate: false}, {name: deviceshare}]}]"
TOLERANT = (Toleration("", "Exists", "", ""),)


@pytest.mark.parametrize(
    ("conf", "tolerations", "ready", "stays"),
    [
        ("", (), True, False),
        ("", TOLERANT, True, True),
        (CORDONED_IGNORED, (), True, True),
        (CORDONED_IGNORED, TOLERANT, False, False),
    ],
)
def test_a_gang_stays_on_a_cordoned_node_that_it_may_use(played, conf, tolerations, ready, stays) -> None:
    if conf:
        played.put(ConfigFact(name="scheduler", text=conf))
    played.put(PodGroupFact(key=GroupKey("ns/g"), min_member=2, admitted=True))
    for name in ("x", "y"):
        played.put(pod(name, ask(container(cpu=1), tolerations=tolerations), gang="g"))
    out = played.tick()
    assert len(out.claims) == 2
    played.written(out)
    played.put(replace(node("a"), unschedulable=True, ready=ready))
    assert any(withdraw for _, withdraw in withdrawn(played)) is not stays


def test_a_resize_changes_what_the_claim_of_a_bound_pod_takes(played) -> None:
    """A node has 64 CPUs."""
    big = ask(container(cpu=40_000, memory=2**30))
    played.put(pod("x", big))
    played.decided()
    resized = ask(container(cpu=10_000, memory=2**31))
    played.put(pod("x", resized), pod("y", ask(container(cpu=30_000))))
    assert played.tick().claims == [], "the amounts of a claim count until its pod is bound"
    played.put(pod("x", resized, node="a"))
    assert [claim.name for claim in played.tick(5.0).claims] == ["x", "y"], "of one node"
    held = dict(played.core.scheduler.cluster.allocator.holding("a", pod("x", big).uid).resources)
    assert (held["cpu"], held["memory"]) == (10_000, 2**31)


def test_a_claim_of_an_earlier_version_counts_the_devices_that_its_pod_requests() -> None:
    """Kubelet counts them; claims of earlier versions do not name them."""
    cards = [card(0, memory=100), card(1, memory=100)]
    played = Played(node("a", cards, **{NUMBER: 2}))
    played.put(pod("x", vgpu(1, 10)))
    (claim,) = played.tick().claims
    assert dict(claim.counted)[NUMBER] == 1
    for number, placed in ((2, []), (1, ["y"])):
        after = Played(node("a", cards, **{NUMBER: 2}))
        after.ledger("a", 1, replace(claim, counted=()))
        after.put(pod("x", vgpu(1, 10), node="a", held=claim.grants))
        after.put(pod("y", vgpu(number, 10)))
        assert [made.name for made in after.tick().claims if made.name != "x"] == placed
