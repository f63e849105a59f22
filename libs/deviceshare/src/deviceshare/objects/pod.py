"""Pods: who they are, what they ask, where they run and what they hold there."""

from collections.abc import Mapping

import msgspec

from deviceshare.claims import ContainerGrant
from deviceshare.errors import FormatError, Problem
from deviceshare.facts import GroupKey, PodAsk, PodFact, PodUid
from deviceshare.families import FAMILIES
from deviceshare.families.protocol import HeldInPart
from deviceshare.objects.ask import pod_ask
from deviceshare.objects.lenient import decode_view, seconds
from deviceshare.objects.views import PodObject, PodSpec
from deviceshare.quantity import is_native

GROUP_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
QUEUE_ANNOTATIONS = ("scheduling.volcano.sh/queue-name", "volcano.sh/queue-name")
TASK_ANNOTATION = "volcano.sh/task-spec"
DEFAULT_QUEUE = "default"

_DECODER = msgspec.json.Decoder(PodObject)
_SUCCEEDED = "Succeeded"
_ENDED = (_SUCCEEDED, "Failed")


def decode_pod(raw: bytes) -> PodFact:
    """Return the fact of a Pod given as JSON.

    What cannot be read is in ``problems`` and absent otherwise: a pod with problems in ``spec`` asks more than ``ask``
    says, and must not be placed.

    Raises:
        FormatError: where the pod has no name or no uid.
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
    ended = view.status is not None and view.status.phase in _ENDED
    podgroup = f"{namespace}/{group}" if group else ""
    labels = metadata.labels or {}
    ask = pod_ask(spec, annotations, labels, podgroup, subject, problems)
    return PodFact(
        revision=metadata.resource_version or "",
        uid=PodUid(uid),
        namespace=namespace,
        name=name,
        scheduler=spec.scheduler_name or "",
        priority=spec.priority or 0,
        created=seconds(metadata.creation_timestamp, subject, "metadata.creationTimestamp", problems),
        node=node,
        ended=ended,
        succeeded=ended and view.status is not None and view.status.phase == _SUCCEEDED,
        terminating=bool(metadata.deletion_timestamp),
        gates=tuple(gate.name or "" for gate in spec.scheduling_gates or ()),
        group=GroupKey(podgroup or f"pod/{uid}"),
        queue=_first(annotations, QUEUE_ANNOTATIONS) or DEFAULT_QUEUE,
        task=annotations.get(TASK_ANNOTATION, ""),
        labels=tuple(sorted(labels.items())) if labels and _asks_devices(ask) else (),
        ask=ask,
        held=_held(annotations, ask, ref, problems) if node and not ended and annotations else (),
        problems=tuple(problems),
    )


def _first(annotations: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((value for key in keys if (value := annotations.get(key))), "")


def _asks_devices(ask: PodAsk) -> bool:
    """Return whether a pod asks any extended resource: devices are such."""
    return any(not is_native(name) for each in (*ask.containers, *ask.init_containers) for name, _ in each.resources)


def _held(annotations: Mapping[str, str], ask: PodAsk, ref: str, problems: list[Problem]) -> tuple[ContainerGrant, ...]:
    held: list[ContainerGrant] = []
    for family in FAMILIES:
        try:
            held += family.held(annotations, ask, ref)
        except FormatError as error:
            held += error.grants if isinstance(error, HeldInPart) else ()
            # Families that share an annotation find the same wrong with it.
            if error.problem not in problems:
                problems.append(error.problem)
    return tuple(held)
