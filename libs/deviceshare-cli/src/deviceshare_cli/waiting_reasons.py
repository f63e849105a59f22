"""Why pods wait today, by the metrics service: conditions have the reasons of the last decisions without times."""

from collections.abc import Mapping
from typing import NamedTuple

from deviceshare_metrics import api
from msgspec.structs import replace

from deviceshare_cli.endpoint import Endpoint
from deviceshare_cli.errors import CommandError
from deviceshare_cli.json_api import fetch
from deviceshare_cli.pods import PodView

_STATES: tuple[api.PodState, ...] = ("Pending", "Gated", "Claimed")
"""States of pods that are not bound."""


class WaitingReason(NamedTuple):
    """Why a pod waits, and as of when this is true: unix seconds, 0: now."""

    text: str
    at: float


async def waiting_reasons(metrics: Endpoint) -> Mapping[str, WaitingReason]:
    """Return why pods wait, by uid; none while the metrics service does not answer."""
    try:
        pods = (await fetch(metrics, "pods", api.Items[api.Pod], [("state", state) for state in _STATES])).items
    except CommandError:
        return {}
    return {pod.uid: reason for pod in pods if (reason := _reason(pod)).text}


def with_reason(pod: PodView, reasons: Mapping[str, WaitingReason]) -> PodView:
    """Return a pod with the reason that is given for it; the pod itself, if none is."""
    reason = reasons.get(pod.uid)
    return pod if reason is None else replace(pod, reason=reason.text, reason_at=reason.at)


def _reason(pod: api.Pod) -> WaitingReason:
    if pod.state == "Claimed" and not pod.reason:
        return WaitingReason(f"is being bound to node {pod.node}", 0.0)
    return WaitingReason(pod.reason or "; ".join(pod.problems), pod.reason_at)
