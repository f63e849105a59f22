"""The nominations that are kept while ledgers change are those that reading all ledgers gives."""

from random import Random

import pytest
from deviceshare.model import Claim, Eviction
from deviceshare.scheduler.cluster_state import ClusterState

NODES = ("a", "b", "c")
VICTIMS = ("v1", "v2", "v3")


def drawn_ledger(random: Random, node: str) -> tuple[list[Claim], list[Eviction]]:
    """Return claims with ids that other nodes may have as well, and evictions for any claim."""
    ids = random.sample(range(6), random.randrange(4))
    claims = [
        Claim(
            id=f"c{number}", uid=f"{node}-{number}", namespace="ns", name="p", group=f"pod/{number}",
            waits_for=tuple(sorted(random.sample(VICTIMS, random.randrange(3)))),
        )
        for number in ids
    ]  # fmt: skip
    evictions = [
        Eviction(
            uid=uid, namespace="ns", name=uid, claim=f"c{random.randrange(6)}", preemptor="ns/p", action="preempt",
            go=random.random() < 0.5,
        )
        for uid in random.sample(VICTIMS, random.randrange(3))
    ]  # fmt: skip
    return claims, evictions


@pytest.mark.parametrize("seed", range(40))
def test_nominations_are_those_of_all_ledgers(seed: int) -> None:
    random, cluster = Random(seed), ClusterState()
    ledgers: dict[str, tuple[list[Claim], list[Eviction]]] = {}
    for _ in range(60):
        node = random.choice(NODES)
        ledgers[node] = drawn_ledger(random, node)
        cluster.set_ledger(node, *ledgers[node])
        waiting = [(node, each) for node, (claims, _) in ledgers.items() for each in claims if each.waits_for]
        assert set(cluster.going) == {uid for _, each in waiting for uid in each.waits_for}
        nominations = cluster.going.nominations
        assert {each.waits_for for each in nominations} == {each.waits_for for _, each in waiting}
        first = [min((claim.id, node) for (node, _), claim in each.claims.items()) for each in nominations]
        assert first == sorted(first)
        for nomination in nominations:
            claims = {(node, each.id): each for node, each in waiting if each.waits_for == nomination.waits_for}
            assert nomination.claims == claims
            ids = {each.id for each in claims.values()}
            own = [
                (node, each)
                for node, (_, evictions) in ledgers.items()
                for each in evictions
                if each.uid in nomination.waits_for and each.claim in ids
            ]
            assert nomination.evictions.keys() == {each.uid for _, each in own}
            assert all((node, each) in own for each, node in nomination.evictions.values())
