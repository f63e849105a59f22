"""PodGroups: gangs of pods, ``scheduling.volcano.sh/v1beta1``."""

import msgspec

from deviceshare.conf import WAITING_TIME, seconds_of
from deviceshare.model import GroupKey, PodGroupFact, Problem, Resources
from deviceshare.objects.amounts import read_amounts
from deviceshare.objects.lenient import decode_view, seconds
from deviceshare.objects.views import PodGroupObject, PodGroupSpec, Quantities
from deviceshare.state import PODS

_DECODER = msgspec.json.Decoder(PodGroupObject)
_WAITING = ("", "Pending")
"""Phases of a group that is not admitted to its queue."""
_EXPECTED = "a number of pods, 0 or more"


def decode_podgroup(raw: bytes) -> PodGroupFact:
    """Return the fact of a PodGroup given as JSON; malformed fields are in ``problems`` and have their default.

    Raises:
        FormatError: it has no name.
    """
    view, problems = decode_view(raw, _DECODER, "PodGroup")
    metadata, spec = view.metadata, view.spec or PodGroupSpec()
    key = f"{metadata.namespace or 'default'}/{metadata.name}"
    subject = f"PodGroup {key}"
    min_member = 1 if spec.min_member is None else spec.min_member
    if min_member < 0:
        problems.append(Problem(subject, "spec.minMember", str(min_member), _EXPECTED))
        min_member = 1
    min_task_member = {}
    for task, number in (spec.min_task_member or {}).items():
        if number < 0:
            problems.append(Problem(subject, f"spec.minTaskMember[{task}]", str(number), _EXPECTED))
        else:
            min_task_member[task] = number
    phase = (view.status.phase if view.status is not None else "") or ""
    return PodGroupFact(
        revision=metadata.resource_version or "",
        key=GroupKey(key),
        uid=metadata.uid or "",
        queue=spec.queue or "default",
        min_member=min_member,
        min_task_member=min_task_member,
        min_resources=_min_resources(spec.min_resources, subject, problems),
        phase=phase,
        admitted=phase not in _WAITING,
        waiting_time=_waiting_time((metadata.annotations or {}).get(WAITING_TIME), subject, problems),
        priority_class=spec.priority_class_name or "",
        created=seconds(metadata.creation_timestamp, subject, "metadata.creationTimestamp", problems),
        problems=tuple(problems),
    )


def _min_resources(given: Quantities | None, subject: str, problems: list[Problem]) -> Resources | None:
    if given is None:
        return None
    amounts = read_amounts(given, subject, "spec.minResources", problems)
    # Volcano ignores the resource pods (ignoredScalarResources of pkg/scheduler/api/resource_info.go).
    amounts.pop(PODS, None)
    return amounts


def _waiting_time(text: str | None, subject: str, problems: list[Problem]) -> float | None:
    if text is None:
        return None
    waiting = seconds_of(text)
    if waiting is None:
        problems.append(
            Problem(subject, f"metadata.annotations[{WAITING_TIME}]", text, "a time such as 90s, 30m or 1h30m")
        )
    return waiting
