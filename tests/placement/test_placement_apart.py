"""Pods that share no card with similar pods: by PodGroup, and by rules of the configuration."""

from deviceshare.model import Claim, ConfigFact, GroupKey, PodFact, PodGroupFact
from msgspec.structs import replace
from support.builders import pod, vgpu
from support.played import WALL, Played

RULES = """
tiers:
- plugins:
  - name: deviceshare
    arguments:
      deviceshare.VGPUEnable: true
      deviceshare.GPUExclusiveRules: [{team: a, tier: gold}, {team: b}]
"""


def configured(text: str = RULES) -> ConfigFact:
    return ConfigFact(name="scheduler", text=text)


def labelled(name: str, **labels: str) -> PodFact:
    return replace(pod(name, vgpu(1, 10)), labels=tuple(sorted(labels.items())))


def grouped(name: str) -> PodFact:
    return pod(name, replace(vgpu(1, 10), apart_group="ns/g"), gang="g")


def cards(played: Played) -> dict[str, int]:
    """Place what can be placed; returns the card of each pod that was not placed before."""
    placed = {}
    while (out := played.tick(2.0)).writes:
        played.written(out)
        new = [claim for claim in out.claims if claim.decided_at == WALL + played.now]
        placed |= {claim.name: claim.grants[0].devices[0].index for claim in new}
    return placed


def bound(played: Played, fact: PodFact) -> PodFact:
    """Bind a pod that is claimed, and let it be seen."""
    holding = played.core.scheduler.cluster.allocator.holding("a", fact.uid)
    fact = replace(fact, node="a", held=holding.grants)
    played.put(fact)
    return fact


def test_pods_of_one_podgroup_share_no_card_and_the_next_waits_until_one_ends(played) -> None:
    played.put(PodGroupFact(key=GroupKey("ns/g")))
    for name in ("x", "y", "z"):
        played.put(grouped(name))
    out = played.decided()
    placed = {claim.name: claim.grants[0].devices[0].index for claim in out.claims}
    assert sorted(placed.values()) == [0, 1]
    (waiting,) = {"x", "y", "z"} - placed.keys()
    assert out.messages == [
        "0/1 nodes are unavailable: 1 node(s) had cards with a pod of the same PodGroup "
        "(volcano.sh/vgpu-podgroup-policy spread)."
    ]
    first = bound(played, grouped(next(iter(placed))))
    assert cards(played) == {}
    played.put(replace(first, ended=True))
    assert cards(played) == {waiting: placed[first.name]}


def test_pods_of_one_rule_share_no_card(played) -> None:
    played.put(configured())
    for name in ("x", "y", "z"):
        played.put(labelled(name, team="a", tier="gold"))
    played.put(labelled("other-tier", team="a", tier="silver"), labelled("other-rule", team="b"))
    placed = cards(played)
    assert sorted(placed[name] for name in ("x", "y")) == [0, 1]
    assert {"other-tier", "other-rule"} <= placed.keys()
    assert "z" not in placed


def test_without_the_rule_they_share_again(played) -> None:
    played.put(configured())
    for name in ("x", "y", "z"):
        played.put(labelled(name, team="b"))
    assert len(cards(played)) == 2
    played.put(configured(RULES.replace(", {team: b}", "")))
    assert len(cards(played)) == 1


def test_a_rule_that_comes_later_holds_for_pods_that_wait_and_against_pods_that_run(played) -> None:
    played.put(labelled("x", team="b"), labelled("y", team="b"))
    assert len(cards(played)) == 2
    running = {name: played.core.scheduler.cluster.allocator.holding("a", f"uid-{name}") for name in ("x", "y")}
    assert {holding.grants[0].devices[0].index for holding in running.values()} == {1}
    played.put(configured(), labelled("z", team="b"))
    assert cards(played) == {"z": 0}


def test_a_pod_that_is_labelled_anew_makes_room_for_its_like(played) -> None:
    played.put(configured())
    for name in ("x", "y", "z"):
        played.put(labelled(name, team="b"))
    (left,) = {"x", "y", "z"} - cards(played).keys()
    gone = next(name for name in ("x", "y") if name != left)
    played.put(labelled(gone, team="c"))
    assert cards(played).keys() == {left}


def test_the_claim_of_a_pod_that_is_not_known_yet_says_which_rule_it_matched(played) -> None:
    played.put(configured(), labelled("x", team="a", tier="gold", app="web"))
    out = played.tick()
    (claim,) = out.claims
    assert claim.labels == (("team", "a"), ("tier", "gold"))
    successor = Played()
    successor.put(configured())
    successor.ledger("a", 1, claim)
    successor.put(labelled("y", team="a", tier="gold"))
    placed = cards(successor)
    assert placed["y"] != claim.grants[0].devices[0].index


def test_the_claim_of_a_pod_that_is_not_known_yet_says_its_podgroup() -> None:
    played = Played()
    played.put(PodGroupFact(key=GroupKey("ns/g")), grouped("x"))
    (claim,) = played.tick().claims
    successor = Played()
    successor.ledger("a", 1, claim)
    successor.put(PodGroupFact(key=GroupKey("ns/g")), grouped("y"))
    assert cards(successor)["y"] != claim.grants[0].devices[0].index


def test_a_single_pod_belongs_to_no_podgroup(played) -> None:
    claim = Claim(id="o-1", uid="u", namespace="ns", name="n", group="pod/u")
    played.ledger("a", 1, claim)
    assert played.core.scheduler.cluster.allocator.holding("a", "u").tenant.group == ""
