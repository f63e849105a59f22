"""A recorded case on several nodes: each is replayed by itself, then the nodes that fit are scored together."""

from collections.abc import Sequence

from deviceshare.allocator import Allocator
from deviceshare.conf.model import SchedulerConf
from msgspec.structs import replace

from deviceshare_cli.conformance.cases import Batch, BatchNode, Case, Initial, Place
from deviceshare_cli.conformance.replay import Difference, Replay, Verdict, differing
from deviceshare_cli.conformance.scene import pod_fact, stand


def replay(case: Case, conf: SchedulerConf) -> Verdict:
    """Replay a case, on one node or on several."""
    if case.batch is None:
        return Replay(case, conf).run()
    nodes = [Replay(_alone(case, case.batch, node), conf) for node in case.batch.nodes]
    verdicts = [node.run() for node in nodes]
    scores = _scores(case.batch, nodes, conf)
    return Verdict(
        tuple(difference for verdict in verdicts for difference in verdict.differences) + tuple(scores),
        tuple(dict.fromkeys(name for verdict in verdicts for name in verdict.deviations)),
        sum(verdict.steps for verdict in verdicts),
    )


def _alone(case: Case, batch: Batch, node: BatchNode) -> Case:
    """Return the case of one of the nodes."""
    return replace(
        case,
        node=node.node,
        cluster_cm=node.cluster_cm,
        pods=node.pods or (),
        initial=Initial(present=True, state=node.state, extra=node.extra),
        steps=(Place(pod=batch.pod, has_request=not node.filter.skipped, filter=node.filter),),
        batch=None,
    )


def _scores(batch: Batch, nodes: Sequence[Replay], conf: SchedulerConf) -> Sequence[Difference]:
    """Compare which of the nodes that fit is the best, and its score: only that one is known of ours."""
    if not batch.scores:
        return ()
    allocator = Allocator(conf)
    for node in nodes:
        if node.scene.node.name in batch.scores:
            stand(node.scene, allocator)
    placement = allocator.place(pod_fact(batch.pod).ask)
    best = max(batch.scores.values())
    recorded = {name: score for name, score in sorted(batch.scores.items()) if score == best}
    ours = {} if placement is None else {placement.node: placement.score}
    if ours.items() <= recorded.items() and ours:
        return ()
    return differing(f"score for {batch.pod.ref}", "best node", recorded, ours)
