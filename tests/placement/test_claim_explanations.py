"""A claim says why its pod was placed: what is derived from it equals what placement published before."""

import json

import pytest
from deviceshare.families import FAMILIES, explain_claim
from deviceshare.model import Choice, Claim, ConfigFact, Explanation, GroupKey, NodeFact, PodGroupFact, QueueFact
from deviceshare.scheduler import explaining
from deviceshare_bus.cores.core import CaughtUp, Now, Tick, Write, Written
from deviceshare_bus.messages.codec import decode_fact, decode_ledger, encode
from deviceshare_cluster.interface import Change, ChangeType
from deviceshare_placement.core import FactReceived, PlacementCore
from msgspec.structs import replace
from support import mixed
from support.builders import SHARE, ask, card, container, node, pod, share, share_cards, vgpu, whole, whole_cards
from support.inventory import started
from support.metrics import read
from support.metrics_messages import claim as claimed
from support.metrics_messages import explain, explanation, ledger, outcome
from support.metrics_messages import node as known
from support.metrics_messages import pod as waiting
from support.played import Played
from support.published import published

NODES, PODS = 24, 240
NOW = Now(100.0, 1_780_000_000.0)


@pytest.fixture
def before(monkeypatch) -> dict[str, Explanation]:
    """What placement published before, by uid, without time and process."""
    found: dict[str, Explanation] = {}
    choose = explaining.choice

    def choice(allocator, fact, placement, decision, queue):
        found[fact.uid] = published(allocator, fact, placement, decision, 0.0, "")
        return choose(allocator, fact, placement, decision, queue)

    monkeypatch.setattr(explaining, "choice", choice)
    return found


def change(at: int, obj: dict) -> Change:
    metadata = {"namespace": "default", "uid": f"uid-{at}", **obj["metadata"], "resourceVersion": str(at)}
    namespace = "" if obj["kind"] == "Node" else metadata["namespace"]
    raw = json.dumps({**obj, "metadata": metadata}).encode()
    return Change(ChangeType.APPLIED, obj["kind"], namespace, metadata["name"], at, raw)


def of_hami() -> list[dict]:
    """Return a node that HAMi registers, and a pod for it."""
    register = "GPU-hami-0,10,16384,100,NVIDIA-Tesla T4,0,true,0,hami-core:"
    resources = {"cpu": "32", "memory": "128Gi", "pods": "110", "nvidia.com/gpu": "10"}
    metadata = {"name": "hami", "annotations": {"hami.io/node-nvidia-register": register}}
    node = {"kind": "Node", "metadata": metadata, "status": {"allocatable": resources, "capacity": resources}}
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}
    return [node, mixed.pod("of-hami", "default", limits, {}, mixed.SCHEDULER)]


def facts() -> dict[str, object]:
    """Return the facts of a cluster of all device families with pods of all kinds, by subject, as inventory sees it."""
    objects = [*mixed.config_maps(NODES), *mixed.nodes(NODES), *mixed.workloads(0, PODS, "default"), *of_hami()]
    _, bus, _ = started([change(at, obj) for at, obj in enumerate(objects, 1)], revision=10_000)
    return {subject: decode_fact(data) for subject, (_, data) in bus.messages.items()}


def placed(found: dict[str, object]) -> dict[str, bytes]:
    """Return the ledgers of a placement core that reads these facts, by subject."""
    core = PlacementCore("p", "p")
    for subject, fact in found.items():
        core.handle(FactReceived(subject, fact), NOW)
    for stream in ("CLUSTER", "LEDGER", "OUTCOME"):
        core.handle(CaughtUp(stream), NOW)
    ledgers: dict[str, bytes] = {}
    sequence = 0
    while writes := [command for command in core.handle(Tick(), NOW) if isinstance(command, Write)]:
        for write in writes:
            ledgers |= {each.subject: encode(each.message) for each in write.writes}
            sequence += len(write.writes)
            core.handle(Written(write.token, sequence), NOW)
    return ledgers


