"""Life-cycle stages of pods, by the annotations of kwok's stages: when a bound pod starts, and when it ends.

``<stage>.stage.kwok.x-k8s.io/delay`` is a duration in Go's format (``1m30s``), ``…/jitter-delay`` a longer one: the
delay is then between the two. Stages: ``pod-create`` and ``pod-ready`` delay the start of a pod, ``pod-complete`` ends
it as Succeeded, for a ``restartPolicy`` other than Always. The label
``pod-container-running-failed.stage.kwok.x-k8s.io`` with the value ``true`` ends it as Failed, after the delay of this
stage. ``pod-delete`` delays the end of a pod that is deleted, within its grace period. Source: kubernetes-sigs/kwok
kustomize/stage/pod.

Differences: a pod without the annotations starts at once and does not end, and pods need no Job to end.
"""

import hashlib
import re
import time
from calendar import timegm
from collections.abc import Mapping
from typing import Any, NamedTuple

from deviceshare_cluster.changes import timestamp
from deviceshare_cluster.interface import Object

MARK = b".stage.kwok.x-k8s.io"
"""In the bytes of each pod that has stages."""
_SUFFIX = ".stage.kwok.x-k8s.io"
CREATE, READY, COMPLETE, FAIL = "pod-create", "pod-ready", "pod-complete", "pod-container-running-failed"
DELETE = "pod-delete"
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|us|µs|ns|m|s)")
_DURATION = re.compile(rf"0|(?:{_PART.pattern})+")
_TEN_YEARS = 10 * 365 * 86400.0
_DEFAULT_FAIL = 1.0
"""Seconds after which a pod with the label fails, as in kwok."""


class Stage(NamedTuple):
    """The next stage of a pod: the phase that it enters, ``at`` unix seconds."""

    phase: str
    at: float


class StageProblem(ValueError):
    """An annotation of a stage is invalid."""


def parse_duration(text: str) -> float:
    """Return the seconds of a duration in Go's format. Raises StageProblem."""
    if not _DURATION.fullmatch(text):
        raise StageProblem(f"{text!r} is not a duration such as 30s or 1m30s")
    return min(sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text)), _TEN_YEARS)


def waits(pod: Object) -> bool:
    """Return whether a pod does not start as soon as it is bound. Never raises: an invalid delay counts as none."""
    try:
        return _start_delay(pod) > 0
    except StageProblem:
        return False


def delay_of_deletion(pod: Object) -> float:
    """Return the seconds that a deleted pod takes to end. Never raises: an invalid delay counts as none."""
    try:
        return _delay(pod, DELETE) or 0.0
    except StageProblem:
        return 0.0


def next_stage(pod: Object) -> Stage | None:
    """Return the next stage of a pod, None if it has none. Raises StageProblem."""
    status = pod.get("status") or {}
    if not (pod.get("spec") or {}).get("nodeName"):
        return None
    # A pod of a manifest may have a node and no time of its start.
    start = seconds_at(status.get("startTime") or pod["metadata"].get("creationTimestamp"))
    if status.get("phase") == "Pending":
        return Stage("Running", start + _start_delay(pod))
    if status.get("phase") != "Running":
        return None
    running = max(start, _ready_since(status))
    if (pod["metadata"].get("labels") or {}).get(f"{FAIL}{_SUFFIX}") == "true":
        delay = _delay(pod, FAIL)
        return Stage("Failed", running + (_DEFAULT_FAIL if delay is None else delay))
    complete = _delay(pod, COMPLETE)
    if complete is None or (pod.get("spec") or {}).get("restartPolicy", "Always") == "Always":
        return None
    return Stage("Succeeded", running + complete)


def entered(pod: Object, phase: str, at: float) -> None:
    """Let a pod enter a phase, in place."""
    status = pod.setdefault("status", {})
    status["phase"] = phase
    ready = {"type": "Ready", "status": "True" if phase == "Running" else "False", "lastTransitionTime": timestamp(at)}
    if phase == "Succeeded":
        ready["reason"] = "PodCompleted"
    status["conditions"] = [one for one in status.get("conditions") or () if one.get("type") != "Ready"] + [ready]


def _start_delay(pod: Object) -> float:
    return (_delay(pod, CREATE) or 0.0) + (_delay(pod, READY) or 0.0)


def _delay(pod: Object, stage: str) -> float | None:
    """Return the delay of a stage, None without its annotation. Raises StageProblem."""
    annotations: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    found = {}
    for field in ("delay", "jitter-delay"):
        name = f"{stage}{_SUFFIX}/{field}"
        if name in annotations:
            try:
                found[field] = parse_duration(annotations[name])
            except StageProblem as problem:
                raise StageProblem(f"metadata.annotations[{name}]: {problem}") from None
    if not found:
        return None
    least = found.get("delay", 0.0)
    most = max(least, found.get("jitter-delay", least))
    digest = hashlib.sha256(f"{pod['metadata'].get('uid')} {stage}".encode()).digest()
    return least + (most - least) * int.from_bytes(digest[:4], "big") / 2**32


def _ready_since(status: Mapping[str, Any]) -> float:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Ready" and condition.get("status") == "True":
            return seconds_at(condition.get("lastTransitionTime"))
    return 0.0


def seconds_at(text: object) -> float:
    """Return the unix time of a timestamp, 0 if it is none."""
    try:
        return float(timegm(time.strptime(str(text)[:19], "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return 0.0
