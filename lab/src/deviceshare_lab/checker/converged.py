"""What is missing in a system to which nothing happens any more: pods, gangs, claims and outcomes."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from deviceshare_lab.checker.cards import Object
from deviceshare_lab.checker.claims import Claims
from deviceshare_lab.checker.objects import violations

GROUP = "scheduling.k8s.io/group-name"


class Objects(NamedTuple):
    """The objects of the cluster, without the pods that another scheduler bound."""

    nodes: Sequence[Object]
    pods: Sequence[Object]
    groups: Sequence[Object]
    events: Sequence[Object]


def missing(objects: Objects, claims: Claims, schedulers: Sequence[str], may_wait: str, config: str) -> list[str]:
    """Return everything that is not as it must be; pods with the label ``may_wait`` need not be bound."""
    ours = [pod for pod in objects.pods if pod["spec"].get("schedulerName") in schedulers and not _ended(pod)]
    pods = {pod["metadata"]["uid"]: pod for pod in ours}
    return [
        *_of_waiting(ours, claims, may_wait),
        *_of_claims(pods, claims),
        *violations(objects.nodes, objects.pods, objects.events, objects.groups, config),
    ]


def without_members(groups: Sequence[Object], foreign: Sequence[Object]) -> list[Object]:
    """Return PodGroups that need fewer pods of ours: another scheduler bound some of their members."""
    members = [(pod["metadata"]["namespace"], pod["metadata"].get("annotations", {}).get(GROUP)) for pod in foreign]
    return [_needs_fewer(group, members.count(_key(group))) for group in groups]


def _needs_fewer(group: Object, fewer: int) -> Object:
    return {**group, "spec": {**group["spec"], "minMember": group["spec"]["minMember"] - fewer}}


def _of_waiting(pods: Sequence[Object], claims: Claims, may_wait: str) -> Iterator[str]:
    for pod in pods:
        if pod["spec"].get("nodeName"):
            continue
        conditions = pod.get("status", {}).get("conditions") or ()
        said: Object = next((each for each in conditions if each["type"] == "PodScheduled"), {})
        message = said.get("message", "") if said.get("status") == "False" else ""
        if may_wait not in pod["metadata"].get("labels", {}):
            yield f"{_name(pod)} waits although there is room: {message or 'no reason'}"
        elif not message:
            yield f"{_name(pod)} waits without a reason"
        elif pod["metadata"]["uid"] not in claims.explained:
            yield f"{_name(pod)} waits without an explanation in EXPLAIN"


def _of_claims(pods: Mapping[str, Object], claims: Claims) -> Iterator[str]:
    held = claims.held()
    for uid, count in Counter(claim.uid for claim in held).items():
        if count > 1:
            yield f"pod {uid} has {count} claims: {[claim for claim in held if claim.uid == uid]}"
    for claim in held:
        what = f"claim {claim.id} of {claim.name} ({claim.uid}) on {claim.node}"
        pod = pods.get(claim.uid)
        if pod is None:
            yield f"{what} is left over: there is no such pod that has not ended"
            continue
        if pod["spec"].get("nodeName") != claim.node:
            yield f"{what}, but the pod is on {pod['spec'].get('nodeName') or 'no node'}"
        uid, state = claims.outcomes.get(claim.node, {}).get(claim.id, ("", "none"))
        if (uid, state) != (claim.uid, "bound"):
            yield f"{what} has the outcome {state}{f' for {uid}' if uid not in ('', claim.uid) else ''}"


def _key(obj: Object) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _ended(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _name(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']} ({pod['metadata']['uid']})"
