"""Every placement passes the check of claims, and a claim that was tampered with fails it."""

from random import Random

import pytest
from deviceshare.allocation import Allocator, ClaimCheck
from deviceshare.model import Claim
from deviceshare.state import CardShare, shares_by_card
from msgspec.structs import replace
from support.builders import ask, card, cluster, conf, container, node, vgpu
from support.mindcluster import asks, npus
from support.random_clusters import ask_of, conf_of, node_of

CLUSTERS = 150


def claim(grants, identity="c1"):
    return Claim(id=identity, uid=f"u-{identity}", namespace="default", name="p", grants=grants)


def shares_of_others(held, uid) -> dict[str, list[list[CardShare]]]:
    others: dict[str, list[list[CardShare]]] = {}
    for other, grants in held.items():
        if other != uid:
            for identity, shares in shares_by_card(grants).items():
                others.setdefault(identity, []).append(shares)
    return others


def placements(seed):
    """Yield placements on a random cluster, each with what the check is given."""
    chance = Random(seed)
    sort = chance.choice((None, None, 1, 3))
    configuration = conf_of(chance)
    nodes = {name: node_of(chance, name, sort) for name in ("a", "b", "c")}
    allocator = Allocator(configuration)
    for fact in nodes.values():
        allocator.set_node(fact)
    check = ClaimCheck(configuration)
    held: dict[str, dict[str, tuple]] = {name: {} for name in nodes}
    for number in range(25):
        request = ask_of(chance, sort)
        found = allocator.place(request)
        if found is None:
            continue
        uid = f"u{number}"
        allocator.take(uid, found)
        held[found.node][uid] = found.grants
        cards = {each.id: each for each in nodes[found.node].cards}
        yield chance, check, claim(found.grants), request, cards, shares_of_others(held[found.node], uid)
        if chance.random() < 0.3:
            allocator.release(found.node, uid)
            del held[found.node][uid]


def problem(check, one, request, cards, others):
    return check.against_request(one, request, cards) or check.against_cards(one, cards, others)


@pytest.mark.parametrize("part", range(5))
def test_every_placement_passes(part):
    passed = 0
    for seed in range(part * CLUSTERS // 5, (part + 1) * CLUSTERS // 5):
        for _, check, *given in placements(seed):
            assert problem(check, *given) == "", (seed, given)
            passed += bool(given[0].grants)
    assert passed > 100


def with_device(grants, at, number, **changes):
    devices = list(grants[at].devices)
    devices[number] = replace(devices[number], **changes)
    return (*grants[:at], replace(grants[at], devices=tuple(devices)), *grants[at + 1 :])


def tampered(chance, grants):
    """Yield what a claim must not be."""
    at = chance.randrange(len(grants))
    grant = grants[at]
    number = chance.randrange(len(grant.devices))
    device = grant.devices[number]
    yield "more memory", with_device(grants, at, number, memory=device.memory + chance.randint(1, 40000))
    yield "less memory", with_device(grants, at, number, memory=device.memory - 1)
    yield "more cores", with_device(grants, at, number, cores=device.cores + chance.randint(1, 100))
    yield "a card of another node", with_device(grants, at, number, id="elsewhere")
    yield "another index", with_device(grants, at, number, index=device.index + 1)
    yield "another instance", with_device(grants, at, number, detail=device.detail + "x")
    yield "one card more", (
        *grants[:at], replace(grant, devices=(*grant.devices, replace(device, id="more"))), *grants[at + 1 :]
    )  # fmt: skip
    yield "one card twice", (
        *grants[:at], replace(grant, devices=(*grant.devices, device)), *grants[at + 1 :]
    )  # fmt: skip
    yield "no card", (*grants[:at], *grants[at + 1 :])
    yield "another container", (*grants[:at], replace(grant, container="other"), *grants[at + 1 :])
    yield "another position", (*grants[:at], replace(grant, position=grant.position + 1), *grants[at + 1 :])
    yield "another stage", (*grants[:at], replace(grant, stage="init" if not grant.stage else ""), *grants[at + 1 :])
    family = "gpu-number" if grant.family != "gpu-number" else "mps"
    yield "another family", (*grants[:at], replace(grant, family=family), *grants[at + 1 :])


def test_a_claim_that_was_tampered_with_fails():
    failed = 0
    for seed in range(60):
        for chance, check, one, request, cards, others in placements(seed):
            for what, grants in tampered(chance, one.grants) if one.grants else ():
                changed = claim(grants)
                assert problem(check, changed, request, cards, others), (seed, what, request, one.grants, grants)
                failed += 1
    assert failed > 3000


@pytest.mark.parametrize("seed", range(20))
def test_placements_of_mindcluster_pass_and_tampered_ones_fail(seed):
    chance = Random(seed)
    nodes = {name: npus(name, chance.randint(1, 3)) for name in ("a", "b")}
    allocator = cluster(*nodes.values())
    check = ClaimCheck(allocator.conf)
    held: dict[str, dict[str, tuple]] = {name: {} for name in nodes}
    for number in range(12):
        request = asks(chance.choice((1, 2, 4, 8, 16)), chance.choice((None, "low", "high")))
        found = allocator.place(request)
        if found is None:
            continue
        uid = f"u{number}"
        allocator.take(uid, found)
        held[found.node][uid] = found.grants
        cards = {each.id: each for each in nodes[found.node].cards}
        others = shares_of_others(held[found.node], uid)
        assert problem(check, claim(found.grants), request, cards, others) == ""
        for what, grants in tampered(chance, found.grants):
            assert problem(check, claim(grants), request, cards, others), (what, grants)


def test_the_reason_names_what_the_pod_requests():
    check, request = ClaimCheck(conf()), vgpu(1, 3000)
    cards = {"GPU-a0": card(0, node="a", memory=40960)}
    allocator = cluster(node("a", list(cards.values())))
    (grant,) = allocator.place(request).grants
    forged = replace(grant, devices=(replace(grant.devices[0], memory=39000),))
    found = check.against_request(claim((forged,)), request, cards)
    assert "3000 MiB" in found
    assert "not c0: hami-core GPU-a0 39000 MiB" in found
    assert check.against_request(claim((grant,)), ask(container(cpu=100)), cards)


def test_a_claim_does_not_fit_beside_others():
    check, request = ClaimCheck(conf()), vgpu(1, 30000)
    cards = {"GPU-a0": card(0, node="a", memory=40960)}
    grants = cluster(node("a", list(cards.values()))).place(request).grants
    assert check.against_cards(claim(grants), cards, {}) == ""
    others = {"GPU-a0": [shares_by_card(grants)["GPU-a0"]]}
    assert check.against_cards(claim(grants), cards, others) == (
        "at most 40960 MiB of card GPU-a0 for all pods: with this claim they have 60000"
    )
    ill = {"GPU-a0": replace(cards["GPU-a0"], healthy=False)}
    assert check.against_cards(claim(grants), ill, {}) == "healthy cards: GPU-a0 is not"
