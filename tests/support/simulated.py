"""Where ``deviceshare lab study trace`` places pods by the policy ``fragmentation``."""

from collections.abc import Iterator, Sequence

from deviceshare_lab.traces import ExpectedPods, Fragmentation, Trace, pod_classes, trace_nodes


def simulated(trace: Trace, ranks: Sequence[int], arrivals: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the rank of the node of each arriving pod, and the card of a share; -1 for none."""
    nodes = trace_nodes(trace, ranks)
    expected = ExpectedPods(nodes)
    policy = Fragmentation(nodes, expected.first)
    classes = pod_classes(trace)
    for at in arrivals:
        pods = classes[at]
        if expected.count(pods) and (typical := expected.typical()) is not None:
            policy.expect(typical)
        row = policy.place(pods)
        yield row, int(pods.columns[row]) if row >= 0 else -1
