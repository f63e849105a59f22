"""Decoding of Pods: identity, request, node and held devices."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from deviceshare.model import (
    DEFAULT_QUEUE,
    FormatError,
    GroupKey,
    PodFact,
    PodRequest,
    PodUid,
    Problem,
    fenced_claims,
    limited,
)
from deviceshare.objects.bounds import MAX_CHARACTERS, MAX_GATES, SMALL_BYTES, cut
from deviceshare.objects.eviction import read_eviction
from deviceshare.objects.held import read_held
from deviceshare.objects.lenient import decode_view, seconds
from deviceshare.objects.metadata import bounded_annotations, bounded_labels
from deviceshare.objects.pod_request import pod_request
from deviceshare.objects.pod_template import shared_request
from deviceshare.objects.pod_views import PodObject, PodSpec, TemplateObject, TemplateSpec
from deviceshare.objects.problems import Problems
from deviceshare.objects.resizing import with_status
from deviceshare.objects.unserved import selectable_elsewhere, unserved, until_running
from deviceshare.objects.views import Metadata, OwnerReference
from deviceshare.objects.volcano_topology import check_pod

GROUP_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
QUEUE_ANNOTATIONS = ("scheduling.volcano.sh/queue-name", "volcano.sh/queue-name")
TASK_NAME = "volcano.sh/task-spec"
"""Annotation, or else label, as in Volcano (getTaskRole of pkg/scheduler/api/job_info.go)."""
TASK_PRIORITY = "volcano.sh/task-priority"
"""Annotation that overrides the pod's priority, as in Volcano (NewTaskInfo of pkg/scheduler/api/job_info.go)."""

_NAMES = (*GROUP_ANNOTATIONS, *QUEUE_ANNOTATIONS, TASK_NAME)
_DECODER = msgspec.json.Decoder(PodObject)
_TEMPLATES = msgspec.json.Decoder(TemplateObject)
_RUNNING, _SUCCEEDED = "Running", "Succeeded"
_ENDED = (_SUCCEEDED, "Failed")
_WHOLE = re.compile(r"[+-]?[0-9]{1,10}")


def decode_pod(raw: bytes, keys: Sequence[bytes] = ()) -> PodFact:
    """Decode a Pod in JSON; ``keys``: the keys of :mod:`deviceshare.model.signatures`.

    Omits invalid parts and appends them to ``problems``: a pod with problems in ``spec`` requests more than ``ask``
    contains, and must not be placed. ``held`` contains all devices that the annotations name; if they are not
    ``signed``, :mod:`deviceshare.families.trust` determines how much of them counts.

    Raises:
        FormatError: the pod has no name or no uid.
    """
    try:
        parts = _TEMPLATES.decode(raw) if len(raw) <= SMALL_BYTES else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        parts = None
    if parts is not None and parts.metadata.name and parts.metadata.uid:
        problems = _bounded(parts.metadata, parts.spec, [])
        metadata = parts.metadata
        request = shared_request(
            parts.spec, metadata.namespace or "default", metadata.annotations or {}, metadata.labels or {}
        )
        if request is not None:
            return _fact(parts, parts.spec, request, keys, problems)
    view, found = decode_view(raw, _DECODER, "Pod")
    if not view.metadata.uid:
        subject = f"Pod {view.metadata.namespace or 'default'}/{view.metadata.name or ''}"
        raise FormatError(subject, "metadata.uid", "", "a uid")
    spec = view.spec or PodSpec()
    return _fact(view, spec, None, keys, _bounded(view.metadata, spec, found))


def _bounded(metadata: Metadata, spec: PodSpec | TemplateSpec, found: list[Problem]) -> Problems:
    """Cut what is no part of the request to its bounds; return the problems of the pod, with those ``found``."""
    problems = Problems(f"Pod {metadata.namespace or 'default'}/{metadata.name}", found)
    metadata.annotations = bounded_annotations(metadata.annotations, _NAMES, problems)
    metadata.labels = bounded_labels(metadata.labels, problems)
    if spec.scheduling_gates:
        spec.scheduling_gates = cut(spec.scheduling_gates, MAX_GATES, "spec.schedulingGates", problems)
    return problems


