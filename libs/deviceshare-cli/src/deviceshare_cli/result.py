"""The result of ``up``: node, devices or reason of each pod, as JSON or as a table."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from deviceshare.model import Claim
from deviceshare_cluster.interface import Object
from deviceshare_metrics.api import PodDevice, decided_devices, whole_cards

from deviceshare_cli.output import NONE, indented_json, table
from deviceshare_cli.pods import PodView, devices_of, shown_devices
from deviceshare_cli.tables import as_of


class PodResult(msgspec.Struct, frozen=True):
    """One pod: its node and devices, or the reason why it is pending."""

    namespace: str
    name: str
    node: str | None
    devices: tuple[PodDevice, ...]
    annotations: Mapping[str, str]
    reason: str | None
    reason_at: float = 0.0
    """As of when the reason is true, unix seconds; 0: now, or there is none."""


class Rejected(msgspec.Struct, frozen=True):
    """An object that could not be loaded, and why."""

    object: str
    message: str


class Result(msgspec.Struct, frozen=True):
    """The result of a run; ``open`` lists unfinished work, and is empty unless the timeout expired."""

    pods: tuple[PodResult, ...]
    rejected: tuple[Rejected, ...]
    warnings: tuple[str, ...]
    settled: bool
    open: tuple[str, ...]


class RefusedPod(msgspec.Struct, frozen=True):
    """A pod that failed the validation of the API server: it does not exist, but the result lists it."""

    namespace: str
    name: str
    annotations: Mapping[str, str]
    message: str


def refused_pod(
    manifest: Object, namespace: str, name: str, message: str, schedulers: Iterable[str]
) -> RefusedPod | None:
    """Return the refused pod of a manifest, or None if it belongs to another scheduler."""
    spec = manifest.get("spec")
    scheduler = spec.get("schedulerName") if isinstance(spec, dict) else None
    if isinstance(scheduler, str) and scheduler not in schedulers:
        return None
    metadata = manifest.get("metadata")
    annotations: Any = metadata.get("annotations") if isinstance(metadata, dict) else None
    shown = {str(key): str(value) for key, value in annotations.items()} if isinstance(annotations, dict) else {}
    return RefusedPod(namespace or "default", name, shown, message)


def pod_results(
    pods: Iterable[tuple[PodView, tuple[PodDevice, ...]]], claims: Mapping[str, Claim], refused: Iterable[RefusedPod]
) -> tuple[PodResult, ...]:
    """Return the pods in the order of namespace and name.

    The claim of a pod (``claims`` by uid) takes precedence over the devices of its annotations, which are in ``pods``.
    """
    found: dict[tuple[str, str], PodResult] = {}
    for one in refused:
        found[one.namespace, one.name] = PodResult(one.namespace, one.name, None, (), one.annotations, one.message)
    for pod, held in pods:
        claim = claims.get(pod.uid)
        found[pod.namespace, pod.name] = PodResult(
            namespace=pod.namespace,
            name=pod.name,
            node=pod.node or None,
            devices=(devices_of(claim.grants) + decided_devices(claim.devices) if claim else held) if pod.node else (),
            annotations=pod.annotations,
            reason=None if pod.node else pod.reason or None,
            reason_at=0.0 if pod.node else pod.reason_at,
        )
    return tuple(found[key] for key in sorted(found))


def as_json(result: Result) -> str:
    """Return a result as indented JSON."""
    return indented_json(result)


def as_table(pods: Sequence[PodResult], claims: Iterable[Claim], now: float) -> str:
    """Return the table of pods at ``now`` (unix seconds).

    ``claims`` add the cards that a device plugin offers as a plain number.
    """
    plain = {(claim.namespace, claim.name): whole_cards(claim.resources, claim.grants) for claim in claims}
    rows = []
    for pod in pods:
        devices = pod.devices + (plain.get((pod.namespace, pod.name), ()) if pod.node else ())
        reason = (pod.reason or "") + as_of(pod.reason_at, now)
        rows.append((pod.namespace, pod.name, pod.node or NONE, shown_devices(devices) or NONE, reason))
    return table(("NAMESPACE", "NAME", "NODE", "DEVICES", "REASON"), rows)
