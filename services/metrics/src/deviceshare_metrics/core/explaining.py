"""Everything that is known of one pod."""

from deviceshare.model import Claim, trace_id
from deviceshare_bus.subjects import ledger

from deviceshare_metrics import api
from deviceshare_metrics.core.life_cycle import life_cycle
from deviceshare_metrics.core.snapshot import Snapshot
from deviceshare_metrics.core.state_store import PodHistory, StateStore


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
    return api.PodExplanation(
        pod=pod,
        explanation=history.explanation,
        steps=tuple(
            api.PodStep(time=step.at, service=service, step=step.name, node=step.node, message=step.message)
            for service, step in sorted(history.steps, key=lambda entry: entry[1].at)
        ),
        trace_id=trace_id(uid),
        life=life_cycle(pod, _claim(store, pod), history.steps),
    )


def _claim(store: StateStore, pod: api.Pod | None) -> Claim | None:
    on_node = store.ledgers.get(ledger(pod.node)) if pod is not None and pod.node is not None else None
    return next((claim for claim in on_node.claims if pod and claim.uid == pod.uid), None) if on_node else None


def _last_uid(store: StateStore, pod: str) -> str | None:
    found = [(history.last, uid) for uid, history in store.histories.items() if history.pod == pod]
    return max(found, default=(0.0, None))[1]
