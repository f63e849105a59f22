"""PodGroups, ``scheduling.volcano.sh/v1beta1``."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from deviceshare.conf import WAITING_TIME, seconds_of
from deviceshare.model import (
    ADMISSION,
    DEFAULT_QUEUE,
    DisruptionLimit,
    GroupKey,
    PodGroupFact,
    Resources,
    admission_signed,
    admission_terms,
    limited,
)
from deviceshare.objects.amounts import counted_amounts
from deviceshare.objects.bounds import MAX_RESOURCES, MAX_TASKS, cut
from deviceshare.objects.disruption_limit import read_limit
from deviceshare.objects.lenient import decode_view, seconds
from deviceshare.objects.policies import read_policies
from deviceshare.objects.problems import Problems
from deviceshare.objects.views import PodGroupObject, PodGroupSpec, Quantities
from deviceshare.objects.volcano_topology import check_group
from deviceshare.state import PODS

_DECODER = msgspec.json.Decoder(PodGroupObject)
_WAITING = ("", "Pending")
"""Phases of groups that are not admitted to their queue."""
JOB_MIN_AVAILABLE, JOB_MAX_UNAVAILABLE = "volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable"
_DIGITS = re.compile(r"[0-9]{1,9}")
_EXPECTED = "a number of pods, 0 or more"


def decode_podgroup(raw: bytes, keys: Sequence[bytes] = ()) -> PodGroupFact:
    """Decode a PodGroup in JSON; invalid fields have their default and are in ``problems``.

    With signing keys its phase shows that it was admitted only if our signature covers its queue and ``minResources``:
    who may create a PodGroup may write its status, which is no subresource.

    Raises:
        FormatError: the object has no name.
    """
    view, found = decode_view(raw, _DECODER, "PodGroup")
    metadata, spec = view.metadata, view.spec or PodGroupSpec()
    key = f"{metadata.namespace or 'default'}/{metadata.name}"
    problems = Problems(f"PodGroup {key}", found)
    min_member = 1 if spec.min_member is None else spec.min_member
    if min_member < 0:
        problems.add("spec.minMember", str(min_member), _EXPECTED)
        min_member = 1
    min_task_member = {}
    for task, number in cut(spec.min_task_member or {}, MAX_TASKS, "spec.minTaskMember", problems).items():
        if number < 0:
            problems.add(f"spec.minTaskMember[{task}]", str(number), _EXPECTED)
        else:
            min_task_member[task] = number
    phase = view.status.phase or "" if view.status else ""
    caveats = check_group(spec, problems)
    disruption_limit, of_limit = _disruption_limit(metadata.annotations or {}, problems.subject)
    uid, queue = metadata.uid or "", spec.queue or DEFAULT_QUEUE
    min_resources = _min_resources(spec.min_resources, problems)
    admitted = phase not in _WAITING
    if admitted and keys:
        signature = (metadata.annotations or {}).get(ADMISSION, "")
        admitted = admission_signed(keys, uid, admission_terms(queue, min_resources), signature)
    return PodGroupFact(
        revision=metadata.resource_version or "",
        key=GroupKey(key),
        uid=uid,
        queue=queue,
        min_member=min_member,
        min_task_member=min_task_member,
        min_resources=min_resources,
        phase=phase,
        admitted=admitted,
        waiting_time=_waiting_time((metadata.annotations or {}).get(WAITING_TIME), problems),
        priority_class=spec.priority_class_name or "",
        policies=read_policies(metadata.annotations, problems),
        disruption_limit=disruption_limit,
        created=seconds(metadata.creation_timestamp, "metadata.creationTimestamp", problems),
        problems=limited(found),
        caveats=(*caveats, *of_limit),
    )


def _disruption_limit(annotations: Mapping[str, str], subject: str) -> tuple[DisruptionLimit | None, tuple[str, ...]]:
    """Return the budget of the job, None without one, and what is wrong with it: none of its pods may go then.

    Source: Volcano pkg/scheduler/api (extractBudget).
    """
    least, most = annotations.get(JOB_MIN_AVAILABLE), annotations.get(JOB_MAX_UNAVAILABLE)
    if least is None and most is None:
        return None, ()
    problems = Problems(subject, [])
    limit = read_limit(
        (_as_number(least), f"metadata.annotations[{JOB_MIN_AVAILABLE}]"),
        (_as_number(most), f"metadata.annotations[{JOB_MAX_UNAVAILABLE}]"),
        problems,
    )
    return limit, tuple(map(str, problems.found))


def _as_number(text: str | None) -> int | str | None:
    return int(text) if text is not None and _DIGITS.fullmatch(text) else text


def _min_resources(given: Quantities | None, problems: Problems) -> Resources | None:
    if given is None:
        return None
    amounts = counted_amounts(cut(given, MAX_RESOURCES, "spec.minResources", problems), "spec.minResources", problems)
    # Volcano never compares pods (ignoredScalarResources of pkg/scheduler/api/resource_info.go).
    amounts.pop(PODS, None)
    return amounts


def _waiting_time(text: str | None, problems: Problems) -> float | None:
    if text is None:
        return None
    waiting = seconds_of(text)
    if waiting is None:
        problems.add(f"metadata.annotations[{WAITING_TIME}]", text, "a time such as 90s, 30m or 1h30m")
    return waiting