def test_all_that_was_published_of_a_placed_pod_follows_from_its_claim(before) -> None:
    found = facts()
    ledgers = {subject: decode_ledger(data) for subject, data in placed(found).items()}
    cards = {fact.name: fact.cards for fact in found.values() if isinstance(fact, NodeFact)}
    claims = {claim.uid: (ledger.node, claim) for ledger in ledgers.values() for claim in ledger.claims}
    assert len(claims) == len(before) > PODS // 2
    for uid, (name, claim) in claims.items():
        was = replace(before[uid], at=NOW.wall, decided_by="p")
        assert explain_claim(claim, name, cards[name]) == was
    families = {grant.family for _, claim in claims.values() for grant in claim.grants}
    assert families == {family.name for family in FAMILIES}, "all device modes"
    assert {bool(claim.choice.minimum) for _, claim in claims.values()} == {False, True}, "with gangs and without"

    # The readers: the JSON API, and with it commands and the dashboard.
    core = read(*found.items(), *ledgers.items())
    for uid, (name, claim) in claims.items():
        answer = explain(core, claim.namespace, claim.name)
        assert answer.pod.uid == uid
        assert encode(answer.explanation) == encode(replace(before[uid], at=NOW.wall, decided_by="p")), name


@pytest.mark.parametrize("plugins", [(), ("nodeorder",), ("binpack",), ("nodeorder", "binpack")])
@pytest.mark.parametrize("policy", ["", "binpack"])
def test_requests_and_configurations_of_all_kinds(before, plugins, policy) -> None:
    played = Played(node("a", share_cards(4)), node("b", whole_cards(2)), node("c", [card(0)]))
    flags = ("GPUSharingEnable", "GPUNumberEnable", "VGPUEnable", "GPUTypeParts")
    arguments = {f"deviceshare.{flag}": "true" for flag in flags}
    if policy:
        arguments |= {"deviceshare.SchedulePolicy": policy, "deviceshare.ScheduleWeight": "10"}
    text = {"tiers": [{"plugins": [{"name": "deviceshare", "arguments": arguments}, *({"name": n} for n in plugins)]}]}
    played.put(ConfigFact(name="scheduler", text=json.dumps({"actions": "allocate, backfill", **text})))
    played.put(PodGroupFact(key=GroupKey("ns/g"), uid="g", min_member=2, admitted=True, queue="other"))
    played.put(QueueFact(name="other"))
    for name, what, gang in (
        ("plain", ask(container(cpu=1000)), ""),
        ("nothing", ask(container()), ""),
        ("init", ask(container(**{SHARE: 500}), init_containers=(container("init", **{SHARE: 3000}),)), ""),
        ("two", ask(container("main", **{SHARE: 500}), container("other", **{SHARE: 700})), ""),
        ("whole", whole(2), ""),
        ("lenient", vgpu(1, 50, annotations={"nvidia.com/use-gputype": "V10"}), ""),
        ("g-0", share(100), "g"),
        ("g-1", share(100), "g"),
    ):
        played.put(pod(name, what, gang=gang))
    out = played.tick()
    claims = {claim.name: (ledger.node, claim) for ledger in out.ledgers for claim in ledger.claims}
    assert claims.keys() == {"plain", "nothing", "init", "two", "whole", "lenient", "g-0", "g-1"}
    for name, claim in claims.values():
        was = replace(before[claim.uid], at=claim.decided_at, decided_by="p")
        assert explain_claim(claim, name, played.core.scheduler.cluster.allocator.node(name).cards) == was
    explained = {name: explain_claim(claim, where) for name, (where, claim) in claims.items()}
    assert (explained["g-0"].queue, claims["g-0"][1].queue) == ("default", "other"), "the pod's, and its PodGroup's"
    assert "ready, 2 pods fit" in explained["g-0"].gang
    assert explained["init"].environment == {}, "its cards are not known"
    assert explained["lenient"].caveats


def test_of_a_claim_of_an_earlier_version_only_the_place_is_known() -> None:
    claim = Claim(id="c", uid="u", namespace="ns", name="x", queue="q", group="g", decided_by="p", decided_at=5.0)
    found = explain_claim(claim, "a")
    assert (found.message, found.node, found.why, found.nodes, found.queue) == ("placed on a", "a", (), 0, "q")


