"""The policy ``fragmentation`` on the objects of a cluster: placement decides as ``lab study trace`` does."""

import pytest
from support.plain_traces import random_trace, ranks_of
from support.simulated import simulated
from support.trace_objects import placed


@pytest.mark.parametrize("by_annotation", [True, False], ids=["annotation", "affinity"])
def test_placement_places_a_trace_as_the_simulator_does(by_annotation):
    trace = random_trace(3, nodes=20, pods=600)
    ranks = ranks_of(trace, 3)
    every = range(len(trace.pods))
    found = list(placed(trace, ranks, every, by_annotation=by_annotation))
    expected = list(simulated(trace, ranks, every))
    shares = [pod.cards == 1 and pod.amount < 1000 for pod in trace.pods]
    assert [(row, column if share else -1) for (row, column), share in zip(found, shares, strict=True)] == expected
    assert 20 < sum(row >= 0 for row, _ in found) < len(trace.pods), "some pods find no node"
