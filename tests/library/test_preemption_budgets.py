"""What PodDisruptionBudgets allow, kept while they and their pods change, is what counting all of them says."""

from collections.abc import Mapping
from itertools import combinations
from random import Random

import pytest
from deviceshare.model import DisruptionLimit, GroupKey, PodDisruptionBudgetFact, PodFact, PodUid, Requirement
from deviceshare.preemption import Budgets
from msgspec.structs import replace
from support.builders import ask

NAMESPACES = ("a", "b")
SELECTORS: tuple[tuple[Requirement, ...] | None, ...] = (
    None,
    (),
    (Requirement("app", "In", ("x",)),),
    (Requirement("app", "In", ("x", "y")),),
    (Requirement("app", "In", ("y",)), Requirement("tier", "Exists", ())),
    (Requirement("tier", "NotIn", ("z",)),),
)


def drawn_pod(random: Random, number: int) -> PodFact:
    """Return a pod, as it may be at any time."""
    labels = {key: random.choice("xyz") for key in ("app", "tier") if random.random() < 0.7}
    return PodFact(
        uid=PodUid(f"pod-{number}"), namespace=random.choice(NAMESPACES), name=f"pod-{number}", ask=ask(),
        group=GroupKey(f"pod/{number}"), labels=tuple(sorted(labels.items())), node=random.choice(("", "n", "n")),
        ended=random.random() < 0.1, terminating=random.random() < 0.1,
    )  # fmt: skip


def drawn_budget(random: Random, number: int) -> PodDisruptionBudgetFact:
    """Return a budget, with a status or without."""
    return PodDisruptionBudgetFact(
        key=f"{NAMESPACES[number % 2]}/budget-{number}",
        selector=random.choice(SELECTORS),
        allowed=random.choice((None, 0, 1, 2)),
        limit=DisruptionLimit(min_available=random.choice((0, 1, 2, 50)), percent=random.random() < 0.3),
    )


def counted(
    budgets: Mapping[str, PodDisruptionBudgetFact], pods: Mapping[str, PodFact], going: set[str], asked: set[str]
) -> bool:
    """Return whether pods may go together, by counting all of them."""
    for budget in budgets.values():
        selected = [pod for pod in pods.values() if budget.selects(pod) and not pod.ended]
        healthy = [pod for pod in selected if pod.node and not pod.terminating]
        left = budget.disruptions(len(selected), len(healthy))
        left -= sum(pod.uid in going and not pod.terminating for pod in selected)
        number = sum(pod.uid in asked for pod in selected)
        if number and number > left:
            return False
    return True


@pytest.mark.parametrize("seed", range(60))
def test_what_is_kept_is_what_all_budgets_and_pods_say(seed: int) -> None:
    random = Random(seed)
    facts: dict[str, PodDisruptionBudgetFact] = {}
    pods: dict[str, PodFact] = {}
    protected: dict[str, bool] = {}
    kept, going = Budgets(lambda: pods.values()), set[str]()
    for _ in range(25):
        moved = set()
        for number in random.sample(range(8), random.randrange(4)):
            uid = f"pod-{number}"
            moved.add(uid)
            if random.random() < 0.2:
                pods.pop(uid, None)
            else:
                pods[PodUid(uid)] = drawn_pod(random, number)
        for number in random.sample(range(5), random.randrange(3)):
            fact = drawn_budget(random, number)
            if random.random() < 0.2:
                facts.pop(fact.key, None)
            elif random.random() < 0.5 and fact.key in facts:
                facts[fact.key] = replace(facts[fact.key], allowed=fact.allowed)
            else:
                facts[fact.key] = fact
        changed = {uid for uid in pods if random.random() < 0.2}
        going, moved = (going ^ changed) & pods.keys(), moved | changed
        kept.put(facts)
        if random.random() < 0.1:
            kept.forget_pods()
            moved |= pods.keys()
        others = kept.update([(uid, pods.get(uid)) for uid in sorted(moved)], going)
        for uid in pods:
            now = not counted(facts, pods, going, {uid})
            assert bool(kept.protecting(uid)) is now
            assert now is protected.get(uid, False) or uid in others | moved
            of = kept.of(uid)
            selecting = [key for key, each in facts.items() if each.selects(pods[uid]) and not pods[uid].ended]
            assert (of in selecting) if selecting else not of
            assert not of or (kept.left()[hash(of)] > 0) is counted({of: facts[of]}, pods, going, {uid})
            protected[uid] = now
        for size in (2, 3):
            for asked in combinations(pods, size):
                assert kept.allow(asked) is counted(facts, pods, going, set(asked)), asked