def test_why_a_pod_was_placed_is_published_when_it_has_ended_and_its_claim_is_removed() -> None:
    played = Played()
    fact = pod("x")
    played.put(fact)
    out = played.tick()
    (claim,), (was,) = out.claims, played.placed(out)
    played.written(out)
    bound = replace(fact, node="a", held=claim.grants)
    assert not played.put(bound).explanations
    played.put(replace(bound, ended=True))
    out = played.tick()
    (kept,) = out.explanations
    assert kept == was
    assert (out.claims, [ledger.node for ledger in out.ledgers]) == ([], ["a"]), "with the removal of the claim"
    assert played.core.scheduler.has_explained
    played.written(out)
    (gone,) = played.gone(fact).explanations
    assert gone.message == "the pod is gone; before that: placed on a"


def test_a_pod_that_ended_elsewhere_or_was_claimed_by_an_earlier_version_has_its_explanation_already() -> None:
    played = Played()
    fact = pod("x")
    played.put(fact)
    played.ledger("a", 1, Claim(id="old-1", uid=fact.uid, namespace="ns", name="x"))
    played.put(replace(fact, node="a", ended=True))
    out = played.tick()
    assert (out.explanations, out.claims) == ([], [])
    assert out.ledgers, "it was removed"


# The readers: a message on EXPLAIN may say why a pod waited before it was placed.

WAITED = "0/1 nodes are unavailable: 1 too small."


def shown(*messages) -> str | None:
    answer = explain(read(known("n1"), *messages), "default", "a").explanation
    return None if answer is None else answer.message


def test_a_claim_overrules_why_the_pod_waited_before() -> None:
    assert shown(waiting("a"), explanation("a")) == WAITED
    assert shown(waiting("a"), explanation("a"), ledger(claimed())) == "placed on n1"
    assert shown(waiting("a"), ledger(claimed()), explanation("a")) == "placed on n1", "in any order"
    assert shown(waiting("a"), explanation("a"), ledger(claimed()), outcome("bound")) == "placed on n1"
    assert shown(waiting("a"), explanation("a"), ledger(claimed()), outcome("refused", reason="no")) == WAITED
    assert shown(waiting("a", node="n1"), explanation("a"), ledger(claimed())) == "placed on n1"


def test_of_several_claims_the_one_that_holds_devices_counts() -> None:
    again = claimed(claim_id="again", decided_at=7.0, decided_by="second")
    core = read(known("n1"), waiting("a"), ledger(claimed(), again), outcome("refused"))
    assert explain(core, "default", "a").explanation.decided_by == "second"
    core = read(known("n1"), waiting("a"), ledger(again, claimed(decided_by="first")), outcome("refused"))
    assert explain(core, "default", "a").explanation.decided_by == "second"


def test_why_a_bound_pod_waited_before_is_not_shown_without_its_claim() -> None:
    assert shown(waiting("a", node="n1"), explanation("a")) is None
    assert shown(waiting("a", node="n1", ended=True), explanation("a")) is None
    assert shown(waiting("a", ended=True), explanation("a")) == WAITED, "it was never placed"


def test_what_earlier_versions_published_of_a_placed_pod_is_shown() -> None:
    why = ("policy binpack",)
    subject, message = explanation("a", "placed on n1", "placed")
    old = subject, replace(message, node="n1", why=why)
    for more in ((), (ledger(claimed()),)):
        for ended in (False, True):
            core = read(known("n1"), waiting("a", node="n1", ended=ended), old, *more)
            assert explain(core, "default", "a").explanation.why == why
    with_choice = ledger(claimed(choice=Choice(nodes=3, feasible=2)))
    found = explain(read(known("n1"), waiting("a", node="n1"), old, with_choice), "default", "a").explanation
    assert (found.nodes, found.feasible) == (3, 2), "a claim of this version says it itself"
    elsewhere = read(known("n1"), waiting("a", node="n1"), (subject, replace(message, node="n2")), ledger(claimed()))
    assert explain(elsewhere, "default", "a").explanation.node == "n1"
