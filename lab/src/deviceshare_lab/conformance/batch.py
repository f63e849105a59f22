"""A recorded case on several nodes: each is replayed alone, then the feasible nodes are scored together."""

from collections.abc import Sequence

from deviceshare.allocation import Allocator
from deviceshare.conf import SchedulerConf
from msgspec.structs import replace

from deviceshare_lab.conformance.cases import Batch, BatchNode, Case, Initial, Place
from deviceshare_lab.conformance.deviations import DEVIATIONS, Deviation, able_in, as_volcano, explanation
from deviceshare_lab.conformance.replay import Difference, Replay, Verdict, differing
from deviceshare_lab.conformance.scene import ReplayState, Scene, pod_fact


def replay(case: Case, conf: SchedulerConf) -> Verdict:
    """Replay a case, on one node or on several."""
    if case.batch is None:
        return Replay(case, conf).run()
    nodes = [Replay(_alone(case, case.batch, node), conf) for node in case.batch.nodes]
    verdicts = [*(node.run() for node in nodes), _scored(case.batch, [node.scene for node in nodes])]
    return Verdict(
        tuple(difference for verdict in verdicts for difference in verdict.differences),
        tuple(dict.fromkeys(name for verdict in verdicts for name in verdict.rules)),
        sum(verdict.steps for verdict in verdicts),
    )


def _alone(case: Case, batch: Batch, node: BatchNode) -> Case:
    """Return the case of one of the nodes."""
    return replace(
        case,
        node=node.node,
        cluster_cm=node.cluster_cm,
        pods=node.pods or (),
        # The validity of the node was not recorded: a node without a healthy chip has no state, either.
        initial=Initial(present=True if node.state else None, state=node.state, extra=node.extra),
        steps=(Place(pod=batch.pod, has_request=not node.filter.skipped, filter=node.filter),),
        batch=None,
    )


def _scored(batch: Batch, scenes: Sequence[Scene]) -> Verdict:
    """Compare the best feasible node and its score."""
    fitting = [replace(scene, pod=batch.pod) for scene in scenes if scene.node.name in batch.scores]
    if not fitting or not (found := _best(batch, fitting)):
        return Verdict((), (), 0)

    def explains(deviations: Sequence[Deviation]) -> bool:
        return not _best(batch, [as_volcano(scene, deviations) for scene in fitting])

    able = {deviation.name: deviation for scene in fitting for deviation in able_in(scene)}
    if explaining := explanation([each for each in DEVIATIONS if each.name in able], explains):
        return Verdict((), tuple(deviation.name for deviation in explaining), 0)
    return Verdict(tuple(found), (), 0)


def _best(batch: Batch, scenes: Sequence[Scene]) -> Sequence[Difference]:
    """Return the difference between the nodes with the best recorded score and our best node."""
    allocator = Allocator(scenes[0].conf)
    for scene in scenes:
        ReplayState(scene, allocator)
    pod = scenes[0].pod
    placement = allocator.place(pod_fact(pod).ask) if pod is not None else None
    best = max(batch.scores.values())
    recorded = {name: score for name, score in sorted(batch.scores.items()) if score == best}
    if placement is not None and best in (placement.score, 2 * placement.score):
        # Volcano doubles the score of the best node if another node would allocate less than requested.
        # Of equally full nodes Volcano's best is the first, and its order of nodes is random.
        idle = {each.node.name: each.extra.idle_npu_core for each in batch.nodes}
        if any(idle[placement.node] == idle[name] for name in recorded):
            return ()
    ours = {} if placement is None else {placement.node: placement.score}
    return differing(f"score for {batch.pod.ref}", "best node", recorded, ours)
