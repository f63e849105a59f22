"""The published policies, compared with plain implementations of their definitions; compiled or not."""

import subprocess
import sys
from operator import mul
from pathlib import Path

import numpy as np
import pytest
from deviceshare.kernels import MAX_EXPECTED, expected_weight
from deviceshare.kernels.arrivals import HALF_LIFE
from deviceshare_lab.traces import (
    ExpectedPods,
    Fgd,
    Trace,
    TraceNode,
    TracePod,
    Typical,
    TypicalPod,
    pod_classes,
    trace_nodes,
    typical_pods,
)
from support.plain_traces import POLICIES, Plain, placements, random_trace, ranks_of

UNCOMPILED = """
import sys
sys.path.insert(0, sys.argv[1])
from support.plain_kernels import install
install()
from support.plain_traces import placements
from deviceshare_lab.traces import fgd
assert fgd.__file__.endswith(".py"), fgd.__file__
print(list(placements(3)))
"""


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_places_every_pod_as_its_definition_says(name, seed):
    made = random_trace(seed)
    ranks = ranks_of(made, seed)
    plain, classes = Plain(made, ranks), pod_classes(made)
    policy = POLICIES[name](trace_nodes(made, ranks), made)
    placed = 0
    for number, pod in enumerate(made.pods):
        expected, _ = plain.place(pod, name)
        assert policy.place(classes[number]) == expected, (number, pod)
        if expected >= 0:
            assert np.asarray(policy.nodes.free[expected])[: len(plain.free[expected])].tolist() == plain.free[expected]
            placed += 1
    assert 20 < placed < len(made.pods), "some pods find no node"


def test_typical_pods_are_the_most_frequent_requests_the_larger_one_first():
    pods = [TracePod(f"a{at}", 1000, 1, 1, 500) for at in range(8)]
    pods += [TracePod(f"b{at}", 2000, 1, 1, 500) for at in range(8)]
    pods += [TracePod(f"c{at}", 1000, 2, 0, 0) for at in range(3)]
    pods += [TracePod("d", 1000, 2, 2, 1000)]
    found = typical_pods(pods, ["T4"])
    assert [(each.cpu, each.amount, each.cards) for each in found] == [(2000, 500, 1), (1000, 500, 1), (1000, 0, 0)]
    assert [each.share for each in found] == pytest.approx([8 / 19, 8 / 19, 3 / 19])


def test_fgd_counts_free_cards_that_lack_cpu_model_or_size():
    nodes = trace_nodes(Trace("made", (TraceNode("n", 10_000, 1000, 2, "T4"),), ()), [0])
    every = np.ones(1, dtype=np.uint8)
    none = np.zeros(1, dtype=np.uint8)

    def fragmentation(cpu, *free, allowed=every):
        policy = Fgd(nodes, Typical([TypicalPod(1.0, 4000, 500, 1, allowed)]))
        policy.cards.free, policy.cards.number = np.array(free, dtype=np.int64), len(free)
        return policy.fragmentation(0, cpu)

    assert fragmentation(4000, 1000, 499) == 499
    assert fragmentation(4000, 499, 300) == 799
    assert fragmentation(3999, 1000, 500) == 1500
    assert fragmentation(4000, 1000, 500, allowed=none) == 1500


def test_requests_are_expected_as_often_as_they_arrived_and_old_ones_are_forgotten():
    made = Trace(
        "made", (TraceNode("n", 24_000, 1000, 2, "T4"),), (TracePod("a", 1000, 1, 1, 500), TracePod("b", 2, 1, 0, 0))
    )
    cards, without = pod_classes(made)
    expected = ExpectedPods(trace_nodes(made, [0]))
    prior = expected.first
    assert [list(values) for values in (prior.cpu, prior.count, prior.shares)] == [[12_000], [1], [1.0]]
    due = [expected.count(cards) for _ in range(12)] + [expected.count(without) for _ in range(4)]
    assert due.index(True) == 7, "an update is due after eight arrivals"
    found = expected.typical()
    assert list(found.cpu) == [1000, 12_000]
    # Twelve pods for half a card and the prior, which counts as four pods for a whole one.
    shares = weighted(12 * 0.5**0.45, 4)
    assert list(found.shares) == pytest.approx(shares)
    cards_for, cpu_for = (sum(map(mul, shares, each)) for each in ((500, 1000), (1000, 12_000)))
    assert found.cards_per_cpu == pytest.approx(cards_for / cpu_for)
    for _ in range(HALF_LIFE):
        expected.count(without)
    expected.typical()
    for _ in range(6):
        expected.count(cards)
    # Both lost half of their weight.
    assert list(expected.typical().shares) == pytest.approx(weighted(12 * 0.5**0.45, 2), rel=0.01)


def weighted(*weights):
    return [each / sum(weights) for each in weights]


def test_expected_pods_have_more_weight_the_larger_they_are_and_the_fewer_cards_can_serve_them():
    kinds = ((96_000, 8, "A"), (64_000, 8, "A"), (64_000, 8, "B"), (16_000, 1, "B"))
    nodes = tuple(TraceNode(str(at), cpu, 1000, cards, model) for at, (cpu, cards, model) in enumerate(kinds))
    requests = ((1, 2, 1000, "C"), (1000, 1, 250, ""), (1000, 1, 1000, "B"), (1000, 8, 1000, ""), (80_000, 8, 1000, ""))
    pods = [TracePod(str(at), cpu, 1, *rest) for at, (cpu, *rest) in enumerate(requests)]
    made = Trace("made", nodes, tuple(pods * 200))
    expected = ExpectedPods(trace_nodes(made, range(4)))
    for each in pod_classes(made):
        expected.count(each)
    found = expected.typical()
    # Ordered by request. Of 25 cards none is of model C, nine are of model B, 24 on nodes with eight cards, and eight
    # on the node with 80 cores. The last weight is that of the prior.
    supplies = (1, 9 / 25, 24 / 25, 8 / 25)
    cards = (0.25, 1, 8, 8)
    weights = [200 * each**0.45 / supply**0.25 for each, supply in zip(cards, supplies, strict=True)]
    assert list(found.count) == [2, 1, 1, 8, 8, 1]
    assert list(found.shares) == pytest.approx(weighted(0, *weights, 4))
    assert expected_weight(10, 1000, 0.001) == expected_weight(10, 1000, 0.01) == pytest.approx(10 * 100**0.25)


def test_the_number_of_expected_requests_is_bounded():
    pods = tuple(TracePod(f"p{at:03}", 1000 + at, 1, 1, 500) for at in range(MAX_EXPECTED + 50))
    made = Trace("made", (TraceNode("n", 24_000, 1000, 2, "T4"),), pods)
    expected = ExpectedPods(trace_nodes(made, [0]))
    for each in pod_classes(made):
        expected.count(each)
    found = expected.typical()
    assert found.size == MAX_EXPECTED
    assert sum(found.shares) == pytest.approx(1.0)


def test_policies_that_are_not_compiled_decide_the_same():
    tests = Path(__file__).parents[1]
    run = subprocess.run([sys.executable, "-c", UNCOMPILED, str(tests)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == str(list(placements(3)))
