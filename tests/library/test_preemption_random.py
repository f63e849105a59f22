"""The victims on random clusters are as few as those of a search that tries every set of pods.

``deviceshare lab study victims`` tries more of them.
"""

from random import Random

import pytest
from deviceshare.model import (
    Gone,
    GroupKey,
    NodeFact,
    PodDisruptionBudgetFact,
    PodFact,
    PodGroupFact,
    PriorityClassFact,
)
from deviceshare_lab.clusters.preemption_scene import NOW, PreemptionScene
from deviceshare_lab.studies.victims import comparison
from deviceshare_lab.studies.victims.comparison import ComparedCluster, VictimComparison, compare
from deviceshare_lab.studies.victims.random_cluster import EQUAL, GROUP, KINDS, MIXED, RECLAIM, made
from msgspec.structs import replace

CLUSTERS = 100
KEY = GroupKey(f"ns/{GROUP}")
PACKED = {EQUAL: (1873, 2679), RECLAIM: (1666, 1894, 2699, 3773)}
"""Clusters in which all pods of the group fit only on cards that are chosen with a view to the others."""
NOT_TOGETHER = (2038, 2872, 7218, 8486)
"""Clusters with different requests in which fewer pods are enough than may go together by budgets and gangs."""


def change(scene: PreemptionScene, random: Random) -> None:
    """Change, end or delete some pods and nodes, or what their priority depends on."""
    for key, fact in [*scene.facts.items()]:
        if isinstance(fact, PodFact) and fact.node and random.random() < 0.4:
            how = random.choice(("gone", "ended", "terminating", "kept", "elsewhere"))
            nodes = [each.name for each in scene.facts.values() if isinstance(each, NodeFact)]
            changes = {
                "gone": Gone(),
                "ended": replace(fact, ended=True),
                "terminating": replace(fact, terminating=True),
                "kept": replace(fact, preemptable=False),
                "elsewhere": replace(fact, node=random.choice(nodes), held=()),
            }
            scene.put(key, changes[how])
        elif isinstance(fact, NodeFact) and random.random() < 0.4:
            # Removed and added again it may be another row, and its cards other columns.
            scene.put(key, Gone())
            scene.put(key, replace(fact, cards=tuple(reversed(fact.cards))))
        elif isinstance(fact, PodGroupFact) and random.random() < 0.2:
            scene.put(key, replace(fact, priority_class=random.choice(("low", "mid", "high"))))
        elif isinstance(fact, PodDisruptionBudgetFact) and random.random() < 0.4:
            changed = replace(fact, allowed=random.choice((None, 0, 1)), selector=random.choice((fact.selector, ())))
            scene.put(key, random.choice((Gone(), changed)))
    if random.random() < 0.5:
        scene.put("priority low", PriorityClassFact(name="low", value=random.choice((5, 200))))


def test_what_is_kept_between_decisions_is_what_the_facts_say():
    served = 0
    for seed in range(CLUSTERS // 2):
        scene, _, _ = made(seed, RECLAIM if seed % 2 == 1 else EQUAL)
        scene.preempt(GROUP)
        for turn in range(3):
            change(scene, Random(10 * seed + turn))
            kept, anew = scene.preempt(GROUP), scene.again().preempt(KEY, NOW)
            assert kept == anew, (seed, turn)
            assert not kept.victims or kept.victims == scene.scheduler.preempt(KEY, NOW, explain=False).victims
            served += bool(kept.victims)
    assert served > CLUSTERS / 6


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_the_fewest_pods_of_the_lowest_priorities_go(kind):
    found = VictimComparison([compare(seed, kind) for seed in range(CLUSTERS)])
    assert not found.failures, found.differing
    assert sum(each.best is not None and each.best[0] > 0 for each in found.compared) > CLUSTERS / 3
    assert sum(each.best is None for each in found.compared) > CLUSTERS / 30


@pytest.mark.parametrize(("kind", "seed"), [(kind, seed) for kind, seeds in PACKED.items() for seed in seeds])
def test_the_cards_of_a_gang_are_chosen_so_that_all_its_pods_fit(kind, seed):
    found = compare(seed, kind)
    assert found.best is not None
    assert found.ours == found.best


@pytest.mark.parametrize(
    "wrong",
    [
        ComparedCluster(0, EQUAL, None, (1, 10)),
        ComparedCluster(0, EQUAL, (1, 10), None),
        ComparedCluster(0, EQUAL, (3, 10), (1, 10)),
        ComparedCluster(0, EQUAL, (1, 10), (1, 10), "they may not be evicted"),
    ],
)
def test_a_single_wrong_answer_is_a_failure(wrong):
    right = [ComparedCluster(seed, EQUAL, (1, 10), (1, 10)) for seed in range(1, 1000)]
    assert not VictimComparison(right).failures
    assert len(VictimComparison([*right, wrong]).failures) == 1


def test_a_pod_or_a_priority_too_many_is_a_failure_where_it_is_frequent():
    right = [ComparedCluster(seed, EQUAL, (1, 10), (1, 10)) for seed in range(1000)]
    one_more = ComparedCluster(0, EQUAL, (2, 10), (1, 10))
    higher = ComparedCluster(0, EQUAL, (1, 20), (1, 10))
    assert not VictimComparison([*right, *[one_more] * 10]).failures
    assert len(VictimComparison([*right, *[one_more] * 11]).failures) == 1
    assert not VictimComparison([*right, *[higher] * 30]).failures
    assert len(VictimComparison([*right, *[higher] * 31]).failures) == 1
    shown = comparison.report(VictimComparison([*right, one_more, higher]))
    assert (shown["kinds"][EQUAL]["one_more"], shown["kinds"][EQUAL]["best"]) == (1, 1000)


@pytest.mark.parametrize("seed", NOT_TOGETHER)
def test_pods_are_found_though_not_all_that_may_go_may_go_together(seed):
    found = compare(seed, MIXED)
    assert (found.ours, found.wrong) == (found.best, "")
