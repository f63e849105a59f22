"""The stages of each pod, from its creation until it is bound, and whether the system kept up with the arrivals."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec
from deviceshare_bus.messages.codec import Events

STAGES = ("seen", "claimed", "bound")
"""Inventory has read the pod, its claim is in the ledger, a watch of the cluster has shown it bound."""
QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
MIN_SECONDS = 10.0
"""Seconds of arrivals that a judgement of the system needs, at least."""
OPEN_SECONDS = 1.0
"""Seconds of arrivals that may be open after the last arrival. A system that is slower has more after some seconds."""
OPEN_SHARE = 0.05
"""The share of the pods that may be open after the last arrival, also if they are less than the above."""
FEW_SECONDS = 0.1
"""Seconds of arrivals that may always be open."""
GROWTH = 2.0
"""How many times as long as that of the second fifth of the pods the median latency of the last fifth may be."""
SHORT = 0.05
"""Seconds of a median latency that is not looked at for growth."""
LATE = 0.25
"""Seconds by which the benchmark itself may be late with a creation, for its latencies to count."""


class Moments(msgspec.Struct):
    """When a pod reached each stage, in unix seconds; 0: never."""

    created: float
    seen: float = 0.0
    claimed: float = 0.0
    bound: float = 0.0


class Arrivals(msgspec.Struct, frozen=True):
    """How pods arrived at a given rate: ``open`` were not bound after the last arrival, ``late`` (seconds) is the
    longest delay of a creation by the benchmark itself.
    """

    rate: float
    open: int
    late: float


def add_steps(pods: Mapping[str, Moments], messages: Iterable[Events]) -> None:
    """Add the times of the steps of pods, which are by name; the first step of each name counts."""
    for events in messages:
        for step in events.steps:
            pod = pods.get(step.pod.partition("/")[2])
            if pod is None:
                continue
            if step.name == "seen" and not pod.seen:
                pod.seen = step.at
            elif step.name == "claimed" and not pod.claimed:
                pod.claimed = step.at


def since_creation(pods: Iterable[Moments]) -> dict[str, dict[str, float | None]]:
    """Return the quantiles of the seconds from the creation until each stage."""
    found: dict[str, list[float]] = {stage: [] for stage in STAGES}
    for pod in pods:
        for stage in STAGES:
            if at := getattr(pod, stage):
                found[stage].append(max(0.0, at - pod.created))
    return {stage: quantiles(seconds) for stage, seconds in found.items()}


def durations(pods: Iterable[Moments]) -> dict[str, dict[str, float | None]]:
    """Return the quantiles of the seconds from each stage to the next, by the later one."""
    pods = list(pods)
    found = {}
    for before, after in pairwise(("created", *STAGES)):
        reached = [(getattr(pod, before), getattr(pod, after)) for pod in pods]
        found[after] = quantiles([max(0.0, end - begin) for begin, end in reached if begin and end])
    return found


def quantiles(values: Iterable[float]) -> dict[str, float | None]:
    """Return each of :data:`QUANTILES`."""
    values = sorted(values)
    return {name: _rounded(quantile(values, share)) for name, share in QUANTILES.items()}


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return the quantile ``share`` (0 to 1) of sorted values; None if there are none."""
    return values[max(0, math.ceil(share * len(values)) - 1)] if values else None


def judgement(arrivals: Arrivals, pods: Sequence[Moments], bound_per_second: float) -> str:
    """Return in a sentence why the measurement is not one of a system that keeps up; '' if it is."""
    few = max(OPEN_SHARE * len(pods), FEW_SECONDS * arrivals.rate)
    if arrivals.open > min(few, OPEN_SECONDS * max(arrivals.rate, 1.0)):
        return (
            f"the system did not keep up with {arrivals.rate:g} pods/s: it bound {bound_per_second:.0f} pods/s, and "
            f"{arrivals.open} pods, {arrivals.open / arrivals.rate:.1f} s of arrivals, were not bound when the last "
            "one arrived: the latencies depend on the number of pods"
        )
    second, last = _medians(pods)
    if last > max(GROWTH * second, SHORT):
        return (
            f"the system did not keep up with {arrivals.rate:g} pods/s: the median latency grew from "
            f"{second * 1000:.0f} ms of the second fifth of the pods to {last * 1000:.0f} ms of the last fifth: the "
            "latencies depend on the number of pods"
        )
    if arrivals.late > LATE:
        return (
            f"the benchmark did not keep up with {arrivals.rate:g} pods/s: it created pods up to {arrivals.late:.2f} s "
            "late: the latencies contain this delay"
        )
    return ""


def _medians(pods: Iterable[Moments]) -> tuple[float, float]:
    """Return the median latencies of the second and the last fifth of the bound pods, by their creation."""
    created = sorted((pod.created, pod.bound) for pod in pods if pod.bound)
    seconds = [bound - at for at, bound in created]
    fifth = len(seconds) // 5
    second, last = seconds[fifth : 2 * fifth], seconds[len(seconds) - fifth :]
    return quantile(sorted(second), 0.5) or 0.0, quantile(sorted(last), 0.5) or 0.0


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
