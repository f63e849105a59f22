"""Tables of Kubernetes objects: PodGroups, Queues, Jobs, PodDisruptionBudgets and Events."""

import time
from calendar import timegm
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from deviceshare_cluster.interface import Object
from deviceshare_metrics import api

from deviceshare_cli.output import NONE, Table
from deviceshare_cli.tables import age, as_of

_PHASES = ("pending", "inqueue", "running", "unknown", "completed")


def podgroups_table(groups: Sequence[Object], wide: bool, now: float) -> Table:
    """Return the table of PodGroups with the reason of the condition Unschedulable, if it is the latest.

    ``now`` in unix seconds.
    """
    more = ["QUEUE", "MINRESOURCES"] if wide else []
    head = ["NAMESPACE", "NAME", "STATUS", "MINMEMBER", "RUNNINGS", *more, "REASON"]
    rows = []
    for group in groups:
        metadata, spec, status = group["metadata"], group.get("spec") or {}, group.get("status") or {}
        row = [metadata.get("namespace", ""), metadata["name"], status.get("phase") or NONE]
        row += [str(spec.get("minMember", 1)), str(status.get("running") or 0)]
        if wide:
            row += [spec.get("queue") or NONE, amounts(spec.get("minResources"))]
        rows.append([*row, _reason(status, now)])
    return head, rows


def queues_table(queues: Sequence[Object], pods: Mapping[str, Mapping[api.PodState, int]], wide: bool) -> Table:
    """Return the table of Queues: state and number of PodGroups in each phase; which namespaces may use them.

    ``pods``: the number of pods of each queue by their state.
    """
    head = ["NAME", "WEIGHT", "STATE", *(f"{phase.upper()} GROUPS" for phase in _PHASES)]
    head += ["WAITING PODS", "BOUND PODS", "CAPABILITY", *(["NAMESPACES"] if wide else [])]
    rows = []
    for queue in queues:
        spec, status = queue.get("spec") or {}, queue.get("status") or {}
        counts = [str(status.get(phase) or 0) for phase in _PHASES]
        name = queue["metadata"]["name"]
        row = [name, str(spec.get("weight", 1)), status.get("state") or NONE]
        of_queue = pods.get(name, {})
        row += [*counts, str(sum(of_queue.get(state, 0) for state in api.WAITING)), str(of_queue.get("Bound", 0))]
        row += [amounts(spec.get("capability"))]
        rows.append([*row, namespaces_of(queue) or "all"] if wide else row)
    return head, rows


def namespaces_of(queue: Object) -> str:
    """Return the namespaces that may use a Queue, '' for all."""
    from deviceshare.objects import decode_queue

    return decode_queue(msgspec.json.encode(queue)).served


def jobs_table(jobs: Sequence[Object], now: float) -> Table:
    """Return the table of Volcano's Jobs; ``now`` in unix seconds."""
    head = ["NAMESPACE", "NAME", "STATUS", "MINAVAILABLE", "REPLICAS", "QUEUE", "AGE"]
    rows = []
    for job in jobs:
        metadata, spec, status = job["metadata"], job.get("spec") or {}, job.get("status") or {}
        replicas = sum(task.get("replicas", 1) for task in spec.get("tasks") or ())
        phase = (status.get("state") or {}).get("phase") or NONE
        row = [metadata.get("namespace", ""), metadata["name"], phase, str(spec.get("minAvailable", replicas))]
        rows.append([*row, str(replicas), spec.get("queue") or NONE, since(metadata.get("creationTimestamp"), now)])
    return head, rows


def budgets_table(budgets: Sequence[Object], now: float) -> Table:
    """Return the table of PodDisruptionBudgets, with the columns of ``kubectl``; ``now`` in unix seconds."""
    head = ["NAMESPACE", "NAME", "MIN AVAILABLE", "MAX UNAVAILABLE", "ALLOWED DISRUPTIONS", "AGE"]
    rows = []
    for budget in budgets:
        metadata, spec, status = budget["metadata"], budget.get("spec") or {}, budget.get("status") or {}
        limits = [str(spec[field]) if field in spec else "N/A" for field in ("minAvailable", "maxUnavailable")]
        row = [metadata.get("namespace", ""), metadata["name"], *limits, str(status.get("disruptionsAllowed") or 0)]
        rows.append([*row, since(metadata.get("creationTimestamp"), now)])
    return head, rows


def events_table(events: Sequence[Object], now: float, wide: bool) -> Table:
    """Return the table of Events; ``now`` in unix seconds."""
    more = ["COUNT", "SOURCE"] if wide else []
    head = ["NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", *more, "MESSAGE"]
    rows = []
    for event in events:
        about = event.get("involvedObject") or {}
        row = [event["metadata"].get("namespace", ""), since(last_seen(event), now), event.get("type", "")]
        row += [event.get("reason", ""), f"{about.get('kind', '').lower()}/{about.get('name', '')}"]
        if wide:
            row += [str(event.get("count", 1)), (event.get("source") or {}).get("component") or NONE]
        rows.append([*row, event.get("message", "")])
    return head, rows


def last_seen(event: Object) -> str | None:
    """Return the time at which an Event was last seen."""
    found: str | None = event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp")
    return found


def since(timestamp: object, now: float) -> str:
    """Return the age of a timestamp of the API server; ``<unknown>`` if it has none."""
    at = _seconds(timestamp)
    return "<unknown>" if at is None else age(now - at)


def _seconds(timestamp: object) -> float | None:
    """Return a timestamp of the API server in unix seconds, None if it is none."""
    try:
        return float(timegm(time.strptime(str(timestamp)[:19], "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return None


def amounts(quantities: Mapping[str, Any] | None) -> str:
    """Return quantities by resource on one line."""
    return ", ".join(f"{name}: {amount}" for name, amount in sorted((quantities or {}).items())) or NONE


def _reason(status: Mapping[str, Any], now: float) -> str:
    """Return the latest condition, if it is the reason why pods wait."""
    condition = (status.get("conditions") or [{}])[-1]
    if condition.get("type") != "Unschedulable" or condition.get("status") != "True":
        return ""
    return f"{condition.get('reason')}: {condition.get('message')}{as_of(written_at(condition), now)}"


def written_at(condition: Mapping[str, Any]) -> float:
    """Return when a condition of a PodGroup was written, unix seconds; 0 if it does not say so."""
    return _seconds(condition.get("lastTransitionTime")) or 0.0
