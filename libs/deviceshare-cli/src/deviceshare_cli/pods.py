"""Pods as commands show them: node and devices, or the reason why a pod is pending."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from deviceshare.model import ContainerGrant, not_served
from deviceshare_cluster.interface import Object
from deviceshare_metrics.api import Pod, PodDevice, PodState
from msgspec.structs import replace

SCHEDULERS = ("deviceshare", "volcano")
"""Default values of ``spec.schedulerName`` of the pods to place."""

_ENDED = ("Succeeded", "Failed")
"""Values of ``status.phase`` of ended pods."""

_DEFAULT_SCHEDULERS = {"Pod": "default-scheduler", "Job": "volcano"}
"""The scheduler of the pods of a kind without ``spec.schedulerName``, by the API server or Volcano's webhook."""


_BY_OPERATOR = (
    *("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob"),
    *("RayCluster", "RayJob", "RayService"),
)
"""Kinds whose operators set the scheduler of pods."""


def other_schedulers(manifest: Object, served: Sequence[str]) -> list[tuple[str, str]]:
    """Return a warning, a field and a text, if the pods of a manifest belong to another scheduler."""
    # Takes long to import.
    from deviceshare_localcluster.kinds import known_kind
    from deviceshare_localcluster.workloads import pod_template_paths

    kind = known_kind(manifest.get("apiVersion"), manifest.get("kind"))
    if kind is None or not served:
        return []
    paths: list[tuple[str | int, ...]] = [()]
    if kind.name not in ("Pod", "Job"):
        paths = [] if kind.name in _BY_OPERATOR else list(pod_template_paths(manifest))
    default = _DEFAULT_SCHEDULERS.get(kind.name, _DEFAULT_SCHEDULERS["Pod"])
    found = []
    for path in paths:
        place: Any = manifest
        for step in path:
            place = place[step]
        spec = place.get("spec")
        scheduler = (spec.get("schedulerName") or default) if isinstance(spec, dict) else None
        if isinstance(scheduler, str) and scheduler not in served:
            field = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in (*path, "spec"))
            found.append((f"{field.removeprefix('.')}.schedulerName", not_served(scheduler, served)))
    return found


def not_placed(pod: Object, served: Sequence[str]) -> str:
    """Return why a pod that exists is not listed: of another scheduler, ended before it was read, or not read yet."""
    found = unlisted(pod, served)
    return f"pod {found.namespace}/{found.name}: {found.reason}"


def unlisted(pod: Object, served: Sequence[str]) -> Pod:
    """Return a pod that exists and is not listed, as the JSON API would show it, with the reason why it is not."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    scheduler = spec.get("schedulerName") or _DEFAULT_SCHEDULERS["Pod"]
    node, phase = spec.get("nodeName"), (pod.get("status") or {}).get("phase")
    state: PodState = "Bound" if node else "Pending"
    reason = "it exists, and has not been read yet"
    if served and scheduler not in served:
        state, reason = state if node else "OtherScheduler", not_served(scheduler, served)
    if phase in _ENDED:
        state = "Ended"
        reason = f"it had ended ({phase}) when deviceshare first read it"
    return Pod(
        namespace=metadata.get("namespace", "default"),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        scheduler=scheduler,
        node=node,
        state=state,
        devices=(),
        reason=reason,
        queue="",
        group="",
        problems=(),
    )


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = "default"
    uid: str = ""
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    scheduler_name: str | None = None
    node_name: str | None = None


class _Condition(msgspec.Struct, rename="camel"):
    type: str = ""
    status: str = ""
    message: str | None = None


class _Status(msgspec.Struct, rename="camel"):
    phase: str | None = None
    conditions: list[_Condition] | None = None


class _Pod(msgspec.Struct, rename="camel"):
    metadata: _Metadata
    spec: _Spec
    status: _Status | None = None


class PodView(msgspec.Struct, frozen=True):
    """The fields of a pod that commands use; ``reason``: why it is pending, empty if unknown."""

    namespace: str
    name: str
    uid: str
    scheduler: str
    node: str
    ended: bool
    annotations: Mapping[str, str]
    reason: str
    reason_at: float = 0.0
    """As of when the reason is true, unix seconds; 0: now, or unknown."""

    @property
    def ref(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def answered(self) -> bool:
        """Whether the pod is bound, has ended, or has a reason why it is pending."""
        return bool(self.node or self.ended or self.reason)


_decode = msgspec.json.Decoder(_Pod).decode


def read_pod(raw: bytes) -> PodView:
    """Return the view of a Pod's JSON as the API server sends it."""
    pod = _decode(raw)
    status = pod.status or _Status()
    node = pod.spec.node_name or ""
    reason = ""
    if not node:
        for condition in status.conditions or ():
            if condition.type == "PodScheduled" and condition.status == "False":
                reason = condition.message or ""
    return PodView(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        scheduler=pod.spec.scheduler_name or "",
        node=node,
        ended=status.phase in _ENDED,
        annotations=pod.metadata.annotations or {},
        reason=reason,
    )


def devices_of(grants: Iterable[ContainerGrant]) -> tuple[PodDevice, ...]:
    """Return the devices of grants, in their order, with the ids of the device plugin.

    An id is ``UUID[group-position]`` for a MIG instance, else the card's id. ``memory`` is -1 for all of a card.
    """
    # Takes long to import.
    from deviceshare.families import BY_NAME

    return tuple(
        PodDevice(
            container=grant.container,
            id=BY_NAME[grant.family].device_id(device) if grant.family in BY_NAME else device.id,
            memory=device.memory,
            cores=device.cores,
        )
        for grant in grants
        for device in grant.devices
    )


def shown_device(device: PodDevice) -> str:
    """Return ``GPU-1 (1024 MiB, 50 cores)``."""
    if device.memory < 0:
        return f"{device.id} (whole card)"
    sizes = [f"{device.memory} MiB"] if device.memory else []
    sizes += [f"{device.cores} cores"] if device.cores else []
    return f"{device.id} ({', '.join(sizes)})" if sizes else device.id


def counted_devices(pod: Pod) -> str:
    """Return a pod's devices as one short text: equal shares of cards of a model as ``8 × A100 (40960 MiB)``."""
    models = {card.id: card.type for card in pod.cards}
    # A MIG instance is named UUID[group-position].
    shares = {replace(each, id=models.get(each.id.partition("[")[0], "")) for each in pod.devices}
    if len(pod.devices) < 2 or len(shares) > 1 or not (share := shares.pop()).id or not share.container:
        return shown_devices(pod.devices)
    return f"{len(pod.devices)} × {shown_device(share)}"


def shown_devices(devices: Iterable[PodDevice]) -> str:
    """Return devices as one text, with the containers' names if there are several containers; those of claims by id."""
    by_container: dict[str, list[str]] = {}
    plain: Counter[str] = Counter()
    for device in devices:
        if device.container or device.claim:
            by_container.setdefault(device.container, []).append(shown_device(device))
        else:
            plain[device.id] += 1
    if plain:
        by_container.setdefault("", []).extend(f"{count} × {resource}" for resource, count in sorted(plain.items()))
    if len(by_container) == 1:
        return ", ".join(*by_container.values())
    return "; ".join(
        f"{container}: {', '.join(shown)}" if container else ", ".join(shown)
        for container, shown in by_container.items()
    )
