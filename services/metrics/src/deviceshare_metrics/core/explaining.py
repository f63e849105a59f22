"""Everything that is known of one pod."""

from deviceshare.families import explain_claim
from deviceshare.model import PLACED, Claim, Explanation, trace_id
from deviceshare_bus.messages.subjects import fact, ledger, outcome

from deviceshare_metrics import api
from deviceshare_metrics.core.life_cycle import life_cycle
from deviceshare_metrics.core.snapshot import Snapshot
from deviceshare_metrics.core.state_store import PodHistory, StateStore
from deviceshare_metrics.core.states import claim_state


def explain(store: StateStore, snapshot: Snapshot, namespace: str, name: str) -> api.PodExplanation | None:
    """Return what is known of a pod, also of one that is gone; None if it is unknown.

    Of several pods of one name the existing one counts, else the last.
    """
    pods = [pod for pod in snapshot.pods if (pod.namespace, pod.name) == (namespace, name)]
    pod = pods[-1] if pods else None
    uid = pod.uid if pod is not None else _last_uid(store, f"{namespace}/{name}")
    if uid is None:
        return None
    history = store.histories.get(uid) or PodHistory("")
    claim = _claim(store, pod)
    return api.PodExplanation(
        pod=pod,
        explanation=_last_decision(store, pod, claim, history.explanation),
        steps=tuple(
            api.PodStep(time=step.at, service=step.service, step=step.name, node=step.node, message=step.message)
            for step in sorted(history.steps, key=lambda step: step.at)
        ),
        trace_id=trace_id(uid),
        life=life_cycle(pod, claim, history.steps),
    )


def _last_decision(
    store: StateStore, pod: api.Pod | None, claim: Claim | None, published: Explanation | None
) -> Explanation | None:
    """Return why a pod is where it is, from its claim, or why it waits, from EXPLAIN.

    On EXPLAIN a pod that was placed may have a message that says why it waited before. Placement publishes there why it
    was placed when it has ended and its claim is removed; earlier versions did so when they placed it.
    """
    if pod is None or pod.node is None:
        return published
    placed = published if published is not None and published.decision == PLACED else None
    if claim is None or (claim.choice is None and placed is not None and placed.node == pod.node):
        return placed
    node = store.nodes.get(fact("node", pod.node))
    return explain_claim(claim, pod.node, node.cards if node is not None else ())


def _claim(store: StateStore, pod: api.Pod | None) -> Claim | None:
    """Return the claim of a pod on its node: of several one that holds devices, then the latest."""
    if pod is None or pod.node is None or (on_node := store.ledgers.get(ledger(pod.node))) is None:
        return None
    known = store.outcomes.get(outcome(pod.node))
    states = {(each.claim, each.uid): each for each in known.outcomes} if known is not None else {}

    def holds(claim: Claim) -> tuple[bool, float, str]:
        state = claim_state(claim, states.get((claim.id, claim.uid)))
        return state not in ("refused", "withdrawn"), claim.decided_at, claim.id

    return max((claim for claim in on_node.claims if claim.uid == pod.uid), key=holds, default=None)


def _last_uid(store: StateStore, pod: str) -> str | None:
    found = [(history.last, uid) for uid, history in store.histories.items() if history.pod == pod]
    return max(found, default=(0.0, None))[1]
