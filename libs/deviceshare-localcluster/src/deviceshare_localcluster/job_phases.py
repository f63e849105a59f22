"""The phase of Volcano's Job, from its pods.

Source: volcano-sh/volcano pkg/controllers/job/state (pending.go, running.go), without the actions of policies, which
the local cluster does not play.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from deviceshare_cluster.interface import Object

from deviceshare_localcluster.jobs import pod_names

PENDING, RUNNING, COMPLETED, FAILED = "Pending", "Running", "Completed", "Failed"
_UNFINISHED = (PENDING, RUNNING, "Restarting")
_ENDED = ("Succeeded", "Failed")


def job_state(job: Object) -> dict[str, Any]:
    """Return ``status.state`` of a stored Job; its phase is Pending if none is stored, as by an earlier version."""
    state = (job.get("status") or {}).get("state")
    state = state if isinstance(state, dict) else {}
    phase = state.get("phase")
    return {**state, "phase": phase if phase and isinstance(phase, str) else PENDING}


def is_finished(job: Object) -> bool:
    """Return whether a Job shows that it has ended: it makes no pods any more."""
    return job_state(job)["phase"] not in _UNFINISHED


def next_phase(job: Object, pod_phases: Mapping[str, str]) -> str:
    """Return the phase of an admitted Job now; ``pod_phases``: those of its pods, by name."""
    before: str = job_state(job)["phase"]
    if is_finished(job):
        return before
    by_task: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, task, _ in pod_names(job):
        by_task[task["name"]][pod_phases.get(name, "")] += 1
    counts = sum(by_task.values(), Counter[str]())
    spec, replicas = job["spec"], counts.total()
    started = sum(counts[phase] for phase in (RUNNING, *_ENDED))
    if before != RUNNING and started < spec["minAvailable"]:
        return PENDING
    least_succeeded = spec.get("minSuccess")
    if replicas and least_succeeded is not None and counts["Succeeded"] >= least_succeeded:
        return COMPLETED
    if replicas and sum(counts[phase] for phase in _ENDED) == replicas:
        return COMPLETED if _has_succeeded(job, by_task, counts["Succeeded"]) else FAILED
    return PENDING if counts[PENDING] > replicas - spec["minAvailable"] else RUNNING


def _has_succeeded(job: Object, by_task: Mapping[str, Counter[str]], succeeded: int) -> bool:
    """Return whether enough pods of a Job have succeeded, all of whose pods have ended."""
    spec = job["spec"]
    if spec["minAvailable"] >= sum(task["minAvailable"] for task in spec["tasks"]):
        for task in spec["tasks"]:
            if task["replicas"] and by_task[task["name"]]["Succeeded"] < task["minAvailable"]:
                return False
    least: int = spec["minAvailable"] if spec.get("minSuccess") is None else spec["minSuccess"]
    return succeeded >= least
