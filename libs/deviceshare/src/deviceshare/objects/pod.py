"""Pods: identity, request, node and devices."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from deviceshare.model import FormatError, GroupKey, PodFact, PodRequest, PodUid, is_native
from deviceshare.objects.held import read_held
from deviceshare.objects.lenient import decode_view, seconds
from deviceshare.objects.pod_request import pod_request
from deviceshare.objects.unserved import unserved, until_running
from deviceshare.objects.views import PodObject, PodSpec

GROUP_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
QUEUE_ANNOTATIONS = ("scheduling.volcano.sh/queue-name", "volcano.sh/queue-name")
TASK_NAME = "volcano.sh/task-spec"
"""An annotation, or else a label, as in Volcano (getTaskRole of pkg/scheduler/api/job_info.go)."""
TASK_PRIORITY = "volcano.sh/task-priority"
"""An annotation in place of the pod's own priority, as in Volcano (NewTaskInfo of pkg/scheduler/api/job_info.go)."""
DEFAULT_QUEUE = "default"

_DECODER = msgspec.json.Decoder(PodObject)
_RUNNING, _SUCCEEDED = "Running", "Succeeded"
_ENDED = (_SUCCEEDED, "Failed")
_WHOLE = re.compile(r"[+-]?[0-9]{1,10}")


def decode_pod(raw: bytes, keys: Sequence[bytes] = ()) -> PodFact:
    """Return the fact of a Pod given as JSON; ``keys`` are the keys of :mod:`deviceshare.model.signatures`.

    Malformed fields are in ``problems`` and omitted: the ``ask`` of a pod with problems in ``spec`` is incomplete, and
    the pod must not be placed. ``held`` are all devices in its annotations; if they are not ``signed``,
    :mod:`deviceshare.families.trust` limits them.

    Raises:
        FormatError: the pod has no name or no uid.
    """
    view, problems = decode_view(raw, _DECODER, "Pod")
    metadata, spec = view.metadata, view.spec or PodSpec()
    namespace, name, uid = metadata.namespace or "default", metadata.name or "", metadata.uid
    ref = f"{namespace}/{name}"
    subject = f"Pod {ref}"
    if not uid:
        raise FormatError(subject, "metadata.uid", "", "a uid")
    annotations = metadata.annotations or {}
    group = _first(annotations, GROUP_ANNOTATIONS)
    node = spec.node_name or ""
    phase = (view.status.phase if view.status is not None else "") or ""
    ended = phase in _ENDED
    podgroup = f"{namespace}/{group}" if group else ""
    labels = metadata.labels or {}
    ask = pod_request(spec, annotations, labels, podgroup, subject, problems)
    held, ours = read_held(annotations, ask, ref, (uid, node), keys, problems) if node and not ended else ((), False)
    return PodFact(
        revision=metadata.resource_version or "",
        uid=PodUid(uid),
        namespace=namespace,
        name=name,
        scheduler=spec.scheduler_name or "",
        priority=spec.priority or 0,
        task_priority=_task_priority(annotations.get(TASK_PRIORITY, "")),
        created=seconds(metadata.creation_timestamp, subject, "metadata.creationTimestamp", problems),
        node=node,
        running=bool(podgroup) and phase == _RUNNING and not metadata.deletion_timestamp,
        ended=ended,
        succeeded=phase == _SUCCEEDED,
        terminating=bool(metadata.deletion_timestamp),
        gates=tuple(gate.name or "" for gate in spec.scheduling_gates or ()),
        group=GroupKey(podgroup or f"pod/{uid}"),
        queue=_first(annotations, QUEUE_ANNOTATIONS) or DEFAULT_QUEUE,
        task=annotations.get(TASK_NAME) or labels.get(TASK_NAME) or "",
        labels=tuple(sorted(labels.items())) if labels and _asks_devices(ask) else (),
        ask=ask,
        held=held,
        signed=ours,
        unserved=unserved(annotations, ask, held, phase) if node else (),
        until_running=until_running(annotations, phase) if node else (),
        problems=tuple(problems),
    )


def _task_priority(text: str) -> int | None:
    """Return a 32-bit number, None for other texts, which Volcano ignores."""
    if _WHOLE.fullmatch(text) is None or not -(2**31) <= int(text) < 2**31:
        return None
    return int(text)


def _first(annotations: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((value for key in keys if (value := annotations.get(key))), "")


def _asks_devices(ask: PodRequest) -> bool:
    """Return whether a pod requests any extended resource, as devices are."""
    return any(not is_native(name) for each in (*ask.containers, *ask.init_containers) for name, _ in each.resources)