def _fact(
    view: PodObject | TemplateObject,
    spec: PodSpec | TemplateSpec,
    request: PodRequest | None,
    keys: Sequence[bytes],
    problems: Problems,
) -> PodFact:
    """Return the fact of a pod, whose request was decoded before, or is in its ``spec``."""
    metadata = view.metadata
    namespace, name, uid = metadata.namespace or "default", metadata.name or "", metadata.uid or ""
    ref = f"{namespace}/{name}"
    found = problems.found
    annotations = metadata.annotations or {}
    group = _first(annotations, GROUP_ANNOTATIONS)
    node = spec.node_name or ""
    phase = view.status.phase or "" if view.status else ""
    ended = phase in _ENDED
    podgroup = f"{namespace}/{group}" if group else ""
    labels = metadata.labels or {}
    if request is None:
        assert isinstance(spec, PodSpec)
        request = pod_request(spec, annotations, labels, (namespace, podgroup), problems)
    if not node:
        check_pod(annotations, problems)
    if node and not ended and view.status is not None:
        request = with_status(request, view.status)
    held, ours = read_held(annotations, request, ref, (uid, node), keys, found) if node and not ended else ((), False)
    conditions = view.status.conditions if node and not ended and view.status is not None else None
    eviction = read_eviction(annotations, labels, spec, conditions, problems)
    return PodFact(
        revision=metadata.resource_version or "",
        uid=PodUid(uid),
        namespace=namespace,
        name=name,
        scheduler=spec.scheduler_name or "",
        priority=spec.priority or 0,
        task_priority=_task_priority(annotations.get(TASK_PRIORITY, "")),
        created=seconds(metadata.creation_timestamp, "metadata.creationTimestamp", problems),
        node=node,
        running=bool(podgroup) and phase == _RUNNING and not metadata.deletion_timestamp,
        ended=ended,
        succeeded=phase == _SUCCEEDED,
        terminating=bool(metadata.deletion_timestamp),
        gates=tuple(gate.name or "" for gate in spec.scheduling_gates or ()),
        fenced=() if node else fenced_claims(annotations),
        group=GroupKey(podgroup or f"pod/{uid}"),
        queue=_first(annotations, QUEUE_ANNOTATIONS) or DEFAULT_QUEUE,
        task=annotations.get(TASK_NAME) or labels.get(TASK_NAME) or "",
        labels=tuple(sorted(labels.items())) if labels else (),
        ask=request,
        held=held,
        signed=ours,
        unserved=unserved(annotations, held, node, view.status, problems) if node else (),
        until_running=until_running(annotations, phase) if node else (),
        selectable=selectable_elsewhere(annotations, node),
        preemptable=eviction.preemptable,
        cooldown=eviction.cooldown,
        scheduled_at=eviction.scheduled_at,
        grace=eviction.grace,
        never_preempts=eviction.never_preempts,
        owner=_owner(metadata.owner_references or ()),
        problems=limited(found),
    )


def _owner(owners: Sequence[OwnerReference]) -> str:
    """Return the controller among the owners of a pod, else the first owner, as ``Kind/name``; '' if it has none."""
    owner = next((each for each in owners if each.controller), owners[0] if owners else None)
    return f"{owner.kind or ''}/{owner.name or ''}"[:MAX_CHARACTERS] if owner is not None else ""


def _task_priority(text: str) -> int | None:
    """Return a 32-bit priority, or None: as in Volcano, invalid values count as missing."""
    if _WHOLE.fullmatch(text) is None or not -(2**31) <= int(text) < 2**31:
        return None
    return int(text)


def _first(annotations: Mapping[str, str], keys: tuple[str, ...]) -> str:
    for key in keys:
        if value := annotations.get(key):
            return value
    return ""
